"""The fast lane: rows are learned in place by the compiled core, many at once.

Taken where all is built in. Whatever is unusual is left undone for the block, which knows what to
do or to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onkel import core
from onkel.learner.batch import Batch
from onkel.learner.engine import Learned
from onkel.learner.transaction import Transaction

if TYPE_CHECKING:
    from onkel.learner.term_learner import TermLearner

AHEAD = 8192
"""Rows that are handed over at once."""
HANDFUL = 4
"""Rows that the lane takes at once on any processor, all or nothing."""
EVERY = 64
"""Single rows are looked at every so many trials: have the data left the centre behind?"""


class Lane:
    """Rows in place, as many as go without anything unusual."""

    def reach(self, learner: TermLearner, batch: Batch) -> int:
        """Return how many rows may be tried; none that was seen in an earlier pass."""
        if not learner.in_lane:
            return 0
        rows = min(len(batch.Y), AHEAD)
        return 0 if batch.own[:rows].any() else rows

    def learn(self, learner: TermLearner, batch: Batch, call: Transaction) -> Learned | None:
        """Learn rows up to the first that is unusual; None if that is the first of all."""
        if not learner.units_known:
            batch = batch.upto(learner.begin_block(batch))
        X, n = batch.X, len(batch.Y)
        call.protect(min(HANDFUL, n))
        trials = learner.t + 1 + np.arange(n)
        if n > 1 or trials[0] % EVERY == 0:
            learner.terms = learner.terms.following(X[0])
        rule, settings, window = learner.rule, learner.settings, learner.window
        learner.terms = learner.terms.with_room(window, n)
        y = np.ascontiguousarray(learner.targets.standardised(batch.Y), np.float64)
        score, limit = np.empty((2, *y.shape))
        kept = np.zeros(n, np.uint8)
        block = core.Block(
            learner.t + 1, np.ascontiguousarray(X), y, batch.weight, rule.rates(trials),
            rule.lams(trials, batch.gaps(learner.clock)), window.oldest(trials),
        )  # fmt: skip
        stepper = core.Stepper(learner.loss, rule, settings.intercept)
        done = made = 0
        while not done or learner.condense_if_full():  # a window on a budget ends where it is full
            made = learner.terms.learn(
                window, learner.state, stepper, block.behind(done),
                core.BlockOutput(score[done:], limit[done:], kept[done:]), settings.threads,
            )  # fmt: skip
            done += made
            if not made or done == n:
                break
        if not done:
            return None
        batch.own[:done] = np.where(kept[:done], trials[:done], 0)
        learner.fold_if_far()
        learner.condense_if_full()
        return Learned(score[:done], limit[:done])


LANE = Lane()
