"""Expansions: how is f stored, evaluated, bounded?"""

from __future__ import annotations

from typing import Any

from onkel.expansions.window import Window
from onkel.params import pick

__all__ = ["Window", "get"]

REGISTRY: dict[str, type[Window]] = {"window": Window}


def get(expansion: Any) -> Window:
    """Return an expansion from an object or a name."""
    return pick("expansion", expansion, Window, REGISTRY)
