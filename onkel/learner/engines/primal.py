"""Rows in the primal, one after another in O(features): the same bits in any block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core.layout import LARGEST, Field
from onkel.learner.batch import Batch
from onkel.learner.engine import Learned
from onkel.learner.transaction import Transaction

if TYPE_CHECKING:
    from onkel.learner.primal_learner import PrimalLearner

Array = NDArray[Any]

AT_ONCE = 1024
"""Rows whose features are held at once."""


class Primal:
    """Weights over features: some rows make new weights. Those of codes are changed in place."""

    def reach(self, learner: PrimalLearner, batch: Batch) -> int:
        """Return how many rows are taken at once."""
        return min(len(batch.Y), AT_ONCE)

    def learn(self, learner: PrimalLearner, batch: Batch, call: Transaction) -> Learned:
        """Learn rows up to one that enters the centres, or that row alone."""
        size = learner.begin_block(batch)
        quiet = learner.map.quiet_rows(batch.X[:size], learner.t + 1)
        batch = batch.upto(max(quiet, 1))
        shown = None if quiet else learner.unit_scores(batch.X)  # before it is a centre itself
        centers, held = learner.map, (learner.state, learner.theta, learner.total)
        if not quiet:
            centers, held = _entered(learner, batch.X[0])
        call.protect(len(batch.Y))  # weights of codes change in place, all or none of a block's
        out = _steps(learner, centers.features(batch.X, learner.frame), batch, held)
        learner.map = centers
        learner.state, learner.theta, learner.total = out.state, out.theta, out.total
        if shown is None:
            shown = out.mean_score if learner.settings.average else out.score
        return Learned(shown, out.limit)


PRIMAL = Primal()

Held = tuple[Array, Array, Array]
"""State, theta, and the sum of past weights."""


def _entered(learner: PrimalLearner, x: Array) -> tuple[Any, Held]:
    """Return the map with one more centre (or another one), and what is held then."""
    centers, slot = learner.map.entered(x, learner.t + 1)
    theta, total = (_with_empty(a, slot, centers.count) for a in (learner.theta, learner.total))
    state = learner.state.copy()
    if learner.rule.needs_norm:
        state[:, Field.NORM2] = learner.norms(theta) ** 2
    return centers, (state, theta, total)


def _with_empty(weights: Array, slot: int, count: int) -> Array:
    """Return the weights with a 0 at `slot`, which is new or taken over (the last is no weight)."""
    if count > weights.shape[1] - 1:
        return np.insert(weights, slot, 0.0, axis=1)
    weights = weights.copy()
    weights[:, slot] = 0.0
    return weights


def _steps(learner: PrimalLearner, features: Array, batch: Batch, held: Held) -> core.PrimalOutput:
    """Learn rows of features, or refuse the first that leaves the floating range."""
    learner.refuse_infinite(np.einsum("ij,ij->i", features, features), batch.first)
    out = core.primal(_task(learner, features, batch, held))
    if out.bad_row >= 0 or not np.all(np.abs(out.theta) < LARGEST):
        bad = out.bad_row if out.bad_row >= 0 else len(batch.Y) - 1
        learner.refuse_step(batch.first + bad, out.score[bad])
    return out


def _task(learner: PrimalLearner, features: Array, batch: Batch, held: Held) -> core.PrimalInput:
    state, theta, total = held
    trials, rule, settings = learner.t + 1 + np.arange(len(batch.Y)), learner.rule, learner.settings
    return core.PrimalInput(
        x=features,
        y=np.ascontiguousarray(learner.targets.standardised(batch.Y), np.float64),
        weight=np.ascontiguousarray(batch.weight, np.float64),
        eta=rule.rates(trials),
        lam=rule.lams(trials, batch.gaps(learner.clock)),
        loss=learner.loss,
        rule=rule,
        p=learner.p,
        intercept=settings.intercept,
        needs_norm=rule.needs_norm,
        average=settings.average,
        state=state,
        theta=theta,
        total=total,
        codes=learner.codes if learner.hashes else None,
    )
