"""The points that f is made of, for those who explain it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Stored:
    """Terms or centres, oldest first."""

    z: Array
    """As the kernel sees them, one row each."""
    raw: Callable[[Any, Any], Array]
    """From numbers of points and of features to values as they came."""
    ages: Array | None
    """Trials since each was stored; None where they do not age."""
