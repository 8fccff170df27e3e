"""Losses phi(y f(x)) of the coefficient-regularisation paper, by the numbers its theorems need.

Each says phi(0), abs(phi'(0)), and on an interval [-R, R] the steepest slope and the curvature
``M = sup abs(phi'_-(u) - phi'(0)) / abs(u)``, phi'_- the left derivative. All are exact suprema.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from onkel.params import POSITIVE, Accept, Part, pick

__all__ = ["Exponential", "HingePower", "LogisticMargin", "SquaredMargin", "Surrogate"]


class Surrogate(Part):
    """Base: a convex loss of u = y f(x) with phi'(0) < 0."""

    margin: float | None = None

    @property
    def at_zero(self) -> float:
        """phi(0), the loss of f = 0."""
        raise NotImplementedError(f"{type(self).__name__} must define at_zero")

    @property
    def slope_at_zero(self) -> float:
        """abs(phi'(0))."""
        raise NotImplementedError(f"{type(self).__name__} must define slope_at_zero")

    def steepest(self, reach: float) -> float:
        """Largest abs(phi'_-) and abs(phi'_+) on [-reach, reach]."""
        raise NotImplementedError(f"{type(self).__name__} must define steepest(reach)")

    def curvature(self, reach: float) -> float:
        """M on [-reach, reach]."""
        raise NotImplementedError(f"{type(self).__name__} must define curvature(reach)")


@dataclass(frozen=True)
class HingePower(Surrogate):
    """Power of the hinge at a margin; power 1 is the hinge.

    ``phi(u) = (rho - u)_+^p``

    Parameters
    ----------
    power : float
        p >= 1.
    margin : float
        rho > 0; the paper has 1.

    Examples
    --------
    >>> HingePower().curvature(5.0), HingePower(power=3.0).curvature(1.0)
    (1.0, 9.0)
    """

    power: float = 1.0
    margin: float = 1.0
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "power": Accept(low=1, high_open=True, hint="1 is the hinge, 2 its square."),
        "margin": POSITIVE,
    }

    @property
    def at_zero(self) -> float:
        return float(self.margin**self.power)

    @property
    def slope_at_zero(self) -> float:
        return self.steepest(0.0)

    def steepest(self, reach: float) -> float:
        return _finite(self, reach, self.power * _power(self.margin + reach, self.power - 1))

    def curvature(self, reach: float) -> float:
        """M: at -reach where phi' is concave (p >= 2), else where the hinge ends."""
        rho, p = self.margin, self.power
        if p == 1:  # the slope jumps at rho, and only rows beyond it see that
            return 1 / rho if reach > rho else 0.0
        u = -reach if p >= 2 else min(reach, rho)
        gap = abs(_power(rho, p - 1) - _power(rho - u, p - 1))
        return _finite(self, reach, p * gap / abs(u))


@dataclass(frozen=True)
class LogisticMargin(Surrogate):
    """Logistic loss.

    ``phi(u) = log(1 + exp(-u))``

    Examples
    --------
    >>> LogisticMargin().curvature(7.0)
    0.25
    """

    @property
    def at_zero(self) -> float:
        return math.log(2)

    @property
    def slope_at_zero(self) -> float:
        return 0.5

    def steepest(self, reach: float) -> float:
        return 1 / (1 + math.exp(-reach))

    def curvature(self, reach: float) -> float:
        """M = phi''(0): the quotient tanh(u/2)/(2u) is largest there."""
        return 0.25


@dataclass(frozen=True)
class SquaredMargin(Surrogate):
    """Squared loss; its gradient is twice that of ``losses.Squared``.

    ``phi(u) = (1 - u)^2``

    Examples
    --------
    >>> SquaredMargin().steepest(3.0)
    8.0
    """

    @property
    def at_zero(self) -> float:
        return 1.0

    @property
    def slope_at_zero(self) -> float:
        return 2.0

    def steepest(self, reach: float) -> float:
        return 2 * (1 + reach)

    def curvature(self, reach: float) -> float:
        """M = 2 everywhere."""
        return 2.0


@dataclass(frozen=True)
class Exponential(Surrogate):
    """Exponential loss; refused where its slope on the interval does not fit into a float.

    ``phi(u) = exp(-u)``

    Examples
    --------
    >>> round(Exponential().curvature(1.0), 3)
    1.718
    """

    @property
    def at_zero(self) -> float:
        return 1.0

    @property
    def slope_at_zero(self) -> float:
        return 1.0

    def steepest(self, reach: float) -> float:
        return _finite(self, reach, math.exp(reach) if reach < 709 else math.inf)

    def curvature(self, reach: float) -> float:
        """M = (e^R - 1)/R, at u = -R."""
        return _finite(self, reach, math.expm1(reach) / reach if reach < 709 else math.inf)


SURROGATES: dict[str, type[Surrogate]] = {
    "exponential": Exponential, "hinge": HingePower, "logistic": LogisticMargin,
    "squared": SquaredMargin,
}  # fmt: skip


def surrogate(loss: Any) -> Surrogate:
    """Return a surrogate from an object or a name."""
    return pick("loss", loss, Surrogate, SURROGATES)


def _power(base: float, exponent: float) -> float:
    """Return base^exponent, infinite where it overflows."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def _finite(loss: Surrogate, reach: float, value: float) -> float:
    if math.isfinite(value):
        return float(value)
    raise ValueError(
        f"{loss!r}: on [-R, R] with R = kappa^2 abs(phi'(0)) / lambda = {reach:g} its slope does "
        "not fit into a float, and no step would be small enough. Raise regularization, take fewer "
        "centres, or take another loss."
    )
