"""Classification by a mixture: members' scores become chances, and these are mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import bounds
from onkel.core.chances import JOINT, Chances
from onkel.learner.mixture import Mixture, Part
from onkel.learner.settings import Settings
from onkel.saved import Saved

Array = NDArray[Any]


class Odds(Mixture):
    """The answer is the odds of the classes; the loss of a member is its log loss.

    What :class:`~onkel.core.chances.Chances` makes of the members' scores: log-odds of a single
    output, else centred logarithms of the chances.
    """

    def __init__(self, members: Sequence[Settings], parts: list[Part], share: float) -> None:
        super().__init__(members, parts, share)
        self.chances = Chances.empty(len(members), self.columns, share)

    # -- what reports ask ------------------------------------------------------------------------

    @property
    def influence(self) -> Array:
        return influence_of(self.chances)

    @property
    def losses(self) -> Array:
        return self.chances.losses[:-1]

    @property
    def loss_total(self) -> float:
        return float(self.chances.losses[-1])

    def regret_bounds(self) -> tuple[float, float]:
        count, trials = len(self.losses), self.judged
        if count < 2 or not trials:
            return 0.0, 0.0
        told = bounds.log_loss(members=count, trials=trials, share=self.share).bound
        return told, told

    # -- outputs -------------------------------------------------------------------------------

    def add_column(self) -> None:
        super().add_column()
        self.chances.add_column()

    def mirror_column(self) -> None:
        super().mirror_column()
        self.chances.mirror_column()

    def split_column(self) -> None:
        super().split_column()
        self.chances.split_column()

    def copy(self) -> Self:
        other = super().copy()
        other.chances = self.chances.copy()
        return other

    def arrange(self, order: list[int]) -> None:
        super().arrange(order)
        self.chances.arrange(order)

    def take_sum(self, mixtures: Sequence[Self], shares: Array, start: Self | None) -> None:
        super().take_sum(mixtures, shares, start)
        begun = None if start is None else start.chances
        self.chances.take_sum([m.chances for m in mixtures], shares, begun)

    # -- files ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "chances": self.chances.dump()}

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        inside = saved.inside("chances")
        self.chances = Chances.restored(inside, len(self.members), self.columns, self.share)

    # -- rows ----------------------------------------------------------------------------------

    def _mix(self, scores: Array, Y: Array) -> Array:
        self.judged += len(Y)
        return self.chances.learn(scores, Y)

    def _mix_one(self, scores: Array, y: Array) -> Array:
        self.judged += 1
        return self.chances.learn_one(scores, y)

    def _look_one(self, scores: Array) -> Array:
        return self.chances.look_one(scores)

    def blended(self, scores: Array) -> Array:
        return self.chances.look(scores)


def influence_of(chances: Chances) -> Array:
    """Return what each member counts for in all: numbers that add up to 1.

    Examples
    --------
    >>> influence_of(Chances.empty(members=2, outputs=1))
    array([0.5, 0.5])
    """
    count = chances.members
    found = chances.weights[:count].copy()
    size = np.abs(chances.joint) * np.maximum(chances.said, 1e-9)
    for j, weight in enumerate(chances.weights[count : count + JOINT].tolist()):
        found += weight * size[j] / size[j].sum()
    return np.asarray(found / found.sum())
