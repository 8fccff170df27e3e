"""The period of a series, found as it comes: all of the past in bounded memory, ever coarser.

Two rows that lie a period apart differ less than two rows that lie half a period apart, or one and
a half. What merely wanders does not do that: the farther apart, the more its rows differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.saved import Saved

Array = NDArray[Any]

SIZE = 4096
"""Means that are kept; when there are so many, every two become one."""
FIRST = 64
"""A period is looked for from so many rows on, at doubling times and once between."""
SHORTEST = 4
"""Of a period, in means."""
PERIODS = 4
"""So many of them must have been seen."""
CLEAR = 0.5
"""A period apart, squared differences are at most this part of those half a period apart."""
KNOWN_CLEAR = 0.7
"""The same for one that was to be expected: a day."""
BETTER = 0.95
"""A period is moved where this part of the differences is left, or less."""
NEAR = 0.1
"""Of several periods that are nearly as clear the shortest is the one."""


def due(rows: int) -> int:
    """Return after how many rows the period is next looked for: 64, 96, 128, 192, 256, ...

    Examples
    --------
    >>> due(0), due(64), due(100), due(128)
    (64, 96, 128, 192)
    """
    at = FIRST
    while at <= rows:
        if 3 * at // 2 > rows:
            return 3 * at // 2
        at *= 2
    return at


class Past:
    """All rows so far as at most `SIZE` means over 2^level rows each.

    Examples
    --------
    >>> past = Past(1)
    >>> past.add(np.arange(10000.0)[:, None])
    >>> past.level, past.count, past.means[:2, 0]
    (2, 2500, array([1.5, 5.5]))
    """

    def __init__(self, columns: int) -> None:
        self.level, self.count = 0, 0
        self.means = np.zeros((FIRST, columns))
        self.waiting: list[Array] = []
        """At each level below, a mean that waits for its neighbour, or none."""

    def add(self, rows: Array) -> None:
        """Take rows in; how they are cut into calls does not matter."""
        for start in range(0, len(rows), SIZE):
            self._add(rows[start : start + SIZE])

    def _add(self, rows: Array) -> None:
        means = rows
        for at in range(self.level):
            means = np.concatenate([self.waiting[at], means])
            whole = len(means) // 2 * 2
            self.waiting[at] = means[whole:].copy()
            means = (means[0:whole:2] + means[1:whole:2]) / 2.0
        while len(means):
            taken = means[: SIZE - self.count]
            self._make_room(self.count + len(taken))
            self.means[self.count : self.count + len(taken)] = taken
            self.count += len(taken)
            means = means[len(taken) :]
            if self.count == SIZE:
                means = self._halve(means)

    def _make_room(self, count: int) -> None:
        """See to it that so many means have a place: many series are short."""
        size = len(self.means)
        while size < count:
            size *= 2
        if size > len(self.means):
            more = np.zeros((size - len(self.means), self.means.shape[1]))
            self.means = np.concatenate([self.means, more])

    def _halve(self, rest: Array) -> Array:
        """Let every two means become one; return what is still to be taken in, likewise."""
        half = SIZE // 2
        self.means[:half] = (self.means[0::2] + self.means[1::2]) / 2.0
        self.means[half:] = 0.0
        self.count, self.level = half, self.level + 1
        whole = len(rest) // 2 * 2
        self.waiting.append(rest[whole:].copy())
        return (rest[0:whole:2] + rest[1:whole:2]) / 2.0

    def copy(self) -> Past:
        """Return an independent copy."""
        other = object.__new__(Past)
        other.level, other.count = self.level, self.count
        other.means, other.waiting = self.means.copy(), [w.copy() for w in self.waiting]
        return other

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold."""
        waiting = {str(at): mean.copy() for at, mean in enumerate(self.waiting)}
        return {"level": self.level, "means": self.means[: self.count].copy(), "waiting": waiting}

    @classmethod
    def restored(cls, saved: Saved, columns: int) -> Past:
        """Return what a file holds."""
        past = cls(columns)
        past.level = saved.whole("level", high=62)
        means = saved.array("means", (None, columns), np.float64)
        past.count = len(means)
        if past.count >= SIZE:
            raise saved.refuse("means", f"must be fewer than {SIZE}")
        past._make_room(past.count)
        past.means[: past.count] = means
        inside = saved.inside("waiting")
        for at in range(past.level):
            past.waiting.append(inside.array(str(at), (None, columns), np.float64))
            if len(past.waiting[at]) > 1:
                raise inside.refuse(str(at), "must be one mean, or none")
        inside.finish()
        saved.finish()
        return past


