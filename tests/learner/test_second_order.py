"""Recursive least squares over weights and centres: against least squares at once, and at edges."""

from __future__ import annotations

import pickle

import naive
import numpy as np
import pytest
from helpers.fingerprint import fingerprint
from helpers.sizes import size
from helpers.squares import (
    ALWAYS,
    CLASSIFIERS,
    MODELS,
    POINTS,
    SHORT,
    centred,
    linear,
    same_to_rounding,
    stream,
)

from onkel import (
    KernelRegressor,
    LinearRegressor,
    expansions,
    files,
    kernels,
)
from onkel.core.layout import Field
from onkel.estimators.inside import learner_of

# -- what it is --------------------------------------------------------------------------------


def test_weights_are_those_of_ridge_regression_after_every_row(rng):
    X, y = stream(rng, 40)
    model = linear(scale=False)
    for t in range(len(y)):
        model.partial_fit(X[t : t + 1], y[t : t + 1])
        rows = np.column_stack([X[: t + 1], np.ones(t + 1)])
        truth = naive.ridge_solution(rows, y[: t + 1], 1e-6)
        np.testing.assert_allclose(learner_of(model).theta[0], truth, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.predict(X), rows @ truth, rtol=1e-6)


@pytest.mark.parametrize("units", [1e-9, 1e-3, 1.0, 1e6])
def test_in_running_units_the_prior_is_one_of_the_units_that_there_are(units, rng):
    X, y = stream(rng, 300)
    X[:, 1] -= X[:, 1].mean()
    model = linear().partial_fit(X * [1, units, 1], y)
    rows = np.column_stack([X, np.ones(300)])
    truth = rows @ naive.ridge_solution(rows, y, 1e-6)
    np.testing.assert_allclose(model.predict(X * [1, units, 1]), truth, atol=0.02)


def test_a_change_of_units_changes_no_prediction(rng):
    X, y = stream(rng, 300)
    model = linear(SHORT).partial_fit(X, y)
    learner = learner_of(model)
    before = model.predict(X)
    doubt = learner.spreads(X)
    frame = learner.frame.standardised(X[0] * 3, np.array([0.2, 7.0, 20.0]), X[0])
    learner.reframe(frame)
    assert learner.frame is frame
    np.testing.assert_allclose(model.predict(X), before, rtol=1e-9)
    np.testing.assert_allclose(learner.spreads(X), doubt, rtol=1e-3)


def test_units_that_are_much_the_same_stay_as_they_are(rng):
    X, y = stream(rng, 300)
    learner = learner_of(linear().partial_fit(X, y))
    frame, cov = learner.frame, learner.cov
    learner.reframe(frame.standardised(frame.mean, 1.5 / (frame.width * frame.unit), X[0]))
    assert learner.frame is frame and learner.cov is cov


def test_over_points_it_is_ridge_regression_on_kernel_values(rng):
    X, y = stream(rng, 600)
    model = centred(POINTS, ALWAYS, kernels.Gaussian(0.2), linear=False, scale=False)
    model.partial_fit(X, y)
    values = np.array([[naive.gaussian(0.2)(x, c) for c in POINTS] for x in X])
    rows = np.column_stack([values, np.ones(len(X))])
    truth = naive.ridge_solution(rows, y, 1e-6)
    np.testing.assert_allclose(model.predict(X), rows @ truth, rtol=1e-6, atol=1e-6)


def test_numbers_beside_centres_stand_around_their_means(rng):
    """Kernels of differences need no centre that follows; what is linear in numbers does."""
    X = rng.normal(size=(3000, 2)) + np.linspace(0, 500, 3000)[:, None]
    y = X @ [1.0, -2.0]
    errors = np.abs(centred(8, SHORT).predict_then_learn(X, y) - y)
    assert np.median(errors[1000:]) < 0.01


def test_without_units_no_number_is_far(rng):
    X = rng.normal(size=(400, 2)) * 1000 + 5000
    y = X @ [1.0, -2.0]
    model = centred(4, ALWAYS, scale=False).partial_fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-6, atol=1e-2)


def test_the_naive_twin_of_the_noise(rng):
    X, y = stream(rng, 80)
    model = linear(SHORT, scale=False).partial_fit(X, y)
    twin = naive.LeastSquares(4, 1e-6, horizon=1000)
    shown = [twin.learn([*x, 1.0], [t], 1.0, 300 / 304) for x, t in zip(X, y, strict=True)]
    learner = learner_of(model)
    np.testing.assert_allclose(learner.state[:, Field.THRESHOLD], twin.noise, rtol=1e-5)
    np.testing.assert_allclose(learner.theta, twin.theta, rtol=1e-5, atol=1e-6)
    assert shown[-1][1][0] == pytest.approx(
        linear(SHORT, scale=False).partial_fit(X[:-1], y[:-1])._learner.spreads(X[-1:])[0, 0]
    )


