"""Several settings over one ring of terms: their sums and their steps.

Compiled (``src/bank.hpp``, ``src/bind_bank.cpp``) or put together from the functions of one kernel,
which is also what runs a user's own loss or rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import Queries, StepInput
from onkel.core.layout import NO_TERM, Field, Program

Array = NDArray[Any]

FOREVER = 1 << 60
"""More terms than any block holds: a bank lets none go while it learns a block."""


@dataclass(frozen=True)
class Panels:
    """Stored terms: panels, their norms, where the used ones begin and how many there are."""

    values: Array
    norms: Array
    first: int
    used: int
    coef: Array
    """[capacity][columns][lanes], stored units, in the rows' own type."""

    def native(self) -> Any:
        """Return them as the compiled core takes them."""
        return core.panels_of(self.values, self.norms, self.coef, self.first, self.used)


@dataclass
class MemberStepper(core.Stepper):
    """What decides a member's step, and the number of its kernel."""

    kernel: int


@dataclass
class BankInput:
    """What :func:`steps` reads; members stand in the order of their kernels."""

    programs: list[Program]
    members: list[MemberStepper]
    queries: Queries
    panels: Panels
    first_trial: int
    y: Array
    """[rows][outputs]."""
    weight: Array
    eta: Array
    """[members][rows]."""
    lam: Array
    """[members][rows]."""
    diag: Array
    """[kernels][rows]: k(x, x)."""
    state: Array
    """[members * outputs][fields], not changed."""
    threads: int = 1

    def part(self, rows: int) -> BankInput:
        """The same for the first rows only."""
        cut = slice(0, rows)
        eta, lam, diag = (np.ascontiguousarray(a[:, cut]) for a in (self.eta, self.lam, self.diag))
        return replace(
            self, queries=self.queries.part(cut), y=self.y[cut], weight=self.weight[cut], eta=eta,
            lam=lam, diag=diag,
        )  # fmt: skip


@dataclass
class BankOutput:
    """What :func:`steps` gives back; nothing it was given has changed."""

    state: Array
    score: Array
    """[rows][members * outputs], before each step."""
    limit: Array
    coef: Array
    kept: Array
    """Rows that some member has stored."""
    wiped: Array
    done: int
    """Rows that every member has done."""
    bad_row: int


def ends_of(members: list[MemberStepper], kernels: int, outputs: int) -> list[int]:
    """Return where the columns of each kernel end."""
    counts = np.bincount([m.kernel for m in members], minlength=kernels)
    return [int(v) for v in np.cumsum(counts) * outputs]


def sums(
    programs: list[Program], ends: list[int], queries: Queries, panels: Panels, threads: int = 1
) -> Array:
    """Sum over terms of coef * k(query, term), each column with the kernel that it belongs to."""
    out = np.zeros((len(queries), panels.coef.shape[1]))
    if panels.used and core.has_lane():
        core.compiled.bank_sums(
            _programs(programs, ends), core.queries_of(queries), panels.native(), out, threads
        )
    elif panels.used:
        for program, start, stop in zip(programs, [0, *ends[:-1]], ends, strict=True):
            coef = np.ascontiguousarray(panels.coef[:, start:stop])
            out[:, start:stop] = core.sums(
                program, queries, panels.values, panels.norms, panels.first, panels.used, coef,
                threads,
            )  # fmt: skip
    return out


def _programs(programs: list[Program], ends: list[int]) -> Any:
    """Kernels and the columns of each, as the compiled core takes them."""
    return core.compiled.Programs([core.program_of(p) for p in programs], ends)


def steps(task: BankInput) -> BankOutput:
    """Learn one block of rows with every member, none of whose terms may go meanwhile.

    For each member what :func:`onkel.core.steps` does, on sums and kernel values made once for
    all members.
    """
    members = [m.native() for m in task.members]
    if None in members:
        return _by_hand(task)
    rows, outputs = task.y.shape
    shape = (len(members), rows, outputs)
    state, score, limit, coef = task.state.copy(), *np.empty((3, *shape))
    kept, wiped = np.zeros(rows, np.uint8), np.zeros(len(state), np.uint8)
    out = core.compiled.BankOutput(state, score, limit, coef, kept, wiped)
    core.compiled.bank(
        _programs(task.programs, ends_of(task.members, len(task.programs), outputs)), members,
        [m.kernel for m in task.members], core.queries_of(task.queries), task.panels.native(),
        core.compiled.BankRows(
            task.first_trial, task.y, task.weight, task.eta, task.lam, task.diag
        ),
        out, task.threads,
    )  # fmt: skip
    return BankOutput(
        state, _by_row(score), _by_row(limit), _by_row(coef), kept.astype(bool),
        wiped.astype(bool), out.done, out.bad_row,
    )  # fmt: skip


