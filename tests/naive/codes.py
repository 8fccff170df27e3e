"""Rows whose first columns are codes: equal or unequal, and no more."""

import numpy as np

from .learner import Norma


def pair(x, z, apart):
    """x . z, ||x - z||_2^2 and ||x - z||_1, code by code and number by number."""
    dot = square = city = 0.0
    for j, (p, q) in enumerate(zip(x, z, strict=True)):
        if j >= len(apart):
            dot += p * q
            square += (p - q) ** 2
            city += abs(p - q)
        elif p == q:
            dot += apart[j] / 2
        else:
            square += apart[j]
            city += apart[j]
    return dot, square, city


def on_codes(formula, apart):
    """k(x, z) = formula(x . z, ||x - z||_2^2, ||x - z||_1)."""
    return lambda x, z: formula(*pair(x, z, apart))


def one_hot(X, apart, city=False):
    """Each code as one entry of its own: sqrt(u/2), or u/2 for the city-block distance."""
    columns = []
    for j, u in enumerate(apart):
        size = u / 2 if city else (u / 2) ** 0.5
        columns += [size * (X[:, j] == code) for code in sorted(set(X[:, j].tolist()))]
    return np.column_stack([*columns, X[:, len(apart) :]])


class CodedNorma(Norma):
    """Standardisation is for the numbers."""

    def __init__(self, *, codes, **learner):
        super().__init__(**learner)
        self.codes = codes

    def _framed(self, x):
        found = np.array(super()._framed(x), float)
        found[: self.codes] = x[: self.codes]
        return found
