"""Drift of the inputs: the means and spreads of late, beside those of a long while."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LATE = 1000
LONG = 100_000
"""Rows over which the two averages run."""
MOST = 256
"""Features that are watched."""
SHOWN = 6


class Running:
    """Mean and variance that forget: a block of n rows weighs ``1 - (1 - 1/h)^n``.

    Until h rows have come, all count the same.

    Examples
    --------
    >>> run = Running(horizon=1000)
    >>> run.add(np.array([[1.0], [3.0]]))
    >>> float(run.mean[0]), float(run.variance[0])
    (2.0, 1.0)
    """

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.rows = 0
        self.mean = np.zeros(0)
        self.variance = np.zeros(0)

    def add(self, X: Array) -> None:
        """Take rows in, all of them finite."""
        if not self.rows:
            self.mean, self.variance = X.mean(axis=0), X.var(axis=0)
            self.rows = len(X)
            return
        share = max(1.0 - (1.0 - 1.0 / self.horizon) ** len(X), len(X) / (self.rows + len(X)))
        gap = X.mean(axis=0) - self.mean
        self.variance += share * (X.var(axis=0) - self.variance + (1.0 - share) * gap**2)
        self.mean += share * gap
        self.rows += len(X)


class Drift:
    """Both averages, and how far they lie apart."""

    def __init__(self) -> None:
        self.late = Running(LATE)
        self.long = Running(LONG)
        self.names: list[str] | None = None

    def add(self, X: Array, names: list[str] | None = None) -> None:
        """Take rows in; a gap counts as the mean so far."""
        X = X[:, :MOST]
        if not len(X):
            return
        if self.late.rows and X.shape[1] != len(self.late.mean):
            self.late, self.long = Running(LATE), Running(LONG)
        gaps = np.isnan(X)
        if gaps.any():
            X = np.where(gaps, self.long.mean if self.long.rows else 0.0, X)
        with np.errstate(all="ignore"):  # values near the end of the floating range
            self.late.add(X)
            self.long.add(X)
        self.names = names

    def shifts(self) -> Array:
        """Return (mean of late - mean of long) / spread of long, for each feature."""
        if not self.long.rows:
            return np.zeros(0)
        spread = np.sqrt(self.long.variance)
        with np.errstate(all="ignore"):
            found = (self.late.mean - self.long.mean) / spread
        return np.where(np.isfinite(found), found, 0.0)

    def largest(self) -> float | None:
        """Return the size of the largest drift."""
        drift = self.shifts()
        return float(np.abs(drift).max()) if len(drift) else None

    def table(self) -> list[dict[str, Any]]:
        """Return the features that have drifted most."""
        drift = self.shifts()
        first = np.argsort(-np.abs(drift), kind="stable")[:SHOWN]
        return [self._line(int(j), float(drift[j])) for j in first]

    def _line(self, j: int, drift: float) -> dict[str, Any]:
        return {
            "feature": self.names[j] if self.names else f"feature {j}",
            "mean": float(self.long.mean[j]),
            "spread": float(np.sqrt(self.long.variance[j])),
            "late_mean": float(self.late.mean[j]),
            "late_spread": float(np.sqrt(self.late.variance[j])),
            "drift": drift,
        }
