"""An incident: alerts that belong together, what is known of them, and what happens to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from onkel.alerting.crowds import Key

Array = NDArray[Any]

FAR = 3.0
"""A feature drives an alert if it lies so many spreads from its mean, or more."""
NAMED = 8
"""Features of one alert that are counted, the farthest first."""
IDS = 1000
"""Of an incident's alerts that are kept: the first so many."""


@dataclass
class Incident:
    """Alerts that belong together. Rows are counted from the start of the stream."""

    number: int
    """In the order in which incidents open, from 1."""
    key: Key | None = None
    """Whose it is; None without keys, and of many keys."""
    wide: bool = False
    """Whether it is of many keys at once."""
    start: int = 0
    """Row of its first alert."""
    end: int = 0
    """Row of its last alert so far."""
    count: int = 0
    """Number of its alerts."""
    held_back: int = 0
    """How many of them a cool-down has held back."""
    by_answer: int = 0
    """How many of them are alerts only since one like them was answered as a fault."""
    peak: float = np.inf
    """The lowest value (score, decision or rank) of its alerts: how unusual it became."""
    peak_at: int = 0
    """Row of that (the first, if several)."""
    peak_key: Key | None = None
    began: float | None = None
    """Time of its first alert, in seconds, where times are given."""
    ended: float | None = None
    """The latest time of its alerts so far: of the last one, unless times run backwards."""
    stamps: list[Any] = field(default_factory=lambda: [None, None, None])
    """How the times of the first, the last and the lowest alert were written, where given."""
    keys: dict[Key, int] = field(default_factory=dict)
    """Alerts of each key."""
    far: dict[int, list[float]] = field(default_factory=dict)
    """By feature: in how many alerts it was far from its mean, and the farthest, in spreads."""
    ids: list[str] = field(default_factory=list)
    """Of its first thousand alerts, where they are given."""
    into: int | None = None
    """The number of the incident that has taken it in."""
    open: bool = True

    @property
    def rows(self) -> int:
        """From its first alert to its last, both included."""
        return self.end - self.start + 1

    @property
    def duration(self) -> float | None:
        """Seconds from its first alert to the latest; never below 0."""
        return None if self.began is None or self.ended is None else self.ended - self.began

    def drivers(self, most: int = 5) -> list[tuple[int, int, float]]:
        """Return the features that drive it, most alerts first.

        Each with the number of alerts in which it was three spreads or more from its mean, and how
        far at most (with its sign). None is there where no single feature stands out.
        """
        found = [(j, int(n), z) for j, (n, z) in self.far.items()]
        return sorted(found, key=lambda d: (-d[1], -abs(d[2]), d[0]))[:most]

    def add(self, alert: Alert) -> None:
        """Take one alert more in."""
        if not self.count:
            self.start, self.began, self.stamps[0] = alert.row, alert.time, alert.stamp
        self.end, self.stamps[1] = alert.row, alert.stamp
        self.ended = _later(self.ended, alert.time)
        self.count += 1
        self.held_back += not alert.shown
        self.by_answer += alert.by_answer
        if alert.value < self.peak:
            self.peak, self.peak_at, self.peak_key = alert.value, alert.row, alert.key
            self.stamps[2] = alert.stamp
        if alert.key is not None:
            self.keys[alert.key] = self.keys.get(alert.key, 0) + 1
        if alert.id is not None and len(self.ids) < IDS:
            self.ids.append(alert.id)
        self._drive(((j, 1.0, z) for j, z in alert.far))

    def take_in(self, other: Incident) -> None:
        """Take the alerts of another incident in."""
        if not self.count or other.start < self.start:
            self.start, self.began, self.stamps[0] = other.start, other.began, other.stamps[0]
        if other.end >= self.end:
            self.end, self.stamps[1] = other.end, other.stamps[1]
        self.ended = _later(self.ended, other.ended)
        self.count += other.count
        self.held_back += other.held_back
        self.by_answer += other.by_answer
        if (other.peak, other.peak_at) < (self.peak, self.peak_at):
            self.peak, self.peak_at, self.peak_key = other.peak, other.peak_at, other.peak_key
            self.stamps[2] = other.stamps[2]
        for key, count in other.keys.items():
            self.keys[key] = self.keys.get(key, 0) + count
        self.ids = [*self.ids, *other.ids][:IDS]
        self._drive(((j, n, z) for j, (n, z) in other.far.items()))

    def _drive(self, far: Iterator[tuple[int, float, float]]) -> None:
        for j, count, z in far:
            known, most = self.far.get(j, (0.0, 0.0))
            self.far[j] = [known + count, z if abs(z) > abs(most) else most]

    def copy(self) -> Incident:
        """Return the incident as it is now."""
        return replace(
            self, stamps=[*self.stamps], keys=dict(self.keys), ids=[*self.ids],
            far={j: [*held] for j, held in self.far.items()},
        )  # fmt: skip

    def dump(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        pairs = {"keys": [*map(list, self.keys.items())], "far": [*map(list, self.far.items())]}
        return {**vars(self), **pairs}

    @classmethod
    def restored(cls, saved: dict[str, Any]) -> Incident:
        """Return what `dump` has described."""
        own = dict(saved)
        own["keys"] = {key: count for key, count in own["keys"]}
        own["far"] = {j: [*held] for j, held in own["far"]}
        return cls(**own)


@dataclass(frozen=True)
class Alert:
    """One alert, and all that an incident wants to know of it."""

    row: int
    value: float
    time: float | None
    key: Key | None
    shown: bool
    far: list[tuple[int, float]]
    stamp: Any
    id: str | None
    by_answer: bool


@dataclass(frozen=True)
class Event:
    """Something that happened to an incident, which is told as it was then."""

    what: Literal["opened", "joined", "closed"]
    """A joined one has become part of one of many keys, whose number is `incident.into`."""
    incident: Incident


@dataclass(frozen=True)
class Grouped:
    """What came of some rows."""

    numbers: Array
    """Of each row's incident; 0 for rows that are no alerts."""
    events: list[Event]
    """In their order."""
    before: list[int]
    """Of each alert: how many of the events come before it; one that it opens is among them."""


def _later(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)


def farthest(distances: Any) -> list[tuple[int, float]]:
    """Return the features of a row that lie far from their means."""
    if distances is None:
        return []
    z = np.nan_to_num(np.asarray(distances, np.float64), nan=0.0, posinf=1e9, neginf=-1e9)
    at = np.flatnonzero(np.abs(z) >= FAR)
    first = at[np.argsort(-np.abs(z[at]), kind="stable")][:NAMED]
    return [(int(j), float(z[j])) for j in first]
