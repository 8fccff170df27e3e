"""Kernels of the distance: Gaussian, Laplacian, Matern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from onkel.core.layout import Op, Program
from onkel.core.split import ExpPoly, Split
from onkel.kernels.base import Kernel
from onkel.params import Accept

AUTO_POSITIVE = Accept(low=0, low_open=True, high_open=True, words=("auto",))


class _Stationary(Kernel):
    @property
    def bound(self) -> float | None:
        return 1.0

    @property
    def translation_invariant(self) -> bool:
        return True


@dataclass(frozen=True)
class Gaussian(_Stationary):
    """The Gaussian kernel.

    ``exp(-gamma * ||x - z||^2)``

    Parameters
    ----------
    gamma : float or "auto"
        "auto" is 1/d for d features, which suits standardised data.

    Examples
    --------
    >>> float(Gaussian(gamma=0.5)([[0.0]], [[2.0]])[0, 0])  # doctest: +ELLIPSIS
    0.1353...
    """

    word: ClassVar[str] = "gaussian"
    gamma: float | str = "auto"
    _accepts: ClassVar[Mapping[str, Accept]] = {"gamma": AUTO_POSITIVE}

    def resolve(self, features: float) -> Self:
        return replace(self, gamma=1.0 / max(features, 1)) if self.gamma == "auto" else self

    def program(self) -> Program | None:
        return [(int(Op.GAUSSIAN), float(self.gamma), 0.0, 0)]


@dataclass(frozen=True)
class Laplacian(_Stationary):
    """The Laplacian kernel, of the city-block distance.

    ``exp(-gamma * ||x - z||_1)``

    Parameters
    ----------
    gamma : float or "auto"
        "auto" is 2/d for d features: on standardised data the mean exponent is then about that
        of a Gaussian with 1/d.

    Examples
    --------
    >>> float(Laplacian(gamma=1.0)([[0.0, 0.0]], [[1.0, -1.0]])[0, 0])  # doctest: +ELLIPSIS
    0.1353...
    """

    word: ClassVar[str] = "laplacian"
    gamma: float | str = "auto"
    _accepts: ClassVar[Mapping[str, Accept]] = {"gamma": AUTO_POSITIVE}

    def resolve(self, features: float) -> Self:
        return replace(self, gamma=2.0 / max(features, 1)) if self.gamma == "auto" else self

    def program(self) -> Program | None:
        return [(int(Op.LAPLACIAN), float(self.gamma), 0.0, 0)]

    def split(self) -> Split | None:
        return ExpPoly(float(self.gamma))


@dataclass(frozen=True)
class Matern(_Stationary):
    """The Matern kernel, rougher than the Gaussian.

    ``(1 + s) exp(-s)`` for nu = 3/2, ``(1 + s + s^2/3) exp(-s)`` for 5/2,
    s = sqrt(2 nu) ||x - z|| / length

    Parameters
    ----------
    nu : 1.5 or 2.5
        Smoothness.
    length : float or "auto"
        Length scale; "auto" is sqrt(d) for d features.

    Examples
    --------
    >>> float(Matern(nu=1.5, length=1.0)([[0.0]], [[1.0]])[0, 0])  # doctest: +ELLIPSIS
    0.4833...
    """

    word: ClassVar[str] = "matern"
    nu: float = 1.5
    length: float | str = "auto"
    _accepts: ClassVar[Mapping[str, Accept]] = {"length": AUTO_POSITIVE}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (1.5, 2.5):
            raise ValueError(f"Matern: nu must be 1.5 or 2.5; got {self.nu!r}.")

    def resolve(self, features: float) -> Self:
        return replace(self, length=float(features) ** 0.5) if self.length == "auto" else self

    def program(self) -> Program | None:
        op = Op.MATERN32 if self.nu == 1.5 else Op.MATERN52
        return [(int(op), self._sigma, 0.0, 0)]

    @property
    def _sigma(self) -> float:
        return float(np.sqrt(2 * self.nu)) / float(self.length)

    def split(self) -> Split | None:
        return ExpPoly(self._sigma, (1.0, 1.0) if self.nu == 1.5 else (1.0, 1.0, 1 / 3))
