"""Rows whose numbers leave the floating range, refused with what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core.frame import Apart
from onkel.core.layout import CODES
from onkel.core.numpy_core import are_codes
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


def checked_apart(settings: Settings, features: int, apart: Apart) -> Apart:
    """Return what codes are apart, or refuse what they cannot be, or a kernel that knows none."""
    if not apart:
        return apart
    if len(apart) > features or not all(type(u) is float and 0 < u < CODES for u in apart):
        raise ValueError(
            f"apart must hold numbers in (0, {CODES}), one for each column of codes, of at most "
            f"{features} columns; got {apart!r}."
        )
    if settings.kernel.domain == "strings" or settings.kernel.resolve(1).program() is None:
        raise ValueError(
            f"{settings.kernel!r} takes numbers alone, and the rows have {len(apart)} columns of "
            "codes (categories, words). Use kernels.Gaussian(), Laplacian(), Matern(), Linear() "
            "or Polynomial(), sums and products of them, or leave those columns out."
        )
    return apart


def check_codes(X: Any, count: int, first: int) -> None:
    """Refuse rows of which the first so many columns are not all codes."""
    for start in range(0, len(X) if count else 0, 1024):
        rows = X[start : start + 1024]
        if not core.has_codes(rows, count):
            bad = int(np.argmin(are_codes(rows[:, :count]).all(axis=1)))
            raise RefusedRow(
                f"Row {first + start + bad}: its first {count} values must be codes, whole "
                f"numbers from 0 to {CODES - 1}; got {rows[bad, :count].tolist()}. The model was "
                "not changed.",
                first + start + bad,
            )


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
