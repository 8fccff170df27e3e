"""Models as cells of the compiled core: a call learns all keys at once, without one into Python.

What the core leaves undone (a row that is unusual, a class that takes a shared output apart) is
learned by an ordinary estimator, made of the cell and put back into it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import inputs
from onkel.estimators.packed import Packed
from onkel.fleet.calls import Call

Array = NDArray[Any]

NONE = np.zeros(0)


class Cells:
    """Models by number, each a cell; what detectors of densities and kernel models share.

    Parameters
    ----------
    packed : Packed
        How a model is a cell.
    threads : int
        That share the keys of a call.
    """

    counted: int
    """Numbers that the core counts of each cell."""

    def __init__(self, packed: Any, threads: int = 1) -> None:
        self.packed: Any = packed
        self.estimator = packed.estimator
        self.threads = threads
        self.core = packed.cells()
        self._number, self._weight = np.zeros(1, np.int64), np.ones(1)

    # -- rows ------------------------------------------------------------------------------------

    def rows(self, call: Call) -> Array:
        """Return checked rows, as a matrix in the fleet's own type."""
        packed, names = self.packed, inputs.feature_names(call.X)
        if names is not None and packed.names is not None and list(names) != list(packed.names):
            raise ValueError(
                "The feature names should match those that were passed during fit. "
                f"Fitted with {list(packed.names)}, got {list(names)}."
            )
        return call.matrix(self.estimator, packed.dtype, packed.features)

    def _room(self, numbers: Array) -> None:
        self.core.make_room(int(numbers.max(initial=-1)) + 1)

    # -- models ----------------------------------------------------------------------------------

    def has(self, number: int) -> bool:
        """Whether a model has learned anything."""
        return bool(self.core.has(number))

    def model(self, number: int) -> Any:
        """Return a model as an ordinary estimator of its own."""
        if not self.core.has(number):
            return copy.copy(self.estimator)
        return self.packed.model(self.core.record(number))

    def put(self, models: dict[int, Any]) -> None:
        """Let models be what these are; a ValueError, and nothing changed, if one does not fit."""
        begun = {n: m for n, m in models.items() if m.__sklearn_is_fitted__()}
        records = [self.packed.record(model) for model in begun.values()]
        self.restore(begun, records)
        self.forget([n for n in models if n not in begun])

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget models."""
        gone = np.array([*numbers], np.int64)
        self._room(gone)
        self.core.forget(gone)

    def records(self, numbers: Iterable[int]) -> list[bytes]:
        """Return models as bytes; none of what has learned nothing."""
        return [self.core.record(n) if self.core.has(n) else b"" for n in numbers]

    def restore(self, numbers: Iterable[int], records: Iterable[bytes]) -> None:
        """Let models be what records hold; a ValueError, and nothing changed, if one is none."""
        found = [*records]
        lengths = np.array([len(r) for r in found], np.int64)
        data = np.frombuffer(b"".join(found), np.uint8)
        self.restore_joined(np.array([*numbers], np.int64), lengths, data)

    def sizes(self, numbers: Array) -> Array:
        """Return the bytes of records; 0 of what has learned nothing."""
        self._room(numbers)
        found = np.zeros(len(numbers), np.int64)
        self.core.sizes(numbers, found)
        return found

    def joined(self, numbers: Array) -> bytes:
        """Return the records of models, one behind another."""
        self._room(numbers)
        return self.core.records(numbers[self.sizes(numbers) > 0])

    def restore_joined(self, numbers: Array, lengths: Array, data: Array) -> None:
        """Let models be what records hold, which lie one behind another."""
        self._room(numbers)
        full = lengths > 0
        bad = self.core.restore(numbers[full], lengths[full], data)
        if bad >= 0:
            raise ValueError(f"record {np.flatnonzero(full)[bad]} is damaged, or of another model.")
        self.core.forget(numbers[~full])

    def form(self) -> dict[str, Any]:
        """Return what a file must say of these cells."""
        return {"kept": "cells", **self.packed.form()}

    # -- reporting -------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Memory of all cells."""
        return int(self.core.nbytes)

    def counts(self, numbers: Iterable[int]) -> dict[str, Array]:
        """Return of some models rows learned, terms, alerts and their rows, mistakes."""
        asked = np.array([*numbers], np.int64)
        self._room(asked)
        found = np.zeros((len(asked), self.counted))
        self.core.counts(asked, found)
        names = ("t", "terms", "alerts", "judged", "mistakes")[: self.counted]
        counts = dict(zip(names, found.T, strict=True))
        return {"mistakes": np.zeros(len(asked)), **counts}


def cells_of(packed: Packed, threads: int) -> Cells:
    """Return empty cells for such models."""
    from onkel.fleet.densities import DensityCells
    from onkel.fleet.terms import TermCells

    return (TermCells if hasattr(packed, "settings") else DensityCells)(packed, threads)
