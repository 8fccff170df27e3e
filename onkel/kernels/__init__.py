"""Kernels: how alike are two inputs?

>>> from onkel import kernels
>>> k = kernels.Gaussian(gamma=0.5) + 2.0 * kernels.Linear()
>>> float(k([[1.0]], [[1.0]])[0, 0])
3.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onkel.core.split import Split
from onkel.kernels.base import Kernel, Product, Scaled, Sum
from onkel.kernels.function import Function
from onkel.params import gathered, pick

if TYPE_CHECKING:  # what type checkers know by name; any other is of any type to them
    from onkel.kernels.additive import Additive as Additive
    from onkel.kernels.additive import Exponential as Exponential
    from onkel.kernels.additive import Spline as Spline
    from onkel.kernels.products import Linear as Linear
    from onkel.kernels.products import Polynomial as Polynomial
    from onkel.kernels.spectrum import Spectrum as Spectrum
    from onkel.kernels.stationary import Gaussian as Gaussian
    from onkel.kernels.stationary import Laplacian as Laplacian
    from onkel.kernels.stationary import Matern as Matern

    def __getattr__(name: str) -> Any: ...


REGISTRY = gathered(__name__, __path__, Kernel)
globals().update({kind.__name__: kind for kind in REGISTRY.values()})
__all__ = [
    "Function", "Kernel", "Product", "Scaled", "Split", "Sum", "get",
    *(kind.__name__ for kind in REGISTRY.values()),
]  # fmt: skip


def get(kernel: Any) -> Kernel:
    """Return a kernel from an object, a name, or a function of two matrices."""
    if callable(kernel) and not isinstance(kernel, (Kernel, type)):
        return Function(kernel)
    return pick("kernel", kernel, Kernel, REGISTRY)
