"""Weighted means of several settings' answers: what is usual, what each lost, and the weights.

Compiled (``src/bind_means.cpp``) or in plain NumPy, row after row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core.bank import fixed_share

Array = NDArray[Any]


@dataclass
class Standing:
    """What a mixture of means has come to; all arrays change in place."""

    weights: Array
    """[members]."""
    usual: Array
    """[outputs] the running mean of the members' median error."""
    losses: Array
    """[members] their cumulative losses."""
    totals: Array
    """Cumulative loss of the mixture, what that exceeds the mixed loss by, and the trials."""
    rate: float
    share: float
    reach: float
    """Usual errors that count as the largest."""
    horizon: float
    """Trials that the usual error is a mean of."""

    def native(self) -> Any:
        """Return it as the compiled core takes it."""
        return core.compiled.Means(
            self.weights, self.usual, self.losses, self.totals, self.rate, self.share, self.reach,
            self.horizon,
        )  # fmt: skip


def learn(standing: Standing, scores: Array, y: Array) -> Array:
    """Learn rows in order; return the mixture's answers before each, [rows][outputs].

    `scores` are [rows][members][outputs], `y` is [rows][outputs].
    """
    scores, y = np.ascontiguousarray(scores), np.ascontiguousarray(y, np.float64)
    if not core.has_lane():
        return _by_hand(standing, scores, y)
    out = np.empty(y.shape)
    standing.native().learn(scores, y, out)
    return out


def look(standing: Standing, scores: Array) -> Array:
    """Return the mixture's answers as things are, [rows][outputs]; nothing is changed."""
    scores, reach = np.ascontiguousarray(scores), standing.reach * standing.usual
    if not core.has_lane():
        return _mean(scores, np.broadcast_to(standing.weights, scores.shape[:2]), reach)
    out = np.empty((len(scores), scores.shape[2]))
    core.compiled.means(scores, standing.weights, reach, out)
    return out


def _by_hand(standing: Standing, scores: Array, y: Array) -> Array:
    """The same in plain NumPy."""
    errors = np.abs(scores - y[:, None, :])
    usual = _follow(standing, np.median(errors, axis=1))
    scale = standing.reach * usual[1:, None, :]
    with np.errstate(over="ignore"):
        losses = np.minimum(errors / np.where(scale > 0, scale, 1.0), 1.0) ** 2
    losses = np.where(scale > 0, losses, 0.0).mean(axis=2)
    before, gap = fixed_share(losses, standing.rate, standing.share, standing.weights)
    mean = (before * losses).sum(axis=1)
    for i in range(len(y)):  # one after another: the same bits however rows were cut into calls
        standing.losses += losses[i]
        standing.totals += [mean[i], gap[i], 1.0]
    standing.usual[:] = usual[-1]
    return _mean(scores, before, standing.reach * usual[:-1])


def _follow(standing: Standing, errors: Array) -> Array:
    """Return the usual error before the first row and after each."""
    found = np.empty((len(errors) + 1, len(standing.usual)))
    found[0], trials = standing.usual, standing.totals[2]
    for t, error in enumerate(errors):
        found[t + 1] = found[t] + (error - found[t]) / min(trials + t + 1, standing.horizon)
    return found


def _mean(scores: Array, weights: Array, reach: Array) -> Array:
    """Return weighted means, far answers moved to within `reach` of the weighted median."""
    order = np.argsort(scores, axis=1, kind="stable")
    total = np.cumsum(np.take_along_axis(weights[:, :, None], order, axis=1), axis=1)
    middle = np.argmax(total >= 0.5 * total[:, -1:], axis=1)[:, None]
    at = np.take_along_axis(order, middle, axis=1)
    median = np.take_along_axis(scores, at, axis=1)
    near = np.broadcast_to(reach, median[:, 0].shape)[:, None]
    gap = np.clip(scores - median, -near, near)
    return median[:, 0] + np.einsum("tm,tmc->tc", weights, gap)
