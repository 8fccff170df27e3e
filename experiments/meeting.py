"""What the studies under drift share: the benchmarks' streams and peers, a choice that costs all
the same, and a way to write a study down.

Peers come from benchmarks/adapters.py and benchmarks/detectors.py: each takes a ``Feed`` and gives
a function ``step(start, stop)`` that predicts these rows before it learns them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))  # behind what stands beside this file

import common  # noqa: E402  first: it sets the number of BLAS threads
import numpy as np  # noqa: E402
from feeds import Feed  # noqa: E402

if __package__:
    from .study import Row, Study
    from .writing import command
else:
    from study import Row, Study
    from writing import command

Step = Callable[[int, int], np.ndarray]
Settings = dict[str, Callable[[Feed], Step]]
"""What a method may be tuned to; the first is the method as it comes."""
CHUNK = 100
WIDTH = 7.0
"""Inches, two panels across: wider ones cannot be read on a phone."""
INK, SOFT, ACCENT, ALARM = common.INK, common.SOFT, common.ACCENT, common.ALARM
COLOURS = (ACCENT, ALARM, "#e08e0b", "#5a9367", "#7d4e9e", INK, SOFT, "#a9744f", "#2a9d8f")


def walk(make: Callable[[Feed], Step], feed: Feed) -> np.ndarray:
    """Return what a method says of every row, before it has learned that row."""
    step, n = make(feed), len(feed.X)
    return np.concatenate([step(a, min(a + CHUNK, n)) for a in range(0, n, CHUNK)])


def head(feed: Feed, rows: int) -> Feed:
    """Return the first rows, standardised as they are in the whole."""
    part = feed.head(rows)
    part.Z = feed.Z[:rows]
    return part


def least(losses: dict[str, float]) -> str:
    """Return the name with the least loss, the first of equals.

    >>> least({"a": 2.0, "b": 1.0, "c": 1.0})
    'b'
    """
    return min(losses, key=lambda name: losses[name])


def canvas(panels: int, across: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    """Return a figure in the benchmarks' style and its panels."""
    made = common.canvas(panels, across, size)
    if made is None:
        raise ModuleNotFoundError("the studies need matplotlib", name="matplotlib")
    return made


def running(values: np.ndarray, width: int) -> np.ndarray:
    """Return the mean of the last `width` values at each row (of fewer at the start)."""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=float)])
    stop = np.arange(1, len(values) + 1)
    start = np.maximum(stop - width, 0)
    return (total[stop] - total[start]) / (stop - start)


def absent(title: str, file: str) -> Study:
    """Return the study that could not be made."""
    why = f"Left out: there is no {file} (ONKEL_DATA names the folder)."
    return Study(title, why, skipped=why)


def has(data: Path | None, file: str) -> bool:
    """Whether the data are there."""
    return data is not None and (data / file).exists()


__all__ = [
    "ACCENT", "ALARM", "CHUNK", "COLOURS", "INK", "ROOT", "SOFT", "WIDTH", "Feed", "Row",
    "Settings", "Step", "Study", "absent", "canvas", "command", "has", "head", "least", "running",
    "walk",
]  # fmt: skip
