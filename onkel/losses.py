"""Losses: which way, and how wrong?

A loss sees scalars (a score z, a target y, its adaptive number) and answers with a
:class:`~onkel.core.layout.Verdict`. With ``nu`` it adapts one number (a margin, a tube, a width)
so that a fraction nu of the examples falls outside it. Two misprints are corrected: rho moves by
nu - sigma, not the other way as N04 (20), N01 (14) and N01 (16) print it; and inside its width
Huber's slope is delta/sigma times eta, which N04 (24), N01 (20) and N01 (21) leave out.

>>> from onkel import losses
>>> losses.SoftMargin(margin=1.0).judge(z=0.25, y=1, threshold=1.0).value
0.75
>>> losses.get("huber")
Huber(sigma=1.0, nu=None)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import LossCode, NativeLoss, Verdict
from onkel.params import FRACTION, POSITIVE, Accept, Part, pick, registered

Array = NDArray[Any]


def _sign(x: float) -> float:
    return float((x > 0) - (x < 0))


class Loss(Part):
    """Base of all losses. A loss of your own: subclass, set `task`, write :meth:`judge`."""

    task: ClassVar[str] = "regression"
    """"classification", "regression" or "novelty"."""
    code: ClassVar[LossCode | None] = None
    nu: float | None = None

    @property
    def lipschitz(self) -> float:
        """Bound C on abs(l'), infinite where there is none."""
        return math.inf

    @property
    def default_rate(self) -> float:
        """Learning rate where none is given; experiments/ has the studies."""
        return 0.2

    @property
    def start(self) -> float:
        """First value of the threshold (margin, tube, width)."""
        return 0.0

    @property
    def adaptive(self) -> bool:
        """Whether the threshold follows nu."""
        return self.nu is not None

    @property
    def alerts(self) -> bool:
        """Whether this loss raises alerts (novelty)."""
        return self.task == "novelty"

    def judge(self, z: float, y: float, threshold: float) -> Verdict:
        """Return slope, outside, value and direction for one example."""
        raise NotImplementedError(f"{type(self).__name__} must define judge(z, y, threshold)")

    def native(self) -> NativeLoss | None:
        """What the compiled core needs to know, or None for a loss it does not know."""
        if self.code is None:
            return None
        return NativeLoss(int(self.code), -1.0 if self.nu is None else float(self.nu))


class _Bounded(Loss):
    """A loss whose slope is at most 1."""

    @property
    def lipschitz(self) -> float:
        return 1.0


@dataclass(frozen=True)
class SoftMargin(Loss):
    """Soft margin (hinge at a margin) for y = -1 or +1.

    ``max(0, rho - y z)^power``; with nu ``max(0, rho - y z) - nu rho``, rho <- rho + eta (nu -
    sigma)

    Parameters
    ----------
    margin : float, optional
        rho; 1 by default (0 with ``rules.Perceptron``, where the loss is given by name). With
        `nu`, where rho starts: 0 by default.
    nu : float in (0, 1), optional
        Fraction of margin errors that rho is steered to.
    power : float
        1 is the papers' hinge; 2 its square (coefficient regularisation has any p >= 1).

    References
    ----------
    N04 (13)-(18); CR section 5 for powers. margin=0 with regularization 0 is the kernel
    perceptron.

    Examples
    --------
    >>> SoftMargin().judge(z=-0.5, y=1, threshold=1.0).slope
    1.0
    >>> SoftMargin(power=2).judge(z=-0.5, y=1, threshold=1.0).value
    2.25
    """

    word: ClassVar[str] = "soft_margin"
    margin: float | None = None
    nu: float | None = None
    power: float = 1.0
    task: ClassVar[str] = "classification"
    code: ClassVar[LossCode | None] = LossCode.SOFT_MARGIN
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "margin": Accept(low=0, high_open=True, none=True, hint="The papers use 0 or 1."),
        "nu": FRACTION,
        "power": Accept(low=1, high_open=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu is not None and self.power != 1:
            raise ValueError(
                f"SoftMargin: nu={self.nu!r} steers the margin of the plain hinge; it cannot stand "
                f"beside power={self.power!r}. Leave one of them out."
            )

    @property
    def start(self) -> float:
        if self.margin is None:
            return 0.0 if self.adaptive else 1.0
        return float(self.margin)

    @property
    def lipschitz(self) -> float:
        return 1.0 if self.power == 1 else math.inf

    def judge(self, z: float, y: float, threshold: float) -> Verdict:
        outside = float(y * z <= threshold)
        nu, gap = self.nu or 0.0, max(0.0, threshold - y * z)
        slope = y * outside
        if self.power != 1:
            slope *= self.power * gap ** (self.power - 1)
        return Verdict(slope, outside, float(gap**self.power) - nu * threshold, nu - outside)

    @property
    def default_rate(self) -> float:
        return 0.4 / self.power

    def native(self) -> NativeLoss | None:
        nu = -1.0 if self.nu is None else float(self.nu)
        return NativeLoss(LossCode.SOFT_MARGIN, nu, float(self.power))


@dataclass(frozen=True)
class LeastSquares(Loss):
    """Squared distance of the margin from 1, for y = -1 or +1.

    ``(1 - y z)^2``

    References
    ----------
    CR section 5. Twice the squared loss of regression on targets -1 and +1.

    Examples
    --------
    >>> LeastSquares().judge(z=0.5, y=1, threshold=0.0).slope
    1.0
    """

    word: ClassVar[str] = "least_squares"
    task: ClassVar[str] = "classification"
    code: ClassVar[LossCode | None] = LossCode.LEAST_SQUARES

    def judge(self, z: float, y: float, threshold: float) -> Verdict:
        gap = 1.0 - y * z
        return Verdict(2.0 * y * gap, float(y * z <= 0), gap * gap)

    @property
    def default_rate(self) -> float:
        return 0.2


STEEPEST = 30.0
"""The exponential loss grows no steeper than exp(30)."""


@dataclass(frozen=True)
class Exponential(Loss):
    """Exponential loss for y = -1 or +1 (that of boosting).

    ``exp(-y z)``, and from margins of -30 on a straight line: one row that is far on the wrong side
    would else take f out of the floating range.

    References
    ----------
    CR section 5.

    Examples
    --------
    >>> Exponential().judge(z=0.0, y=-1, threshold=0.0).slope
    -1.0
    """

    word: ClassVar[str] = "exponential"
    task: ClassVar[str] = "classification"
    code: ClassVar[LossCode | None] = LossCode.EXPONENTIAL

    def judge(self, z: float, y: float, threshold: float) -> Verdict:
        held = min(-y * z, STEEPEST)
        e = math.exp(held)
        return Verdict(y * e, float(y * z <= 0), e * (1.0 + (-y * z - held)))

    @property
    def default_rate(self) -> float:
        return 0.2


@dataclass(frozen=True)
class Logistic(_Bounded):
    """Logistic loss for y = -1 or +1; gives probabilities.

    ``log(1 + exp(-y z))``

    Examples
    --------
    >>> Logistic().judge(z=0.0, y=1, threshold=0.0).slope
    0.5
    """

    word: ClassVar[str] = "logistic"
    task: ClassVar[str] = "classification"
    code: ClassVar[LossCode | None] = LossCode.LOGISTIC

    def judge(self, z: float, y: float, threshold: float) -> Verdict:
        m = y * z
        e = math.exp(-abs(m))
        slope = y * (e / (1 + e) if m > 0 else 1 / (1 + e))
        return Verdict(slope, float(m <= 0), math.log1p(e) + max(-m, 0.0))

    @property
    def default_rate(self) -> float:
        return 0.4


@dataclass(frozen=True)
class Novelty(_Bounded):
    """Novelty detection: a fraction nu of the stream lies below the threshold rho.

    ``max(0, rho - f) - nu rho``, rho <- rho + eta (nu - sigma), sigma = [f < rho]

    Parameters
    ----------
    nu : float in (0, 1)
        The promised alert rate.
    support : float in (0, 1), optional
        Fraction that f learns from, nu if None. With a small nu few terms carry f; a larger
        support (0.05 to 0.5) gives it more, while the alert threshold still follows nu.
    learn_alerts : bool
        Whether f learns rows that raise an alert. If not, such a row still shrinks f and moves
        both thresholds, but is not stored; `support` must then be more than `nu`.

    References
    ----------
    N04 (20), with the sign of rho corrected; N01 (16).

    Examples
    --------
    >>> Novelty(nu=0.05).judge(z=0.1, y=0, threshold=0.3).direction
    -0.95
    """

    word: ClassVar[str] = "novelty"
    nu: float | None = 0.05
    support: float | None = None
    learn_alerts: bool = True
    task: ClassVar[str] = "novelty"
    code: ClassVar[LossCode | None] = LossCode.NOVELTY
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "nu": Accept(
            low=0, low_open=True, high=1, high_open=True,
            hint="nu is the promised alert rate, for example 0.01.",
        ),
        "support": FRACTION,
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.learn_alerts, (bool, np.bool_)):
            raise ValueError(
                f"Novelty: learn_alerts must be True or False; got {self.learn_alerts!r}."
            )
        if not self.learn_alerts and not self.fraction > float(self.nu):  # type: ignore[arg-type]
            raise ValueError(
                "Novelty: learn_alerts=False needs support (the fraction that f learns from) above "
                f"nu={self.nu!r}, since f would otherwise learn from alerts alone, and so from "
                f"nothing; got support={self.support!r}. Give for example support="
                f"{min(2 * float(self.nu), (1 + float(self.nu)) / 2):g}."  # type: ignore[arg-type]
            )

    @property
    def default_rate(self) -> float:
        return 1.0  # it only sets the scale of the scores

    @property
    def fraction(self) -> float:
        """The fraction that f learns from."""
        return float(self.nu if self.support is None else self.support)  # type: ignore[arg-type]

    def judge(self, z: float, y: float, threshold: float) -> Verdict:
        outside = float(z < threshold)
        value = max(0.0, threshold - z) - self.fraction * threshold
        return Verdict(outside, outside, value, self.fraction - outside)

    def native(self) -> NativeLoss | None:
        learn_alerts = bool(self.learn_alerts)
        return NativeLoss(LossCode.NOVELTY, float(self.nu or 0.0), self.fraction, learn_alerts)


@dataclass(frozen=True)
class Squared(Loss):
    """Squared loss.

    ``(y - z)^2 / 2``

    Examples
    --------
    >>> Squared().judge(z=1.0, y=3.0, threshold=0.0).value
    2.0
    """

    word: ClassVar[str] = "squared"
    code: ClassVar[LossCode | None] = LossCode.SQUARED

    def judge(self, z: float, y: float, threshold: float) -> Verdict:
        delta = y - z
        return Verdict(delta, 0.0, 0.5 * delta * delta)

    @property
    def default_rate(self) -> float:
        return 0.5


@dataclass(frozen=True)
class Absolute(_Bounded):
    """Absolute loss.

    ``abs(y - z)``

    Examples
    --------
    >>> Absolute().judge(z=1.0, y=3.0, threshold=0.0).slope
    1.0
    """

    word: ClassVar[str] = "absolute"
    code: ClassVar[LossCode | None] = LossCode.ABSOLUTE

    def judge(self, z: float, y: float, threshold: float) -> Verdict:
        return Verdict(_sign(y - z), 0.0, abs(y - z))


@dataclass(frozen=True)
class EpsilonInsensitive(_Bounded):
    """Errors below epsilon cost nothing; with nu, epsilon gives prediction intervals.

    ``max(0, abs(y - z) - eps)``; with nu ``... + nu eps`` and eps <- eps + eta ([..> eps] - nu)

    Parameters
    ----------
    epsilon : float, optional
        Half the width of the tube; 0.1 by default. With `nu`, where it starts: 0 by default.
    nu : float in (0, 1), optional
        Fraction of examples outside the tube: intervals cover 1 - nu in the long run.

    References
    ----------
    N04 (22); N01 (18).

    Examples
    --------
    >>> EpsilonInsensitive(epsilon=0.5).judge(z=0.0, y=2.0, threshold=0.5).value
    1.5
    """

    word: ClassVar[str] = "epsilon_insensitive"
    epsilon: float | None = None
    nu: float | None = None
    code: ClassVar[LossCode | None] = LossCode.EPSILON_INSENSITIVE
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "epsilon": Accept(low=0, high_open=True, none=True),
        "nu": FRACTION,
    }

    @property
    def start(self) -> float:
        if self.epsilon is None:
            return 0.0 if self.adaptive else 0.1
        return float(self.epsilon)

    def judge(self, z: float, y: float, threshold: float) -> Verdict:
        gap = abs(y - z) - threshold
        outside = float(gap > 0)
        nu = self.nu or 0.0
        value = max(0.0, gap) + nu * threshold
        return Verdict(_sign(y - z) * outside, outside, value, outside - nu)


