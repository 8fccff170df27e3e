"""What follows the rows: the clock, their moments, the frame they are seen in, targets' units."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Apart, Frame
from onkel.core.layout import Field
from onkel.core.numpy_core import is_sound
from onkel.learner.batch import Batch
from onkel.learner.refusals import Refusals
from onkel.learner.relevance import Relevance, next_asking
from onkel.losses import Loss
from onkel.rules.base import BoundRule
from onkel.scaling import NOTHING, SMALLEST_SPREAD, Moments, Targets, next_refresh

Array = NDArray[Any]

SPARSE, GAPPED = 256, 1024
"""Rows that are made dense, or filled, at once."""


class Standardised(Refusals):
    """Where a call is cut, what is met with its rows, and what they change when learned."""

    loss: Loss
    rule: BoundRule
    dtype: Any
    apart: Apart
    t: int
    state: Array
    on_strings: bool
    moments: Moments
    targets: Targets
    means: Array
    """What a missing value stands for: the means as of the last refresh."""
    known: Array
    """Features that have been seen to vary; codes need not."""
    clock: float | None
    """Time of the last row learned, in seconds, where forgetting goes by it."""
    refreshed: float | None
    """Time of the last refresh."""
    first_score: Array | None
    """Of a piece's first row, where the frame was changed for it."""
    relevance: Relevance | None = None
    """How much each column matters; None where that is not learned."""
    refreshes: bool = True
    """Whether a call is cut where the frame is taken anew."""

    # -- what a kind of learner must say ----------------------------------------------------------

    @property
    def frame(self) -> Frame:
        """The coordinates in which rows are seen."""
        raise NotImplementedError

    def unit_scores(self, X: Any) -> Array:
        """Return f(x) + b, in the learner's own units of targets."""
        raise NotImplementedError

    def remix(self, mixing: Array) -> None:
        """Replace the outputs' f by linear combinations of them (and of the average likewise)."""
        raise NotImplementedError

    def reframe(self, frame: Frame) -> None:
        """See rows in new coordinates from now on."""
        raise NotImplementedError

    def settle(self) -> None:
        """In a new frame: take the norm anew, where it is kept, and keep f in its ball."""
        raise NotImplementedError

    def ask_columns(self) -> None:
        """Ask f how much each column matters, and see rows by that from now on."""
        raise NotImplementedError

    # -- before rows are learned -----------------------------------------------------------------

    def next_refresh(self) -> int:
        """Return the trial after which the frame is taken anew, by the number of trials."""
        due = next_refresh(self.t, self.rule.memory)
        return due if self.relevance is None else min(due, next_asking(self.t))

    def until_refresh(self, batch: Batch, start: int) -> int:
        """Return how many of the rows from `start` on come before the frame is taken anew."""
        rows = len(batch.Y) - start
        if self.refreshes:
            rows = min(rows, self.next_refresh() - self.t)
        if self.moments.gaps or batch.X.__class__ not in (np.ndarray, list):
            rows = self.at_once(batch.X, start, rows)
        if batch.times is None or self.refreshed is None or not self.refreshes:
            return rows
        due = self.refreshed + self.rule.duration / 4
        return min(rows, int(np.searchsorted(batch.times[start : start + rows], due)) + 1)

    def at_once(self, X: Any, start: int, rows: int) -> int:
        """Return how many of these rows are looked at together; a matter of memory."""
        if not isinstance(X, (np.ndarray, list)):
            rows = min(rows, SPARSE)
        if self.moments.gaps and rows > GAPPED and has_gaps(X[start : start + rows]):
            rows = GAPPED
        return rows

    def refreshes_within(self, batch: Batch) -> bool:
        """Whether the frame is taken anew behind these rows."""
        if self.next_refresh() <= self.t + len(batch.Y):
            return True
        if batch.times is None or self.refreshed is None:
            return False
        return bool(batch.times[-1] >= self.refreshed + self.rule.duration / 4)

    def filled(self, X: Any) -> Any:
        """Return rows with missing values as what they stand for."""
        if not (self.moments.gaps and has_gaps(X)):
            return X
        return np.where(np.isnan(X), self.means.astype(X.dtype), X)

    @property
    def units_known(self) -> bool:
        """Whether rows need not be looked at one by one for the units that they bring."""
        return self.t > 0 and not self.awaits_units and bool(self.targets.known.all())

    @property
    def awaits_units(self) -> bool:
        """Whether a feature's first difference would be its unit at once (:meth:`_meet_units`)."""
        return self.rule.divides and self.settings.scale and not self.known.all()

    def news(self, X: Array) -> Array:
        """Return where rows bring a feature its first difference."""
        size, mean = np.abs(X - self.moments.mean), np.abs(self.moments.mean)
        noise = np.maximum(8 * self.moments.eps * mean, SMALLEST_SPREAD)
        return ~self.known & (size > noise)

    def quiet_rows(self, X: Any, rows: int) -> int:
        """Return how many of the first `rows` come before one that brings such a difference."""
        if not self.awaits_units:
            return rows
        new = self.news(np.asarray(self.filled(X[:rows]), np.float64)).any(axis=1)
        return int(np.argmax(new)) if new.any() else rows

    def begin_block(self, batch: Batch) -> int:
        """Meet the first row, give targets their units; return how many rows may come at once."""
        if self.t == 0:
            self._meet(batch.X[:1][0], batch.Y[0])
        self.targets, size = self.targets.before_news(batch.Y)
        if self.t and self.awaits_units:
            size = self._meet_units(np.asarray(batch.X[:size], np.float64))
            self.check_sound(batch.first)
        return size

    def check_sound(self, row: int) -> None:
        """Refuse a row behind which units, or f in them, have left the floating range."""
        units = (self.on_strings or self.frame.sound) and self.state[:, Field.SCALE].all()
        if not (units and self.targets.sound and is_sound(self.state) and self.sound_f()):
            raise ValueError(
                f"Row {row}: features or targets differ by so much that their units leave the "
                "floating range; rescale them, or leave such rows out. The model was not changed."
            )

    def sound_f(self) -> bool:
        """Whether what f is made of is inside the floating range."""
        return True

    def _meet(self, x: Any, y: Array) -> None:
        """Before the very first row is learned: take it as the centre of the frame."""
        if not self.on_strings and (self.settings.scale or self.kernel.translation_invariant):
            self.reframe(self.plain_frame(x))
        self.targets = self.targets.met(y)

    def plain_frame(self, center: Any) -> Frame:
        """Return the frame that a learner starts in, around a row."""
        return Frame.plain(center, self.dtype, self.kernel.translation_invariant, self.apart)

    def _meet_units(self, X: Array) -> int:
        """Return how many rows come before one that brings a feature its first difference.

        If that is the first row, the feature takes its unit from it at once: a rule that divides
        by k(x, x) would give a row in a wrong unit a weight without bound. The row was predicted
        before that.
        """
        new = self.news(X)
        rows = [*np.flatnonzero(new.any(axis=1)).tolist(), len(X)]
        if rows[0] > 0:
            return rows[0]
        self.first_score = self.unit_scores(X[:1].astype(self.dtype))
        self.known = self.known | new[0]
        size = np.abs(X[0] - self.moments.mean) / self.widths
        spread = np.where(new[0], size, 1.0 / (self.frame.width * self.frame.unit))
        self.state = self.state.copy()
        self.reframe(self.frame.standardised(self.frame.mean, spread, X[0]))
        self.settle()
        return rows[1]

    @property
    def widths(self) -> Any:
        """What differences in units of spreads are multiplied by, for each feature."""
        return 1.0 if self.relevance is None else self.relevance.width

    def weighed(self, frame: Frame) -> Frame:
        """Return a frame of the spreads alone with what each column counts for."""
        found = self.relevance
        return frame if found is None else frame.weighed(found.width, found.apart)

    # -- when rows are learned -------------------------------------------------------------------

    def advance(self, batch: Batch) -> None:
        """Move the clock on, take rows into the moments, refresh the frame at its time."""
        fade = NOTHING if batch.times is None else self.rule.fades(batch.gaps(self.clock))
        self.t += len(batch.Y)
        if (self.settings.scale or self.moments.gaps) and not self.on_strings:
            self.take_in(batch.X, fade)
        if self.targets.active:
            self.targets.moments.update(batch.Y, fade)
        due = next_refresh(self.t - 1, self.rule.memory) == self.t
        asked = self.relevance is not None and next_asking(self.t - 1) == self.t
        if batch.times is not None:
            self.clock = float(batch.times[-1])
            since = self.clock if self.refreshed is None else self.refreshed
            due = due or self.clock >= since + self.rule.duration / 4
        if asked:
            self.ask_columns()
        if due:
            self.refreshed = self.clock
            self.refresh(batch.X)
        if due or asked:
            self.check_sound(batch.first + len(batch.Y) - 1)

    def take_in(self, X: Any, fade: Array) -> None:
        """Take rows into the moments."""
        self.moments.update(X, fade)

    def refresh(self, X: Any) -> None:
        """Take frame and targets' units over from the moments; `X` are the last rows learned."""
        self.means = self.moments.mean.copy()
        if not self.settings.scale:
            return
        if not self.on_strings:
            mean, spread = self.moments.mean, self.moments.spread()
            row = np.asarray(X[-1], float)
            row = np.where(np.isnan(row), self.means, row)
            self.reframe(self.weighed(self.frame.standardised(mean.copy(), spread, row)))
            self.known = self.known | (self.moments.variance > 0)
        if self.targets.active:
            self.rescale_targets(self.targets.refreshed())
        self.settle()

    def rescale_targets(self, new: Targets) -> None:
        """Express f, b and the adaptive number in new target units; predictions stay the same."""
        ratio = self.targets.spread / new.spread
        move = (self.targets.center - new.center) / new.spread
        s = self.state
        self.remix(np.diag(ratio))
        if self.settings.intercept:
            s[:, Field.OFFSET] = ratio * s[:, Field.OFFSET] + move
            s[:, Field.OFFSET_SUM] = ratio * s[:, Field.OFFSET_SUM] + move * s[:, Field.TRIALS]
        if self.loss.adaptive:
            s[:, Field.THRESHOLD] *= ratio
        s[:, Field.NORM2] *= ratio**2
        s[:, Field.DROPPED] *= ratio
        s[:, Field.DROPPED_AVERAGE] *= ratio
        self.targets = new


def has_gaps(X: Any) -> bool:
    """Whether values are missing."""
    return isinstance(X, np.ndarray) and bool(np.isnan(X).any())
