"""The exact block: two products, then one scalar step after another on their numbers.

A block of rows is computed against the stored terms with one product, against itself with another;
then the scalar steps run on those numbers, one row after another, as if the rows had come singly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core.layout import NO_TERM, STAYS, Field
from onkel.learner.batch import Batch
from onkel.learner.engine import Learned
from onkel.learner.transaction import Transaction

if TYPE_CHECKING:
    from onkel.learner.term_learner import TermLearner

Array = NDArray[Any]

FOLD = 1e-3
"""A global scale below this (or above its inverse) is folded into the coefficients; with the
average hypothesis, whose sums would cancel, it ends a block."""
SMALL = 1e-100
"""A global scale below this ends a block early, well inside the floating range."""


class Block:
    """Rows against the terms and each other; any kernel, loss and rule, any storage of terms."""

    def reach(self, learner: TermLearner, batch: Batch) -> int:
        """Return how many rows are best taken at once."""
        room = learner.window.room(learner.terms.count)
        return min(len(batch.Y), learner.block_size(), room)

    def learn(self, learner: TermLearner, batch: Batch, call: Transaction) -> Learned:
        """Compute the steps with nothing changed in place, then take them over."""
        batch = batch.upto(learner.begin_block(batch))
        terms = learner.terms = learner.terms.following(batch.X[0])
        queries = terms.prepare(batch.X)
        learner.refuse_infinite(terms.diag(queries), batch.first)
        result = core.steps(_task(learner, queries, batch))
        if result.bad_row >= 0:
            learner.refuse_step(batch.first + result.bad_row, result.score[result.bad_row])
        asks = learner.rule.needs_norm or not learner.window.budget.one_by_one
        call.protect(result.done, terms.fragile(asks))
        _commit(learner, result, queries, batch.own)
        shown = result.mean_score if learner.settings.average else result.score
        return Learned(shown, result.limit)


BLOCK = Block()


def _task(learner: TermLearner, queries: Any, batch: Batch) -> core.StepInput:
    """Compute all that the scalar steps of this block will need."""
    terms, rule, rows = learner.terms, learner.rule, len(batch.Y)
    trials = learner.t + 1 + np.arange(rows)
    oldest = learner.window.oldest(trials)
    old = learner.window.budget.may_go(terms, rows, learner.window.cap, int(oldest.max()))
    candidates = terms.join(terms.oldest(old), queries)
    asked = candidates if rule.needs_norm else queries
    units, settings = learner.units(), learner.settings
    return core.StepInput(
        kernel=terms.kernel_matrix(asked, candidates),
        base=terms.sums(asked, units, skip=old, threads=settings.threads),
        old_coef=np.ascontiguousarray((terms.coefs(0, old) * units).T),
        diag=terms.diag(candidates),
        births=terms.births_from(0, old),
        live=terms.count,
        first_trial=learner.t + 1,
        y=np.ascontiguousarray(learner.targets.standardised(batch.Y), np.float64),
        weight=batch.weight,
        eta=rule.rates(trials),
        lam=rule.lams(trials, batch.gaps(learner.clock)),
        cap=np.full(rows, learner.window.cap, np.int64),
        hosts=_hosts(terms, batch.own, old),
        oldest=oldest,
        loss=learner.loss,
        rule=rule,
        intercept=settings.intercept,
        needs_norm=rule.needs_norm,
        average=settings.average,
        stop_scale=FOLD if settings.average else SMALL,
        state=learner.state,
        budget=learner.window.budget.code,
    )


def _hosts(terms: Any, own: Array, old: int) -> Array:
    """Return where the term of each row stands: a candidate, STAYS or NO_TERM."""
    hosts = np.full(len(own), NO_TERM, np.int64)
    known = np.flatnonzero(own)
    if len(known) and terms.count:
        births = terms.births_from(0, terms.count)
        at = np.searchsorted(births, own[known])
        found = (at < len(births)) & (births[np.minimum(at, len(births) - 1)] == own[known])
        hosts[known] = np.where(found, np.where(at < old, at, STAYS), NO_TERM)
    return hosts


def _commit(learner: TermLearner, result: core.StepOutput, queries: Any, own: Array) -> None:
    """Take a result over."""
    terms = learner.terms
    learner.window.budget.let_go(terms, result.dropped)
    learner.state = result.state
    if result.wiped.any():
        learner.wipe(result.wiped)
    merged = np.flatnonzero(result.merged)
    if len(merged):
        births = terms.births_from(0, terms.count)
        terms.add_to(np.searchsorted(births, own[merged]), result.coef[merged])
    which = np.flatnonzero(result.kept)
    births = learner.t + 1 + which
    terms.append(terms.chosen(queries, which), result.coef[which], births)
    own[which] = births
    if result.wiped.any():
        learner.remove_emptied()
    learner.fold_if_far()
    if result.stale_norm:
        learner.state[:, Field.NORM2] = np.maximum(learner.norm2(), 0.0)
    learner.condense_if_full()
