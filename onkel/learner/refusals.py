"""Rows whose numbers leave the floating range, refused with what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.kernels import Kernel
from onkel.learner.settings import Settings

Array = NDArray[Any]


class Refusals:
    """What a learner says of rows that it cannot learn."""

    settings: Settings
    kernel: Kernel

    def refuse_infinite(self, sizes: Array, row: int) -> None:
        """Refuse rows whose k(x, x) has left the floating range; `row` counts from the call."""
        bad = np.flatnonzero(~np.isfinite(sizes))
        if len(bad):
            raise ValueError(
                f"Row {row + bad[0]}: k(x, x) is not finite under {self.kernel!r}; its values are "
                f"too large{self.advice}. The model was not changed."
            )

    def refuse_step(self, row: int, score: Array) -> None:
        advice = "Its values are too large"
        if hasattr(self.settings.rule, "learning_rate"):
            advice = (
                "The learning rate is too large for this loss and kernel, or the inputs are: lower "
                "learning_rate, or use a loss with bounded slope"
            )
        raise ValueError(
            f"Row {row}: the step leaves the floating range (score {score.tolist()}). {advice}"
            f"{self.advice}. The model was not changed."
        )

    @property
    def advice(self) -> str:
        return "" if self.settings.scale else " (scale=True would standardise them)"
