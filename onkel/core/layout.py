"""The numbers that the compiled core and its NumPy twin agree on (mirrors ``src/api.hpp``)."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

LANES = 64
"""Terms side by side in one panel; panels are laid out [panel][feature][lane]."""


NO_TERM = -1
"""As a row's host: it has no term yet."""
STAYS = -2
"""As a row's host: its term is among those that certainly stay."""


class Op(IntEnum):
    """Operations of a kernel program, a list of ``(op, a, b, c)`` in postfix order."""

    GAUSSIAN = 0
    LAPLACIAN = 1
    MATERN32 = 2
    MATERN52 = 3
    LINEAR = 4
    POLYNOMIAL = 5
    SUM = 6
    PRODUCT = 7
    SCALE = 8


Program = list[tuple[int, float, float, int]]


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


class LossCode(IntEnum):
    """Losses that the compiled core knows."""

    SOFT_MARGIN = 0
    LOGISTIC = 1
    NOVELTY = 2
    SQUARED = 3
    ABSOLUTE = 4
    EPSILON_INSENSITIVE = 5
    HUBER = 6
    LEAST_SQUARES = 7
    EXPONENTIAL = 8


class RuleCode(IntEnum):
    """Rules that the compiled core knows."""

    NORMA = 0
    ALMA = 1
    PROJECTION = 2
    ROMMA = 3


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
