"""From where on alerts are compared: a row, a date, or so long before the last row."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.errors import UsageProblem
from onkel.clock import seconds

Array = NDArray[Any]

ACCEPTED = "a time span before the last row (30d, 12h), a date (2026-10-01), or a row's number"


@dataclass(frozen=True)
class Since:
    """Where comparing begins; learning always begins with the first row.

    Examples
    --------
    >>> Since.of("1500"), Since.of("30d").span
    (Since(text='1500', row=1500, time=None, span=None), 2592000.0)
    >>> Since.of("1970-01-02T00:00").time
    86400.0
    """

    text: str | None = None
    """As it was given."""
    row: int = 0
    time: float | None = None
    """In seconds since 1970, as times are read: those without a zone in UTC."""
    span: float | None = None
    """So many seconds before the last row; where that is, is known at the end (`settled`)."""

    @classmethod
    def of(cls, text: str | None) -> Since:
        """Return what was asked for, or raise UsageProblem."""
        if text is None:
            return cls()
        if text.isascii() and text.isdigit():
            return cls(text, row=int(text))
        span = seconds(text)
        return cls(text, time=None if span else _date(text), span=span)

    @property
    def by_clock(self) -> bool:
        """Whether rows must have times."""
        return self.time is not None or self.span is not None

    def settled(self, end: float) -> Since:
        """Return the same, with the time of the last row known."""
        return self if self.span is None else replace(self, time=end - self.span, span=None)

    def check(self, end: float) -> None:
        """Raise UsageProblem where the last row, of a time that is known now, came before.

        Examples
        --------
        >>> Since.of("1970-01-02").check(86400.0)
        """
        if self.time is not None and -math.inf < end < self.time:
            raise UsageProblem(
                f"--since {self.text}: the last row that the run has read is of {_moment(end)}."
            )

    def holds(self, rows: Array, times: Array | None) -> Array:
        """Return which rows are compared."""
        if self.time is None or times is None:
            return np.asarray(rows >= self.row)
        return np.asarray(times >= self.time)


def _date(text: str) -> float:
    try:
        return timestamp(text)
    except ValueError:
        raise UsageProblem(f"--since is {ACCEPTED}; got {text!r}.") from None


def timestamp(text: str) -> float:
    """Return the seconds since 1970 at a date in ISO 8601, in UTC where it names no zone.

    Examples
    --------
    >>> timestamp("1970-01-02"), timestamp("1970-01-01T01:00+01:00")
    (86400.0, 0.0)
    """
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _moment(seconds: float) -> str:
    """Return a time in ISO 8601; seconds that no calendar has as they are."""
    with contextlib.suppress(OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    return f"{seconds:.17g}"


class Judged:
    """Counts the rows that are compared, and those of the warm-up among them.

    Of a span before the last row, the rows that may still be inside are kept as times: 9 bytes
    for each.

    Examples
    --------
    >>> judged = Judged(Since.of("10s"))
    >>> judged.add(np.arange(3), np.array([0.0, 5.0, 20.0]), np.array([False, False, True]))
    >>> judged.counts(Since.of("10s").settled(20.0)), judged.begins
    ((1, 0), 10.0)
    """

    def __init__(self, since: Since) -> None:
        self.since, self._rows, self._warming = since, 0, 0
        self._end = -math.inf
        self._held: deque[tuple[float, Array, Array]] = deque()

    @property
    def begins(self) -> float:
        """What comes before this time will not be compared, whatever rows follow."""
        return self._end - (self.since.span or math.inf)

    def add(self, rows: Array, times: Array | None, shown: Array) -> None:
        """Take rows in: their numbers, their times, and which were not of the warm-up."""
        if self.since.span is None or times is None:
            self._count(self.since.holds(rows, times), shown)
            return
        latest = float(times.max(initial=-math.inf))
        self._end = max(self._end, latest)
        self._held.append((latest, times, shown))
        while self._held[0][0] < self.begins:
            self._held.popleft()

    def _count(self, inside: Array, shown: Array) -> None:
        self._rows += int(np.count_nonzero(inside))
        self._warming += int(np.count_nonzero(inside & ~shown))

    def counts(self, since: Since) -> tuple[int, int]:
        """Return the rows that are compared, and how many of them were of the warm-up."""
        for _, times, shown in self._held:
            self._count(since.holds(times, times), shown)
        self._held.clear()
        return self._rows, self._warming
