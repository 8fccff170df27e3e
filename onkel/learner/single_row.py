"""Single rows: what a call needs is bound once, so that the call itself is cheap."""

from __future__ import annotations

from math import exp, expm1, isinf
from typing import TYPE_CHECKING, Any

import numpy as np

from onkel import core
from onkel.learner.engines.lane import EVERY
from onkel.saved import MOST

if TYPE_CHECKING:
    from onkel.learner.base import Learner
    from onkel.learner.term_learner import TermLearner

CHUNK = 256
"""Trials whose rates are asked for at once."""


class SingleRow:
    """A term learner up to the next refresh of its frame.

    It shares all arrays with the learner, and is thrown away whenever anything else changes that.
    """

    def __init__(self, learner: TermLearner) -> None:
        self.learner, self.terms, self.state = learner, learner.terms, learner.state
        self.seen = learner.moments.seen
        self.until = min(learner.next_refresh(), MOST + 1)
        self.dtype, self.duration = learner.dtype, learner.rule.duration
        self.first = 0
        self.rates: list[float] = []
        c = learner.columns
        self.scores, limits = np.zeros((2, c))
        self.bound = learner.terms.one(
            learner.window, learner.state,
            core.Stepper(learner.loss, learner.rule, learner.settings.intercept),
            units(learner), row_moments(learner), target_moments(learner), self.scores, limits,
        )  # fmt: skip
        self._learn = self.bound.learn if c == 1 else self.bound.learn_all

    def holds(self, learner: Any) -> bool:
        """Whether these are still the learner's arrays; a call that was refused puts in others."""
        return (
            self.learner is learner
            and self.terms is learner.terms
            and self.state is learner.state
            and self.seen is learner.moments.seen
        )

    def learn(self, row: Any, y: Any, time: Any = None) -> bool:
        """Learn one row (y: a number, or one per output); False if not for here, unchanged."""
        learner = self.learner
        t = learner.t + 1
        if t >= self.until or not t % EVERY or not self._on_time(time):
            return False
        at = t - self.first
        if at >= len(self.rates):
            if not self._plan(t):
                return False
            at = 0
        if row.__class__ is not np.ndarray or row.dtype is not self.dtype:
            row = plain_row(row, self.dtype)
        try:
            eta, lam, fade = self.rates[at], self.lams[at], 1.0
            if time is not None:
                gap = (time - learner.clock) / self.duration
                lam, fade = -expm1(-gap) / eta, exp(-gap)
            if not self._learn(row, y, t, eta, lam, self.oldest[at], fade):
                return False
        except TypeError:
            return False  # not contiguous, or nothing that could be a row
        learner.t = t
        if time is not None:
            learner.clock = float(time)
        terms = self.terms
        terms.head, terms.count = self.bound.head, self.bound.count
        return True

    def _on_time(self, time: Any) -> bool:
        """Whether a time is given where it should be, in order, before the next refresh."""
        if time is None or isinf(self.duration):
            return time is None and isinf(self.duration)
        if time.__class__ not in (float, int):
            return False
        last, refreshed = self.learner.clock, self.learner.refreshed
        assert last is not None and refreshed is not None
        return bool(last <= time < refreshed + self.duration / 4)

    def look(self, row: Any) -> bool:
        """Leave the scores of one row in `scores`; False if it is not for here."""
        if row.__class__ is not np.ndarray or row.dtype is not self.dtype:
            row = plain_row(row, self.dtype)
        try:
            fine: bool = self.bound.look(row)
        except TypeError:
            return False
        return fine

    def _plan(self, t: int) -> bool:
        """Ask for the rates and ages of the next trials; False if one of them is refused."""
        trials = t + np.arange(min(CHUNK, self.until - t))
        try:
            rates = self.learner.rule.rates(trials)
        except Exception:  # a user's schedule: whose turn it is must see it, not who comes before
            return False
        self.first, self.rates = t, rates.tolist()
        self.lams = self.learner.rule.lams(trials).tolist()
        self.oldest = self.learner.window.oldest(trials).tolist()
        return True


def units(learner: Learner) -> core.Targets:
    """Return the units of a learner's targets; 0 and 1 where there are none."""
    targets, c = learner.targets, learner.columns
    plain = np.zeros(c), np.ones(c)
    return core.Targets(*((targets.center, targets.spread) if targets.active else plain))


def row_moments(learner: Learner) -> core.Running | None:
    """Return the moments of a learner's rows, None where none are kept."""
    kept = learner.settings.scale or learner.moments.gaps
    return learner.moments.running() if kept else None


def target_moments(learner: Learner) -> core.Running | None:
    """Return the moments of a learner's targets, None where none are kept."""
    return learner.targets.moments.running() if learner.targets.active else None


def plain_row(row: Any, dtype: Any) -> Any:
    """Return a row of plain numbers in a model's dtype, None for anything else."""
    if row.__class__ not in (np.ndarray, list, tuple):
        return None
    try:
        found = np.asarray(row)
    except ValueError:
        return None
    if found.dtype.kind not in "fiu":
        return None
    with np.errstate(over="ignore"):  # what becomes infinite is refused
        return np.ascontiguousarray(found, dtype)
