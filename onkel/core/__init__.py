"""The loops that cost time: compiled where possible, in plain NumPy otherwise.

``BACKEND`` says which one runs. Set ``ONKEL_PURE=1`` for the NumPy twin, and ``ONKEL_LEVEL=v2``
(or v3, v4) for another instruction set than the best this processor has.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core import numpy_core
from onkel.core.layout import (
    BudgetCode,
    NativeLoss,
    NativeRule,
    Node,
    Program,
    check_program,
    fingerprint,
)  # fmt: skip

Array = NDArray[Any]

__all__ = [
    "BACKEND", "Block", "BlockOutput", "PrimalInput", "PrimalOutput", "Queries", "Running",
    "StepInput", "StepOutput", "Stepper", "Targets", "evaluate", "has_lane", "lane", "matrix",
    "moments", "one", "primal", "program_of", "steps", "sums",
]  # fmt: skip


def _load_native() -> Any:
    if os.environ.get("ONKEL_PURE", "") not in ("", "0"):
        return None
    try:
        from onkel.core import _native
    except ImportError:
        warnings.warn(
            "onkel runs without its compiled core, in plain NumPy: the same results, many times "
            "slower. Install a C++ compiler and reinstall onkel (pip install --force-reinstall "
            "--no-cache-dir onkel), or set ONKEL_PURE=1 to choose this and silence the warning.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    if getattr(_native, "FINGERPRINT", None) != fingerprint():
        raise ImportError(
            "onkel's compiled core was not built from this version of its table "
            "(onkel/core/layout.py). Reinstall onkel; in a checkout, run make setup."
        )
    level = os.environ.get("ONKEL_LEVEL")
    if level:
        _native.use_level(level)
    return _native


if TYPE_CHECKING:
    from onkel.core import _native as compiled
else:
    compiled = _load_native()
"""The compiled core, or None. Not under its module's own name: whoever imports that module, for
whatever reason, would bind it here and so switch the core."""


def has_lane() -> bool:
    """Whether the compiled core runs, which can learn rows in place."""
    return compiled is not None


BACKEND = f"compiled ({compiled.level()})" if has_lane() else "numpy"


# -- parts, as the compiled core takes them: made and checked once ---------------------------------


@lru_cache(1024)
def _program(nodes: tuple[Node, ...]) -> Any:
    check_program(nodes)
    return compiled.Program(list(nodes)) if has_lane() else nodes


def program_of(program: Program) -> Any:
    """Return a kernel program as the core takes it; raise a ValueError if it is none."""
    return _program(tuple(program))


@lru_cache(1024)
def _stepper(loss: NativeLoss, rule: NativeRule, intercept: bool, needs_norm: bool) -> Any:
    return compiled.Stepper(
        compiled.Loss(*loss), compiled.Rule(*rule), bool(intercept), bool(needs_norm)
    )


@dataclass(frozen=True)
class Stepper:
    """What decides a step: a loss, a bound rule, and whether there is an offset."""

    loss: Any
    rule: Any
    intercept: bool

    def native(self) -> Any:
        """Return it as the compiled core takes it; None where the core lacks loss or rule."""
        loss, rule = self.loss.native(), self.rule.native()
        if not has_lane() or loss is None or rule is None:
            return None
        return _stepper(loss, rule, self.intercept, self.rule.needs_norm)


@dataclass(frozen=True)
class Queries:
    """Rows made ready for kernel evaluations in the frame of the stored terms.

    dot(x, s) = q . s + off;  |x|^2 = norm;  |x - s| is taken feature by feature on `v`, times
    `width`. `z` makes the rows as the kernel's formula sees them.
    """

    q: Array
    v: Array
    off: Array
    norm: Array
    width: Array

    def __len__(self) -> int:
        return len(self.q)

    def native(self) -> Any:
        """Return them as the compiled core takes them."""
        made = compiled.QueriesF if self.q.dtype == np.float32 else compiled.QueriesD
        return made(self.q, self.v, self.off, self.norm, self.width)

    def followed_by(self, other: Queries) -> Queries:
        """Both sets of rows as one."""
        return Queries(
            np.concatenate([self.q, other.q]),
            np.concatenate([self.v, other.v]),
            np.concatenate([self.off, other.off]),
            np.concatenate([self.norm, other.norm]),
            self.width,
        )

    def part(self, which: Any) -> Queries:
        """Some of the rows."""
        return Queries(self.q[which], self.v[which], self.off[which], self.norm[which], self.width)


@dataclass
class StepInput:
    """What :func:`steps` reads. Candidates are old terms that may be dropped, then the rows."""

    kernel: Array
    """[lead + rows][old + rows] kernel values; lead is old if `needs_norm`, else 0."""
    base: Array
    """[lead + rows][wide] sums over the terms that certainly stay, actual units."""
    old_coef: Array
    """[wide][old] actual coefficients of the old candidates."""
    diag: Array
    """k(x, x) of all candidates."""
    births: Array
    """Trial at which each old candidate was stored."""
    live: int
    first_trial: int
    y: Array
    weight: Array
    eta: Array
    lam: Array
    cap: Array
    """Most terms after each row's trial."""
    hosts: Array
    """The candidate that holds the same example (a later pass adds to it), STAYS or NO_TERM."""
    oldest: Array
    """After each row's trial, terms born before this are dropped."""
    loss: Any
    rule: Any
    intercept: bool
    needs_norm: bool
    average: bool
    stop_scale: float
    state: Array
    """[columns][fields], not changed."""
    budget: BudgetCode = BudgetCode.OLDEST

    @property
    def columns(self) -> int:
        """Number of outputs."""
        return int(self.y.shape[1])

    @property
    def old_count(self) -> int:
        """Number of old candidates."""
        return len(self.births)


