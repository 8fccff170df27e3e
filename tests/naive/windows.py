"""How many terms f_t holds, and the running moments of rows and targets."""

import math

import numpy as np


def age(tau):
    """s_t = tau: f_t holds the terms born at t - s_t, ..., t - 1 (N04 Fig. 1)."""
    return lambda t: tau


def tolerance_age(tol, eta, lam, c, x2):
    """Least tau >= 1 with (1 - eta lam)^tau c sqrt(x2) / lam <= tol (N04 Prop. 1)."""
    if not (tol > 0 and 0 < eta * lam <= 1):
        raise ValueError("a tolerance needs tol > 0 and 0 < eta lam <= 1")
    tau = 1
    while (1 - eta * lam) ** tau * c * math.sqrt(x2) / lam > tol:
        tau += 1
    return tau


def growth_t0_by_scan(eta_lam, eps, limit):
    """1 + the last t <= limit where a condition of Theorem 6 fails; limit + 1 says: or later."""
    t0 = 1
    for t in range(1, limit + 1):
        small = eta_lam * t**-0.5 <= 1
        decayed = math.exp(-eta_lam * t**eps) <= eta_lam * t**-0.5
        if not (small and decayed and math.ceil(t ** (0.5 + eps)) <= 3 * t / 4):
            t0 = t + 1
    return t0


def growth(eta_lam, eps):
    """s_t = t for t <= t0, then max(ceil(t^(1/2+eps)), 2 t0 - t) (N04 Th. 6), for t <= 10^5.

    A scan suffices: the second condition fails on one interval of t (it is convex in log t), and
    with eta lam <= 1, as the theorem has it, no such interval begins beyond 10^5.
    """
    if not (0 < eta_lam <= 1 and 0 < eps < 0.5):
        raise ValueError("growth needs 0 < eta lam <= 1 and 0 < eps < 1/2")
    t0 = growth_t0_by_scan(eta_lam, eps, 10**5)
    return lambda t: t if t <= t0 else max(math.ceil(t ** (0.5 + eps)), 2 * t0 - t)


def is_refresh(t, memory):
    """t = 2^k while 2^k <= memory/4, then the multiples of int(memory/4), at least 1."""
    doubling = (t & (t - 1)) == 0 and t <= memory / 4
    return doubling or (memory < math.inf and t % max(1, int(memory / 4)) == 0)


class Moments:
    """share = 1/min(t, memory): mean += share d, var = (1-share)(var + share d^2), d = x - mean."""

    def __init__(self, memory, eps):
        self.memory, self.eps, self.t = memory, eps, 0

    def update(self, x):
        """Enter one more row; the first one is the mean."""
        self.t, x = self.t + 1, np.array(x, float)
        if self.t == 1:
            self.mean, self.var = x, np.zeros_like(x)
            return
        share, delta = 1 / min(self.t, self.memory), x - self.mean
        self.mean = self.mean + share * delta
        self.var = (1 - share) * (self.var + share * delta * delta)

    def spread(self):
        """sqrt(var), but 1 where that is <= max(8 eps |mean|, 1e-290)."""
        s = np.sqrt(self.var)
        return np.where(s <= np.maximum(8 * self.eps * np.abs(self.mean), 1e-290), 1.0, s)
