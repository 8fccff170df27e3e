"""P, the covariance of weights in units of the noise: features that come and go, other features.

A matrix, symmetric to the last bit, of which no diagonal element exceeds that of the prior.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

JITTER = 1e-12
"""What is added to the diagonal of a matrix that rounding has bent, in units of the prior."""


NEARLY = 1e-3
"""Ridge, in units of k(x, x), by which a feature is made of others."""

HARDLY = 100.0
"""What is known of a weight counts as nothing, in other units, below so many times the prior."""


def prior(size: int, most: float) -> Array:
    """Return P before the first row."""
    return np.eye(size) * most


def with_feature(theta: Array, cov: Array, at: int, most: float) -> tuple[Array, Array]:
    """Return weights and P with a feature more at `at`: its weight is 0, and as vague as any was.

    Examples
    --------
    >>> theta, cov = with_feature(np.array([[2.0]]), np.array([[0.5]]), 0, most=10.0)
    >>> theta, cov
    (array([[0., 2.]]), array([[10. ,  0. ],
           [ 0. ,  0.5]]))
    """
    cov = np.insert(np.insert(cov, at, 0.0, axis=0), at, 0.0, axis=1)
    cov[at, at] = most
    return np.insert(theta, at, 0.0, axis=1), cov


def costs(theta: Array, cov: Array) -> Array:
    """Return by how much the sum of squares would rise without each feature, all else following.

    ``w_j^2 / P_jj``, summed over the outputs
    """
    return np.asarray(np.square(theta).sum(axis=0) / np.diagonal(cov))


def without(theta: Array, cov: Array, which: Array) -> tuple[Array, Array, float]:
    """Return weights and P without some features, all else following; and what that costs.

    ``w <- w_s - P_sg P_gg^-1 w_g``, ``P <- P_ss - P_sg P_gg^-1 P_gs``: exactly the least squares
    without them. The sum of squares rises by ``w_g P_gg^-1 w_g``.
    """
    stay = np.setdiff1d(np.arange(len(cov)), which)
    root = np.linalg.cholesky(mended(cov[np.ix_(which, which)], float(np.max(cov, initial=1.0))))
    across = np.linalg.solve(root, cov[np.ix_(which, stay)])
    gone = np.linalg.solve(root, theta[:, which].T)
    cov = cov[np.ix_(stay, stay)] - across.T @ across
    return theta[:, stay] - gone.T @ across, _even(cov), float(np.square(gone).sum())


def with_like(
    theta: Array, cov: Array, held: Array, vague: float, most: float
) -> tuple[Array, Array]:
    """Return weights and P with more features, behind the first ones, that these nearly make.

    `held` is [first features][new ones]. What a new feature has beyond them is taken to have been
    0 so far: its weight is 0 and has the variance `vague`; f stays what it is.
    """
    at, count = held.shape
    way = np.zeros((len(cov) + count, count))
    way[:at], way[at : at + count] = held, -np.eye(count)
    wide = np.zeros((len(way), len(way)))
    old = np.r_[:at, at + count : len(way)]
    wide[np.ix_(old, old)] = cov
    found = np.zeros((len(theta), len(way)))
    found[:, old] = theta
    return found, mended(shortened(wide + vague * (way @ way.T), most), most)


def solved(K: Array, values: Array) -> Array:
    """Return what nearly makes `values` of kernel values, in units of these."""
    if not len(K):
        return values
    size = float(np.mean(np.diagonal(K)))
    return np.asarray(np.linalg.solve(K + (NEARLY * size) * np.eye(len(K)), values))


def shortened(cov: Array, most: float) -> Array:
    """Return P, symmetric, with no weight vaguer than at first."""
    cov = _even(cov)
    size = np.maximum(np.diagonal(cov), 1e-300)
    short = np.minimum(1.0, np.sqrt(most / size))
    return cov * np.multiply.outer(short, short)


def in_other_features(theta: Array, cov: Array, inverse: Array, most: float) -> tuple[Array, Array]:
    """Return weights and P for features ``B phi``, given ``B^-1``.

    ``w' = w B^-1``, ``P' = B^-T P B^-1``; where the diagonal would exceed the prior's, rows and
    columns are shortened to it.
    """
    return theta @ inverse, mended(shortened(inverse.T @ cov @ inverse, most), most)


def in_other_units(theta: Array, cov: Array, inverse: Array, most: float) -> tuple[Array, Array]:
    """Return weights and P for features ``B phi``, given ``B^-1``, under a prior for them.

    ``w' = w B^-1``, ``P'^-1 - I / most = B (P^-1 - I / most) B'``

    What the rows have told stays, and so does f; a prior in the old units would be one without
    measure in the new. A weight that the prior held back in units far too large is as vague as
    any was at first.
    """
    if np.array_equal(inverse, np.eye(len(inverse))):
        return theta, cov
    known = information(cov) - np.eye(len(cov)) / most
    vague = (np.diagonal(known) < HARDLY / most) & (np.diagonal(inverse) < 0.5)
    known[vague], known[:, vague] = 0.0, 0.0
    ahead = np.linalg.inv(inverse)
    return theta @ inverse, told(ahead @ known @ ahead.T, most)


def told(known: Array, most: float) -> Array:
    """Return P where rows have told so much, and there is the prior."""
    values, axes = np.linalg.eigh(_even(known))
    axes = axes / np.sqrt(np.maximum(values, 0.0) + 1.0 / most)
    return mended(shortened(axes @ axes.T, most), most)


def information(cov: Array) -> Array:
    """Return P^-1, whatever the units of the weights."""
    size = np.sqrt(np.diagonal(cov))
    return _even(np.linalg.inv(cov / np.multiply.outer(size, size))) / np.multiply.outer(size, size)


def _even(matrix: Array) -> Array:
    """Return a matrix that rounding has made uneven, symmetric."""
    return np.asarray((matrix + matrix.T) / 2)


def is_sound(cov: Array) -> bool:
    """Whether it is finite and positive definite."""
    if not np.all(np.isfinite(cov)):
        return False
    try:
        np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        return False
    return True


def mended(cov: Array, most: float) -> Array:
    """Return a matrix that is positive definite: this one, or as little more as that takes."""
    jitter = JITTER
    while not is_sound(cov):
        if jitter > 1:
            return prior(len(cov), most)
        cov = shortened(cov + np.eye(len(cov)) * (jitter * most), most)
        jitter *= 10
    return cov
