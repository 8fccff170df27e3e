"""Projections: the nearest f that gets the example right (H01 (9)-(12), (19))."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from onkel.core.layout import Move, NativeRule, RuleCode, Trial
from onkel.losses import EpsilonInsensitive, Loss, SoftMargin
from onkel.params import Accept
from onkel.rules.base import ANY_SPACE, BoundRule, Rule, Space, keep

ROUNDING = 1e-12
"""A loss below this part of score and target is rounding: the example is right already."""


@dataclass(frozen=True)
class Projection(Rule):
    """Move f to the nearest hypothesis whose loss on the example is 0; scale it into a ball.

    classification, if y f(x) < 1: ``a = (y - f(x)) / k(x, x)``; regression, if abs(y - f(x)) >
    eps: ``a = (y -+ eps - f(x)) / k(x, x)``, to the nearer edge

    Needs no learning rate. An example with k(x, x) = 0 changes nothing.

    Parameters
    ----------
    radius : float, optional
        gamma: f is scaled to norm gamma wherever it exceeds it. With it the bounds hold on every
        stretch of the stream, which is what a moving target asks for.

    References
    ----------
    H01, algorithms of Theorems 2 to 6. The loss's margin takes the place of 1.

    Examples
    --------
    >>> from onkel import KernelClassifier
    >>> clf = KernelClassifier(rule="projection", scale=False).partial_fit([[0.0]], [1])
    >>> clf.decision_function([[0.0]])
    array([1.])
    """

    word: ClassVar[str] = "projection"
    radius: float | None = None
    losses: ClassVar[tuple[type[Loss], ...]] = (SoftMargin, EpsilonInsensitive)
    adapts: ClassVar[bool] = False
    has_offset: ClassVar[bool] = False
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "radius": Accept(low=0, low_open=True, none=True, hint="None leaves f free.")
    }

    def bind(self, loss: Loss, space: Space = ANY_SPACE) -> BoundProjection:
        return BoundProjection(math.inf if self.radius is None else float(self.radius))


class BoundProjection(BoundRule):
    """The projection with its ball."""

    divides = True

    def __init__(self, radius: float) -> None:
        self.radius = radius
        self.needs_norm = math.isfinite(radius)

    def step(self, trial: Trial, loss: Any) -> Move:
        verdict = loss.judge(trial.f, trial.y, trial.threshold)
        # The slope is -1, 0 or 1, the value how far f(x) is from the set of no loss.
        gone = verdict.value > ROUNDING * (abs(trial.f) + abs(trial.y)) and trial.kxx > 0
        way = verdict.slope * verdict.value / trial.kxx if gone else 0.0
        return keep(trial, verdict, 1.0, trial.weight * way, radius=self.radius)

    def native(self) -> NativeRule | None:
        return NativeRule(RuleCode.PROJECTION, radius=self.radius)
