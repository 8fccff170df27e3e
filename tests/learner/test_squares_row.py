"""Single rows of second order: the same as blocks, alone and in mixtures, and all or nothing."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.fingerprint import fingerprint

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearRegressor,
    Regressor,
    core,
    expansions,
    kernels,
)
from onkel.estimators.inside import learner_of
from onkel.learner.squares_row import SquaresRow

pytestmark = pytest.mark.skipif(not core.has_lane(), reason="single rows are compiled")


def centred(**more):
    return KernelRegressor(
        kernels.Laplacian(0.3), rule="rls", expansion=expansions.Centers(12, **more)
    )


MODELS = {
    "centres": centred,
    "beside numbers": lambda: centred(linear=True),
    "linear": lambda: LinearRegressor(rule="rls"),
    "plain": lambda: LinearRegressor(rule="rls", scale=False),
    "beside plain numbers": lambda: centred(linear=True).set_params(scale=False),
}


def stream(rng, rows, dtype=np.float64):
    X = rng.normal(size=(rows, 3)).astype(dtype)
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=rows)


def one_by_one(model, X, y):
    """Answers before each row, and how many rows went the cheap way."""
    answers, cheap = np.zeros(len(y)), 0
    for i, row in enumerate(X):
        if i:
            answers[i] = model.predict_one(row)
        model.learn_one(row, float(y[i]))
        cheap += "_one" in vars(model)
    return answers, cheap


@pytest.mark.few
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MODELS)
def test_single_rows_are_those_of_a_block(name, dtype, rng):
    X, y = stream(rng, 1100, dtype)  # an exchange, a look at P, and more
    block, single = MODELS[name](), MODELS[name]()
    truth = block.predict_then_learn(X, y)
    answers, cheap = one_by_one(single, X, y)
    assert cheap > 1000
    near = 1e-7 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(answers, truth, atol=near)
    a, b = learner_of(block), learner_of(single)
    np.testing.assert_allclose(a.cov, b.cov, atol=near * np.abs(a.cov).max())
    np.testing.assert_allclose(a.intervals.state, b.intervals.state, atol=near)
    np.testing.assert_allclose(a.moments.variance, b.moments.variance, rtol=1e-9)
    assert a.t == b.t and a.intervals.rows == b.intervals.rows
    if a.following is not None:
        np.testing.assert_array_equal(a.following.rows, b.following.rows)
    np.testing.assert_array_equal(b.cov, b.cov.T)


def test_classes_one_by_one(rng):
    X, y = stream(rng, 400)
    labels = np.where(y > 0, "high", "low")
    made = [
        KernelClassifier(rule="rls", loss="least_squares", expansion=expansions.Centers(10))
        for _ in range(2)
    ]
    made[0].partial_fit(X, labels, classes=["high", "low"])
    made[1].partial_fit(X[:1], labels[:1], classes=["high", "low"])
    for row, label in zip(X[1:], labels[1:], strict=True):
        made[1].learn_one(row, label)
    np.testing.assert_allclose(*(m.decision_function(X) for m in made), atol=1e-7)


def test_a_mixture_stays_cheap_and_is_that_of_blocks(rng):
    X, y = stream(rng, 700)
    members = [centred(linear=True), centred(), KernelRegressor(), LinearRegressor()]
    block, single = Regressor(members), Regressor(members)
    truth = block.predict_then_learn(X, y)
    answers, cheap = one_by_one(single, X, y)
    assert cheap > 650
    np.testing.assert_allclose(answers, truth, atol=1e-6)


def test_a_row_that_another_part_refuses_changes_nothing(rng):
    X, y = stream(rng, 300)
    model = Regressor([centred(linear=True), centred(), LinearRegressor()])
    one_by_one(model, X, y)
    one = model._single()
    assert one is not None and len(one.terms) == 2
    before, parts = fingerprint(model), one.terms
    one.terms = [*parts, Refusing()]
    assert not one.learn(X[0], 1.0)
    one.terms = parts
    assert fingerprint(model) == before
    assert one.learn(X[0], 1.0) and fingerprint(model) != before


class Refusing:
    """A part that takes no row."""

    def learn(self, row, y, t):
        """It takes none."""
        return False


@pytest.mark.parametrize("row", [[np.nan, 0, 0], [1e200, 0, 0], [np.inf, 0, 0], [0, 0]])
def test_odd_rows_are_not_for_single_rows(row, rng):
    X, y = stream(rng, 300)
    model = centred(linear=True)
    one_by_one(model, X, y)
    one, before = model._single(), fingerprint(model)
    assert isinstance(one, SquaresRow)
    assert not one.learn(np.array(row, float), 1.0) and not one.learn("row", 1.0)
    assert not one.learn(X[0], np.nan) and not one.learn(X[0], 1e300)
    assert fingerprint(model) == before
