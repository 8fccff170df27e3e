"""Where some scores of a block stand among those before them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.alerting import RecentScores

Array = NDArray[Any]

AT_ONCE = 2**18
"""Scores that are compared at once, to bound the memory."""


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
    known = recent.in_order()[-recent.size :]
    line = np.concatenate([np.full(recent.size - len(known), np.inf), known, scores])
    before = np.lib.stride_tricks.sliding_window_view(line, recent.size)
    step = max(AT_ONCE // recent.size, 1)
    parts = [at[i : i + step] for i in range(0, len(at), step)]
    lower = [np.count_nonzero(before[p] <= scores[p, None], axis=1) for p in parts]
    return (1.0 + np.concatenate([[], *lower])) / (1.0 + np.minimum(len(known) + at, recent.size))
