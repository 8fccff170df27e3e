"""The loops that cost time: compiled where possible, in plain NumPy otherwise.

``BACKEND`` says which one runs. Set ``ONKEL_PURE=1`` for the NumPy twin, and ``ONKEL_LEVEL=v2``
(or v3, v4) for another instruction set than the best this processor has.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core import numpy_core
from onkel.core.layout import LANES, Field, Program

Array = NDArray[Any]

__all__ = [
    "BACKEND", "PrimalInput", "PrimalOutput", "Queries", "StepInput", "StepOutput", "has_lane",
    "lane", "matrix", "moments", "one", "primal", "steps", "sums",
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
    if (_native.LANES, _native.FIELDS) != (LANES, len(Field)):
        raise ImportError(
            "onkel's compiled core does not belong to this version of its Python files. "
            "Reinstall onkel."
        )
    level = os.environ.get("ONKEL_LEVEL")
    if level:
        _native.use_level(level)
    return _native


compiled = _load_native()
"""The compiled core, or None. Not under its module's own name: whoever imports that module, for
whatever reason, would bind it here and so switch the core."""
BACKEND = "numpy" if compiled is None else f"compiled ({compiled.level()})"


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


def sums(
    program: Program, queries: Queries, panels: Array, norms: Array, first: int, used: int,
    coef: Array, threads: int = 1,
) -> Array:  # fmt: skip
    """Sum over terms of coef * k(query, term): one row per query, one column per output."""
    if compiled is None:
        return numpy_core.sums(program, queries, panels, norms, first, used, coef, threads)
    out = np.empty((len(queries), coef.shape[1]))
    x = queries
    compiled.sums(
        program, x.q, x.v, x.off, x.norm, x.width, panels, norms, first, used, coef, out, threads
    )
    return out


def matrix(program: Program, queries: Queries, rows: Array, norms: Array) -> Array:
    """k(query, row) for all pairs, as float64."""
    if compiled is None:
        return numpy_core.matrix(program, queries, rows, norms)
    out = np.empty((len(queries), len(rows)))
    x = queries
    compiled.matrix(program, x.q, x.v, x.off, x.norm, x.width, rows, norms, out)
    return out


def steps(task: StepInput) -> StepOutput:
    """Run the scalar steps of one block (compiled, where rule and loss are built in)."""
    loss, rule = task.loss.native(), task.rule.native()
    if compiled is None or loss is None or rule is None:
        return StepOutput(**numpy_core.steps(task))
    rows, columns = task.y.shape
    wide = 2 * columns if task.average else columns
    state, score = task.state.copy(), np.empty((rows, columns))
    mean_score = np.empty((rows, columns) if task.average else (0, columns))
    limit, coef = np.empty((rows, columns)), np.empty((rows, wide))
    kept, merged = np.zeros((2, rows), np.uint8)
    wiped = np.zeros(columns, np.uint8)
    dropped, done, bad_row, stale = compiled.steps(
        task.kernel, task.base, task.old_coef, task.diag, task.births, task.live, task.first_trial,
        task.y, task.weight, task.eta, task.lam, task.cap, task.hosts, task.oldest, loss, rule,
        task.intercept, task.needs_norm, task.average, task.stop_scale, state, score, mean_score,
        limit, coef,
        kept, merged, wiped,
    )  # fmt: skip
    return StepOutput(
        state, score[:done], mean_score[:done], limit[:done], coef[:done],
        kept[:done].astype(bool), merged[:done].astype(bool), wiped.astype(bool),
        dropped, done, bad_row, stale,
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
    loss, rule = task.loss.native(), task.rule.native()
    if compiled is None or loss is None or rule is None:
        return PrimalOutput(**numpy_core.primal(task))
    rows, columns = task.y.shape
    score, limit = np.empty((2, rows, columns))
    mean_score = np.empty((rows, columns) if task.average else (0, columns))
    state, theta, total = task.state.copy(), task.theta.copy(), task.total.copy()
    bad_row = compiled.primal(
        task.x, task.y, task.weight, task.eta, task.lam, loss, rule, task.p, task.intercept,
        task.needs_norm, task.average, state, theta, total, score, mean_score, limit,
    )  # fmt: skip
    return PrimalOutput(state, theta, total, score, mean_score, limit, bad_row)


def has_lane() -> bool:
    """Whether rows can be learned in place by the compiled core."""
    return compiled is not None


def lane(
    program: Program, frame: tuple[Array, ...], invariant: bool, clip: float,
    terms: tuple[Array, ...], ring: tuple[int, int, int], state: Array, parts: tuple[Any, Any],
    flags: tuple[bool, bool, int], first_trial: int, data: tuple[Array, ...],
    out: tuple[Array, ...],
) -> tuple[int, int, int]:  # fmt: skip
    """Learn rows in place while nothing unusual happens (``src/lane.hpp``).

    Returns how many were learned, and the ring's new head and count.
    """
    assert compiled is not None
    run = compiled.lane_f if data[0].dtype == np.float32 else compiled.lane_d
    return run(
        program, frame, invariant, clip, terms, ring, state, *parts, *flags, first_trial, data, out
    )


def one(dtype: Any, *parts: Any) -> Any:
    """Bind all that learning single rows needs (``src/bind_lane.cpp``)."""
    assert compiled is not None
    return (compiled.OneF if dtype == np.float32 else compiled.OneD)(*parts)


def moments(
    rows: Array, fade: Array, plain: bool, horizon: float, seen: Array, mean: Array, variance: Array
) -> None:
    """Running mean and population variance, of rows that weigh 1/min(seen, horizon); in place.

    `seen` fades by `fade` before each row (if given). Where not all is `plain`, NaN is a value
    that has not come.
    """
    run = (numpy_core if compiled is None else compiled).moments
    run(rows, fade, plain, horizon, seen, mean, variance)
