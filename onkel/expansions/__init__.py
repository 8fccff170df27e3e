"""Expansions: how is f stored, evaluated, bounded?"""

from __future__ import annotations

from typing import Any

from onkel.expansions.base import Expansion
from onkel.expansions.centers import Centers
from onkel.expansions.tree import Tree
from onkel.expansions.weights import Weights
from onkel.expansions.window import Window
from onkel.params import pick

__all__ = ["Centers", "Expansion", "Tree", "Weights", "Window", "get"]

REGISTRY: dict[str, type[Expansion]] = {
    "window": Window,
    "tree": Tree,
    "centers": Centers,
    "weights": Weights,
}


def get(expansion: Any) -> Expansion:
    """Return an expansion from an object or a name."""
    return pick("expansion", expansion, Expansion, REGISTRY)
