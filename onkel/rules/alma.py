"""ALMA: approximately the largest margin, inside a ball (A02 section 3, Gentile 2001)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import Move, NativeRule, RuleCode, Trial
from onkel.losses import Loss, SoftMargin
from onkel.params import Accept
from onkel.rules.base import ANY_SPACE, BoundRule, Rule, Space, keep

Array = NDArray[Any]

DEFAULT_APPROXIMATION = 0.7


@dataclass(frozen=True)
class Alma(Rule):
    """Large-margin steps of fixed size, scaled back into a ball; or Gentile's self-tuning form.

    ``f' = f + alpha sigma y k(x, .)``, ``f <- f' / max(1, ||f'|| / B)``, sigma = [y f(x) <= rho]

    Scaling rho, alpha and B together changes no prediction. The self-tuning form needs no number
    but how near to the largest margin it shall come: on instances of norm 1 (done here for any
    kernel), at its k-th update the margin is ``(1 - a) sqrt(8) / (a sqrt(k))``, the step
    ``sqrt(2 / k)``, the ball that of radius 1; under a p-norm link the margin is multiplied, the
    step divided by ``sqrt(p - 1)``.

    Parameters
    ----------
    learning_rate : float, optional
        alpha of the fixed form; 0.1 times the radius by default.
    radius : float, optional
        B of the fixed form; 1 by default.
    approximation : float in (0, 1], optional
        a of the self-tuning form, which reaches (1 - a) of the largest margin; 0.7 if neither
        this nor `learning_rate` nor `radius` is given (of 0.3, 0.5, 0.7, 0.9 the best or next to
        it on six data sets). It brings its own margin: give the loss by its name.

    References
    ----------
    A02 section 3 (rho by the loss's margin). The self-tuning form: C. Gentile, A new approximate
    maximal margin classification algorithm, Journal of Machine Learning Research 2 (2001), 213-242.

    Examples
    --------
    >>> Alma(radius=2.0).bind(SoftMargin()).rates(np.array([1]))
    array([0.2])
    """

    word: ClassVar[str] = "alma"
    learning_rate: float | None = None
    radius: float | None = None
    approximation: float | None = None
    losses: ClassVar[tuple[type[Loss], ...]] = (SoftMargin,)
    adapts: ClassVar[bool] = False
    has_offset: ClassVar[bool] = False
    has_link: ClassVar[bool] = True
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "learning_rate": Accept(low=0, low_open=True, high_open=True, none=True),
        "radius": Accept(low=0, low_open=True, none=True, hint="math.inf leaves f free."),
        "approximation": Accept(low=0, low_open=True, high=1, none=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        fixed = [n for n in ("learning_rate", "radius") if getattr(self, n) is not None]
        if self.approximation is not None and fixed:
            raise ValueError(
                f"Alma: approximation chooses the self-tuning form, which sets "
                f"{' and '.join(fixed)} itself. Give approximation, or learning_rate and radius."
            )

    @property
    def tuning(self) -> float | None:
        """The a of the self-tuning form, or None for the fixed one."""
        if self.learning_rate is not None or self.radius is not None:
            return None
        given = self.approximation
        return DEFAULT_APPROXIMATION if given is None else float(given)

    def check(self, loss: Loss) -> None:
        super().check(loss)
        if self.tuning is not None and getattr(loss, "margin", None) is not None:
            raise ValueError(
                f"Alma: the self-tuning form sets the margin itself, but the loss is {loss!r}. "
                "Give loss='soft_margin', or learning_rate= and radius= for the fixed form."
            )

    def bind(self, loss: Loss, space: Space = ANY_SPACE) -> BoundAlma:
        self.check(loss)
        if self.tuning is not None:
            return BoundAlma(0.0, 1.0, self.tuning, space.p)
        radius = 1.0 if self.radius is None else float(self.radius)
        default = 0.1 * (radius if math.isfinite(radius) else 1.0) / space.size**0.5
        rate = default if self.learning_rate is None else float(self.learning_rate)
        return BoundAlma(rate, radius, 0.0, space.p)


class BoundAlma(BoundRule):
    """ALMA with its numbers: alpha, B, and a (0 for the fixed form)."""

    def __init__(self, rate: float, radius: float, tuning: float, p: float) -> None:
        self.rate, self.radius, self.tuning, self.p = rate, radius, tuning, p
        self.needs_norm = math.isfinite(radius)
        self.divides = bool(tuning)

    def rates(self, t: Array) -> Array:
        return np.full(t.shape, self.rate)

    def margin(self, k: float) -> float:
        """Return (1 - a) gamma_k of the self-tuning form."""
        return (1 - self.tuning) * (8**0.5 / self.tuning) * ((self.p - 1) / k) ** 0.5

    def start(self, loss: Loss) -> float:
        return self.margin(1) if self.tuning else loss.start

    def margin_after(self, updates: float) -> float | None:
        return self.margin(updates + 1) if self.tuning else None

    def step(self, trial: Trial, loss: Any) -> Move:
        if not self.tuning:
            verdict = loss.judge(trial.f, trial.y, trial.threshold)
            coef = trial.eta * trial.weight * verdict.slope
            return keep(trial, verdict, 1.0, coef, radius=self.radius)
        length = trial.kxx**0.5
        verdict = loss.judge(trial.f / length if length else 0.0, trial.y, trial.threshold)
        k = trial.updates + 1
        step = (2 / (k * (self.p - 1))) ** 0.5 / length if length else 0.0
        coef = trial.weight * verdict.slope * step
        margin = self.margin(k + (coef != 0))
        return keep(trial, verdict, 1.0, coef, radius=self.radius, threshold=margin)

    def native(self) -> NativeRule | None:
        return NativeRule(RuleCode.ALMA, radius=self.radius, extra=self.tuning)
