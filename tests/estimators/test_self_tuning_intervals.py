"""The self-tuning regressor's intervals: the formula, the coverage, the protocol."""

from __future__ import annotations

import copy
from itertools import pairwise

import naive
import numpy as np
import pytest
from helpers.fingerprint import fingerprint
from helpers.sizes import size

from onkel import (
    KernelRegressor,
    LinearRegressor,
    Regressor,
    evaluate,
    files,
    kernels,
    losses,
)
from onkel.judge import judge_of


def members():
    return [
        KernelRegressor(kernels.Laplacian(0.25), "squared"),
        KernelRegressor(kernels.Laplacian(1.0)),
        KernelRegressor(kernels.Gaussian(0.5), losses.Huber(nu=0.2)),
        LinearRegressor(),
    ]


def stream(rng, n=600):
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2] + 3
    return X, 50 + np.sin(2 * X[:, 0]) + (X[:, 1] - 3) / 5 * (1 + 0.2 * rng.normal(size=n))


def test_widths_are_the_formula(rng):
    X, y = stream(rng)
    Y = np.column_stack([y, 1000 * X[:, 0] ** 2])
    model, each, told = Regressor(members(), nu=0.2), [], [np.zeros(2)]
    for i, x in enumerate(X):  # what each member says before a row is learned
        if i:
            each.append(model._learner.answers(X[i : i + 1])[0])
            told.append(model.predict(X[i : i + 1], return_std=True)[1][0])
        model.learn_one(x, Y[i])
    each = np.concatenate([np.zeros((1, 4, 2)), each])
    again = Regressor(members(), nu=0.2)
    low, high = again.predict_then_learn(X, Y, output="interval")
    for c in range(2):
        middle = (low + high)[:, c] / 2
        want, std, log_q = naive.intervals(
            middle.tolist(), each[:, :, c].tolist(), Y[:, c].tolist(), 0.2
        )
        np.testing.assert_allclose((high - low)[:, c] / 2, want, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(np.array(told)[:, c], std, rtol=1e-5, atol=1e-6)
        assert again._learner.widths.of("log_q")[c] == pytest.approx(log_q, abs=1e-9)


NOISE = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy": lambda rng, n: rng.standard_t(1.5, size=n),
    "skewed": lambda rng, n: rng.exponential(size=n) ** 2,
    "switching": lambda rng, n: rng.normal(size=n) * np.where(np.arange(n) // 300 % 2, 5.0, 0.2),
    "none": lambda rng, n: np.zeros(n),
    "trend": lambda rng, n: np.exp(np.arange(n) / 200),
}


@pytest.mark.few
@pytest.mark.parametrize("nu", [0.05, 0.3])
@pytest.mark.parametrize("noise", NOISE)
def test_coverage_whatever_the_stream(rng, noise, nu):
    X = rng.normal(size=(size(1500, 6000, plain=1500), 2))
    y = X[:, 0] + NOISE[noise](rng, len(X))
    model = Regressor(nu=nu)
    low, high = model.predict_then_learn(X, y, output="interval")
    missed = np.mean((y < low) | (y > high))
    d = model.diagnostics_
    assert d["rate_promised"] == nu
    assert d["rate_realised"] == pytest.approx(missed, abs=1e-3)  # one on the very edge
    assert d["rate_error_term"] == pytest.approx(d["rate_realised"] - nu, abs=1e-9)
    assert f"{100 * nu:.3g} % of targets" in d["rate_in_words"]
    e_fold = 1 / (0.03 * len(X))  # as far as q may have gone, on a trend that grows for ever
    assert abs(missed - nu) < max(0.02, e_fold) or (noise == "none" and missed < nu)
    assert evaluate.coverage(low, high, y) == pytest.approx(1 - missed)


def test_intervals_are_wider_where_errors_are_larger(rng):
    """Noise in one half of the space only: where members disagree, or answers are high."""
    X = rng.uniform(-1, 1, size=(5000, 2))
    y = 3 * X[:, 0] + (X[:, 0] > 0) * rng.normal(size=5000)
    low, high = Regressor().predict_then_learn(X, y, output="interval")
    width = (high - low)[1000:]
    right = X[1000:, 0] > 0.3
    assert width[right].mean() > 1.5 * width[~right].mean()


@pytest.mark.parametrize("targets", [1, 2])
def test_blocks_single_rows_copies_and_files(rng, targets):
    X, y = stream(rng)
    Y = y if targets == 1 else np.column_stack([y, -3 * y])
    whole = Regressor(members())
    low, high = whole.predict_then_learn(X, Y, output="interval")
    parts, found = Regressor(members()), []
    for start, stop in pairwise([0, 1, 2, 3, 40, 41, 300, len(X)]):
        part = slice(start, stop)
        found.append(parts.predict_then_learn(X[part], Y[part], output="interval"))
        parts = copy.copy(parts)
        data = files.dumps(parts)
        parts = files.loads(data)
        assert files.dumps(parts) == data
    np.testing.assert_allclose(np.concatenate([f[0] for f in found]), low, atol=1e-8)
    np.testing.assert_allclose(np.concatenate([f[1] for f in found]), high, atol=1e-8)
    for a, b in zip(parts.predict_interval(X), whole.predict_interval(X), strict=True):
        assert a.shape == Y.shape
        np.testing.assert_allclose(a, b, atol=1e-7)
    before = fingerprint(vars(parts))
    told = parts.predict_interval(X[:1])
    assert fingerprint(vars(parts)) == before
    shown = parts.predict_then_learn(X[:1], Y[:1], output="interval")
    np.testing.assert_allclose(told, shown, rtol=1e-12)


def test_rows_learned_one_by_one_count_too(rng):
    X, y = stream(rng)
    block, single = Regressor().partial_fit(X, y), Regressor()
    for row, target in zip(X, y, strict=True):
        single.learn_one(row, target)
    assert single._learner.widths.rows == block._learner.widths.rows == len(X)
    np.testing.assert_allclose(
        single._learner.widths.state, block._learner.widths.state, rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(single.predict_interval(X), block.predict_interval(X), atol=1e-6)


def test_rows_of_weight_0_are_shown_an_interval_and_not_counted(rng):
    X, y = stream(rng)
    weight = np.where(np.arange(len(y)) % 3, 1.0, 0.0)
    one, other = Regressor(), Regressor()
    low, high = one.predict_then_learn(X, y, output="interval", sample_weight=weight)
    kept = other.predict_then_learn(X[weight > 0], y[weight > 0], output="interval")
    np.testing.assert_allclose(low[weight > 0], kept[0], atol=1e-8)
    assert np.all((high - low)[30:] > 0)
    assert one.diagnostics_["rate_realised"] == other.diagnostics_["rate_realised"]


def test_a_refused_call_leaves_the_widths(rng):
    X, y = stream(rng)
    model = Regressor().partial_fit(X, y)
    before = fingerprint(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X[:2], [1.0, np.nan])
    assert fingerprint(vars(model)) == before
    for nu in (0.0, 1.0, -1, None, "0.1", float("nan")):
        with pytest.raises(ValueError, match=r"Regressor: nu must be a number in \(0, 1\)"):
            Regressor(nu=nu).partial_fit(X, y)


def test_before_and_after_nothing(rng):
    X, y = stream(rng)
    low, high = Regressor().fit(X[:1], y[:1]).predict_interval(X)
    assert np.array_equal(low, high)  # one row says nothing of errors
    d = Regressor().partial_fit(X[:0], y[:0]).diagnostics_
    assert d["rate_realised"] is None and d["rate_promised"] == 0.1


def test_faces_show_intervals():
    assert [*judge_of(Regressor()).fields()] == ["prediction", "low", "high", "target"]
    assert [*judge_of(KernelRegressor()).fields()] == ["prediction", "target"]


def interval_score(low, high, y, nu):
    """Width, and what lies outside counted 2/nu times (Gneiting and Raftery 2007)."""
    return np.mean(high - low + 2 / nu * (np.maximum(low - y, 0) + np.maximum(y - high, 0)))


@pytest.mark.long
@pytest.mark.parametrize("name", ["bike_hour", "cpusmall", "kin8nm"])
def test_better_than_one_setting_on_real_data(load_data, name):
    data = load_data(name)
    X, y = data["X"], data["y"].astype(float)
    scores = []
    for model in (Regressor(), KernelRegressor(loss=losses.Huber(nu=0.1))):
        low, high = model.predict_then_learn(X, y, output="interval")
        assert abs(evaluate.coverage(low, high, y) - 0.9) < 0.01
        scores.append(interval_score(low, high, y, 0.1))
    assert scores[0] < 0.9 * scores[1]