@dataclass(frozen=True)
class Huber(_Bounded):
    """Huber's robust loss: squared near 0, absolute beyond sigma.

    ``abs(d) - sigma/2`` if ``abs(d) >= sigma`` else ``d^2 / (2 sigma)``, d = y - z

    Parameters
    ----------
    sigma : float
        Where the loss turns from squared to absolute; with `nu`, where that starts.
    nu : float in (0, 1), optional
        Fraction of examples beyond sigma (the trimmed mean of N04, after (24)).

    References
    ----------
    N04 (23), (24), whose inner coefficient lacks its eta; N01 (19)-(21).

    Examples
    --------
    >>> Huber(sigma=1.0).judge(z=0.0, y=0.5, threshold=1.0).value
    0.125
    """

    word: ClassVar[str] = "huber"
    sigma: float = 1.0
    nu: float | None = None
    code: ClassVar[LossCode | None] = LossCode.HUBER
    _accepts: ClassVar[Mapping[str, Accept]] = {"sigma": POSITIVE, "nu": FRACTION}

    @property
    def start(self) -> float:
        return float(self.sigma)

    @property
    def default_rate(self) -> float:
        return 0.2 if self.adaptive else 0.5 * float(self.sigma)  # half of a small error

    def judge(self, z: float, y: float, threshold: float) -> Verdict:
        delta = y - z
        size = abs(delta)
        outside = float(size > threshold)
        direction = outside - (self.nu or 0.0)
        if size >= threshold:
            return Verdict(_sign(delta), outside, size - threshold / 2, direction)
        width = max(threshold, 1e-300)
        return Verdict(delta / width, outside, delta * delta / (2 * width), direction)


REGISTRY = registered(Loss)
__all__ = ["Loss", "get", *(kind.__name__ for kind in REGISTRY.values())]


def get(loss: Any, task: str | None = None) -> Loss:
    """Return a loss from an object or a name; an error names those of a task, if one is given."""
    if isinstance(loss, str) and loss in REGISTRY:
        return REGISTRY[loss]()
    return pick("loss", loss, Loss, of_task(task))


def of_task(task: str | None) -> dict[str, type[Loss]]:
    """Return the losses of a task by name; all of them, where none is given.

    Examples
    --------
    >>> list(of_task("novelty"))
    ['novelty']
    """
    return {word: kind for word, kind in REGISTRY.items() if task in (None, kind.task)}
