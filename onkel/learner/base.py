"""What every learner does, however f is stored: the online protocol, outputs, standardisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Frame
from onkel.core.layout import Field
from onkel.learner.batch import Batch
from onkel.learner.refusals import Refusals
from onkel.learner.settings import Settings
from onkel.scaling import SMALLEST_SPREAD, Moments, Targets, next_refresh

Array = NDArray[Any]


HANDFUL = 4
"""Rows that the fast lane takes at once on any processor, all or nothing."""


class Learner(Refusals):
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

    shared: ClassVar[tuple[str, ...]] = ("moments", "targets", "state")
    """What is changed in place, or may be, and must be copied for a copy to be independent."""
    merged: bool = False
    """Whether f was added from several: then identities of a single run hold no more."""

    def __init__(self, settings: Settings, features: int, columns: int, dtype: Any) -> None:
        self.settings = settings
        self.kernel = settings.kernel.resolve(features)
        self.loss = settings.loss
        settings.rule.check(self.loss)
        settings.expansion.check(self.kernel, settings.rule)
        self.kernel.check_scale(settings.scale)
        space = settings.expansion.space(self.kernel, features, settings.scale)
        self.rule = settings.rule.bind(self.loss, space)
        self.dtype = np.dtype(dtype)
        self.t = 0
        self.mistakes = 0
        self.state = np.zeros((0, len(Field)))
        self.on_strings = self.kernel.domain == "strings"
        self.moments = Moments(
            0 if self.on_strings else features, self.rule.memory, float(np.finfo(dtype).eps),
            gaps=settings.missing == "mean",
        )  # fmt: skip
        self.means = np.zeros(len(self.moments.mean))
        """What a missing value stands for: the means as of the last refresh."""
        self.clock: float | None = None
        """Time of the last row learned, in seconds, where forgetting goes by it."""
        self.refreshed: float | None = None
        """Time of the last refresh."""
        scaled = settings.scale and self.loss.task == "regression"
        self.targets = Targets(columns, self.rule.memory, active=scaled)
        self.known = np.zeros(len(self.moments.mean), bool)
        """Features that have been seen to vary."""
        self.first_score: Array | None = None
        """Of a block's first row, where the frame was changed for it."""
        self._open(Frame.plain(np.zeros(features), dtype, self.kernel.translation_invariant))
        for _ in range(columns):
            self.add_column()

    # -- what a kind of learner must say ----------------------------------------------------------

    def _open(self, frame: Frame) -> None:
        """Make what f is stored in."""
        raise NotImplementedError

    @property
    def frame(self) -> Frame:
        """The coordinates in which rows are seen."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of stored terms, centres or weights."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Memory of what f is stored in."""
        raise NotImplementedError

    def _insert_column(self, old: int) -> None:
        """Make room for one more output, starting at 0."""
        raise NotImplementedError

    def _remix(self, mixing: Array) -> None:
        """Replace the outputs' f by linear combinations of them (and of the average likewise)."""
        raise NotImplementedError

    def _scores(self, X: Any) -> Array:
        """Return f(x) + b, in the learner's target units."""
        raise NotImplementedError

    def _try_block(self, batch: Batch) -> tuple[Any, Any]:
        """Compute the steps of the first rows; nothing is changed in place.

        Returns the result, with its `done` rows, and what :meth:`_commit` needs beside it.
        """
        raise NotImplementedError

    def _commit(self, result: Any, context: Any, own: Array) -> None:
        """Take a result over."""
        raise NotImplementedError

    def _reframe(self, frame: Frame) -> None:
        """See rows in new coordinates from now on."""
        raise NotImplementedError

    # -- outputs -------------------------------------------------------------------------------

    @property
    def columns(self) -> int:
        """Number of outputs."""
        return len(self.state)

    def add_column(self) -> None:
        """Add an output that starts at 0 (a class seen late)."""
        old = self.columns
        row = np.zeros((1, len(Field)))
        row[0, Field.SCALE] = 1.0
        row[0, Field.THRESHOLD] = row[0, Field.ALERT] = self.rule.start(self.loss)
        self.state = np.concatenate([self.state, row])
        self._insert_column(old)

    def mirror_column(self) -> None:
        """Turn a single two-sided output round: its +1 becomes its -1."""
        self._remix(-np.eye(1))
        self.state[0, [Field.OFFSET, Field.OFFSET_SUM]] *= -1.0

    def split_column(self) -> None:
        """Give the two-sided single output of a binary problem a mirror: one output per class."""
        self.add_column()
        self._remix(np.array([[1.0, -1.0], [0.0, 0.0]]))
        self.state[1] = self.state[0]
        self.state[1, [Field.OFFSET, Field.OFFSET_SUM]] *= -1.0

    def arrange(self, order: list[int]) -> None:
        """Put the outputs into another order."""
        self._remix(np.eye(self.columns)[:, order])
        self.state = self.state[order]

    def check_complete(self, rows: int) -> None:
        """After a whole fit on so many rows: refuse if what the settings ask for never came."""

    def copy(self, deep: bool = True) -> Self:
        """Return an independent copy, or (not `deep`) one that shares what is changed in place."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        if deep:
            for name in self.shared:
                setattr(other, name, getattr(self, name).copy())
        return other

    # -- predicting ----------------------------------------------------------------------------

    def scores(self, X: Any, first: int = 0) -> Array:
        """Return f(x) + b for each row and output, in the targets' own units.

        `first` is the number of the first row in messages.
        """
        self.kernel.check_rows(X, first)
        X = self.filled(X)
        out = np.empty((len(X), self.columns))
        for start in range(0, len(X), 1024):
            out[start : start + 1024] = self._scores(X[start : start + 1024])
        if not np.all(np.isfinite(out)):
            bad = int(np.flatnonzero(~np.isfinite(out).all(axis=1))[0])
            raise ValueError(
                f"Row {first + bad}: the score is not finite; its values are too large for "
                f"{self.kernel!r} in {self.dtype}{self._advice}."
            )
        return self.targets.raw(out)

    def filled(self, X: Any) -> Any:
        """Return rows with missing values as what they stand for."""
        if not (self.moments.gaps and isinstance(X, np.ndarray)):
            return X
        return np.where(np.isnan(X), self.means.astype(X.dtype), X) if _has_gaps(X) else X

    def limits(self) -> Array:
        """Return each output's threshold now (novelty: that of alerts), in the targets' units."""
        s = self.state
        if not self.loss.alerts:
            return self.targets.raw_widths(s[:, Field.THRESHOLD])
        if self.settings.average:
            return s[:, Field.ALERT_SUM] / np.maximum(s[:, Field.TRIALS], 1)
        return s[:, Field.ALERT].copy()

    # -- learning ------------------------------------------------------------------------------

    def learn(
        self, X: Any, Y: Array, weight: Array, own: Array | None = None, first: int = 0,
        times: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn rows in order; return scores and thresholds as they were before each row.

        Refused whole or learned whole. `own` holds, for rows seen in an earlier pass, the trial
        at which their term was stored (else 0): a second pass adds to that term (N01 (8)); it is
        brought up to date. `first` is the number of the first row in messages; `times` are in
        seconds.
        """
        self.kernel.check_rows(X, first)
        scores, limits = np.empty((2, len(X), self.columns))
        own = np.zeros(len(X), np.int64) if own is None else own
        batch = Batch(X, Y, weight, own, times, first)
        restore: Callable[[], Learner] | None = None
        start = 0
        try:
            while start < len(X):
                before = self.copy(deep=False)
                came = batch.part(start, start + self._until_refresh(batch, start))
                now = replace(came, X=self.filled(came.X))
                ahead = self._ahead(now)
                if ahead:
                    if restore is None and len(X) - start > min(HANDFUL, ahead):
                        restore = self._guard(before)
                    done = self._go_ahead(now.part(0, ahead))
                    if done is not None:
                        rows = len(done[0])
                        scores[start : start + rows], limits[start : start + rows] = done
                        self._advance(came.part(0, rows))
                        start += rows
                        continue
                result, context = self._try_block(now)
                if restore is None and (start + result.done < len(X) or self._may_fail_late):
                    restore = self._guard(before)
                part = slice(start, start + result.done)
                self._commit(result, context, own[part])
                shown = result.mean_score if self.settings.average else result.score
                scores[part] = self.targets.raw(shown)
                limits[part] = self.targets.raw_widths(result.limit)
                if self.t == 0:
                    scores[0] = 0.0  # nothing was known before the very first row
                elif self.first_score is not None:
                    scores[start] = self.targets.raw(self.first_score[0])
                self._advance(came.part(0, result.done))
                start += result.done
        except BaseException:
            self.__dict__.update((before if restore is None else restore()).__dict__)
            raise
        self._release()
        return scores, limits

    def _until_refresh(self, batch: Batch, start: int) -> int:
        """Return how many of the rows from `start` on come before the frame is taken anew."""
        rows = min(len(batch) - start, next_refresh(self.t, self.rule.memory) - self.t)
        if not isinstance(batch.X, (np.ndarray, list)):
            rows = min(rows, 256)  # sparse rows are made dense piece by piece
        if self.moments.gaps and rows > 1024 and _has_gaps(batch.X[start : start + rows]):
            rows = 1024  # they are copied where values are missing
        if batch.times is None or self.refreshed is None:
            return rows
        due = self.refreshed + self.rule.duration / 4
        return min(rows, int(np.searchsorted(batch.times[start : start + rows], due)) + 1)

    def _guard(self, before: Self) -> Callable[[], Learner]:
        """Return a function that gives back the learner as it was `before`, whatever comes.

        Called before anything is changed in place.
        """
        saved = before.copy()
        return lambda: saved

    def _release(self) -> None:
        """The call has succeeded: what was guarded need not be any more."""

    def _ahead(self, batch: Batch) -> int:
        """Return how many rows may be learned in place at once; 0: take them block by block."""
        return 0

    def _go_ahead(self, batch: Batch) -> tuple[Array, Array] | None:
        """Learn rows in place, as many as go; return their scores and limits, None if none."""
        raise NotImplementedError

    @property
    def _may_fail_late(self) -> bool:
        """Whether something after the first block's step may still fail."""
        return False

    def _begin_block(self, batch: Batch, size: int) -> int:
        """Meet the first row, give targets their units; return how many rows may come at once."""
        size = min(size, len(batch))
        if self.t == 0:
            self._meet(batch.X[:1][0], batch.Y[0])
        self.targets, size = self.targets.before_news(batch.Y[:size])
        self.first_score = None
        if self.rule.divides and self.settings.scale and self.t and not self.known.all():
            size = self._meet_units(np.asarray(batch.X[:size], np.float64))
        return size

    def _meet_units(self, X: Array) -> int:
        """Return how many rows come before one that brings a feature its first difference.

        If that is the first row, the feature takes its unit from it at once: a rule that divides
        by k(x, x) would give a row in a wrong unit a weight without bound. The row was predicted
        before that.
        """
        size = np.abs(X - self.moments.mean)
        noise = np.maximum(8 * self.moments.eps * np.abs(self.moments.mean), SMALLEST_SPREAD)
        new = ~self.known & (size > noise)
        rows = [*np.flatnonzero(new.any(axis=1)).tolist(), len(X)]
        if rows[0] > 0:
            return rows[0]
        self.first_score = self._scores(X[:1].astype(self.dtype))
        self.known = self.known | new[0]
        spread = np.where(new[0], size[0], 1.0 / (self.frame.width * self.frame.unit))
        self.state = self.state.copy()
        self._reframe(self.frame.standardised(self.frame.mean, spread, X[0]))
        self._settle()
        return rows[1]

    def _meet(self, x: Any, y: Array) -> None:
        """Before the very first row is learned: take it as the centre of the frame."""
        if not self.on_strings and (self.settings.scale or self.kernel.translation_invariant):
            self._reframe(Frame.plain(x, self.dtype, self.kernel.translation_invariant))
        self.targets = self.targets.met(y)

    # -- standardisation -----------------------------------------------------------------------

    def _advance(self, batch: Batch) -> None:
        """Move the clock on, take rows into the moments, refresh the frame at its time."""
        fade = self.rule.fades(batch.gaps(self.clock))
        self.t += len(batch)
        if (self.settings.scale or self.moments.gaps) and not self.on_strings:
            self._take_in(batch.X, fade)
        if self.targets.active:
            self.targets.moments.update(batch.Y, fade)
        due = next_refresh(self.t - 1, self.rule.memory) == self.t
        if batch.times is not None:
            self.clock = float(batch.times[-1])
            since = self.clock if self.refreshed is None else self.refreshed
            due = due or self.clock >= since + self.rule.duration / 4
        if due:
            self.refreshed = self.clock
            self._refresh(batch.X)

    def _take_in(self, X: Any, fade: Array) -> None:
        """Take rows into the moments."""
        self.moments.update(X, fade)

    def _refresh(self, X: Any) -> None:
        self.means = self.moments.mean.copy()
        if not self.settings.scale:
            return
        if not self.on_strings:
            mean, spread = self.moments.mean, self.moments.spread()
            row = np.asarray(X[-1], float)
            row = np.where(np.isnan(row), self.means, row)
            self._reframe(self.frame.standardised(mean.copy(), spread, row))
            self.known = self.known | (self.moments.variance > 0)
        if self.targets.active:
            self._rescale_targets(self.targets.refreshed())
        self._settle()

    def _settle(self) -> None:
        """In a new frame: take the norm anew, where it is kept, and keep f in its ball."""
        raise NotImplementedError

    def _rescale_targets(self, new: Targets) -> None:
        """Express f, b and the adaptive number in new target units; predictions stay the same."""
        ratio = self.targets.spread / new.spread
        move = (self.targets.center - new.center) / new.spread
        s = self.state
        self._remix(np.diag(ratio))
        if self.settings.intercept:
            s[:, Field.OFFSET] = ratio * s[:, Field.OFFSET] + move
            s[:, Field.OFFSET_SUM] = ratio * s[:, Field.OFFSET_SUM] + move * s[:, Field.TRIALS]
        if self.loss.adaptive:
            s[:, Field.THRESHOLD] *= ratio
        s[:, Field.NORM2] *= ratio**2
        s[:, Field.DROPPED] *= ratio
        s[:, Field.DROPPED_AVERAGE] *= ratio
        self.targets = new


def _has_gaps(X: Any) -> bool:
    """Whether values are missing."""
    return isinstance(X, np.ndarray) and bool(np.isnan(X).any())
