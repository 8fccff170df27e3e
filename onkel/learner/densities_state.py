"""A detector's state from a file, of which nothing is believed; and for wider rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density import WHOLE_UP_TO, DensityState, Plan, sixteens
from onkel.core.density_table import LARGEST, LEAST_SPREAD, LEVELS, Count, Level
from onkel.core.layout import MOST_STATE
from onkel.saved import MOST, Saved

Array = NDArray[Any]

F8, F4 = np.float64, np.float32
FAR = 1e6
"""No joined score is as large: what views say is tempered."""
STEEP = 1e30
"""The same of widths, edges and slopes."""


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
        turn=saved.array("turn", (3, ranks, d), F8, finite=False), last=last,
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
    _check_waiting(state, plan, saved)
    _check_sizes(state, plan, saved)
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
        min(n.values()) >= 0 and max(n.values()) < MOST
        and n[Count.SIZE] <= plan.terms and n[Count.LATE_SIZE] <= plan.late_terms
        and history <= plan.history and n[Count.HISTORY_AT] < plan.history
        and (history == plan.history or n[Count.HISTORY_AT] == history)
        and n[Count.HELD] <= plan.hold + 1 and n[Count.HELD_FIRST] == 0
        and 0 <= waiting <= plan.delay + 1
        and n[Count.ALERTS] <= n[Count.JUDGED] <= n[Count.T]
        and n[Count.CALM] <= n[Count.T] and n[Count.ALARMED] <= 1
        and max(n[Count.SIZE], n[Count.LATE_SIZE], history) <= n[Count.T]
    )  # fmt: skip
    places = sixteens(n[Count.SIZE]), sixteens(n[Count.LATE_SIZE]), sixteens(history)
    rings = max(n[Count.HELD], 1), max(waiting, 1)
    lengths = state.raw.shape[1], len(state.late_raw), len(state.history)
    if not inside or lengths != places or (len(state.due), len(state.waiting)) != rings:
        raise saved.refuse("whole", "does not fit the arrays")
    slopes, widths = real[Level.SLOPE : Level.START], real[Level.WIDTH : Level.EDGE]
    least = np.where([widths[0] > 0] * 4 + [widths[3] > 0] + [widths[0] > 0] * 3 + [False], 0.09, 0)
    if np.any(widths < 0) or np.any(slopes < least):
        raise saved.refuse("real", "has a width or a slope that is none")
    if not real[Level.RECENT] >= 0 or np.any(real[Level.SEEN : Level.LOG_ALPHA] < 0):
        raise saved.refuse("real", "has a weight below 0")
    low, high = np.log([plan.low, plan.high])
    if not low - 1e-9 <= real[Level.LOG_ALPHA] <= high + 1e-9:
        raise saved.refuse("real", "has a level outside of its limits")
    if np.any(state.scale < 0) or (widths[0] > 0 and np.any(state.scale <= 0)):
        raise saved.refuse("scale", "must be above 0")


def _check_waiting(state: DensityState, plan: Plan, saved: Saved) -> None:
    """Refuse rows that would never be let in, or not as a row that was held."""
    t, count, d = int(state.whole[Count.T]), int(state.whole[Count.HELD]), len(state.last)
    due, weight = state.due[:count], state.held[:count, 2 * d]
    if np.any(np.diff(due) <= 0) or np.any(due <= t) or np.any(due > t + plan.hold + 1):
        raise saved.refuse("due", f"must increase, from {t + 1} to {t + plan.hold + 1} at most")
    if np.any(weight <= 0) or np.any(weight > plan.memory):
        raise saved.refuse("held", "must have weights above 0, up to the memory")


def _check_sizes(state: DensityState, plan: Plan, saved: Saved) -> None:
    """Refuse numbers beyond those that rows can have left: theirs are cut off at LARGEST.

    Steps are twice as large at most, and what is squared of both is so again.
    """
    L, full = 2.01 * LARGEST, state.cov.shape[1] > 1 or len(state.last) == 1
    most = {
        "mean": L, "center": L, "last": L, "size": L, "raw": L, "late_raw": L, "waiting": L,
        "scale": 2 * L, "cov": 4 * L * L, "history": FAR, "real": MOST_STATE,
        "smooth": L * state.real[Level.SMOOTH_MASS],
    }  # fmt: skip
    for name, limit in most.items():
        if np.any(np.abs(getattr(state, name)) > limit):
            raise saved.refuse(name, f"must not be beyond {limit:g}")
    calm = np.array([L, 4 * L * L, 4 * L * L, 4 * L * L * L * L])
    tails = np.abs(state.real[Level.WIDTH : Level.START])
    scores = np.nan_to_num(state.held[:, -1])
    if np.any(np.abs(state.calm) > calm[:, None]) or np.any(tails > STEEP):
        raise saved.refuse("calm", "or the widths and tails are beyond those of any rows")
    if np.any(np.abs(state.held[:, :-2]) > L) or np.any(np.abs(scores) > FAR):
        raise saved.refuse("held", "must be rows of numbers that are accepted")
    variance = np.diagonal(state.cov, axis1=1, axis2=2) if full else state.cov[:, 0]
    if np.any(variance < 0):
        raise saved.refuse("cov", "must have variances of at least 0")


# -- more features -----------------------------------------------------------------------------


def widened_state(state: DensityState, values: Array) -> DensityState:
    """Return the state for rows with more features, constant so far: they change no distance."""
    k, d = len(values), len(state.last)
    mass = state.real[Level.SMOOTH_MASS]
    nothing = np.zeros(k)
    rows = np.stack([values, nothing, values])  # means of rows, steps and late means
    small = np.maximum(LEAST_SPREAD * np.abs(values), 1e-300)
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