def test_a_model_that_is_sure_of_a_place_is_vague_elsewhere(rng):
    X, y = stream(rng, 600)
    learner = learner_of(centred(20, ALWAYS).partial_fit(X, y))
    near, far = learner.spreads(X[-50:]), learner.spreads(X[-50:] + 100.0)
    assert np.median(far) > 1.1 * np.median(near)


# -- blocks, copies, files -----------------------------------------------------------------------


@pytest.mark.parametrize("name", size(("weights", "centres, robust"), tuple(MODELS)))
def test_blocks_are_rows_one_by_one_in_any_cut(name, rng):
    X, y = stream(rng)
    whole = MODELS[name]()
    shown = whole.predict_then_learn(X, y)
    for cut in size((97,), (1, 97, 700)):
        other = MODELS[name]()
        parts = [
            other.predict_then_learn(X[i : i + cut], y[i : i + cut]) for i in range(0, len(y), cut)
        ]
        np.testing.assert_allclose(np.concatenate(parts), shown, rtol=1e-6, atol=1e-6)
        same_to_rounding(other, whole, 1e-4)
    again = MODELS[name]()
    again.predict_then_learn(X, y)
    assert fingerprint(again) == fingerprint(whole)


def test_single_rows_are_blocks_of_one(rng):
    X, y = stream(rng, size(300, 900))
    one, block = centred(), centred()
    for x, t in zip(X, y, strict=True):
        one.learn_one(x, t)
    same_to_rounding(one, block.partial_fit(X, y), 1e-4)


@pytest.mark.parametrize("rows", size([3, 513], [1, 3, 255, 256, 513, 1100]))
@pytest.mark.parametrize("name", ["weights, forgetting", "centres"])
def test_files_and_copies_go_on_with_the_same_bits(name, rows, rng):
    X, y = stream(rng, rows + 300)
    model = MODELS[name]().partial_fit(X[:rows], y[:rows])
    before = fingerprint(model)
    loaded, copy = files.loads(files.dumps(model)), pickle.loads(pickle.dumps(model))
    assert fingerprint(loaded) == fingerprint(copy) == before
    model.predict(X), learner_of(model).spreads(X), learner_of(model).outlook(X)
    assert fingerprint(model) == before
    apart = learner_of(model).copy()
    model.partial_fit(X[rows:], y[rows:])
    assert fingerprint(apart) == fingerprint(learner_of(loaded))
    assert fingerprint(loaded.partial_fit(X[rows:], y[rows:])) == fingerprint(model)
    assert fingerprint(copy.partial_fit(X[rows:], y[rows:])) == fingerprint(model)


@pytest.mark.parametrize("first", size([1, 600], [0, 1, 100, 600]))
@pytest.mark.parametrize("rows", size([1, 400], [1, 2, 400]))
@pytest.mark.parametrize("name", ["weights", "weights, raw", "centres", "centres alone"])
def test_a_refused_call_changes_nothing(name, first, rows, rng):
    X, y = stream(rng, 1100)
    model = MODELS[name]()
    if first:
        model.partial_fit(X[:first], y[:first])
    before = fingerprint(model)
    bad = y.copy()
    bad[first + rows - 1] = 1e140
    if first + rows < 3:
        return  # nothing is absurd before anything is known
    with pytest.raises(ValueError, match=f"Row {rows - 1}"):
        model.partial_fit(X[first : first + rows], bad[first : first + rows])
    assert fingerprint(model) == before
    bad = X.copy()
    bad[first + rows - 1, 1] = np.inf
    with pytest.raises(ValueError, match="inf"):
        model.partial_fit(bad[first : first + rows], y[first : first + rows])
    assert fingerprint(model) == before


def test_a_kernel_that_breaks_where_centres_are_exchanged(rng):
    left = [np.inf]

    def fragile(X, Z):
        left[0] -= 1
        if left[0] < 0:
            raise ArithmeticError
        return np.exp(-0.5 * ((X[:, None] - Z[None]) ** 2).sum(-1))

    X, y = stream(rng, 900)
    for first, rows in size(((767, 1),), ((1, 3), (250, 6), (700, 100), (767, 1))):
        left[0] = np.inf
        model = centred(kernel=fragile).partial_fit(X[:first], y[:first])
        before = fingerprint(learner_of(model))
        for calls in range(9):
            left[0] = calls
            try:
                model.partial_fit(X[first : first + rows], y[first : first + rows])
            except ArithmeticError:
                assert fingerprint(learner_of(model)) == before
            else:
                assert calls
                break


