"""The last values of a series, and what is made of them: lags, shapes, differences, roughness.

Everything is added up in a fixed order, so that rows in blocks give the same bits as single rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.saved import Saved

Array = NDArray[Any]

HORIZON = 10_000
"""Rows over which the typical spread is taken: all so far, or about the last so many."""
SMOOTH = 0.03
"""Roughness below this part of the usual is as good as none."""


@dataclass(frozen=True)
class Looks:
    """What is made of the last values: how many lags, values of a shape, steps of a roughness."""

    lags: int = 0
    shape: int = 0
    differences: bool = False
    roughness: int = 0
    forecast: int = 0

    @property
    def reach(self) -> int:
        """How many values before the present one are looked at."""
        return max(self.lags, self.shape - 1, self.roughness, self.forecast, 1)

    def names(self, columns: list[str]) -> list[str]:
        """Return the names of what is made of some columns, but for the forecast's.

        Examples
        --------
        >>> Looks(lags=1, shape=2, differences=True, roughness=8).names(["flow"])
        ['flow', 'flow lag 1', 'flow shape 0', 'flow shape 1', 'flow difference', 'flow roughness']
        """
        kinds = [""]
        kinds += [f" lag {j}" for j in range(1, self.lags + 1)]
        kinds += [f" shape {j}" for j in range(self.shape)]
        kinds += [" difference"] * self.differences + [" roughness"] * (self.roughness > 0)
        return [column + kind for kind in kinds for column in columns]


class Running:
    """The mean of what came so far, or of about the last `HORIZON`, column by column.

    ``m <- m + (q - m) / min(t, HORIZON)``
    """

    def __init__(self, columns: int) -> None:
        self.seen = 0
        self.mean = np.zeros(columns)

    def path(self, values: Array) -> Array:
        """Take rows in; return the mean after each of them."""
        shares = np.minimum(np.arange(self.seen + 1, self.seen + 1 + len(values)), HORIZON)
        after = np.empty(values.shape)
        for j in range(values.shape[1]):
            after[:, j] = _means(values[:, j].tolist(), shares.tolist(), float(self.mean[j]))
        if len(values):
            self.seen, self.mean = min(self.seen + len(values), HORIZON), after[-1].copy()
        return after

    def copy(self) -> Running:
        """Return an independent copy."""
        other = Running(0)
        other.seen, other.mean = self.seen, self.mean.copy()
        return other

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold."""
        return {"seen": self.seen, "mean": self.mean.copy()}

    def restore(self, saved: Saved) -> None:
        """Become what a file holds."""
        self.seen = saved.whole("seen", high=HORIZON)
        self.mean = saved.array("mean", (len(self.mean),), np.float64, low=0.0)
        saved.finish()


def _means(values: list[float], shares: list[int], mean: float) -> list[float]:
    after = []
    for value, share in zip(values, shares, strict=True):
        mean += (value - mean) / share
        after.append(mean)
    return after


class Line:
    """Some rows with those before them: earlier values by their lag."""

    def __init__(self, before: Array, rows: Array) -> None:
        self.values = np.concatenate([before, rows])
        self.reach, self.count = len(before), len(rows)

    def lag(self, j: int) -> Array:
        """Return the values j rows before each row."""
        return self.values[self.reach - j : self.reach - j + self.count]

    def shape(self, count: int, typical: Running) -> Array:
        """Return the last values around their mean, in units of their typical spread."""
        ahead = [self.lag(j) - self.lag(0) for j in range(count)]  # exact 0 where nothing moved
        mean = ahead[0]
        for part in ahead[1:]:
            mean = mean + part
        around = [part - mean / count for part in ahead]
        power = around[0] * around[0]
        for part in around[1:]:
            power = power + part * part
        spread = np.sqrt(typical.path(power / count))
        unit = np.where(spread > 0.0, spread, 1.0)
        return np.concatenate([part / unit for part in around], axis=1)

    def roughness(self, count: int, typical: Running) -> Array:
        """Return the logarithm of the last steps' spread, in units of the typical one."""
        steps = [self.lag(j) - self.lag(j + 1) for j in range(count)]
        usual = typical.path(steps[0] * steps[0])
        power = steps[0] * steps[0]
        for step in steps[1:]:
            power = power + step * step
        moved = usual > 0.0
        rough = SMOOTH + np.sqrt(power / count / np.where(moved, usual, 1.0))
        return np.log(np.where(moved, rough, 1.0))
