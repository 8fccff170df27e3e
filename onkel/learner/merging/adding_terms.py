"""Adding terms: one window for all, its budget says which go, those that stay may take over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Frame
from onkel.core.layout import Field
from onkel.expansions.loose_terms import LooseTerms
from onkel.learner.merging.adding import Adding, Merged, shortened
from onkel.learner.merging.refit import refitted

Array = NDArray[Any]

ROUNDING = 8 * float(np.finfo(float).eps)
"""Of a squared norm, in units of the square of the sum of its terms' norms."""


class AddingTerms(Adding):
    """Terms are put together, in one frame; the window keeps what its budget lets stay."""

    def functions(self) -> Merged:
        """Put all terms into one window, add those at the same point, let go what is too much."""
        whole = self.whole
        frame = None if whole.on_strings else self.frame()
        parts = [self.loose(j, frame) for j in range(len(self.learners))]
        everything = parts[0].followed_by(parts[1:])
        joined = everything.joined(whole.window.budget.keeps_points)
        self.refuse_infinite(joined.coef)
        whole.terms = self.stored(joined)
        change = None if frame is None else self.measured(frame)
        dropped = self.excess(joined)
        lost = self.shrink(joined, self.going(joined, dropped))
        whole.settle()
        lost = lost + self.inward()
        before = sum(a.size for a in self.learners)
        bound = whole.targets.raw_widths(lost)
        return Merged(whole, before, everything.count - joined.count, dropped, bound, change)

    def excess(self, joined: LooseTerms) -> int:
        """Return how many of these the window does not hold."""
        window = self.whole.window
        if window.budget.one_by_one:
            return int(window.budget.may_go(joined, 0, window.cap, self.oldest()))
        return self.at_once(joined)

    def at_once(self, joined: LooseTerms) -> int:
        """Return how many go: a ring that is full lets a fraction of its terms go at once."""
        window = self.whole.window
        if joined.count < window.cap:
            return 0
        return int(joined.count - window.cap + window.budget.at_once(window.cap))

    def going(self, joined: LooseTerms, count: int) -> Array:
        """Return which of these go, if so many must."""
        size = np.square(joined.coef[:, : self.whole.columns])
        size = size * self.lengths(self.whole.terms, joined.queries()) ** 2
        found: Array = self.whole.window.budget.first_to_go(size.sum(axis=1), count)
        return found

    def sums(self, terms: Any, queries: Any) -> Array:
        """Return the sums over stored terms, for each output."""
        ones = np.ones(terms.columns)
        found: Array = terms.sums(queries, ones, threads=self.threads)
        return found

    def lengths(self, terms: Any, queries: Any) -> Array:
        """Return sqrt(k(x, x)) of each row, for each output (or one column for all)."""
        return np.sqrt(np.maximum(terms.diag(queries), 0.0))[:, None]

    def oldest(self) -> int:
        """Return the birth below which the window keeps nothing."""
        return int(self.whole.window.oldest(np.array([self.whole.t]))[0])

    def loose(self, j: int, frame: Frame | None) -> LooseTerms:
        """Return the terms of one learner, with coefficients and births as the whole has them."""
        learner, mean = self.learners[j], self.mean_gains()[j]
        s, c, n = learner.state, learner.columns, learner.terms.count
        stored = learner.terms.coefs(0, n)
        coef = stored[:, :c] * (s[:, Field.SCALE] * self.gains[j])
        if learner.settings.average:
            past = stored[:, c:] + stored[:, :c] * s[:, Field.SCALE_SUM]
            coef = np.concatenate([coef, past * mean], axis=1)
        births = self.births(j, learner.terms.births_from(0, n))
        found: LooseTerms = learner.terms.loose(frame, coef, births)
        return found

    def births(self, j: int, births: Array) -> Array:
        """Return births on the common clock: all trials of smaller age came later.

        ``t - sum over k of min(t_k, age)``, and among the same age the later learners came later.
        Clocks count from where all of them went on; terms from before that keep their births.
        """
        before = 0 if self.start is None else self.start.t
        clocks = np.array([a.t for a in self.learners]) - before
        age = (clocks[j] + before - births)[:, None]
        later = np.minimum(clocks, age).sum(axis=1)
        found = self.whole.t - later - (clocks[j + 1 :] > age).sum(axis=1)
        return np.where(births > before, found, births)

    def stored(self, loose: LooseTerms) -> Any:
        """Return these terms in storage."""
        terms = self.whole.no_terms(loose.frame)
        if loose.coef.shape[1]:
            terms.insert_columns([0] * loose.coef.shape[1])
        stay = self.whole.window.budget.keeps_points
        births = loose.births if stay else spaced(loose.births, self.whole.t)
        terms.append(loose.queries(), loose.coef, births)
        return terms

    def shrink(self, loose: LooseTerms, going: Array) -> Array:
        """Let some terms go; return what the shown f loses at most."""
        whole = self.whole
        c, s = whole.columns, whole.state
        if not going.any():
            return np.zeros(c)
        kept = loose.taken(~going)
        gap = loose.coef.copy()
        gap[~going] = 0.0
        if self.refit and kept.count:
            kept = replace(kept, coef=self.handed_over(kept))
            gap[~going] = loose.coef[~going] - kept.coef
        share = self.size(replace(loose, coef=gap), sums_only=not self.refit)
        whole.terms = self.stored(kept)
        s[:, Field.DROPPED] += share[:c]
        if not whole.settings.average:
            return share
        s[:, Field.DROPPED_AVERAGE] += share[c:]
        return share[c:] / np.maximum(s[:, Field.TRIALS], 1)

    def handed_over(self, kept: LooseTerms) -> Array:
        """Return coefficients with which these terms come nearest to the whole f."""
        queries = kept.queries()
        wanted = self.sums(self.whole.terms, queries)

        def product(coef: Array) -> Array:
            return self.sums(self.stored(replace(kept, coef=coef)), queries)

        return refitted(wanted, kept.coef, product)

    def size(self, loose: LooseTerms, sums_only: bool) -> Array:
        """Return a bound on the norm of a sum of terms: that of each, or if less, its own.

        ``||sum c_i k(x_i, .)|| <= sum abs(c_i) sqrt(k(x_i, x_i))``
        """
        loose = loose.in_double()
        terms, queries = self.stored(loose), loose.queries()
        most = (np.abs(loose.coef) * self.lengths(terms, queries)).sum(axis=0)
        if sums_only:
            return most
        square = np.einsum("ij,ij->j", loose.coef, self.sums(terms, queries)) + ROUNDING * most**2
        return np.minimum(most, np.sqrt(np.maximum(square, 0.0)))

    @property
    def threads(self) -> int:
        """How many may be used."""
        return int(self.whole.settings.threads)

    def inward(self) -> Array:
        """Return how much shorter f has become by being scaled into the ball."""
        s = self.whole.state
        if not self.whole.rule.needs_norm or self.whole.settings.average:
            return np.zeros(len(s))
        norms = np.sqrt(s[:, Field.NORM2])
        return shortened(norms / s[:, Field.SCALE], norms)

    def frame(self) -> Frame:
        """Return the coordinates of the whole, with their centre near the stored rows."""
        frame, learners = super().frame(), [a for a in self.learners if a.size]
        here = all(np.array_equal(a.frame.center, frame.center) for a in learners)
        if here or not frame.invariant:
            return frame
        rows = np.concatenate([a.terms.raw_rows() for a in learners])
        return frame.left_behind(np.median(rows, axis=0), frame.store(rows)) or frame

    def probes(self) -> Array:
        """Return the stored points."""
        rows: Array = self.whole.terms.raw_rows()
        return rows


def spaced(births: Array, last: int) -> Array:
    """Return ascending births as different ones, none after `last`, moved as little as need be.

    Examples
    --------
    >>> spaced(np.array([2, 2, 3, 7, 7]), 7)
    array([2, 3, 4, 6, 7])
    """
    at = np.arange(len(births))
    later = np.maximum.accumulate(births - at) + at
    return np.minimum(later, last - at[::-1])
