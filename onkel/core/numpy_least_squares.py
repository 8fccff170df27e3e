"""Recursive least squares in plain NumPy.

As in ``numpy_core.py``, every function has a compiled twin (``src/least_squares.hpp``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import MOST_SHOWN, Field
from onkel.core.records import SquaresInput

Array = NDArray[Any]

SMALLEST = 1e-290
"""A row to whose score the weights leave no more doubt than this teaches nothing of it."""


@np.errstate(over="ignore", invalid="ignore")  # what leaves the floating range is refused
def least_squares(
    task: SquaresInput, state: Array, theta: Array, cov: Array, score: Array, limit: Array
) -> int:
    """Learn rows one after another; `state`, `theta` and `cov` change in place.

    With phi a row, g = P phi and zeta = phi'g, along phi is forgotten what makes zeta 1/keep
    times as large, and then the row is taken in; its weight is less where its error s is beyond
    `clip`:

        ``P <- P + (1/keep - 1) g g' / zeta``,  ``theta <- theta + s weight P phi / (1 + weight
        zeta)``, ``P <- P - weight P phi (P phi)' / (1 + weight zeta)``

    A row forgets nothing where a weight's variance would exceed `most`. Returns the first row
    that is bad, before which the others are learned, or -1.
    """
    for t in range(len(task.y)):
        phi = task.x[t]
        g = cov @ phi
        zeta = max(float(phi @ g), 0.0)
        score[t] = theta @ phi
        limit[t] = np.sqrt(np.maximum(state[:, Field.THRESHOLD], 0.0) * (1.0 + zeta))
        score[t, np.isnan(task.y[t])] = 0.0  # an output that is not there yet
        if not _fits(task, t, zeta, g, score[t]):
            return t
        errors = task.y[t] - score[t]
        weight = float(task.weight[t]) * _counting(errors, task.clip)
        keep, grow = float(task.keep[t]), 0.0
        if keep < 1 and zeta > SMALLEST:
            grow = (1.0 / keep - 1.0) / zeta
            if np.any(np.diagonal(cov) + grow * g * g > task.most):
                grow = 0.0
        keep = 1.0 if grow == 0 else keep
        part = weight / (keep * (1.0 + weight * (zeta / keep)))  # of g, for an error of 1
        theta += np.multiply.outer(part * np.nan_to_num(errors), g)
        _count(task, state, errors, float(task.weight[t]), zeta)
        cut = part / keep - grow
        root = math.sqrt(abs(cut)) * g  # so that P stays symmetric to the last bit
        cov -= math.copysign(1.0, cut) * np.multiply.outer(root, root)
    return -1


def _fits(task: SquaresInput, t: int, zeta: float, g: Array, score: Array) -> bool:
    """Whether a row, and a step of its size, are well inside the floating range."""
    size = np.abs(score) + np.where(np.isnan(task.y[t]), 0.0, np.abs(task.y[t]))
    longest = np.minimum(size, task.clip) * math.sqrt(zeta)
    fine = math.isfinite(zeta) and bool(np.all(np.isfinite(g)))
    return fine and bool(np.all(size < MOST_SHOWN) and np.all(longest <= task.longest))


def _counting(errors: Array, clip: float) -> float:
    """Return what a row counts for: less than 1 where an error is beyond `clip` (Huber's loss)."""
    most = float(np.nanmax(np.abs(errors), initial=0.0))
    return clip / most if most > clip else 1.0


def _count(task: SquaresInput, state: Array, errors: Array, weight: float, zeta: float) -> None:
    """Take errors into the noise of each output, and into what is reported."""
    here = ~np.isnan(errors)
    s, error = state[here], errors[here]
    near = np.minimum(np.abs(error), task.clip)
    s[:, Field.TRIALS] += 1
    s[:, Field.WEIGHT] += weight
    s[:, Field.UPDATES] += (weight > 0) & (error != 0)
    s[:, Field.LOSS] += weight * near * (np.abs(error) - 0.5 * near)
    share = 1.0 / np.minimum(s[:, Field.TRIALS], task.horizon)
    s[:, Field.THRESHOLD] += share * (error * error / (1.0 + zeta) - s[:, Field.THRESHOLD])
    state[here] = s
