"""Detectors that watched apart become one: samples, moments and histories in proportion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density import DensityState, settle
from onkel.core.density_table import Count, Level
from onkel.learner.densities import Densities
from onkel.learner.merging.adding import Merged

Array = NDArray[Any]

MASSES = (Level.ROW_MASS, Level.STEP_MASS, Level.LATE_MASS)


def merged_densities(
    learners: Sequence[Densities], weights: Array, start: Densities | None = None
) -> Merged:
    """Return a detector whose sample is drawn from all, by weight and by how much each has seen.

    Rows that wait to be let in, and alerts that wait for an answer, are not taken over; answers
    are. Counts add; those of `start`, from which all
    went on, count once. The level is the weighted mean of the logarithms, and the identity of the
    alerts holds on: it begins where the levels' travel so far, added up, would have begun.
    """
    first = learners[0]
    plan, states = first.plan, [a.state for a in learners]
    seen = np.minimum([a.level(Level.SEEN) for a in learners], plan.memory)
    share = weights * np.maximum(seen, 1.0)
    share = share / share.sum()
    state = DensityState.empty(first.features, plan)
    _counts(state, learners, share, start)
    state.make_room(plan, sum(a.count(Count.T) for a in learners))
    _samples(state, states, share, plan)
    _moments(state, states, share, plan.memory)
    whole = first.copy()
    whole.state = state
    rows = int(state.whole[Count.T])
    hushed = sum(int(a.answers.asked_count[1]) for a in learners)
    if start is not None:
        hushed -= (len(learners) - 1) * int(start.answers.asked_count[1])
    whole.answers = first.answers.joined(
        [a.answers for a in learners[1:]], [max(rows - a.t, 0) for a in learners], hushed
    )
    settle(plan, state)
    before = sum(a.size for a in learners)
    return Merged(whole, before, 0, before - whole.size, np.zeros(1), None)


def _counts(
    state: DensityState, learners: Sequence[Densities], share: Array, start: Densities | None
) -> None:
    again = len(learners) - 1
    for which in (Count.T, Count.JUDGED, Count.ALERTS, Count.CALM):
        state.whole[which] = sum(a.count(which) for a in learners)
        if start is not None:
            state.whole[which] -= again * start.count(which)
    for what in (Level.SEEN, Level.LATE_WEIGHT, Level.FORGIVEN, Level.UNSPENT):
        state.real[what] = sum(a.level(what) for a in learners)
        if start is not None:
            state.real[what] -= again * start.level(what)
    levels = np.array([a.level(Level.LOG_ALPHA) for a in learners])
    travel = sum(a.level(Level.START) - a.level(Level.LOG_ALPHA) for a in learners)
    if start is not None:
        travel -= again * (start.level(Level.START) - start.level(Level.LOG_ALPHA))
    state.real[Level.LOG_ALPHA] = level = float(share @ levels)
    state.real[Level.START] = level + travel
    state.real[Level.RECENT] = float(share @ [a.level(Level.RECENT) for a in learners])


def _samples(state: DensityState, states: list[DensityState], share: Array, plan: Any) -> None:
    """Draw terms and remembered scores from all, evenly within each: no more than rows came.

    Of models of one start each holds what that had kept.
    """
    n = state.whole
    rows = int(n[Count.T])
    taken = _drawn([int(s.whole[Count.SIZE]) for s in states], share, min(plan.terms, rows))
    raw = [s.raw[:, i] for s, i in zip(states, taken, strict=True)]
    marks = [s.marks[i] for s, i in zip(states, taken, strict=True)]
    there = [int(s.whole[Count.LATE_SIZE]) for s in states]
    late = _drawn(there, share, min(plan.late_terms, rows))
    late_raw = [s.late_raw[i] for s, i in zip(states, late, strict=True)]
    told = _drawn([int(s.whole[Count.HISTORY]) for s in states], share, min(plan.history, rows))
    history = np.concatenate([s.history[i] for s, i in zip(states, told, strict=True)])
    n[Count.SIZE], n[Count.LATE_SIZE] = sum(map(len, taken)), sum(map(len, late))
    n[Count.HISTORY] = len(history)
    n[Count.HISTORY_AT] = len(history) % plan.history
    n[Count.LATE_SEEN] = n[Count.T]
    state.raw[:, : n[Count.SIZE]] = np.concatenate(raw, axis=1)
    state.marks[: n[Count.SIZE]] = np.concatenate(marks)
    state.late_raw[: n[Count.LATE_SIZE]] = np.concatenate(late_raw)
    state.history[: len(history)] = history
    state.ranked[: len(history)] = np.sort(history)


def _drawn(there: list[int], share: Array, most: int) -> list[Array]:
    """Return which places of each are taken: all, where there is room; else in proportion."""
    if sum(there) <= most:
        return [np.arange(n) for n in there]
    wanted = np.minimum(np.floor(share * most), there).astype(int)
    return [np.arange(k) * n // max(k, 1) for n, k in zip(there, wanted.tolist(), strict=True)]


def _moments(state: DensityState, states: list[DensityState], share: Array, memory: float) -> None:
    """Pool means and covariances; what only the last rows knew is the heaviest one's."""
    for kind in range(3):
        means = np.array([s.mean[kind] for s in states])
        mean = share @ means
        state.mean[kind] = mean
        for w, s, m in zip(share, states, means - mean, strict=True):
            between = m * m if len(s.cov[kind]) < len(m) else np.outer(m, m)
            state.cov[kind] += w * (s.cov[kind] + between)
    calm = np.array([s.calm for s in states])
    state.calm[:] = np.einsum("j,jkd->kd", share, calm)
    state.calm[1] += share @ (calm[:, 0] - state.calm[0]) ** 2
    state.size[:] = share @ np.array([s.size for s in states])
    for mass in MASSES:
        state.real[mass] = min(sum(float(s.real[mass]) for s in states), memory)
    heaviest = states[int(np.argmax(share))]
    state.last[:], state.smooth[:] = heaviest.last, heaviest.smooth
    state.real[Level.SMOOTH_MASS] = heaviest.real[Level.SMOOTH_MASS]
    state.whole[Count.ALARMED] = heaviest.whole[Count.ALARMED]
