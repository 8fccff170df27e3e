"""Rows that wait, and the ids that they wait under."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

LONGEST = 1000
"""Characters of an id."""


class Row(NamedTuple):
    """A row that waits for its label."""

    id: str
    number: int
    """How many rows came before it."""
    time: float
    """When it came, in seconds; NaN where that was not told."""
    asked: bool
    label: Any
    """That was predicted; None of a regressor, and where nothing was known."""
    place: int
    """Of the row on the shelf."""


def ids_of(ids: Any, count: int | None) -> list[str]:
    """Return ids as texts, one per row, or refuse them.

    Examples
    --------
    >>> ids_of(["a", 7], 2)
    ['a', '7']
    """
    if isinstance(ids, (str, bytes)) or not hasattr(ids, "__len__"):
        raise ValueError(
            f"Late: ids must be a list of texts or whole numbers, one per row; got {ids!r:.60}."
        )
    listed = ids.tolist() if hasattr(ids, "tolist") else [*ids]
    found = [_text(id, i) for i, id in enumerate(listed)]
    if count is not None and len(found) != count:
        raise ValueError(f"Late: ids must be one per row; got {len(found)} for {count} rows.")
    return found


def _text(id: Any, at: int) -> str:
    id = id.item() if isinstance(id, np.generic) else id
    if isinstance(id, int) and not isinstance(id, bool):
        return str(id)
    if not isinstance(id, str) or not 1 <= len(id) <= LONGEST:
        raise ValueError(
            f"Late: an id is a text of 1 to {LONGEST} characters or a whole number; row {at} has "
            f"{id!r:.60}."
        )
    try:
        id.encode()
    except UnicodeEncodeError:
        raise ValueError(f"Late: the id of row {at} is no Unicode text: {id!r:.60}.") from None
    return id


class NotWaiting(ValueError):
    """No row waits under an id; nothing was changed. `row` counts from the call's first."""

    def __init__(self, message: str, id: str = "", row: int = 0) -> None:
        super().__init__(message)
        self.id, self.row = id, row

    def __reduce__(self) -> Any:
        """Return how a copy is made (exceptions cross processes)."""
        return type(self), (str(self), self.id, self.row)


def no_such(id: str, at: int, twice: bool, why: str) -> NotWaiting:
    """Return the error for an id that does not wait."""
    why = "it is there twice in this call" if twice else why
    return NotWaiting(
        f"Late: no row waits under the id {id!r:.80} (number {at} of this call): {why}. Nothing "
        "was learned; leave it out, or give unknown='skip'.",
        id, at,
    )  # fmt: skip
