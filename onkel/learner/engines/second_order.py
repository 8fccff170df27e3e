"""Rows by recursive least squares, one after another in O(features^2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import covariance
from onkel.core.layout import LARGEST
from onkel.core.numpy_core import is_sound
from onkel.learner.batch import Batch
from onkel.learner.engine import Learned
from onkel.learner.transaction import Transaction

if TYPE_CHECKING:
    from onkel.learner.second_order import SecondOrderLearner

Array = NDArray[Any]

CHECKED = 1024
"""Trials after which P is looked at for what rounding has done to it; no more rows at once."""
ABSURD = 1e13
"""A row that tells so many times more than the prior may leave nothing but rounding of P."""
FAR = 1e100
"""Targets and weights beyond it may leave the floating range with the next row."""


class SecondOrder:
    """Weights and P change in place."""

    def reach(self, learner: SecondOrderLearner, batch: Batch) -> int:
        """Return how many rows are taken at once: up to where P is looked at."""
        return min(len(batch.Y), CHECKED - learner.t % CHECKED)

    def learn(self, learner: SecondOrderLearner, batch: Batch, call: Transaction) -> Learned:
        """Learn rows, or refuse the call."""
        batch = batch.upto(learner.begin_block(batch))
        features = learner.features(batch.X)
        sizes = np.einsum("ij,ij->i", features, features)
        odd = _is_odd(learner, batch, sizes)
        call.protect(len(batch.Y), fragile=odd or len(batch.Y) > 1)
        scores, spreads = _steps(learner, batch, features, sizes)
        if (learner.t + len(batch.Y)) % CHECKED == 0 or odd:
            learner.cov = covariance.mended(learner.cov, learner.rule.most)
        return Learned(scores, learner.follow(scores, spreads, batch.Y))


SECOND_ORDER = SecondOrder()


def _is_odd(learner: SecondOrderLearner, batch: Batch, sizes: Array) -> bool:
    """Whether numbers are such that a row may leave the floating range, or bend P."""
    with np.errstate(over="ignore", invalid="ignore"):
        told = np.max(batch.weight * sizes) * learner.rule.most
    large = max(np.nanmax(np.abs(batch.Y), initial=0.0), np.abs(learner.theta).max(initial=0.0))
    return not (told < ABSURD and large < FAR)


def _steps(
    learner: SecondOrderLearner, batch: Batch, features: Array, sizes: Array
) -> tuple[Array, Array]:
    """Learn rows, or refuse the first that leaves the floating range."""
    learner.refuse_infinite(sizes, batch.first)
    keep = learner.rule.keeps(len(batch.Y), features.shape[1], batch.gaps(learner.clock))
    task = learner.task(features, batch.Y, batch.weight, keep)
    scores, spreads, bad = core.least_squares(task, learner.state, learner.theta, learner.cov)
    if bad < 0 and not (np.all(np.abs(learner.theta) < LARGEST) and is_sound(learner.state)):
        bad = len(batch.Y) - 1
    if bad >= 0:
        learner.refuse_step(batch.first + bad, scores[bad])
    return scores, spreads
