"""A detector's state from a file, of which nothing is believed; and for wider rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density import WHOLE_UP_TO, DensityState, Plan
from onkel.core.density_table import LEVELS, Count, Level
from onkel.saved import MOST, Saved

Array = NDArray[Any]

F8, F4 = np.float64, np.float32


def restored_state(plan: Plan, saved: Saved) -> DensityState:
    """Return the state that a file holds; raise a ValueError that names the field otherwise."""
    whole = saved.array("whole", (len(Count),), np.int64)
    last = saved.array("last", (None,), F8)
    d = len(last)
    if not d:
        raise saved.refuse("last", "must have one number per feature")
    ranks = d if d <= WHOLE_UP_TO else 1
    raw = saved.array("raw", (2, None, d), F8)
    late_raw = saved.array("late_raw", (None, d), F8)
    due, history = saved.array("due", (None,), np.int64), saved.array("history", (None,), F8)
    waiting = saved.array("waiting", (None, d), F8)
    places, late = raw.shape[1], len(late_raw)
    state = DensityState(
        whole=whole, real=saved.array("real", (LEVELS,), F8),
        mean=saved.array("mean", (3, d), F8), cov=saved.array("cov", (3, ranks, d), F8),
        center=saved.array("center", (3, d), F8), scale=saved.array("scale", (3, d), F8),
        turn=saved.array("turn", (3, ranks, d), F8), last=last,
        smooth=saved.array("smooth", (d,), F8), size=saved.array("size", (d,), F8, low=0.0),
        calm=saved.array("calm", (4, d), F8), raw=raw, late_raw=late_raw,
        z=saved.array("z", (3, d, places), F4), late_z=saved.array("late_z", (d, late), F4),
        sums=_sums(saved, "sums", (7, places)), late_sums=_sums(saved, "late_sums", (2, late)),
        marks=saved.array("marks", (places,), np.uint8),
        held=_held(saved, len(due), d), due=due, waiting=waiting, history=history,
        ranked=np.zeros(len(history)),
    )  # fmt: skip
    saved.finish()
    _check(state, plan, saved)
    n = int(whole[Count.HISTORY])
    state.ranked[:n] = np.sort(history[:n])
    return state


def _sums(saved: Saved, name: str, shape: tuple[int, int]) -> Array:
    """Kernel sums; a place without a term has infinity."""
    found = saved.array(name, shape, F4, finite=False)
    if np.any(np.isnan(found)) or np.any(found < 0):
        raise saved.refuse(name, "must not be negative")
    return found


def _held(saved: Saved, rows: int, d: int) -> Array:
    """Rows that wait; the last number of one whose score was remembered is NaN."""
    found = saved.array("held", (rows, 2 * d + 2), F8, finite=False)
    if not np.all(np.isfinite(found[:, :-1])) or np.any(np.isinf(found[:, -1])):
        raise saved.refuse("held", "must be finite")
    return found


def _check(state: DensityState, plan: Plan, saved: Saved) -> None:
    """Refuse counts and numbers that no run can have left."""
    n, real = {c: int(state.whole[c]) for c in Count}, state.real
    waiting = n[Count.T] - n[Count.LATE_SEEN]
    history = n[Count.HISTORY]
    inside = (
        min(n.values()) >= 0 and n[Count.T] <= MOST
        and n[Count.SIZE] <= min(plan.terms, state.raw.shape[1])
        and n[Count.LATE_SIZE] <= min(plan.late_terms, len(state.late_raw))
        and history <= min(plan.history, len(state.history))
        and n[Count.HISTORY_AT] < plan.history
        and (history == plan.history or n[Count.HISTORY_AT] == history)
        and n[Count.HELD] <= min(plan.hold + 1, len(state.due))
        and n[Count.HELD_FIRST] < max(len(state.due), 1)
        and 0 <= waiting <= min(plan.delay + 1, len(state.waiting))
        and n[Count.ALERTS] <= n[Count.JUDGED] <= n[Count.T]
        and max(n[Count.SIZE], n[Count.LATE_SIZE], history) <= n[Count.T]
    )  # fmt: skip
    sixteens = state.raw.shape[1] % 16 == 0 == len(state.late_raw) % 16
    if not inside or not sixteens or not min(map(len, (state.due, state.waiting, state.history))):
        raise saved.refuse("whole", "does not fit the arrays")
    slopes, widths = real[Level.SLOPE : Level.START], real[Level.WIDTH : Level.WIDTH + 4]
    judging = widths[0] > 0
    if (
        np.any(widths < 0)
        or np.any(slopes < 0)
        or (judging and np.any(slopes[[0, 1, 2, 3, 5]] <= 0))
    ):
        raise saved.refuse("real", "has a width or a slope that is none")
    if not real[Level.RECENT] >= 0 or np.any(real[Level.SEEN : Level.LOG_ALPHA] < 0):
        raise saved.refuse("real", "has a weight below 0")
    if np.any(state.scale < 0) or (judging and np.any(state.scale <= 0)):
        raise saved.refuse("scale", "must be above 0")


# -- more features -----------------------------------------------------------------------------


def widened_state(state: DensityState, values: Array) -> DensityState:
    """Return the state for rows with more features, constant so far: they change no distance."""
    k, d = len(values), len(state.last)
    mass = state.real[Level.SMOOTH_MASS]
    nothing = np.zeros(k)
    rows = np.stack([values, nothing, values])  # means of rows, steps and late means
    small = np.maximum(1e-8 * np.abs(values), 1e-300)
    other = state.copy()
    other.mean = np.concatenate([state.mean, rows], axis=1)
    other.center = np.concatenate([state.center, rows], axis=1)
    other.scale = np.concatenate([state.scale, np.tile(small, (3, 1))], axis=1)
    other.cov = _wide(state.cov, np.zeros((3, k)))
    other.turn = _wide(state.turn, np.ones((3, k)))
    other.last = np.concatenate([state.last, values])
    other.smooth = np.concatenate([state.smooth, values * mass])
    other.size = np.concatenate([state.size, np.abs(values)])
    other.calm = np.concatenate([state.calm, np.stack([values, *[nothing] * 3])], axis=1)
    other.raw = np.concatenate([state.raw, _past(rows[:2], state.raw.shape[1])], axis=2)
    other.late_raw = np.concatenate(
        [state.late_raw, _past(values[None], len(state.late_raw))[0]], 1
    )
    other.z = np.concatenate([state.z, np.zeros((3, k, state.z.shape[2]), F4)], axis=1)
    other.late_z = np.concatenate([state.late_z, np.zeros((k, state.late_z.shape[1]), F4)])
    held = state.held
    there = [held[:, :d], _past(values[None], len(held))[0], held[:, d : 2 * d],
             np.zeros((len(held), k)), held[:, 2 * d :]]  # fmt: skip
    other.held = np.concatenate(there, axis=1)
    other.waiting = np.concatenate([state.waiting, _past(values[None], len(state.waiting))[0]], 1)
    return other


def _past(values: Array, rows: int) -> Array:
    """The same values for every row of the past."""
    return np.repeat(values[:, None, :], rows, axis=1)


def _wide(square: Array, diagonal: Array) -> Array:
    """Add features that go with no other; where there are too many, the diagonals are kept."""
    kinds, ranks, d = square.shape
    k = diagonal.shape[1]
    if d + k > WHOLE_UP_TO or (ranks == 1 < d):
        own = square[:, 0] if ranks == 1 < d else np.diagonal(square, axis1=1, axis2=2)
        return np.concatenate([own, diagonal], axis=1)[:, None]
    found = np.zeros((kinds, d + k, d + k))
    found[:, :d, :d] = square
    found[:, np.arange(d, d + k), np.arange(d, d + k)] = diagonal
    return found
