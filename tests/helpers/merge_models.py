"""Models for the tests of merging."""

from __future__ import annotations

import numpy as np

from onkel import KernelClassifier


def rows(rng, n=60, d=3):
    return rng.normal(size=(n, d)) * np.arange(1, d + 1)


def labels(X):
    return np.where(X[:, 0] * X[:, 1] > 0, 1, -1)


def fitted(model, rng, n=60):
    X = rows(rng, n)
    return model.partial_fit(X, labels(X))


def two(rng, n=60, **params):
    """Two classifiers without running scales, of different streams."""
    return [fitted(KernelClassifier(scale=False, **params), rng, k) for k in (n, 2 * n)]
