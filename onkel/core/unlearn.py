"""Taking a row out of what was learned, since somebody calls it a fault."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density_table import Count, Level

Array = NDArray[Any]


def without(plan: Any, state: Any, seen: Array, early: bool = False) -> bool:
    """Take a row out of what was learned: of those that wait, or of the sample, if it is there.

    It is known by its values and its step, an `early` one by its values alone. Returns whether the
    sample has changed, so that it must be settled anew.
    """
    known = 1 if early else 2
    _release(state, seen[:known])
    n = int(state.whole[Count.SIZE])
    same = (state.raw[:known, :n] == seen[:known, None]).all(axis=(0, 2))
    gone = np.flatnonzero(same)
    if not len(gone) or n - len(gone) < plan.young or not state.real[Level.WIDTH] > 0:
        return False
    stay = np.flatnonzero(~same)
    for array, axis in ((state.raw, 1), (state.marks, 0)):
        kept = np.take(array, stay, axis=axis)
        np.moveaxis(array, axis, 0)[: len(stay)] = np.moveaxis(kept, axis, 0)
    state.whole[Count.SIZE] = len(stay)
    state.sums[:, len(stay) :] = np.inf
    state.z[:, :, len(stay) :] = 1e9
    state.raw[:, len(stay) : n] = 0.0
    state.marks[len(stay) : n] = 0
    return True


def _release(state: Any, seen: Array) -> None:
    """Take a row (and its step) out of those that wait to be let in."""
    count = int(state.whole[Count.HELD])
    order = (state.whole[Count.HELD_FIRST] + np.arange(count)) % len(state.due)
    held, due = state.held[order], state.due[order]
    same = (held[:, : seen.size] == seen.ravel()).all(axis=1)
    left = int(np.count_nonzero(~same))
    if left == count:
        return
    state.held[:left], state.due[:left] = held[~same], due[~same]
    state.held[left:], state.due[left:] = 0.0, 0
    state.whole[Count.HELD], state.whole[Count.HELD_FIRST] = left, 0
