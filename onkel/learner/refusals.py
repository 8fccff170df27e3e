"""Rows whose numbers leave the floating range, refused with what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.inputs import RefusedRow
from onkel.kernels import Kernel
from onkel.learner.settings import Settings

Array = NDArray[Any]


LONGEST = {np.dtype(np.float32): 1e30, np.dtype(np.float64): 1e100}
"""Steps in raw units: their products with ordinary rows, and sums of them, stay in range."""
LONGEST_SCALED = 1e18
"""Where rows and targets have spreads around 1, and scores are of that size."""


def longest_step(dtype: Any, scale: bool) -> float:
    """Return how far a row may move f, ``abs(coef) sqrt(k(x, x))``, before it is refused.

    Examples
    --------
    >>> longest_step(np.dtype(np.float32), scale=False)
    1e+30
    """
    return LONGEST_SCALED if scale else LONGEST[np.dtype(dtype)]


class Refusals:
    """What a learner says of rows that it cannot learn."""

    settings: Settings
    kernel: Kernel

    def refuse_infinite(self, sizes: Array, row: int) -> None:
        """Refuse rows whose k(x, x) has left the floating range; `row` counts from the call."""
        bad = np.flatnonzero(~np.isfinite(sizes))
        if len(bad):
            at = row + int(bad[0])
            raise RefusedRow(
                f"Row {at}: k(x, x) is not finite under {self.kernel!r}; its values are too large"
                f"{self.advice}. The model was not changed.",
                at,
            )

    def refuse_step(self, row: int, score: Array) -> None:
        advice = "Its values, its target or its weight are too large"
        if hasattr(self.settings.rule, "learning_rate"):
            advice += (
                ". Where it is like the others the learning rate is too large for this loss and "
                "kernel: lower learning_rate, or use a loss with bounded slope"
            )
        raise RefusedRow(
            f"Row {row}: the step leaves the floating range (score {score.tolist()}). {advice}"
            f"{self.advice}. The model was not changed.",
            row,
        )

    @property
    def advice(self) -> str:
        return "" if self.settings.scale else " (scale=True would standardise them)"
