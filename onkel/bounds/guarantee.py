"""What a theorem returns, and what its quantities may be.

One table holds what each argument accepts, so that a name means the same in every function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from onkel.params import Accept

__all__ = ["Guarantee", "Rate"]

Array = NDArray[Any]
P = ParamSpec("P")
R = TypeVar("R")


def _positive(hint: str) -> Accept:
    return Accept(low=0, low_open=True, high_open=True, hint=hint)


def _from_zero(hint: str) -> Accept:
    return Accept(low=0, high_open=True, hint=hint)


def _count(hint: str) -> Accept:
    return Accept(low=1, high_open=True, whole=True, hint=hint)


def _share(hint: str, none: bool = False) -> Accept:
    return Accept(low=0, low_open=True, high=1, none=none, hint=hint)


ACCEPTS: Mapping[str, Accept] = {
    "radius": _positive("It bounds the norm of every comparator (B)."),
    "bound": _positive("It bounds sqrt(k(x, x)), or the p-norm of the inputs (X)."),
    "target_margin": _positive("It is the margin mu at which the comparator's loss is counted."),
    "margin": _from_zero("It is the margin rho of the algorithm, below target_margin."),
    "loss": _from_zero("It bounds the comparator's cumulative hinge loss at target_margin (K)."),
    "trials": _count("The number of trials must be known beforehand."),
    "path": _from_zero("It bounds the length of the comparator's path (D, D1); 0: it stays."),
    "squared_path": _from_zero("It bounds the sum of the comparator's squared steps (D2)."),
    "p": Accept(low=2, high_open=True, hint="Kernels have p = 2; linear learners may have more."),
    "step": _positive("It is the step before shrinking, eta' (ALMA: alpha)."),
    "weight_decay": _from_zero("It is the regularization that the run uses."),
    "risk": Accept(low_open=True, high_open=True, hint="It is the comparator's mean risk."),
    "learning_rate": _positive("It is the first rate, eta in eta t^(-1/2)."),
    "regularization": _positive("The theorem needs forgetting: regularization above 0."),
    "slope": _positive("It bounds abs(l'); the squared loss has no such bound."),
    "growth": Accept(low=0, low_open=True, high=0.5, high_open=True, hint="0.25 is a start."),
    "risk_limit": _positive("It bounds the instantaneous risk; see soft_margin_risk."),
    "delta": Accept(low=0, low_open=True, high=1, high_open=True,
                    hint="It is the probability that the bound may fail; 0.05 is usual."),
    "distance": _from_zero("It is a distance between two hypotheses."),
    "norm": _from_zero("It is a norm."),
    "excess": _from_zero("It is a regularised risk less the least one."),
    "kappa": _positive("It bounds the norm of the features; see coefficient_kappa."),
    "theta": Accept(low=0, low_open=True, high=1, hint="Rates fall as t^(-theta)."),
    "beta": Accept(low=0, low_open=True, high=1, hint="D(lam) falls as lam^beta."),
    "regularization_error": Accept(low=0, high_open=True, none=True, hint="It is D(lam)."),
    "centers": _count("It is the number of centres."),
    "kernel_bound": _positive("It bounds abs(k(x, z)) over all pairs."),
    "gap": _positive("It is the distance between two margins."),
    "complexity": _positive("It is C, of the size of the data and the comparator."),
    "constant": _positive("It is c in D(lam) <= c lam^beta."),
    "members": Accept(low=2, high_open=True, whole=True, hint="It is the number of members, N."),
    "switches": Accept(low=0, high_open=True, whole=True, hint="0 is the best fixed member."),
    "rate": Accept(low=0, low_open=True, high_open=True, none=True,
                   hint="It is the rate of the weights; None takes the best one."),
    "share": Accept(low=0, high=1, high_open=True, none=True, hint="None takes the best one."),
    "best_loss": Accept(low=0, high_open=True, none=True, hint="It is the sequence's loss."),
    "mix_gap": Accept(low=0, high_open=True, none=True, hint="It is measured by the run."),
    "nu": Accept(low=0, low_open=True, high=1, high_open=True, hint="It is the promised rate."),
    "level_rate": _positive("It is what log a falls by with an alert."),
    "low": _share("It is the least that the level may be."),
    "high": _share("It is the most that the level may be."),
    "forgiven": _from_zero("It is what the lower limit cut off, measured by the run."),
    "unspent": _from_zero("It is what the upper limit cut off, measured by the run."),
    "width_rate": _positive("It is what log q rises by with a miss."),
    "narrowest": _positive("It is the least that q may be."),
    "widest": _positive("It is the most that q may be."),
    "first": Accept(low=0, low_open=True, high_open=True, none=True, hint="None is -log(nu)."),
    "last": Accept(low=0, low_open=True, high_open=True, none=True,
                   hint="None bounds the misses without it."),
    "ask": Accept(low=0, low_open=True, high=1, high_open=True, hint="It is the promised share."),
    "ask_rate": _positive("It is what the level rises by with a row that is asked for."),
    "ask_start": Accept(low=0, high=1, none=True, hint="None is 1 - ask."),
    "ask_end": Accept(low_open=True, high_open=True, none=True,
                      hint="None bounds the rows without it."),
    "answered": _count("It is the number of answers."),
    "precision": Accept(low=0, low_open=True, high=1, high_open=True,
                        hint="It is the promised share of faults, such as 0.8."),
    "lowest": _share("No alert has a p below it."),
    "waiting": Accept(low=0, high_open=True, whole=True,
                      hint="It is the number of alerts that may wait for an answer at once."),
    "start": _share("None is nu.", none=True),
    "end": _share("None bounds the alerts without it.", none=True),
}  # fmt: skip


def check(owner: str, **values: Any) -> None:
    """Raise a ValueError for the first value that its name does not accept."""
    for name, value in values.items():
        ACCEPTS[name].check(owner, name, value)


def theorem(function: Callable[P, R]) -> Callable[P, R]:
    """Turn a number that leaves the floating range on the way into an error that says so."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (OverflowError, ZeroDivisionError) as error:
            raise ValueError(
                f"{function.__name__}: the bound does not fit into floating point; got {kwargs}. "
                "Scale the inputs or the margin, so that the quantities are nearer to 1."
            ) from error

    return call


