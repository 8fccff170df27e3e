"""Adding models of recursive least squares: what their rows have told is added, not their f."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core import covariance
from onkel.core.frame import Frame
from onkel.core.layout import Field
from onkel.learner.following import Following
from onkel.learner.merging.adding import Adding, Merged

Array = NDArray[Any]


NEARLY = 1e-8
"""Directions of centres that count for less, in units of the largest, are left at 0."""


class AddingSquares(Adding):
    """The least squares on the rows of all of them.

    ``R = sum of c_j R_j``, ``R theta = sum of c_j R_j theta_j``, R = P^-1 without the prior, c_j
    the weights in units of their mean; what was known at the start counts once. Where the first
    rows are still there, they are learned anew. Where centres differ, those of the learner that has
    seen most stay: over them f is the mean of all, as nearly as can be at the centres of all, and
    by how much it is not is measured.
    """

    def functions(self) -> Merged:
        """Add the f, after the scalars."""
        whole, begun = self.whole, [a for a in self.learners if a.t]
        self.change = np.zeros(whole.columns)
        first = None if self.start is None or not self.start.t else self.start
        moved = [a for a in begun if first is None or a.t > first.t]
        if begun and len(moved) < 2:
            whole.take_whole(moved[0] if moved else begun[0])
        elif all(a.young for a in begun):
            self._anew(begun, first)
        elif not _alike(begun):
            self._blend(begun)
        else:
            self._add(begun, first)
        self._intervals()
        self.refuse_infinite(whole.theta)
        before = sum(a.size for a in self.learners)
        change = self.change if np.any(self.change) else None
        return Merged(whole, before, before - whole.size, 0, np.zeros(whole.columns), change)

    def _counts(self, begun: list[Any]) -> list[float]:
        """Return what each learner's rows count for."""
        shares = self.weights / np.mean(self.weights)
        return [float(c) for c, a in zip(shares, self.learners, strict=True) if a in begun]

    def thresholds(self) -> Array:
        """The noise of all rows, in the whole's units of targets."""
        trials = np.array([a.state[:, Field.TRIALS] for a in self.learners])
        unit = self.whole.targets.raw_widths(np.ones(self.whole.columns))
        own = np.array([
            a.state[:, Field.THRESHOLD] * np.square(a.targets.raw_widths(np.ones(len(unit))) / unit)
            for a in self.learners
        ])  # fmt: skip
        found: Array = (trials * own).sum(axis=0) / np.maximum(trials.sum(axis=0), 1.0)
        return found

    def _intervals(self) -> None:
        start = None if self.start is None else self.start.intervals
        shares = self.weights / self.weights.sum()
        self.whole.intervals.take_sum([a.intervals for a in self.learners], shares, start)

    # -- the first rows of all -------------------------------------------------------------------

    def _anew(self, begun: list[Any], first: Any) -> None:
        """Choose units and centres from the rows of all, and learn them."""
        whole = self.whole
        if not begun:
            return
        known = 0 if first is None else first.t
        parts = [(a.following, c, known) for a, c in zip(begun, self._counts(begun), strict=True)]
        if first is not None:
            parts.insert(0, (first.following, 1.0, 0))
        whole.following = Following.joined(parts)
        whole.take_frame(begun[0].frame)
        whole.following.begin(whole)

    # -- other centres ---------------------------------------------------------------------------

    def _blend(self, begun: list[Any]) -> None:
        """Over the centres of the one that has seen most, be as nearly as can be their mean."""
        whole, lead = self.whole, max(begun, key=lambda a: a.t)
        whole.take_whole(lead)
        rows = np.concatenate([a.map.points for a in begun])
        counts = np.array([c * a.t for c, a in zip(self._counts(begun), begun, strict=True)])
        scores = np.array([whole.targets.standardised(a.scores(rows)) for a in begun])
        wanted = np.einsum("a,aro->ro", counts / counts.sum(), scores)
        features = whole.features(rows)
        whole.theta = np.linalg.lstsq(features, wanted, rcond=NEARLY)[0].T.copy()
        self._measure(whole.targets.raw(wanted), whole.targets.raw(whole.unit_scores(rows)))

    # -- what rows have told -----------------------------------------------------------------------

    def _add(self, begun: list[Any], first: Any) -> None:
        """Add what each has been told, in one frame and one order of centres."""
        whole, lead = self.whole, max(begun, key=lambda a: a.t)
        # Over centres f is never quite what it was in other units: one of them keeps its own.
        frame = lead.frame if whole.form == "terms" else self.frame()
        whole.map = whole.map.common([a.map for a in begun])
        start = None if first is None else self._told(first, frame)
        info, told = (0.0, 0.0) if start is None else start
        for a, count in zip(begun, self._counts(begun), strict=True):
            own = self._told(a, frame)
            since = own if start is None else tuple(x - y for x, y in zip(own, start, strict=True))
            info, told = info + count * since[0], told + count * since[1]
        whole.take_told(frame, info, told)
        if whole.following is not None:
            whole.following = whole.following.continued(
                [a.following for a in begun], None if first is None else first.following, whole.t
            )

    def _told(self, learner: Any, frame: Frame) -> tuple[Array, Array]:
        """Return R without the prior, and R theta, as the whole sees rows, centres and targets."""
        moved = learner.copy()
        if not _same(frame, learner.frame):
            moved.take_frame(frame)
            self._measure(learner.scores(self.probes()), moved.scores(self.probes()))
        places = self.whole.map.places(moved.map)
        theta, cov = moved.theta[:, places], moved.cov[places][:, places]
        known = covariance.information(cov)
        told = theta @ known
        known = known - np.eye(len(known)) / moved.rule.most
        mine, theirs = self.whole.targets, moved.targets
        ratio = theirs.raw_widths(np.ones(len(theta))) / mine.raw_widths(np.ones(len(theta)))
        move = mine.standardised(theirs.raw(np.zeros((1, len(theta)))))[0]
        return known, ratio[:, None] * told + move[:, None] * known[-1]

    def _measure(self, before: Array, after: Array) -> None:
        """Take in by how much scores changed in other coordinates; rounding is no change."""
        gap = np.abs(after - before).max(axis=0, initial=0.0)
        dust = 1e-9 * np.abs(before).max(axis=0, initial=0.0)
        self.change = np.maximum(self.change, np.where(gap > dust, gap, 0.0))

    def probes(self) -> Array:
        """Return the centres; where there are none, the mean and one spread either way."""
        moments = self.whole.moments
        rows: Array = self.whole.map.probes(moments.mean, moments.spread())
        return rows


def _alike(learners: list[Any]) -> bool:
    """Whether they have the same centres, in whatever order."""
    points = [{p.tobytes() for p in getattr(a.map, "points", ())} for a in learners]
    return all(other == points[0] for other in points)


def _same(one: Frame, other: Frame) -> bool:
    """Whether two frames show the same numbers, whatever the kernel sees of them."""
    units = np.array_equal(one.width * one.unit, other.width * other.unit)
    return units and np.array_equal(one.mean, other.mean)