# -- outputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("late", size([3, 700], [0, 1, 3, 200, 700]))
def test_late_classes(name, late, rng):
    X = rng.normal(size=(900, 3))
    y = np.array(["b", "c", "a"])[np.argmax(X, axis=1)]
    y[:late][y[:late] == "a"] = "b"  # comes first in the order of labels
    model, whole = CLASSIFIERS[name](), CLASSIFIERS[name]()
    for i in range(0, 900, 90):
        model.partial_fit(X[i : i + 90], y[i : i + 90])
    whole.partial_fit(X, y)
    same_to_rounding(model, whole, 1e-5)
    assert fingerprint(files.loads(files.dumps(model))) == fingerprint(model)
    assert list(model.classes_) == ["a", "b", "c"]
    assert (model.predict(X[-300:]) == y[-300:]).mean() > 0.75


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_two_classes_whichever_comes_first(name, rng):
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] > 0).astype(int)
    for first in (0, 1):
        order = np.r_[np.flatnonzero(y == first)[:3], 100:600]
        known = CLASSIFIERS[name]().partial_fit(X[order], y[order], classes=[0, 1])
        found = CLASSIFIERS[name]().partial_fit(X[order[:2]], y[order[:2]])
        found.partial_fit(X[order[2:]], y[order[2:]])
        same_to_rounding(found, known, 1e-6)
        assert found.score(X[order], y[order]) > 0.9


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_class_only(name, rng):
    X = rng.normal(size=(300, 3))
    model = CLASSIFIERS[name]().partial_fit(X, ["a"] * 300)
    assert set(model.predict(X)) == {"a"}


@pytest.mark.parametrize("name", ["weights", "centres"])
def test_several_targets_share_p(name, rng):
    X, y = stream(rng, 700)
    Y = np.column_stack([y, -2 * y + X[:, 2], np.cos(X[:, 0])])
    whole = MODELS[name]().partial_fit(X, Y)
    for c in range(3):
        one = MODELS[name]().partial_fit(X, Y[:, c])
        if name == "weights":  # which centres stay depends on all targets
            np.testing.assert_allclose(whole.predict(X)[:, c], one.predict(X), rtol=1e-5, atol=1e-5)
    assert learner_of(whole).cov.shape == learner_of(one).cov.shape


# -- centres -------------------------------------------------------------------------------------


def test_centres_follow_the_rows(rng):
    X, y = stream(rng, 3000)
    following = centred(10)
    frozen = centred(X[:10])
    errors = [np.abs(m.predict_then_learn(X, y) - y)[1000:].mean() for m in (following, frozen)]
    assert errors[0] < errors[1]
    learner = learner_of(following)
    assert learner.map.points[:, 0].min() > X[:500, 0].min()
    assert len(np.unique(learner.map.points, axis=0)) == 10 and learner.following.cost > 0
    np.testing.assert_array_equal(learner_of(frozen).map.points, X[:10])


def test_no_centre_of_which_a_kernel_sees_nothing(rng):
    """A row of zeros has no length under a product."""
    X = rng.normal(size=(1500, 2)) * (np.arange(1500) % 2)[:, None]
    kernel = kernels.Polynomial(2, 1.0, 0.0)
    model = centred(12, SHORT, kernel, scale=False).partial_fit(X, X[:, 0] * X[:, 1])
    points = learner_of(model).map.points
    assert len(np.unique(points, axis=0)) == len(points)
    np.testing.assert_allclose(model.predict(X), X[:, 0] * X[:, 1], atol=1e-2)


def test_what_cannot_be_is_refused():
    X, y = np.zeros((2, 1)), [0.0, 1.0]
    with pytest.raises(ValueError, match="sample"):
        KernelRegressor(rule="rls", loss="squared", expansion=expansions.Centers(5, sample=50)).fit(
            X, y
        )
    with pytest.raises(ValueError, match="average"):
        LinearRegressor("squared", "rls", average=True).fit(X, y)
    with pytest.raises(ValueError, match="Centers"):
        KernelRegressor(rule="rls", expansion=expansions.Window(terms=50)).fit(X, y)
    with pytest.raises(ValueError, match="p="):
        LinearRegressor("squared", "rls", p=3.0).fit(X, y)
