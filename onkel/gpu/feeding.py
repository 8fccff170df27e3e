"""What the scalar steps need of each row: rates, weights, targets; and of rule and loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import RuleCode, row_of
from onkel.gpu.launch import StepKind
from onkel.rules.base import BoundRule

Array = NDArray[Any]


def kind_of(
    loss: Any, rule: Any, bounded: bool, intercept: bool, steady: bool, aged: bool, drops: int = 1
) -> StepKind:
    """Return what is compiled into the steps, for a built-in loss and a bound rule."""
    a, b = loss.native(), rule.native()
    return StepKind(
        int(b.code), int(a.code), a.nu, a.extra, a.learn_alerts, intercept, rule.needs_norm,
        b.radius, b.power, b.extra if b.code == RuleCode.ALMA else 0.0, b.threshold_rate,
        b.support_rate, bounded, drops, steady, aged,
    )  # fmt: skip


def shrinks(rule: BoundRule, eta: Array, lam: Array) -> Array:
    """Return by what f shrinks at each row, where that does not depend on f."""
    native = rule.native()
    code = None if native is None else row_of(RuleCode, "rule", native.code)
    if code == RuleCode.NORMA:
        return np.maximum(1.0 - eta * lam, 0.0)
    if code in (RuleCode.ALMA, RuleCode.PROJECTION):
        return np.ones(len(eta))
    raise ValueError(
        f"onkel.gpu: the rule {'of your own' if code is None else code.name} is not among those "
        "whose shrinking is known: NORMA, ALMA, PROJECTION. Use device='cpu'."
    )


@dataclass(frozen=True)
class RowNumbers:
    """What the steps need of some rows: six numbers each, the oldest birth that stays, targets."""

    feed: Array
    """[6][rows], or [6][1] where it is the same for all: eta * weight, shrink, 1 / shrink, weight,
    eta * lam, lam."""
    oldest: Array
    y: Array
    trial: int
    """The number of the first row."""

    @property
    def steady(self) -> bool:
        """Whether rates and weights are the same for all rows."""
        return self.feed.shape[1] == 1 < self.y.shape[1]


def row_numbers(
    rule: BoundRule, eta: Array, lam: Array, weight: Array, oldest: Array, Y: Array, trial: int
) -> RowNumbers:
    """Return the numbers of some rows, once for all where they are the same."""
    if len(Y) > 1 and all(bool((a == a[0]).all()) for a in (eta, lam, weight)):
        eta, lam, weight = eta[:1], lam[:1], weight[:1]
    shrink = shrinks(rule, eta, lam)
    back = 1.0 / np.where(shrink > 0, shrink, 1.0)
    feed = np.stack([eta * weight, shrink, back, weight, eta * lam, lam])
    return RowNumbers(feed, oldest.astype(np.int64), np.ascontiguousarray(Y.T, np.float64), trial)
