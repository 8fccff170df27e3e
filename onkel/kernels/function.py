"""A user's own kernel: any function of two matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.kernels.base import Kernel
from onkel.params import Accept

Array = NDArray[Any]


@dataclass(frozen=True)
class Function(Kernel):
    """A kernel of your own, called once per block.

    ``function(X, Z)[i, j] = k(X[i], Z[j])``

    Parameters
    ----------
    function : callable
        From two matrices of rows to the matrix of kernel values. Estimators with ``scale=True``
        hand it standardised rows.
    limit : float, optional
        X^2, a bound on k(x, x), where there is one.

    Examples
    --------
    >>> k = Function(lambda X, Z: 1.0 / (1.0 + abs(X[:, None, 0] - Z[None, :, 0])))
    >>> float(k([[0.0]], [[3.0]])[0, 0])
    0.25
    """

    function: Callable[[Array, Array], Array]
    limit: float | None = None
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "limit": Accept(low=0, low_open=True, high_open=True, none=True)
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.function):
            raise ValueError(f"Function: function must be a function; got {self.function!r}.")

    @property
    def bound(self) -> float | None:
        return self.limit

    def values(self, X: Array, Z: Array) -> Array:
        K = np.asarray(self.function(X, Z), np.float64)
        if K.shape != (len(X), len(Z)):
            raise ValueError(
                f"The kernel function must return a matrix of shape {(len(X), len(Z))}, one row "
                f"per row of its first argument; it returned shape {K.shape}."
            )
        if not np.all(np.isfinite(K)):
            raise ValueError("The kernel function returned NaN or infinity.")
        return K
