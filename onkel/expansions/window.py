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
from onkel.expansions.budgets import OLDEST, Budget
from onkel.expansions.dense import DenseTerms
from onkel.expansions.strings import StringTerms
from onkel.kernels import Kernel, Spectrum
from onkel.losses import Loss
from onkel.params import Accept
from onkel.rules.base import BoundRule
from onkel.schedules import InverseSqrt

Array = NDArray[Any]

DEFAULT_TERMS = 10_000


@dataclass(frozen=True)
class Window(Expansion):
    """A truncated kernel expansion: the oldest term goes first.

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

    Examples
    --------
    >>> Window(age=1000)
    Window(terms='auto', age=1000, tolerance=None, growth=None)
    """

    terms: int | str | None = "auto"
    age: int | None = None
    tolerance: float | None = None
    growth: float | None = None
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "terms": Accept(low=1, high_open=True, whole=True, none=True, words=("auto",)),
        "age": Accept(low=1, high_open=True, whole=True, none=True),
        "tolerance": Accept(low=0, low_open=True, high_open=True, none=True),
        "growth": Accept(low=0, low_open=True, high=0.5, high_open=True, none=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [n for n in ("age", "tolerance", "growth") if getattr(self, n) is not None]
        if len(given) > 1:
            raise ValueError(
                f"Window: {' and '.join(given)} each set the age of the terms; give one of them "
                "(terms= may stand beside it)."
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
            return BoundWindow(cap, growth=self.growth, start=self._growth_start(rule))
        age = self.age if self.tolerance is None else self._age_for(rule, loss, kernel)
        return BoundWindow(cap, age=bounds.NEVER if age is None else min(int(age), bounds.NEVER))

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
    age: int = bounds.NEVER
    growth: float | None = None
    start: int = 0
    budget: Budget = OLDEST
    """Which term goes when there are more than `cap`."""

    def ages(self, t: Array) -> Array:
        """Return s_t: the hypothesis at trial t holds terms stored at t - s_t ... t - 1."""
        if self.growth is None:
            return np.full(t.shape, self.age, np.int64)
        return bounds.growth_window(t, self.start, self.growth)

    def oldest(self, t: Array) -> Array:
        """Return the birth below which terms are dropped at the end of trial t."""
        return t + 1 - self.ages(t + 1)
