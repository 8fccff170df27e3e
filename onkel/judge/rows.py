"""Rows on their way to a model: features, targets, times, and the names of the columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns import Encoded
from onkel.inputs import RefusedRow

Array = NDArray[Any]


class NamedRows:
    """Rows with the names of their columns, as the estimators read them off a data frame.

    Examples
    --------
    >>> rows = NamedRows(np.zeros((2, 1), np.float32), ["level"])
    >>> rows.columns, rows.to_numpy().shape
    (['level'], (2, 1))
    """

    def __init__(self, X: Any, columns: list[str]) -> None:
        self.X, self.columns = X, columns
        if isinstance(X, np.ndarray):
            self.dtypes = [X.dtype]  # one for all of them

    def __len__(self) -> int:
        return len(self.X)

    def part(self, which: Any) -> NamedRows:
        """Return some of them."""
        return NamedRows(self.X[which], self.columns)

    def to_numpy(self) -> Any:
        """Return the rows alone."""
        return self.X


def named(model: Any, X: Any, names: list[str] | None) -> Any:
    """Return rows as a model takes them: with names in its first call, which fixes them."""
    if isinstance(X, Encoded):  # it knows its own
        return X
    return X if names is None or model.__sklearn_is_fitted__() else NamedRows(X, names)


@dataclass
class Rows:
    """Rows for one model, in the order in which they are learned.

    Examples
    --------
    >>> rows = Rows(np.zeros((4, 1)), np.arange(4), np.array([True, True, False, True]))
    >>> [(part.start, part.stop) for part in rows.stretches()]
    [(0, 2), (2, 3), (3, 4)]
    """

    X: Any
    """Features: numbers, a table's rows, or (where they differ in length) an array of arrays."""
    y: Array | None = None
    """Targets, where the task has them."""
    known: Array | None = None
    """Which rows have a target; None: all of them."""
    time: Array | None = None
    """Seconds, where forgetting goes by the clock."""

    def part(self, which: Any) -> Rows:
        """Return some of them."""
        rest = [None if v is None else v[which] for v in (self.y, self.known, self.time)]
        return Rows(self.X[which], *rest)

    def stretches(self) -> Iterator[slice]:
        """Yield runs of rows with, and without, a target: what a model takes in one call."""
        known = self.known
        edges = [] if known is None else ((known[1:] != known[:-1]).nonzero()[0] + 1).tolist()
        for start, stop in pairwise([0, *edges, len(self.X)]):
            if stop > start:
                yield slice(start, stop)

    def whole(self) -> Any:
        """Return the features as models take them; rows of different lengths are an error."""
        if isinstance(self.X, (Encoded, list)):  # a table's, or texts
            return self.X
        return self.X if self.X.ndim == 2 else np.stack(list(self.X))

    def __len__(self) -> int:
        return len(self.X)


class Halted(RefusedRow):
    """A row was refused after the stretches before its own had been judged and learned.

    Parameters
    ----------
    error : RefusedRow
        Of the stretch.
    learned : int
        Rows before that stretch.
    found : object
        What came of them.
    """

    def __init__(self, error: RefusedRow, learned: int, found: Any) -> None:
        super().__init__(str(error), learned + error.row)
        self.learned, self.found = learned, found

    def __reduce__(self) -> Any:
        """Return how a copy is made: the refusal alone."""
        return RefusedRow, (str(self), self.row)
