"""Regression by a mixture: the mean of the members' answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import bounds
from onkel.core import means
from onkel.learner.merging.mixtures import mean_weights
from onkel.learner.mixture import Mixture, Part
from onkel.learner.settings import Settings
from onkel.learner.widths import Widths
from onkel.saved import Saved

Array = NDArray[Any]


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
        super().__init__(members, parts, share)
        self.rate = rate
        count = len(members)
        self.weights = np.full(count, 1.0 / count)
        self._losses = np.zeros(count)
        self._loss_total = 0.0
        self.gap_total = 0.0
        """What the weighted mean of the losses exceeds the mixed loss by, in all."""
        self.usual = np.zeros(self.columns)
        self.widths = Widths(self.columns, nu)

    def numbers(self) -> dict[str, float]:
        return {"rate": self.rate, **super().numbers(), "nu": self.widths.nu}

    def copy(self) -> Self:
        other = super().copy()
        other.widths = self.widths.copy()
        return other

    def take_sum(self, mixtures: Sequence[Self], shares: Array, start: Self | None) -> None:
        super().take_sum(mixtures, shares, start)
        self.weights = mean_weights(np.array([m.weights for m in mixtures]), shares)
        self.add_up(("_losses", "_loss_total", "gap_total"), mixtures, start)
        self.usual = shares @ np.array([m.usual for m in mixtures])
        begun = None if start is None else start.widths
        self.widths.take_sum([m.widths for m in mixtures], shares, begun)

    # -- what reports ask ------------------------------------------------------------------------

    @property
    def influence(self) -> Array:
        return self.weights

    @property
    def losses(self) -> Array:
        return self._losses

    @property
    def loss_total(self) -> float:
        return self._loss_total

    def regret_bounds(self) -> tuple[float, float]:
        count, trials, best = len(self.weights), self.judged, float(self._losses.min())
        if count < 2 or not trials:
            return 0.0, 0.0
        known: dict[str, Any] = {"rate": self.rate, "share": self.share}
        known |= {"members": count, "trials": trials}
        measured = bounds.fixed_share(**known, mix_gap=max(self.gap_total, 0.0))
        return measured.bound, bounds.fixed_share(**known, best_loss=best).bound

    # -- files ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        return {
            **super().dump(),
            "weights": self.weights.copy(),
            "losses": self._losses.copy(),
            "loss_total": self._loss_total,
            "gap_total": self.gap_total,
            "usual": self.usual.copy(),
            "widths": self.widths.dump(),
        }

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        count = len(self.members)
        self.weights = saved.array("weights", (count,), np.float64, low=0.0)
        if abs(self.weights.sum() - 1.0) > 1e-6:
            raise saved.refuse("weights", "must have a sum of 1")
        self._losses = saved.array("losses", (count,), np.float64, low=0.0)
        self._loss_total = saved.number("loss_total", low=0.0)
        self.gap_total = saved.number("gap_total")
        self.usual = saved.array("usual", (self.columns,), np.float64, low=0.0)
        self.widths.restore(saved.inside("widths"))
        if self.widths.rows != self.judged:
            raise saved.refuse("widths", f"must have seen the {self.judged} rows that were judged")

    # -- rows ----------------------------------------------------------------------------------

    def _mix(self, scores: Array, Y: Array) -> Array:
        standing = self._standing()
        mixed = means.learn(standing, scores, Y)
        loss, gap, judged = standing.totals.tolist()
        self._loss_total, self.gap_total, self.judged = loss, gap, int(judged)
        return mixed

    def outlook(self, X: Any, first: int = 0) -> tuple[Array, Array]:
        """Return the answers to rows, and the half-widths of the intervals around them."""
        scores = self.answers(X, first)
        answers = self.blended(scores)
        return answers, self.widths.now(answers, _apart(scores, answers))

    def _widths(self, scores: Array, answers: Array, Y: Array) -> Array:
        return self.widths.follow(answers, _apart(scores, answers), np.abs(Y - answers))

    def blended(self, scores: Array) -> Array:
        return means.look(self._standing(), scores)

    def _standing(self) -> means.Standing:
        """The weights and all else that moves with them, which change in place."""
        totals = np.array([self._loss_total, self.gap_total, self.judged], np.float64)
        return means.Standing(
            self.weights, self.usual, self._losses, totals, self.rate, self.share, self.REACH,
            float(self.HORIZON),
        )  # fmt: skip


def _apart(scores: Array, answers: Array) -> Array:
    """Return how far the members' answers are from the mixture's, on average."""
    found: Array = np.abs(scores - answers[:, None]).mean(axis=1)
    return found
