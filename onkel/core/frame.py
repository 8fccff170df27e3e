"""The coordinates in which terms are stored, and what standardisation makes of them.

A row x is stored as ``v = (x - center) * unit``, `unit` a power of two per feature, so that
nothing of x is lost but the translation; the kernel sees ``z = width * (v - shift)``, which is x
standardised. When the running moments are refreshed, `width` and `shift` change and the stored
rows stay as they are (their unit moves only by exact powers of two, their centre only when the
data have left it behind). Kernels of x - z alone need no shift: they are always evaluated near
the data, and distances by the product form stay accurate far from zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core import Queries
from onkel.saved import Saved

Array = NDArray[Any]

FAR = 4.0
"""A centre this many times further away than the data from each other is moved."""


@dataclass(frozen=True)
class Frame:
    """An affine map from raw rows to what the kernel sees; see the module's text."""

    dtype: Any
    invariant: bool
    """Whether the kernel depends on differences alone."""
    center: Array
    unit: Array
    width: Array
    shift: Array
    mean: Array
    """The mean that standardisation took over last (for reports)."""

    @classmethod
    def plain(cls, center: Array, dtype: Any, invariant: bool) -> Frame:
        """The frame without standardisation: z = x - center."""
        center = np.asarray(center, float)
        ones, zeros = np.ones(len(center)), np.zeros(len(center))
        return cls(np.dtype(dtype), invariant, center, ones, ones, zeros, center)

    def store(self, X: Array) -> Array:
        """Return v, in double precision."""
        return (np.asarray(X, np.float64) - self.center) * self.unit

    def z(self, v: Array) -> Array:
        """Return what the kernel sees of stored rows."""
        return self.width * (np.asarray(v, np.float64) - self.shift)

    def raw(self, v: Array) -> Array:
        """Return the rows as they came."""
        return np.asarray(v, np.float64) / self.unit + self.center

    def prepare(self, X: Array) -> Queries:
        """Return rows ready for the core; differences of far values are kept finite."""
        v = self.store(X)
        if self.invariant:
            v = np.clip(v, -self.clip / self.width, self.clip / self.width)
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

    @property
    def clip(self) -> float:
        """Most that a standardised coordinate may be, so that differences stay finite."""
        return float(np.sqrt(np.finfo(self.dtype).max / (16.0 * max(len(self.center), 1))))

    def norms(self, v: Array) -> Array:
        """Return the squared length of stored rows as the kernel sees them."""
        z = self.z(v)
        with np.errstate(over="ignore"):
            return np.einsum("ij,ij->i", z, z).astype(self.dtype)

    def standardised(self, mean: Array, spread: Array, row: Array) -> Frame:
        """Return the frame for new moments; a needed centre moves to `row` where data left it."""
        unit = np.ldexp(1.0, -np.ceil(np.log2(spread)).astype(int))
        width = 1.0 / (spread * unit)
        if self.invariant:
            return replace(self, unit=unit, width=width, mean=mean)
        center = np.where(np.abs(mean - self.center) > FAR * spread, row, self.center)
        return replace(
            self, center=center, unit=unit, width=width, shift=(mean - center) * unit, mean=mean
        )

    def left_behind(self, x: Array, recent: Array) -> Frame | None:
        """Return a frame centred on recent rows, if x is near them but far from the centre."""
        v = self.store(x)
        with np.errstate(over="ignore"):
            near = np.median(np.square(self.width * (v - recent)).sum(axis=1))
            far = np.square(self.width * v).sum()
        if not far > FAR**2 * near:
            return None
        return replace(self, center=self.raw(np.median(recent, axis=0)))

    def translate(self, v: Array, old: Frame) -> Array:
        """Return rows that `old` stored, as this frame stores them."""
        ratio = self.unit / old.unit
        return (np.asarray(v, np.float64) * ratio + (old.center - self.center) * self.unit).astype(
            self.dtype
        )

    def same_storage(self, old: Frame) -> bool:
        """Whether stored rows need no change from `old`."""
        return np.array_equal(self.unit, old.unit) and np.array_equal(self.center, old.center)

    @property
    def sound(self) -> bool:
        """Whether all its numbers are as a file must have them."""
        least = np.minimum(self.unit, self.width).min(initial=1.0)
        total = sum(getattr(self, name) for name in _VECTORS)
        return bool(least > 0 and np.isfinite(total).all())

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold of the frame."""
        return {name: getattr(self, name) for name in _VECTORS}

    @classmethod
    def restored(cls, saved: Saved, features: int, dtype: Any, invariant: bool) -> Frame:
        """Return the frame that a file holds."""
        vectors = {
            name: saved.array(name, (features,), np.float64, low=_SMALLEST.get(name))
            for name in _VECTORS
        }
        saved.finish()
        return cls(np.dtype(dtype), invariant, **vectors)


_VECTORS = ("center", "unit", "width", "shift", "mean")
_SMALLEST = {"unit": 5e-324, "width": 5e-324}
