"""The losses of N04 section III, with their misprints corrected, and those of CR."""

import math

TINY = 1e-300  # floor of Huber's sigma, only where it divides
COMPARING = ("soft_margin", "novelty", "epsilon_insensitive", "huber")  # with the threshold


def judge(loss, nu, z, y, threshold, support=None, *, power=1.0, outside=None):
    """(-l'(z, y), outside 0/1, l(z, y), direction of the adaptive number).

    ``outside`` given: that decision is taken over instead of the comparison made here.
    """
    if loss == "logistic":  # l = log(1 + e^-m), -l' = y / (1 + e^m), m = y z, without overflow
        m, e = y * z, math.exp(-abs(y * z))
        slope = y * e / (1 + e) if m >= 0 else y / (1 + e)
        return slope, int(m <= 0), max(0.0, -m) + math.log1p(e), 0.0
    if loss == "least_squares":  # (1 - m)^2
        return 2 * y * (1 - y * z), int(y * z <= 0), (1 - y * z) ** 2, 0.0
    if loss == "exponential":  # e^-m
        e = math.exp(-y * z)
        return y * e, int(y * z <= 0), e, 0.0
    if loss == "soft_margin":  # max(0, rho - y z)^power - nu rho; the left derivative at y z = rho
        if nu is not None and power != 1:
            raise ValueError("nu is for power 1")
        if outside is None:
            outside = y * z <= threshold
        short = max(0.0, threshold - y * z)
        slope = y * int(outside) * power * short ** (power - 1)  # 0^0 = 1
        value = short**power - (0.0 if nu is None else nu * threshold)
        return slope, int(outside), value, 0.0 if nu is None else nu - int(outside)
    if loss == "novelty":  # max(0, rho - f) - q rho, q the fraction that f learns from
        if outside is None:
            outside = z < threshold
        q = nu if support is None else support
        value = max(0.0, threshold - z) - (0.0 if q is None else q * threshold)
        return float(outside), int(outside), value, 0.0 if q is None else q - int(outside)
    d = y - z
    sign = float(d > 0) - float(d < 0)
    if loss == "squared":
        return d, 0, d * d / 2, 0.0
    if loss == "absolute":
        return sign, 0, abs(d), 0.0
    if outside is None:
        outside = abs(d) > threshold
    direction = 0.0 if nu is None else int(outside) - nu
    if loss == "epsilon_insensitive":  # max(0, |d| - eps) + nu eps
        value = max(0.0, abs(d) - threshold) + (0.0 if nu is None else nu * threshold)
        return sign * int(outside), int(outside), value, direction
    if loss == "huber":  # |d| - sigma/2 outside, d^2 / (2 sigma) inside (equal at |d| = sigma)
        if outside:
            return sign, 1, abs(d) - threshold / 2, direction
        sigma = max(threshold, TINY)
        return d / sigma, 0, d * d / (2 * sigma), direction
    raise ValueError(f"unknown loss {loss!r}")
