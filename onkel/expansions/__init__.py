"""Expansions: how is f stored, evaluated, bounded?"""

from __future__ import annotations

from typing import Any

from onkel.expansions.window import Window

__all__ = ["Window", "get"]

REGISTRY: dict[str, type[Window]] = {"window": Window}


def get(expansion: Any) -> Window:
    """Return an expansion from an object or a name."""
    if isinstance(expansion, Window):
        return expansion
    if isinstance(expansion, str) and expansion in REGISTRY:
        return REGISTRY[expansion]()
    raise ValueError(
        f"expansion must be one of {sorted(REGISTRY)} or an object from onkel.expansions; "
        f"got {expansion!r}."
    )
