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
    known, size = recent.in_order(), recent.size
    if len(at) <= FEW:
        line = np.concatenate([known, scores])
        ends = [len(known) + i for i in at.tolist()]
        lower = [np.count_nonzero(line[max(end - size, 0) : end] <= line[end]) for end in ends]
        return np.array(
            [(1.0 + n) / (1.0 + min(e, size)) for n, e in zip(lower, ends, strict=True)]
        )
    line = np.concatenate([np.full(size - len(known), np.inf), known, scores])
    before = np.lib.stride_tricks.sliding_window_view(line, size)
    step = max(AT_ONCE // size, 1)
    parts = [at[i : i + step] for i in range(0, len(at), step)]
    below = [np.count_nonzero(before[p] <= scores[p, None], axis=1) for p in parts]
    return (1.0 + np.concatenate(below)) / (1.0 + np.minimum(len(known) + at, size))
