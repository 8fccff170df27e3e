"""Seasons as points on circles: the time of day and of week, a number of rows, or what is found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.saved import Saved
from onkel.series import period

Array = NDArray[Any]

CLOCK = {"day": 86400.0, "week": 604800.0}
"""Seasons of the clock, in seconds."""
MONDAY = 3 * 86400.0
"""1970 began on a Thursday; a week begins on a Monday."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
WORDS = ("auto", *CLOCK)


def seasons_of(owner: str, season: Any) -> tuple[Any, ...]:
    """Return the seasons that a parameter names, checked.

    Examples
    --------
    >>> seasons_of("Lags", "day,week"), seasons_of("Lags", 24), seasons_of("Lags", None)
    (('day', 'week'), (24.0,), ())
    """
    if season is None:
        return ()
    if isinstance(season, str):
        season = [part.strip() for part in season.split(",")]
    parts = list(season) if isinstance(season, (list, tuple)) else [season]
    found = tuple(_season(owner, part) for part in parts)
    if len(set(found)) != len(found) or not found:
        raise ValueError(f"{owner}: season names each season once; got {season!r}.")
    return found


def _season(owner: str, part: Any) -> Any:
    if isinstance(part, str):
        if part in WORDS:
            return part
        try:
            part = float(part)
        except ValueError:
            part = math.nan if part else part
    number = isinstance(part, (int, float, np.integer, np.floating))
    if number and not isinstance(part, bool) and 2.0 <= part < 2.0**31:
        return float(part)
    raise ValueError(
        f"{owner}: season must be 'auto', 'day', 'week', a number of rows of at least 2, several "
        f"of them ('day,week'), or None; got {part!r}."
    )


def by_clock(seasons: tuple[Any, ...]) -> bool:
    """Whether some of the seasons need the time."""
    return any(season in CLOCK for season in seasons)


def names_of(seasons: tuple[Any, ...]) -> list[str]:
    """Return the names of the circles' two coordinates.

    Examples
    --------
    >>> names_of(("day", 24.0, "auto"))
    ['day sin', 'day cos', '24 rows sin', '24 rows cos', 'season sin', 'season cos']
    """
    words = ["season" if s == "auto" else s if s in CLOCK else f"{s:g} rows" for s in seasons]
    return [f"{word} {part}" for word in words for part in ("sin", "cos")]


class Seasons:
    """Where rows stand in their seasons, and the season that is looked for.

    Parameters
    ----------
    seasons : tuple
        As :func:`seasons_of` returns them.
    columns : int
        Of the rows.
    """

    def __init__(self, seasons: tuple[Any, ...], columns: int) -> None:
        self.seasons = seasons
        self.rows = 0
        self.past = period.Past(columns) if "auto" in seasons else None
        self.found: float | None = None
        """The period in rows, 0 for the day by the clock, None while none is clear."""
        self.first, self.last = math.nan, math.nan
        """Times of the first and of the last row, where rows have times."""

    def next_cut(self) -> int:
        """Return how many rows may be taken at once: up to where a period is looked for."""
        return 2**62 if self.past is None else period.due(self.rows) - self.rows

    def points(self, count: int, times: Array | None) -> Array:
        """Return where the next rows stand on the circles, two columns each; nothing changes."""
        at = np.arange(self.rows, self.rows + count, dtype=float)
        points = np.empty((count, 2 * len(self.seasons)))
        for j, season in enumerate(self.seasons):
            angle = 2.0 * math.pi * self._phase(season, at, times)
            points[:, 2 * j], points[:, 2 * j + 1] = np.sin(angle), np.cos(angle)
        return points

    def add(self, rows: Array, times: Array | None) -> None:
        """Take rows in, at most as many as :meth:`next_cut` says; look for a period where due."""
        cut = self.next_cut()
        self.rows += len(rows)
        if times is not None and len(times):
            self.first = float(times[0]) if math.isnan(self.first) else self.first
            self.last = float(times[-1])
        if self.past is not None:
            self.past.add(rows)
            if len(rows) == cut:
                self.found = self._look()

    def _phase(self, season: Any, at: Array, times: Array | None) -> Array:
        """Return the part of a season that has gone by, from 0 to 1.

        Of a season that is not known, any: turned by the golden angle from row to row, points
        spread as they will once it is known, and mean nothing.
        """
        if season == "auto":
            season = self.found
            if season is None:
                return np.asarray((at * GOLDEN) % 1.0)
            season = "day" if season == 0.0 else season
        if season in CLOCK:
            assert times is not None
            start = MONDAY if season == "week" else 0.0
            return np.asarray(((times + start) % CLOCK[season]) / CLOCK[season])
        return np.asarray((at % season) / season)

    def _look(self) -> float | None:
        """Return the period of the past: the day if it shows, the known one if it still does."""
        assert self.past is not None
        means, each = self.past.means[: self.past.count], 2.0**self.past.level
        step = (self.last - self.first) / (self.rows - 1)
        if step > 0.0 and period.confirmed(means, CLOCK["day"] / step / each):
            return 0.0
        if self.found:
            still = period.confirmed(means, self.found / each)
            if still is None:
                return self.found
            if still:
                return still * each
        found = period.found_period(means)
        return None if found is None else found * each

    @property
    def word(self) -> str | None:
        """The season that was found, in words."""
        if self.found is None:
            return None
        return "day" if self.found == 0.0 else f"{self.found:g} rows"

    def copy(self) -> Seasons:
        """Return an independent copy."""
        other = object.__new__(Seasons)
        other.__dict__.update(self.__dict__)
        other.past = None if self.past is None else self.past.copy()
        return other

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold."""
        last = {} if math.isnan(self.last) else {"first": self.first, "last": self.last}
        auto = {} if self.past is None else {"past": self.past.dump(), "found": self.found}
        return {"rows": self.rows, **last, **auto}

    def restore(self, saved: Saved) -> None:
        """Become what a file holds."""
        self.rows = saved.whole("rows")
        if saved.peek("last") is not None:
            self.first, self.last = saved.number("first"), saved.number("last")
        if self.past is not None:
            self.past = period.Past.restored(saved.inside("past"), self.past.means.shape[1])
            self.found = saved.maybe("found")
            if self.found is not None and not (self.found == 0.0 or 2.0 <= self.found < 2.0**62):
                raise saved.refuse("found", f"must be a period; got {self.found!r}")
            if self.found == 0.0 and math.isnan(self.last):
                raise saved.refuse("found", "must be a period of rows where rows have no times")
        saved.finish()