@dataclass
class StepOutput:
    """What :func:`steps` gives back; nothing it was given has changed."""

    state: Array
    score: Array
    mean_score: Array
    limit: Array
    """Threshold (novelty: alert threshold) before each step."""
    coef: Array
    kept: Array
    """Rows that became terms and are still there."""
    merged: Array
    """Rows whose coefficients are to be added to their host's."""
    wiped: Array
    dropped: int
    done: int
    bad_row: int
    stale_norm: bool
    """Cancellation ate ||f||^2: it must be summed anew."""


def panels_of(panels: Array, norms: Array, coef: Array, first: int, used: int) -> Any:
    """Return stored terms as the compiled core's sums read them."""
    made = compiled.PanelsF if panels.dtype == np.float32 else compiled.PanelsD
    return made(panels, norms, coef, first, used)


def sums(
    program: Program, queries: Queries, panels: Array, norms: Array, first: int, used: int,
    coef: Array, threads: int = 1,
) -> Array:  # fmt: skip
    """Sum over terms of coef * k(query, term): one row per query, one column per output."""
    made = program_of(program)
    if not has_lane():
        return numpy_core.sums(program, queries, panels, norms, first, used, coef, threads)
    out = np.empty((len(queries), coef.shape[1]))
    terms = panels_of(panels, norms, coef, first, used)
    compiled.sums(made, queries.native(), terms, out, threads)
    return out


def matrix(program: Program, queries: Queries, rows: Array, norms: Array) -> Array:
    """k(query, row) for all pairs, as float64."""
    made = program_of(program)
    if not has_lane():
        return numpy_core.matrix(program, queries, rows, norms)
    out = np.empty((len(queries), len(rows)))
    compiled.matrix(made, queries.native(), rows, norms, out)
    return out


_NONE = np.zeros(0)


def evaluate(
    program: Program, dot: Array | None, dist2: Array | None, dist1: Array | None
) -> Array:
    """Run a kernel program on pair statistics of one shape (None: it does not read them)."""
    made = program_of(program)
    if not has_lane():
        return numpy_core.evaluate(program, dot, dist2, dist1)
    a, b, c = (
        _NONE if x is None else np.ascontiguousarray(x, np.float64) for x in (dot, dist2, dist1)
    )
    out = np.empty(next(x.shape for x in (dot, dist2, dist1) if x is not None))
    compiled.evaluate(made, a, b, c, out)
    return out


def steps(task: StepInput) -> StepOutput:
    """Run the scalar steps of one block (compiled, where rule and loss are built in)."""
    stepper = Stepper(task.loss, task.rule, task.intercept).native()
    if stepper is None:
        return StepOutput(**numpy_core.steps(task))
    rows, columns = task.y.shape
    wide = 2 * columns if task.average else columns
    state, score = task.state.copy(), np.empty((rows, columns))
    mean_score = np.empty((rows, columns) if task.average else (0, columns))
    limit, coef = np.empty((rows, columns)), np.empty((rows, wide))
    kept, merged = np.zeros((2, rows), np.uint8)
    wiped = np.zeros(columns, np.uint8)
    given = compiled.StepInput(
        task.kernel, task.base, task.old_coef, task.diag, task.births, task.live, task.first_trial,
        task.y, task.weight, task.eta, task.lam, task.cap, task.hosts, task.oldest, stepper,
        int(task.budget), task.average, task.stop_scale,
    )  # fmt: skip
    out = compiled.StepOutput(state, score, mean_score, limit, coef, kept, merged, wiped)
    compiled.steps(given, out)
    done = out.done
    return StepOutput(
        state, score[:done], mean_score[:done], limit[:done], coef[:done],
        kept[:done].astype(bool), merged[:done].astype(bool), wiped.astype(bool),
        out.dropped, done, out.bad_row, out.stale_norm,
    )  # fmt: skip


