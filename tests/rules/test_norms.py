"""Norms: f stays in its ball whatever is dropped, and the norm that is kept is the true one."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.sizes import size

from onkel import KernelClassifier, LinearClassifier, expansions, rules
from onkel.core import numpy_primal
from onkel.core.layout import Field


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
@pytest.mark.parametrize("rule", [rules.Alma(learning_rate=0.5, radius=1.0), rules.Alma(),
                                  rules.Projection(radius=2.0)], ids=repr)  # fmt: skip
def test_f_stays_in_its_ball_whatever_is_dropped(rng, rule, kernel, scale):
    X = rng.normal(size=(300, 3))
    y = np.sign(X[:, 0] + 0.5 * rng.normal(size=300))
    most = 2.0 if isinstance(rule, rules.Projection) else 1.0
    model = KernelClassifier(
        kernel=kernel, rule=rule, scale=scale, expansion=expansions.Window(terms=10)
    )
    for x, label in zip(X, y, strict=True):
        model.learn_one(x, label)
        assert model.diagnostics_["norm"] <= most * (1 + 1e-9)
    true = float(model._learner.norm2()[0]) ** 0.5
    assert model.diagnostics_["norm"] == pytest.approx(true, rel=1e-6)


def test_weights_stay_in_the_ball_and_know_their_norm(rng):
    X = rng.normal(size=(200, 4))
    model = LinearClassifier(rule=rules.Alma(learning_rate=0.5, radius=1.0), p=3.0)
    for x in X:
        model.learn_one(x, int(x[0] > 0))
        true = numpy_primal.norm_p(model._learner.theta[0, :-1], 3.0)
        assert model.diagnostics_["norm"] == pytest.approx(true, rel=1e-12, abs=1e-15)
        assert true <= 1 + 1e-12


@pytest.mark.parametrize("p", [2.0, 3.0, 1e4, 1e10, 1e17])
def test_the_link_keeps_the_norm(p):
    theta = np.array([1.0, 1.0, 1.0, -1.0])
    w = numpy_primal.link(theta, p)
    q = p / (p - 1)
    assert np.sum(np.abs(w) ** q) ** (1 / q) == pytest.approx(numpy_primal.norm_p(theta, p))
    model = LinearClassifier(p=p, scale=False, fit_intercept=False, rule="perceptron")
    model.partial_fit([theta], [1])
    np.testing.assert_allclose(model.coef_[0], w)


@pytest.mark.few
@pytest.mark.parametrize("terms", size([1, 5, 40], [1, 3, 5, 10, 40]))
@pytest.mark.parametrize("scale", [False, True])
def test_the_norm_of_romma_in_a_small_window(rng, terms, scale):
    """It grows by orders of magnitude and falls again; rounding of the large one stayed."""
    rows = size(800, 1500)
    X = rng.normal(size=(rows, 3))
    y = X[:, 0] * X[:, 1] > 0
    window = expansions.Window(terms=terms)
    model = KernelClassifier(rule="romma", scale=scale, expansion=window)
    for i in range(0, rows, 100):
        model.partial_fit(X[i : i + 100], y[i : i + 100])
        learner = model._learner
        truth = learner.norm2()
        np.testing.assert_allclose(learner.state[:, Field.NORM2], truth, rtol=1e-6)
