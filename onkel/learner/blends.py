"""What a mixture's loss is and how answers are blended: votes, means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core import means
from onkel.learner.mixture import Mixture, Part, resumed_parts
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

    def _look(self, scores: Array) -> Array:
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
        standing = self._standing()
        mixed = means.learn(standing, scores, Y)
        loss, gap, judged = standing.totals.tolist()
        self.loss_total, self.gap_total, self.judged = loss, gap, int(judged)
        return mixed

    def _look(self, scores: Array) -> Array:
        return means.look(self._standing(), scores)

    def _standing(self) -> means.Standing:
        """The weights and all else that moves with them, which change in place."""
        totals = np.array([self.loss_total, self.gap_total, self.judged], np.float64)
        return means.Standing(
            self.weights, self.usual, self.losses, totals, self.rate, self.share, self.REACH,
            float(self.HORIZON),
        )  # fmt: skip


def resumed_mixture(
    kind: type[Mixture], members: Sequence[Settings], rate: float, share: float, saved: Saved
) -> Mixture:
    """Return the mixture that a file holds."""
    mixture = kind(members, resumed_parts(members, saved.inside("parts")), rate, share)
    mixture.restore(saved)
    saved.finish()
    return mixture
