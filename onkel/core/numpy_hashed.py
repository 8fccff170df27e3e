"""Weights of codes in plain NumPy: one for each bucket of (column, code).

As in ``numpy_core.py``, every function has a compiled twin (``src/hashed.hpp``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.code_table import CodeTable
from onkel.core.layout import LARGEST, SMALL_SCALE, Field, Move

Array = NDArray[Any]

_ODD, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def buckets(codes: Array, count: int) -> Array:
    """Return where the weights of codes [rows][columns] stand in a table of so many (2**n).

    That is -1 where a value is missing: it has no weight.
    """
    columns = np.arange(codes.shape[1], dtype=np.uint64) << np.uint64(24)
    key = (columns | codes.astype(np.uint64)) + np.uint64(1)
    key *= _ODD
    key ^= key >> np.uint64(32)
    key *= _MIX
    key ^= key >> np.uint64(32)
    return np.where(codes == 0, -1, (key & np.uint64(count - 1)).astype(np.int64))


class Hot:
    """The codes of one row as features of value 1: those that share a bucket add up."""

    def __init__(self, at: Array, table: CodeTable) -> None:
        self.table = table
        self.at, many = np.unique(at[at >= 0], return_counts=True)
        self.value = many.astype(np.float64)

    @property
    def length2(self) -> float:
        """Return the squared length."""
        return float(self.value @ self.value)

    def score(self, c: int, s: Array) -> float:
        """Return what they add to f."""
        return float(s[Field.SCALE] * (self.value @ self.table.weights[self.at, c]))

    def past_score(self, c: int, s: Array) -> float:
        """Return what they add to the sum of all f so far."""
        now, past = (a[self.at, c] for a in (self.table.weights, self.table.past))
        return float(self.value @ (s[Field.SCALE_SUM] * now + past))

    def move(self, c: int, move: Move, s: Array) -> bool:
        """Make a step: theta <- shrink theta + coef x; False if that leaves the floating range."""
        table = self.table
        s[Field.SCALE] *= move.shrink
        if not abs(s[Field.SCALE]) < LARGEST:
            return False
        if abs(s[Field.SCALE]) < SMALL_SCALE**2:
            fold(table, c, s)
        if move.coef == 0:
            return True
        delta, old = move.coef / s[Field.SCALE] * self.value, table.weights[self.at, c]
        table.weights[self.at, c] = new = old + delta
        table.marks[c] += float(delta @ (2 * old + delta)), 1.0
        if table.past.size:
            table.past[self.at, c] -= s[Field.SCALE_SUM] * delta
        return bool(np.all(np.abs(s[Field.SCALE] * new) < LARGEST))


def folds_now(table: CodeTable, c: int, s: Array) -> bool:
    """Whether the scale has gone far from 1, or rounding may have gathered."""
    scale = abs(s[Field.SCALE])
    far = not SMALL_SCALE < scale < 1 / SMALL_SCALE
    return bool(far or table.marks[c, 1] >= table.buckets)


def fold(table: CodeTable, c: int, s: Array) -> None:
    """Make an output's numbers actual ones: scale 1, nothing in SCALE_SUM, squares added anew."""
    if table.past.size:
        table.past[:, c] += s[Field.SCALE_SUM] * table.weights[:, c]
    table.weights[:, c] *= s[Field.SCALE]
    s[Field.SCALE], s[Field.SCALE_SUM] = 1.0, 0.0
    table.marks[c] = table.weights[:, c] @ table.weights[:, c], 0.0


def norm(table: CodeTable, c: int, s: Array, numbers: float) -> float:
    """Return the length of all weights, that of the numbers' given."""
    own = s[Field.SCALE] ** 2 * max(table.marks[c, 0], 0.0)
    return float(np.sqrt(numbers * numbers + own))


def scores(codes: Array, table: CodeTable, now: Array, then: Array, out: Array) -> None:
    """Add what the codes of rows say: `now` times by the weights, `then` times by the past."""
    at = buckets(codes, table.buckets)
    there = (at >= 0)[:, :, None]
    for j in range(table.count):
        out += there[:, j] * now * table.weights[at[:, j]]
        if table.past.size:
            out += there[:, j] * then * table.past[at[:, j]]
