"""A block for several settings at once: kernel values are made once for all of them.

No point goes inside a block: blocks end where the ring is full, and then some go at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onkel.core import bank as core_bank
from onkel.core.layout import Field
from onkel.expansions.dense import DenseTerms
from onkel.kernels.base import diag_of_norms
from onkel.learner.batch import Batch
from onkel.learner.engine import Learned
from onkel.learner.transaction import Transaction

if TYPE_CHECKING:
    from onkel.learner.bank import Bank

Array = NDArray[Any]


class Members:
    """Rows against the common points, then each member's own scalar steps."""

    def reach(self, learner: Bank, batch: Batch) -> int:
        """Return as many rows as fit beside the points there are, so that none need go."""
        return min(len(batch.Y), learner.block_size(), learner.window.cap - learner.terms.count)

    def learn(self, learner: Bank, batch: Batch, call: Transaction) -> Learned:
        """Compute the steps with nothing changed in place, then take them over."""
        batch = batch.upto(learner.begin_block(batch))
        learner.terms = learner.terms.following(batch.X[0])
        task = _task(learner, learner.terms.prepare(batch.X), batch)
        for diag in task.diag:
            learner.refuse_infinite(diag, batch.first)
        result = core_bank.steps(task)
        if result.bad_row < 0 and result.done < len(batch.Y):
            task = task.part(result.done)
            result = core_bank.steps(task)
        if result.bad_row >= 0:
            learner.refuse_step(batch.first + result.bad_row, result.score[result.bad_row])
        call.protect(result.done)
        _commit(learner, result, task.queries)
        return Learned(result.score, result.limit)


MEMBERS = Members()


def _task(learner: Bank, queries: Any, batch: Batch) -> core_bank.BankInput:
    trials, norms = learner.t + 1 + np.arange(len(batch.Y)), queries.norm.astype(np.float64)
    y = learner.targets.standardised(batch.Y)[:, : learner.outputs]
    with np.errstate(over="ignore"):
        diag = np.array([diag_of_norms(p, norms) for p in learner.programs])
    return core_bank.BankInput(
        learner.programs, learner.steppers, queries, learner.panels(), learner.t + 1,
        np.ascontiguousarray(y, np.float64), np.ascontiguousarray(batch.weight, np.float64),
        np.array([r.rates(trials) for r in learner.rules], np.float64),
        _lams(learner, trials, batch.gaps(learner.clock)), diag, learner.state,
        learner.settings.threads,
    )  # fmt: skip


def _lams(learner: Bank, trials: Array, gaps: Array | None) -> Array:
    """Return each member's regularisation; gaps concern those that forget by the clock."""
    by_clock = [gaps if np.isfinite(r.duration) else None for r in learner.rules]
    pairs = zip(learner.rules, by_clock, strict=True)
    return np.array([r.lams(trials, gap) for r, gap in pairs], np.float64)


def _commit(learner: Bank, result: core_bank.BankOutput, queries: Any) -> None:
    """Take a result over; a ring that is full then lets some points go."""
    learner.state, terms = result.state, learner.terms
    if result.wiped.any():
        learner.wipe(result.wiped)
    which = np.flatnonzero(result.kept)
    coef, births = result.coef[which], learner.t + 1 + which
    _with_cache(terms, lambda: terms.append(terms.chosen(queries, which), coef, births))
    if result.wiped.any():
        learner.remove_emptied()
    learner.fold_if_far()
    window = learner.window
    if terms.count >= window.cap:
        _let_go(learner, window.budget.at_once(window.cap))


def _let_go(learner: Bank, count: int) -> None:
    """Let so many points go, and account for what the members lose by it."""
    terms, s = learner.terms, learner.state
    norms = terms.oldest(count).norm.astype(np.float64)
    size = np.sqrt([np.maximum(diag_of_norms(p, norms), 0.0) for p in learner.programs])
    mine = np.repeat([m.kernel for m in learner.steppers], learner.outputs)
    lost = np.einsum("ic,ci->c", np.abs(terms.coefs(0, count)), size[mine])
    s[:, Field.DROPPED] += np.abs(s[:, Field.SCALE]) * lost
    _with_cache(terms, lambda: learner.window.budget.let_go(terms, count))


def _with_cache(terms: DenseTerms, change: Callable[[], None]) -> None:
    """Append or drop terms; of the coefficients in the rows' own type only those are cast anew."""
    cache, head, before = terms.weights, terms.head, terms.count
    change()
    if cache is None or cache.shape != terms.coef.shape:
        return
    gone, new = max(before - terms.count, 0), max(terms.count - before, 0)
    at = head + (np.arange(gone) if gone else np.arange(before, before + new))
    panel, lane = np.divmod(at % max(len(terms.births), 1), cache.shape[2])
    cache[panel, :, lane] = terms.coef[panel, :, lane]
    terms.weights = cache
