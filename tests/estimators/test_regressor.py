"""Several targets, intervals, weights; what River and scikit-learn users expect."""

from __future__ import annotations

import numpy as np
import pytest

from onkel import KernelRegressor, Regressor, evaluate, losses, rules


def test_several_targets_equal_separate_models(rng):
    X, Y = rng.normal(size=(120, 2)), rng.normal(size=(120, 3))
    reg = KernelRegressor().partial_fit(X, Y)
    assert reg.predict(X).shape == (120, 3)
    for j in range(3):
        one = KernelRegressor().partial_fit(X, Y[:, j])
        np.testing.assert_allclose(reg.predict(X)[:, j], one.predict(X), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("nu", [0.05, 0.2])
def test_intervals_cover_under_drift(rng, nu):
    n = 20_000
    X = rng.uniform(-2, 2, size=(n, 1))
    noise = np.where(np.arange(n) < n // 2, 0.1, 0.5) * rng.standard_t(3, size=n)
    y = np.sin(3 * X[:, 0] + np.arange(n) / 4000) + noise
    reg = KernelRegressor(loss=losses.EpsilonInsensitive(nu=nu))
    low, high = reg.predict_then_learn(X, y, output="interval")
    assert abs(evaluate.coverage(low, high, y) - (1 - nu)) < 0.01
    second = slice(n // 2, None)
    assert abs(evaluate.coverage(low[second], high[second], y[second]) - (1 - nu)) < 0.01
    a, b = reg.predict_interval(X[:5])
    assert np.all(a <= reg.predict(X[:5]))
    assert np.all(reg.predict(X[:5]) <= b)


def test_learns_a_function_and_scores(rng):
    X = rng.normal(size=(3000, 3))
    y = 100 + 20 * np.sin(X[:, 0]) * X[:, 1]
    reg = KernelRegressor().fit(X, y)
    assert reg.score(X, y) > 0.8
    assert abs(reg.predict_one(X[0]) - reg.predict(X[:1])[0]) < 1e-12


def test_constant_targets_are_learned_at_once(rng):
    reg = KernelRegressor().partial_fit(rng.normal(size=(10, 2)), np.full(10, 7.5))
    assert reg.predict(np.zeros((1, 2)))[0] == 7.5


@pytest.mark.parametrize("name", ["squared", "absolute", "epsilon_insensitive", "huber"])
def test_own_loss_in_python_equals_the_built_in(rng, name):
    """A user's loss takes the Python path; a copy of a built-in one gives the same numbers."""
    built_in = losses.get(name)
    Own = type("Own", (type(built_in),), {"code": None})
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    a = KernelRegressor(loss=built_in).predict_then_learn(X, y)
    b = KernelRegressor(loss=Own()).predict_then_learn(X, y)
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_regularizer_as_a_function_equals_its_power(rng):
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    by_power = rules.Norma(learning_rate=0.3, regularization=0.1, regularizer=1.5)
    by_function = rules.Norma(learning_rate=0.3, regularization=0.1, regularizer=lambda r: r**0.5)
    a = KernelRegressor(rule=by_power, scale=False).predict_then_learn(X, y)
    b = KernelRegressor(rule=by_function, scale=False).predict_then_learn(X, y)
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_score_refuses_other_shapes(rng):
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 3))
    reg = KernelRegressor().fit(X, Y)
    with pytest.raises(ValueError, match="targets per row"):
        reg.score(X, Y[:, 0])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        reg.score(X, Y[:1])


@pytest.mark.parametrize(
    "make", [lambda: KernelRegressor(loss=losses.Huber(nu=0.2)), lambda: Regressor(nu=0.2)]
)
def test_a_judgement_is_prediction_and_interval_at_once(rng, make):
    X, y = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    for target in (y, y[:, 0]):
        found = make().predict_then_learn(X, target, output="judgement")
        np.testing.assert_array_equal(found[0], make().predict_then_learn(X, target))
        interval = make().predict_then_learn(X, target, output="interval")
        np.testing.assert_array_equal(found[1:], interval)
    with pytest.raises(ValueError, match="Intervals need a loss"):
        KernelRegressor().predict_then_learn(X, y, output="judgement")
