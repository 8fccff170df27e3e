"""Kernels as functions of two single rows (those of one coordinate: H01 section 2)."""

import math

import numpy as np


def _dot(x, z):
    """x . z = sum_j x_j z_j."""
    return float(np.sum(np.multiply(x, z, dtype=float)))


def _square_distance(x, z):
    """||x - z||_2^2 = sum_j (x_j - z_j)^2."""
    return float(np.sum(np.subtract(x, z, dtype=float) ** 2))


def gaussian(gamma):
    """k(x, z) = exp(-gamma ||x - z||_2^2)."""
    return lambda x, z: math.exp(-gamma * _square_distance(x, z))


def laplacian(gamma):
    """k(x, z) = exp(-gamma ||x - z||_1)."""
    return lambda x, z: math.exp(-gamma * float(np.sum(np.abs(np.subtract(x, z, dtype=float)))))


def matern(nu, length):
    """k = (1 + s) e^-s for nu = 3/2, (1 + s + s^2/3) e^-s for 5/2; s = sqrt(2 nu) r / length."""
    if nu not in (1.5, 2.5):
        raise ValueError(f"nu is 1.5 or 2.5, not {nu}")

    def k(x, z):
        s = math.sqrt(2 * nu * _square_distance(x, z)) / length
        return (1 + s + (s * s / 3 if nu == 2.5 else 0.0)) * math.exp(-s)

    return k


def linear():
    """k(x, z) = x . z."""
    return _dot


def polynomial(degree, gamma, offset):
    """k(x, z) = (gamma x . z + offset)^degree."""
    return lambda x, z: (gamma * _dot(x, z) + offset) ** degree


def add(k1, k2):
    """k(x, z) = k1(x, z) + k2(x, z)."""
    return lambda x, z: k1(x, z) + k2(x, z)


def multiply(k1, k2):
    """k(x, z) = k1(x, z) k2(x, z)."""
    return lambda x, z: k1(x, z) * k2(x, z)


def scaled(c, k):
    """c k(x, z)."""
    return lambda x, z: c * k(x, z)


def spectrum(length):
    """k(s, z) = n(s) . n(z) / (|n(s)| |n(z)|), n counts substrings of that length; 0 if none."""

    def product(s, z):  # n(s) . n(z): the pairs of equal substrings
        pieces = [z[j : j + length] for j in range(len(z) - length + 1)]
        return sum(pieces.count(s[i : i + length]) for i in range(len(s) - length + 1))

    def k(s, z):
        size = product(s, s) * product(z, z)
        return product(s, z) / math.sqrt(size) if size else 0.0

    return k


def _number(p):
    """The one entry of a row of one, or the number itself."""
    (value,) = np.array(p, float).ravel().tolist()
    return value


def exponential(sigma):
    """K(p, q) = e^(-sigma |p - q|), one coordinate."""
    return lambda p, q: math.exp(-sigma * abs(_number(p) - _number(q)))


def matern_1d(nu, sigma):
    """(1 + u) e^-u for nu = 3/2, (1 + u + u^2/3) e^-u for 5/2; u = sigma |p - q|."""
    if nu not in (1.5, 2.5):
        raise ValueError(f"nu is 1.5 or 2.5, not {nu}")

    def k(p, q):
        u = sigma * abs(_number(p) - _number(q))
        return (1 + u + (u * u / 3 if nu == 2.5 else 0.0)) * math.exp(-u)

    return k


def spline(order):
    """sum_r C(z,r)/(2z-r+1) min(p,q)^(2z-r+1) |p-q|^r + sum_r (p q)^r, r = 0..z; p, q >= 0.

    Order 1, p <= q: 1 + p q + p^2 q/2 - p^3/6.
    """
    z = int(order)

    def k(p, q):
        p, q = _number(p), _number(q)
        if p < 0 or q < 0:
            raise ValueError("a spline kernel needs numbers of 0 or more")
        low, gap, total = min(p, q), abs(p - q), 0.0
        for r in range(z + 1):
            power = 2 * z - r + 1
            total += math.comb(z, r) / power * low**power * gap**r + p**r * q**r
        return total

    return k


def additive(k1, weights=None):
    """K(p, q) = sum_j w_j K1_j(p_j, q_j); ``k1`` one kernel for all coordinates, or a list."""

    def k(p, q):
        parts = [k1] * len(p) if callable(k1) else list(k1)
        sizes = [1.0] * len(p) if weights is None else list(weights)
        total = 0.0
        for part, w, a, b in zip(parts, sizes, p, q, strict=True):
            total += w * part(a, b)
        return total

    return k
