"""Deaths on purpose: tests ask the command to die at a chosen moment, as by ``kill -9``.

``ONKEL_FAULT=point:n`` kills the process when it reaches that point for the n-th time. Without it
every point is passed without a thought.
"""

from __future__ import annotations

import os
import signal

POINTS = ("output", "model", "before-commit", "after-commit", "cleanup")
"""Half of an output written; half of a model; around the transaction; old files half gone."""

_wanted, _, _count = os.environ.get("ONKEL_FAULT", "").partition(":")
_left = {_wanted: int(_count or 1)} if _wanted else {}


def reach(point: str) -> None:
    """Die here if that was asked for."""
    if point in _left:
        _left[point] -= 1
        if _left[point] == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def waits_for(point: str) -> bool:
    """Whether the next visit of a point is the last: then a write is done in two halves."""
    return _left.get(point) == 1
