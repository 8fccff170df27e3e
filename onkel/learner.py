"""The learner: kernel x loss x rule x expansion, in one loop.

Blocks are exact. A block of rows is computed against the stored terms with one product, against
itself with another; then the scalar steps run on those numbers, one row after another, as if the
rows had come singly (SPEC section 10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import bounds, core
from onkel.core.frame import Frame
from onkel.core.layout import NO_TERM, STAYS, Field
from onkel.expansions.dense import DenseTerms
from onkel.expansions.strings import StringTerms
from onkel.expansions.window import Window
from onkel.kernels import Kernel, Spectrum
from onkel.losses import Loss
from onkel.rules.base import Rule
from onkel.scaling import Moments, Targets, next_refresh

Array = NDArray[Any]

FOLD = 1e-3
"""A global scale below this is folded into the coefficients between blocks."""
SMALL = 1e-100
"""A global scale below this ends a block early, well inside the floating range."""


@dataclass(frozen=True)
class Settings:
    """How a learner is put together."""

    kernel: Kernel
    loss: Loss
    rule: Rule
    expansion: Window
    scale: bool = True
    intercept: bool = True
    average: bool = False
    threads: int = 1


class Learner:
    """f and everything it needs to go on learning, for one or several outputs.

    Parameters
    ----------
    settings : Settings
        The four choices, and what goes with them.
    features : int
        Width of a row (ignored for strings).
    columns : int
        Number of outputs.
    dtype : numpy dtype
        float32 or float64, of rows and kernel values; scalars are always float64.
    """

    def __init__(self, settings: Settings, features: int, columns: int, dtype: Any) -> None:
        self.settings = settings
        self.kernel = settings.kernel.resolve(features)
        self.loss = settings.loss
        self.rule = settings.rule.bind(settings.loss)
        self.window = settings.expansion.bind(self.rule, self.loss, self.kernel)
        self.dtype = np.dtype(dtype)
        self.t = 0
        self.mistakes = 0
        self.state = np.zeros((0, len(Field)))
        self.on_strings = self.kernel.domain == "strings"
        self.moments = Moments(
            0 if self.on_strings else features, self.rule.memory, float(np.finfo(dtype).eps)
        )
        scaled = settings.scale and self.loss.task == "regression"
        self.targets = Targets(columns, self.rule.memory, active=scaled)
        self.terms = self._new_terms(features)
        for _ in range(columns):
            self.add_column()

    def _new_terms(self, features: int) -> Any:
        if self.on_strings:
            assert isinstance(self.kernel, Spectrum)
            return StringTerms(self.kernel, 0)
        frame = Frame.plain(np.zeros(features), self.dtype, self.kernel.translation_invariant)
        limit = min(self.window.cap, self.window.age)
        return DenseTerms(self.kernel, frame, 0, limit)

    # -- what is there -------------------------------------------------------------------------

    @property
    def columns(self) -> int:
        """Number of outputs."""
        return len(self.state)

    def add_column(self) -> None:
        """Add an output that starts at 0 (a class seen late)."""
        old, wide = self.columns, 2 if self.settings.average else 1
        row = np.zeros((1, len(Field)))
        row[0, Field.SCALE] = 1.0
        row[0, Field.THRESHOLD] = row[0, Field.ALERT] = self.loss.start
        self.state = np.concatenate([self.state, row])
        self.terms.insert_columns([old] if wide == 1 else [old, 2 * old])

    def mirror_column(self) -> None:
        """Turn a single two-sided output round: its +1 becomes its -1."""
        self.terms.remix(-np.eye(self.terms.columns))
        self.state[0, [Field.OFFSET, Field.OFFSET_SUM]] *= -1.0

    def split_column(self) -> None:
        """Give the two-sided single output of a binary problem a mirror: one output per class."""
        self.add_column()
        mixing = np.eye(self.terms.columns)
        mixing[0, 1] = -1.0
        if self.settings.average:
            mixing[2, 3] = -1.0
        self.terms.remix(mixing)
        self.state[1] = self.state[0]
        self.state[1, [Field.OFFSET, Field.OFFSET_SUM]] *= -1.0

    def copy(self, deep: bool = True) -> Learner:
        """Return an independent copy, or (not `deep`) one that shares what is changed in place."""
        other = object.__new__(Learner)
        other.__dict__.update(self.__dict__)
        if deep:
            for name in ("terms", "moments", "targets", "state"):
                setattr(other, name, getattr(self, name).copy())
        return other

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

    # -- predicting ----------------------------------------------------------------------------

    def scores(self, X: Any, first: int = 0) -> Array:
        """Return f(x) + b for each row and output, in the targets' own units.

        `first` is the number of the first row in messages.
        """
        out = np.empty((len(X), self.columns))
        for start in range(0, len(X), 1024):
            queries = self.terms.prepare(X[start : start + 1024])
            sums = self.terms.sums(queries, self._units(), threads=self.settings.threads)
            out[start : start + 1024] = self._with_offset(sums)
        if not np.all(np.isfinite(out)):
            bad = int(np.flatnonzero(~np.isfinite(out).all(axis=1))[0])
            raise ValueError(
                f"Row {first + bad}: the score is not finite; its values are too large for "
                f"{self.kernel!r} in {self.dtype}{self._advice}."
            )
        return self.targets.raw(out)

    def _with_offset(self, sums: Array) -> Array:
        s, c = self.state, self.columns
        if not self.settings.average:
            return sums + s[:, Field.OFFSET]
        total = sums[:, c:] + s[:, Field.SCALE_SUM] / s[:, Field.SCALE] * sums[:, :c]
        return (total + s[:, Field.OFFSET_SUM]) / np.maximum(s[:, Field.TRIALS], 1)

    def limits(self) -> Array:
        """Return each output's threshold now (novelty: that of alerts), in the targets' units."""
        s = self.state
        if not self.loss.alerts:
            return self.targets.raw_widths(s[:, Field.THRESHOLD])
        if self.settings.average:
            return s[:, Field.ALERT_SUM] / np.maximum(s[:, Field.TRIALS], 1)
        return s[:, Field.ALERT].copy()

    # -- learning ------------------------------------------------------------------------------

    def block_size(self) -> int:
        """Return how many rows are taken at once; a matter of speed only."""
        if self.on_strings:
            return 1
        return 256 if self.terms.count >= 2048 or len(self.moments.mean) <= 64 else 64

    def learn(
        self, X: Any, Y: Array, weight: Array, own: Array | None = None, first: int = 0
    ) -> tuple[Array, Array]:
        """Learn rows in order; return scores and thresholds as they were before each row.

        Refused whole or learned whole. `own` holds, for rows seen in an earlier pass, the trial
        at which their term was stored (else 0): a second pass adds to that term (N01 (8)); it is
        brought up to date. `first` is the number of the first row in messages.
        """
        scores, limits = np.empty((2, len(X), self.columns))
        own = np.zeros(len(X), np.int64) if own is None else own
        backup: Learner | None = None
        start = 0
        try:
            while start < len(X):
                before = self.copy(deep=False)
                result, queries = self._try_block(X, Y, weight, own, start, first)
                if backup is None:
                    backup = before
                    if start + result.done < len(X) or self._may_fail_late:
                        backup = before.copy()
                part = slice(start, start + result.done)
                self._commit(result, queries, own[part])
                shown = result.mean_score if self.settings.average else result.score
                scores[part] = self.targets.raw(shown)
                limits[part] = self.targets.raw_widths(result.limit)
                if self.t == 0:
                    scores[0] = 0.0  # nothing was known before the very first row
                self._advance(X[part], Y[part])
                start += result.done
        except BaseException:
            self.__dict__.update((backup or before).__dict__)
            raise
        return scores, limits

    @property
    def _may_fail_late(self) -> bool:
        """Whether a user's kernel is called once more after the step (to sum ||f||^2 anew)."""
        return self.rule.needs_norm and not self.on_strings and self.kernel.program() is None

    def _meet(self, x: Any, y: Array) -> None:
        """Before the very first row is learned: take it as the centre of the frame."""
        if not self.on_strings and (self.settings.scale or self.kernel.translation_invariant):
            frame = Frame.plain(x, self.dtype, self.kernel.translation_invariant)
            self.terms = self.terms.reframed(frame)
        self.targets = self.targets.met(y)

    def _try_block(
        self, X: Any, Y: Array, weight: Array, own: Array, start: int, first: int
    ) -> tuple[core.StepOutput, Any]:
        """Compute the steps of the next rows from `start`, as many as one block takes.

        Nothing is changed in place, so that a refusal can be undone.
        """
        if self.t == 0:
            self._meet(X[start : start + 1][0], Y[start])
        size = min(self.block_size(), next_refresh(self.t, self.rule.memory) - self.t)
        self.targets, size = self.targets.before_news(Y[start : start + size])
        part = slice(start, start + size)
        X, own = X[part], own[part]
        if not self.on_strings:
            self.terms = self.terms.following(np.asarray(X[0], float))
        queries = self.terms.prepare(X)
        y = np.ascontiguousarray(self.targets.standardised(Y[part]), np.float64)
        bad = np.flatnonzero(~np.isfinite(self.terms.diag(queries)))
        if len(bad):
            raise ValueError(
                f"Row {first + start + bad[0]}: k(x, x) is not finite under {self.kernel!r}; its "
                f"values are too large{self._advice}. The model was not changed."
            )
        result = core.steps(self._task(queries, y, weight[part], own))
        if result.bad_row >= 0:
            raise ValueError(
                f"Row {first + start + result.bad_row}: the step leaves the floating range (score "
                f"{result.score[result.bad_row].tolist()}). The learning rate is too large for "
                "this loss and kernel, or the inputs are: lower learning_rate, or use a loss with "
                f"bounded slope{self._advice}. The model was not changed."
            )
        return result, queries

    @property
    def _advice(self) -> str:
        return "" if self.settings.scale else " (scale=True would standardise them)"

    def _task(self, queries: Any, y: Array, weight: Array, own: Array) -> core.StepInput:
        """Compute all that the scalar steps of this block will need."""
        terms, rule = self.terms, self.rule
        trials = self.t + 1 + np.arange(len(y))
        oldest = self.window.oldest(trials)
        old = self._droppable(int(oldest.max()), len(y))
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
            y=y,
            weight=weight,
            eta=rule.rates(trials),
            cap=np.full(len(y), self.window.cap, np.int64),
            hosts=self._hosts(own, old),
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
        first = self.terms.ages_from(0, min(self.terms.count, 1))
        by_age = 0
        if len(first) and first[0] < oldest:
            births = self.terms.ages_from(0, self.terms.count)
            by_age = int(np.searchsorted(births, oldest))
        by_count = max(self.terms.count + rows - self.window.cap, 0)
        return min(max(by_age, by_count), self.terms.count)

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
        if np.any(np.abs(self.state[:, Field.SCALE]) < FOLD):
            self._fold()
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

    def _advance(self, X: Any, Y: Array) -> None:
        """Move the clock on, take rows into the moments, refresh the frame at its time."""
        self.t += len(Y)
        if not self.on_strings:
            self.moments.update(X)
        if self.targets.active:
            self.targets.moments.update(Y)
        if next_refresh(self.t - 1, self.rule.memory) == self.t:
            self._refresh(X)

    def _refresh(self, X: Any) -> None:
        if not self.settings.scale:
            return
        if not self.on_strings:
            mean, spread = self.moments.mean, self.moments.spread()
            row = np.asarray(X[-1], float)
            frame = self.terms.frame.standardised(mean.copy(), spread, row)
            self.terms = self.terms.reframed(frame)
        if self.targets.active:
            self._rescale_targets(self.targets.refreshed())
        if self.rule.needs_norm:
            self.state[:, Field.NORM2] = np.maximum(self.norm2(), 0.0)

    def _rescale_targets(self, new: Targets) -> None:
        """Express f, b and the adaptive number in new target units; predictions stay the same."""
        ratio = self.targets.spread / new.spread
        move = (self.targets.center - new.center) / new.spread
        s = self.state
        mixing = np.eye(self.terms.columns)
        mixing *= np.tile(ratio, self.terms.columns // self.columns)
        self.terms.remix(mixing)
        if self.settings.intercept:
            s[:, Field.OFFSET] = ratio * s[:, Field.OFFSET] + move
            s[:, Field.OFFSET_SUM] = ratio * s[:, Field.OFFSET_SUM] + move * s[:, Field.TRIALS]
        if self.loss.adaptive:
            s[:, Field.THRESHOLD] *= ratio
        s[:, Field.NORM2] *= ratio**2
        s[:, Field.DROPPED] *= ratio
        s[:, Field.DROPPED_AVERAGE] *= ratio
        self.targets = new
