"""The state of a detector: its numbers and arrays, which the core changes in place.

Rows, the steps between them and their late means are looked at in four ways (*views*): rows in
units of their spreads, rows and steps turned so that their correlations vanish, and short running
means that are let in late. A view has terms, a sample of the past that fades exponentially, and
each term's kernel sum over the others. ``numpy_density.py`` says how they judge and learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import numpy_density
from onkel.core.answers import Answers
from onkel.core.density_table import LEVELS, Count, Level

Array = NDArray[Any]

WHOLE_UP_TO = 256
"""With more features than this, covariances are not kept, and nothing is turned."""
MOST_ROWS = 2**52
"""Rows, and numbers drawn for them: no count of a state then comes to 2**53."""
AT_ONCE = 2048
"""Rows of one call; the arrays grow between calls."""
NOWHERE = np.float32(1e9)
"""The coordinates of a place without a term."""


@dataclass(frozen=True)
class Plan:
    """What a detector was asked for; the numbers below `seed` are those of the study.

    Parameters
    ----------
    nu : float
        The promised alert rate.
    memory : float
        Rows after which the past has faded to a third.
    terms, late_terms : int
        Places of the sample of rows and steps, and of that of late means.
    delay, hold : int
        Rows after which means are let in, and rows that raised an alert.
    history : int
        Joined scores that are remembered.
    warmup : int
        Rows before the first alert.
    seed : int
        Of the sample.
    young : int
        Terms, and joined scores, before anything is judged.
    span : float
        Of the running mean.
    rate : float
        By which the level moves.
    low, high : float
        Within which the level stays.
    """

    nu: float
    memory: float = 10_000.0
    terms: int = 1000
    late_terms: int = 300
    delay: int = 1000
    hold: int = 500
    history: int = 2000
    warmup: int = 200
    young: int = 20
    seed: int = 0
    span: float = 10.0
    rate: float = 0.01
    low: float = 0.005
    high: float = 0.04

    def possible(self) -> bool:
        """Whether a detector can run by these numbers."""
        sizes = min(self.terms, self.late_terms, self.history) >= self.young >= 12
        levels = 0 < self.low <= self.nu <= self.high <= 1 and self.nu < 1
        return (
            sizes and levels and max(self.terms, self.history, self.delay, self.hold) < 2**31
            and self.memory >= self.young and self.span >= 1 and 0 < self.rate <= 1
        )  # fmt: skip


@dataclass
class DensityState:
    """All that changes when a detector learns."""

    whole: Array
    real: Array
    mean: Array
    cov: Array
    center: Array
    scale: Array
    turn: Array
    last: Array
    smooth: Array
    size: Array
    calm: Array
    raw: Array
    late_raw: Array
    z: Array
    late_z: Array
    sums: Array
    late_sums: Array
    marks: Array
    held: Array
    due: Array
    waiting: Array
    history: Array
    ranked: Array

    @classmethod
    def empty(cls, d: int, plan: Plan) -> Self:
        """Return the state before the first row."""
        ranks = d if d <= WHOLE_UP_TO else 1
        whole, real = np.zeros(len(Count), np.int64), np.zeros(LEVELS)
        real[[Level.LOG_ALPHA, Level.START]], real[Level.RECENT] = np.log(plan.nu), plan.nu
        flat, square = np.zeros((3, d)), np.zeros((3, ranks, d))
        f4 = np.float32
        return cls(
            whole, real, flat, square, flat.copy(), flat.copy(), square.copy(), np.zeros(d),
            np.zeros(d), np.zeros(d), np.zeros((4, d)), np.zeros((2, 16, d)), np.zeros((16, d)),
            np.full((3, d, 16), NOWHERE), np.full((d, 16), NOWHERE),
            np.full((7, 16), np.inf, f4), np.full((2, 16), np.inf, f4),
            np.zeros(16, np.uint8),
            np.zeros((1, 2 * d + 2)), np.zeros(1, np.int64), np.zeros((1, d)), np.zeros(16),
            np.zeros(16),
        )  # fmt: skip

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(*(getattr(self, f.name).copy() for f in fields(self)))

    def packed(self) -> Self:
        """Return a copy in as little room as it needs: alike for states that are alike."""
        n, other = self.whole, self.copy()
        places, late = sixteens(n[Count.SIZE]), sixteens(n[Count.LATE_SIZE])
        other.raw, other.z = self.raw[:, :places].copy(), self.z[:, :, :places].copy()
        other.sums, other.marks = self.sums[:, :places].copy(), self.marks[:places].copy()
        other.late_raw, other.late_z = self.late_raw[:late].copy(), self.late_z[:, :late].copy()
        other.late_sums = self.late_sums[:, :late].copy()
        told = sixteens(n[Count.HISTORY])
        other.history, other.ranked = self.history[:told].copy(), self.ranked[:told].copy()
        other._pack_rings()
        return other

    def _pack_rings(self) -> None:
        """Let rings begin at their beginning, and be as long as what they hold."""
        n = self.whole
        held = int(n[Count.HELD])
        order = (n[Count.HELD_FIRST] + np.arange(max(held, 1))) % len(self.due)
        self.held, self.due = self.held[order], self.due[order]
        self.held[held:], self.due[held:], n[Count.HELD_FIRST] = 0.0, 0, 0
        index = np.arange(n[Count.LATE_SEEN], n[Count.T])
        rows, size = self.waiting[index % len(self.waiting)], max(len(index), 1)
        self.waiting = np.zeros((size, len(self.last)))
        self.waiting[index % size] = rows

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return sum(getattr(self, f.name).nbytes for f in fields(self))

    # -- room ----------------------------------------------------------------------------------

    def make_room(self, plan: Plan, rows: int) -> None:
        """Let the arrays grow so that they hold what so many more rows may bring."""
        n = self.whole
        waiting, later = int(n[Count.T] - n[Count.LATE_SEEN]), rows + int(n[Count.HELD])
        self._terms(min(int(n[Count.SIZE]) + later, plan.terms))
        self._late_terms(min(int(n[Count.LATE_SIZE]) + waiting + rows, plan.late_terms))
        self._remembered(min(int(n[Count.HISTORY]) + later, plan.history))
        self._held(min(int(n[Count.HELD]) + rows, plan.hold + 1))
        self._waiting(min(waiting + rows, plan.delay + 1), waiting)

    def _terms(self, wanted: int) -> None:
        more = _more(self.raw.shape[1], wanted)
        if more:
            self.raw = np.pad(self.raw, ((0, 0), (0, more), (0, 0)))
            self.z = np.pad(self.z, ((0, 0), (0, 0), (0, more)), constant_values=NOWHERE)
            self.sums = np.pad(self.sums, ((0, 0), (0, more)), constant_values=np.inf)
            self.marks = np.pad(self.marks, (0, more))

    def _late_terms(self, wanted: int) -> None:
        more = _more(len(self.late_raw), wanted)
        if more:
            self.late_raw = np.pad(self.late_raw, ((0, more), (0, 0)))
            self.late_z = np.pad(self.late_z, ((0, 0), (0, more)), constant_values=NOWHERE)
            self.late_sums = np.pad(self.late_sums, ((0, 0), (0, more)), constant_values=np.inf)

    def _remembered(self, wanted: int) -> None:
        more = _more(len(self.history), wanted)
        if more:
            self.history, self.ranked = np.pad([self.history, self.ranked], ((0, 0), (0, more)))

    def _held(self, wanted: int) -> None:
        old = len(self.due)
        if wanted > old:
            order = (self.whole[Count.HELD_FIRST] + np.arange(old)) % old
            more = _more(old, wanted)
            self.held = np.pad(self.held[order], ((0, more), (0, 0)))
            self.due = np.pad(self.due[order], (0, more))
            self.whole[Count.HELD_FIRST] = 0

    def _waiting(self, wanted: int, there: int) -> None:
        old = len(self.waiting)
        if wanted > old:
            size = old + _more(old, wanted)
            index = int(self.whole[Count.LATE_SEEN]) + np.arange(there)
            grown = np.zeros((size, self.waiting.shape[1]))
            grown[index % size] = self.waiting[index % old]
            self.waiting = grown


def sixteens(count: int) -> int:
    """Return places for so many, in sixteens; at least one such."""
    return max(-(-int(count) // 16), 1) * 16


def _more(there: int, wanted: int) -> int:
    """How many places to add: at least doubling, in sixteens."""
    if wanted <= there:
        return 0
    return max(-(-wanted // 16) * 16, 2 * (there // 16) * 16) - there


def run(
    plan: Plan, state: DensityState, X: Array, weight: Array | None, members: bool = False,
    answers: Answers | None = None, at_alert: Callable[[int], None] | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Judge each row, and learn it if it has a weight above 0; `state` changes in place.

    Without weights nothing is learned: every row is judged as if it came next. `answers` have a
    say in it, and keep the rows that raise an alert. `at_alert` is called with the number of each
    row that raises an alert, just before that row is learned.

    Returns
    -------
    out : array, [rows][4]
        log p, the level (an alert where log p is below it), 1 for an alert, the joined score.
    parts : array, [rows][9]
        Of each view its tail score, and how far rows are tied to those before; empty unless
        `members`.
    """
    if weight is not None and max(state.whole.item(0), state.whole.item(1)) > MOST_ROWS:
        raise ValueError(f"No detector learns more than {MOST_ROWS} rows. It was not changed.")
    X = np.ascontiguousarray(X, np.float64)
    out, parts = np.empty((len(X), 4)), np.empty((len(X) if members else 0, 9))
    none = np.zeros(0)
    for first in range(0, len(X), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        rows, heavy = X[part], none if weight is None else weight[part]
        if weight is not None:
            state.make_room(plan, len(rows))
            if answers is not None:
                answers.make_room(len(rows))
        if at_alert is None:
            _call(plan, _Held(state), answers, rows, heavy, out[part], parts[part])
        else:
            for i in _alerts(plan, state, answers, rows, heavy, out[part], parts[part]):
                at_alert(first + i)
    return out, parts


def _alerts(
    plan: Plan, state: DensityState, answers: Answers | None, rows: Array, weight: Array,
    out: Array, members: Array,
) -> Iterator[int]:  # fmt: skip
    """Yield the number of each row that raises an alert, before it is learned."""
    held = _Held(state)
    done = _call(plan, held, answers, rows, weight, out, members, 0)
    while done < len(rows):
        yield done
        left = slice(done, None)
        state.make_room(plan, len(rows) - done)  # what is held back may come in beside new rows
        done += _call(plan, held, answers, rows[left], weight[left], out[left], members[left], 1)


def _call(
    plan: Plan, held: _Held, answers: Answers | None, rows: Array, weight: Array,
    out: Array, members: Array, stop_from: int = -1,
) -> int:  # fmt: skip
    if not core.has_lane():
        state = held.state
        return numpy_density.density(plan, state, answers, rows, weight, out, members, stop_from)
    native = core.compiled
    given = None if answers is None else answers.native(native.DensityAnswers)
    done: int = native.density(
        _plan(plan), held.native(), given, rows, weight, out, members, stop_from
    )
    return done


class _Held:
    """A state as the compiled core takes it: made again only where an array is another one."""

    def __init__(self, state: DensityState) -> None:
        self.state, self._arrays, self._native = state, [], None  # type: ignore[var-annotated]

    def native(self) -> Any:
        """Return it."""
        now, before = vars(self.state).values(), self._arrays
        same = len(before) == len(now) and all(a is b for a, b in zip(now, before, strict=True))
        if not same:
            self._native = _state(self.state)
            self._arrays = [*vars(self.state).values()]
        return self._native


def settle(plan: Plan, state: DensityState) -> None:
    """Take metric, widths and tails anew, in a state that was put together by hand."""
    state.whole[Count.REFRESH] = 0
    none = np.zeros((0, len(state.last)))
    _call(plan, _Held(state), None, none, np.zeros(0), np.zeros((0, 4)), np.zeros((0, 9)))


@lru_cache(256)
def _plan(plan: Plan) -> Any:
    return core.compiled.DensityPlan(**vars(plan))


def _state(state: DensityState) -> Any:
    try:
        return core.compiled.DensityState(*vars(state).values())
    except TypeError:  # arrays that cannot be written to, such as a mapped file's
        vars(state).update(vars(state.copy()))
        return core.compiled.DensityState(*vars(state).values())
