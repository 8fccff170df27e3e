"""Single or double precision: what the numbers of a source need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SHARE = 1e-4
"""Rounding may move a number by so much of its column's spread."""
EXACT = 2**24
"""Whole numbers up to here are themselves in single precision."""


def needs_double(X: Array, names: list[str]) -> list[str]:
    """Return the columns whose numbers single precision would blur.

    Rounding moves x by up to ``|x| / 2^24``: no harm, unless numbers lie far from zero and close
    together, as time stamps do. Missing numbers do not count.

    Examples
    --------
    >>> X = np.array([[0.1, 1.7e9], [0.2, 1.7e9 + 1], [0.4, 1.7e9 + 2]])
    >>> needs_double(X, ["level", "stamp"])
    ['stamp']
    """
    return [name for name, column in zip(names, X.T, strict=True) if _blurs(column)]


def precision_of(X: Array, names: list[str]) -> str:
    """Return what the first rows of a source need."""
    return "double" if needs_double(X, names) else "single"


def _blurs(column: Array) -> bool:
    held = column[~np.isnan(column)]
    if not len(held):
        return False
    largest, spread = float(np.abs(held).max()), float(held.std())
    if spread == 0.0:
        return largest > EXACT
    return largest / EXACT > SHARE * spread


def narrowed(X: Array) -> Array:
    """Return rows in single precision; what is beyond its range becomes its largest number.

    Examples
    --------
    >>> narrowed(np.array([[1e300, 1.0]])).tolist()
    [[3.4028234663852886e+38, 1.0]]
    """
    with np.errstate(over="ignore"):
        found = X.astype(np.float32)
    if np.isinf(found).any():
        most = np.finfo(np.float32).max
        found = np.clip(found, -most, most)
    return found
