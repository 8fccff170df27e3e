"""The algebra that both cores, the GPU and explanation rest on: one table of what there is.

Kernel operations, losses, rules, budgets, splits, and the columns of the state; what a detector
counts is in ``density_table.py``. ``src/generate.py`` makes the C++ header of both when the core
is built; NumPy, the GPU and explanation read them here. Neither imports more than the standard
library, so that a build can load them before their package is there.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple, Self, TypeVar

from .density_table import LEVELS, Count, Level

CodeT = TypeVar("CodeT", bound=IntEnum)

LANES = 64
"""Terms side by side in one panel; panels are laid out [panel][feature][lane]."""
DEPTH = 16
"""Values that a kernel program may hold at once."""
LONGEST = 999
"""Operations of a kernel program, at most."""

NO_TERM = -1
"""As a row's host: it has no term yet."""
STAYS = -2
"""As a row's host: its term is among those that certainly stay."""

APART = 2.0
"""How far apart two values of a category are: as two numbers in units of their spread, on average.

Then a category is its one-hot coding."""
CODES = 2**24
"""Codes are whole numbers from 0 to one less, exact in float32."""

MOST_SHOWN = 1e150
"""A row is refused whose score is not below this: in targets' own units it might be infinite."""
MOST_STATE = 1e300
"""A row that makes more of a number of the state is refused, and so is a file that holds more."""
LARGEST = 1e250
"""A weight beyond this is refused, well inside the floating range."""
SMALL_SCALE = 2.0**-10
"""Below this, or above its inverse, the scale of a table of weights is taken into the weights."""


# -- kernel operations -------------------------------------------------------------------------


class Reads(IntEnum):
    """What an operation reads of a pair of rows; NOTHING: values that others left on the stack."""

    NOTHING = 0
    DOT = 1
    DIST2 = 2
    DIST1 = 3


class Span(NamedTuple):
    """The numbers that a parameter may be, both ends included."""

    low: float
    high: float


SIZE = Span(0.0, math.inf)
"""Of a width or a factor."""


class Operation(NamedTuple):
    """A row of the table of kernel operations."""

    pops: int = 0
    """Values that it takes from the stack; it leaves one."""
    reads: Reads = Reads.NOTHING
    a: Span | None = None
    b: Span | None = None
    c: Span | None = None
    """A whole number."""
    rooted: bool = False
    """Whether its formula is one of s = a |x - z|, the root of the squared distance."""
    exponential: bool = False
    """Whether it is exp(-a times what it reads): at twice the `a` it is squared."""
    vanishes: bool = False
    """Whether nothing is left of it where a times what it reads (rooted: s) is beyond 800."""
    gpu: bool = False
    """Whether a GPU can do it."""


class Op(IntEnum):
    """Operations of a kernel program, a list of ``(op, a, b, c)`` in postfix order."""

    operation: Operation

    def __new__(cls, code: int, operation: Operation) -> Self:
        """A code that knows its row of the table."""
        found = int.__new__(cls, code)
        found._value_ = code
        found.operation = operation
        return found

    @property
    def gpu(self) -> bool:
        """Whether a GPU can do it."""
        return self.operation.gpu

    # exp(-a dist2)
    GAUSSIAN = 0, Operation(0, Reads.DIST2, a=SIZE, exponential=True, vanishes=True, gpu=True)
    # exp(-a dist1)
    LAPLACIAN = 1, Operation(0, Reads.DIST1, a=SIZE, exponential=True, vanishes=True, gpu=True)
    # (1 + s) exp(-s)
    MATERN32 = 2, Operation(0, Reads.DIST2, a=SIZE, rooted=True, vanishes=True, gpu=True)
    # (1 + s + s^2/3) exp(-s)
    MATERN52 = 3, Operation(0, Reads.DIST2, a=SIZE, rooted=True, vanishes=True, gpu=True)
    # dot
    LINEAR = 4, Operation(0, Reads.DOT, gpu=True)
    # (a dot + b)^c
    POLYNOMIAL = 5, Operation(0, Reads.DOT, a=SIZE, b=SIZE, c=Span(0, 2**31 - 1), gpu=True)
    # left + right
    SUM = 6, Operation(2, gpu=True)
    # left * right
    PRODUCT = 7, Operation(2, gpu=True)
    # a * top
    SCALE = 8, Operation(1, a=SIZE, gpu=True)


