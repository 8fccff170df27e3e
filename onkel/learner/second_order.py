"""The learner of second order: recursive least squares over features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import covariance
from onkel.core.frame import Frame
from onkel.core.layout import LARGEST, Field
from onkel.expansions.center_map import CenterMap
from onkel.learner.base import Learner
from onkel.learner.batch import Batch
from onkel.learner.engines.second_order import SECOND_ORDER
from onkel.learner.following import Following
from onkel.learner.merging.adding_squares import AddingSquares
from onkel.learner.primal_learner import PrimalLearner
from onkel.learner.squares_row import SquaresRow, squares_row
from onkel.learner.widths import Widths
from onkel.rules.least_squares import BoundSquares
from onkel.saved import Saved
from onkel.scaling import Targets

Array = NDArray[Any]


HORIZON = 300.0
"""Rows over which the noise is averaged."""
FACTOR, WAY = 8.0, 4.0
"""Units of centres are taken anew if a spread changes by more, or a mean by more spreads."""


class SecondOrderLearner(PrimalLearner):
    """f = w . features(x) + b, and P, the covariance of w and b in units of the noise.

    The last of the weights is b: a feature that is always 1. Weights and P change in place.
    THRESHOLD holds the variance of the noise, in the learner's units of targets.
    """

    engines: ClassVar[tuple[Any, ...]] = (SECOND_ORDER,)
    adding: ClassVar[Any] = AddingSquares
    shared: ClassVar[tuple[str, ...]] = (*PrimalLearner.shared, "cov", "intervals")
    rule: BoundSquares
    following: Following | None
    """The first rows, and centres that follow the world; None where nothing is chosen by them."""

    def open(self, frame: Frame) -> None:
        """Make what f is stored in."""
        if self.settings.average:
            raise ValueError(
                f"{self.settings.rule!r} keeps no average hypothesis; leave average=False."
            )
        super().open(frame)
        if self.hashes:
            raise ValueError(
                f"{self.settings.rule!r} over the inputs themselves takes numbers alone, and the "
                f"rows have {len(self.apart)} columns of codes (categories, words). Use "
                "expansions.Centers(m), whose kernels know them, or leave those columns out."
            )
        self.begin_weights()
        self.following = self._fresh_following(len(frame.center))
        self.intervals = self._fresh_intervals()

    def _fresh_following(self, width: int) -> Following | None:
        centres = isinstance(self.map, CenterMap) and not self.map.given
        if not (centres or self.settings.scale):
            return None  # neither centres nor units are to be found
        return Following.empty(self.map.most if centres else 0, width, self.columns)

    def _fresh_intervals(self) -> Widths:
        return Widths(self.columns if self.loss.task == "regression" else 0, self.rule.nu)

    @property
    def nbytes(self) -> int:
        """Memory of weights, centres, P and the rows that are kept."""
        kept = 0 if self.following is None else self.following.nbytes
        return super().nbytes + int(self.cov.nbytes) + kept

    @property
    def _kept(self) -> tuple[str, ...]:
        return () if self.following is None else ("following",)

    def copy(self) -> Self:
        """Return an independent copy."""
        return self.copied((*self.shared, *self._kept))

    @property
    def in_rows(self) -> bool:
        """Weights alone are not all that single rows move."""
        return False

    def single_row(self) -> SquaresRow | None:  # type: ignore[override]
        """Return what learns rows one by one the cheap way, if that is possible now."""
        return squares_row(self)

    @property
    def core_numbers(self) -> tuple[float, float, float, float]:
        """Return clip, most, horizon and longest, as the core takes them."""
        return self.rule.clip, self.rule.most, HORIZON, self.rule.longest_step

    def begin_weights(self) -> None:
        """Know nothing of the features that there are."""
        size = self.map.count + 1
        self.theta, self.total = np.zeros((self.columns, size)), np.zeros((0, size))
        self.cov = covariance.prior(size, self.rule.most)

    def check_complete(self, rows: int) -> None:
        """Fewer centres than were asked for are enough."""

    def insert_columns(self, old: int, count: int) -> None:
        """Make room for more outputs, starting at 0."""
        super().insert_columns(old, count)
        if not self.t:  # numbers have all their outputs from the first row on
            self.intervals = self._fresh_intervals()
        if self.following is not None:
            kept = self.following.targets  # an output that was not there yet has NaN
            blank = np.full((len(kept), count), np.nan)
            self.following = replace(self.following, targets=np.hstack([kept, blank]))

    def remix(self, mixing: Array) -> None:
        """Replace the outputs' f by linear combinations of them, and kept targets likewise."""
        super().remix(mixing)
        if self.following is not None:
            self.following = self.following.remixed(mixing)

    def guard(self, before: Any, rows: int) -> Callable[[], Learner]:
        """Return a function that gives back the learner as it was `before`."""
        saved: Learner = before.copied((*Learner.shared, "theta", "cov", "intervals", *self._kept))
        return lambda: saved

    # -- rows ----------------------------------------------------------------------------------

    def features(self, X: Any) -> Array:
        """Return the features of rows, behind them the 1."""
        found = np.ones((len(X), self.map.count + 1))
        self.map.fill_features(X, self._frame, found)
        return found

    def weights(self) -> tuple[Array, Array]:
        """Return w and b of each output."""
        return self.theta[:, :-1].copy(), self.theta[:, -1].copy()

    def unit_scores(self, X: Any) -> Array:
        """Return f(x) + b, in the learner's own units of targets."""
        found: Array = self.features(X) @ self.theta.T
        return found

    def unit_outlook(self, X: Any) -> tuple[Array, Array]:
        """Return scores and their standard deviations, in the learner's own units of targets."""
        features = self.features(X)
        doubt = np.maximum(np.einsum("ij,jk,ik->i", features, self.cov, features, optimize=True), 0)
        noise = np.maximum(self.state[:, Field.THRESHOLD], 0.0)
        return features @ self.theta.T, np.sqrt(noise * (1.0 + doubt[:, None]))

    def outlook(self, X: Any, first: int = 0) -> tuple[Array, Array]:
        """Return scores of rows, and half-widths of intervals (classes: deviations) around them."""
        scores, spreads = self.scores(X, first), self.spreads(X)
        if self.loss.task != "regression":
            return scores, spreads
        return scores, self.intervals.now(scores, spreads)

    def belief(self, X: Any, first: int = 0) -> tuple[Array, Array]:
        """Return scores of rows, and the standard deviations of targets around them."""
        return self.scores(X, first), self.spreads(X)

    def spreads(self, X: Any) -> Array:
        """Return the standard deviation of each row's target, as the model has it."""
        found = np.empty((len(X), self.columns))
        for start in range(0, len(X), self.at_a_time):
            part = slice(start, start + self.at_a_time)
            found[part] = self.unit_outlook(self.filled(X[part]))[1]
        return self.targets.raw_widths(found)

    def limits(self) -> Array:
        """Return each output's noise, as a standard deviation in the targets' units."""
        return self.targets.raw_widths(np.sqrt(np.maximum(self.state[:, Field.THRESHOLD], 0.0)))

    def follow(self, scores: Array, spreads: Array, Y: Array) -> Array:
        """Take in what came of rows; return half-widths of intervals before each, in own units."""
        if self.loss.task != "regression":
            return spreads
        answers = self.targets.raw(scores)
        if self.t == 0:
            answers[0] = 0.0  # as it is shown
        errors = np.abs(Y - answers)
        found = self.intervals.follow(answers, self.targets.raw_widths(spreads), errors)
        return found / self.targets.raw_widths(np.ones(self.columns))

    def task(self, features: Array, Y: Array, weight: Array, keep: Array) -> core.SquaresInput:
        """Return rows as the core takes them."""
        clip, most, horizon, longest = self.core_numbers
        return core.SquaresInput(
            clip=clip,
            most=most,
            horizon=horizon,
            longest=longest,
            x=features,
            y=np.ascontiguousarray(self.targets.standardised(Y), np.float64),
            weight=np.ascontiguousarray(weight, np.float64),
            keep=np.ascontiguousarray(keep, np.float64),
        )

    # -- centres ---------------------------------------------------------------------------------

    def next_refresh(self) -> int:
        """Return the trial after which units or centres are looked at."""
        due = super().next_refresh()
        return due if self.following is None else min(due, self.following.next_look(self.t))

    def advance(self, batch: Batch) -> None:
        """Move the clock on, take rows into the moments, look at units and centres."""
        gaps = batch.gaps(self.clock)
        super().advance(batch)
        if self.following is not None:
            self.following = self.following.copy()
            self.following.look(self, batch, gaps)

    def learn_again(self, X: Array, Y: Array, weight: Array, gaps: Array) -> None:
        """Learn rows without counting them, or showing anything of them."""
        X, keep = X.astype(self.dtype), self.rule.keeps(len(X), len(self.cov), gaps)
        for start in range(0, len(X), self.at_a_time):
            part = slice(start, start + self.at_a_time)
            task = self.task(self.features(X[part]), Y[part], weight[part], keep[part])
            bad = core.least_squares(task, self.state.copy(), self.theta, self.cov)[2]
            if bad >= 0:
                self.refuse_step(start + bad, self.state[:, Field.OFFSET])
        self.cov = covariance.mended(self.cov, self.rule.most)

    def kernel_values(self, X: Array, points: Array) -> Array:
        """Return kernel values of raw rows."""
        found: Array = self.map.at(X.astype(self.dtype), points, self._frame)
        return found

    def vagueness(self, centres: int) -> float:
        """Return the harmonic mean of the variances of the centres' weights."""
        own = np.diagonal(self.cov)[:centres]
        return float(1.0 / np.mean(1.0 / own)) if centres else self.rule.most

    # -- units -----------------------------------------------------------------------------------

    @property
    def young(self) -> bool:
        """Whether the first rows are still to be learned anew."""
        return self.following is not None and self.t < self.following.start

    def take_units(self, row: Array) -> None:
        """See rows in the units of all so far; the weights are about to be learned anew."""
        if not self.settings.scale:
            return
        mean, spread = self.moments.mean.copy(), self.moments.spread()
        self._frame = self._frame.standardised(mean, spread, np.where(np.isnan(row), mean, row))

    def reframe(self, frame: Frame) -> None:
        """See rows in new coordinates from now on, where they differ by much.

        Over the inputs themselves f stays what it is, over centres as far as it can.
        """
        alike = _alike(self._frame.of_numbers, frame.of_numbers)
        if not (self.t > 0 and (self.young or alike)):
            self.take_frame(frame)

    def take_frame(self, frame: Frame) -> None:
        """See rows in new coordinates from now on, however little they differ."""
        old, most = self._frame, self.rule.most
        self._frame = frame
        self.theta, self.cov = covariance.in_other_units(
            self.theta, self.cov, self.map.way_back(old, frame), most
        )
        back = self.map.nearly_back(old, frame)
        if back is not None:
            self.theta, self.cov = covariance.in_other_features(self.theta, self.cov, back, most)

    def rescale_targets(self, new: Targets) -> None:
        """Express f in new target units; predictions stay the same."""
        ratio = self.targets.spread / new.spread
        move = (self.targets.center - new.center) / new.spread
        self.theta = self.theta * ratio[:, None]
        self.theta[:, -1] += move
        self.state[:, Field.THRESHOLD] *= ratio**2
        self.targets = new

    def fade(self, factors: Array) -> None:
        """Shrink each output's f."""
        self.theta = self.theta * factors[:, None]

    def sound_f(self) -> bool:
        """Whether all weights are inside the floating range."""
        return bool(np.all(np.abs(self.theta) < LARGEST) and np.all(np.isfinite(self.cov)))

    # -- wider rows ------------------------------------------------------------------------------

    def take_f(self, narrow: Self, frame: Frame, values: Array) -> None:
        """Take over the f of a learner with fewer features, which had these `values` besides."""
        self._frame, self.map = frame, narrow.map.widened(self.kernel, values)
        self.theta, self.cov = narrow.theta.copy(), narrow.cov.copy()
        for _ in range(self.map.count + 1 - self.theta.shape[1]):
            at = self.theta.shape[1] - 1
            self.theta, self.cov = covariance.with_feature(self.theta, self.cov, at, self.rule.most)
        self.total, self.intervals = np.zeros((0, self.map.count + 1)), narrow.intervals.copy()
        if narrow.following is not None:
            rows = narrow.following.rows
            rows = np.column_stack([rows, np.tile(values, (len(rows), 1))])
            self.following = replace(narrow.following, rows=rows)

    def take_whole(self, other: Self) -> None:
        """Become the f of another one, with all that it keeps; units of targets are its own."""
        self._frame, self.map, self.following = other.frame, other.map, other.following
        self.theta, self.cov = other.theta.copy(), other.cov.copy()
        self.total = np.zeros((0, len(self.cov)))

    def take_told(self, frame: Frame, known: Array, told: Array) -> None:
        """Become the least squares of what rows have told, R without the prior and R theta."""
        self._frame = frame
        self.cov = covariance.told(known, self.rule.most)
        self.theta = told @ self.cov
        self.total = np.zeros((0, len(known)))

    # -- files ---------------------------------------------------------------------------------

    def dump_f(self) -> dict[str, Any]:
        """Return what a file must hold of f; of P the lower half."""
        half = self.cov[np.tril_indices(len(self.cov))]
        found = {**super().dump_f(), "cov": half, "intervals": self.intervals.dump()}
        return found if self.following is None else {**found, "following": self.following.dump()}

    def restore_f(self, saved: Saved, frame: Frame) -> None:
        """Become the f that a file holds, in its frame; t and the outputs' state are known."""
        super().restore_f(saved, frame)
        size = self.map.count + 1
        cov, at = np.zeros((size, size)), np.tril_indices(size)
        cov[at] = saved.array("cov", (len(at[0]),), np.float64)
        cov.T[at] = cov[at]
        dust = covariance.prior(size, covariance.JITTER * self.rule.most)
        if not covariance.is_sound(cov + dust) or np.diagonal(cov).max() > 1.001 * self.rule.most:
            raise saved.refuse(
                "cov", "must be positive definite, and no weight vaguer than at first"
            )
        self.cov = cov
        self.intervals = self._fresh_intervals()
        self.intervals.restore(saved.inside("intervals"))
        self.following = self._fresh_following(len(frame.center))
        if self.following is not None:
            inside, chosen = saved.inside("following"), self.following.most > 0
            centres = len(self.map.points) if chosen else 0
            self.following = self.following.restored(inside, self.t, centres)


def _alike(old: Frame, new: Frame) -> bool:
    """Whether rows look much the same in both frames."""
    factor = (old.width * old.unit) / (new.width * new.unit)
    moved = np.abs((new.mean - old.mean) * old.width * old.unit)
    return bool(np.all((factor < FACTOR) & (factor > 1 / FACTOR) & (moved < WAY)))
