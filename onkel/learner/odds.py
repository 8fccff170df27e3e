"""Classification by a mixture: members' scores become chances, and these are mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from onkel import bounds
from onkel.core.chances import Chances
from onkel.learner.mixture import Mixture
from onkel.learner.parts import Part
from onkel.learner.settings import Settings
from onkel.saved import Saved

Array = NDArray[Any]


class Odds(Mixture):
    """The answer is the odds of the classes; the loss of a member is its log loss.

    What :class:`~onkel.core.chances.Chances` makes of the members' scores: log-odds of a single
    output, else centred logarithms of the chances.
    """

    blend: Chances

    def __init__(self, members: Sequence[Settings], parts: list[Part], share: float) -> None:
        super().__init__(members, parts, share)
        self.blend = Chances.empty(len(members), self.columns, share)

    def _restored_blend(self, saved: Saved) -> Chances:
        return Chances.restored(saved, len(self.members), self.columns, self.share)

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        if self.blend.count[0] > self.t:
            raise saved.refuse("blend.count", f"must be {self.t} at most")

    # -- what reports ask ------------------------------------------------------------------------

    @property
    def losses(self) -> Array:
        return self.blend.losses[:-1]

    @property
    def loss_total(self) -> float:
        return float(self.blend.losses[-1])

    def regret_bounds(self) -> tuple[float, float]:
        count, trials = len(self.losses), self.judged
        if count < 2 or not trials:
            return 0.0, 0.0
        told = bounds.log_loss(members=count, trials=trials, share=self.share).bound
        return told, told

    # -- outputs -------------------------------------------------------------------------------

    def add_column(self) -> None:
        super().add_column()
        self.blend.add_column()

    def mirror_column(self) -> None:
        super().mirror_column()
        self.blend.mirror_column()

    def split_column(self) -> None:
        super().split_column()
        self.blend.split_column()

    def arrange(self, order: list[int]) -> None:
        super().arrange(order)
        self.blend.arrange(order)
