"""The loops that cost time: compiled where possible, in plain NumPy otherwise.

``BACKEND`` says which one runs. Set ``ONKEL_PURE=1`` for the NumPy twin, and ``ONKEL_LEVEL=v2``
(or v3, v4) for another instruction set than the best this processor has.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onkel.core import numpy_core, numpy_hashed, numpy_least_squares, numpy_primal
from onkel.core.code_table import CodeTable
from onkel.core.layout import (
    BudgetCode,
    NativeLoss,
    NativeRule,
    Node,
    Program,
    check_program,
    fingerprint,
)  # fmt: skip
from onkel.core.records import (
    Block,
    BlockOutput,
    PrimalInput,
    PrimalOutput,
    Queries,
    Running,
    SquaresInput,
    StepInput,
    StepOutput,
    Targets,
)

Array = NDArray[Any]
SINGLE = np.dtype(np.float32)

__all__ = [
    "BACKEND", "Block", "BlockOutput", "CodeTable", "PrimalInput", "PrimalOutput", "Queries",
    "Running", "SquaresInput", "StepInput", "StepOutput", "Stepper", "Targets", "add_code_scores",
    "buckets", "evaluate", "has_codes", "has_lane", "lane", "least_squares", "left_behind",
    "matrix", "moments", "norms", "one", "primal", "program_of", "queries", "steps", "sums",
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
def _stepper(
    loss: NativeLoss, rule: NativeRule, most: float, intercept: bool, needs_norm: bool
) -> Any:
    made = compiled.Rule(*rule._replace(most=most))
    return compiled.Stepper(compiled.Loss(*loss), made, bool(intercept), bool(needs_norm))


@dataclass
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
        return _stepper(loss, rule, self.rule.longest_step, self.intercept, self.rule.needs_norm)


def queries_of(queries: Queries) -> Any:
    """Return rows made ready as the compiled core takes them."""
    made = compiled.QueriesF if queries.q.dtype == SINGLE else compiled.QueriesD
    return made(queries.q, queries.v, queries.off, queries.norm, queries.width, queries.codes)


def panels_of(panels: Array, norms: Array, coef: Array, first: int, used: int) -> Any:
    """Return stored terms as the compiled core's sums read them."""
    made = compiled.PanelsF if panels.dtype == SINGLE else compiled.PanelsD
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
    compiled.sums(made, queries_of(queries), terms, out, threads)
    return out


def matrix(program: Program, queries: Queries, rows: Array, norms: Array) -> Array:
    """k(query, row) for all pairs, as float64."""
    made = program_of(program)
    if not has_lane():
        return numpy_core.matrix(program, queries, rows, norms)
    out = np.empty((len(queries), len(rows)))
    compiled.matrix(made, queries_of(queries), rows, norms, out)
    return out


def has_codes(rows: Array, count: int) -> bool:
    """Whether the first `count` values of each row are codes (see ``frame.py``)."""
    if has_lane() and rows.flags.c_contiguous:
        return compiled.has_codes(rows, count)
    return bool(numpy_core.are_codes(rows[:, :count]).all())


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


def primal(task: PrimalInput) -> PrimalOutput:
    """Learn rows in the primal, one after another in O(d); weights of codes change in place."""
    stepper = Stepper(task.loss, task.rule, task.intercept).native()
    if stepper is None:
        return PrimalOutput(**numpy_primal.primal(task))
    rows, columns = task.y.shape
    score, limit = np.empty((2, rows, columns))
    mean_score = np.empty((rows, columns) if task.average else (0, columns))
    state, theta, total = task.state.copy(), task.theta.copy(), task.total.copy()
    marks = None if task.codes is None else task.codes.marks.copy()
    given = compiled.PrimalInput(
        task.x, task.y, task.weight, task.eta, task.lam, stepper, task.p, task.average,
        codes_of(task.codes),
    )  # fmt: skip
    out = compiled.PrimalOutput(state, theta, total, score, mean_score, limit)
    compiled.primal(given, out)
    if task.codes is not None and out.bad_row >= 0:
        task.codes.marks[:] = marks
    return PrimalOutput(state, theta, total, score, mean_score, limit, out.bad_row)


