"""Half-widths of intervals around a mixture's answers: a share nu of the targets lies outside.

Compiled (``src/bind_widths.cpp``), or as :class:`Width` has it.

A width is q times a unit, what an error at this row would be like. The unit may be anything: q
follows the misses, and its travel is all that the realised share can differ from nu by
(:func:`onkel.bounds.interval_misses`). A good unit makes intervals narrow where errors are small.
Ours is the usual error, larger where the members are apart, and larger or smaller where answers are
high, as far as past errors were.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core

Array = NDArray[Any]

RATE = 0.03
"""What log q rises by with a miss (less nu times it)."""
NARROWEST, WIDEST = 1e-3, 1e4
"""Within which q stays: a long stretch without error, or an error beyond all, is soon got over."""
HORIZON = 200
"""Rows over which the usual error and the usual answers are averaged."""
STEP = 0.01
"""Of the least mean squares by which a unit follows past errors."""
FAR = 5.0
"""No answer counts as further from the usual ones, no members as further apart."""
LARGE = 8.0
"""No error counts as larger to the unit, in usual errors."""
LEAST, MOST = 0.1, 10.0
"""Within which a unit stays, in usual errors."""
FARTHEST = 100.0
"""No error counts as larger to the standard deviation, in units."""


def first_width(nu: float) -> float:
    """Return q before the first row: right for errors that fall off exponentially.

    Examples
    --------
    >>> round(first_width(0.1), 3)
    2.303
    """
    return min(max(-math.log(nu), NARROWEST), WIDEST)


@dataclass
class Width:
    """Of one target: q, what its unit is made of, and what has happened."""

    log_q: float
    first: float
    """What log q began with; of merged ones, less the travel of each."""
    usual: float = 0.0
    """Mean error."""
    middle: float = 0.0
    """Mean answer."""
    spread: float = 0.0
    """Mean distance of answers from it."""
    base: float = 1.0
    """The unit, in usual errors: of a row at the middle, on which all members agree."""
    by_apart: float = 0.0
    """More for members that are a usual error apart."""
    by_answer: float = 0.0
    """More for an answer that is a spread above the middle."""
    missed: float = 0.0
    forgiven: float = 0.0
    """What the upper limit cut off of log q."""
    unspent: float = 0.0
    """What the lower limit cut off."""
    square: float = math.pi / 2
    """Mean square of errors, in units: at first that of a bell curve whose mean error is one."""

    def width(self, answer: float, apart: float) -> float:
        """Return the half-width around an answer, the members' answers being so far apart."""
        return self._width(self._unit(*self._features(answer, apart)))

    def follow(self, answer: float, apart: float, error: float, nu: float, row: int) -> float:
        """Take in the error of row number `row`, from 0; return the half-width before it."""
        far, high = self._features(answer, apart)
        unit = self._unit(far, high)
        width = self._width(unit)
        self._move(error > width, nu)
        if self.usual > 0:  # a step of normalised least mean squares
            gap = min(error / self.usual, LARGE) - unit
            step = STEP * gap / (1.0 + far * far + high * high)
            self.base += step
            self.by_apart += step * far
            self.by_answer += step * high
        if row:  # nothing was known before the very first row
            self._average(answer, error, row, self.usual * _within(unit))
        return width

    def _features(self, answer: float, apart: float) -> tuple[float, float]:
        """Return how far the members are apart and the answer from the middle, each in its unit."""
        far = apart / self.usual if self.usual > 0 else 0.0
        high = (answer - self.middle) / self.spread if self.spread > 0 else 0.0
        return min(far, FAR), min(max(high, -FAR), FAR)

    def _unit(self, far: float, high: float) -> float:
        return self.base + self.by_apart * far + self.by_answer * high

    def _width(self, unit: float) -> float:
        return math.exp(self.log_q) * self.usual * _within(unit)

    def _move(self, miss: bool, nu: float) -> None:
        self.missed += miss
        wanted = self.log_q + RATE * (miss - nu)
        self.log_q = found = min(max(wanted, LOW), HIGH)
        if found != wanted:
            self.forgiven += max(wanted - HIGH, 0.0)
            self.unspent += max(LOW - wanted, 0.0)

    def _average(self, answer: float, error: float, row: int, unit: float) -> None:
        share = 1.0 / min(row, HORIZON)
        if unit > 0:
            far = min(error / unit, FARTHEST)
            self.square += share * (far * far - self.square)
        self.usual += share * (error - self.usual)
        if row > 1:
            self.spread += share * (abs(answer - self.middle) - self.spread)
        self.middle += share * (answer - self.middle)


def _within(unit: float) -> float:
    return min(max(unit, LEAST), MOST)


LOW, HIGH = math.log(NARROWEST), math.log(WIDEST)
KEPT = [field.name for field in fields(Width)]
NUMBERS = np.array([RATE, LOW, HIGH, HORIZON, STEP, FAR, LARGE, LEAST, MOST, FARTHEST])
"""As the compiled core takes them."""


def now(state: Array, answers: Array, apart: Array) -> Array:
    """Return half-widths [rows][targets] for answers, the members so far apart.

    `state` is [targets][fields of :class:`Width`].
    """
    found = np.empty(answers.shape)
    if core.has_lane():
        a, b = (np.ascontiguousarray(v, np.float64) for v in (answers, apart))
        core.compiled.widths(a, b, NUMBERS, state, found)
        return found
    for c, kept in enumerate(state.tolist()):
        pairs = zip(answers[:, c].tolist(), apart[:, c].tolist(), strict=True)
        width = Width(*kept).width
        found[:, c] = [width(*pair) for pair in pairs]
    return found


def follow(state: Array, answers: Array, apart: Array, errors: Array, nu: float, row: int) -> Array:
    """Take in rows, of which the first has number `row`; return the half-widths before each.

    `state` changes in place.

    Examples
    --------
    >>> state = np.array([[0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    >>> follow(state, np.zeros((2, 1)), np.zeros((2, 1)), np.array([[1.0], [5.0]]), 0.1, 9).ravel()
    array([2.        , 1.87...])
    >>> float(state[0, KEPT.index("missed")])
    1.0
    """
    found = np.empty(answers.shape)
    if core.has_lane():
        a, b, c = (np.ascontiguousarray(v, np.float64) for v in (answers, apart, errors))
        core.compiled.follow_widths(a, b, c, nu, row, NUMBERS, state, found)
        return found
    for target, kept in enumerate(state.tolist()):
        one, columns = Width(*kept), (v[:, target].tolist() for v in (answers, apart, errors))
        found[:, target] = [
            one.follow(answer, far, error, nu, t)
            for t, (answer, far, error) in enumerate(zip(*columns, strict=True), row)
        ]
        state[target] = [getattr(one, name) for name in KEPT]
    return found
