"""NORMA: stochastic gradient descent on the regularised risk (N04 (9)-(12), N01 (5)-(10))."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.clock import is_duration, seconds
from onkel.core.layout import Move, NativeRule, RuleCode, Trial
from onkel.losses import Loss
from onkel.params import POSITIVE, Accept, Part
from onkel.rules.base import ANY_SPACE, BoundRule, Rule, Space
from onkel.rules.theory import theory_rate
from onkel.schedules import Constant, Regularized, Schedule

Array = NDArray[Any]

DEFAULT_MEMORY = 100_000


@dataclass(frozen=True)
class Norma(Rule):
    """Naive Online R_reg Minimisation.

    ``f <- (1 - eta lam) f - eta l'(f(x) + b, y) k(x, .)``, ``b <- b - eta l'``

    Parameters
    ----------
    learning_rate : float, schedule, function of t or "theory", optional
        eta. By default what suits the loss: 0.4 for classification, 0.5 for squared loss (for
        Huber's 0.5 sigma), 0.2 for other regression losses, 1 for novelty (where it only sets the
        scale of the scores); divided by the kernel's typical k(x, x), 1 for the Gaussian, the
        number of features for the linear kernel. "theory" is coefficient regularisation's
        ``t^(-1/2) / (M kappa^2 + lam)``, for ``expansions.Centers``.
    memory : float or duration, optional
        Forgetting horizon in examples, 1/(eta lam); with a schedule lam = 1/(eta_1 memory). A
        duration (``"12h"``, a timedelta) forgets by the clock instead: ``exp(-gap/memory)``
        takes the place of ``1 - eta lam``, with ``time=`` beside X and y.
        100 000 by default; infinity never forgets.
    regularization : float, optional
        lam itself, instead of `memory`.
    threshold_rate : float
        Step of the adaptive number (rho, epsilon, sigma) in units of eta (of a default rate:
        before its division). 1 is the paper's; more keeps the promised rate while f is still
        growing, with a little more noise.
    support_rate : float, optional
        Novelty detection: step of the threshold that f learns by, where it is to differ from
        that of the alert threshold; the same as `threshold_rate` if None.
    regularizer : float or function, optional
        p of ``omega(r) = r^p / p`` in the penalty lam omega(||f||); 2 is the paper's main case.
        Or a function of ||f|| that returns omega'(||f||).
    track_norm : bool
        Keep ||f||^2 (each dropped term then costs a second evaluation), which the instantaneous
        risk in ``diagnostics_`` needs. Kept anyway where a regularizer needs it.

    References
    ----------
    N04 (9)-(12) and Fig. 1; N01 (6)-(10); other regularisers N01 section 2.

    Examples
    --------
    >>> from onkel.losses import SoftMargin
    >>> Norma(learning_rate=0.5, memory=1000).bind(SoftMargin()).lam
    0.002
    """

    word: ClassVar[str] = "norma"
    learning_rate: Any = None
    memory: Any = None
    regularization: float | None = None
    threshold_rate: float = 1.0
    support_rate: float | None = None
    regularizer: float | Callable[[float], float] = 2.0
    track_norm: bool = False
    has_link: ClassVar[bool] = True
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "learning_rate": Accept(
            low=0, low_open=True, high_open=True, none=True, function=True, words=("theory",),
            hint="Schedules are in onkel.schedules; a function maps trials 1, 2, ... to rates.",
        ),
        "memory": Accept(
            low=1, none=True, duration=True,
            hint="A number counts examples, memory = 1/(eta * lambda): below 1, eta * lambda is "
            "above 1. A duration goes by the clock, with time= beside X and y.",
        ),
        "regularization": Accept(low=0, high_open=True, none=True),
        "threshold_rate": POSITIVE,
        "support_rate": Accept(low=0, low_open=True, high_open=True, none=True),
        "regularizer": Accept(low=1, high_open=True, function=True),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.track_norm, bool):
            raise ValueError(f"Norma: track_norm must be True or False; got {self.track_norm!r}.")
        for name, kind in (("learning_rate", Schedule), ("regularizer", ())):
            value = getattr(self, name)
            if isinstance(value, Part) and not isinstance(value, kind):
                raise ValueError(f"Norma: {name} must be {self.accepts(name).describe()}; got "
                                 f"{value!r}.")  # fmt: skip
        if self.memory is not None and self.regularization is not None:
            raise ValueError(
                f"Norma: memory={self.memory!r} and regularization={self.regularization!r} were "
                "both given, and each sets the other: memory = 1/(learning_rate * "
                "regularization). Give one."
            )

    @property
    def offers_offset(self) -> bool:
        """The theory of coefficient regularisation knows no offset."""
        return not isinstance(self.learning_rate, str)

    def bind(self, loss: Loss, space: Space = ANY_SPACE) -> BoundNorma:
        schedule = self._schedule(loss, space)
        first = float(_rates(schedule, np.array([1]))[0])
        if isinstance(schedule, Regularized):
            lam = self._lam_of(schedule)
        elif self.regularization is not None:
            lam = float(self.regularization)
        elif is_duration(self.memory):
            lam = 0.0  # it depends on the gaps
        else:
            lam = 1.0 / (first * float(DEFAULT_MEMORY if self.memory is None else self.memory))
        if not np.isfinite(lam):
            raise ValueError(
                f"Norma: learning_rate {first:g} is too small: with this memory the regularization "
                "1/(learning_rate * memory) is not finite. Raise learning_rate."
            )
        # A rate that was divided to suit the kernel still moves thresholds at its full size.
        pace = space.size if self.learning_rate is None else 1.0
        return BoundNorma(self, schedule, lam, pace)

    def settled(self, bound: BoundRule) -> Norma:
        """Return the rule with "theory" replaced by its schedule: an eigenvalue went into it."""
        if not isinstance(self.learning_rate, str):
            return self
        assert isinstance(bound, BoundNorma)
        return replace(self, learning_rate=bound.schedule)

    def _schedule(self, loss: Loss, space: Space) -> Callable[[Array], Array]:
        rate = self.learning_rate
        if rate is None:
            return Constant(loss.default_rate / space.size)
        if isinstance(rate, str):
            return theory_rate(loss, space, self.regularization)
        return rate if callable(rate) else Constant(float(rate))

    def _lam_of(self, schedule: Regularized) -> float:
        """The schedule 1/(3 lam sqrt(t)) brings its own lam; another one is a contradiction."""
        lam = float(schedule.regularization)
        if self.memory is not None or self.regularization not in (None, schedule.regularization):
            raise ValueError(
                f"Norma: the schedule {schedule!r} sets regularization={lam:g}; leave memory "
                "unset, and regularization unset or the same number."
            )
        return lam


def _rates(schedule: Callable[[Array], Array], t: Array) -> Array:
    rates = np.asarray(schedule(t), np.float64)
    if rates.shape != t.shape:
        raise ValueError(
            f"learning_rate: the schedule must map an array of {t.size} trials to as many rates; "
            f"it returned shape {rates.shape}."
        )
    if not np.all(np.isfinite(rates) & (rates > 0)):
        i = int(np.flatnonzero(~(np.isfinite(rates) & (rates > 0)))[0])
        raise ValueError(
            f"learning_rate: rates must be positive and finite; trial {t[i]} got {rates[i]!r}."
        )
    return rates


class BoundNorma(BoundRule):
    """NORMA with its numbers."""

    def __init__(
        self, rule: Norma, schedule: Callable[[Array], Array], lam: float, pace: float = 1.0
    ) -> None:
        self.schedule = schedule
        self.lam = lam
        self.threshold_rate = pace * float(rule.threshold_rate)
        inner = rule.threshold_rate if rule.support_rate is None else rule.support_rate
        self.support_rate = pace * float(inner)
        self.regularizer = rule.regularizer
        other = callable(rule.regularizer) or float(rule.regularizer) != 2.0
        self.needs_norm = rule.track_norm or other
        first = float(self.rates(np.array([1]))[0])
        self.memory = 1.0 / (first * lam) if lam > 0 else float("inf")
        if is_duration(rule.memory):
            self.duration = seconds(rule.memory) or math.inf
        elif rule.regularization is None and not isinstance(schedule, Regularized):
            self.memory = float(DEFAULT_MEMORY if rule.memory is None else rule.memory)

    @property
    def constant(self) -> float | None:
        """The rate, where it does not change."""
        return getattr(self.schedule, "constant", None)

    def rates(self, t: Array) -> Array:
        rates = _rates(self.schedule, t)
        worst = float(rates.max(initial=0.0)) * self.lam
        if worst > 1 + 1e-12:
            raise ValueError(
                f"learning_rate * regularization must be at most 1; at trial "
                f"{int(t[int(rates.argmax())])} it is {worst:g} (rate {float(rates.max()):g}, "
                f"regularization {self.lam:g}). Lower one of them, or set memory instead."
            )
        return rates

    def lams(self, t: Array, gaps: Array | None = None) -> Array:
        if gaps is None or math.isinf(self.duration):
            return super().lams(t)  # beside others that go by the clock, it may count examples
        return -np.expm1(-gaps / self.duration) / self.rates(t)

    def pull(self, norm2: float) -> float:
        """Return omega'(||f||) / ||f||; 0 at f = 0."""
        if not callable(self.regularizer) and self.regularizer == 2:
            return 1.0
        if not norm2 > 0:
            return 0.0
        if callable(self.regularizer):
            return float(self.regularizer(norm2**0.5)) / norm2**0.5
        return float(norm2 ** (self.regularizer / 2 - 1))

    def step(self, trial: Trial, loss: Any) -> Move:
        verdict = loss.judge(trial.f + trial.offset, trial.y, trial.threshold)
        shrink = max(1.0 - trial.eta * trial.lam * self.pull(trial.norm2), 0.0)
        coef = trial.eta * trial.weight * verdict.slope
        threshold, alert = trial.threshold, trial.alert
        if loss.adaptive:
            step = trial.eta * trial.weight
            rate = self.support_rate if loss.alerts else self.threshold_rate
            threshold += rate * step * verdict.direction
            if loss.alerts:
                outside = float(trial.f + trial.offset < alert)
                alert += self.threshold_rate * step * (loss.nu - outside)
                if outside and not loss.learn_alerts:
                    coef = 0.0  # f shrinks, thresholds move, nothing is stored
        return Move(shrink, coef, trial.offset + coef * trial.intercept, threshold, alert, verdict)

    def penalty(self, trial: Trial) -> float:
        if callable(self.regularizer):
            return float("nan")
        return trial.lam * float(trial.norm2 ** (self.regularizer / 2)) / self.regularizer

    def native(self) -> NativeRule | None:
        if callable(self.regularizer):
            return None
        power = float(self.regularizer)
        return NativeRule(RuleCode.NORMA, self.threshold_rate, power, self.support_rate)
