"""What adding learners has in common, however f is stored: scalars, coordinates, the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Frame
from onkel.core.layout import Field
from onkel.losses import Loss
from onkel.rules.base import BoundRule

Array = NDArray[Any]

PROBES = 1000
"""Stored points at which a change of the coordinates is measured, at most."""
COUNTED = [
    Field.TRIALS, Field.WEIGHT, Field.OUTSIDE, Field.ALERTS, Field.LOSS, Field.RISK,
    Field.MARGIN_ERRORS, Field.UPDATES,
]  # fmt: skip


@dataclass(frozen=True)
class Merged:
    """A learner added from several, and what that cost."""

    learner: Any
    before: int
    """Terms (weights, centres) of all of them together."""
    joined: int
    """Terms that were added to another one at the same point."""
    dropped: int
    bound: Array
    """abs(f - sum w_j f_j)(x) <= bound sqrt(k(x, x)), per output, in the targets' units."""
    change: Array | None
    """Largest change of a score by new coordinates, as measured; None where they are the same."""


@dataclass
class Adding:
    """The sum in the making."""

    whole: Any
    learners: Sequence[Any]
    weights: Array
    gains: list[Array]
    """What each output of each learner is multiplied by."""
    refit: bool
    start: Any = None
    """What all of them went on from; None: each began alone."""

    def functions(self) -> Merged:
        """Add the f, after the scalars."""
        raise NotImplementedError

    def probes(self) -> Array:
        """Return points at which a change of the coordinates shows."""
        raise NotImplementedError

    def mean_gains(self) -> list[Array]:
        """The same for sums over all trials, so that averages add with the weights."""
        trials = np.maximum(self.whole.state[:, Field.TRIALS], 1)
        own = [np.maximum(a.state[:, Field.TRIALS], 1) for a in self.learners]
        return [g * trials / n for g, n in zip(self.gains, own, strict=True)]

    def added(self, field: Field, factors: list[Array]) -> Array:
        """Sum one column of the states."""
        pairs = zip(factors, self.learners, strict=True)
        return np.sum([g * a.state[:, field] for g, a in pairs], axis=0)

    def scalars(self) -> None:
        """Add what each output knows beside f."""
        s = self.whole.state
        s[:, COUNTED] = np.sum([a.state[:, COUNTED] for a in self.learners], axis=0)
        if self.start is not None:
            s[:, COUNTED] -= (len(self.learners) - 1) * self.start.state[:, COUNTED]
        for field in (Field.OFFSET, Field.DROPPED):
            s[:, field] = self.added(field, self.gains)
        for field in (Field.OFFSET_SUM, Field.DROPPED_AVERAGE, Field.ALERT_SUM):
            s[:, field] = self.added(field, self.mean_gains())
        if self.whole.loss.alerts:
            s[:, Field.ALERT] = self.added(Field.ALERT, self.gains)
        s[:, Field.THRESHOLD] = self.thresholds()

    def thresholds(self) -> Array:
        """Margins and novelty thresholds add as scores do; widths of regression are averaged."""
        found = np.zeros(self.whole.columns)
        for loss, rule, outputs in self.whole.by_rule():
            found[outputs] = self._thresholds(loss, rule)[outputs]
        return found

    def _thresholds(self, loss: Loss, rule: BoundRule) -> Array:
        """Return them for all outputs, as if each followed this loss and this rule."""
        whole, per = self.whole, 1.0 / float(np.sum(self.weights))
        if loss.adaptive:
            factor = per if loss.task == "regression" else 1.0
            return factor * self.added(Field.THRESHOLD, self.gains)
        known = [rule.margin_after(u) for u in whole.state[:, Field.UPDATES]]
        if known and None not in known:
            return np.array(known)
        each = np.array([a.state[:, Field.THRESHOLD] for a in self.learners])
        mean = per * self.added(Field.THRESHOLD, [np.full(whole.columns, w) for w in self.weights])
        return np.where(np.all(each == each[0], axis=0), each[0], mean)

    # -- coordinates ---------------------------------------------------------------------------

    def frame(self) -> Frame:
        """Return the coordinates of the whole: those that all have, or of the pooled moments."""
        frames = [a.frame for a in self.learners if a.t] or [self.learners[0].frame]
        frame, moments = replace(frames[0], dtype=self.whole.dtype), self.whole.moments
        if all(same_view(frame, other) for other in frames):
            return frame
        frame = frame.standardised(moments.mean.copy(), moments.spread(), moments.mean)
        return self.whole.weighed(frame)

    def measured(self, frame: Frame) -> Array | None:
        """Return the largest change of each score at stored points, where the frame changed."""
        if all(same_view(frame, a.frame) for a in self.learners if a.t):
            return None
        rows = self.probes()
        if not len(rows):
            return np.zeros(self.whole.columns)  # f is 0 everywhere
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, PROBES).astype(int))]
        pairs = zip(self.weights, self.learners, strict=True)
        asked = np.sum([w * a.scores(rows) for w, a in pairs], axis=0)
        return np.max(np.abs(self.whole.scores(rows) - asked), axis=0, initial=0.0)

    def refuse_infinite(self, *arrays: Array) -> None:
        """Refuse weights that carry f out of the floating range."""
        if not all(np.all(np.abs(a) < 1e250) for a in (*arrays, self.whole.state)):
            raise ValueError(
                f"merge: weights {self.weights.tolist()} make coefficients that leave the floating "
                "range. Give smaller ones. No model was changed."
            )


def shortened(before: Array, after: Array) -> Array:
    """Return by how much lengths fell; rounding is no fall."""
    fall = before - after
    return np.where(fall > 1e-12 * before, fall, 0.0)


def same_view(one: Frame, other: Frame) -> bool:
    """Whether two frames show the kernel the same rows (but for a shift that it does not see)."""
    if not np.array_equal(one.width * one.unit, other.width * other.unit):
        return False
    here, there = (f.center + f.shift / f.unit for f in (one, other))
    return one.invariant or np.array_equal(here, there)