@dataclass
class PrimalInput:
    """What :func:`primal` reads: weights over features instead of terms."""

    x: Array
    """[rows][d] features."""
    y: Array
    weight: Array
    eta: Array
    lam: Array
    loss: Any
    rule: Any
    p: float
    intercept: bool
    needs_norm: bool
    average: bool
    state: Array
    theta: Array
    """[columns][d + 1]; the last is the sum of the coefficients."""
    total: Array
    """[columns][d + 1] sums over the trials (average), else empty."""


@dataclass
class PrimalOutput:
    """What :func:`primal` gives back; nothing it was given has changed."""

    state: Array
    theta: Array
    total: Array
    score: Array
    mean_score: Array
    limit: Array
    bad_row: int


def primal(task: PrimalInput) -> PrimalOutput:
    """Learn rows in the primal, one after another in O(d)."""
    stepper = Stepper(task.loss, task.rule, task.intercept).native()
    if stepper is None:
        return PrimalOutput(**numpy_core.primal(task))
    rows, columns = task.y.shape
    score, limit = np.empty((2, rows, columns))
    mean_score = np.empty((rows, columns) if task.average else (0, columns))
    state, theta, total = task.state.copy(), task.theta.copy(), task.total.copy()
    given = compiled.PrimalInput(
        task.x, task.y, task.weight, task.eta, task.lam, stepper, task.p, task.average
    )
    out = compiled.PrimalOutput(state, theta, total, score, mean_score, limit)
    compiled.primal(given, out)
    return PrimalOutput(state, theta, total, score, mean_score, limit, out.bad_row)


# -- the fast lane ---------------------------------------------------------------------------------


class Block(NamedTuple):
    """Rows as they came, and what goes with each."""

    first_trial: int
    x: Array
    y: Array
    weight: Array
    eta: Array
    lam: Array
    oldest: Array
    """After each row's trial, terms born before this are dropped."""


class BlockOutput(NamedTuple):
    """Where :func:`lane` leaves scores and limits before each step, and which rows are terms."""

    score: Array
    limit: Array
    kept: Array


class Targets(NamedTuple):
    """The standardisation of the targets: center 0 and spread 1 without."""

    center: Array
    spread: Array


class Running(NamedTuple):
    """Running moments, updated in place."""

    seen: Array
    mean: Array
    variance: Array
    horizon: float
    plain: bool
    """Whether all rows are whole; else NaN is a value that has not come."""


def frame_of(frame: Any) -> Any:
    """Return a :class:`~onkel.core.frame.Frame` as the compiled core takes it."""
    made = compiled.FrameF if frame.dtype == np.float32 else compiled.FrameD
    return made(frame.center, frame.unit, frame.width, frame.shift, frame.invariant, frame.clip)


def terms_of(panels: Array, norms: Array, coef: Array, weights: Array, births: Array) -> Any:
    """Return stored terms as the compiled core changes them."""
    made = compiled.TermsF if panels.dtype == np.float32 else compiled.TermsD
    return made(panels, norms, coef, weights, births)


def ring_of(head: int, count: int, cap: int, budget: BudgetCode = BudgetCode.OLDEST) -> Any:
    """Return where terms begin, how many there are and may be, and which goes when it is full."""
    return compiled.Ring(head, count, cap, int(budget))


def lane(
    program: Program, frame: Any, terms: Any, ring: Any, state: Array, stepper: Stepper,
    block: Block, out: BlockOutput, threads: int = 1,
) -> int:  # fmt: skip
    """Learn rows in place while nothing unusual happens (``src/lane.hpp``); return how many.

    `frame`, `terms` and `ring` come from the functions above; `ring` moves on with the terms.
    """
    made = compiled.BlockF if block.x.dtype == np.float32 else compiled.BlockD
    return compiled.lane(
        program_of(program), frame, terms, ring, state, stepper.native(), made(*block),
        compiled.BlockOutput(*out), threads,
    )  # fmt: skip


def one(
    program: Program, frame: Any, terms: Any, ring: Any, state: Array, stepper: Stepper,
    targets: Targets, rows: Running | None, wanted: Running | None, scores: Array, limits: Array,
) -> Any:  # fmt: skip
    """Bind all that learning single rows needs (``src/bind_lane.cpp``).

    `rows` and `wanted` are the moments of rows and targets, None where none are kept; `scores` and
    `limits` are where each row's are left, one per output.
    """
    made = compiled.OneF if isinstance(frame, compiled.FrameF) else compiled.OneD
    return made(
        program_of(program), frame, terms, ring, state, stepper.native(),
        compiled.Targets(*targets), rows and compiled.Moments(*rows),
        wanted and compiled.Moments(*wanted), scores, limits,
    )  # fmt: skip


def moments(rows: Array, fade: Array, into: Running) -> None:
    """Running mean and population variance, of rows that weigh 1/min(seen, horizon); in place.

    `seen` fades by `fade` before each row (if given).
    """
    if has_lane():
        compiled.moments(rows, fade, compiled.Moments(*into))
    else:
        numpy_core.moments(rows, fade, into)
