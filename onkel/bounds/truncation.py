"""Truncation: what dropping old terms costs, and how large a window must be.

Symbols: eta the learning rate, lam the regularisation, c a bound on abs(l'), x2 a bound on
k(x, x), tau an age in trials.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["growth_start", "growth_window", "norm_bound", "truncation_age", "truncation_error"]

NEVER = 2**60
"""A trial that no stream reaches."""


def norm_bound(lam: float, c: float = 1.0, x2: float = 1.0) -> float:
    """Bound on the norm of every hypothesis of NORMA (N04 (17)).

    ``||f_t|| <= c X / lam``

    Examples
    --------
    >>> norm_bound(lam=0.5)
    2.0
    """
    return c * math.sqrt(x2) / lam if lam > 0 else math.inf


def truncation_error(tau: int, eta: Any, lam: float, c: float = 1.0, x2: float = 1.0) -> float:
    """Bound on what terms older than `tau` trials add to f (N04 Proposition 1).

    ``(c X / lam) * product over the last tau trials of (1 - eta_j lam)``

    Parameters
    ----------
    tau : int
        Age beyond which terms are dropped.
    eta : float or array
        The constant rate, or the rates of the last `tau` trials.

    Examples
    --------
    >>> round(truncation_error(tau=1000, eta=0.1, lam=0.1), 6)
    0.000432
    """
    if not lam > 0:
        return math.inf
    rates = np.asarray(eta, float)
    with np.errstate(divide="ignore"):
        logs = np.log1p(-rates * lam)
    if rates.ndim == 0:
        decay = float(tau * logs) if tau else 0.0
    else:
        decay = float(logs.sum())
    return c * math.sqrt(x2) / lam * math.exp(decay)


def truncation_age(
    tolerance: float, eta: float, lam: float, c: float = 1.0, x2: float = 1.0
) -> int:
    """Least age tau whose truncation error is at most `tolerance` (N04 Proposition 1).

    ``(1 - eta lam)^tau c X / lam <= tolerance``

    Examples
    --------
    >>> truncation_age(tolerance=1e-3, eta=0.1, lam=0.1)
    917
    """
    if not (lam > 0 and 0 < eta * lam <= 1 and math.isfinite(c)):
        raise ValueError(
            "A tolerance chooses an age only with a constant rate, a finite memory (regularization "
            "> 0) and a loss whose slope is bounded (not the squared loss). Give age= or terms= "
            "instead."
        )
    start = truncation_error(0, eta, lam, c, x2)
    if start <= tolerance or eta * lam == 1:
        return 1
    age = max(1, math.ceil(math.log(tolerance / start) / math.log1p(-eta * lam)))
    if age >= NEVER:
        return NEVER
    while age > 1 and truncation_error(age - 1, eta, lam, c, x2) <= tolerance:
        age -= 1
    while truncation_error(age, eta, lam, c, x2) > tolerance:
        age += 1
    return age


def _last_root(g: Any, low: float) -> float:
    """The largest root of a convex g with g(low) < 0, by bisection."""
    high = max(1.0, 2 * low)
    while g(high) < 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if g(middle) < 0 else (low, middle)
    return high


def growth_start(eta_lam: float, epsilon: float) -> int:
    """The trial t0 of N04 Theorem 6, from which the window may grow sublinearly.

    least t from which always ``eta lam t^(-1/2) <= 1``, ``exp(-eta lam t^eps) <= eta lam
    t^(-1/2)`` and ``ceil(t^(1/2 + eps)) <= 3 t / 4``

    Solved in log t; :data:`NEVER` where no stream gets so far.

    Examples
    --------
    >>> growth_start(eta_lam=0.9, epsilon=0.25)
    6
    """
    if not (0 < eta_lam < math.inf and 0 < epsilon < 0.5):
        raise ValueError(
            "growth needs regularization > 0 and an exponent in (0, 0.5); got "
            f"{eta_lam=}, {epsilon=}."
        )
    first = math.ceil(eta_lam**2)
    second = _decay_start(eta_lam, epsilon)
    return min(max(first, second, _size_start(epsilon), 1), NEVER)


def _decay_start(eta_lam: float, epsilon: float) -> int:
    def g(u: float) -> float:  # in u = log t; convex, smallest at `bottom`
        return eta_lam * math.exp(min(epsilon * u, 700.0)) + math.log(eta_lam) - u / 2

    bottom = max(-(math.log(2 * epsilon) + math.log(eta_lam)) / epsilon, 0.0)
    if bottom > 42:
        return NEVER
    if g(bottom) >= 0:
        return 1
    root = _last_root(g, bottom)
    return math.ceil(math.exp(root)) if root < 42 else NEVER


def _size_start(epsilon: float) -> int:
    power = 0.5 + epsilon

    def holds(t: int) -> bool:
        return math.ceil(t**power) <= 3 * t / 4

    def g(u: float) -> float:  # 3t/4 >= t^power + 1 is enough; in u = log t
        return 0.75 - math.exp((power - 1) * u) - math.exp(-u)

    low = math.log(4 / 3) / (1 - power)
    if low > 42:
        return NEVER
    t = math.ceil(math.exp(_last_root(g, low))) + 1
    while t > 1 and holds(t - 1):
        t -= 1
    return t


def growth_window(t: NDArray[Any], start: int, epsilon: float) -> NDArray[Any]:
    """Ages held at trials `t` (N04 Theorem 6): all up to `start`, then ``ceil(t^(1/2 + eps))``.

    After `start` the window shrinks by one term net per trial until it meets that size.

    Examples
    --------
    >>> growth_window(np.array([10, 11, 12, 100]), start=10, epsilon=0.25)
    array([10,  9,  8, 32])
    """
    t = np.asarray(t, np.int64)
    size = np.ceil(t.astype(float) ** (0.5 + epsilon)).astype(np.int64)
    return np.where(t <= start, t, np.maximum(size, 2 * start - t))
