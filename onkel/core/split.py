"""One-dimensional kernels that split at an anchor, for sums over sorted points."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import SplitCode

Array = NDArray[Any]


class Native(NamedTuple):
    """A split as the compiled core takes it (``src/tree_api.hpp``)."""

    kind: int
    number: float
    values: list[float]


class Split:
    """A kernel k of two numbers as a short sum of products, for p <= anchor <= q.

    ``k(p, q) = sum_r lower(p, anchor)[r] * upper(q, anchor)[r]``

    Sums over many p (or q) of one such side can be stored, and k is symmetric: that is all that a
    tree needs. The anchor is there for numbers that would overflow; a split without such numbers
    ignores it. Define ``rank``, ``lower`` and ``upper``; they get arrays of one length.

    Examples
    --------
    The kernel min(p, q) on p, q >= 0:

    >>> class Brownian(Split):
    ...     rank = 1
    ...     def lower(self, p, anchor):
    ...         return p[None]
    ...     def upper(self, q, anchor):
    ...         return np.ones((1, len(q)))
    >>> Brownian().values(np.array([1.0, 4.0]), np.array([3.0, 2.0]))
    array([1., 2.])
    """

    rank: int

    def lower(self, p: Array, anchor: Array) -> Array:
        """Return [rank][n], the side of the smaller argument."""
        raise NotImplementedError

    def upper(self, q: Array, anchor: Array) -> Array:
        """Return [rank][n], the side of the larger argument."""
        raise NotImplementedError

    def values(self, x: Array, z: Array) -> Array:
        """Return k(x, z) for arrays of one length."""
        p, q = np.minimum(x, z), np.maximum(x, z)
        total: Array = np.sum(self.lower(p, q) * self.upper(q, q), axis=0)
        return total

    def native(self) -> Native | None:
        """Return what the compiled core needs to know, or None for one that it does not know."""
        return None


@dataclass(frozen=True)
class ExpPoly(Split):
    """A polynomial times an exponential of the distance.

    ``k(p, q) = exp(-s) (c_0 + c_1 s + ...), s = sigma |p - q|``

    c = (1,) is the exponential kernel, (1, 1) Matern 3/2, (1, 1, 1/3) Matern 5/2. Only distances
    to a near anchor are exponentiated, so large sigma |p| does no harm.

    Examples
    --------
    >>> float(ExpPoly(sigma=2.0).values(np.array([1.0]), np.array([2.0]))[0])
    0.1353...
    """

    sigma: float
    c: tuple[float, ...] = (1.0,)

    @property
    def rank(self) -> int:  # type: ignore[override]
        return len(self.c)

    def lower(self, p: Array, anchor: Array) -> Array:
        s = self.sigma * (anchor - p)
        return np.stack([s**j * np.exp(-s) for j in range(self.rank)])

    def upper(self, q: Array, anchor: Array) -> Array:
        s = self.sigma * (q - anchor)
        return np.stack([self._growth(s, j) * np.exp(-s) for j in range(self.rank)])

    def _growth(self, s: Array, j: int) -> Array:
        total = np.zeros_like(s)
        for k in range(j, self.rank):
            total += self.c[k] * comb(k, j) * s ** (k - j)
        return total

    def values(self, x: Array, z: Array) -> Array:
        s = self.sigma * np.abs(x - z)
        return self._growth(s, 0) * np.exp(-s)

    def native(self) -> Native | None:
        if self.rank > 3:
            return None
        return Native(SplitCode.EXP_POLY, float(self.sigma), [float(c) for c in self.c])


@dataclass(frozen=True)
class Poly(Split):
    """The spline kernel of order z on numbers >= 0.

    ``k(p, q) = sum_{r<=z} C(z,r)/(2z-r+1) min(p,q)^(2z-r+1) |p-q|^r + sum_{r<=z} (p q)^r``

    Expanded, ``sum_{k,j} table[k][j] p^k q^j`` for p <= q. Herbster (2001), section 2, with the
    linear spline's cubic term corrected to 1/6.

    Examples
    --------
    >>> Poly(order=1).table[:, 0]
    array([ 1. ,  0. ,  0. , -0.166...])
    """

    order: int
    c: tuple[float, ...] = field(init=False)
    table: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        z = self.order
        c = tuple(comb(z, r) / (2 * z - r + 1) for r in range(z + 1))
        table = np.eye(2 * z + 2, z + 1)
        for r in range(z + 1):
            for j in range(r + 1):
                table[2 * z + 1 - j, j] += c[r] * comb(r, j) * (-1) ** (r - j)
        object.__setattr__(self, "c", c)
        object.__setattr__(self, "table", table)

    @property
    def rank(self) -> int:  # type: ignore[override]
        return self.order + 1

    def lower(self, p: Array, anchor: Array) -> Array:
        return self.table.T @ p[None] ** np.arange(2 * self.rank)[:, None]

    def upper(self, q: Array, anchor: Array) -> Array:
        return q[None] ** np.arange(self.rank)[:, None]

    def values(self, x: Array, z: Array) -> Array:
        p, d, both = np.minimum(x, z), np.abs(x - z), x * z
        total = np.zeros_like(p)
        for r in range(self.rank):
            total += self.c[r] * p ** (2 * self.order - r + 1) * d**r + both**r
        return total

    def native(self) -> Native | None:
        if self.order not in (1, 2, 3):
            return None
        return Native(SplitCode.POLY, float(self.order), [*self.c, *self.table.ravel().tolist()])
