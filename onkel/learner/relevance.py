"""A relevance per column, learned: the more a column moves f, the finer its differences are seen.

What a column does is asked of f itself: the newest stored rows take its values from one another,
and the squares of what that does to f, as shares of what all columns do, are followed. A column's
differences are then multiplied by the root of its share, in units of the mean; none falls far
below that, so that a column that begins to matter is found again.

The places of a text are one column: codes stand together until they are APART in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Apart
from onkel.core.layout import APART
from onkel.saved import Saved

Array = NDArray[Any]

SHARE = 0.3
"""Of the shares that were found last, in those that are followed."""
LEAST = 0.2
"""No column counts for less, in units of the mean."""
ROWS, MOST, FEW = 256, 32, 4
"""Rows that are asked about: so many in all columns together, and of one at most, at least."""
WIDEST = 128
"""Columns beyond which asking would cost more than learning: then all count alike."""
FEWEST = 32
"""Terms without which nothing is asked."""
FIRST, LATER = 256, 8192
"""When it is asked first, and how far apart the times are at most; until then half as far again."""


def _early() -> list[int]:
    """Return the times up to where they are as far apart as they become."""
    found = [FIRST]
    while found[-1] < 2 * LATER:
        found.append(found[-1] * 3 // 2)
    return found


EARLY = _early()


def next_asking(t: int) -> int:
    """Return the first trial after t at which columns are asked for.

    Examples
    --------
    >>> [next_asking(t) for t in (0, 256, 400, 16000, 22141, 100000)]
    [256, 384, 576, 22141, 30333, 104061]
    """
    if t < EARLY[-1]:
        return next(time for time in EARLY if time > t)
    return EARLY[-1] + ((t - EARLY[-1]) // LATER + 1) * LATER


def columns_of(features: int, apart: Apart) -> Array:
    """Return the number of the column that each feature belongs to.

    Examples
    --------
    >>> columns_of(8, (APART, APART / 2, APART / 2, APART / 2, APART / 2))
    array([0, 1, 1, 2, 2, 3, 4, 5])
    """
    found, column, whole = [], -1, APART
    for u in apart:
        if whole > APART * (1 - 1e-9):
            column, whole = column + 1, 0.0
        found.append(column)
        whole += u
    return np.array([*found, *range(column + 1, column + 1 + features - len(apart))], np.int64)


@dataclass(frozen=True, eq=False)
class Relevance:
    """What each column has of what all of them do to f; a value that never changes."""

    base: Apart
    """What codes are apart where all columns count alike."""
    columns: Array
    """Of each feature."""
    part: Array
    """Of each column; they add up to 1."""

    @classmethod
    def begun(cls, features: int, apart: Apart) -> Relevance | None:
        """Return what is known before anything is: all count alike; None if they are too many."""
        columns = columns_of(features, apart)
        count = int(columns.max(initial=-1)) + 1
        return cls(apart, columns, np.full(count, 1.0 / count)) if 0 < count <= WIDEST else None

    @property
    def width(self) -> Array:
        """What differences of each feature are multiplied by; of the columns, 1 in the mean."""
        if np.all(self.part == self.part[0]):
            return np.ones(len(self.columns))
        return _level(np.maximum(_level(np.sqrt(self.part)), LEAST))[self.columns]

    @property
    def apart(self) -> Apart:
        """What codes are apart now."""
        return tuple(u * w for u, w in zip(self.base, self.width.tolist(), strict=False))

    # -- asking ----------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """How many of the newest stored rows are asked about."""
        return min(max(ROWS // len(self.part), FEW), MOST)

    def followed(self, scores: Callable[[Array], Array], rows: Array, sharing: int) -> Relevance:
        """Return it with what f does when these rows exchange the values of a column.

        Scores are those of several members side by side, as many as are `sharing`.
        """
        asked = np.concatenate([rows, *(self._exchanged(rows, j) for j in range(len(self.part)))])
        found = scores(asked).reshape(1 + len(self.part), len(rows), sharing, -1)
        with np.errstate(over="ignore"):
            effects = np.square(found[1:] - found[0]).sum(axis=(1, 3)).T
            total = effects.sum(axis=1)
        tell = (total > 0) & np.isfinite(total)
        if not tell.any():
            return self
        share = (effects[tell] / total[tell, None]).mean(axis=0)
        return replace(self, part=(1 - SHARE) * self.part + SHARE * share)

    def _exchanged(self, rows: Array, column: int) -> Array:
        """Return rows, each with the values that the one before it has in a column."""
        found, mine = rows.copy(), self.columns == column
        found[:, mine] = np.roll(rows[:, mine], 1, axis=0)
        return found

    # -- more features, several learners, files ----------------------------------------------------

    def take_narrow(self, narrow: Relevance) -> Relevance:
        """Return it with what was known of fewer columns; the new ones begin as their mean."""
        new = np.full(len(self.part) - len(narrow.part), np.square(np.sqrt(narrow.part).mean()))
        part = np.concatenate([narrow.part, new])
        return replace(self, part=part / part.sum())

    def restored(self, saved: Saved) -> Relevance:
        """Return what a file holds, of the same columns."""
        part = saved.array("relevance", self.part.shape, np.float64, low=0.0)
        if not abs(part.sum() - 1.0) < 1e-6:
            raise saved.refuse("relevance", "must be shares that add up to 1")
        return replace(self, part=part)


def mean_of(each: Sequence[Relevance], rows: Sequence[int]) -> Relevance:
    """Return the mean of several, by the rows that each has learned; as they are if they agree."""
    parts = np.array([one.part for one in each])
    if np.all(parts == parts[0]):
        return each[0]
    part = np.array(rows, np.float64) @ parts
    return replace(each[0], part=part / part.sum())


def _level(values: Array) -> Array:
    """Return values with a mean of 1."""
    found: Array = values / values.mean()
    return found
