"""The coordinates in which terms are stored, and what standardisation makes of them.

A row x is stored as ``v = (x - center) * unit``, `unit` a power of two per feature, so that
nothing of x is lost but the translation; the kernel sees ``z = width * (v - shift)``, which is x
standardised. When the running moments are refreshed, `width` and `shift` change and the stored
rows stay as they are (their unit moves only by exact powers of two, their centre only when the
data have left it behind). Kernels of x - z alone need no shift: they are always evaluated near
the data, and distances by the product form stay accurate far from zero.

The first columns may be codes, whole numbers that are equal or unequal and no more: of two rows
code j adds ``u_j`` to both distances if they differ there, ``u_j / 2`` to the product if they
agree, which is one-hot coding at the cost of a comparison (``apart`` holds the u_j). Codes are
stored as they are; nothing of the above changes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import Queries
from onkel.core.layout import APART
from onkel.saved import Saved

Array = NDArray[Any]
Apart = tuple[float, ...]
"""What two different codes are apart, one number for each of the first columns."""

FAR = 4.0
"""A centre this many times further away than the data from each other is moved."""


def effective(width: int, apart: Apart) -> float:
    """Return how many features rows of this width count as: codes by how far they are apart.

    Examples
    --------
    >>> effective(8, ()), effective(8, (APART, APART / 2, APART / 2))
    (8, 7.0)
    """
    return width - len(apart) + sum(apart) / APART if apart else width


FILLED = 0.25
"""Of the places for the words of a text, so many hold one, about."""


def ones(width: int, apart: Apart) -> float:
    """Return how many features of value 1 rows have in a linear learner, with the numbers.

    Examples
    --------
    >>> ones(8, ()), ones(8, (APART, APART / 4, APART / 4, APART / 4, APART / 4))
    (8, 5.0)
    """
    return (
        width - len(apart) + sum(1.0 if u >= APART else FILLED for u in apart) if apart else width
    )


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
    apart: Apart = ()
    """Of the codes, which are the first columns: centre 0, unit 1, shift 0, width sqrt(u_j)."""

    @classmethod
    def plain(cls, center: Array, dtype: Any, invariant: bool, apart: Apart = ()) -> Frame:
        """The frame without standardisation: z = x - center."""
        center = np.array(center, float)
        center[: len(apart)] = 0.0
        ones, zeros = np.ones(len(center)), np.zeros(len(center))
        width = _led_by(ones, np.sqrt(apart))
        return cls(np.dtype(dtype), invariant, center, ones, width, zeros, center, apart)

    @property
    def of_numbers(self) -> Frame:
        """What it says of the columns behind the codes."""
        vectors = {name: getattr(self, name)[len(self.apart) :] for name in _VECTORS}
        return replace(self, apart=(), **vectors)

    def store(self, X: Array) -> Array:
        """Return v, in double precision."""
        return (np.asarray(X, np.float64) - self.center) * self.unit

    def z(self, v: Array) -> Array:
        """Return what the kernel sees of stored rows; codes are themselves."""
        v = np.asarray(v, np.float64)
        z = self.width * (v - self.shift)
        if self.apart:
            z[..., : len(self.apart)] = v[..., : len(self.apart)]
        return z

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
        with np.errstate(over="ignore", invalid="ignore"):
            width = _led_by(self.width, self.apart).astype(self.dtype)
            stored = np.ascontiguousarray(v, self.dtype)
            q, off, norm = core.queries(self, np.ascontiguousarray(v, np.float64))
            return Queries(q, stored, off, norm, width, len(self.apart))

    def plain_queries(self, v: Array) -> tuple[Array, Array, Array]:
        """Return of stored rows what multiplies others, what products lack, squared lengths."""
        z, codes = self.z(v), len(self.apart)
        q = self.width * z
        q[:, :codes] = z[:, :codes]
        found = q, -(q @ self.shift), self.squares(z)
        return tuple(a.astype(self.dtype) for a in found)  # type: ignore[return-value]

    @property
    def clip(self) -> float:
        """Most that a standardised coordinate may be, so that differences stay finite."""
        return float(np.sqrt(np.finfo(self.dtype).max / (16.0 * max(len(self.center), 1))))

    def norms(self, v: Array) -> Array:
        """Return the squared length of stored rows as the kernel sees them."""
        with np.errstate(over="ignore"):
            return core.norms(self, np.ascontiguousarray(v, self.dtype))

    def squares(self, z: Array) -> Array:
        """The squared lengths; a code is one of its column's one-hot features."""
        if not self.apart:
            return np.einsum("ij,ij->i", z, z)
        numbers = z[:, len(self.apart) :]
        return np.einsum("ij,ij->i", numbers, numbers) + sum(self.apart) / 2

    def standardised(self, mean: Array, spread: Array, row: Array) -> Frame:
        """Return the frame for new moments; a needed centre moves to `row` where data left it."""
        codes = len(self.apart)
        mean = _led_by(mean, np.zeros(codes))
        fraction, power = np.frexp(spread)
        unit = np.ldexp(1.0, (fraction == 0.5) - power)  # the power of two next to 1 / spread
        width = _led_by(1.0 / (spread * unit), self.width[:codes])
        unit[:codes] = 1.0
        if self.invariant:
            return replace(self, unit=unit, width=width, mean=mean)
        center = np.where(np.abs(mean - self.center) > FAR * spread, row, self.center)
        return replace(
            self, center=center, unit=unit, width=width, shift=(mean - center) * unit, mean=mean
        )

    def weighed(self, factors: Array, apart: Apart) -> Frame:
        """Return the frame with differences of numbers multiplied, and codes so far apart."""
        width = _led_by(self.width * factors, np.sqrt(apart))
        return replace(self, width=width, apart=apart)

    def left_behind(self, x: Array, recent: Array) -> Frame | None:
        """Return a frame centred on recent rows, if x is near them but far from the centre."""
        center = core.left_behind(self, self.store(x), recent)
        if center is None:
            return None
        return replace(self, center=_led_by(self.raw(center), np.zeros(len(self.apart))))

    def left_behind_by(self, v: Array, recent: Array) -> Array | None:
        """Return the middle of recent rows, as stored, if v is near them but far from 0."""
        codes = len(self.apart)
        with np.errstate(over="ignore"):
            near = np.median(np.square(self.width * (v - recent))[:, codes:].sum(axis=1))
            far = np.square(self.width * v)[codes:].sum()
        return np.median(recent, axis=0) if far > FAR**2 * near else None

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

    def in_double(self) -> Frame:
        """Return the same coordinates, in which kernel values come out in double precision."""
        return replace(self, dtype=np.dtype(np.float64))

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold of the frame."""
        return {name: getattr(self, name) for name in _VECTORS}

    @classmethod
    def restored(
        cls, saved: Saved, features: int, dtype: Any, invariant: bool, apart: Apart = ()
    ) -> Frame:
        """Return the frame that a file holds."""
        vectors: dict[str, Any] = {
            name: saved.array(name, (features,), np.float64, low=_SMALLEST.get(name))
            for name in _VECTORS
        }
        plain = cls.plain(np.zeros(features), dtype, invariant, apart)
        for name, found in vectors.items():
            if not np.array_equal(found[: len(apart)], getattr(plain, name)[: len(apart)]):
                raise saved.refuse(name, "must leave codes as they are")
        saved.finish()
        return replace(plain, **vectors)


def _led_by(numbers: Array, codes: Any) -> Array:
    """Return numbers of which the first are those of the codes."""
    return np.concatenate([codes, numbers[len(codes) :]]) if len(codes) else numbers


_VECTORS = ("center", "unit", "width", "shift", "mean")
_SMALLEST = {"unit": 5e-324, "width": 5e-324}
