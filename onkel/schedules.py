"""Schedules: the learning rate as a vectorised function of the trial t = 1, 2, ...

Any function from an array of trials to an array of rates will do; these are the papers'.

>>> import numpy as np
>>> InverseSqrt(0.5)(np.array([1, 4]))
array([0.5 , 0.25])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.params import NON_NEGATIVE, POSITIVE, Accept, Part

__all__ = ["Constant", "Horizon", "InverseSqrt", "Power", "Regularized", "Schedule"]

Array = NDArray[Any]


class Schedule(Part):
    """Base of the schedules."""

    @property
    def constant(self) -> float | None:
        """The rate, where it does not depend on t; else None."""
        return None

    def __call__(self, t: Array) -> Array:
        """Return the rate at trials `t`."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(t)")


@dataclass(frozen=True)
class Constant(Schedule):
    """The same rate for ever: follows drift.

    ``eta``

    Examples
    --------
    >>> Constant(0.4)(np.arange(1, 3))
    array([0.4, 0.4])
    """

    rate: float
    _accepts: ClassVar[Mapping[str, Accept]] = {"rate": POSITIVE}

    @property
    def constant(self) -> float | None:
        return float(self.rate)

    def __call__(self, t: Array) -> Array:
        return np.full(np.shape(t), float(self.rate))


@dataclass(frozen=True)
class InverseSqrt(Schedule):
    """The rate of N04 Theorems 4 and 6.

    ``eta t^(-1/2)``

    Examples
    --------
    >>> InverseSqrt(1.0)(np.array([25]))
    array([0.2])
    """

    rate: float
    _accepts: ClassVar[Mapping[str, Accept]] = {"rate": POSITIVE}

    def __call__(self, t: Array) -> Array:
        return float(self.rate) / np.sqrt(t)


@dataclass(frozen=True)
class Regularized(Schedule):
    """The rate of N01 Theorem 2; the rule's `regularization` must be the same number.

    ``1 / (3 lambda t^(1/2))``

    Examples
    --------
    >>> Regularized(0.5)(np.array([1, 4])).round(3)
    array([0.667, 0.333])
    """

    regularization: float
    _accepts: ClassVar[Mapping[str, Accept]] = {"regularization": POSITIVE}

    def __call__(self, t: Array) -> Array:
        return 1.0 / (3.0 * float(self.regularization) * np.sqrt(t))


@dataclass(frozen=True)
class Horizon(Schedule):
    """The constant rate of N01 Theorem 1, for a known number m of trials.

    ``B / (X m^(1/2))``

    Parameters
    ----------
    radius : float
        B, a bound on the norm of the comparator.
    bound : float
        X, a bound on the square root of k(x, x).
    trials : int
        m.

    Examples
    --------
    >>> Horizon(radius=2.0, bound=1.0, trials=100)(np.array([7]))
    array([0.2])
    """

    radius: float
    bound: float
    trials: int
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "radius": POSITIVE,
        "bound": POSITIVE,
        "trials": Accept(low=1, high_open=True, whole=True),
    }

    @property
    def constant(self) -> float | None:
        return float(self.radius) / (float(self.bound) * float(self.trials) ** 0.5)

    def __call__(self, t: Array) -> Array:
        return np.full(np.shape(t), self.constant)


@dataclass(frozen=True)
class Power(Schedule):
    """The polynomial rate of the coefficient-regularisation paper.

    ``t^(-theta) / mu``

    Examples
    --------
    >>> Power(theta=0.5, mu=2.0)(np.array([4]))
    array([0.25])
    """

    theta: float
    mu: float
    _accepts: ClassVar[Mapping[str, Accept]] = {"theta": NON_NEGATIVE, "mu": POSITIVE}

    def __call__(self, t: Array) -> Array:
        return np.asarray(t, float) ** -float(self.theta) / float(self.mu)
