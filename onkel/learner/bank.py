"""Several settings over one ring of points: kernel values are shared, and so are the points.

A member is a kernel, a loss and a rule. What one member stores is stored for all; a member that
did not store it holds a coefficient of 0 there. Pair distances are made once for all kernels, each
kernel once for all members that have it (``onkel.core.bank``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core import bank as core_bank
from onkel.core.frame import Frame
from onkel.core.layout import Field
from onkel.expansions.dense import DenseTerms
from onkel.expansions.window import Window
from onkel.kernels import Kernel
from onkel.kernels.base import diag_of_norms
from onkel.learner.batch import Batch
from onkel.learner.settings import Settings
from onkel.learner.term_learner import TermLearner
from onkel.losses import Loss
from onkel.rules.base import BoundRule
from onkel.saved import Saved
from onkel.scaling import Moments, Targets

Array = NDArray[Any]

LET_GO = 16
"""A full ring lets this fraction (1/16) of its points go at once."""


@dataclass(frozen=True)
class Member:
    """One setting with all its numbers."""

    kernel: Kernel
    loss: Loss
    rule: BoundRule
    intercept: bool

    @classmethod
    def of(cls, settings: Settings, features: int) -> Member:
        """Bind a setting for rows of so many features."""
        kernel = settings.kernel.resolve(features)
        settings.rule.check(settings.loss)
        settings.expansion.check(kernel, settings.rule)
        kernel.check_scale(settings.scale)
        space = settings.expansion.space(kernel, features, settings.scale)
        return cls(
            kernel, settings.loss, settings.rule.bind(settings.loss, space), settings.intercept
        )


class Together(BoundRule):
    """What the members' common frame follows: the longest memory that any of them has."""

    def __init__(self, rules: Sequence[BoundRule]) -> None:
        finite = [r.memory for r in rules if np.isfinite(r.memory)]
        self.memory = max(finite, default=float("inf"))
        self.divides = any(r.divides for r in rules)


