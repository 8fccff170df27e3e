"""Models of recursive least squares that learned apart: the least squares on the rows of all."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.fingerprint import fingerprint
from helpers.sizes import size
from helpers.squares import ALWAYS, CLASSIFIERS, MODELS, POINTS, centred, linear, stream

from onkel import KernelRegressor, expansions, files, merge, rules
from onkel.estimators.inside import learner_of

FIXED = {
    "weights": lambda: linear(scale=False),
    "points": lambda: centred(POINTS, ALWAYS, scale=False),
}


def close(one, other, X, tol=1e-5):
    """Whether two models predict the same, and doubt as much."""
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=tol, atol=tol)
    ours, theirs = learner_of(one), learner_of(other)
    scale = np.abs(theirs.cov).max()
    np.testing.assert_allclose(ours.cov, theirs.cov, rtol=1e-3, atol=1e-9 * scale)
    assert ours.t == theirs.t and np.array_equal(ours.cov, ours.cov.T)


@pytest.mark.parametrize("name", FIXED)
def test_without_units_the_sum_is_what_was_learned_whole(name, rng):
    X, y = stream(rng, 900)
    Y = np.column_stack([y, np.cos(X[:, 2])])
    parts = [FIXED[name]().partial_fit(X[i::3], Y[i::3]) for i in range(3)]
    before = [fingerprint(p) for p in parts]
    whole = merge(parts)
    close(whole, FIXED[name]().partial_fit(X, Y), X)
    assert [fingerprint(p) for p in parts] == before
    assert whole.merge_report_.change is None
    again = files.loads(files.dumps(whole))
    assert files.dumps(again.partial_fit(X, Y)) == files.dumps(whole.partial_fit(X, Y))


@pytest.mark.parametrize("name", FIXED)
def test_a_common_start_counts_once(name, rng):
    X, y = stream(rng, 1200)
    start = FIXED[name]().partial_fit(X[:300], y[:300])
    data = files.dumps(start)
    parts = [
        files.loads(data).partial_fit(X[300 + i :: 3], y[300 + i :: 3]) for i in range(3)
    ]  # fmt: skip
    close(merge(parts, start=start), FIXED[name]().partial_fit(X, y), X)


def test_rows_count_by_the_weights(rng):
    X, y = stream(rng, 400)
    parts = [linear(scale=False).partial_fit(X[i::2], y[i::2]) for i in range(2)]
    truth = linear(scale=False)
    truth.partial_fit(X, y, sample_weight=np.where(np.arange(400) % 2, 1.5, 0.5))
    close(merge(parts, weights=[1, 3]), truth, X)


@pytest.mark.parametrize("name", ["weights", "centres", "points"])
@pytest.mark.parametrize("rows", size([7, 200], [1, 7, 40, 200]))
def test_first_rows_are_learned_anew(name, rows, rng):
    X, y = stream(rng, 3 * rows)
    parts = [
        MODELS[name]().set_params(rule=ALWAYS).partial_fit(X[i : i + rows], y[i : i + rows])
        for i in range(0, 3 * rows, rows)
    ]
    whole, truth = merge(parts), MODELS[name]().set_params(rule=ALWAYS).partial_fit(X, y)
    assert learner_of(whole).t == 3 * rows and learner_of(whole).young == learner_of(truth).young
    errors = [np.abs(m.predict(X) - y).mean() for m in (whole, truth)]
    assert errors[0] < 1.2 * errors[1] + 0.5
    assert files.dumps(files.loads(files.dumps(whole))) == files.dumps(whole)
    whole.partial_fit(X, y)


def test_in_running_units_weights_are_those_of_all_rows(rng):
    X, y = stream(rng, 1500)
    y = 3 * y + 100
    parts = [linear().partial_fit(X[i : i + 500] * 1.0, y[i : i + 500]) for i in (0, 500, 1000)]
    whole, truth = merge(parts), linear().partial_fit(X, y)
    np.testing.assert_allclose(whole.predict(X), truth.predict(X), rtol=1e-5, atol=1e-4)
    spreads = [learner_of(m).spreads(X).mean() for m in (whole, truth)]
    assert spreads[0] == pytest.approx(spreads[1], rel=0.1)


def test_in_running_units_points_are_nearly_those_of_all_rows(rng):
    X, y = stream(rng, 1500)
    parts = [centred(POINTS, ALWAYS).partial_fit(X[i::3], y[i::3]) for i in range(3)]
    whole, truth = merge(parts), centred(POINTS, ALWAYS).partial_fit(X, y)
    errors = [np.abs(m.predict(X) - y).mean() for m in (whole, truth)]
    assert errors[0] < 1.2 * errors[1]


def test_other_centres_are_told_of_those_that_stay(rng):
    X, y = stream(rng, 4000)
    parts = [centred(40, ALWAYS).partial_fit(X[i::2], y[i::2]) for i in range(2)]
    whole = merge(parts)
    errors = [np.abs(m.predict(X) - y).mean() for m in (whole, *parts)]
    assert errors[0] < 1.1 * max(errors[1:])
    assert whole.merge_report_.change is not None


def test_centres_that_are_the_same_add(rng):
    X, y = stream(rng, 2000)
    start = centred(6, ALWAYS).partial_fit(X[:1024], y[:1024])
    data = files.dumps(start)
    parts = [files.loads(data).partial_fit(X[i : i + 90], y[i : i + 90]) for i in (1024, 1114)]
    whole = merge(parts, start=start)
    truth = files.loads(data).partial_fit(X[1024:1204], y[1024:1204])
    close(whole, truth, X[:1204], 1e-3)
    loaded = files.loads(files.dumps(whole))
    assert files.dumps(loaded.partial_fit(X, y)) == files.dumps(whole.partial_fit(X, y))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_that_one_of_them_never_saw(name, rng):
    X = rng.normal(size=(300, 3))
    y = np.array(["b", "c", "a"])[np.argmax(X, axis=1)]
    parts = [CLASSIFIERS[name]().partial_fit(X[:100], y[:100])]
    parts.append(CLASSIFIERS[name]().partial_fit(X[100:][y[100:] != "a"], y[100:][y[100:] != "a"]))
    whole = merge(parts)
    assert list(whole.classes_) == ["a", "b", "c"]
    assert (whole.predict(X) == y).mean() > 0.7


def test_intervals_add(rng):
    X, y = stream(rng, 900)
    parts = [linear(scale=False).partial_fit(X[i::3], y[i::3]) for i in range(3)]
    widths = [learner_of(p).intervals for p in parts]
    whole = learner_of(merge(parts)).intervals
    assert whole.rows == 900
    assert whole.of("missed")[0] == pytest.approx(sum(w.of("missed")[0] for w in widths))
    assert whole.of("log_q")[0] == pytest.approx(np.mean([w.of("log_q")[0] for w in widths]))


def test_by_the_clock_time_alone_forgets_nothing(rng):
    X, y = stream(rng, 600)
    rule = rules.RecursiveLeastSquares(memory="1h")
    parts = [
        linear(rule, scale=False).partial_fit(X[i::2], y[i::2], time=[1000.0 * i] * 300)
        for i in range(2)
    ]
    close(merge(parts), linear(scale=False).partial_fit(X, y), X)


def test_numbers_beside_centres_add_in_one_frame(rng):
    """Kernels of differences see the same in frames of which the means differ; numbers do not."""
    X, y = stream(rng, 400)
    kernel = {"kernel": "gaussian", "expansion": expansions.Centers(X[:5], linear=True)}
    parts = [KernelRegressor(scale=False, **kernel).partial_fit(X[i::2], y[i::2]) for i in range(2)]
    mean = sum(p.predict(X) for p in parts) / 2
    np.testing.assert_allclose(merge(parts).predict(X), mean, rtol=1e-9, atol=1e-9)
