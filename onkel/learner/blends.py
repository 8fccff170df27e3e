"""What a mixture's loss is and how answers are blended: votes, means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel.learner.mixture import Mixture, Part, resumed_parts
from onkel.learner.settings import Settings
from onkel.learner.widths import Widths
from onkel.saved import Saved

Array = NDArray[Any]


class Votes(Mixture):
    """Classification: the loss is a mistake (0 or 1), the answer a vote.

    A member votes its score, clipped at its margin to [-1, 1]; ``tanh(z / 2)`` (twice the
    probability, less 1) under the logistic loss; the sign where there is no fixed margin.
    """

    def _mix(self, scores: Array, Y: Array) -> Array:
        return self._vote(scores, self._judge(mistakes(scores, Y)))

    def blended(self, scores: Array) -> Array:
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
    further than 8 u from the members' weighted median counts as being there. Intervals around the
    answer miss a share nu of the targets (``widths.py``).
    """

    REACH = 8.0
    HORIZON = 1000

    def __init__(
        self, members: Sequence[Settings], parts: list[Part], rate: float, share: float,
        nu: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__(members, parts, rate, share)
        self.usual = np.zeros(self.columns)
        self.widths = Widths(self.columns, nu)

    def numbers(self) -> dict[str, float]:
        return {**super().numbers(), "nu": self.widths.nu}

    def copy(self) -> Self:
        other = super().copy()
        other.widths = self.widths.copy()
        return other

    def take_sum(self, mixtures: Sequence[Self], shares: Array, start: Self | None) -> None:
        super().take_sum(mixtures, shares, start)
        self.usual = shares @ np.array([m.usual for m in mixtures])
        begun = None if start is None else start.widths
        self.widths.take_sum([m.widths for m in mixtures], shares, begun)

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "usual": self.usual.copy(), "widths": self.widths.dump()}

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        self.usual = saved.array("usual", (self.columns,), np.float64, low=0.0)
        self.widths.restore(saved.inside("widths"))
        if self.widths.rows != self.judged:
            raise saved.refuse("widths", f"must have seen the {self.judged} rows that were judged")

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

    def outlook(self, X: Any, first: int = 0) -> tuple[Array, Array]:
        """Return the answers to rows, and the half-widths of the intervals around them."""
        scores = self.answers(X, first)
        answers = self.blended(scores)
        return answers, self.widths.now(answers, _apart(scores, answers))

    def _widths(self, scores: Array, answers: Array, Y: Array) -> Array:
        return self.widths.follow(answers, _apart(scores, answers), np.abs(Y - answers))

    def blended(self, scores: Array) -> Array:
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


def _apart(scores: Array, answers: Array) -> Array:
    """Return how far the members' answers are from the mixture's, on average."""
    found: Array = np.abs(scores - answers[:, None]).mean(axis=1)
    return found


def resumed_mixture(
    kind: type[Mixture], members: Sequence[Settings], numbers: dict[str, float], saved: Saved
) -> Mixture:
    """Return the mixture that a file holds."""
    mixture = kind(members, resumed_parts(members, saved.inside("parts")), **numbers)
    mixture.restore(saved)
    saved.finish()
    return mixture
