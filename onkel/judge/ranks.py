"""Where some scores of a block stand among those before them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.alerting import RecentScores

Array = NDArray[Any]

AT_ONCE = 2**18
"""Scores that are compared at once, to bound the memory."""
FEW = 16
"""So many scores are sooner ranked one by one."""


def ranks_at(recent: RecentScores, scores: Array, at: Array) -> Array:
    """Return the ranks of some of the scores among those before them.

    ``rank(s) = (1 + number of recent scores <= s) / (1 + number of recent scores)``

    Parameters
    ----------
    recent : RecentScores
        As they were before the block.
    scores : array
        Of the whole block, in order.
    at : array of int
        Which of them are ranked.

    Examples
    --------
    >>> ranks_at(RecentScores(3), np.array([3.0, 1.0, 2.0]), np.array([2]))
    array([0.67])
    """
    known = recent.in_order()
    size = min(recent.size, len(known) + len(scores))
    count = _one_by_one if len(at) <= FEW else _in_windows
    lower = count(known, scores, at, size)
    return np.asarray((1.0 + lower) / (1.0 + np.minimum(len(known) + at, size)))


def _one_by_one(known: Array, scores: Array, at: Array, size: int) -> Array:
    """Count the scores before each that are at most as high: quick where few are asked for."""
    line, before = np.concatenate([known, scores]), len(known)
    ends = [before + i for i in at.tolist()]
    return np.array([np.count_nonzero(line[max(e - size, 0) : e] <= line[e]) for e in ends])


def _in_windows(known: Array, scores: Array, at: Array, size: int) -> Array:
    """Count the same, many at a time."""
    line = np.concatenate([np.full(size - len(known), np.inf), known, scores])
    before = np.lib.stride_tricks.sliding_window_view(line, size)
    step = max(AT_ONCE // size, 1)
    parts = [at[i : i + step] for i in range(0, len(at), step)]
    return np.concatenate([np.count_nonzero(before[p] <= scores[p, None], axis=1) for p in parts])