Node = tuple[int, float, float, int]
"""An operation and its numbers a, b, c; 0 where it has none."""
Program = list[Node]


def known(what: str, kind: type[IntEnum], code: Any) -> str:
    """Return what to say of a code that is not in the table."""
    names = ", ".join(f"{int(row)} {row.name}" for row in kind)
    return (
        f"unknown {what} {code!r}; the table has {names}. Give one of these, or add a row for it "
        "to onkel/core/layout.py and what its recipe in CONTRIBUTING.md names"
    )


def row_of(kind: type[CodeT], what: str, code: Any) -> CodeT:
    """Return the row of a code; raise a ValueError that lists them where there is none."""
    try:
        return kind(code)
    except ValueError:
        raise ValueError(f"onkel core: {known(what, kind, code)}.") from None


def operation_of(code: Any) -> Op:
    """Return the row of a kernel operation."""
    return row_of(Op, "kernel operation", code)


def reads_of(program: Iterable[Node]) -> set[Reads]:
    """Return which pair statistics a program reads."""
    return {operation_of(node[0]).operation.reads for node in program} - {Reads.NOTHING}


def depth_of(program: Iterable[Node]) -> int:
    """Return the stack that a program needs."""
    depth = most = 0
    for code, *_ in program:
        depth += 1 - operation_of(code).operation.pops
        most = max(most, depth)
    return most


def check_program(program: Iterable[Node]) -> None:
    """Refuse what is no kernel program, as the compiled core does."""
    nodes, depth = list(program), 0
    if not 0 < len(nodes) <= LONGEST:
        raise ValueError(f"onkel core: a kernel program has 1 to {LONGEST} operations.")
    for code, *numbers in nodes:
        op = operation_of(code)
        row = op.operation
        if depth < row.pops:
            raise ValueError(f"onkel core: kernel operation {op.name} takes more than there is.")
        depth += 1 - row.pops
        if depth > DEPTH:
            raise ValueError(f"onkel core: a kernel holds at most {DEPTH} values at once.")
        for name, span, value in zip("abc", (row.a, row.b, row.c), numbers, strict=True):
            if span is not None and not span.low <= value <= span.high:
                raise ValueError(
                    f"onkel core: kernel operation {op.name}: {name} must lie in "
                    f"[{span.low:g}, {span.high:g}]; got {value!r}."
                )
    if depth != 1:
        raise ValueError("onkel core: a kernel program must leave one value.")


# -- losses, rules, budgets, splits ------------------------------------------------------------


class _Listed(IntEnum):
    """Codes, and whether a GPU knows what they stand for."""

    gpu: bool

    def __new__(cls, code: int, gpu: bool) -> Self:
        """A code that knows its row of the table."""
        found = int.__new__(cls, code)
        found._value_ = code
        found.gpu = gpu
        return found


class LossCode(_Listed):
    """Losses that the compiled core knows."""

    SOFT_MARGIN = 0, True
    LOGISTIC = 1, True
    NOVELTY = 2, True
    SQUARED = 3, True
    ABSOLUTE = 4, True
    EPSILON_INSENSITIVE = 5, True
    HUBER = 6, True
    LEAST_SQUARES = 7, True
    EXPONENTIAL = 8, True


class RuleCode(_Listed):
    """Rules that the compiled core knows."""

    NORMA = 0, True
    ALMA = 1, True
    PROJECTION = 2, True
    ROMMA = 3, False


class BudgetCode(_Listed):
    """Which term goes when a window is full (``onkel.expansions.budgets``)."""

    OLDEST = 0, True
    SMALLEST = 1, False
    MERGE = 2, False
    PROJECT = 3, False


class SplitCode(IntEnum):
    """How a kernel of one feature splits at a point (``split.py``)."""

    EXP_POLY = 0
    POLY = 1


