"""What a mixture's loss is and how answers are blended: votes, means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.learner.mixture import Mixture, Part, resumed_parts
from onkel.learner.resume import Open, opened
from onkel.learner.settings import Settings
from onkel.saved import Saved

Array = NDArray[Any]


class Votes(Mixture):
    """Classification: the loss is a mistake (0 or 1), the answer a vote.

    A member votes its score, clipped at its margin to [-1, 1]; ``tanh(z / 2)`` (twice the
    probability, less 1) under the logistic loss; the sign where there is no fixed margin.
    """

    def _mix(self, scores: Array, Y: Array) -> Array:
        return self._vote(scores, self._judge(mistakes(scores, Y)))

    def scores(self, X: Any, first: int = 0) -> Array:
        scores = self.answers(X, first)
        return self._vote(scores, np.broadcast_to(self.weights, scores.shape[:2]))

    def _vote(self, scores: Array, weights: Array) -> Array:
        votes = votes_of([m.loss for m in self.members], scores)
        return np.einsum("tm,tmc->tc", weights, votes)


def mistakes(scores: Array, Y: Array) -> Array:
    """Return 1 where a member's scores do not put the right class strictly above the others.

    ``y z <= 0`` for one output; `scores` are [rows][members][outputs], `Y` is +1 or -1.
    """
    if Y.shape[1] <= 1:
        return np.asarray((scores * Y[:, None, :] <= 0).any(axis=2), float)
    mine = Y[:, None, :] > 0
    own = np.where(mine, scores, -np.inf).max(axis=2)
    others = np.where(mine, -np.inf, scores).max(axis=2)
    return np.asarray(own <= others, float)


def votes_of(losses: Sequence[Any], scores: Array) -> Array:
    """Return the members' votes, from -1 to 1, for scores [rows][members][outputs]."""
    votes = np.empty(scores.shape)
    for i, loss in enumerate(losses):
        votes[:, i] = loss.votes(scores[:, i])
    return votes


class Means(Mixture):
    """Regression: the loss is the error in units of what is usual, the answer a mean.

    ``l_i = min(1, ((y - p_i) / (8 u))^2)``, u the running mean of the members' median error (the
    present trial with it, the last 1000 trials or so), averaged over several targets. A prediction
    further than 8 u from the members' weighted median counts as being there.
    """

    REACH = 8.0
    HORIZON = 1000

    def __init__(
        self, members: Sequence[Settings], parts: list[Part], rate: float, share: float
    ) -> None:
        super().__init__(members, parts, rate, share)
        self.usual = np.zeros(self.columns)

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "usual": self.usual.copy()}

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        self.usual = saved.array("usual", (self.columns,), np.float64, low=0.0)

    def _mix(self, scores: Array, Y: Array) -> Array:
        errors = np.abs(scores - Y[:, None, :])
        usual = self._follow(np.median(errors, axis=1))
        scale = self.REACH * usual[1:, None, :]
        with np.errstate(over="ignore"):
            losses = np.minimum(errors / np.where(scale > 0, scale, 1.0), 1.0) ** 2
        before = self._judge(np.where(scale > 0, losses, 0.0).mean(axis=2))
        self.usual = usual[-1].copy()
        return self._mean(scores, before, self.REACH * usual[:-1])

    def _follow(self, errors: Array) -> Array:
        """Return the usual error before the first row and after each."""
        found = np.empty((len(errors) + 1, len(self.usual)))
        found[0] = self.usual
        for c, now in enumerate(self.usual.tolist()):
            for t, error in enumerate(errors[:, c].tolist()):
                now += (error - now) / min(self.judged + t + 1, self.HORIZON)
                found[t + 1, c] = now
        return found

    def scores(self, X: Any, first: int = 0) -> Array:
        scores = self.answers(X, first)
        weights = np.broadcast_to(self.weights, scores.shape[:2])
        return self._mean(scores, weights, self.REACH * self.usual)

    @staticmethod
    def _mean(scores: Array, weights: Array, reach: Array) -> Array:
        """Return weighted means, far answers moved to within `reach` of the weighted median."""
        order = np.argsort(scores, axis=1, kind="stable")
        total = np.cumsum(np.take_along_axis(weights[:, :, None], order, axis=1), axis=1)
        middle = np.argmax(total >= 0.5 * total[:, -1:], axis=1)[:, None]
        at = np.take_along_axis(order, middle, axis=1)
        median = np.take_along_axis(scores, at, axis=1)
        near = np.broadcast_to(reach, median[:, 0].shape)[:, None]
        gap = np.clip(scores - median, -near, near)
        return median[:, 0] + np.einsum("tm,tmc->tc", weights, gap)


def resumed_mixture(
    kind: type[Mixture], members: Sequence[Settings], rate: float, share: float, saved: Saved,
    opening: Open = opened,
) -> Mixture:  # fmt: skip
    """Return the mixture that a file holds."""
    parts = resumed_parts(members, saved.inside("parts"), opening)
    mixture = kind(members, parts, rate, share)
    mixture.restore(saved)
    saved.finish()
    return mixture
