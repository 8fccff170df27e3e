"""Rules: how far does f move? One file per paper's algorithm; whatever stands here is a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onkel.params import gathered, pick
from onkel.rules.base import Rule, Space

if TYPE_CHECKING:  # what type checkers know by name; any other is of any type to them
    from onkel.rules.alma import Alma as Alma
    from onkel.rules.least_squares import RecursiveLeastSquares as RecursiveLeastSquares
    from onkel.rules.norma import Norma as Norma
    from onkel.rules.perceptron import Perceptron as Perceptron
    from onkel.rules.projection import Projection as Projection
    from onkel.rules.romma import Romma as Romma

    def __getattr__(name: str) -> Any: ...


REGISTRY = gathered(__name__, __path__, Rule)
globals().update({kind.__name__: kind for kind in REGISTRY.values()})
__all__ = ["Rule", "Space", "get", *(kind.__name__ for kind in REGISTRY.values())]


def get(rule: Any) -> Rule:
    """Return a rule from an object or a name."""
    return pick("rule", rule, Rule, REGISTRY)
