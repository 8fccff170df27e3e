"""The truth about additive kernels: points in a plain list, summed by the formula."""

from __future__ import annotations

from math import comb

import numpy as np

from onkel.core.split import ExpPoly, Poly, Split


class Brownian(Split):
    """A user's own: min(p, q)."""

    rank = 1

    def lower(self, p, anchor):
        return p[None]

    def upper(self, q, anchor):
        return np.ones((1, len(q)))


KERNELS = {
    "exponential": ExpPoly(1.3),
    "matern32": ExpPoly(0.7, (1, 1)),
    "matern52": ExpPoly(2.0, (1, 1, 1 / 3)),
    "spline1": Poly(1),
    "spline2": Poly(2),
    "spline3": Poly(3),
}


def naive(split, p, q):
    """The kernel of two numbers, or of arrays of them."""
    low, gap = np.minimum(p, q), np.abs(p - q)
    if isinstance(split, Brownian):
        return low
    if isinstance(split, Poly):
        z = split.order
        bridge = sum(
            comb(z, r) / (2 * z - r + 1) * low ** (2 * z - r + 1) * gap**r for r in range(z + 1)
        )
        return bridge + sum((p * q) ** r for r in range(z + 1))
    s = split.sigma * gap
    return sum(c * s**k for k, c in enumerate(split.c)) * np.exp(-s)


def naive_matrix(splits, weights, X, Z):
    pairs = zip(splits, weights, X.T, Z.T, strict=True)
    return sum(w * naive(split, x[:, None], z[None]) for split, w, x, z in pairs)


def ask(trees, X, threads=1):
    out = np.full((len(X), trees.columns), np.nan)
    trees.query(np.ascontiguousarray(X), out, threads)
    return out


class Terms:
    """The truth: a list of points, summed one by one."""

    def __init__(self, splits, weights, columns):
        self.splits, self.weights = splits, weights
        self.X, self.coef = np.empty((0, len(splits))), np.empty((0, columns))
        self.ids = np.empty(0, np.int64)

    def insert(self, X, coef, ids):
        self.X, self.coef = np.concatenate([self.X, X]), np.concatenate([self.coef, coef])
        self.ids = np.concatenate([self.ids, ids])

    def erase(self, X, ids):
        stay = ~np.isin(self.ids, ids)
        self.X, self.coef, self.ids = self.X[stay], self.coef[stay], self.ids[stay]

    def add(self, X, ids, delta):
        for i, d in zip(ids, delta, strict=True):
            self.coef[self.ids == i] += d

    def remix(self, M):
        self.coef = self.coef @ M

    def check(self, trees, X, tolerance=1e-12):
        """The error must be small beside sum_i |a_i| K(x_i, x)."""
        K = naive_matrix(self.splits, self.weights, X, self.X)
        size = K @ np.abs(self.coef) + 1e-290  # below that, e^-s is as good as 0
        error = np.abs(ask(trees, X) - K @ self.coef) / size
        assert trees.count == len(self.X)
        assert np.max(error, initial=0.0) <= tolerance

    def sample(self, rng, n):
        some = rng.permutation(len(self.ids))[:n]
        return np.ascontiguousarray(self.X[some]), self.ids[some]


def both(make, splits, weights, columns):
    weights = np.asarray(weights, float)
    return make(splits, weights, columns), Terms(splits, weights, columns)


def grow(rng, pair, X, block=100):
    trees, truth = pair
    start = int(truth.ids.max(initial=-1)) + 1
    ids = start + np.arange(len(X))
    coef = rng.normal(size=(len(X), trees.columns))
    for i in range(0, len(X), block):
        part = slice(i, i + block)
        for one in pair:
            one.insert(np.ascontiguousarray(X[part]), coef[part], ids[part])


def shuffle(rng, pair):
    """One random change, to both."""
    trees, truth = pair
    what = rng.choice(["insert", "erase", "add", "remix"], p=[0.4, 0.37, 0.2, 0.03])
    n, d = int(rng.integers(1, 60)), len(truth.splits)
    if what == "insert":
        grow(rng, pair, np.round(rng.uniform(0, 4, size=(n, d)), int(rng.integers(1, 9))))
    elif what == "remix":
        M = rng.normal(size=(trees.columns, int(rng.integers(1, 4))))
        for one in pair:
            one.remix(M)
    else:
        X, ids = truth.sample(rng, n)
        delta = rng.normal(size=(len(ids), trees.columns))
        for one in pair:
            one.erase(X, ids) if what == "erase" else one.add(X, ids, delta)
