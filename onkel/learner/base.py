"""What every learner does, however f is stored: the online protocol, outputs, the one loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Apart, Frame, effective
from onkel.core.layout import Field
from onkel.inputs import RefusedRow
from onkel.kernels import Kernel
from onkel.learner.batch import Batch
from onkel.learner.engine import Engine, Learned
from onkel.learner.refusals import check_codes, checked_apart, longest_step
from onkel.learner.settings import Settings
from onkel.learner.standardised import Standardised
from onkel.learner.transaction import Transaction
from onkel.losses import Loss
from onkel.rules.base import BoundRule
from onkel.saved import MOST, Saved
from onkel.scaling import Moments, Targets

if TYPE_CHECKING:
    from onkel.learner.merging.adding import Adding
    from onkel.learner.single_row import SingleRow
    from onkel.learner.stored import Stored

Array = NDArray[Any]


class Learner(Standardised):
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
    apart : tuple of float
        The first columns of a row are codes, as many as there are numbers here; see
        :mod:`onkel.core.frame`.
    """

    engines: ClassVar[tuple[Engine[Any], ...]]
    """What learns rows, in the order in which they are asked; the last takes any."""
    adding: ClassVar[type[Adding]]
    """How learners of this kind are added up."""
    at_a_time: ClassVar[int] = 1024
    """Rows that are predicted at once."""
    shared: ClassVar[tuple[str, ...]] = ("moments", "targets", "state")
    """What is changed in place, or may be, and must be copied for a copy to be independent."""
    merged: bool = False
    """Whether f was added from several: then identities of a single run hold no more."""

    def __init__(
        self, settings: Settings, features: int, columns: int, dtype: Any, apart: Apart = ()
    ) -> None:
        self.settings = settings
        self.apart = checked_apart(settings, features, apart)
        self.kernel = settings.kernel.resolve(effective(features, apart))
        self.kernels: tuple[Kernel, ...] = (self.kernel,)
        self.loss = settings.loss
        settings.rule.check(self.loss)
        settings.expansion.check(self.kernel, settings.rule)
        self.kernel.check_scale(settings.scale)
        self.rule = self.bound_rule(settings.expansion.counted(features, apart))
        self.rules: list[Any] = [self.rule]
        """Of all the settings that share this learner, as are the kernels."""
        self.dtype = np.dtype(dtype)
        for bound in self.rules:
            bound.longest_step = longest_step(self.dtype, settings.scale)
        self.t = 0
        self.mistakes = 0
        self.state = np.zeros((0, len(Field)))
        self.on_strings = self.kernel.domain == "strings"
        self.moments = Moments(
            0 if self.on_strings else features, self.rule.memory, float(np.finfo(dtype).eps),
            gaps=settings.missing == "mean", steady=self.bounded, codes=len(apart),
        )  # fmt: skip
        self.means = np.zeros(len(self.moments.mean))
        self.clock = self.refreshed = None
        scaled = settings.scale and self.loss.task == "regression"
        self.targets = Targets(columns * self.sharing, self.rule.memory, active=scaled)
        self.known = np.arange(len(self.moments.mean)) < len(apart)
        self.first_score = None
        self.open(self.plain_frame(np.zeros(features)))
        self.add_outputs(columns)

    # -- what a kind of learner must say ----------------------------------------------------------

    def open(self, frame: Frame) -> None:
        """Make what f is stored in."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of stored terms, centres or weights."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Memory of what f is stored in."""
        raise NotImplementedError

    def insert_columns(self, old: int, count: int) -> None:
        """Make room for more outputs behind the `old` ones, starting at 0."""
        raise NotImplementedError

    def fade(self, factors: Array) -> None:
        """Shrink each output's f (not what the average has of it)."""
        raise NotImplementedError

    def take_f(self, narrow: Self, frame: Frame, values: Array) -> None:
        """Take over the f of a learner with fewer features, which had these `values` besides."""
        raise NotImplementedError

    def coefficients(self) -> tuple[Array, Array]:
        """Return what multiplies k, one column per output, and the offsets; as they are shown.

        Both in the targets' own units; of the average hypothesis, where that is asked for.
        """
        raise NotImplementedError

    def beside_terms(self, row: Array) -> Array:
        """Return what each of a row's inputs adds by itself, beyond its mean: [outputs][inputs]."""
        return np.zeros((self.columns, len(row)))

    @property
    def form(self) -> str:
        """What f is made of to those who explain it: "terms", "texts" or "weights"."""
        raise NotImplementedError

    def stored(self) -> Stored:
        """Return the points that the coefficients belong to."""
        raise NotImplementedError

    def dump_f(self) -> dict[str, Any]:
        """Return what a file must hold of f."""
        raise NotImplementedError

    def restore_f(self, saved: Saved, frame: Frame) -> None:
        """Become the f that a file holds, in its frame; t and the outputs' state are known."""
        raise NotImplementedError

    # -- what most of them leave as it is ----------------------------------------------------------

    sharing: int = 1
    """Settings whose outputs stand side by side, each with as many."""

    def bound_rule(self, features: float) -> BoundRule:
        """Return the rule with its numbers, for rows of so many features."""
        settings = self.settings
        moving = settings.scale or bool(self.apart)
        space = settings.expansion.space(self.kernel, features, moving)
        return settings.rule.bind(self.loss, space)

    @property
    def bounded(self) -> bool:
        """Whether no row, however far away, is larger to the kernel than others."""
        return self.kernel.bound is not None

    def blank(self, dtype: Any) -> Self:
        """Return a learner of the same kind, settings and outputs that has seen nothing."""
        return type(self)(self.settings, len(self.moments.mean), self.columns, dtype, self.apart)

    def by_rule(self) -> list[tuple[Loss, BoundRule, slice]]:
        """Return each loss and rule that there is, with the outputs that follow them."""
        return [(self.loss, self.rule, slice(None))]

    def widened(self, values: Array) -> Learner:
        """Return the learner with more features, which had these `values` in every row so far."""
        from onkel.learner.grow import with_features

        return with_features(self, values)

    def window_age(self) -> int | None:
        """Return how many trials a term stays, as of now; None where f has no terms."""
        return None

    def single_row(self) -> SingleRow | None:
        """Return what learns rows one by one the cheap way, if that is possible now."""
        return None

    # -- outputs -------------------------------------------------------------------------------

    @property
    def columns(self) -> int:
        """Number of outputs."""
        return len(self.state)

    def add_column(self) -> None:
        """Add an output that starts at 0 (a class seen late)."""
        self.add_outputs(1)

    def add_outputs(self, count: int) -> None:
        """Add some of them at once."""
        old = self.columns
        rows = np.zeros((count, len(Field)))
        rows[:, Field.SCALE] = 1.0
        rows[:, Field.THRESHOLD] = rows[:, Field.ALERT] = self.rule.start(self.loss)
        self.state = np.concatenate([self.state, rows])
        self.insert_columns(old, count)

    def mirror_column(self) -> None:
        """Turn a single two-sided output round: its +1 becomes its -1."""
        self.remix(-np.eye(1))
        self.state[0, [Field.OFFSET, Field.OFFSET_SUM]] *= -1.0

    def split_column(self) -> None:
        """Give the two-sided single output of a binary problem a mirror: one output per class."""
        self.add_column()
        self.remix(np.array([[1.0, -1.0], [0.0, 0.0]]))
        self.state[1] = self.state[0]
        self.state[1, [Field.OFFSET, Field.OFFSET_SUM]] *= -1.0

    def arrange(self, order: list[int]) -> None:
        """Put the outputs into another order."""
        self.remix(np.eye(self.columns)[:, order])
        self.state = self.state[order]

    def check_complete(self, rows: int) -> None:
        """After a whole fit on so many rows: refuse if what the settings ask for never came."""

    def copy(self) -> Self:
        """Return an independent copy."""
        return self.copied(self.shared)

    def copied(self, names: tuple[str, ...] = ()) -> Self:
        """Return a copy that shares all but these fields."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        for name in names:
            setattr(other, name, getattr(self, name).copy())
        return other

    def guard(self, before: Any, rows: int) -> Callable[[], Learner]:
        """Return a function that gives back the learner as it was `before`.

        Called before anything is changed in place; `rows` at most come afterwards.
        """
        saved: Learner = before.copied(Learner.shared)
        return lambda: saved

    def release(self) -> None:
        """The call has succeeded: what was guarded need not be any more."""

    # -- predicting ----------------------------------------------------------------------------

    def scores(self, X: Any, first: int = 0) -> Array:
        """Return f(x) + b for each row and output, in the targets' own units.

        `first` is the number of the first row in messages.
        """
        for kernel in self.kernels:
            kernel.check_rows(X, first)
        check_codes(X, len(self.apart), first)
        out = np.empty((len(X), self.columns))
        for start in range(0, len(X), self.at_a_time):
            part = slice(start, start + self.at_a_time)
            out[part] = self.unit_scores(self.filled(X[part]))
        if not np.all(np.isfinite(out)):
            bad = int(np.flatnonzero(~np.isfinite(out).all(axis=1))[0])
            raise RefusedRow(
                f"Row {first + bad}: the score is not finite; its values are too large for "
                f"{self.kernel!r} in {self.dtype}{self.advice}.",
                first + bad,
            )
        return self.targets.raw(out)

    def limits(self) -> Array:
        """Return each output's threshold now (novelty: that of alerts), in the targets' units."""
        s = self.state
        if not self.loss.alerts:
            return self.targets.raw_widths(s[:, Field.THRESHOLD])
        if self.settings.average:
            return s[:, Field.ALERT_SUM] / np.maximum(s[:, Field.TRIALS], 1)
        return s[:, Field.ALERT].copy()

    def outlook(self, X: Any, first: int = 0) -> tuple[Array, Array]:
        """Return scores and thresholds of rows, as they are now; see :meth:`scores`."""
        scores = self.scores(X, first)
        return scores, np.broadcast_to(self.limits(), scores.shape)

    def belief(self, X: Any, first: int = 0) -> tuple[Array, Array] | None:
        """Return scores of rows and the standard deviations of targets around them, if known."""
        return None

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
        with Transaction(self, len(X)) as call:
            return self.learn_within(call, X, Y, weight, own, first, times)

    def member_scores(
        self, X: Any, Y: Array, weight: Array, first: int, times: Array | None
    ) -> Array:
        """Learn rows in order; return scores [rows][1][outputs] as they were before each row.

        In Y an output that is not there yet has NaN: it stays as it is.
        """
        return self.learn(X, Y, weight, None, first, times)[0][:, None]

    def learn_within(
        self, call: Transaction, X: Any, Y: Array, weight: Array, own: Array | None = None,
        first: int = 0, times: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn rows as part of a call, which may be refused after they are learned."""
        for kernel in self.kernels:
            kernel.check_rows(X, first)
        check_codes(X, len(self.apart), first)
        if self.t + len(Y) > MOST:
            raise ValueError(f"No model learns more than {MOST} rows. It was not changed.")
        Y = np.tile(Y, (1, self.sharing)) if self.sharing > 1 else Y
        scores, limits = np.empty((2, *Y.shape))
        own = np.zeros(len(Y), np.int64) if own is None else own
        batch, start = Batch(X, Y, weight, own, times, first), 0
        while start < len(Y):
            came = batch.part(start, start + self.until_refresh(batch, start))
            if self.refreshes_within(came):
                call.protect(0)  # the units behind it may be refused
            found = self._learn_next(came, call)
            stop = start + len(found.scores)
            scores[start:stop] = self.targets.raw(found.scores)
            limits[start:stop] = self.targets.raw_widths(found.limits)
            if self.t == 0:
                scores[0] = 0.0  # nothing was known before the very first row
            elif self.first_score is not None:
                scores[start] = self.targets.raw(self.first_score[0])
            came = came.upto(stop - start)
            self.advance(came if found.X is None else replace(came, X=found.X))
            call.left, start = len(Y) - stop, stop
        return scores, limits

    def _learn_next(self, came: Batch, call: Transaction) -> Learned:
        """Let the first engine that can learn some of these rows."""
        self.first_score = None
        for engine in self.engines:
            rows = engine.reach(self, came)
            if not rows:
                continue
            batch = came.upto(rows)
            if self.moments.gaps:
                batch = replace(batch, X=self.filled(batch.X))
            found = engine.learn(self, batch, call)
            if found is not None:
                return found
        raise RuntimeError(f"{type(self).__name__}: no engine has learned row {came.first}.")
