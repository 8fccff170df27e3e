"""What a call has overwritten, to be put back if it fails."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class UndoLog:
    """The fields of an object, and what was overwritten in its arrays since."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.notes: list[tuple[Array, Any, Array]] | None = []
        self.room = 0
        for array in fields.values():
            self.room += array.nbytes if isinstance(array, np.ndarray) else 0

    def note(self, *places: tuple[Array, Any] | tuple[Array, Any, Any]) -> None:
        """Keep what stands in some places of arrays; once that is more than these, copy them."""
        for array, where, *_ in places:
            if self.notes is None:
                return
            old = array[where].copy()
            self.notes.append((array, where, old))
            self.room -= old.nbytes
            if self.room < 0:
                self.copy_now()

    def copy_now(self) -> None:
        """Copy the arrays as they were, and note no more."""
        if self.notes is None:
            return
        copies = {id(a): a.copy() for a in self.fields.values() if isinstance(a, np.ndarray)}
        self._play_back([(copies[id(a)], w, o) for a, w, o in self.notes if id(a) in copies])
        self.fields = {k: copies.get(id(v), v) for k, v in self.fields.items()}
        self.notes = None

    @staticmethod
    def _play_back(notes: list[tuple[Array, Any, Array]]) -> None:
        for array, where, old in reversed(notes):
            array[where] = old

    def restored(self) -> dict[str, Any]:
        """Return the fields as they were."""
        self._play_back(self.notes or [])
        return {**self.fields, "weights": None, "undo_log": None}