@dataclass(frozen=True)
class Rate:
    """A learning rate that falls as a power of the trial; what a tuning holds where it must fall.

    ``rate * t^(-exponent)``

    The same numbers as ``schedules.InverseSqrt(rate)`` (exponent 1/2) and
    ``schedules.Power(theta=exponent, mu=1/rate)``.

    Examples
    --------
    >>> Rate(0.5)(np.array([1, 4]))
    array([0.5 , 0.25])
    """

    rate: float
    exponent: float = 0.5

    def __call__(self, t: Array) -> Array:
        """Return the rates at trials `t`."""
        return self.rate * np.asarray(t, float) ** -self.exponent

    def __repr__(self) -> str:
        return f"{self.rate:g} t^-{self.exponent:g}"


@dataclass(frozen=True, repr=False)
class Guarantee:
    """What a theorem promises, and the tuning under which it does.

    ``counts <= bound``

    Parameters
    ----------
    counts : str
        What is bounded, in words.
    bound : float
        The bound.
    tuning : dict
        Keyword arguments of the rule: ``rules.Norma(**g.tuning)``, ``rules.Alma(**g.tuning)``,
        ``rules.Projection(**g.tuning)``.
    margin : float, optional
        What to give the loss: ``losses.SoftMargin(margin=g.margin)``.
    window : dict
        Keyword arguments of ``expansions.Window``, where the theorem is about truncation.
    details : dict
        Numbers met on the way, by their names in the papers.

    Examples
    --------
    >>> Guarantee("mistakes", 16.0, {"learning_rate": 1.0})
    Guarantee(mistakes <= 16, tuning={learning_rate: 1})
    """

    counts: str
    bound: float
    tuning: Mapping[str, Any] = field(default_factory=dict)
    margin: float | None = None
    window: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = [self.bound, *(v for v in self.tuning.values() if isinstance(v, float))]
        if not all(map(math.isfinite, numbers)) or self.tuning.get("learning_rate") == 0:
            raise ValueError(
                f"The bound on {self.counts} does not fit into floating point (bound "
                f"{self.bound:g}, {_words(self.tuning)}). Scale the inputs or the margin, so that "
                "the quantities are nearer to 1."
            )

    def __repr__(self) -> str:
        parts = [f"{self.counts} <= {self.bound:g}"]
        if self.margin is not None:
            parts.append(f"margin={self.margin:g}")
        parts += [f"tuning={_words(self.tuning)}"] * bool(self.tuning)
        parts += [f"window={_words(self.window)}"] * bool(self.window)
        return f"Guarantee({', '.join(parts)})"


def _words(numbers: Mapping[str, Any]) -> str:
    def word(v: Any) -> str:
        return f"{v:g}" if isinstance(v, float) else repr(v)

    return "{" + ", ".join(f"{name}: {word(v)}" for name, v in numbers.items()) + "}"
