"""Update rules: which f <- c (s f + a k_x), from scalars alone (N04, A02, H01, Gentile, Li, Long).

A ``Rule`` is called as ``rule(f, y, kxx, norm2, updates, weight, threshold, outside=None)`` and
returns ``(shrink, coef, radius, outside)``; whoever holds f then multiplies all of it by
min(1, radius / ||f||). ``updates`` counts the updates made so far. ``outside`` given is a decision
taken over instead of the comparison. NORMA moves numbers of its own as well: ``Descent`` holds
its constants, and ``State`` in state.py takes the step.
"""

import math
from dataclasses import dataclass
from typing import Any

ROUNDING = 1e-12  # ROMMA: k_x counts as parallel to f where D <= 1e-12 k(x,x) ||f||^2


@dataclass(frozen=True)
class Rule:
    """gap(f, y, kxx, updates, threshold) <= 0 (< 0 if strict) asks for an update.

    step(f, y, kxx, norm2, updates, threshold) is then (s, a) for an example of weight 1, and
    weight w goes w times that way: 1 + w (s - 1), at least 0, and w a.
    """

    gap: Any
    step: Any
    strict: bool = False
    radius: float = math.inf
    divides: bool = False  # by k(x, x) or its root

    def __call__(self, f, y, kxx, norm2, updates, weight, threshold, outside=None):
        if outside is None:
            gap = self.gap(f, y, kxx, updates, threshold)
            outside = gap < 0 if self.strict else gap <= 0
        if not outside:
            return 1.0, 0.0, self.radius, 0
        s, a = self.step(f, y, kxx, norm2, updates, threshold)
        return max(0.0, 1.0 + weight * (s - 1.0)), weight * a, self.radius, 1


def _margin(f, y, kxx, updates, threshold):
    """y f - rho."""
    return y * f - threshold


def perceptron():
    """a = y if y f <= rho."""
    return Rule(_margin, lambda f, y, kxx, norm2, updates, threshold: (1.0, y))


def alma(alpha, radius):
    """a = alpha y if y f <= rho; then into the ball ||f|| <= radius (A02)."""
    step = lambda f, y, kxx, norm2, updates, threshold: (1.0, alpha * y)
    return Rule(_margin, step, radius=radius)


def alma_self_tuning(a, p=2.0):
    """On x / ||x||: y f <= (1 - a) gamma_k asks for a step sqrt(2)/sqrt(p-1)/sqrt(k), ball 1.

    gamma_k = (sqrt(8)/a) sqrt(p-1)/sqrt(k), k = 1 for the first update. ||x|| = sqrt(kxx): the
    value on x / ||x|| is f / ||x||, the coefficient of x is the step / ||x||. kxx = 0: no update.
    """

    def gap(f, y, kxx, updates, threshold):
        gamma = math.sqrt(8) / a * math.sqrt(p - 1) / math.sqrt(updates + 1)
        value = f / math.sqrt(kxx) if kxx > 0 else 0.0
        return y * value - (1 - a) * gamma

    def step(f, y, kxx, norm2, updates, threshold):
        size = math.sqrt(2) / math.sqrt(p - 1) / math.sqrt(updates + 1)
        return 1.0, size * y / math.sqrt(kxx) if kxx > 0 else 0.0

    return Rule(gap, step, radius=1.0, divides=True)


def projection(radius=None, regression=False):
    """The nearest f' with y f'(x) >= rho, or with |y - f'(x)| <= eps; then ||f|| <= radius (H01).

    kxx = 0: no update.
    """

    def tube(f, y, kxx, updates, threshold):
        return threshold - abs(y - f)

    def step(f, y, kxx, norm2, updates, threshold):
        if kxx <= 0:
            return 1.0, 0.0
        if regression:
            edge = y - threshold if y > f else y + threshold  # the nearer one
            return 1.0, (edge - f) / kxx
        return 1.0, (y * threshold - f) / kxx

    gap = tube if regression else _margin
    most = math.inf if radius is None else radius
    return Rule(gap, step, strict=True, radius=most, divides=True)


def romma(aggressive=True):
    """The least ||f'|| with y f'(x) >= rho and <f', f> >= ||f||^2 (Li and Long: rho = 1).

    Updates if y f < rho, or, not aggressive, if y f <= 0. kxx = 0: no update.
    """

    def mistake(f, y, kxx, updates, threshold):
        return y * f

    def step(f, y, kxx, norm2, updates, threshold):
        if kxx <= 0:
            return 1.0, 0.0
        both, target = kxx * norm2, y * threshold
        d = both - f * f
        if both <= target * f or d <= ROUNDING * both:  # the first update (f = 0) is here too
            return 0.0, target / kxx
        return (both - target * f) / d, norm2 * (target - f) / d

    return Rule(_margin if aggressive else mistake, step, strict=aggressive, divides=True)


@dataclass(frozen=True)
class Descent:
    """NORMA: f <- shrink f + eta w (-l') k(x, .), b <- b + eta w (-l'), a number by nu."""

    rate: Any
    lam: float
    nu: float | None = None
    support: float | None = None
    threshold_rate: float = 1.0
    support_rate: float | None = None
    omega_prime: Any = None
    learn_alerts: bool = True

    def shrink(self, t, norm2):
        """1 - eta lam omega'(||f||)/||f|| within [0, 1]; 1 at f = 0 unless omega = r^2/2."""
        ratio = 1.0
        if self.omega_prime is not None:
            size = math.sqrt(norm2)
            ratio = self.omega_prime(size) / size if size > 0 else 0.0
        return min(1.0, max(0.0, 1 - self.rate(t) * self.lam * ratio))


@dataclass(frozen=True)
class ByClock(Descent):
    """NORMA that forgets by the clock: what is left of f after a gap is exp(-gap/duration)."""

    times: Any = ()
    duration: float = math.inf

    def shrink(self, t, norm2):
        gap = self.times[t - 1] - self.times[max(t - 2, 0)]
        return math.exp(-gap / self.duration)