def least_squares(
    task: SquaresInput, state: Array, theta: Array, cov: Array
) -> tuple[Array, Array, int]:
    """Learn rows by recursive least squares; `state`, `theta` and `cov` change in place.

    Returns scores and their standard deviations before each row, and the first row that is bad (the
    rows before it are learned), or -1.
    """
    score, limit = np.zeros((2, *task.y.shape))
    if not has_lane():
        bad = numpy_least_squares.least_squares(task, state, theta, cov, score, limit)
        return score, limit, bad
    numbers = compiled.SquaresNumbers(task.clip, task.most, task.horizon, task.longest)
    bad = compiled.least_squares(
        task.x, task.y, task.weight, task.keep, numbers, state, theta, cov, score, limit
    )
    return score, limit, bad


def codes_of(table: CodeTable | None) -> Any:
    """Return weights of codes, if there are any, as the compiled core changes them."""
    if table is None:
        return None
    return compiled.CodeTable(table.count, table.weights, table.past, table.marks)


def add_code_scores(rows: Array, table: CodeTable, state: Array, out: Array) -> None:
    """Add what is shown for the codes of rows to [rows][outputs]."""
    now, then = table.factors(state)
    if has_lane():
        compiled.code_scores(rows, codes_of(table), now, then, out)
    else:
        numpy_hashed.scores(rows[:, : table.count], table, now, then, out)


def buckets(codes: Array, count: int) -> Array:
    """Return where the weights of codes [rows][columns] stand in a table of so many (2**n)."""
    if not has_lane():
        return numpy_hashed.buckets(codes, count)
    out = np.empty(codes.shape, np.int64)
    compiled.buckets(np.ascontiguousarray(codes, np.float64), count, out)
    return out


# -- the fast lane ---------------------------------------------------------------------------------


def frame_of(frame: Any) -> Any:
    """Return a :class:`~onkel.core.frame.Frame` as the compiled core takes it."""
    made = compiled.FrameF if frame.dtype == SINGLE else compiled.FrameD
    vectors = (frame.center, frame.unit, frame.width, frame.shift, np.array(frame.apart))
    return made(*vectors, frame.invariant, frame.clip)


def queries(frame: Any, v: Array) -> tuple[Array, Array, Array]:
    """Return of stored rows what multiplies others, what products lack, and squared lengths."""
    if not has_lane():
        found: tuple[Array, Array, Array] = frame.plain_queries(v)
        return found
    q, off, norm = np.empty(v.shape, frame.dtype), *np.empty((2, len(v)), frame.dtype)
    compiled.queries(frame_of(frame), v, q, off, norm)
    return q, off, norm


def norms(frame: Any, v: Array) -> Array:
    """Return the squared lengths of stored rows as the kernel sees them."""
    if not has_lane():
        plain: Array = frame.squares(frame.z(v)).astype(frame.dtype)
        return plain
    found = np.empty(len(v), frame.dtype)
    compiled.norms(frame_of(frame), v, found)
    return found


def left_behind(frame: Any, v: Array, recent: Array) -> Array | None:
    """Return the middle of recent stored rows, if v is near them but far from the centre."""
    if not has_lane():
        plain: Array | None = frame.left_behind_by(v, recent)
        return plain
    center = np.empty(len(v))
    moved = compiled.left_behind(frame_of(frame), v, np.ascontiguousarray(recent), center)
    return center if moved else None


def terms_of(panels: Array, norms: Array, coef: Array, weights: Array, births: Array) -> Any:
    """Return stored terms as the compiled core changes them."""
    made = compiled.TermsF if panels.dtype == SINGLE else compiled.TermsD
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
    made = compiled.BlockF if block.x.dtype == SINGLE else compiled.BlockD
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
