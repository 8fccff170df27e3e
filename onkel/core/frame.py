"""The coordinates in which terms are stored, and what standardisation makes of them.

A row x is stored as ``v = (x - center) * unit``, `unit` a power of two per feature, so that
nothing of x is lost but the translation; the kernel sees ``z = width * (v - shift)``, which is x
standardised. When the running moments are refreshed, `width` and `shift` change and the stored
rows stay as they are (their unit moves only by exact powers of two, their centre only when the
data have left it far behind). Distances by the product form then stay accurate far from zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core import Queries

Array = NDArray[Any]

FAR = 4.0
"""A centre further than this many spreads from the mean is moved."""


@dataclass(frozen=True)
class Frame:
    """An affine map from raw rows to what the kernel sees; see the module's text."""

    dtype: Any
    center: Array
    unit: Array
    width: Array
    shift: Array

    @classmethod
    def plain(cls, center: Array, dtype: Any) -> Frame:
        """The frame without standardisation: z = x - center."""
        ones = np.ones(len(center))
        return cls(np.dtype(dtype), np.asarray(center, float), ones, ones, np.zeros(len(center)))

    def store(self, X: Array) -> Array:
        """Return v, in double precision."""
        return (np.asarray(X, np.float64) - self.center) * self.unit

    def z(self, v: Array) -> Array:
        """Return what the kernel sees of stored rows."""
        return self.width * (np.asarray(v, np.float64) - self.shift)

    def raw(self, v: Array) -> Array:
        """Return the rows as they came."""
        return np.asarray(v, np.float64) / self.unit + self.center

    def prepare(self, X: Array, clip: bool) -> Queries:
        """Return rows ready for the core; `clip` keeps squares of far values finite."""
        v = self.store(X)
        if clip:
            limit = np.sqrt(np.finfo(self.dtype).max / (16.0 * max(v.shape[1], 1)))
            v = np.clip(v, -limit / self.width + self.shift, limit / self.width + self.shift)
        return self.queries(v)

    def queries(self, v: Array) -> Queries:
        """Return stored rows as queries."""
        z = self.z(v)
        q = self.width * z
        with np.errstate(over="ignore", invalid="ignore"):
            return Queries(
                q.astype(self.dtype),
                np.ascontiguousarray(v, self.dtype),
                (-(q @ self.shift)).astype(self.dtype),
                np.einsum("ij,ij->i", z, z).astype(self.dtype),
                self.width.astype(self.dtype),
            )

    def norms(self, v: Array) -> Array:
        """Return the squared length of stored rows as the kernel sees them."""
        z = self.z(v)
        with np.errstate(over="ignore"):
            return np.einsum("ij,ij->i", z, z).astype(self.dtype)

    def standardised(self, mean: Array, spread: Array, row: Array) -> Frame:
        """Return the frame for new moments; its centre moves to `row` where data have left it."""
        exponent = np.ceil(np.log2(spread))
        unit = np.ldexp(1.0, -exponent.astype(int))
        center = np.where(np.abs(mean - self.center) > FAR * spread, row, self.center)
        return replace(
            self, center=center, unit=unit, width=1.0 / (spread * unit),
            shift=(mean - center) * unit,
        )  # fmt: skip

    def recentred(self, mean: Array, spread: Array, row: Array) -> Frame:
        """Return the unscaled frame, its centre moved to `row` where data have left it."""
        far = np.abs(mean - self.center) > FAR * spread
        return replace(self, center=np.where(far, row, self.center))

    def translate(self, v: Array, old: Frame) -> Array:
        """Return rows that `old` stored, as this frame stores them."""
        ratio = self.unit / old.unit
        return (np.asarray(v, np.float64) * ratio + (old.center - self.center) * self.unit).astype(
            self.dtype
        )

    def same_storage(self, old: Frame) -> bool:
        """Whether stored rows need no change from `old`."""
        return np.array_equal(self.unit, old.unit) and np.array_equal(self.center, old.center)
