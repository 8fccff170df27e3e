"""Forgetting by the clock: gaps decay as they should, in any blocks; time never runs backwards."""

from __future__ import annotations

import datetime
import pickle

import naive
import numpy as np
import pytest

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    NoveltyDetector,
    expansions,
    kernels,
    losses,
    rules,
    schedules,
)
from onkel.clock import seconds, times_of

ROWS = 150
GAMMA, RATE, HOUR = 0.5, 0.3, 3600.0


def stream(rng, rows=ROWS):
    """Rows at odd moments: bursts, pauses, several at once, one very long gap."""
    gaps = rng.exponential(600.0, rows) * (rng.random(rows) < 0.8)
    gaps[rows // 2] = 5 * HOUR
    times = 1.7e9 + np.cumsum(gaps)
    X = rng.normal(size=(rows, 2))
    return X, np.where(X[:, 0] * X[:, 1] > 0, 1, -1), times


def model(kind, **more):
    rule = rules.Norma(learning_rate=RATE, memory="1h")
    made = {
        "classifier": lambda: KernelClassifier(kernel=kernels.Gaussian(GAMMA), rule=rule, **more),
        "regressor": lambda: KernelRegressor(
            kernel=kernels.Gaussian(GAMMA), loss=losses.EpsilonInsensitive(nu=0.2), rule=rule,
            fit_intercept=True, **more,
        ),
        "detector": lambda: NoveltyDetector(
            nu=0.1, kernel=kernels.Gaussian(GAMMA), rule=rule, **more
        ),
    }  # fmt: skip
    return made[kind]()


@pytest.mark.few
@pytest.mark.parametrize("kind", ["classifier", "regressor", "detector"])
@pytest.mark.parametrize("window", [{"terms": None}, {"terms": 20}, {"age": 30}], ids=repr)
def test_equals_the_plain_loop(rng, kind, window):
    X, y, times = stream(rng)
    loss = {"classifier": "soft_margin", "regressor": "epsilon_insensitive", "detector": "novelty"}
    nu = {"classifier": None, "regressor": 0.2, "detector": 0.1}[kind]
    rule = naive.ByClock(lambda t: RATE, 0.0, nu, times=times, duration=HOUR)
    ours = model(kind, scale=False, expansion=expansions.Window(**window))
    start = 1.0 if kind == "classifier" else 0.0
    twin = naive.Learner(
        loss=loss[kind], rule=rule, start=start, kernel=naive.gaussian(GAMMA),
        max_terms=window.get("terms"), **({"age": naive.age(30)} if "age" in window else {}),
    )  # fmt: skip
    target = X[:, 0] if kind == "regressor" else y
    truth = [float(np.ravel(twin.learn_one(x, [t]))[0]) for x, t in zip(X, target, strict=True)]
    if kind == "classifier":
        found = ours.predict_then_learn(X, y, output="decision", time=times)
    elif kind == "regressor":
        found = ours.predict_then_learn(X, target, time=times)
    else:
        found = ours.predict_then_learn(X, output="score", time=times)
    np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-11)


def test_even_gaps_equal_forgetting_by_count(rng):
    X, y, _ = stream(rng)
    left = np.exp(-60.0 / HOUR)
    clock = model("classifier", scale=False)
    count = KernelClassifier(
        kernel=kernels.Gaussian(GAMMA), scale=False,
        rule=rules.Norma(learning_rate=RATE, regularization=(1 - left) / RATE),
    )  # fmt: skip
    a = clock.predict_then_learn(X, y, output="decision", time=60.0 * np.arange(ROWS))
    b = count.predict_then_learn(X, y, output="decision")
    # The first row has no gap before it, but f is 0 there; only b is not forgotten in either.
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.few
@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("kind", ["classifier", "regressor", "detector"])
def test_any_blocks_and_single_rows(rng, kind, size):
    X, y, times = stream(rng, 400)
    y = X[:, 0] if kind == "regressor" else y
    whole, parts = model(kind), model(kind)
    whole.partial_fit(X, y, time=times)
    for i in range(0, 400, size):
        if size == 1 and i % 5:
            parts.learn_one(X[i], y[i], time=float(times[i]))
        else:
            parts.partial_fit(X[i : i + size], y[i : i + size], time=times[i : i + size])

    def show(m):
        return m.predict(X) if kind == "regressor" else m.decision_function(X)

    np.testing.assert_allclose(show(parts), show(whole), rtol=1e-9, atol=1e-10)
    assert parts._learner.refreshed == whole._learner.refreshed
    np.testing.assert_allclose(
        parts._learner.moments.variance, whole._learner.moments.variance, rtol=1e-10
    )


