"""Rules: how far does f move? One file per paper's algorithm; this is their registry."""

from __future__ import annotations

from typing import Any

from onkel.params import pick
from onkel.rules.alma import Alma
from onkel.rules.base import Rule, Space
from onkel.rules.norma import Norma
from onkel.rules.perceptron import Perceptron
from onkel.rules.projection import Projection
from onkel.rules.romma import Romma

__all__ = ["Alma", "Norma", "Perceptron", "Projection", "Romma", "Rule", "Space", "get"]

REGISTRY: dict[str, type[Rule]] = {
    "norma": Norma,
    "alma": Alma,
    "perceptron": Perceptron,
    "projection": Projection,
    "romma": Romma,
}


def get(rule: Any) -> Rule:
    """Return a rule from an object or a name."""
    return pick("rule", rule, Rule, REGISTRY)
