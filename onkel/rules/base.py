"""What a rule is: how far does f move?"""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray

from onkel.core.layout import Move, Trial
from onkel.losses import Loss
from onkel.params import Part

Array = NDArray[Any]


class Rule(Part):
    """Base of all update rules.

    A rule sees scalars only (:class:`~onkel.core.layout.Trial`) and answers with a
    :class:`~onkel.core.layout.Move`. It is bound to a task once, which turns its parameters into
    plain numbers (:meth:`bind`); the bound rule does the steps.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression", "novelty")
    """Tasks whose losses this rule accepts."""
    has_offset: ClassVar[bool] = True
    """Whether the rule can move an offset b."""

    def bind(self, loss: Loss) -> BoundRule:
        """Return the rule with its numbers chosen for this loss."""
        raise NotImplementedError(f"{type(self).__name__} must define bind(loss)")


class BoundRule:
    """A rule with all its numbers. `native()` is None where the compiled core has no such rule."""

    needs_norm: bool = False
    lam: float = 0.0
    threshold_rate: float = 1.0
    """Step of the adaptive number, in units of eta."""
    memory: float = float("inf")
    """Forgetting horizon in examples, 1/(eta lam); infinite where nothing is forgotten."""

    def rates(self, t: Array) -> Array:
        """Return eta at trials `t`."""
        raise NotImplementedError

    def step(self, trial: Trial, loss: Any) -> Move:
        """Decide one move."""
        raise NotImplementedError

    def penalty(self, norm2: float) -> float:
        """Return the regulariser's value, for the instantaneous risk."""
        return self.lam * norm2 / 2

    def native(self) -> tuple[int, float, float, float, float] | None:
        """What the compiled core needs to know, or None."""
        return None
