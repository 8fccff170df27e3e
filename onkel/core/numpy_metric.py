"""The units in which a detector sees rows, in plain NumPy: running moments, and what they say.

Rows, their steps and their late means have moments each, which follow every row; the *metric* made
of them stands still between refreshes, so that terms and rows are seen alike. Twin of
``src/metric.hpp``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density_table import LEAST_SPREAD, REACH, Count, Level

if TYPE_CHECKING:
    from onkel.core.density import DensityState, Plan

Array = NDArray[Any]

ROWS, STEPS, LATE = range(3)
"""What has moments and a metric of its own."""


def bounded(x: Array, most: float) -> Array:
    """Numbers, none beyond `most`; what is none becomes the least."""
    return np.fmax(np.minimum(x, most), -most)


class Metric:
    """The moments of a state, and the metric of its last refresh."""

    def __init__(self, plan: Plan, state: DensityState) -> None:
        self.plan, self.s = plan, state
        self.whole, self.real = state.whole, state.real
        self.d = len(state.last)
        self.full = state.cov.shape[1] > 1 or self.d == 1

    def variance(self, kind: int) -> Array:
        """The running variance of each coordinate."""
        cov = self.s.cov[kind]
        return np.diagonal(cov) if self.full else cov[0]

    def enter(self, kind: int, mass: Level, x: Array, weight: float, clipped: bool) -> None:
        """One row into running moments that fade; `clipped` bounds what it may move them by.

        ``m <- m + a e``, ``C <- (1 - a) (C + a e e')``, e = x - m, a = weight / mass.
        """
        self.real[mass] = self.real[mass] * (1 - weight / self.plan.memory) + weight
        a = weight / self.real[mass]
        e = x - self.s.mean[kind]
        if clipped:
            most = 3 * np.sqrt(self.variance(kind))
            e = np.where(most > 0, np.maximum(-most, np.minimum(e, most)), e)
        self.s.mean[kind] += a * e
        cov = self.s.cov[kind]
        cov[:] = (1 - a) * (cov + a * (np.outer(e, e) if self.full else e * e))

    def take_metric(self, kind: int, rows: int) -> None:
        """Units and whitening as the moments have them now.

        R is the matrix of correlations, shrunken by the number of rows: with ``R = L L'``, a row in
        units of its spreads is turned by the inverse of L.
        """
        s, d = self.s, self.d
        s.center[kind] = s.mean[kind]
        scale = np.maximum(np.sqrt(self.variance(kind)), np.maximum(LEAST_SPREAD * s.size, 1e-300))
        s.scale[kind] = scale
        if self.full:
            shrink = max(0.05, d / (d + 500), d / (d + rows))
            R = (1 - shrink) * (s.cov[kind] / scale[:, None] / scale)
            np.fill_diagonal(R, 1 + 1e-9)
            s.turn[kind] = self._inverse(self._cholesky(R))

    def _cholesky(self, R: Array) -> Array:
        L = np.zeros_like(R)
        for j in range(len(R)):
            L[j, j] = math.sqrt(max(R[j, j] - L[j, :j] @ L[j, :j], 1e-12))
            L[j + 1 :, j] = (R[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
        return L

    def _inverse(self, L: Array) -> Array:
        inverse = np.zeros_like(L)
        for i in range(len(L)):
            inverse[i, i] = 1.0
            inverse[i, :i] = -L[i, :i] @ inverse[:i, :i]
            inverse[i] /= L[i, i]
        return inverse

    def seen_as(self, kind: int, x: Array) -> tuple[Array, Array]:
        """Rows [...][d] in the units of their kind, and turned so that correlations vanish."""
        z = bounded((x - self.s.center[kind]) / self.s.scale[kind], REACH)
        turned = bounded(z @ self.s.turn[kind].T, REACH) if self.full else z
        return z.astype(np.float32), turned.astype(np.float32)

    def tie(self) -> float:
        """How far a row is tied to the one before: 0 where order does not matter, 1 where it does.

        Per feature the autocorrelation ``1 - E (x_t - x_{t-1})^2 / (2 Var x)``, less what noise
        makes of so many rows (more of it where tails are heavy); the largest, from 0.1 to 0.3.
        """
        rows = min(float(self.whole[Count.CALM]), self.plan.memory)
        if rows < 2:
            return 0.0
        noise = (3 + math.sqrt(2 * math.log(self.d))) / math.sqrt(rows)
        _, v, w, fourth = self.s.calm
        heavy = np.sqrt(np.maximum(fourth / (v * v) / 3, 1.0))
        found = 1 - w / (2 * v) - noise * heavy
        most = np.fmax.reduce(found[np.sqrt(v) > LEAST_SPREAD * self.s.size], initial=0.0)
        return float(min(max((most - 0.1) / 0.2, 0.0), 1.0))

    def take_calm(self, x: Array, step: Array) -> None:
        """Rows that follow one another without an alert: mean, variance, step and fourth moment."""
        self.whole[Count.CALM] += 1
        a = 1 / min(float(self.whole[Count.CALM]), self.plan.memory)
        m, v, w, fourth = self.s.calm
        e = x - m
        m += a * e
        v[:] = (1 - a) * (v + a * (e * e))
        w += a * (step * step - w)
        fourth[:] = (1 - a) * (fourth + a * ((e * e) * (e * e)))
