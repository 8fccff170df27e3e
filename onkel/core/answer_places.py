"""The place of an answered alert: what stood out of it, and how sharply it is seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density_table import FURTHEST

Array = NDArray[Any]

NEAR, WIDER = 0.5, 0.3
"""The radius of a place, in spreads, and how much of its own distance is added to it."""
STANDS_OUT, MORE = 3.0, 1.3
"""A value so many spreads away stands out; so much further than the alert's own may another be."""
EVEN = 0.1
"""In the weights: what a value counts that does not stand out."""
ONE_MORE = 3.0
"""Spreads beyond their limits that make a row another one."""
SELDOM, OUTSIDE = 1000, 0.84
"""One usual row in so many may be as near to a fault as k = 1/2 (D is a bit more there)."""
ROWS, STEPS, LATE = range(3)


def place_of(seen: Array, frame: Array, tied: bool) -> tuple[Array, Array]:
    """Return the place of an alert, [5][3][d], and its radius, [3].

    Where rows are not tied to those before, steps and means are not compared; where something
    stands out, only that must be alike, and the rest must not stand out.
    """
    center, spread = frame
    there = (spread > 0) & (np.arange(3)[:, None] <= (LATE if tied else ROWS))
    far = np.nan_to_num(np.abs(seen - center)) / FURTHEST  # beyond it a spread is of no use
    safe = np.where(there, np.maximum(spread, far), np.inf)
    z = np.nan_to_num(np.where(there, (seen - center) / safe, 0.0))
    z = np.clip(z, -FURTHEST, FURTHEST)  # a quotient of both may be rounded beyond it
    out = np.abs(z).max(axis=1, initial=0.0) >= STANDS_OUT
    compared = out if out.any() else there.any(axis=1)
    raw = np.where(there, z * z + EVEN, 0.0)
    total = raw.sum(axis=1, keepdims=True)
    weight = np.divide(raw, total, out=np.zeros_like(raw), where=total > 0)
    limit = np.where(there, np.maximum(MORE * np.abs(z), STANDS_OUT), np.inf)
    radius = np.where(compared, NEAR + WIDER * (weight * np.abs(z)).sum(axis=1), np.inf)
    places = np.stack([np.where(there, center, 0.0), safe, z, weight, limit])
    return places, np.append(radius, 1.0)


def beyond(z: Array, limit: Array) -> Array:
    """Return by how much values that should not stand out do so, all together; [answers][3]."""
    with np.errstate(over="ignore"):
        over: Array = np.sqrt((np.maximum(np.abs(z) - limit, 0.0) ** 2).sum(axis=2))
    return over / ONE_MORE


def sharpness(place: Array, radius: Array, usual: Array) -> float:
    """Return s of a fault: at most one in `SELDOM` of the usual rows is of its kind.

    Means of the last rows are not known of them, and taken to agree.
    """
    if len(usual) < 1:
        return 1.0
    center, spread, own, weight, limit = place[:, :2]
    z = (usual - center) / spread
    apart = (weight * np.abs(z - own)).sum(axis=2) / radius[:2]
    more = beyond(z, limit)
    far = np.sort((apart + more).max(axis=1))
    nearest = float(far[min(len(far) // SELDOM, len(far) - 1)])
    return float(np.clip(OUTSIDE / max(nearest, 1e-9), 1.0, 1e9))
