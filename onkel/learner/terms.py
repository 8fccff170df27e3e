"""The learner with terms: kernel x loss x rule x window or tree, in one loop.

Blocks are exact. A block of rows is computed against the stored terms with one product, against
itself with another; then the scalar steps run on those numbers, one row after another, as if the
rows had come singly (SPEC section 10).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import bounds, core
from onkel.core import numpy_core
from onkel.core.frame import Frame
from onkel.core.layout import NO_TERM, STAYS, Field
from onkel.expansions.dense import DenseTerms
from onkel.expansions.window import Window
from onkel.learner.base import Learner
from onkel.learner.batch import Batch
from onkel.saved import Saved

Array = NDArray[Any]

AHEAD = 8192
"""Rows that are handed to the fast lane at once."""
EVERY = 64
"""Single rows are looked at every so many trials: have the data left the centre behind?"""
FOLD = 1e-3
"""A global scale below this (or above its inverse) is folded into the coefficients."""
SMALL = 1e-100
"""A global scale below this ends a block early, well inside the floating range."""


class TermLearner(Learner):
    """f = sum of terms a_i k(x_i, .); see :class:`~onkel.learner.base.Learner`."""

    shared: ClassVar[tuple[str, ...]] = (*Learner.shared, "terms")

    def _open(self, frame: Frame) -> None:
        expansion = self.settings.expansion
        assert isinstance(expansion, Window)
        self.window = expansion.bind(self.rule, self.loss, self.kernel)
        limit = min(self.window.cap, self.window.age)
        self.terms: Any = expansion.open(self.kernel, frame, limit)
        built_in = (self.loss.native(), self.rule.native(), self.kernel.program())
        self.in_lane = (
            type(self.terms) is DenseTerms
            and not self.settings.average
            and None not in built_in
            and core.has_lane()
        )

    @property
    def frame(self) -> Frame:
        """The coordinates in which rows are seen."""
        frame: Frame = self.terms.frame
        return frame

    @property
    def size(self) -> int:
        """Number of stored terms."""
        return int(self.terms.count)

    @property
    def nbytes(self) -> int:
        """Memory of the stored terms."""
        return int(self.terms.nbytes)

    def _insert_column(self, old: int) -> None:
        self.terms.insert_columns([old, 2 * old] if self.settings.average else [old])

    def _remix(self, mixing: Array) -> None:
        both = np.kron(np.eye(2), mixing) if self.settings.average else mixing
        self.terms.remix(both)

    def norm2(self) -> Array:
        """Recompute ||f||^2 of each output from its terms, in O(terms^2)."""
        n = self.terms.count
        rows = self.terms.oldest(n)
        values = self.terms.sums(rows, self._units())
        a = self.terms.coefs(0, n) * self._units()
        return np.einsum("ic,ic->c", a, values)[: self.columns]

    def _units(self) -> Array:
        """Factors from stored coefficients to actual ones; 1 for the average's own columns."""
        units = self.state[:, Field.SCALE]
        return np.concatenate([units, np.ones(self.columns)]) if self.settings.average else units

    def fade(self, factors: Array) -> None:
        """Shrink each output's f (not what the average has of it)."""
        self.state[:, Field.SCALE] *= factors
        self.state[:, Field.DROPPED] *= factors
        self.state[:, Field.NORM2] *= factors**2

    # -- predicting ----------------------------------------------------------------------------

    def _scores(self, X: Any) -> Array:
        queries = self.terms.prepare(X)
        sums = self.terms.sums(queries, self._units(), threads=self.settings.threads)
        s, c = self.state, self.columns
        if not self.settings.average:
            return sums + s[:, Field.OFFSET]
        total = sums[:, c:] + s[:, Field.SCALE_SUM] / s[:, Field.SCALE] * sums[:, :c]
        mean = (total + s[:, Field.OFFSET_SUM]) / np.maximum(s[:, Field.TRIALS], 1)
        return np.where(s[:, Field.TRIALS] > 1, mean, 0.0)  # f_1 = 0, without rounding

    # -- learning ------------------------------------------------------------------------------

    def block_size(self) -> int:
        """Return how many rows are taken at once; a matter of speed only."""
        if self.rule.wild and self.terms.count <= numpy_core.FEW:
            return 8  # a norm that must be summed anew ends a block
        return int(self.terms.block_size())

    @property
    def _may_fail_late(self) -> bool:
        """Whether a user's kernel is called once more after the step."""
        return not self.on_strings and bool(self.terms.fragile(self.rule.needs_norm))

    def _guard(self, before: Self) -> Callable[[], Learner]:
        saved = before.copy(deep=False)
        for name in Learner.shared:
            setattr(saved, name, getattr(before, name).copy())
        undo = self.terms.begin(before.terms)

        def restore() -> Learner:
            saved.terms = undo()
            return saved

        return restore

    def _release(self) -> None:
        self.terms.end()

    @property
    def has_begun(self) -> bool:
        """Whether the fast lane may be taken: all is built in, and every unit is known."""
        units = not (self.rule.divides and self.settings.scale) or bool(self.known.all())
        return self.in_lane and self.t > 0 and units and bool(self.targets.known.all())

    def _ahead(self, batch: Batch) -> int:
        """Return how many rows the fast lane may try: where all is built in and has begun."""
        if not self.has_begun:
            return 0
        rows = min(len(batch), AHEAD)
        return 0 if batch.own[:rows].any() else rows

    def _go_ahead(self, batch: Batch) -> tuple[Array, Array] | None:
        X, own, n = batch.X, batch.own, len(batch)
        trials = self.t + 1 + np.arange(n)
        if n > 1 or trials[0] % EVERY == 0:
            self.terms = self.terms.following(np.asarray(X[0], float))
        y = np.ascontiguousarray(self.targets.standardised(batch.Y), np.float64)
        score, limit = np.empty((2, n, self.columns))
        kept = np.zeros(n, np.uint8)
        block = core.Block(
            self.t + 1, np.ascontiguousarray(X), y, batch.weight, self.rule.rates(trials),
            self.rule.lams(trials, batch.gaps(self.clock)), self.window.oldest(trials),
        )  # fmt: skip
        done = self.terms.learn(
            self.window.cap, self.state,
            core.Stepper(self.loss, self.rule, self.settings.intercept), block,
            core.BlockOutput(score, limit, kept), self.settings.threads,
        )  # fmt: skip
        if not done:
            return None
        own[:done] = np.where(kept[:done], trials[:done], 0)
        self._fold_if_far()
        return self.targets.raw(score[:done]), self.targets.raw_widths(limit[:done])

    def _try_block(self, batch: Batch) -> tuple[core.StepOutput, Any]:
        batch = batch.part(0, self._begin_block(batch, self.block_size()))
        if not self.on_strings:
            self.terms = self.terms.following(np.asarray(batch.X[0], float))
        queries = self.terms.prepare(batch.X)
        self._refuse_infinite(self.terms.diag(queries), batch.first)
        result = core.steps(self._task(queries, batch))
        if result.bad_row >= 0:
            self._refuse_step(batch.first + result.bad_row, result.score[result.bad_row])
        return result, queries

    def _task(self, queries: Any, batch: Batch) -> core.StepInput:
        """Compute all that the scalar steps of this block will need."""
        terms, rule, rows = self.terms, self.rule, len(batch)
        trials = self.t + 1 + np.arange(rows)
        oldest = self.window.oldest(trials)
        old = self._droppable(int(oldest.max()), rows)
        candidates = terms.join(terms.oldest(old), queries)
        asked = candidates if rule.needs_norm else queries
        units = self._units()
        return core.StepInput(
            kernel=terms.kernel_matrix(asked, candidates),
            base=terms.sums(asked, units, skip=old, threads=self.settings.threads),
            old_coef=np.ascontiguousarray((terms.coefs(0, old) * units).T),
            diag=terms.diag(candidates),
            births=terms.ages_from(0, old),
            live=terms.count,
            first_trial=self.t + 1,
            y=np.ascontiguousarray(self.targets.standardised(batch.Y), np.float64),
            weight=batch.weight,
            eta=rule.rates(trials),
            lam=rule.lams(trials, batch.gaps(self.clock)),
            cap=np.full(rows, self.window.cap, np.int64),
            hosts=self._hosts(batch.own, old),
            oldest=oldest,
            loss=self.loss,
            rule=rule,
            intercept=self.settings.intercept,
            needs_norm=rule.needs_norm,
            average=self.settings.average,
            stop_scale=FOLD if self.settings.average else SMALL,
            state=self.state,
        )

    def _droppable(self, oldest: int, rows: int) -> int:
        """Return how many stored terms the next rows may push out, at most."""
        by_count = max(self.terms.count + rows - self.window.cap, 0)
        return min(max(self.terms.older_than(oldest), by_count), int(self.terms.count))

    def _hosts(self, own: Array, old: int) -> Array:
        """Return where the term of each row stands: a candidate, STAYS or NO_TERM."""
        hosts = np.full(len(own), NO_TERM, np.int64)
        known = np.flatnonzero(own)
        if len(known) and self.terms.count:
            births = self.terms.ages_from(0, self.terms.count)
            at = np.searchsorted(births, own[known])
            found = (at < len(births)) & (births[np.minimum(at, len(births) - 1)] == own[known])
            hosts[known] = np.where(found, np.where(at < old, at, STAYS), NO_TERM)
        return hosts

    def _commit(self, result: core.StepOutput, queries: Any, own: Array) -> None:
        terms = self.terms
        terms.drop(result.dropped)
        self.state = result.state
        if result.wiped.any():
            self._wipe(result.wiped)
        merged = np.flatnonzero(result.merged)
        if len(merged):
            births = terms.ages_from(0, terms.count)
            terms.add_to(np.searchsorted(births, own[merged]), result.coef[merged])
        which = np.flatnonzero(result.kept)
        kept = queries.part(which) if not self.on_strings else [queries[i] for i in which]
        terms.append(kept, result.coef[which], self.t + 1 + which)
        own[which] = self.t + 1 + which
        if result.wiped.any():
            self._remove_emptied()
        self._fold_if_far()
        if result.stale_norm:
            self.state[:, Field.NORM2] = np.maximum(self.norm2(), 0.0)

    def _wipe(self, wiped: Array) -> None:
        """A shrink of 0 empties an output; what its terms gave to the average stays with them."""
        mixing = np.eye(self.terms.columns)
        for i in np.flatnonzero(wiped):
            mixing[i, i] = 0.0
            if self.settings.average:
                mixing[i, self.columns + i] = self.state[i, Field.SCALE_SUM]
        self.terms.remix(mixing)

    def _remove_emptied(self) -> None:
        """Remove terms that no output holds any more.

        Those that the average still holds stay, unless they would push others out of a window
        with a limited number of terms; then they are left out of it, and its bound says so.
        """
        c, terms = self.columns, self.terms
        coef = terms.coefs(0, terms.count)
        limited = self.window.cap < bounds.NEVER
        keep = np.any(coef[:, :c] != 0 if limited else coef != 0, axis=1)
        if keep.all():
            return
        if self.settings.average:
            size = np.sqrt(np.maximum(terms.diag(terms.oldest(terms.count)), 0.0))
            share = np.abs(coef[~keep, c:]) * size[~keep, None]
            self.state[:, Field.DROPPED_AVERAGE] += share.sum(axis=0)
        terms.select(keep)

    def _fold_if_far(self) -> None:
        scale = np.abs(self.state[:, Field.SCALE])
        if np.any((scale < FOLD) | (scale * FOLD > 1)):
            self._fold()

    def _fold(self) -> None:
        """Multiply the global scale into the coefficients, and start it at 1 again."""
        c = self.columns
        mixing = np.eye(self.terms.columns)
        mixing[np.arange(c), np.arange(c)] = self.state[:, Field.SCALE]
        if self.settings.average:
            mixing[np.arange(c), c + np.arange(c)] = self.state[:, Field.SCALE_SUM]
            self.state[:, Field.SCALE_SUM] = 0.0
        self.terms.remix(mixing)
        self.state[:, Field.SCALE] = 1.0

    # -- standardisation -----------------------------------------------------------------------

    def _reframe(self, frame: Frame) -> None:
        self.terms = self.terms.reframed(frame)

    def _settle(self) -> None:
        if not self.rule.needs_norm:
            return
        norm2, most = np.maximum(self.norm2(), 0.0), self.rule.radius**2
        inward = np.sqrt(np.minimum(1.0, most / np.maximum(norm2, 1e-300)))
        self.state[:, Field.NORM2] = np.minimum(norm2, most)
        self.state[:, Field.SCALE] *= inward
        self.state[:, Field.DROPPED] *= inward

    # -- files ---------------------------------------------------------------------------------

    def dump_f(self) -> dict[str, Any]:
        """Return what a file must hold of f."""
        return {"terms": self.terms.dump()}

    def restore_f(self, saved: Saved, frame: Frame) -> None:
        """Become the f that a file holds, in its frame; t and the outputs' state are known."""
        expansion, inside = self.settings.expansion, saved.inside("terms")
        assert isinstance(expansion, Window)
        self.terms = expansion.open(self.kernel, frame, min(self.window.cap, self.window.age))
        self.terms.restore(inside, self.columns * (1 + self.settings.average), self.t)
        inside.finish()
