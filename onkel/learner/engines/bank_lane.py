"""The fast lane of a bank: rows are learned in place by every member, many at once.

Taken where all is built in and every unit is known. Whatever is unusual is left undone for
:mod:`onkel.learner.engines.bank`; a ring that has become full lets some points go, as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onkel.core import BlockOutput
from onkel.core import bank as core_bank
from onkel.learner.batch import Batch
from onkel.learner.engine import Learned
from onkel.learner.engines.bank import let_go_if_full
from onkel.learner.engines.lane import AHEAD, EVERY, HANDFUL
from onkel.learner.transaction import Transaction

if TYPE_CHECKING:
    from onkel.learner.bank import Bank


class BankLane:
    """Rows in place, as many as go without anything unusual."""

    def reach(self, learner: Bank, batch: Batch) -> int:
        """Return how many rows may be tried: none that brings a unit on which steps depend."""
        if not (learner.in_lane and learner.t and learner.targets.known.all()):
            return 0
        cap = learner.window.cap
        most = max(cap - learner.terms.count, cap // 2, 1)  # no place is written to twice
        return learner.quiet_rows(batch.X, min(len(batch.Y), AHEAD, most))

    def learn(self, learner: Bank, batch: Batch, call: Transaction) -> Learned | None:
        """Learn rows up to the first that is unusual; None if that is the first of all."""
        n, at_once = len(batch.Y), learner.window.budget.at_once(learner.window.cap)
        call.protect(min(HANDFUL, n))
        if n > 1 or (learner.t + 1) % EVERY == 0:
            learner.terms = learner.terms.following(batch.X[0])
        terms = learner.terms = learner.terms.with_room(learner.window, n)
        score, limit = np.empty((2, n, learner.columns))
        ring = terms.ring_for(learner.window, n, 0, at_once)
        done = core_bank.lane(
            learner.native(), terms.bound(), ring, learner.state, _block(learner, batch),
            BlockOutput(score, limit, np.zeros(n, np.uint8)), at_once, learner.settings.threads,
        )  # fmt: skip
        if not done:
            return None
        terms.head, terms.count = ring.head, ring.count
        learner.fold_if_far()
        let_go_if_full(learner)
        return Learned(score[:done], limit[:done])


BANK_LANE = BankLane()


def _block(learner: Bank, batch: Batch) -> core_bank.BankBlock:
    trials, gaps = learner.t + 1 + np.arange(len(batch.Y)), batch.gaps(learner.clock)
    y = learner.targets.standardised(batch.Y)[:, : learner.outputs]
    return core_bank.BankBlock(
        learner.t + 1, np.ascontiguousarray(batch.X), np.ascontiguousarray(y, np.float64),
        np.ascontiguousarray(batch.weight, np.float64),
        np.array([r.rates(trials) for r in learner.rules], np.float64),
        np.array([r.lams(trials, gaps) for r in learner.rules], np.float64),
    )  # fmt: skip
