"""Rows to be learned, and what goes with each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Batch:
    """Some rows of one call."""

    X: Any
    Y: Array
    weight: Array
    own: Array
    """The trial at which a row's term was stored in an earlier pass, or 0; brought up to date."""
    times: Array | None = None
    """In seconds, where forgetting goes by the clock."""
    first: int = 0
    """Number of the first row in messages."""

    def __len__(self) -> int:
        return len(self.Y)

    def part(self, start: int, stop: int) -> Batch:
        """Return rows start ... stop - 1."""
        at = slice(start, stop)
        times = None if self.times is None else self.times[at]
        return Batch(
            self.X[at], self.Y[at], self.weight[at], self.own[at], times, self.first + start
        )

    def upto(self, stop: int) -> Batch:
        """Return rows 0 ... stop - 1."""
        return self if stop == len(self.Y) else self.part(0, stop)

    def gaps(self, last: float | None) -> Array | None:
        """Return the seconds since the row before (`last`: before the first), if known."""
        if self.times is None:
            return None
        return np.diff(self.times, prepend=self.times[0] if last is None else last)
