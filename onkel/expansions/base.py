"""What an expansion is: how is f stored, evaluated, bounded?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from onkel.core.frame import Apart, Frame, effective
from onkel.kernels import Kernel
from onkel.losses import Loss
from onkel.params import Part
from onkel.rules.base import BoundRule, Rule, Space
from onkel.saved import Saved

if TYPE_CHECKING:
    from onkel.expansions.window import BoundWindow


class Expansion(Part):
    """Base of all expansions."""

    primal: ClassVar[bool] = False
    """Whether f is held as weights over features, not as terms."""

    def check(self, kernel: Kernel, rule: Rule) -> None:
        """Raise a ValueError if this expansion cannot hold such an f."""

    def counted(self, width: int, apart: Apart) -> float:
        """Return how many features rows count as, whose first columns are codes."""
        return effective(width, apart)

    def space(self, kernel: Kernel, features: float, scale: bool = False) -> Space:
        """Return what a rule may know of the space that f lives in."""
        return Space(size=kernel.size(features))

    @property
    def link_power(self) -> float:
        """The p of the link between what is stored and the weights; 2: they are the same."""
        return 2.0

    def bind(self, rule: BoundRule, loss: Loss, kernel: Kernel) -> BoundWindow:
        """Return the window with its numbers chosen, where f is held as terms."""
        raise NotImplementedError

    def open(self, kernel: Kernel, frame: Frame | None, limit: int = 0) -> Any:
        """Return empty storage for at most `limit` terms, or the map from rows to features."""
        raise NotImplementedError

    def foresee(self, saved: Saved) -> None:
        """Refuse what a file holds if opening this expansion would cost more than the file."""
