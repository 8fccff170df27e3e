"""Kernels: how alike are two inputs?

>>> from onkel import kernels
>>> k = kernels.Gaussian(gamma=0.5) + 2.0 * kernels.Linear()
>>> float(k([[1.0]], [[1.0]])[0, 0])
3.0
"""

from __future__ import annotations

from typing import Any

from onkel.core.split import Split
from onkel.kernels.additive import Additive, Exponential, Spline
from onkel.kernels.base import Kernel, Product, Scaled, Sum
from onkel.kernels.function import Function
from onkel.kernels.products import Linear, Polynomial
from onkel.kernels.spectrum import Spectrum
from onkel.kernels.stationary import Gaussian, Laplacian, Matern
from onkel.params import pick

__all__ = [
    "Additive", "Exponential", "Function", "Gaussian", "Kernel", "Laplacian", "Linear", "Matern",
    "Polynomial", "Product", "Scaled", "Spectrum", "Spline", "Split", "Sum", "get",
]  # fmt: skip

REGISTRY: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": Matern,
    "linear": Linear,
    "polynomial": Polynomial,
    "additive": Additive,
    "exponential": Exponential,
    "spline": Spline,
    "spectrum": Spectrum,
}


def get(kernel: Any) -> Kernel:
    """Return a kernel from an object, a name, or a function of two matrices."""
    if callable(kernel) and not isinstance(kernel, (Kernel, type)):
        return Function(kernel)
    return pick("kernel", kernel, Kernel, REGISTRY)
