"""The best fixed hypothesis for rows that are all known, with a certificate of how near it is.

``P(g) = sum_i l(g(x_i), y_i) + L/2 ||g||^2`` is minimised over g = (1/L) sum_i u_i k(x_i, .), with
L = n lam. Whatever the u, ``D(u) = -sum_i l*(-u_i) - u' K u / (2 L)`` (l* the convex conjugate of
l) lies below the minimum and P above it. Their difference is the duality gap, which says how far
from the minimum P may be at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.losses import (
    Absolute,
    EpsilonInsensitive,
    Huber,
    Logistic,
    Loss,
    SoftMargin,
    Squared,
)

__all__ = ["COVERED", "Solution", "minimize"]

Array = NDArray[Any]

COVERED: tuple[type[Loss], ...] = (
    SoftMargin, Logistic, Squared, Absolute, EpsilonInsensitive, Huber,
)  # fmt: skip
"""Losses whose conjugate is known here; those with nu move while they learn and are not covered."""
ROUNDS = 300
"""Rounds after which the best so far is returned; its gap says what it is worth."""


@dataclass(frozen=True)
class Solution:
    """What :func:`minimize` found."""

    dual: Array
    """u, one number per row: g = sum_i u_i k(x_i, .) / (n lam)."""
    value: float
    """The least P(g) that was met."""
    gap: float
    """The minimum lies in [value - gap, value]."""


def minimize(
    K: Array, y: Array, loss: Loss, lam: float, *, dual: Array | None = None,
    tolerance: float = 1e-3,
) -> Solution:  # fmt: skip
    """Minimise the regularised risk of all rows at once.

    ``min over g of sum_i l(g(x_i), y_i) + n lam / 2 ||g||^2``

    Parameters
    ----------
    K : (n, n) array
        The kernel matrix of the rows.
    y : (n,) array
        Targets; -1 or +1 for a loss of classification.
    loss : Loss
        One of :data:`COVERED`, without nu.
    lam : float
        Regularisation per row, above 0.
    dual : (m,) array, optional
        Where to start: the dual of the first m <= n rows.
    tolerance : float
        The gap to reach, as a fraction of the value; rounding ends it below 1e-7 or so.

    Notes
    -----
    Newton's method on P, with the loss made smooth; as often as that has settled, less so.

    Examples
    --------
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> minimize(K, np.array([1.0, 3.0]), Squared(), lam=0.5).value
    2.267
    """
    H, known, u = _Scaled(K, len(y) * lam), _conjugate(loss, y), np.zeros(len(y))
    if dual is not None:
        u[: len(dual)] = dual
    point, value, floor = known.clip(u), np.inf, -np.inf
    softness, length = np.inf, 1.0
    for _ in range(ROUNDS):
        z = H @ u
        value = min(value, float(values(loss, z, y).sum() + u @ z / 2))
        floor = max(floor, -known.total(point) - float(point @ (H @ point)) / 2)
        if value - floor <= tolerance * value:
            break
        if length == 1.0:  # settled; at the softened minimum the gap is n softness / 4 at most
            softness = min(softness / 2, 4 * (value - floor) / len(y))
        u, z, length = _newton(H, known, softness, u, z)
        point = known.soften(z, softness).slope
    return Solution(u, value, max(value - floor, 0.0))


@dataclass(frozen=True)
class _Scaled:
    """The matrix K / L, without a second copy of K."""

    K: Array
    size: float

    def __matmul__(self, u: Array) -> Array:
        return self.K @ u / self.size

    def block(self, rows: Array, columns: Array) -> Array:
        return self.K[np.ix_(rows, columns)] / self.size


def values(loss: Loss, z: Array, y: Array) -> Array:
    """Return l(z, y) of many scores, at the loss's fixed threshold."""
    pairs = zip(z.tolist(), y.tolist(), strict=True)
    return np.array([loss.judge(a, b, loss.start).value for a, b in pairs])


# -- losses by their conjugates ------------------------------------------------------------------


class _Soft(NamedTuple):
    """A smooth loss at some scores."""

    slope: Array
    """-l', which is also the point of the dual that belongs to these scores."""
    curve: Array
    """l''."""


