"""Where one algorithm contains another, both give the same answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    expansions,
    kernels,
    losses,
    rules,
)

ROWS = 300


def close(a, b, tolerance=1e-10):
    a, b = np.asarray(a, float), np.asarray(b, float)
    assert np.max(np.abs(a - b)) <= tolerance * max(1.0, float(np.max(np.abs(b))))


@pytest.fixture
def data(rng):
    X = rng.normal(size=(ROWS, 5)) * [1.0, 2.0, 0.1, 5.0, 1.0] + [0.0, 3.0, 100.0, 0.0, 1.0]
    return X, np.sign(X[:, 0] + 0.3 * X[:, 1] - 1 + 0.3 * rng.normal(size=ROWS))


def decisions(model, X, y):
    return model.predict_then_learn(X, y, output="decision")


@pytest.mark.parametrize("scale", [False, True])
def test_perceptron_is_norma_without_margin_and_regularization(data, scale):
    X, y = data
    perceptron = KernelClassifier(rule="perceptron", scale=scale)
    norma = KernelClassifier(
        loss=losses.SoftMargin(margin=0.0), scale=scale, fit_intercept=False,
        rule=rules.Norma(learning_rate=1.0, regularization=0.0),
    )  # fmt: skip
    assert np.array_equal(decisions(perceptron, X, y), decisions(norma, X, y))
    assert perceptron.diagnostics_["mistakes"] == norma.diagnostics_["mistakes"]
    assert perceptron.diagnostics_["updates"] == perceptron.diagnostics_["mistakes"]


@pytest.mark.parametrize("margin", [0.0, 0.7])
def test_alma_in_an_endless_ball_is_the_perceptron_with_margin(data, margin):
    X, y = data
    loss = losses.SoftMargin(margin=margin)
    wide = {}
    for radius in (1e3, math.inf):
        rule = rules.Alma(learning_rate=1.0, radius=radius)
        wide[radius] = decisions(KernelClassifier(loss=loss, rule=rule), X, y)
    free = decisions(KernelClassifier(loss=loss, rule="perceptron"), X, y)
    close(wide[1e3], free)
    assert np.array_equal(wide[math.inf], free)


@pytest.mark.parametrize("factor", [1e-3, 17.0])
def test_alma_is_unchanged_by_a_common_scale(data, factor):
    X, y = data
    scores = []
    for c in (1.0, factor):
        rule = rules.Alma(learning_rate=0.2 * c, radius=1.0 * c)
        model = KernelClassifier(loss=losses.SoftMargin(margin=0.3 * c), rule=rule)
        scores.append(decisions(model, X, y) / c)
    close(scores[1], scores[0])


RULES = {
    "norma": ("norma", losses.SoftMargin()),
    "norma_nu": ("norma", losses.SoftMargin(nu=0.2)),
    "logistic": ("norma", losses.Logistic()),
    "norma_p": (rules.Norma(regularizer=1.5), losses.SoftMargin()),
    "perceptron": ("perceptron", losses.SoftMargin(margin=0.0)),
    "alma": (rules.Alma(learning_rate=0.1, radius=0.8), losses.SoftMargin(margin=0.2)),
    "alma_tuning": ("alma", losses.SoftMargin()),
    "projection": ("projection", losses.SoftMargin()),
    "projection_ball": (rules.Projection(radius=0.6), losses.SoftMargin()),
    "romma": ("romma", losses.SoftMargin()),
    "romma_mistakes": (rules.Romma(aggressive=False), losses.SoftMargin()),
}


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_linear_classifier_is_the_kernel_learner_with_the_linear_kernel(data, name, scale, average):
    X, y = data
    rule, loss = RULES[name]
    parts = {"rule": rule, "loss": loss, "scale": scale, "average": average}
    linear = LinearClassifier(**parts)
    kernel = KernelClassifier(kernel="linear", expansion=expansions.Window(terms=None), **parts)
    close(decisions(linear, X, y), decisions(kernel, X, y), 1e-9)
    close(linear.decision_function(X), kernel.decision_function(X), 1e-9)
    close(X @ linear.coef_[0] + linear.intercept_, linear.decision_function(X), 1e-9)
    assert linear.t_ == kernel.t_


def test_linear_classifier_with_classes_that_come_late(data, rng):
    X, _ = data
    y = np.where(X[:, 0] > 0.5, "c", np.where(X[:, 1] > 3, "a", "b"))
    y[:40] = np.where(X[:40, 1] > 3, "a", "b")
    linear, kernel = LinearClassifier(), KernelClassifier(kernel="linear")
    for part in (slice(0, 20), slice(20, 150), slice(150, ROWS)):
        assert np.array_equal(
            linear.predict_then_learn(X[part], y[part]), kernel.predict_then_learn(X[part], y[part])
        )
    close(linear.decision_function(X), kernel.decision_function(X), 1e-9)
    close(X @ linear.coef_.T + linear.intercept_, linear.decision_function(X), 1e-9)
    assert linear.coef_.shape == (3, 5)


REGRESSION = {
    "huber": ("norma", losses.Huber(sigma=3.0)),
    "squared": (rules.Norma(learning_rate=0.005), losses.Squared()),
    "interval": ("norma", losses.EpsilonInsensitive(nu=0.1)),
    "projection": ("projection", losses.EpsilonInsensitive(epsilon=0.1)),
    "projection_ball": (rules.Projection(radius=0.7), losses.EpsilonInsensitive(epsilon=0.1)),
}


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("name", REGRESSION)
def test_linear_regressor_is_the_kernel_learner_with_the_linear_kernel(data, rng, name, average):
    X, _ = data
    Y = X @ rng.normal(size=(5, 2)) + 50 + 0.1 * rng.normal(size=(ROWS, 2))
    rule, loss = REGRESSION[name]
    linear = LinearRegressor(rule=rule, loss=loss, average=average)
    kernel = KernelRegressor(
        kernel="linear", rule=rule, loss=loss, average=average,
        expansion=expansions.Window(terms=None),
    )  # fmt: skip
    close(linear.predict_then_learn(X, Y), kernel.predict_then_learn(X, Y), 1e-9)
    close(linear.predict(X), kernel.predict(X), 1e-9)
    close(X @ linear.coef_.T + linear.intercept_, linear.predict(X), 1e-9)


@pytest.mark.parametrize("loss", [losses.SoftMargin(), losses.SoftMargin(power=2),
                                  losses.Logistic(), losses.LeastSquares(),
                                  losses.Exponential()], ids=repr)  # fmt: skip
def test_coefficient_regularisation_is_linear_norma_over_the_kernel_features(data, loss):
    X, y = data
    kernel, centres = kernels.Gaussian(0.05), X[:12]
    rule = rules.Norma(learning_rate=0.05, regularization=0.02)
    one = KernelClassifier(
        kernel=kernel, loss=loss, rule=rule, scale=False, fit_intercept=False,
        expansion=expansions.Centers(centres),
    )  # fmt: skip
    other = LinearClassifier(loss=loss, rule=rule, scale=False, fit_intercept=False)
    close(decisions(one, X, y), decisions(other, kernel(X, centres), y))
    assert one.n_terms_ == 12


def test_projection_and_romma_get_the_example_right(data):
    X, y = data
    for rule in ("projection", "romma"):
        model = KernelClassifier(rule=rule, scale=False, kernel=kernels.Gaussian(0.1))
        for x, label in zip(X[:80], y[:80], strict=True):
            model.learn_one(x, label)
            assert label * model.decision_function([x])[0] >= 1 - 1e-9


def test_the_ball_is_kept(data):
    X, y = data
    for rule in (rules.Alma(learning_rate=0.3, radius=0.9), rules.Projection(radius=0.9)):
        model = KernelClassifier(rule=rule, scale=False, kernel=kernels.Gaussian(0.1))
        for x, label in zip(X[:80], y[:80], strict=True):
            model.learn_one(x, label)
            assert model.diagnostics_["norm"] <= 0.9 * (1 + 1e-12)
        assert model.diagnostics_["norm"] == pytest.approx(0.9)
        assert model.diagnostics_["norm"] ** 2 == pytest.approx(float(model._learner.norm2()[0]))


@pytest.mark.parametrize("p", [2.0, 2.5, 4.0, 20.0, 500.0])
@pytest.mark.parametrize("rule", ["norma", "alma", "perceptron", rules.Alma(radius=0.5)], ids=repr)
def test_p_norm_learners_stay_finite_and_learn(rng, rule, p):
    """Few of many features matter: what large p is for. At theta = 0 the score is 0."""
    X = rng.choice([-1.0, 1.0], size=(1500, 60))
    y = np.sign(X[:, :3].sum(axis=1))
    model = LinearClassifier(rule=rule, p=p, scale=False, fit_intercept=False)
    scores = decisions(model, X * 1e-3, y)
    assert scores[0] == 0.0
    assert np.all(np.isfinite(scores))
    assert np.mean(scores[-300:] * y[-300:] <= 0) < 0.3
    assert np.array_equal(np.sign(model.decision_function(X)),
                          np.sign(X @ model.coef_[0]))  # fmt: skip


def test_large_p_finds_few_features_among_many_sooner(rng):
    X = rng.choice([-1.0, 1.0], size=(400, 1000))
    y = X[:, 0]
    mistakes = {}
    for p in (2.0, 2 * math.log(1000)):
        model = LinearClassifier(rule="perceptron", p=p, scale=False)
        mistakes[p] = int(np.sum(decisions(model, X, y) * y <= 0))
    assert 3 * mistakes[2 * math.log(1000)] < mistakes[2.0]


@pytest.mark.parametrize("aggressive", [True, False])
@pytest.mark.parametrize("window", [50, None])
def test_romma_lives_through_labels_that_nothing_separates(rng, aggressive, window):
    """Its norm grows without end there: it must start again, not overflow."""
    X = rng.normal(size=(4000, 2))
    y = rng.choice([-1.0, 1.0], size=4000)
    y[2000:] = np.sign(X[2000:, 0])
    model = KernelClassifier(
        rule=rules.Romma(aggressive=aggressive), scale=False, kernel=kernels.Gaussian(0.3),
        expansion=expansions.Window(terms=window),
    )  # fmt: skip
    scores = decisions(model, X, y)
    assert np.all(np.isfinite(scores))
    assert np.mean(scores[-500:] * y[-500:] <= 0) < 0.2
