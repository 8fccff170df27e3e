"""What a kernel is: a function of two matrices with a cheap diagonal, and + and * on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core import matrix, numpy_core
from onkel.core.forest import additive_matrix
from onkel.core.frame import Frame
from onkel.core.layout import Op, Program, depth_of
from onkel.core.split import Split
from onkel.inputs import RefusedRow
from onkel.params import POSITIVE, Part

Array = NDArray[Any]


class Kernel(Part):
    """Base of all kernels. ``k(X, Z)`` is the matrix of values, ``k.diag(X)`` its diagonal.

    ``k1 + k2``, ``k1 * k2`` and ``3.0 * k`` are kernels again.
    """

    domain: ClassVar[str] = "numbers"
    """"numbers" (rows of a matrix) or "strings"."""

    @property
    def bound(self) -> float | None:
        """X^2, a bound on k(x, x), or None where there is none."""
        return None

    @property
    def translation_invariant(self) -> bool:
        """Whether k depends on x - z alone."""
        return False

    def resolve(self, features: float) -> Self:
        """Return this kernel with every "auto" replaced by its number for so many features.

        Columns of codes count as fractions of a feature (``core.frame.effective``).
        """
        return self

    def size(self, features: float) -> float:
        """Return the typical k(x, x) on standardised rows, by which default rates are divided."""
        return 1.0 if self.bound is None else self.bound

    lowest: float | None = None
    """Inputs below this are outside the kernel's domain."""

    def check_rows(self, X: Any, first: int = 0, feature: int = 0) -> None:
        """Refuse rows outside the kernel's domain; row and feature are counted from these."""
        if self.lowest is None:
            return
        for start in range(0, len(X), 1024):
            rows = np.asarray(X[start : start + 1024])
            bad = np.argwhere(rows < self.lowest)
            if len(bad):
                row, column = (int(at) for at in bad[0])
                raise RefusedRow(
                    f"Row {first + start + row}, feature {feature + column}: {self!r} is defined "
                    f"for inputs of at least {self.lowest:g}; got {rows[row, column]:g}. Shift it "
                    "by its lowest possible value, or use a kernel such as Exponential.",
                    first + start + row,
                )

    def check_scale(self, scale: bool) -> None:
        """Refuse standardisation where it would leave the kernel's domain."""
        if scale and self.lowest is not None:
            raise ValueError(
                f"{self!r} is defined for inputs of at least {self.lowest:g}, and scale=True "
                "centres them around 0. Use scale=False, with inputs of your own scale."
            )

    @property
    def additive(self) -> bool:
        """Whether k(x, z) is a sum over features, each of that feature alone."""
        return False

    def parts(self, x: Array, Z: Array) -> Array:
        """Return each feature's part of k(x, z), one row per z, where k is such a sum."""
        raise NotImplementedError

    def program(self) -> Program | None:
        """Return the kernel for the compiled core, or None for one that is a Python function."""
        return None

    def split(self) -> Split | None:
        """Return how the kernel of one feature splits at a point (trees), or None."""
        return None

    def __call__(self, X: Any, Z: Any = None) -> Array:
        """Return the matrix k(x, z) for rows x of `X` and z of `Z` (`X` if None)."""
        X = _matrix(X)
        Z = X if Z is None else _matrix(Z)
        if X.shape[1] != Z.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features and Z has {Z.shape[1]}: they must agree."
            )
        for rows in (X, Z):
            self.check_rows(rows)
        return self.resolve(X.shape[1]).values(X, Z)

    def values(self, X: Array, Z: Array) -> Array:
        """Return the matrix, for two matrices of one width; "auto" is already resolved."""
        program, split = self.program(), self.split()
        if program is None and split is not None and X.shape[1] == 1:
            return additive_matrix([split], np.ones(1), X, Z)
        if program is None:
            raise NotImplementedError(f"{type(self).__name__} must define values(X, Z)")
        dtype = np.result_type(X.dtype, Z.dtype)
        center = Z[0] if self.translation_invariant and len(Z) else np.zeros(X.shape[1])
        frame = Frame.plain(center, dtype, self.translation_invariant)
        rows = frame.prepare(Z)
        return matrix(program, frame.prepare(X), rows.v, rows.norm).astype(dtype)

    def diag(self, X: Any) -> Array:
        """Return k(x, x) for each row, without the matrix."""
        X = _matrix(X)
        kernel = self.resolve(X.shape[1])
        return kernel.diag_values(X)

    def diag_values(self, X: Array) -> Array:
        """Return the diagonal for a matrix; "auto" is already resolved."""
        program = self.program()
        if program is None:
            return np.array([float(self.values(x[None], x[None])[0, 0]) for x in X])
        with np.errstate(over="ignore"):
            return diag_of_norms(program, np.einsum("ij,ij->i", X, X, dtype=np.float64))

    def __add__(self, other: Any) -> Kernel:
        if not isinstance(other, Kernel):
            return NotImplemented
        return Sum(self, other)

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        if isinstance(other, (int, float, np.integer, np.floating)):
            return Scaled(self, float(other))
        return NotImplemented

    __rmul__ = __mul__

    def __radd__(self, other: Any) -> Kernel:
        return self if other == 0 else NotImplemented  # sum([k1, k2]) starts from 0


