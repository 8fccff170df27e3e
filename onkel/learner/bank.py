"""Several settings over one ring of points: kernel values are shared, and so are the points.

A member is a kernel, a loss and a rule. What one member stores is stored for all; a member that
did not store it holds a coefficient of 0 there. Pair distances are made once for all kernels, each
kernel once for all members that have it (``onkel.core.bank``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core import bank as core_bank
from onkel.core.frame import Apart, Frame, effective
from onkel.core.layout import Field
from onkel.expansions.dense import DenseTerms
from onkel.expansions.window import Window
from onkel.kernels import Kernel
from onkel.learner.engines.bank import MEMBERS
from onkel.learner.engines.bank_lane import BANK_LANE
from onkel.learner.merging.adding_members import AddingMembers
from onkel.learner.settings import Settings
from onkel.learner.term_learner import TermLearner
from onkel.losses import Loss
from onkel.rules.base import BoundRule
from onkel.saved import Saved
from onkel.scaling import Targets

Array = NDArray[Any]


@dataclass(frozen=True)
class Member:
    """One setting with all its numbers."""

    kernel: Kernel
    loss: Loss
    rule: BoundRule
    intercept: bool

    @classmethod
    def of(cls, settings: Settings, features: float) -> Member:
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
    """What the members' common frame follows: the longest memory that any of them has.

    Where one of them forgets by the clock that is the longest duration.
    """

    def __init__(self, rules: Sequence[BoundRule]) -> None:
        finite = [r.memory for r in rules if np.isfinite(r.memory)]
        clocks = [r.duration for r in rules if np.isfinite(r.duration)]
        self.memory = float("inf") if clocks else max(finite, default=float("inf"))
        self.duration = max(clocks, default=float("inf"))
        self.divides = any(r.divides for r in rules)


class Bank(TermLearner):
    """Members that share points, frame and kernel values; see the module's text.

    Outputs stand member by member: those of member i in the columns ``i * outputs`` onwards.
    """

    engines: ClassVar[tuple[Any, ...]] = (BANK_LANE, MEMBERS)
    adding: ClassVar[Any] = AddingMembers

    def __init__(
        self, settings: Sequence[Settings], features: int, columns: int, dtype: Any,
        apart: Apart = (),
    ) -> None:  # fmt: skip
        self.group = list(settings)
        self.members = [Member.of(s, effective(features, apart)) for s in settings]
        self.sharing = len(self.members)
        common = replace(settings[0], threads=max(s.threads for s in settings))
        super().__init__(common, features, columns, dtype, apart)
        self.kernels = tuple(m.kernel for m in self.members)
        self.rules = [m.rule for m in self.members]
        for rule in self.rules:
            rule.longest_step = self.rule.longest_step

    def bound_rule(self, features: float) -> BoundRule:
        """Return what the members' common frame follows."""
        return Together([m.rule for m in self.members])

    @property
    def bounded(self) -> bool:
        """Whether no row, however far away, is larger to any member's kernel than others."""
        return all(m.kernel.bound is not None for m in self.members)

    def blank(self, dtype: Any) -> Bank:
        """Return a bank of the same members and outputs that has seen nothing."""
        return Bank(self.group, len(self.moments.mean), self.outputs, dtype, self.apart)

    def by_rule(self) -> list[tuple[Loss, BoundRule, slice]]:
        """Return each member's loss and rule, with its outputs."""
        c = self.outputs
        return [(m.loss, m.rule, slice(i * c, i * c + c)) for i, m in enumerate(self.members)]

    @staticmethod
    def key(settings: Settings, features: float) -> Any:
        """Return what members of one bank have in common; None: this one stands alone."""
        window, kernel = settings.expansion, settings.kernel.resolve(features)
        plain = type(window) is Window and window == Window(terms=window.terms)
        if not plain or settings.average or kernel.program() is None:
            return None
        member = Member.of(settings, features)
        if member.rule.needs_norm:
            return None
        terms = window.terms  # type: ignore[attr-defined]
        return settings.scale, settings.missing, kernel.translation_invariant, terms

    @staticmethod
    def in_order(settings: Sequence[Settings], features: float) -> list[int]:
        """Return the members' numbers sorted by kernel, the widest first.

        Those with one kernel stand together, and widths that are powers of two apart follow
        each other, where the core squares the values of the wider one.
        """
        programs = [settings[i].kernel.resolve(features).program() for i in range(len(settings))]
        return sorted(range(len(settings)), key=lambda i: programs[i] or [])

    def open(self, frame: Frame) -> None:
        """Make what f is stored in, and what the members' steps are told by."""
        super().open(frame)
        programs = [m.kernel.program() for m in self.members]
        self.programs: list[Any] = [p for p, _ in groupby(programs)]
        assert len({repr(p) for p in self.programs}) == len(self.programs), "not in order"
        self.steppers = [
            core_bank.MemberStepper(m.loss, m.rule, m.intercept, self.programs.index(p))
            for m, p in zip(self.members, programs, strict=True)
        ]
        built_in = all(stepper.native() is not None for stepper in self.steppers)
        self.in_lane = built_in and bool(self.terms.has_lane)

    def native(self) -> Any:
        """Return the members as the compiled core takes them."""
        return core_bank.members_of(self.programs, self.steppers, self.outputs)

    def single_row(self) -> None:
        """Single rows come to a bank as part of a mixture; see ``mixture_row.py``."""

    # -- outputs -------------------------------------------------------------------------------

    @property
    def outputs(self) -> int:
        """Outputs of each member."""
        return self.columns // self.sharing

    def add_outputs(self, count: int) -> None:
        """Give every member more outputs, starting at 0."""
        at = [(i + 1) * self.outputs for i in range(len(self.members)) for _ in range(count)]
        rows = np.zeros((len(at), len(Field)))
        rows[:, Field.SCALE] = 1.0
        start = np.repeat([m.rule.start(m.loss) for m in self.members], count)
        rows[:, Field.THRESHOLD] = rows[:, Field.ALERT] = start
        self.state = np.insert(self.state, at, rows, axis=0)
        self.terms.insert_columns(at)

    def mirror_column(self) -> None:
        """Turn every member's single output round: its +1 becomes its -1."""
        self.remix(-np.eye(self.columns))
        self.state[:, [Field.OFFSET, Field.OFFSET_SUM]] *= -1.0

    def split_column(self) -> None:
        """Give every member's two-sided single output a mirror: one output per class."""
        self.add_column()
        pair = np.array([[1.0, -1.0], [0.0, 0.0]])
        self.remix(np.kron(np.eye(len(self.members)), pair))
        self.state[1::2] = self.state[::2]
        self.state[1::2, [Field.OFFSET, Field.OFFSET_SUM]] *= -1.0

    def reorder(self, order: Sequence[int]) -> None:
        """Let the outputs of each member be those that stood at this place in the order."""
        at = np.array(order)[:, None] * self.outputs + np.arange(self.outputs)
        super().arrange(at.ravel().tolist())

    def arrange(self, order: list[int]) -> None:
        """Put every member's outputs into another order."""
        first = np.arange(len(self.members))[:, None] * self.outputs
        super().arrange((first + np.array(order, int)).ravel().tolist())

    def rescale_targets(self, new: Targets) -> None:
        """Express f, b and the adaptive numbers in new target units; predictions stay the same."""
        ratio = self.targets.spread / new.spread
        move = (self.targets.center - new.center) / new.spread
        s = self.state
        self.remix(np.diag(ratio))
        moves = np.repeat([m.intercept for m in self.members], self.outputs)
        s[:, Field.OFFSET] = ratio * s[:, Field.OFFSET] + np.where(moves, move, 0.0)
        adapts = np.repeat([m.loss.adaptive for m in self.members], self.outputs)
        s[:, Field.THRESHOLD] *= np.where(adapts, ratio, 1.0)
        s[:, Field.DROPPED] *= ratio
        self.targets = new

    # -- predicting ----------------------------------------------------------------------------

    def panels(self) -> core_bank.Panels:
        """Return the points and the members' coefficients, as the core takes them."""
        return self.panels_of(self.terms)

    def panels_of(self, terms: DenseTerms) -> core_bank.Panels:
        """Return points and coefficients that stand in a ring of their own."""
        if terms.weights is None:
            terms.weights = terms.coef.astype(self.dtype)
        first, used = terms.panel_range()
        return core_bank.Panels(terms.panels, terms.norms, first, used, terms.weights)

    def unit_scores(self, X: Any) -> Array:
        """Return f(x) + b of every member, in the learner's own units of targets."""
        sums = self.sums(self.terms.prepare(X), self.panels())
        return sums * self.state[:, Field.SCALE] + self.state[:, Field.OFFSET]

    def sums(self, queries: Any, panels: core_bank.Panels) -> Array:
        """Return the sums over some terms, of each member with its kernel."""
        ends = core_bank.ends_of(self.steppers, len(self.programs), self.outputs)
        return core_bank.sums(self.programs, ends, queries, panels, self.settings.threads)

    # -- learning ------------------------------------------------------------------------------

    def block_size(self) -> int:
        """Return how many rows are taken at once: few beside the points there are, yet many."""
        return int(min(max(self.terms.count // 8, 64), 512))

    # -- files ---------------------------------------------------------------------------------

    def restore_f(self, saved: Saved, frame: Frame) -> None:
        """Become the f that a file holds; a full ring would have let points go already."""
        super().restore_f(saved, frame)
        if self.terms.count >= self.window.cap:
            raise saved.refuse("terms.count", f"must be below {self.window.cap}")
