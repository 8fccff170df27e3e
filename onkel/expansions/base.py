"""What an expansion is: how is f stored, evaluated, bounded?"""

from __future__ import annotations

from typing import ClassVar

from onkel.kernels import Kernel
from onkel.params import Part
from onkel.rules.base import Rule, Space
from onkel.saved import Saved


class Expansion(Part):
    """Base of all expansions."""

    primal: ClassVar[bool] = False
    """Whether f is held as weights over features, not as terms."""

    def check(self, kernel: Kernel, rule: Rule) -> None:
        """Raise a ValueError if this expansion cannot hold such an f."""

    def space(self, kernel: Kernel, features: int, scale: bool = False) -> Space:
        """Return what a rule may know of the space that f lives in."""
        return Space(size=kernel.size(features))

    def foresee(self, saved: Saved) -> None:
        """Refuse what a file holds if opening this expansion would cost more than the file."""