class Bank(TermLearner):
    """Members that share points, frame and kernel values; see the module's text.

    Outputs stand member by member: those of member i in the columns ``i * outputs`` onwards.
    """

    shared: ClassVar[tuple[str, ...]] = TermLearner.shared

    def __init__(
        self, settings: Sequence[Settings], features: int, columns: int, dtype: Any
    ) -> None:
        self.members = [Member.of(s, features) for s in settings]
        self.settings = replace(settings[0], threads=max(s.threads for s in settings))
        self.kernel, self.loss = self.members[0].kernel, self.members[0].loss
        self.rule = Together([m.rule for m in self.members])
        self.dtype = np.dtype(dtype)
        self.t, self.mistakes, self.on_strings = 0, 0, False
        self.clock = self.refreshed = None
        self.state = np.zeros((0, len(Field)))
        self.moments = Moments(
            features, self.rule.memory, float(np.finfo(dtype).eps),
            gaps=self.settings.missing == "mean",
        )  # fmt: skip
        self.means = np.zeros(features)
        scaled = self.settings.scale and self.loss.task == "regression"
        self.targets = Targets(columns * len(settings), self.rule.memory, active=scaled)
        self.known = np.zeros(features, bool)
        self.first_score = None
        self._open(Frame.plain(np.zeros(features), dtype, self.kernel.translation_invariant))
        for _ in range(columns):
            self.add_column()

    @staticmethod
    def key(settings: Settings, features: int) -> Any:
        """Return what members of one bank have in common; None: this one stands alone."""
        window, kernel = settings.expansion, settings.kernel.resolve(features)
        plain = type(window) is Window and (window.age, window.tolerance, window.growth) == (
            None, None, None,
        )  # fmt: skip
        if not plain or settings.average or kernel.program() is None:
            return None
        member = Member.of(settings, features)
        if member.rule.needs_norm:
            return None
        terms = window.terms  # type: ignore[attr-defined]
        return settings.scale, settings.missing, kernel.translation_invariant, terms

    @staticmethod
    def in_order(settings: Sequence[Settings], features: int) -> list[int]:
        """Return the members' numbers sorted by kernel, the widest first.

        Those with one kernel stand together, and widths that are powers of two apart follow
        each other, where the core squares the values of the wider one.
        """
        programs = [settings[i].kernel.resolve(features).program() for i in range(len(settings))]
        return sorted(range(len(settings)), key=lambda i: programs[i] or [])

    def _open(self, frame: Frame) -> None:
        expansion = self.settings.expansion
        assert isinstance(expansion, Window)
        first = self.members[0]
        self.window = expansion.bind(first.rule, first.loss, first.kernel)
        self.terms = DenseTerms(self.kernel, frame, 0, self.window.cap)
        self.in_lane = False
        programs = [m.kernel.program() for m in self.members]
        self.programs: list[Any] = [p for p, _ in groupby(programs)]
        assert len({repr(p) for p in self.programs}) == len(self.programs), "not in order"
        self.steppers = [
            core_bank.Stepper(self.programs.index(p), m.loss, m.rule, m.intercept)
            for m, p in zip(self.members, programs, strict=True)
        ]

    # -- outputs -------------------------------------------------------------------------------

    @property
    def outputs(self) -> int:
        """Outputs of each member."""
        return self.columns // len(self.members)

    def add_column(self) -> None:
        """Give every member an output more, starting at 0."""
        at = [(i + 1) * self.outputs for i in range(len(self.members))]
        rows = np.zeros((len(at), len(Field)))
        rows[:, Field.SCALE] = 1.0
        start = [m.rule.start(m.loss) for m in self.members]
        rows[:, Field.THRESHOLD] = rows[:, Field.ALERT] = start
        self.state = np.insert(self.state, at, rows, axis=0)
        self.terms.insert_columns(at)

    def mirror_column(self) -> None:
        """Turn every member's single output round: its +1 becomes its -1."""
        self._remix(-np.eye(self.columns))
        self.state[:, [Field.OFFSET, Field.OFFSET_SUM]] *= -1.0

    def split_column(self) -> None:
        """Give every member's two-sided single output a mirror: one output per class."""
        self.add_column()
        pair = np.array([[1.0, -1.0], [0.0, 0.0]])
        self._remix(np.kron(np.eye(len(self.members)), pair))
        self.state[1::2] = self.state[::2]
        self.state[1::2, [Field.OFFSET, Field.OFFSET_SUM]] *= -1.0

    def _rescale_targets(self, new: Targets) -> None:
        ratio = self.targets.spread / new.spread
        move = (self.targets.center - new.center) / new.spread
        s = self.state
        self._remix(np.diag(ratio))
        moves = np.repeat([m.intercept for m in self.members], self.outputs)
        s[:, Field.OFFSET] = ratio * s[:, Field.OFFSET] + np.where(moves, move, 0.0)
        adapts = np.repeat([m.loss.adaptive for m in self.members], self.outputs)
        s[:, Field.THRESHOLD] *= np.where(adapts, ratio, 1.0)
        s[:, Field.DROPPED] *= ratio
        self.targets = new

    # -- predicting ----------------------------------------------------------------------------

    def _ring(self) -> core_bank.Ring:
        terms = self.terms
        if terms.weights is None:
            terms.weights = terms.coef.astype(self.dtype)
        first, used = terms.panel_range()
        return core_bank.Ring(terms.panels, terms.norms, first, used, terms.weights)

    def _scores(self, X: Any) -> Array:
        ends = core_bank.ends_of(self.steppers, len(self.programs), self.outputs)
        queries = self.terms.prepare(X)
        sums = core_bank.sums(self.programs, ends, queries, self._ring(), self.settings.threads)
        return sums * self.state[:, Field.SCALE] + self.state[:, Field.OFFSET]

    # -- learning ------------------------------------------------------------------------------

    def learn(
        self, X: Any, Y: Array, weight: Array, own: Array | None = None, first: int = 0,
        times: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn rows in order with every member; `Y` has one column per output."""
        for member in self.members[1:]:
            member.kernel.check_rows(X, first)
        return super().learn(X, np.tile(Y, (1, len(self.members))), weight, own, first, times)

    def block_size(self) -> int:
        """Return how many rows are taken at once: few beside the points there are, yet many."""
        return int(min(max(self.terms.count // 8, 64), 512))

    def _ahead(self, batch: Batch) -> int:
        return 0

    def _try_block(self, batch: Batch) -> tuple[Any, Any]:
        """Learn as many rows as fit beside the points there are, so that none need go."""
        room = min(self.block_size(), self.window.cap - self.terms.count)
        batch = batch.part(0, self._begin_block(batch, room))
        self.terms = self.terms.following(np.asarray(batch.X[0], float))
        task = self._task_of(self.terms.prepare(batch.X), batch)
        for diag in task.diag:
            self._refuse_infinite(diag, batch.first)
        result = core_bank.steps(task)
        if result.bad_row < 0 and result.done < len(batch):
            task = task.part(result.done)
            result = core_bank.steps(task)
        if result.bad_row >= 0:
            self._refuse_step(batch.first + result.bad_row, result.score[result.bad_row])
        return result, task.queries

    def _task_of(self, queries: Any, batch: Batch) -> core_bank.BankInput:
        trials, rules = self.t + 1 + np.arange(len(batch)), [m.rule for m in self.members]
        norms = queries.norm.astype(np.float64)
        y = self.targets.standardised(batch.Y)[:, : self.outputs]
        with np.errstate(over="ignore"):
            diag = np.array([diag_of_norms(p, norms) for p in self.programs])
        return core_bank.BankInput(
            self.programs, self.steppers, queries, self._ring(), self.t + 1,
            np.ascontiguousarray(y, np.float64), np.ascontiguousarray(batch.weight, np.float64),
            np.array([r.rates(trials) for r in rules], np.float64),
            np.array([r.lams(trials) for r in rules], np.float64), diag, self.state,
            self.settings.threads,
        )  # fmt: skip

    def _commit(self, result: Any, queries: Any, own: Array) -> None:
        self.state = result.state
        if result.wiped.any():
            self._wipe(result.wiped)
        which = np.flatnonzero(result.kept)
        coef = result.coef[which]
        with_cache(
            self.terms, lambda: self.terms.append(queries.part(which), coef, self.t + 1 + which)
        )
        self._fold_if_far()
        if self.terms.count >= self.window.cap:
            self._let_go(max(self.window.cap // LET_GO, 1))

    def _let_go(self, count: int) -> None:
        """Drop the oldest points, and account for what the members lose by it."""
        terms = self.terms
        norms = terms.oldest(count).norm.astype(np.float64)
        size = np.sqrt([np.maximum(diag_of_norms(p, norms), 0.0) for p in self.programs])
        mine = np.repeat([s.kernel for s in self.steppers], self.outputs)
        lost = np.einsum("ic,ci->c", np.abs(terms.coefs(0, count)), size[mine])
        self.state[:, Field.DROPPED] += np.abs(self.state[:, Field.SCALE]) * lost
        with_cache(terms, lambda: terms.drop(count))

    # -- files ---------------------------------------------------------------------------------

    def restore_f(self, saved: Saved, frame: Frame) -> None:
        """Become the f that a file holds; a full ring would have let points go already."""
        super().restore_f(saved, frame)
        if self.terms.count >= self.window.cap:
            raise saved.refuse("terms.count", f"must be below {self.window.cap}")


def with_cache(terms: DenseTerms, change: Callable[[], None]) -> None:
    """Append or drop terms, keeping the coefficients in the rows' own type up to date."""
    cache, head, before = terms.weights, terms.head, terms.count
    change()
    if cache is None or cache.shape != terms.coef.shape:
        return
    gone, new = max(before - terms.count, 0), max(terms.count - before, 0)
    at = head + (np.arange(gone) if gone else np.arange(before, before + new))
    panel, lane = np.divmod(at % max(len(terms.births), 1), cache.shape[2])
    cache[panel, :, lane] = terms.coef[panel, :, lane]
    terms.weights = cache
