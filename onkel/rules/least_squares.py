"""Recursive least squares: the best weights for all rows so far, at every row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.clock import is_duration, seconds
from onkel.losses import Huber, LeastSquares, Loss, Squared
from onkel.params import Accept
from onkel.rules.base import ANY_SPACE, BoundRule, Rule, Space

Array = NDArray[Any]


@dataclass(frozen=True)
class RecursiveLeastSquares(Rule):
    """Second-order learning: a matrix P beside the weights says how sure each direction is.

    ``w <- w + s P x / (1 + x'P x)``, ``P <- P - P x x'P / (1 + x'P x)``, s the error

    Where nothing is forgotten w is, after every row, the ridge regression on all rows so far. Each
    row costs O(m^2) for m features; needs ``expansion=Centers(m)`` or a linear model. There is no
    rate to choose, and predictions have a standard deviation (``predict(X, return_std=True)``).

    Parameters
    ----------
    memory : float or duration, optional
        Forgetting horizon, in rows or by the clock (``"12h"``). What a row tells about is
        forgotten, and nothing else: long silence does no harm. None forgets nothing, and the
        weights are those of ridge regression.
    ridge : float
        Prior: weights have variance 1/ridge, in units of the noise, and never more.
    nu : float in (0, 1)
        Regression: the share of targets outside of the intervals in the long run.

    References
    ----------
    Kulhavy, "Restricted exponential forgetting in real-time identification", Automatica 23 (1987),
    for the forgetting; Engel, Mannor & Meir, "The kernel recursive least-squares algorithm", IEEE
    TSP 52 (2004), over kernels.

    Examples
    --------
    >>> from onkel import LinearRegressor
    >>> reg = LinearRegressor("squared", RecursiveLeastSquares(memory=None), scale=False)
    >>> reg.partial_fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]).predict([[10.0]]).round(3)
    array([21.])
    """

    word: ClassVar[str] = "rls"
    memory: Any = 10_000
    ridge: float = 1e-6
    nu: float = 0.1
    losses: ClassVar[tuple[type[Loss], ...]] = (Squared, Huber, LeastSquares)
    adapts: ClassVar[bool] = False
    has_offset: ClassVar[bool] = False
    second_order: ClassVar[bool] = True
    named: ClassVar[Mapping[str, Loss]] = {"soft_margin": LeastSquares()}
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "memory": Accept(
            low=2, none=True, duration=True,
            hint="A number counts examples; a duration goes by the clock, with time= beside X "
            "and y. None forgets nothing.",
        ),
        "ridge": Accept(low=1e-12, high=1e12),
        "nu": Accept(
            low=0, low_open=True, high=1, high_open=True,
            hint="It is the share of targets outside the intervals, for example 0.1.",
        ),
    }  # fmt: skip

    def bind(self, loss: Loss, space: Space = ANY_SPACE) -> BoundSquares:
        return BoundSquares(self, loss)


class BoundSquares(BoundRule):
    """Recursive least squares with its numbers."""

    def __init__(self, rule: RecursiveLeastSquares, loss: Loss) -> None:
        self.most = 1.0 / float(rule.ridge)
        self.nu = float(rule.nu)
        self.clip = float(loss.sigma) if isinstance(loss, Huber) else math.inf
        """Errors count for at most this."""
        if is_duration(rule.memory):
            self.duration = seconds(rule.memory) or math.inf
        elif rule.memory is not None:
            self.memory = float(rule.memory)

    def start(self, loss: Loss) -> float:
        """Return the noise before the first row."""
        return 0.0

    def pull(self, norm2: float) -> float:
        """Time alone forgets nothing of f."""
        return 0.0

    def keeps(self, rows: int, features: int, gaps: Array | None = None) -> Array:
        """Return what is left of what is known along each row, `gaps` seconds after the last.

        A row forgets along itself alone: with many features each is forgotten as many times more
        slowly, so that a row must forget more.
        """
        if gaps is None or math.isinf(self.duration):
            return np.full(rows, 1.0 / (1.0 + features / self.memory))
        return 1.0 / (1.0 + features * gaps / self.duration)
