"""The learner with terms: f = sum of a_i k(x_i, .), in a window or in trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import bounds, core
from onkel.core import numpy_core
from onkel.core.frame import Frame
from onkel.core.layout import Field
from onkel.learner.base import Learner
from onkel.learner.engines.block import BLOCK, FOLD
from onkel.learner.engines.lane import LANE
from onkel.learner.merging.adding_terms import AddingTerms
from onkel.learner.relevance import FEWEST, Relevance
from onkel.learner.single_row import SingleRow
from onkel.learner.stored import Stored
from onkel.learner.transaction import Transaction
from onkel.saved import Saved

Array = NDArray[Any]


class TermLearner(Learner):
    """f = sum of terms a_i k(x_i, .); see :class:`~onkel.learner.base.Learner`."""

    engines: ClassVar[tuple[Any, ...]] = (LANE, BLOCK)
    adding: ClassVar[Any] = AddingTerms
    shared: ClassVar[tuple[str, ...]] = (*Learner.shared, "terms")

    def open(self, frame: Frame) -> None:
        """Make what f is stored in."""
        self.window = self.settings.expansion.bind(self.rule, self.loss, self.kernel)
        self.terms: Any = self.no_terms(frame)
        if self.settings.relevance and self.settings.scale and not self.on_strings:
            self.relevance = Relevance.begun(len(frame.center), self.apart)
        built_in = (self.loss.native(), self.rule.native(), self.kernel.program())
        self.in_lane = (
            LANE in self.engines
            and bool(self.terms.has_lane)
            and not self.settings.average
            and None not in built_in
            and core.has_lane()
        )

    def no_terms(self, frame: Frame | None) -> Any:
        """Return empty storage for terms."""
        limit = min(self.window.cap, self.window.age)
        return self.settings.expansion.open(self.kernel, frame, limit)

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

    def insert_columns(self, old: int, count: int) -> None:
        """Make room for more outputs, starting at 0."""
        at = [old] * count
        self.terms.insert_columns([*at, *[2 * old] * count] if self.settings.average else at)

    def remix(self, mixing: Array) -> None:
        """Replace the outputs' f by linear combinations of them, and of the average likewise."""
        both = np.kron(np.eye(2), mixing) if self.settings.average else mixing
        self.terms.remix(both)

    def norm2(self) -> Array:
        """Recompute ||f||^2 of each output from its terms, in O(terms^2).

        Where terms cancel each other but for rounding it is 0, and no small number: ||f||^p with
        p < 2 would shrink f by what is not there.
        """
        n = self.terms.count
        rows = self.terms.oldest(n)
        values = self.terms.sums(rows, self.units())
        a = self.terms.coefs(0, n) * self.units()
        found = np.einsum("ic,ic->c", a, values)[: self.columns]
        size = np.sqrt(np.abs(self.terms.diag(rows))) @ np.abs(a[:, : self.columns])
        return np.where(np.abs(found) <= np.finfo(self.dtype).eps * size**2, 0.0, found)

    def units(self) -> Array:
        """Factors from stored coefficients to actual ones; 1 for the average's own columns."""
        units = self.state[:, Field.SCALE]
        return np.concatenate([units, np.ones(self.columns)]) if self.settings.average else units

    def fade(self, factors: Array) -> None:
        """Shrink each output's f (not what the average has of it)."""
        self.state[:, Field.SCALE] *= factors
        self.state[:, Field.DROPPED] *= factors
        self.state[:, Field.NORM2] *= factors**2

    # -- predicting ----------------------------------------------------------------------------

    def unit_scores(self, X: Any) -> Array:
        """Return f(x) + b, in the learner's own units of targets."""
        queries = self.terms.prepare(X)
        sums = self.terms.sums(queries, self.units(), threads=self.settings.threads)
        s, c = self.state, self.columns
        if not self.settings.average:
            return sums + s[:, Field.OFFSET]
        total = sums[:, c:] + s[:, Field.SCALE_SUM] / s[:, Field.SCALE] * sums[:, :c]
        mean = (total + s[:, Field.OFFSET_SUM]) / np.maximum(s[:, Field.TRIALS], 1)
        return np.where(s[:, Field.TRIALS] > 1, mean, 0.0)  # f_1 = 0, without rounding

    # -- learning ------------------------------------------------------------------------------

    def learn_within(
        self, call: Transaction, X: Any, Y: Array, weight: Array, own: Array | None = None,
        first: int = 0, times: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn rows; where terms do not stay at their rows, those of a later pass have none."""
        own = own if self.window.budget.keeps_points else None
        return super().learn_within(call, X, Y, weight, own, first, times)

    def block_size(self) -> int:
        """Return how many rows are taken at once; a matter of speed only."""
        if self.rule.wild and self.terms.count <= numpy_core.FEW:
            return 8  # a norm that must be summed anew ends a block
        return int(self.terms.block_size())

    def guard(self, before: Any, rows: int) -> Callable[[], Learner]:
        """Return a function that gives back the learner as it was `before`."""
        saved = before.copied(Learner.shared)
        undo = self.terms.begin(before.terms, rows)

        def restore() -> Learner:
            saved.terms = undo()
            found: Learner = saved
            return found

        return restore

    def release(self) -> None:
        """The call has succeeded: what was guarded need not be any more."""
        self.terms.end()

    def window_age(self) -> int:
        """Return how many trials a term stays, as of now."""
        return int(self.window.ages(np.array([self.t + 1]))[0])

    def single_row(self) -> SingleRow | None:
        """Return what learns rows one by one the cheap way, if that is possible now."""
        return SingleRow(self) if self.in_lane and self.units_known and self.columns else None

    def wipe(self, wiped: Array) -> None:
        """A shrink of 0 empties an output; what its terms gave to the average stays with them."""
        mixing = np.eye(self.terms.columns)
        for i in np.flatnonzero(wiped):
            mixing[i, i] = 0.0
            if self.settings.average:
                mixing[i, self.columns + i] = self.state[i, Field.SCALE_SUM]
        self.terms.remix(mixing)

    def remove_emptied(self) -> None:
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

    def fold_if_far(self) -> None:
        """Fold a global scale that has come far from 1."""
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

    def condense_if_full(self) -> bool:
        """Bring a full window down, where terms do not go one by one; return whether it was."""
        window, c = self.window, self.columns
        if window.room(self.terms.count) > 0:
            return False
        self._fold()
        left = window.cap - window.budget.at_once(window.cap)
        lost = self.terms.condense(window.budget.code, left, c)
        self.state[:, Field.DROPPED] += lost[:c]
        if self.settings.average:
            self.state[:, Field.DROPPED_AVERAGE] += lost[c:]
        self.settle()
        return True

    # -- standardisation -----------------------------------------------------------------------

    def reframe(self, frame: Frame) -> None:
        """See rows in new coordinates from now on."""
        self.terms = self.terms.reframed(frame)

    def ask_columns(self) -> None:
        """Ask f how much each column matters, and see rows by that from now on."""
        old, count = self.relevance, self.size
        assert old is not None
        if count < FEWEST:
            return
        rows = self.frame.raw(self.terms.rows(max(count - old.rows, 0), count))
        self.relevance = new = old.followed(self.unit_scores, rows, self.sharing)
        self.reframe(self.frame.weighed(new.width / old.width, new.apart))
        self.settle()

    def settle(self) -> None:
        """In a new frame: take the norm anew, where it is kept, and keep f in its ball."""
        if not self.rule.needs_norm:
            return
        norm2 = np.maximum(self.norm2(), 0.0)
        most = max(self.rule.radius * self.rule.radius, 1e-300)  # a scale of 0 would be no f
        inward = np.sqrt(np.minimum(1.0, most / np.maximum(norm2, 1e-300)))
        self.state[:, Field.NORM2] = np.minimum(norm2, most)
        self.state[:, Field.SCALE] *= inward
        self.state[:, Field.DROPPED] *= inward

    def sound_f(self) -> bool:
        """Whether all terms are inside the floating range."""
        return bool(self.terms.sound())

    # -- for those who explain it, and for wider rows --------------------------------------------

    @property
    def form(self) -> str:
        """What f is made of: "terms", or "texts"."""
        return "texts" if self.on_strings else "terms"

    def coefficients(self) -> tuple[Array, Array]:
        """Return what multiplies k, one column per output, and the offsets; as they are shown."""
        s, c = self.state, self.columns
        coef = self.terms.coefs(0, self.terms.count)
        a, b = coef[:, :c] * s[:, Field.SCALE], s[:, Field.OFFSET]
        if self.settings.average:
            trials = np.maximum(s[:, Field.TRIALS], 1)
            begun = s[:, Field.TRIALS] > 1  # f_1 = 0
            a = begun * (coef[:, c:] + s[:, Field.SCALE_SUM] * coef[:, :c]) / trials
            b = begun * s[:, Field.OFFSET_SUM] / trials
        return self.targets.raw_widths(a), self.targets.raw(b)

    def stored(self) -> Stored:
        """Return the terms' points (rows of numbers only)."""
        frame, n = self.frame, self.terms.count
        v = self.terms.rows(0, n)

        def raw(i: Any, j: Any) -> Array:
            return np.asarray(v[i, j], np.float64) / frame.unit[j] + frame.center[j]

        return Stored(frame.z(v), raw, self.t - self.terms.births_from(0, n))

    def take_f(self, narrow: Self, frame: Frame, values: Array) -> None:
        """Take over the f of a learner with fewer features, which had these `values` besides."""
        terms, n = narrow.terms, narrow.terms.count
        stored = values - frame.center[len(narrow.frame.center) :]
        rows = np.column_stack([terms.rows(0, n), np.tile(stored, (n, 1))])
        self.terms = self.terms.reframed(frame)
        self.terms.append(frame.queries(rows), terms.coefs(0, n), terms.births_from(0, n))

    # -- files ---------------------------------------------------------------------------------

    def dump_f(self) -> dict[str, Any]:
        """Return what a file must hold of f."""
        return {"terms": self.terms.dump()}

    def restore_f(self, saved: Saved, frame: Frame) -> None:
        """Become the f that a file holds, in its frame; t and the outputs' state are known."""
        inside = saved.inside("terms")
        self.terms = self.no_terms(frame)
        self.terms.restore(inside, self.columns * (1 + self.settings.average), self.t)
        inside.finish()
        if self.window.room(self.terms.count) <= 0:
            raise saved.refuse("terms.count", f"must be below {self.window.cap}")
