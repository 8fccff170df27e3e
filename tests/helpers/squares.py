"""Models of second order for tests: over weights and centres, and streams for them."""

from __future__ import annotations

import numpy as np

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    expansions,
    losses,
    rules,
)
from onkel.estimators.inside import learner_of

ALWAYS = rules.RecursiveLeastSquares(memory=None)
SHORT = rules.RecursiveLeastSquares(memory=300)
POINTS = np.random.default_rng(5).normal(size=(6, 3))
BEYOND = 512 + 5 * 256 + 30
"""Rows beyond the first ones and several exchanges."""


def linear(rule=ALWAYS, **more):
    return LinearRegressor("squared", rule, **more)


def centred(m=6, rule=SHORT, kernel="gaussian", linear=True, **more):
    m = expansions.Centers(m, linear=linear)
    return KernelRegressor(kernel, more.pop("loss", "squared"), rule, m, **more)


MODELS = {
    "weights": linear,
    "weights, forgetting": lambda: linear(SHORT),
    "weights, raw": lambda: linear(scale=False),
    "centres": centred,
    "centres alone": lambda: centred(linear=False, scale=False),
    "centres, robust": lambda: centred(loss=losses.Huber(0.5), kernel="laplacian"),
    "points": lambda: centred(POINTS),
}
CLASSIFIERS = {
    "weights": lambda: LinearClassifier(rule=SHORT),
    "centres": lambda: KernelClassifier(rule=SHORT, expansion=expansions.Centers(6, linear=True)),
}


def stream(rng, rows=BEYOND, d=3):
    """Rows that wander, and a function of them."""
    X = rng.normal(size=(rows, d)) + np.linspace(0, 6, rows)[:, None]
    return X, np.sin(2 * X[:, 0]) + 3 * X[:, 1] + 0.1 * rng.normal(size=rows)


def standing(model):
    """Weights, P and its centres, to be compared to rounding."""
    learner = learner_of(model)
    return learner.theta, learner.cov, getattr(learner.map, "points", np.zeros(0))


def same_to_rounding(one, other, tol=1e-6):
    for a, b in zip(standing(one), standing(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