def diag_of_norms(program: Program, norm2: Array) -> Array:
    """k(x, x) from the squared lengths alone."""
    zero = np.zeros_like(norm2)
    return np.broadcast_to(numpy_core.evaluate(program, norm2, zero, zero), norm2.shape)


def _matrix(X: Any) -> Array:
    X = np.asarray(X)
    if X.dtype != np.float32:
        X = X.astype(np.float64)
    if X.ndim != 2:
        raise ValueError(
            f"A kernel takes matrices (rows of numbers); got an array of {X.ndim} axes."
        )
    return X


def _on_numbers(kernel: Any) -> None:
    if not isinstance(kernel, Kernel):
        raise ValueError(f"Kernels are combined with kernels from onkel.kernels; got {kernel!r}.")
    if kernel.domain != "numbers":
        raise ValueError(
            f"{kernel!r} takes {kernel.domain} and cannot be combined with other kernels or scaled "
            "(the learning rate does what a factor would)."
        )


@dataclass(frozen=True)
class _Pair(Kernel):
    """Two kernels joined, part by part."""

    left: Kernel
    right: Kernel
    op: ClassVar[Op]

    def __post_init__(self) -> None:
        for part in (self.left, self.right):
            _on_numbers(part)

    @property
    def translation_invariant(self) -> bool:
        return self.left.translation_invariant and self.right.translation_invariant

    def resolve(self, features: float) -> Self:
        return type(self)(self.left.resolve(features), self.right.resolve(features))

    def program(self) -> Program | None:
        left, right = self.left.program(), self.right.program()
        if left is None or right is None:
            return None
        # Both operations commute: the deeper side first needs the smaller stack.
        first, second = sorted((left, right), key=depth_of, reverse=True)
        return [*first, *second, (int(self.op), 0.0, 0.0, 0)]

    def values(self, X: Array, Z: Array) -> Array:
        if self.program() is not None:
            return super().values(X, Z)
        return self._join(self.left.values(X, Z), self.right.values(X, Z))

    def diag_values(self, X: Array) -> Array:
        return self._join(self.left.diag_values(X), self.right.diag_values(X))

    def _join(self, left: Any, right: Any) -> Any:
        return left + right if self.op == Op.SUM else left * right

    def size(self, features: float) -> float:
        return float(self._join(self.left.size(features), self.right.size(features)))

    def check_rows(self, X: Any, first: int = 0, feature: int = 0) -> None:
        for part in (self.left, self.right):
            part.check_rows(X, first, feature)

    def check_scale(self, scale: bool) -> None:
        for part in (self.left, self.right):
            part.check_scale(scale)

    @property
    def bound(self) -> float | None:
        left, right = self.left.bound, self.right.bound
        return None if left is None or right is None else float(self._join(left, right))


@dataclass(frozen=True)
class Sum(_Pair):
    """The sum of two kernels, ``k1(x, z) + k2(x, z)``; written ``k1 + k2``."""

    op: ClassVar[Op] = Op.SUM

    @property
    def additive(self) -> bool:
        return self.left.additive and self.right.additive

    def parts(self, x: Array, Z: Array) -> Array:
        return self.left.parts(x, Z) + self.right.parts(x, Z)


@dataclass(frozen=True)
class Product(_Pair):
    """The product of two kernels, ``k1(x, z) * k2(x, z)``; written ``k1 * k2``."""

    op: ClassVar[Op] = Op.PRODUCT


@dataclass(frozen=True)
class Scaled(Kernel):
    """A kernel times a positive number, ``factor * k(x, z)``; written ``factor * k``."""

    kernel: Kernel
    factor: float

    def __post_init__(self) -> None:
        _on_numbers(self.kernel)
        if not POSITIVE.fits(self.factor):
            raise ValueError(f"A kernel is scaled by a number in (0, inf); got {self.factor!r}.")

    @property
    def translation_invariant(self) -> bool:
        return self.kernel.translation_invariant

    @property
    def bound(self) -> float | None:
        return None if self.kernel.bound is None else self.factor * self.kernel.bound

    @property
    def additive(self) -> bool:
        return self.kernel.additive

    def parts(self, x: Array, Z: Array) -> Array:
        return self.factor * self.kernel.parts(x, Z)

    def size(self, features: float) -> float:
        return self.factor * self.kernel.size(features)

    def check_rows(self, X: Any, first: int = 0, feature: int = 0) -> None:
        self.kernel.check_rows(X, first, feature)

    def check_scale(self, scale: bool) -> None:
        self.kernel.check_scale(scale)

    def resolve(self, features: float) -> Self:
        return type(self)(self.kernel.resolve(features), self.factor)

    def program(self) -> Program | None:
        inner = self.kernel.program()
        return None if inner is None else [*inner, (int(Op.SCALE), float(self.factor), 0.0, 0)]

    def values(self, X: Array, Z: Array) -> Array:
        if self.program() is not None:
            return super().values(X, Z)
        return self.factor * self.kernel.values(X, Z)

    def diag_values(self, X: Array) -> Array:
        return self.factor * self.kernel.diag_values(X)
