"""Single rows for recursive least squares: what a call needs is bound once."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import squares_row as core_row
from onkel.learner.engines.second_order import CHECKED
from onkel.learner.single_row import plain_row, row_moments, target_moments, units
from onkel.saved import MOST

if TYPE_CHECKING:
    from onkel.learner.second_order import SecondOrderLearner

Array = NDArray[Any]


class SquaresRow:
    """A learner of second order up to the next look at its units and centres.

    It shares all arrays with the learner. A row is first tried, which changes nothing, and then
    taken. Alone it is driven by `learn`, as part of a mixture by `attempt` and `take`.

    Parameters
    ----------
    learner : SecondOrderLearner
        What learns.
    features : Features
        Its map from rows to features.
    scores : array
        Where each row's are left, one per output.
    """

    def __init__(
        self, learner: SecondOrderLearner, features: core_row.Features, scores: Array
    ) -> None:
        self.learner, self.scores, self.dtype = learner, scores, learner.dtype
        self.held = self._arrays(learner)
        self.until = min(learner.next_refresh(), MOST + 1)
        self.limits, self.y = np.zeros((2, len(scores)))
        self.row: Any = None
        keep = float(learner.rule.keeps(1, len(learner.cov))[0])
        self.bound = core_row.squares_row(
            features, learner.core_numbers, keep, (learner.state, learner.theta, learner.cov),
            units(learner), row_moments(learner), target_moments(learner), scores, self.limits,
        )  # fmt: skip

    @staticmethod
    def _arrays(learner: SecondOrderLearner) -> tuple[Any, ...]:
        return (
            learner.state, learner.theta, learner.cov, learner.map, learner.frame,
            learner.moments.seen, learner.targets,
        )  # fmt: skip

    def holds(self, learner: Any) -> bool:
        """Whether these are still the learner's arrays; a call that was refused puts in others."""
        return self.learner is learner and all(
            a is b for a, b in zip(self.held, self._arrays(learner), strict=True)
        )

    def attempt(self, row: Any, y: Array, t: int) -> bool:
        """Try a row; False if it is not for here. Nothing but `scores` and `limits` changes."""
        if t >= self.until or not t % CHECKED or not self.bound.attempt(row, y):
            return False
        try:
            self.learner.kernel.check_rows(row[None])
        except ValueError:
            return False
        self.row, self.y = row, y
        return True

    def take(self) -> None:
        """Learn the row that was tried last."""
        self.bound.commit()
        learner, scores = self.learner, self.scores
        if learner.loss.task == "regression":
            errors = np.abs(self.y - scores)
            learner.intervals.follow(scores[None], self.limits[None], errors[None])
        learner.t += 1
        if learner.following is not None:
            learner.following.keep(learner.t, self.row[None], self.y[None])

    def learn(self, row: Any, y: Any, time: Any = None) -> bool:
        """Learn one row (y: a number, or one per output); False if not for here, unchanged."""
        if row.__class__ is not np.ndarray or row.dtype is not self.dtype:
            row = plain_row(row, self.dtype)
        if row is None or time is not None:
            return False
        try:
            y = np.array([y], np.float64) if y.__class__ is not np.ndarray else y
            if not self.attempt(row, y, self.learner.t + 1):
                return False
        except (TypeError, ValueError):
            return False  # not contiguous, or nothing that could be a row or a target
        self.take()
        return True

    def look(self, row: Any) -> bool:
        """Leave the scores of one row in `scores`; False if it is not for here."""
        if row.__class__ is not np.ndarray or row.dtype is not self.dtype:
            row = plain_row(row, self.dtype)
        try:
            self.learner.kernel.check_rows(row[None])
            return bool(self.bound.look(row))
        except (TypeError, ValueError):
            return False


def squares_row(learner: SecondOrderLearner, scores: Array | None = None) -> SquaresRow | None:
    """Return what learns rows one by one the cheap way, if that is possible now."""
    ready = learner.t > 0 and learner.targets.known.all() and isinf(learner.rule.duration)
    if not (ready and learner.columns and core.has_lane()):
        return None
    features = learner.map.row_features(learner.frame)
    if features is None:
        return None
    return SquaresRow(learner, features, np.zeros(learner.columns) if scores is None else scores)
