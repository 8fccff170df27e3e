"""Handing over: terms that stay take over what dropped ones gave, as far as they can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

STEPS = 30
"""Most steps; a few of them do most of it, and few keep the coefficients small."""
ENOUGH = 1e-12
"""A residual this part of the first (in squares) is no more than rounding."""


def refitted(
    wanted: Array, coef: Array, product: Callable[[Array], Array], steps: int = STEPS
) -> Array:
    """Return coefficients b of given points that bring sum b_i k(x_i, .) nearer to an f.

    Conjugate gradients on ``||f - sum b_i k(x_i, .)||^2``, from b = `coef`: each step makes it
    smaller, so that however early it ends f is hit better than before.

    Parameters
    ----------
    wanted : matrix
        f at the points, one column per output.
    coef : matrix
        Where to start.
    product : function
        From such a matrix to the kernel matrix of the points times it.
    steps : int
        At most so many.

    Examples
    --------
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> refitted(np.array([[2.0], [2.5]]), np.zeros((2, 1)), lambda b: K @ b).round(6).ravel()
    array([1., 2.])
    """
    b, left = coef.copy(), wanted - product(coef)
    way, size = left.copy(), _squares(left)
    enough = ENOUGH * size
    for _ in range(steps):
        bent = product(way)
        curve = np.einsum("ij,ij->j", way, bent)
        going = (curve > 0) & (size > enough)
        if not going.any():
            break
        pace = np.where(going, size / np.where(going, curve, 1.0), 0.0)
        b, left = b + pace * way, left - pace * bent
        before, size = size, _squares(left)
        way = left + np.where(going, size / np.where(going, before, 1.0), 0.0) * way
    return b


def _squares(a: Array) -> Array:
    return np.einsum("ij,ij->j", a, a)
