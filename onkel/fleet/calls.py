"""One call to a fleet: keys, rows, and what goes with each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import inputs
from onkel.core.precedents import Precedent
from onkel.fleet.groups import Key, by_number, picked
from onkel.inputs import RefusedRow

Array = NDArray[Any]


@dataclass
class Call:
    """Rows for several models."""

    keys: Any
    """A list, or an array of whole numbers."""
    numbers: Array
    """Whose each row is: the numbers of the keys; -1 of one that is not known."""
    X: Any
    output: str
    y: Any = None
    how: dict[str, Any] = field(default_factory=dict)
    """``sample_weight``, ``time``, one value per row each, where they are given."""
    tells_usual: bool = False
    """Whether means and variances of features before each row are wanted, ..."""
    usual: Array | None = None
    """... and here they are, [rows][2][features]; nothing where the models keep none."""
    precedents: dict[int, Precedent] = field(default_factory=dict)
    """Of alerts by row, where `tells_usual`: the answered alert that they must be told with."""

    def __len__(self) -> int:
        return len(self.keys)

    def groups(self) -> list[tuple[Key, Array]]:
        """Return the rows of each key, keys in the order of their appearance."""
        return [(self.key(at[0]), at) for at in by_number(self.numbers)]

    def key(self, row: Any) -> Key:
        """Return the key of a row."""
        found = self.keys[row]
        return found.item() if isinstance(found, np.generic) else found

    def part(self, at: Array) -> tuple[Any, Any, dict[str, Any]]:
        """Return some of the rows, their targets, and what goes with them."""
        how = {name: picked(values, at) for name, values in self.how.items()}
        return picked(self.X, at), picked(self.y, at), how

    def matrix(self, estimator: Any, dtype: Any, features: int) -> Array:
        """Return the rows as a matrix, checked as the estimator would; a refusal names the key."""
        try:
            found = inputs.numeric_rows(
                inputs.on_host(self.X), type(estimator).__name__, dtype, features,
                gaps=estimator.missing == "mean",
            )  # fmt: skip
        except RefusedRow as error:
            raise self.refused(error) from None
        return np.asarray(found if isinstance(found, np.ndarray) else found[:])

    def refused(self, error: RefusedRow) -> RefusedRow:
        """Return the refusal of a row, with its key."""
        words = f"Row {error.row}, key {self.key(error.row)!r}: {error}"
        return RefusedRow(words, error.row)

    def of(self, numbers: Any) -> list[tuple[Key, Array]]:
        """Return the rows of some keys, given by number."""
        wanted = np.isin(self.numbers, numbers)
        return [(key, at) for key, at in self.groups() if wanted[at[0]]] if wanted.any() else []
