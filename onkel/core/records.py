"""What the core's functions read and give back: plain records, the same for both cores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.code_table import CodeTable
from onkel.core.layout import BudgetCode

Array = NDArray[Any]


@dataclass(frozen=True)
class Queries:
    """Rows made ready for kernel evaluations in the frame of the stored terms.

    dot(x, s) = q . s + off;  |x|^2 = norm;  |x - s| is taken feature by feature on `v`, times
    `width`. The first `codes` columns of both are codes, and of `width` what they are apart.
    """

    q: Array
    v: Array
    off: Array
    norm: Array
    width: Array
    codes: int = 0

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
            self.codes,
        )

    def part(self, which: Any) -> Queries:
        """Some of the rows."""
        return replace(
            self, q=self.q[which], v=self.v[which], off=self.off[which], norm=self.norm[which]
        )


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


@dataclass
class PrimalInput:
    """What :func:`primal` reads: weights over features instead of terms."""

    x: Array
    """[rows][d] features; behind the codes, where there are any."""
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
    codes: CodeTable | None = None
    """Changed in place, unless a row is bad."""


@dataclass
class PrimalOutput:
    """What :func:`primal` gives back; of what it was given only the codes' weights have changed."""

    state: Array
    theta: Array
    total: Array
    score: Array
    mean_score: Array
    limit: Array
    bad_row: int


@dataclass
class SquaresInput:
    """What :func:`least_squares` reads."""

    x: Array
    """[rows][d] features; the last is 1."""
    y: Array
    """[rows][outputs]; NaN: an output that is not there yet."""
    weight: Array
    keep: Array
    """[rows] what is left of what was known along a row, in (0, 1]."""
    clip: float
    """Errors count for at most this."""
    most: float
    """Variance of a weight before the first row: forgetting takes none beyond it."""
    horizon: float
    """Rows over which the noise is averaged."""
    longest: float
    """Longest step, the error times the doubt of the score."""


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

    def behind(self, rows: int) -> Block:
        """Return what comes after so many rows."""
        return Block(self.first_trial + rows, *(a[rows:] for a in self[1:])) if rows else self


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
    steady: bool = False
    """Whether an absurd value counts as one that widens the spread by an eighth."""
