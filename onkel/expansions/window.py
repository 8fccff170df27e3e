"""The window: which terms are kept, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel import bounds
from onkel.core.frame import Frame
from onkel.expansions.base import Expansion
from onkel.expansions.budgets import BUDGETS, Budget
from onkel.expansions.dense import DenseTerms
from onkel.expansions.strings import StringTerms
from onkel.kernels import Kernel, Spectrum
from onkel.losses import Loss
from onkel.params import Accept
from onkel.rules.base import BoundRule, Rule
from onkel.schedules import InverseSqrt

Array = NDArray[Any]

DEFAULT_TERMS = 10_000


@dataclass(frozen=True)
class Window(Expansion):
    """A truncated kernel expansion: some terms are kept, the others go.

    ``f = sum of a_i k(x_i, .) over the terms kept``

    Parameters
    ----------
    terms : int or None
        Most terms stored. 10 000 if nothing else bounds the window, else none; None: no limit.
    age : int, optional
        A term stored at trial i is used at trials i+1 ... i+age, then dropped (N04 Fig. 1).
    tolerance : float, optional
        Chooses the age by N04 Proposition 1, so that ||f - f_trunc|| stays below it. Needs a
        constant rate, regularization > 0 and a loss with bounded slope.
    growth : float in (0, 0.5), optional
        epsilon of N04 Theorem 6: all terms at first, then ``ceil(t^(1/2 + epsilon))`` trials.
        Needs the schedule ``InverseSqrt``.
    budget : "oldest", "smallest", "merge" or "project"
        What becomes of the terms that are too many. "oldest": those that were stored first go,
        one by one. Else a window that is full is brought down by a sixteenth at once, the term
        with the least ``|a| sqrt(k(x, x))`` leaving first: dropped ("smallest"); made one with
        the term with which it loses least, at a point between both ("merge", the Gaussian kernel
        only). With "project" one of the smallest quarter, which another term can stand for, is
        projected on the sixteen terms nearest to it. These need `terms` and take no age.

    References
    ----------
    Merging: Z. Wang, K. Crammer, S. Vucetic, JMLR 13 (2012); projecting: F. Orabona, J. Keshet,
    B. Caputo, JMLR 10 (2009), restricted to the nearest terms.

    Examples
    --------
    >>> Window(age=1000)
    Window(terms='auto', age=1000, tolerance=None, growth=None, budget='oldest')
    """

    terms: int | str | None = "auto"
    age: int | None = None
    tolerance: float | None = None
    growth: float | None = None
    budget: str = "oldest"
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "terms": Accept(low=1, high_open=True, whole=True, none=True, words=("auto",)),
        "age": Accept(low=1, high_open=True, whole=True, none=True),
        "tolerance": Accept(low=0, low_open=True, high_open=True, none=True),
        "growth": Accept(low=0, low_open=True, high=0.5, high_open=True, none=True),
        "budget": Accept(low=1, high=0, words=tuple(BUDGETS)),  # no number
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [n for n in ("age", "tolerance", "growth") if getattr(self, n) is not None]
        if len(given) > 1:
            raise ValueError(
                f"Window: {' and '.join(given)} each set the age of the terms; give one of them "
                "(terms= may stand beside it)."
            )
        if self.policy.one_by_one:
            return
        if given or self.terms is None or self.terms == 1:
            came = f"{given[0]}={getattr(self, given[0])!r}" if given else f"terms={self.terms!r}"
            raise ValueError(
                f"Window: budget {self.budget!r} keeps a number of terms, two or more, of any age; "
                f"got {came}. Give terms= alone, or budget='oldest'."
            )

    @property
    def policy(self) -> Budget:
        """Which term goes when there are more than the window holds."""
        return BUDGETS[self.budget]

    def check(self, kernel: Kernel, rule: Rule) -> None:
        refusal = self.policy.refusal(kernel)
        if refusal is not None:
            others = [f"budget={w!r}" for w, b in BUDGETS.items() if b.refusal(kernel) is None]
            raise ValueError(
                f"Window: budget {self.budget!r} {refusal}; got {kernel!r}. Give "
                f"{' or '.join(others)}, or another kernel."
            )

    def open(self, kernel: Kernel, frame: Frame | None, limit: int = 0) -> Any:
        """Return empty storage for terms, of which there will be at most `limit`."""
        if isinstance(kernel, Spectrum):
            return StringTerms(kernel, 0)
        assert frame is not None  # rows of numbers
        return DenseTerms(kernel, frame, 0, limit)

    def bind(self, rule: BoundRule, loss: Loss, kernel: Kernel) -> BoundWindow:
        """Return the window with its numbers chosen for this rule, loss and kernel."""
        bounded = any(v is not None for v in (self.age, self.tolerance, self.growth))
        terms = self.terms
        if terms == "auto":
            terms = None if bounded else DEFAULT_TERMS
        cap = bounds.NEVER if terms is None else min(int(terms), bounds.NEVER)
        if self.growth is not None:
            start = self._growth_start(rule)
            return BoundWindow(cap, self.policy, growth=self.growth, start=start)
        age = self.age if self.tolerance is None else self._age_for(rule, loss, kernel)
        age = bounds.NEVER if age is None else min(int(age), bounds.NEVER)
        return BoundWindow(cap, self.policy, age=age)

    def _age_for(self, rule: BoundRule, loss: Loss, kernel: Kernel) -> int:
        rate = getattr(rule, "constant", None)
        if kernel.bound is None or rate is None:
            raise ValueError(
                "Window: tolerance needs a kernel with bounded k(x, x) and a constant learning "
                f"rate; kernel {kernel!r} has bound {kernel.bound} and the rate is {rate}. "
                "Give age= or terms= instead."
            )
        assert self.tolerance is not None
        return bounds.truncation_age(self.tolerance, rate, rule.lam, loss.lipschitz, kernel.bound)

    def _growth_start(self, rule: BoundRule) -> int:
        schedule = getattr(rule, "schedule", None)
        if getattr(schedule, "exponent", None) == 0.5:  # what bounds.norma_risk_truncated gives
            schedule = InverseSqrt(schedule.rate)  # type: ignore[union-attr]
        if not isinstance(schedule, InverseSqrt) or not 0 < schedule.rate * rule.lam < 1:
            raise ValueError(
                "Window: growth follows N04 Theorem 6, which needs "
                "learning_rate=schedules.InverseSqrt(eta) and 0 < eta * regularization < 1; got "
                f"{schedule!r} with regularization {rule.lam:g}. Give age= or terms= instead."
            )
        assert self.growth is not None
        return bounds.growth_start(schedule.rate * rule.lam, self.growth)


@dataclass(frozen=True)
class BoundWindow:
    """A window with its numbers: `cap` terms at most, and an age that may depend on t."""

    cap: int
    budget: Budget
    """Which term goes when there are more than `cap`."""
    age: int = bounds.NEVER
    growth: float | None = None
    start: int = 0

    def room(self, count: int) -> int:
        """Return how many rows may come at once beside so many terms."""
        return bounds.NEVER if self.budget.one_by_one else self.cap - count

    def ages(self, t: Array) -> Array:
        """Return s_t: the hypothesis at trial t holds terms stored at t - s_t ... t - 1."""
        if self.growth is None:
            return np.full(t.shape, self.age, np.int64)
        return bounds.growth_window(t, self.start, self.growth)

    def oldest(self, t: Array) -> Array:
        """Return the birth below which terms are dropped at the end of trial t."""
        return t + 1 - self.ages(t + 1)
