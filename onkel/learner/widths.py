"""Intervals around a mixture's answers: their widths, for one or several targets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.widths import HIGH, KEPT, LOW, RATE, Width, first_width, follow, now
from onkel.saved import Saved

Array = NDArray[Any]

UNITS, FAR = ("base", "by_apart", "by_answer"), 1e12
"""What a unit is made of, and what none of it comes to."""


class Widths:
    """Half-widths for each of several targets.

    Parameters
    ----------
    columns : int
        Number of targets.
    nu : float
        The share that is to lie outside, of each of them.
    """

    def __init__(self, columns: int, nu: float) -> None:
        self.nu, self.rows = nu, 0
        first = math.log(first_width(nu))
        start = astuple(Width(first, first))
        self.state = np.tile(np.array(start), (columns, 1))
        """[targets][fields of :class:`Width`]."""

    def of(self, name: str) -> Array:
        """Return one number of each target."""
        return self.state[:, KEPT.index(name)]

    def owed(self) -> Array:
        """Return misses beyond those promised, of each target, as the travel of q has them."""
        moved = self.of("log_q") - self.of("first")
        return (moved + self.of("forgiven") - self.of("unspent")) / RATE

    def now(self, answers: Array, apart: Array) -> Array:
        """Return half-widths [rows][targets] for answers, the members so far apart."""
        return now(self.state, answers, apart)

    def deviations(self, answers: Array, apart: Array) -> Array:
        """Return the standard deviation of each target [rows][targets]: the unit is made so."""
        return self.now(answers, apart) * (np.sqrt(self.of("square")) / np.exp(self.of("log_q")))

    def follow(self, answers: Array, apart: Array, errors: Array) -> Array:
        """Take in rows, one after another; return the half-widths before each."""
        found = follow(self.state, answers, apart, errors, self.nu, self.rows)
        self.rows += len(answers)
        return found

    def take_sum(self, parts: Sequence[Widths], shares: Array, start: Widths | None) -> None:
        """Become the mean of these, with the counts of all; a start of them counts once.

        What log q has travelled adds as counts do, so that the misses are what it says.
        """
        each = np.array([part.state for part in parts])
        whole, state = each.sum(axis=0), np.einsum("j,jcf->cf", shares, each)
        self.rows = sum(part.rows for part in parts)
        if start is not None:
            whole -= (len(parts) - 1) * start.state
            self.rows -= (len(parts) - 1) * start.rows
        travel = whole[:, KEPT.index("log_q")] - whole[:, KEPT.index("first")]
        for name in ("missed", "forgiven", "unspent"):
            state[:, KEPT.index(name)] = np.maximum(whole[:, KEPT.index(name)], 0.0)
        state[:, KEPT.index("first")] = state[:, KEPT.index("log_q")] - travel
        self.state = state

    def copy(self) -> Widths:
        """Return an independent copy."""
        other = object.__new__(Widths)
        other.__dict__.update(self.__dict__, state=self.state.copy())
        return other

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold, beside nu."""
        return {"rows": self.rows, "state": self.state.copy()}

    def restore(self, saved: Saved) -> None:
        """Become what a file holds."""
        self.rows = saved.whole("rows")
        self.state = saved.array("state", self.state.shape, np.float64)
        never_less = ("usual", "spread", "missed", "forgiven", "unspent", "square")
        counts = [self.of(name) for name in never_less]
        inside = (self.of("log_q") >= LOW) & (self.of("log_q") <= HIGH)
        if (
            np.any(np.array(counts) < 0)
            or not inside.all()
            or np.any(self.of("missed") > self.rows)
            or np.any(np.abs([self.of(name) for name in UNITS]) > FAR)
        ):
            raise saved.refuse("state", "is not that of intervals: widths or counts beyond limits")
        saved.finish()
