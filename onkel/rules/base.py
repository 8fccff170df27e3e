"""What a rule is: how far does f move?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import Move, NativeRule, Trial
from onkel.losses import Loss
from onkel.params import Part

Array = NDArray[Any]


@dataclass(frozen=True)
class Space:
    """What a rule may know of the space that f lives in."""

    size: float = 1.0
    """Typical k(x, x) on standardised data, by which default rates are divided."""
    p: float = 2.0
    """Of the link; 2 for every kernel."""
    find_reach: Callable[[], float | None] = lambda: None
    """Computes :attr:`reach`, which may take long: an eigenvalue of all centres."""

    @property
    def reach(self) -> float | None:
        """kappa, a bound on the length of the features (fixed centres), or None."""
        return self.find_reach()


ANY_SPACE = Space()
"""Of a kernel of which nothing is known."""


class Rule(Part):
    """Base of all update rules.

    A rule sees scalars only (:class:`~onkel.core.layout.Trial`) and answers with a
    :class:`~onkel.core.layout.Move`. It is bound to a task once, which turns its parameters into
    plain numbers (:meth:`bind`); the bound rule does the steps.
    """

    losses: ClassVar[tuple[type[Loss], ...]] = (Loss,)
    """Losses that this rule accepts."""
    adapts: ClassVar[bool] = True
    """Whether it also moves a loss's adaptive number (nu)."""
    has_offset: ClassVar[bool] = True
    """Whether the rule can move an offset b."""
    has_link: ClassVar[bool] = False
    """Whether it may run under a p-norm link with p other than 2."""
    second_order: ClassVar[bool] = False
    """Whether it keeps a matrix beside the weights, which only primal expansions have."""
    named: ClassVar[Mapping[str, Loss]] = {}
    """Losses that a name stands for beside this rule, where they differ from the registry's."""

    @property
    def offers_offset(self) -> bool:
        """Whether this rule, as it is set, can move an offset b."""
        return self.has_offset

    def bind(self, loss: Loss, space: Space = ANY_SPACE) -> BoundRule:
        """Return the rule with its numbers chosen for this loss and space."""
        raise NotImplementedError(f"{type(self).__name__} must define bind(loss, space)")

    def settled(self, bound: BoundRule) -> Rule:
        """Return this rule with what :meth:`bind` computed from the data's space as numbers."""
        return self

    def check(self, loss: Loss) -> None:
        """Raise a ValueError if this rule cannot follow this loss."""
        kinds = " or ".join(kind.__name__ for kind in self.losses)
        if not isinstance(loss, self.losses):
            fitting = [k.__name__ for k in self.losses if k.task == loss.task]
            advice = f" Give loss=losses.{fitting[0]}(...)." if fitting else " Use rules.Norma."
            raise ValueError(
                f"{type(self).__name__} goes with the loss {kinds}; got {loss!r}.{advice}"
            )
        if loss.adaptive and not self.adapts:
            raise ValueError(
                f"{type(self).__name__} takes a loss whose number is fixed; got {loss!r}. Leave nu "
                "out, or use rules.Norma."
            )
        if not self.adapts and getattr(loss, "power", 1) != 1:
            raise ValueError(
                f"{type(self).__name__} takes the plain hinge; got {loss!r}. Leave power out, or "
                "use rules.Norma."
            )


class BoundRule:
    """A rule with all its numbers. `native()` is None where the compiled core has no such rule."""

    needs_norm: bool = False
    lam: float = 0.0
    threshold_rate: float = 1.0
    """Step of the adaptive number, in units of eta."""
    radius: float = math.inf
    """Of the ball that f stays in."""
    wild: bool = False
    """Whether the norm may grow by orders of magnitude, and fall again as terms leave."""
    divides: bool = False
    """Whether steps are divided by k(x, x) or its root, so that its unit matters."""
    memory: float = float("inf")
    """Forgetting horizon in examples, 1/(eta lam); infinite where nothing is forgotten."""
    duration: float = math.inf
    """Forgetting horizon in seconds, where it goes by the clock."""
    longest_step: float = 1e150
    """Longest step, ``abs(coef) sqrt(k(x, x))``: the learner knows its units."""

    def rates(self, t: Array) -> Array:
        """Return eta at trials `t`."""
        return np.ones(t.shape)

    def start(self, loss: Loss) -> float:
        """Return the threshold before the first example."""
        return loss.start

    def margin_after(self, updates: float) -> float | None:
        """Return the threshold after so many updates, where these alone set it; else None."""
        return None

    def step(self, trial: Trial, loss: Any) -> Move:
        """Decide one move."""
        raise NotImplementedError

    def lams(self, t: Array, gaps: Array | None = None) -> Array:
        """Return the regularisation at trials `t`, `gaps` seconds after the row before each."""
        return np.full(t.shape, self.lam)

    def fades(self, gaps: Array | None) -> Array:
        """Return how much of the moments is left after these gaps; nothing if rows count."""
        return np.zeros(0) if gaps is None else np.exp(-gaps / self.duration)

    def penalty(self, trial: Trial) -> float:
        """Return the regulariser's value, for the instantaneous risk."""
        return trial.lam * trial.norm2 / 2

    def native(self) -> NativeRule | None:
        """What the compiled core needs to know, or None."""
        return None


def keep(trial: Trial, verdict: Any, shrink: float, coef: float, **changes: Any) -> Move:
    """Return a move of f that leaves b and the thresholds as they are, but for `changes`."""
    return Move(shrink, coef, trial.offset, trial.threshold, trial.alert, verdict)._replace(
        **changes
    )
