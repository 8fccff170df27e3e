"""Regression by a mixture: the mean of the members' answers, and intervals around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import bounds
from onkel.core.means import Standing
from onkel.learner.mixture import Mixture
from onkel.learner.parts import Part
from onkel.learner.settings import Settings
from onkel.learner.widths import Widths
from onkel.saved import Saved

Array = NDArray[Any]

FAR = 1e12
"""No joint expert, and no curvature of one, is as large."""


class Means(Mixture):
    """The answer is a mean; the loss of a member is its error in units of the mixture's own.

    What :class:`~onkel.core.means.Standing` makes of the members' answers. Intervals around it miss
    a share nu of the targets (``widths.py``).
    """

    blend: Standing

    def __init__(
        self, members: Sequence[Settings], parts: list[Part], rate: float, share: float,
        nu: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__(members, parts, share)
        self.rate = rate
        self.blend = Standing.empty(len(members), self.columns, rate, share)
        self.widths = Widths(self.columns, nu)

    def _restored_blend(self, saved: Saved) -> Standing:
        return Standing.restored(saved, len(self.members), self.columns, self.rate, self.share)

    def numbers(self) -> dict[str, float]:
        return {"rate": self.rate, **super().numbers(), "nu": self.widths.nu}

    def copy(self) -> Self:
        other = super().copy()
        other.widths = self.widths.copy()
        return other

    def copy_of_mixing(self) -> Self:
        other = super().copy_of_mixing()
        other.widths = self.widths.copy()
        return other

    def take_mixing(self, other: Self) -> None:
        super().take_mixing(other)
        self.widths = other.widths

    def take_sum(self, mixtures: Sequence[Self], shares: Array, start: Self | None) -> None:
        super().take_sum(mixtures, shares, start)
        begun = None if start is None else start.widths
        self.widths.take_sum([m.widths for m in mixtures], shares, begun)

    # -- what reports ask ------------------------------------------------------------------------

    @property
    def losses(self) -> Array:
        return self.blend.losses

    @property
    def loss_total(self) -> float:
        return float(self.blend.totals[0])

    def regret_bounds(self) -> tuple[float, float]:
        count, best = len(self.losses), float(self.losses.min())
        if count < 2 or not self.judged:
            return 0.0, 0.0
        known: dict[str, Any] = {"rate": self.rate, "share": self.share}
        known |= {"members": count, "trials": self.judged}
        gap = max(float(self.blend.totals[1]), 0.0)
        measured = bounds.fixed_share(**known, mix_gap=gap)
        return measured.bound, bounds.fixed_share(**known, best_loss=best).bound

    # -- files ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "widths": self.widths.dump()}

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        self.widths.restore(saved.inside("widths"))
        if np.any(np.abs(self.blend.joint) > FAR) or np.any(np.abs(self.blend.bow) > FAR):
            raise saved.refuse("blend.joint", "or bow is beyond what any rows make of it")
        if self.widths.rows != self.judged:
            raise saved.refuse("widths", f"must have seen the {self.judged} rows that were judged")

    # -- rows ----------------------------------------------------------------------------------

    def outlook(self, X: Any, first: int = 0) -> tuple[Array, Array]:
        """Return the answers to rows, and the half-widths of the intervals around them."""
        scores = self.answers(X, first)
        answers = self.blended(scores)
        return answers, self.widths.now(answers, _apart(scores, answers))

    def belief(self, X: Any, first: int = 0) -> tuple[Array, Array]:
        """Return the answers to rows, and the standard deviations of targets around them."""
        scores = self.answers(X, first)
        answers = self.blended(scores)
        return answers, self.widths.deviations(answers, _apart(scores, answers))

    def _widths(self, scores: Array, answers: Array, Y: Array) -> Array:
        return self.widths.follow(answers, _apart(scores, answers), np.abs(Y - answers))


def _apart(scores: Array, answers: Array) -> Array:
    """Return how far the members' answers are from the mixture's, on average."""
    found: Array = np.abs(scores - answers[:, None]).mean(axis=1)
    return found