# -- the fast lane ---------------------------------------------------------------------------------


class BankBlock(NamedTuple):
    """Rows as they came, and what goes with each; `eta` and `lam` are [members][rows]."""

    first_trial: int
    x: Array
    y: Array
    """[rows][outputs], the same for every member."""
    weight: Array
    eta: Array
    lam: Array


def members_of(programs: list[Program], members: list[MemberStepper], outputs: int) -> Any:
    """Return a bank's members as the compiled core takes them."""
    ends = ends_of(members, len(programs), outputs)
    steppers, kernels = [m.native() for m in members], [m.kernel for m in members]
    return core.compiled.Members(_programs(programs, ends), steppers, kernels, outputs)


def lane(
    members: Any, bound: tuple[Any, Any], ring: Any, state: Array, block: BankBlock,
    out: core.BlockOutput, at_once: int, threads: int = 1,
) -> int:  # fmt: skip
    """Learn rows in place while nothing unusual happens (``src/bank_lane.hpp``); return how many.

    `bound` is frame and terms; `ring` moves on with the terms, of which the oldest go where it is
    full: `at_once` of them.
    """
    compiled = core.compiled
    made = compiled.BankBlockF if block.x.dtype == core.SINGLE else compiled.BankBlockD
    return compiled.bank_lane(
        members, *bound, ring, state, made(*block), compiled.BlockOutput(*out), at_once, threads
    )


def one(
    members: Any, bound: tuple[Any, Any], ring: Any, state: Array, targets: core.Targets,
    rows: core.Running | None, wanted: core.Running | None, scores: Array, limits: Array,
) -> Any:  # fmt: skip
    """Bind all that learning single rows needs; see :func:`onkel.core.one`."""
    compiled = core.compiled
    made = compiled.BankOneF if isinstance(bound[0], compiled.FrameF) else compiled.BankOneD
    return made(
        members, *bound, ring, state, compiled.Targets(*targets), rows and compiled.Moments(*rows),
        wanted and compiled.Moments(*wanted), scores, limits,
    )  # fmt: skip


def _by_row(values: Array) -> Array:
    """[members][rows][outputs] as [rows][members * outputs]."""
    return np.ascontiguousarray(values.transpose(1, 0, 2)).reshape(values.shape[1], -1)


def _by_hand(task: BankInput) -> BankOutput:
    """The same from the functions of one kernel."""
    rows, outputs = task.y.shape
    ends = ends_of(task.members, len(task.programs), outputs)
    base = sums(task.programs, ends, task.queries, task.panels, task.threads)
    base = base * task.state[:, Field.SCALE]
    kernel = [core.matrix(p, task.queries, task.queries.v, task.queries.norm)
              for p in task.programs]  # fmt: skip
    out = BankOutput(
        task.state.copy(), np.zeros(base.shape), np.zeros(base.shape), np.zeros(base.shape),
        np.zeros(rows, bool), np.zeros(len(task.state), bool), rows, -1,
    )  # fmt: skip
    for i, member in enumerate(task.members):
        mine = slice(i * outputs, (i + 1) * outputs)
        found = core.steps(_single(task, member, i, mine, kernel[member.kernel], base))
        done = found.done
        out.state[mine], out.wiped[mine] = found.state, found.wiped
        out.score[:done, mine], out.limit[:done, mine] = found.score, found.limit
        out.coef[:done, mine] = found.coef
        out.kept[:done] |= found.kept
        if 0 <= found.bad_row < out.done:
            out.bad_row = found.bad_row
        out.done = min(out.done, done)
    if out.bad_row >= out.done:
        out.bad_row = -1
    return out


def _single(
    task: BankInput, member: MemberStepper, i: int, mine: slice, kernel: Array, base: Array
) -> StepInput:
    """What the steps of one member read."""
    rows = len(task.y)
    return StepInput(
        kernel=kernel, base=np.ascontiguousarray(base[:, mine]),
        old_coef=np.zeros((task.y.shape[1], 0)), diag=task.diag[member.kernel],
        births=np.zeros(0, np.int64), live=0, first_trial=task.first_trial, y=task.y,
        weight=task.weight, eta=np.ascontiguousarray(task.eta[i]),
        lam=np.ascontiguousarray(task.lam[i]),
        cap=np.full(rows, FOREVER, np.int64), hosts=np.full(rows, NO_TERM, np.int64),
        oldest=np.zeros(rows, np.int64), loss=member.loss, rule=member.rule,
        intercept=member.intercept, needs_norm=False, average=False, stop_scale=1e-100,
        state=np.ascontiguousarray(task.state[mine]),
    )  # fmt: skip
