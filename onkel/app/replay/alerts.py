"""An alert of one setting."""

from __future__ import annotations

from typing import Any, NamedTuple


class Mark(NamedTuple):
    """What tells an alert from all others of the same rows."""

    id: str
    """What an answer calls it."""
    whose: Any = None
    """Where ids are not enough: the key as it is, and how often it had been forgotten."""


class Alert(NamedTuple):
    """An alert of one setting."""

    row: int
    at: int
    """Rows that its model had learned before it: those of its key, where there are keys."""
    score: float
    threshold: float
    p: float | None = None
    time: Any = None
    """As it came."""
    seconds: float | None = None
    key: str | None = None
    why: str | None = None
    incident: int | None = None
    """The number of its incident, where alerts were grouped while the rows were read."""
    held_back: bool = False
    """Whether a cool-down keeps it out of the output."""
    whose: Any = None
    """Of its :class:`Mark`."""

    @property
    def id(self) -> str:
        """What an answer to the alert calls it."""
        return str(self.at) if self.key is None else f"{self.key}:{self.at}"

    @property
    def mark(self) -> Mark:
        """What tells it from all others."""
        return Mark(self.id, self.whose)

    def told(self) -> dict[str, Any]:
        """Return what is said of it, JSON-ready; what there is not is left out."""
        names = ("row", "id", "time", "key", "p", "score", "threshold", "why")
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value is not None}
