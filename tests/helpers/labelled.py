"""Rows with labels, and a way to feed them: what both tests of the naive twins need."""

from __future__ import annotations

import numpy as np


def labelled(rng, rows, features, margin=0.0):
    """Rows with labels of a random direction u, ||u|| = 1; none nearer to its plane than margin."""
    u = rng.normal(size=features)
    u /= np.linalg.norm(u)
    X = rng.normal(size=(rows, features))
    y = np.where(X @ u > 0, 1.0, -1.0)
    return X + margin * y[:, None] * u, y, u


def feed(twin, X, Y):
    return np.array([twin.learn_one(x, list(np.atleast_1d(y))) for x, y in zip(X, Y, strict=True)])
