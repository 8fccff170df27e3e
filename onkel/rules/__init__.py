"""Rules: how far does f move? One file per paper's algorithm; this is their registry."""

from __future__ import annotations

from typing import Any

from onkel.params import pick
from onkel.rules.base import Rule
from onkel.rules.norma import Norma

__all__ = ["Norma", "Rule", "get"]

REGISTRY: dict[str, type[Rule]] = {"norma": Norma}


def get(rule: Any) -> Rule:
    """Return a rule from an object or a name."""
    return pick("rule", rule, Rule, REGISTRY)
