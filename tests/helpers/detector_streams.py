"""Streams for a detector, and plans so small that everything soon wraps round."""

from __future__ import annotations

import numpy as np

from onkel.core.density import DensityState, Plan, run

SMALL = Plan(
    nu=0.02, terms=64, late_terms=32, memory=300, delay=50, hold=30, history=100, warmup=50,
    young=12, seed=3,
)  # fmt: skip
TINY = Plan(
    nu=0.05, terms=24, late_terms=16, memory=120, delay=30, hold=20, history=60, warmup=30,
    young=12, seed=5,
)  # fmt: skip


def slow(rng, n, d):
    """Each row hangs on the one before."""
    X = rng.normal(size=(n, d))
    for t in range(1, n):
        X[t] += 0.9 * X[t - 1]
    return X


def faulty(rng, n, d):
    """A fault that lasts, a lone row, a level that shifts for good."""
    X = slow(rng, n, d)
    X[n // 3 : n // 3 + 20] += 25
    X[n // 2] -= 40
    X[2 * n // 3 :, 0] += 12
    return X


def spiked(rng, n, d):
    """Rows in any order, one in ten far out."""
    X = rng.normal(size=(n, d))
    X[rng.random(n) < 0.1] += 50
    return X


def constant(rng, n, d):
    """One column, or the only one, never moves."""
    X = rng.normal(size=(n, d))
    X[:, -1] = 7
    return X


STREAMS = {
    "any order": lambda rng, n: rng.normal(size=(n, 3)),
    "one column": lambda rng, n: rng.standard_t(3, size=(n, 1)),
    "one slow column": lambda rng, n: slow(rng, n, 1),
    "slow": lambda rng, n: slow(rng, n, 3),
    "faulty": lambda rng, n: faulty(rng, n, 3),
    "one faulty column": lambda rng, n: faulty(rng, n, 1),
    "spiked": lambda rng, n: spiked(rng, n, 2),
    "walk": lambda rng, n: np.cumsum(rng.normal(size=(n, 2)), axis=0),
    "constant": lambda rng, n: constant(rng, n, 3),
    "all constant": lambda rng, n: constant(rng, n, 1),
    "sizes": lambda rng, n: slow(rng, n, 3) * [1e60, 1.0, 1e-60] + [0.0, 1e6, 0.0],
    "dice": lambda rng, n: rng.integers(0, 4, size=(n, 2)).astype(float),
}


def learn(plan, X, weight=None, blocks=None):
    """Return state, what was said of each row, and its members; `blocks`: rows of each call."""
    state = DensityState.empty(X.shape[1], plan)
    weight = np.ones(len(X)) if weight is None else weight
    found = []
    for first, last in zip([0, *(blocks or [])], [*(blocks or []), len(X)], strict=True):
        found.append(run(plan, state, X[first:last], weight[first:last], members=True))
    return state, *(np.concatenate(parts) for parts in zip(*found, strict=True))
