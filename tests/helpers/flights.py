"""Flights: rows with a category, a number, a time and a truth value, as JSON has them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

CARRIERS = ("AA", "DL", "UA", "B6 – blue")


def flights(rows: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return flights of working days; now and then a cell is missing, or not there at all."""
    rng, found = np.random.default_rng(seed), []
    for i in range(rows):
        day, hour = 1 + 7 * int(rng.integers(3)) + int(rng.integers(5)), int(rng.integers(8, 18))
        row = {
            "carrier": str(rng.choice(CARRIERS)), "minutes": round(float(rng.normal(60, 10)), 1),
            "when": f"2024-01-{day:02d}T{hour:02d}:30:00", "late": bool(rng.random() < 0.3),
        }  # fmt: skip
        if i and rng.random() < 0.1:
            row[str(rng.choice(["carrier", "minutes"]))] = None
        elif i and rng.random() < 0.1:
            del row["late"]
        found.append(row)
    return found


def named(look: Callable[[], list[Any]], seconds: float = 5.0) -> list[Any]:
    """Return what another thread is about to leave, once it is there."""
    until = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < until:
        time.sleep(0.01)
    return found
