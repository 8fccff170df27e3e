"""The spectrum kernel on strings: how many substrings do two texts share?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.kernels.base import Kernel
from onkel.params import Accept

Array = NDArray[Any]


@dataclass(frozen=True)
class Spectrum(Kernel):
    """The normalised spectrum kernel on Python strings.

    ``<c(s), c(t)> / (||c(s)|| ||c(t)||)``, c(s) the counts of all substrings of one length

    A string shorter than `length` has no substrings: its kernel with everything is 0.

    Parameters
    ----------
    length : int
        Length of the substrings, in characters.

    Examples
    --------
    >>> Spectrum(length=2)(["abab"], ["abab", "xyz"])
    array([[1., 0.]])
    """

    word: ClassVar[str] = "spectrum"
    length: int = 3
    domain: ClassVar[str] = "strings"
    _accepts: ClassVar[Mapping[str, Accept]] = {"length": Accept(low=1, high=10**6, whole=True)}

    @property
    def bound(self) -> float | None:
        return 1.0

    def features(self, text: str) -> dict[str, float]:
        """Return the text's substrings with their normalised counts."""
        counts: dict[str, float] = {}
        n = int(self.length)
        for i in range(len(text) - n + 1):
            piece = text[i : i + n]
            counts[piece] = counts.get(piece, 0.0) + 1.0
        size = float(np.sqrt(sum(c * c for c in counts.values()))) if counts else 1.0
        return {piece: c / size for piece, c in counts.items()}

    def __call__(self, X: Any, Z: Any = None) -> Array:
        rows = [self.features(s) for s in X]
        columns = rows if Z is None else [self.features(s) for s in Z]
        return self.between(rows, columns)

    def diag(self, X: Any) -> Array:
        return np.array([float(len(s) >= self.length) for s in X])

    @staticmethod
    def between(
        rows: Iterable[Mapping[str, float]], columns: Iterable[Mapping[str, float]]
    ) -> Array:
        """Return the matrix for texts whose features are known."""
        rows, columns = list(rows), list(columns)
        found = np.array([[_dot(r, c) for c in columns] for r in rows])
        return found.reshape(len(rows), len(columns))


def _dot(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    if len(a) > len(b):
        a, b = b, a
    return sum(w * b.get(piece, 0.0) for piece, w in a.items())
