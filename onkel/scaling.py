"""Running standardisation: moments that follow the stream, and when they are taken over."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core

Array = NDArray[Any]

SMALLEST_SPREAD = 1e-290


class Moments:
    """Mean and spread of each column, over all rows so far or the last `horizon` of them.

    The t-th row enters with weight ``1/min(t, horizon)``, one row after another, so that the
    result does not depend on how the rows were cut into blocks.
    """

    def __init__(self, columns: int, horizon: float, eps: float) -> None:
        self.mean = np.zeros(columns)
        self.variance = np.zeros(columns)
        self.seen = 0
        self.horizon = max(horizon, 1.0)
        self.eps = eps

    def update(self, rows: Array) -> None:
        """Take in rows."""
        rows = np.ascontiguousarray(rows, np.float64)
        if self.seen == 0 and len(rows):
            self.mean[:] = rows[0]  # exact for a constant column
        core.moments(rows, self.seen, self.horizon, self.mean, self.variance)
        self.seen += len(rows)

    def spread(self) -> Array:
        """Return the standard deviation; 1 where the column has been constant."""
        spread = np.sqrt(self.variance)
        noise = np.maximum(8 * self.eps * np.abs(self.mean), SMALLEST_SPREAD)
        return np.where(spread > noise, spread, 1.0)

    def copy(self) -> Moments:
        """Return an independent copy."""
        other = object.__new__(Moments)
        other.__dict__.update(self.__dict__)
        other.mean, other.variance = self.mean.copy(), self.variance.copy()
        return other


def next_refresh(t: int, memory: float) -> int:
    """Return the first refresh after trial t: powers of two up to memory/4, then its multiples.

    Examples
    --------
    >>> [next_refresh(t, memory=80) for t in (0, 1, 5, 16, 20, 41)]
    [1, 2, 8, 20, 40, 60]
    """
    power = 1 << t.bit_length()
    if math.isinf(memory) or power <= memory / 4:
        return power
    period = max(int(memory / 4), 1)
    return (t // period + 1) * period