@dataclass(frozen=True)
class _Box:
    """``l*(-u) = curve u^2 / 2 - pull u + tube |u|`` for low <= u <= high, else infinite."""

    pull: Array
    low: Array
    high: Array
    curve: float = 0.0
    tube: float = 0.0

    def total(self, u: Array) -> float:
        """Return the sum of l*(-u_i)."""
        return float(np.sum((self.curve / 2 * u - self.pull) * u + self.tube * np.abs(u)))

    def clip(self, u: Array) -> Array:
        """Return the nearest u for which l* is finite."""
        return np.clip(u, self.low, self.high)

    def soften(self, z: Array, softness: float) -> _Soft:
        """Return the loss with the curve of its conjugate raised to `softness`: a smooth one.

        It lies below the loss, for slopes up to 1 by at most softness / 2.
        """
        curve, r = max(self.curve, softness), self.pull - z
        wanted = np.sign(r) * np.maximum(np.abs(r) - self.tube, 0.0) / curve
        u = self.clip(wanted)
        inside = (u == wanted) & (np.abs(r) > self.tube)
        return _Soft(u, inside / curve)


@dataclass(frozen=True)
class _Entropy:
    """``l*(-u) = b log b + (1 - b) log(1 - b)``, b = y u in [0, 1]: the logistic loss."""

    loss: Loss
    y: Array

    def total(self, u: Array) -> float:
        b = np.abs(u)
        return float(sum(np.sum(p * np.log(np.maximum(p, 1e-300))) for p in (b, 1.0 - b)))

    def clip(self, u: Array) -> Array:
        return self.y * np.clip(self.y * u, 0.0, 1.0)

    def soften(self, z: Array, softness: float) -> _Soft:
        """Return the loss itself: it is smooth."""
        pairs = zip(z.tolist(), self.y.tolist(), strict=True)
        u = np.array([self.loss.judge(a, b, 0.0).slope for a, b in pairs])
        return _Soft(u, np.abs(u) * (1.0 - np.abs(u)))


def _conjugate(loss: Loss, y: Array) -> _Box | _Entropy:
    one = np.ones(len(y))
    if isinstance(loss, Logistic):
        return _Entropy(loss, y)
    if isinstance(loss, SoftMargin):
        return _Box(loss.start * y, np.minimum(y, 0.0), np.maximum(y, 0.0))
    if isinstance(loss, Squared):
        return _Box(y, -np.inf * one, np.inf * one, curve=1.0)
    curve = loss.start if isinstance(loss, Huber) else 0.0
    tube = loss.start if isinstance(loss, EpsilonInsensitive) else 0.0
    return _Box(y, -one, one, curve, tube)


# -- Newton's method -----------------------------------------------------------------------------


def _newton(
    H: _Scaled, known: _Box | _Entropy, softness: float, u: Array, z: Array
) -> tuple[Array, Array, float]:
    """Return u, z = H u and the length of one step down the softened P, to its least on the way.

    Where the softened loss is straight, the full step sets u to its slope; elsewhere it solves
    ``u_F = slope_F - curve_F (H u - z)_F``.
    """
    soft = known.soften(z, softness)
    new = soft.slope.copy()
    free, fixed = np.flatnonzero(soft.curve), np.flatnonzero(soft.curve == 0)
    if len(free):
        weight = soft.curve[free]
        rest = z[free] - H.block(free, fixed) @ new[fixed]
        A = weight[:, None] * H.block(free, free)
        A[np.diag_indices_from(A)] += 1.0
        new[free] = np.linalg.solve(A, soft.slope[free] + weight * rest)
    step = new - u
    move = H @ step

    def rise(a: float) -> float:
        return float((u + a * step - known.soften(z + a * move, softness).slope) @ move)

    length = _length(rise)
    return u + length * step, z + length * move, length


def _length(slope: Callable[[float], float]) -> float:
    """Return where in [0, 1] a convex function is least, about, from its slope; 1 if it may be."""
    slack = 0.01 * abs(slope(0.0))
    low, high = 0.0, 1.0
    if slope(high) <= slack:
        return high
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > slack else (middle, high)
    return (low + high) / 2
