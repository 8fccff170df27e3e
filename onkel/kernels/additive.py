"""Additive kernels: one kernel per coordinate, summed (H01 section 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core.forest import additive_matrix
from onkel.core.layout import Op, Program
from onkel.core.split import ExpPoly, Poly, Split
from onkel.kernels.base import Kernel
from onkel.params import POSITIVE, Accept

Array = NDArray[Any]

WEIGHT = Accept(
    low=0, low_open=True, high_open=True, none=True, words=("mean",),
    hint="One number for all features, or a list with one per feature.",
)  # fmt: skip


class _OneFeature(Kernel):
    """A kernel of two numbers."""

    @property
    def additive(self) -> bool:
        return True

    def parts(self, x: Array, Z: Array) -> Array:
        return self.values(x[None], Z).T

    def resolve(self, features: float) -> Self:
        if features != 1:
            raise ValueError(
                f"{self!r} is a kernel of one feature; got {features}. Sum it over the features: "
                f"kernels.Additive({self!r})."
            )
        return self


@dataclass(frozen=True)
class Exponential(_OneFeature):
    """The exponential kernel of one feature (many: ``Additive(Exponential())``).

    ``exp(-sigma abs(p - q))``

    Examples
    --------
    >>> float(Exponential(sigma=2.0)([[0.0]], [[1.0]])[0, 0])  # doctest: +ELLIPSIS
    0.1353...
    """

    word: ClassVar[str] = "exponential"
    sigma: float = 1.0
    _accepts: ClassVar[Mapping[str, Accept]] = {"sigma": POSITIVE}

    @property
    def bound(self) -> float | None:
        return 1.0

    @property
    def translation_invariant(self) -> bool:
        return True

    def program(self) -> Program | None:
        return [(int(Op.LAPLACIAN), float(self.sigma), 0.0, 0)]

    def split(self) -> Split | None:
        return ExpPoly(float(self.sigma))


@dataclass(frozen=True)
class Spline(_OneFeature):
    """The spline kernel of one feature, for inputs of at least 0.

    ``sum_{r<=z} C(z,r)/(2z-r+1) min(p,q)^(2z-r+1) abs(p-q)^r + sum_{r<=z} (p q)^r``

    Parameters
    ----------
    order : 1, 2 or 3
        z; 1 is the linear spline, ``1 + p q + p^2 q / 2 - p^3 / 6`` for p <= q.

    References
    ----------
    H01 (4), whose 5/6 must read 1/6 (with 5/6 the kernel is not positive definite).

    Examples
    --------
    >>> float(Spline(order=1)([[1.0]], [[2.0]])[0, 0])  # doctest: +ELLIPSIS
    3.8333...
    """

    word: ClassVar[str] = "spline"
    order: int = 1
    lowest: ClassVar[float | None] = 0.0  # type: ignore[misc]

    def __post_init__(self) -> None:
        if self.order not in (1, 2, 3) or isinstance(self.order, bool):
            raise ValueError(f"Spline: order must be 1, 2 or 3; got {self.order!r}.")

    def size(self, features: float) -> float:
        return float(self.order + 1 + 1 / (2 * self.order + 1))  # at p = q = 1

    def diag_values(self, X: Array) -> Array:
        x = np.asarray(X[:, 0], np.float64)
        with np.errstate(over="ignore"):
            return self.split().values(x, x)

    def split(self) -> Split:
        return Poly(int(self.order))


@dataclass(frozen=True)
class Additive(Kernel):
    """A sum of one-feature kernels: what ``expansions.Tree`` holds in O(log terms).

    ``sum_j w_j K_j(p_j, q_j)``

    Parameters
    ----------
    kernel : kernel, or one kernel per feature
        Any kernel, applied to each feature alone. ``Exponential``, ``Spline``, ``Laplacian`` and
        ``Matern`` (and yours, if it has a ``split``) can be held by a tree.
    weights : None, "mean", a number, or one number per feature
        w_j > 0. None is 1 each, as in the paper; "mean" is 1/features, which keeps k(x, x)
        near 1 and suits the default learning rates.

    References
    ----------
    H01 section 2.

    Examples
    --------
    >>> k = Additive(Spline(order=1), weights=[1.0, 0.5])
    >>> float(k([[0.0, 1.0]], [[5.0, 1.0]])[0, 0])  # doctest: +ELLIPSIS
    2.1666...
    """

    word: ClassVar[str] = "additive"
    kernel: Any = Exponential()
    weights: Any = None

    def __post_init__(self) -> None:
        for part in self._given():
            if not isinstance(part, Kernel) or part.domain != "numbers":
                raise ValueError(
                    "Additive: kernel must be a kernel on numbers from onkel.kernels, or a list "
                    f"of them, one per feature; got {part!r}."
                )
        for weight in [] if self.weights is None else self._as_list(self.weights):
            WEIGHT.check("Additive", "weights", weight)

    @staticmethod
    def _as_list(value: Any) -> list[Any]:
        return list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]

    def _given(self) -> list[Any]:
        return self._as_list(self.kernel)

    def resolve(self, features: float) -> Self:
        parts, weights = self._given(), [1.0]
        if isinstance(self.weights, str):
            weights = [1.0 / max(features, 1)]
        elif self.weights is not None:
            weights = [float(w) for w in self._as_list(self.weights)]
        for name, found in (("kernel", parts), ("weights", weights)):
            if len(found) not in (1, features):
                raise ValueError(
                    f"Additive: {name} has {len(found)} entries, but the rows have {features} "
                    "features. Give one for all, or one per feature."
                )
        return replace(
            self,
            kernel=tuple(k.resolve(1) for k in parts * (int(features) // len(parts))),
            weights=tuple(weights * (int(features) // len(weights))),
        )

    def _pairs(self) -> list[tuple[Kernel, float]]:
        """Kernel and weight of each feature; "auto" is already resolved."""
        return list(zip(self.kernel, self.weights, strict=True))

    @property
    def additive(self) -> bool:
        return True

    def parts(self, x: Array, Z: Array) -> Array:
        pairs = zip(self.kernel, self.weights, strict=True)
        columns = [weight * _of_one(k, x[j], Z[:, j]) for j, (k, weight) in enumerate(pairs)]
        return np.stack(columns, axis=1)

    def splits(self) -> list[Split] | None:
        """Return how each feature's kernel splits, or None if one of them does not."""
        found = [k.split() for k, _ in self._pairs()]
        splits = [split for split in found if split is not None]
        return splits if len(splits) == len(found) else None

    @property
    def translation_invariant(self) -> bool:
        return all(k.translation_invariant for k in self._given())

    @property
    def bound(self) -> float | None:
        if not isinstance(self.weights, tuple):
            return None
        sizes = [(k.bound, w) for k, w in self._pairs()]
        return None if any(b is None for b, _ in sizes) else sum(b * w for b, w in sizes if b)

    def size(self, features: float) -> float:
        return sum(w * k.size(1) for k, w in self.resolve(features)._pairs())

    def check_rows(self, X: Any, first: int = 0, feature: int = 0) -> None:
        parts = self._given()
        if all(k.lowest is None for k in parts):
            return
        for start in range(0, len(X), 1024):
            rows = np.asarray(X[start : start + 1024])
            for j, k in enumerate(parts if len(parts) > 1 else parts * rows.shape[1]):
                k.check_rows(rows[:, j : j + 1], first + start, feature + j)

    def check_scale(self, scale: bool) -> None:
        for k in self._given():
            k.check_scale(scale)

    def values(self, X: Array, Z: Array) -> Array:
        splits = self.splits()
        if splits is not None:
            return additive_matrix(splits, np.array(self.weights), X, Z)
        total = np.zeros((len(X), len(Z)))
        for j, (k, w) in enumerate(self._pairs()):
            total += w * k.values(X[:, j : j + 1], Z[:, j : j + 1])
        return total

    def diag_values(self, X: Array) -> Array:
        total = np.zeros(len(X))
        for j, (k, w) in enumerate(self._pairs()):
            total += w * k.diag_values(X[:, j : j + 1])
        return total


def _of_one(kernel: Kernel, x: float, z: Array) -> Array:
    """Return the kernel of one feature at all z."""
    split = kernel.split()
    if split is not None:
        return np.asarray(split.values(np.full(len(z), x), np.ascontiguousarray(z)))
    return kernel.values(np.array([[x]]), np.ascontiguousarray(z[:, None]))[0]
