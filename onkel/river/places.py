"""From dicts of numbers, whose features come and go, to rows of fixed columns."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.inputs import LARGEST

Array = NDArray[Any]
Name = Hashable

AT_ONCE = 128
"""Whole rows wait until they are so many, and then enter the means together."""


def number(name: Name, value: Any) -> float | None:
    """Return a feature's value as a float, or None if it is absent; refuse what is no number.

    Examples
    --------
    >>> number("a", True), number("a", float("nan"))
    (1.0, None)
    """
    if value.__class__ is float and -LARGEST <= value <= LARGEST:  # as most are
        return float(value)
    if value is None or type(value).__name__ == "NAType":  # as pandas writes what is missing
        return None
    if isinstance(value, (str, bytes)):
        raise ValueError(
            f"Feature {name!r} is the text {value!r:.40}; this model began with numbers alone, and "
            "numbers are accepted (None or NaN is absent). Say from the start what such a feature "
            f"is: columns={{{name!r}: 'category'}} or 'text'. The model was not changed."
        )
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"Feature {name!r} is {value!r:.40} ({type(value).__name__}); numbers are accepted "
            "(None or NaN is absent). Turn it into a number first. The model was not changed."
        ) from None
    if abs(found) > LARGEST:
        raise ValueError(
            f"Feature {name!r} is {found}; numbers of at most {LARGEST:g} in size are accepted "
            "(None or NaN is absent). Rescale it. The model was not changed."
        )
    return None if found != found else found


class Places:
    """Which feature stands in which column, and what one that is absent is taken for.

    ``m <- m + (x - m) / min(n, memory)``, for each feature over the n values that it has had

    Parameters
    ----------
    absent : "mean" or "zero"
        An absent feature has its running mean m, or 0.

    Examples
    --------
    >>> columns = Places("mean").grown(["a", "b"])
    >>> columns.filled(np.array([[1.0, 4.0], [3.0, np.nan], [np.nan, 6.0]]))
    array([[1., 4.], [3., 4.], [2., 6.]])
    >>> columns.row({"b": 7.0})
    array([2., 7.])
    """

    def __init__(self, absent: str) -> None:
        self.absent = absent
        self.memory = math.inf
        self.place: dict[Name, int] = {}
        self.means, self.counts = np.zeros(0), np.zeros(0)
        self.waiting: list[Array] = []
        self._bind()

    def _bind(self) -> None:
        """Make what turns a dict into a row at once."""
        names = list(self.place)
        self.width = len(names)
        self._get: Callable[[Any], tuple[Any, ...]] = itemgetter(*names) if names else tuple
        if self.width == 1:
            self._get = lambda x: (x[names[0]],)
        self._pack = struct.Struct(f"{self.width}d").pack

    def __getstate__(self) -> dict[str, Any]:
        """What :meth:`_bind` makes can be made again."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_get", "_pack")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    def copy(self) -> Self:
        """Return an independent copy."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.place, other.waiting = dict(self.place), list(self.waiting)
        other.means, other.counts = self.means.copy(), self.counts.copy()
        return other

    def grown(self, names: Sequence[Name]) -> Self:
        """Return these columns with more of them."""
        other = self.copy()
        other._settle()
        other.place.update({name: self.width + j for j, name in enumerate(names)})
        other.means = np.concatenate([other.means, np.zeros(len(names))])
        other.counts = np.concatenate([other.counts, np.zeros(len(names))])
        other._bind()
        return other

    # -- one example ---------------------------------------------------------------------------

    def whole(self, x: Mapping[Name, Any]) -> Array | None:
        """Return the row of a dict that has the known features and no other, else None.

        Whether its values are :meth:`fine` is for the caller to find out.
        """
        if len(x) != self.width or not self.width:
            return None
        try:
            return np.frombuffer(self._pack(*self._get(x)))
        except (KeyError, struct.error):
            return None

    def fine(self, row: Array) -> bool:
        """Whether a whole row holds numbers alone."""
        return bool(np.isfinite(row).all())

    def row(self, x: Mapping[Name, Any]) -> Array:
        """Return the row of any dict: what is absent is filled in, what is unknown left out."""
        place = self.place
        if not place:
            return self.fills()
        found = [(place.get(name), number(name, value)) for name, value in x.items()]
        row = self.fills()
        for j, value in found:
            if j is not None and value is not None:
                row[j] = value
        return row

    def fills(self) -> Array:
        """Return what an absent feature is taken for now, one number per column."""
        if self.absent == "zero":
            return np.zeros(self.width)
        if self.waiting:
            other = self.copy()
            other._settle()
            return other.means
        return self.means.copy()

    def note(self, row: Array) -> None:
        """Take a whole row into the means."""
        if self.absent == "mean":
            self.waiting.append(row)
            if len(self.waiting) >= AT_ONCE:
                self._settle()

    def note_some(self, which: Array, values: Array) -> None:
        """Take the values of some columns into their means."""
        if self.absent == "mean":
            self._settle()
            self.counts[which] += 1
            means, share = self.means[which], np.minimum(self.counts[which], self.memory)
            self.means[which] = means + (values - means) / share

    def _settle(self) -> None:
        if self.waiting:
            rows = np.concatenate(self.waiting).reshape(-1, self.width)
            self.waiting = []
            self._take(rows, np.arange(self.width))

    # -- many ----------------------------------------------------------------------------------

    def filled(self, rows: Array) -> Array:
        """Return rows with their gaps (NaN) filled in, one after another, and take them in."""
        rows, gaps = np.array(rows), np.isnan(rows)
        if self.absent == "zero":
            return np.where(gaps, 0.0, rows)
        self._settle()
        odd = gaps.any(axis=0)
        self._take(rows, np.flatnonzero(~odd))
        for j in np.flatnonzero(odd).tolist():
            rows[:, j] = self._fill_column(j, rows[:, j].tolist())
        return rows

    def _fill_column(self, j: int, values: list[float]) -> list[float]:
        mean, n = float(self.means[j]), float(self.counts[j])
        for i, value in enumerate(values):
            if value == value:
                n += 1
                mean += (value - mean) / min(n, self.memory)
            else:
                values[i] = mean
        self.means[j], self.counts[j] = mean, n
        return values

    def _take(self, rows: Array, columns: Array) -> None:
        """Take rows into the means of some columns (not `plain`: seen unequally often)."""
        means, counts = self.means[columns], self.counts[columns]
        rows, spare = np.ascontiguousarray(rows[:, columns]), np.zeros(len(columns))
        core.moments(
            rows, np.zeros(0), core.Running(counts, means, spare, float(self.memory), False)
        )
        self.means[columns], self.counts[columns] = means, counts
