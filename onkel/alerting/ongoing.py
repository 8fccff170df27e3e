"""Incidents that may still go on, and where alerts were of late."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from onkel.alerting.crowds import Key
from onkel.alerting.incident import Incident


class Place(NamedTuple):
    """Where a key had an alert, and the number of its incident: less than 0 if that is older."""

    row: int
    now: float | None
    key: Key
    number: int


@dataclass
class Track:
    """An incident that is open, and what decides whether it stays so."""

    incident: Incident
    row: int = -1
    """Of its last alert, counted from the first row; of many keys: when they were last many."""
    now: float | None = None
    """The clock then."""
    own: float | None = None
    """Of a stream without keys, or a single key: the latest time since its first alert."""
    last: float | None = None
    """What that was at its last alert."""
    since: int = 0
    """Rows of its key since then."""
    until: int = 0
    """Of many keys: the row after which it closes."""

    def see(self, time: float) -> None:
        """Note the time of a row of the stream, or of its key."""
        self.own = time if self.own is None else max(self.own, time)

    def dump(self) -> dict[str, Any]:
        return {**vars(self), "incident": self.incident.dump()}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Track:
        return cls(**{**saved, "incident": Incident.restored(saved["incident"])})


class LatePlaces:
    """Places of late, and of how many keys they are."""

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self._places: deque[Place] = deque()
        self._counts: dict[Key, int] = {}
        self.extend(places)

    @property
    def keys(self) -> int:
        """Number of different keys."""
        return len(self._counts)

    def append(self, place: Place) -> None:
        self._places.append(place)
        self._counts[place.key] = self._counts.get(place.key, 0) + 1

    def extend(self, places: Iterable[Place]) -> None:
        for place in places:
            self.append(place)

    def popleft(self) -> None:
        key = self._places.popleft().key
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]

    def clear(self) -> None:
        self._places.clear()
        self._counts.clear()

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, at: int) -> Place:
        return self._places[at]

    def __iter__(self) -> Iterator[Place]:
        return iter(self._places)
