"""A time as numbers: when it is, and where in the day, the week and the year."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns.codes import is_missing

Array = NDArray[Any]

DAY = 86_400.0
YEAR = 365.2425 * DAY
START = 946_684_800.0
"""1 January 2000, a Saturday, in seconds since 1970: days are counted from here."""
CIRCLES = {"hour": (DAY, START), "weekday": (7 * DAY, START + 2 * DAY), "year": (YEAR, START)}
"""The length of each circle, and where it begins."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Parts:
    """What of a time is a number.

    Parameters
    ----------
    running : bool
        Whether the days that have gone are one: not for what is new by being late.
    year : bool
        Whether the place in the year is one: over less than a few years it is a second running
        time, and more harm than good.
    """

    running: bool = True
    year: bool = False

    @property
    def circles(self) -> list[str]:
        """Those that count."""
        return ["hour", "weekday", *(["year"] if self.year else [])]

    def names(self, name: str) -> list[str]:
        """Return what the numbers of a time are called."""
        circles = [f"{circle} {part}" for circle in self.circles for part in ("cos", "sin")]
        return [f"{name} ({part})" for part in [*(["days"] if self.running else []), *circles]]

    def numbers(self, seconds: Array) -> Array:
        """Return the numbers of times: days since 2000, and a point on each circle.

        Examples
        --------
        >>> Parts().numbers(np.array([START + 6 * 3600]))[0, :3].round(3)
        array([0.25, 0.  , 1.  ])
        """
        found = [(seconds - START) / DAY] if self.running else []
        for length, start in map(CIRCLES.__getitem__, self.circles):
            angle = 2 * np.pi * np.mod((seconds - start) / length, 1.0)
            found += [np.cos(angle), np.sin(angle)]
        return np.stack(found, axis=1)


PLAIN = Parts()


def hour_of(name: str) -> str:
    """Return what the hours of a time are called."""
    return f"{name} (hour)"


def hours(seconds: Array) -> Array:
    """Return the hour of the day of times as a code: 1 to 24, 0 where there is none.

    Examples
    --------
    >>> hours(np.array([START, START - 1.0, np.nan]))
    array([ 1., 24.,  0.])
    """
    found = 1.0 + np.floor(np.mod(seconds, DAY) / 3600.0)
    return np.where(np.isnan(seconds), 0.0, found)


def seconds_of(cells: Any) -> Array:
    """Return times as seconds since 1970, NaN where there is none; a naive one is UTC."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        found = cells.astype("datetime64[us]").astype(np.float64) / 1e6
        return np.where(np.isnat(cells), np.nan, found)
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        return np.asarray(cells, np.float64)
    return np.array([_seconds(cell) for cell in cells], np.float64)


def _seconds(cell: Any) -> float:
    if is_missing(cell):
        return np.nan
    if isinstance(cell, np.datetime64):
        return float(seconds_of(np.array([cell]))[0])
    if isinstance(cell, datetime.datetime):
        if cell.tzinfo is None:
            cell = cell.replace(tzinfo=datetime.UTC)
        return (cell - _EPOCH) / datetime.timedelta(seconds=1)
    if isinstance(cell, datetime.date):
        return float(cell.toordinal() - _EPOCH.toordinal()) * DAY
    return float(cell)


def is_time(value: Any) -> bool:
    """Whether a value is a time by its type."""
    return isinstance(value, (datetime.date, np.datetime64))
