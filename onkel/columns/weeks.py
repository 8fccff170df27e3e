"""When in the week something happens: counts by the hour, and what is usual in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

HOURS = 168
MONDAY = 72
"""Hours from the Monday before 1970 until it began, a Thursday."""
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MOST = 0.95
"""The share of what came that counts as usual."""


def hours_of(cos: Array, sin: Array) -> Array:
    """Return the hours since Monday 00:00 of points on the circle of the week.

    Examples
    --------
    >>> hours_of(np.cos([0.0, np.pi]), np.sin([0.0, np.pi]))
    array([ 0., 84.])
    """
    angle = np.mod(np.arctan2(sin, cos), 2 * np.pi)
    return np.mod(np.round(angle * (HOURS * 60 / (2 * np.pi))) / 60, HOURS)


NEAR = (0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25)
"""What an hour counts for, three hours away and less: so that a new hour is not new at once."""


def near(counts: Any, hour: int) -> float:
    """Return how often something came about an hour of the week.

    Examples
    --------
    >>> near([8.0] + [0.0] * 167, 166)
    4.0
    """
    return sum(
        share * counts[(hour + step) % HOURS] for step, share in enumerate(NEAR, -(len(NEAR) // 2))
    )


def said(hour: float) -> str:
    """Return a place in the week in words.

    Examples
    --------
    >>> said(6 * 24 + 3.5)
    'Sunday 03:30'
    """
    minutes = round(hour * 60)
    return f"{DAYS[minutes // 1440 % 7]} {minutes % 1440 // 60:02d}:{minutes % 60:02d}"


ALL_DAY = 22
"""Usual hours are not named if there are so many of them."""


def usual(counts: Array) -> str:
    """Return in words when most of what was counted came; "" where that is at all times.

    Examples
    --------
    >>> counts = np.zeros(HOURS)
    >>> for day in range(5):
    ...     counts[24 * day + 8 : 24 * day + 18] = 1
    >>> usual(counts)
    'Monday to Friday 08:00–18:00'
    """
    if not counts.sum() > 0:
        return ""
    days, hours = _stretches(counts)
    words = [_days(*days)] if days[1] < 7 else []
    words += [f"{hours[0]:02d}:00–{sum(hours) % 24:02d}:00"] if hours[1] < ALL_DAY else []
    return " ".join(words)


def is_usual(counts: Array, hour: float) -> bool:
    """Whether an hour of the week is among those that `usual` names.

    Examples
    --------
    >>> counts = np.zeros(HOURS)
    >>> counts[8:18] = 1
    >>> is_usual(counts, 8.5), is_usual(counts, 18.0), is_usual(counts, 32.5)
    (True, False, False)
    """
    days, hours = _stretches(counts)
    at = int(hour)
    in_day = hours[1] >= ALL_DAY or (at % 24 - hours[0]) % 24 < hours[1]
    return (at // 24 - days[0]) % 7 < days[1] and in_day


def _stretches(counts: Array) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the usual days and the usual hours, each by its start and length."""
    return _shortest(counts.reshape(7, 24).sum(axis=1)), _shortest(
        counts.reshape(7, 24).sum(axis=0)
    )


def _shortest(counts: Array) -> tuple[int, int]:
    """Return start and length of the shortest stretch of a circle that holds most of its counts."""
    n, total = len(counts), counts.sum()
    around = np.concatenate([[0.0], np.cumsum(np.tile(counts, 2))])
    for length in range(1, n):
        held = around[length : length + n] - around[:n]
        if held.max() >= MOST * total:
            return int(held.argmax()), length
    return 0, n


def _days(first: int, length: int) -> str:
    if length == 1:
        return DAYS[first]
    return f"{DAYS[first]} {'and' if length == 2 else 'to'} {DAYS[(first + length - 1) % 7]}"