def test_moments_are_those_of_decaying_weights(rng):
    X, y, times = stream(rng)
    found = model("classifier").partial_fit(X, y, time=times)._learner.moments
    weight = np.exp(-(times[-1] - times) / HOUR)
    mean = weight @ X / weight.sum()
    np.testing.assert_allclose(found.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(found.variance, weight @ (X - mean) ** 2 / weight.sum(), rtol=1e-9)
    np.testing.assert_allclose(found.seen, weight.sum(), rtol=1e-10)


@pytest.mark.parametrize("kernel", [kernels.Additive(kernels.Exponential()), None], ids=repr)
def test_trees_and_weights_forget_alike(rng, kernel):
    X, y, times = stream(rng)
    rule = rules.Norma(learning_rate=schedules.InverseSqrt(RATE), memory="1h")
    if kernel is None:
        a = LinearClassifier(rule=rule)
        b = KernelClassifier(kernel="linear", rule=rule, fit_intercept=True)
    else:
        a = KernelClassifier(kernel=kernel, rule=rule, expansion="tree")
        b = KernelClassifier(kernel=kernel, rule=rule)
    found = a.predict_then_learn(X, y, output="decision", time=times)
    truth = b.predict_then_learn(X, y, output="decision", time=times)
    np.testing.assert_allclose(found, truth, rtol=1e-8, atol=1e-9)


def test_a_gap_of_years_leaves_nothing(rng):
    X, y, times = stream(rng)
    clf = model("classifier", scale=False, fit_intercept=False).partial_fit(X, y, time=times)
    clf.learn_one(np.zeros(2), 1, time=times[-1] + 1e9)
    assert clf.decision_function([[0.0, 0.0]])[0] == pytest.approx(RATE)
    assert clf.n_terms_ == 1


def test_all_ways_to_write_a_time(rng):
    X, y, times = stream(rng)
    times = np.floor(times)
    dates = times.astype("int64").astype("datetime64[s]")
    zone = datetime.timezone(datetime.timedelta(hours=2))
    ways = [
        times, times.astype(int), times.tolist(), dates, dates.astype("datetime64[ns]"),
        dates.tolist(), [datetime.datetime.fromtimestamp(t, zone) for t in times],
    ]  # fmt: skip
    first = model("classifier").predict_then_learn(X, y, output="decision", time=times)
    for way in ways:
        again = model("classifier").predict_then_learn(X, y, output="decision", time=way)
        np.testing.assert_array_equal(again, first)
    one = model("classifier").partial_fit(X, y, time=times)
    one.learn_one(X[0], 1, time=dates[-1] + np.timedelta64(1, "m"))
    assert one._learner.clock == times[-1] + 60


def test_data_frames_bring_dates(rng):
    pd = pytest.importorskip("pandas")
    X, y, times = stream(rng)
    when = pd.Series(pd.to_datetime(times, unit="s", utc=True))
    a = model("classifier").partial_fit(X, y, time=when)
    b = model("classifier").partial_fit(X, y, time=times)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), rtol=1e-6)


DURATIONS = {
    "90s": 90.0, "250ms": 0.25, "30min": 1800.0, " 1.5 h ": 5400.0, "2d": 172800.0, "1w": 604800.0,
    datetime.timedelta(hours=2): 7200.0, np.timedelta64(3, "m"): 180.0,
}  # fmt: skip


def test_durations():
    assert {k: seconds(k) for k in DURATIONS} == DURATIONS
    for bad in ("", "soon", "5", "-1h", "0h", "1 year", "1h30", datetime.timedelta(-1)):
        assert seconds(bad) is None
        with pytest.raises(ValueError, match=r"Norma: memory must be .*duration.*got"):
            rules.Norma(memory=bad)


def test_what_is_refused_changes_nothing(rng):
    X, y, times = stream(rng)
    clf = model("classifier").partial_fit(X[:100], y[:100], time=times[:100])
    before = pickle.dumps(clf)
    late = times[100:].copy()
    late[7] = times[0]
    wrong = {
        "runs backwards at row 7": late,
        "runs backwards at row 0": times[:50],
        "must be finite; row 3": np.where(np.arange(50) == 3, np.nan, times[100:]),
        r"one value per row, shape \(50,\); got \(49,\)": times[101:],
        "one number .seconds. or date": np.array(["noon"] * 50),
        "goes by the clock: give time=": None,
    }
    for match, time in wrong.items():
        with pytest.raises(ValueError, match=match):
            clf.partial_fit(X[100:], y[100:], time=time)
        assert pickle.dumps(clf) == before
    with pytest.raises(ValueError, match="backwards"):
        clf.learn_one(X[0], 1, time=0.0)
    assert pickle.dumps(clf) == before
    with pytest.raises(ValueError, match="forgets by examples"):
        KernelClassifier().partial_fit(X, y, time=times)
    with pytest.raises(ValueError, match="passes=2 would run time backwards"):
        model("classifier", passes=2).fit(X, y, time=times)
    assert times_of(np.array(["2026-01-01"], "datetime64[D]"), 1) == [1767225600.0]
    with pytest.raises(ValueError, match="finite"):
        times_of(np.array(["NaT"], "datetime64[s]"), 1)


def test_fit_takes_times_and_rows_of_no_weight_let_time_pass(rng):
    X, y, times = stream(rng)
    weight = np.ones(ROWS)
    weight[::3] = 0.0
    a = model("classifier").fit(X, y, time=times, sample_weight=weight)
    b = model("classifier").fit(X[weight > 0], y[weight > 0], time=times[weight > 0])
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), rtol=1e-9)