# -- the state ---------------------------------------------------------------------------------


class Field(IntEnum):
    """Columns of the scalar state, one row per output."""

    SCALE = 0
    """a_i = scale * stored coefficient."""
    OFFSET = 1
    """b."""
    THRESHOLD = 2
    """The loss's adaptive number: rho, epsilon or sigma."""
    ALERT = 3
    """Novelty: the threshold that raises alerts (the same number unless `support` is set)."""
    NORM2 = 4
    """The squared norm of f, where it is kept."""
    SCALE_SUM = 5
    """S, the running sum of the scale (average hypothesis)."""
    OFFSET_SUM = 6
    DROPPED = 7
    """Bound on the norm of what truncation left out of f."""
    DROPPED_AVERAGE = 8
    """The same for the sum behind the average hypothesis."""
    TRIALS = 9
    WEIGHT = 10
    OUTSIDE = 11
    """Weighted count of examples outside the threshold."""
    ALERTS = 12
    ALERT_SUM = 13
    """Running sum of the alert threshold (average hypothesis)."""
    LOSS = 14
    RISK = 15
    MARGIN_ERRORS = 16
    UPDATES = 17
    """Trials at which f got a new term."""


# -- what losses and rules say ----------------------------------------------------------------


class NativeLoss(NamedTuple):
    """A loss as the compiled core takes it."""

    code: int
    nu: float = -1.0
    """Below 0: its number is fixed."""
    extra: float = 1.0
    """Novelty: the fraction that f learns from; soft margin: the power."""
    learn_alerts: bool = True
    """Novelty: whether f learns rows that raise an alert."""


class NativeRule(NamedTuple):
    """A rule as the compiled core takes it."""

    code: int
    threshold_rate: float = 1.0
    power: float = 2.0
    """Of the norm in NORMA's regulariser."""
    support_rate: float = 1.0
    radius: float = math.inf
    extra: float = 0.0
    """ALMA: a of the self-tuning form, or 0; ROMMA: 1 if aggressive."""
    most: float = 1e150
    """Longest step, ``abs(coef) sqrt(k(x, x))``."""


class Verdict(NamedTuple):
    """What a loss says of one example."""

    slope: float
    """-l', the direction in which f must move."""
    outside: float
    """1 if the example lies outside the threshold, else 0."""
    value: float
    """l(z, y)."""
    direction: float = 0.0
    """Where the adaptive number goes, before the step size."""


class Trial(NamedTuple):
    """All that a rule may look at: scalars only."""

    f: float
    y: float
    kxx: float
    norm2: float
    eta: float
    lam: float
    weight: float
    offset: float
    threshold: float
    alert: float
    intercept: bool
    updates: float = 0.0
    """How often f has moved so far."""


class Move(NamedTuple):
    """What a rule decides: f <- shrink * f + coef * k_x, and its own few numbers.

    Then f is scaled into the ball of this radius (by whoever knows the norm of the new f).
    """

    shrink: float
    coef: float
    offset: float
    threshold: float
    alert: float
    verdict: Verdict
    radius: float = math.inf


# -- what the compiled core was made of --------------------------------------------------------

ENUMS: tuple[type[IntEnum], ...] = (Reads, Op, LossCode, RuleCode, BudgetCode, SplitCode, Field,
                                   Count, Level)  # fmt: skip


def fingerprint() -> int:
    """Return a number that changes with the table, which the compiled core carries."""
    numbers = [LANES, DEPTH, LONGEST, NO_TERM, STAYS, CODES, MOST_SHOWN, MOST_STATE, LARGEST,
               SMALL_SCALE, LEVELS]  # fmt: skip
    rows = [(kind.__name__, row.name, int(row), _facts(row)) for kind in ENUMS for row in kind]
    return zlib.crc32(repr((numbers, rows)).encode())


def _facts(row: IntEnum) -> Any:
    """What the table says of a row beside its code."""
    if isinstance(row, Op):
        return tuple(tuple(v) if isinstance(v, Span) else v for v in row.operation)
    return row.gpu if isinstance(row, _Listed) else None
