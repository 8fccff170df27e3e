"""Rows of codes and numbers, and kernels on them: of the product, and as plain formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onkel import kernels

U = (1.4, 0.3, 2.2)
FAR = 2**24 - 1
"""The largest code."""


def rows(
    rng: np.random.Generator, count: int, codes: int = 3, numbers: int = 4, dtype: Any = np.float64
) -> Any:
    """Return rows of a few values in each code column, the largest codes among them."""
    names = np.array([0.0, 1.0, FAR - 1.0, FAR])
    values = rng.normal(size=(count, numbers)) * np.geomspace(1.0, 3.0, numbers or 1) + 0.5
    return np.hstack([names[rng.integers(0, 4, (count, codes))], values[:, :numbers]]).astype(dtype)


def _matern(square: float) -> float:
    s = math.sqrt(3 * square) / 1.3
    return (1 + s) * math.exp(-s)


KERNELS: dict[str, tuple[kernels.Kernel, Any]] = {
    "gaussian": (kernels.Gaussian(0.2), lambda dot, square, city: math.exp(-0.2 * square)),
    "laplacian": (kernels.Laplacian(0.15), lambda dot, square, city: math.exp(-0.15 * city)),
    "matern": (kernels.Matern(1.5, 1.3), lambda dot, square, city: _matern(square)),
    "linear": (0.2 * kernels.Linear(), lambda dot, square, city: 0.2 * dot),
    "polynomial": (
        0.1 * kernels.Polynomial(2, 0.3, 1.0), lambda dot, square, city: 0.1 * (0.3 * dot + 1) ** 2
    ),
    "sum": (
        kernels.Laplacian(0.15) + 0.1 * kernels.Linear(),
        lambda dot, square, city: math.exp(-0.15 * city) + 0.1 * dot,
    ),
    "product": (
        kernels.Gaussian(0.1) * kernels.Laplacian(0.2),
        lambda dot, square, city: math.exp(-0.1 * square - 0.2 * city),
    ),
}  # fmt: skip
