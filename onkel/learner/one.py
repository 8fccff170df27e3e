"""One row at a time: what a call needs is bound once, so that the call itself is cheap."""

from __future__ import annotations

from typing import Any

import numpy as np

from onkel.learner.terms import EVERY, TermLearner
from onkel.scaling import Moments, next_refresh


class One:
    """A term learner of one output and constant rate, up to the next refresh of its frame.

    It shares all arrays with the learner, and is thrown away whenever anything else changes that.
    """

    def __init__(self, learner: TermLearner) -> None:
        self.learner, self.terms = learner, learner.terms
        self.until = next_refresh(learner.t, learner.rule.memory)
        targets, scale = learner.targets, learner.settings.scale
        self.moments = [m for m, on in ((learner.moments, scale), (targets.moments, targets.active))
                        if on]  # fmt: skip
        self.bound = learner.terms.one(
            (learner.window.cap, learner.window.age), learner.state,
            (learner.loss.native(), learner.rule.native()), learner.settings.intercept,
            float(learner.rule.constant),  # type: ignore[attr-defined]
            (float(targets.center[0]), float(targets.spread[0])) if targets.active else (0.0, 1.0),
            _running(learner.moments, scale), _running(targets.moments, targets.active),
        )  # fmt: skip

    @staticmethod
    def fits(learner: Any) -> bool:
        """Whether rows of this learner may go one by one."""
        return (
            isinstance(learner, TermLearner)
            and learner.in_lane
            and learner.columns == 1
            and learner.t > 0
            and learner.window.growth is None
            and getattr(learner.rule, "constant", None) is not None
            and bool(learner.targets.known.all())
            and (not learner.rule.divides or bool(learner.known.all()))
        )

    def learn(self, row: Any, y: float) -> bool:
        """Learn one row; False if it is not for here, nothing changed."""
        learner = self.learner
        t = learner.t + 1
        if t >= self.until or not t % EVERY or row.__class__ is not np.ndarray:
            return False
        try:
            if not self.bound.learn(row, y, t):
                return False
        except TypeError:
            return False  # another dtype, or not contiguous
        learner.t = t
        terms = self.terms
        terms.head, terms.count = self.bound.head, self.bound.count
        for moments in self.moments:
            moments.seen += 1
        return True

    def look(self, row: Any) -> float | None:
        """Return the score of one row, or None if it is not for here."""
        if row.__class__ is not np.ndarray:
            return None
        try:
            score: float = self.bound.look(row)
        except TypeError:
            return None
        return score if score == score else None


def _running(moments: Moments, on: bool) -> tuple[Any, ...]:
    """The moments as the compiled core takes them."""
    return moments.mean, moments.variance, float(moments.seen), float(moments.horizon), on
