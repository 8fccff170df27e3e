"""Kernels of the inner product: Linear and Polynomial."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from onkel.core.layout import Op, Program
from onkel.kernels.base import Kernel
from onkel.kernels.stationary import AUTO_POSITIVE
from onkel.params import NON_NEGATIVE, Accept

Array = NDArray[Any]


@dataclass(frozen=True)
class Linear(Kernel):
    """The linear kernel.

    ``x . z``

    Examples
    --------
    >>> float(Linear()([[1.0, 2.0]], [[3.0, 4.0]])[0, 0])
    11.0
    """

    word: ClassVar[str] = "linear"

    def size(self, features: float) -> float:
        return float(max(features, 1))

    def program(self) -> Program | None:
        return [(int(Op.LINEAR), 0.0, 0.0, 0)]

    @property
    def additive(self) -> bool:
        return True

    def parts(self, x: Array, Z: Array) -> Array:
        return Z * x


@dataclass(frozen=True)
class Polynomial(Kernel):
    """The polynomial kernel.

    ``(gamma * x . z + offset)^degree``

    Parameters
    ----------
    degree : int
        1 or more.
    gamma : float or "auto"
        "auto" is 1/d for d features.
    offset : float
        0 or more, so that the kernel is positive definite.

    Examples
    --------
    >>> float(Polynomial(degree=2, gamma=1.0)([[1.0]], [[2.0]])[0, 0])
    9.0
    """

    word: ClassVar[str] = "polynomial"
    degree: int = 3
    gamma: float | str = "auto"
    offset: float = 1.0
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "degree": Accept(low=1, high=1000, whole=True),
        "gamma": AUTO_POSITIVE,
        "offset": NON_NEGATIVE,
    }

    def resolve(self, features: float) -> Self:
        return replace(self, gamma=1.0 / max(features, 1)) if self.gamma == "auto" else self

    def size(self, features: float) -> float:
        gamma = 1.0 / max(features, 1) if self.gamma == "auto" else float(self.gamma)
        try:
            return float((gamma * features + self.offset) ** self.degree)
        except OverflowError:
            return math.inf

    def program(self) -> Program | None:
        return [(int(Op.POLYNOMIAL), float(self.gamma), float(self.offset), int(self.degree))]