def differences(means: Array) -> Array:
    """Return, by lag, the mean squared difference of rows that lie so far apart.

    In units of each column's variance, averaged over the columns that vary.

    Examples
    --------
    >>> differences(np.array([[0.0], [1.0], [0.0], [1.0]])).round(6)
    array([0., 4., 0., 4.])
    """
    n = len(means)
    centred = means - means.mean(axis=0)
    power = (centred * centred).mean(axis=0)
    noise = (1e-12 * np.abs(means).max(axis=0, initial=0.0)) ** 2
    centred = centred[:, power > noise] / np.sqrt(power[power > noise])
    if not centred.shape[1]:
        return np.zeros(n)
    spectrum = np.fft.rfft(centred, 2 * n, axis=0)
    products = np.fft.irfft(spectrum * spectrum.conj(), 2 * n, axis=0)[:n].mean(axis=1)
    squares = np.concatenate([[0.0], np.cumsum((centred * centred).mean(axis=1))])
    pairs = np.arange(n, 0, -1)
    both = squares[n - np.arange(n)] + squares[n] - squares[:n]
    return np.maximum((both - 2.0 * products) / pairs, 0.0)


def clearness(apart: Array, lag: int) -> float:
    """Return how much less rows differ one and two lags apart than between; the less the clearer.

    Examples
    --------
    >>> apart = differences(np.sin(np.arange(200.0) * np.pi / 10)[:, None])
    >>> clearness(apart, 20) < 0.01, clearness(apart, 15) > 1
    (True, True)
    """
    between = min(apart[lag // 2], apart[(3 * lag) // 2])
    return float(max(apart[lag], apart[2 * lag]) / between) if between > 0.0 else np.inf


def found_period(means: Array) -> float | None:
    """Return the period of some rows, or None if none is clear.

    Examples
    --------
    >>> found_period(np.sin(np.arange(200.0) * np.pi / 10)[:, None])
    20.0
    >>> found_period(np.random.default_rng(0).normal(size=(200, 1)))
    """
    apart, longest = differences(means), len(means) // PERIODS
    lags = range(SHORTEST, longest + 1)
    dips = [lag for lag in lags if apart[lag] <= apart[lag - 1 : lag + 2].min()]
    clear = {lag: clearness(apart, lag) for lag in dips}
    if not clear or min(clear.values()) > CLEAR:
        return None
    least = min(clear.values())
    lag = min(lag for lag, value in clear.items() if value <= least + NEAR)
    lag += int(np.argmin(apart[lag : min(lag + lag // 4, longest) + 1]))  # noise has many minima
    return refined(apart, lag)


def refined(apart: Array, lag: int) -> float:
    """Return a period to parts of a row, by its multiples: where differences are clearly less."""
    reach, times = max(lag // 32, 1), 1
    middle = lag
    while True:
        near = apart[middle - reach : middle + reach + 1]
        if near.min() < BETTER * apart[middle]:
            middle += int(np.argmin(near)) - reach
        if 2 * middle + reach >= len(apart) // 2:
            return middle / times
        middle, times = 2 * middle, 2 * times


def confirmed(means: Array, period: float) -> float | None:
    """Return a period that was to be expected, refined: 0 if it does not show, None if unclear.

    None means that these rows cannot tell: the period is too short for them, or too long.

    Examples
    --------
    >>> rows = np.sin(np.arange(200.0) * np.pi / 10)[:, None]
    >>> confirmed(rows, 21.0), confirmed(rows, 27.0), confirmed(rows, 90.0)
    (20.0, 0.0, None)
    """
    lag = round(period)
    if lag < SHORTEST or lag * PERIODS > len(means):
        return None
    apart = differences(means)
    return refined(apart, lag) if clearness(apart, lag) <= KNOWN_CLEAR else 0.0
