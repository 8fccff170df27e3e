"""Incidents: alerts close in time, and of several keys at once, as one thing that somebody acts on.

Of a stream without keys, alerts at most a gap apart are one incident. With keys each key has its
own incidents, since among many keys some alert is always near: that is what a promised rate means.
Only where more keys begin to alert at once than that rate explains, one incident of many keys takes
them in; it lasts as long as they are so many.
"""

from __future__ import annotations

import heapq
import zlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.alerting.crowds import LEAST_ROWS, Key, KnownKeys, is_crowd
from onkel.alerting.hygiene import flags_of, values_of
from onkel.clock import ACCEPTED, is_duration, seconds, times_of
from onkel.params import Accept

Array = NDArray[Any]

FAR = 3.0
"""A feature drives an alert if it lies so many spreads from its mean, or more."""
NAMED = 8
"""Features of one alert that are counted, the farthest first."""
IDS = 1000
"""Of an incident's alerts that are kept: the first so many."""
_MOST = Accept(low=1, high=2**31, whole=True)


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
    peak: float = np.inf
    """The lowest value (score, decision or rank) of its alerts: how unusual it became."""
    peak_at: int = 0
    """Row of that (the first, if several)."""
    peak_key: Key | None = None
    began: float | None = None
    """Time of its first alert, in seconds, where times are given."""
    ended: float | None = None
    """Time of its last alert so far."""
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
        """Seconds from its first alert to its last."""
        return None if self.began is None or self.ended is None else self.ended - self.began

    def drivers(self, most: int = 5) -> list[tuple[int, int, float]]:
        """Return the features that drive it, most alerts first.

        Each with the number of alerts in which it was three spreads or more from its mean, and how
        far at most (with its sign). None is there where no single feature stands out.
        """
        found = [(j, int(n), z) for j, (n, z) in self.far.items()]
        return sorted(found, key=lambda d: (-d[1], -abs(d[2]), d[0]))[:most]

    def add(self, alert: _Alert) -> None:
        """Take one alert more in."""
        if not self.count:
            self.start, self.began, self.stamps[0] = alert.row, alert.time, alert.stamp
        self.end, self.ended, self.stamps[1] = alert.row, alert.time, alert.stamp
        self.count += 1
        self.held_back += not alert.shown
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
            self.end, self.ended, self.stamps[1] = other.end, other.ended, other.stamps[1]
        self.count += other.count
        self.held_back += other.held_back
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
class _Alert:
    """One alert, and all that an incident wants to know of it."""

    row: int
    value: float
    time: float | None
    key: Key | None
    shown: bool
    far: list[tuple[int, float]]
    stamp: Any
    id: str | None


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


class _Place(NamedTuple):
    """Where a key had an alert, and the number of its incident: less than 0 if that is older."""

    row: int
    now: float | None
    key: Key
    number: int


@dataclass
class _Track:
    """An incident that is open, and what decides whether it stays so."""

    incident: Incident
    row: int = -1
    """Of its last alert, counted from the first row; of many keys: when they were last many."""
    now: float | None = None
    """The clock then."""
    since: int = 0
    """Rows of its key since then."""
    until: int = 0
    """Of many keys: the row after which it closes."""

    def dump(self) -> dict[str, Any]:
        return {**vars(self), "incident": self.incident.dump()}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> _Track:
        return cls(**{**saved, "incident": Incident.restored(saved["incident"])})


_REST = ("far", "shown", "rows", "stamps", "ids")


@dataclass
class _Rows:
    """Rows of one call, checked."""

    flags: Array
    values: Array
    time: Array | None
    keys: Sequence[Key] | None
    far: Any
    shown: Array | None
    rows: Any
    stamps: Sequence[Any] | None
    ids: Sequence[Any] | None

    def alert(self, i: int, row: int) -> _Alert:
        return _Alert(
            row if self.rows is None else int(self.rows[i]),
            float(self.values[i]),
            None if self.time is None else float(self.time[i]),
            None if self.keys is None else self.keys[i],
            self.shown is None or bool(self.shown[i]),
            [] if self.far is None else _farthest(self.far[i]),
            None if self.stamps is None else self.stamps[i],
            None if self.ids is None or self.ids[i] is None else str(self.ids[i]),
        )


def _farthest(distances: Any) -> list[tuple[int, float]]:
    """Return the features of a row that lie far from their means."""
    if distances is None:
        return []
    z = np.nan_to_num(np.asarray(distances, np.float64), nan=0.0, posinf=1e9, neginf=-1e9)
    at = np.flatnonzero(np.abs(z) >= FAR)
    first = at[np.argsort(-np.abs(z[at]), kind="stable")][:NAMED]
    return [(int(j), float(z[j])) for j in first]


def gap_of(gap: Any) -> tuple[int | None, float | None]:
    """Return a gap in rows, or in seconds: the other is None."""
    if is_duration(gap):
        found = seconds(gap)
        if found is not None:
            return None, found
    elif isinstance(gap, (int, np.integer)) and not isinstance(gap, bool) and 0 <= gap < 2**62:
        return int(gap), None
    raise ValueError(
        f"Incidents: gap must be a whole number of rows, 0 or more, or {ACCEPTED}; got {gap!r}."
    )


class _Late:
    """Places of late, and of how many keys they are."""

    def __init__(self, places: Iterable[_Place] = ()) -> None:
        self._places: deque[_Place] = deque()
        self._counts: dict[Key, int] = {}
        self.extend(places)

    @property
    def keys(self) -> int:
        """Number of different keys."""
        return len(self._counts)

    def append(self, place: _Place) -> None:
        self._places.append(place)
        self._counts[place.key] = self._counts.get(place.key, 0) + 1

    def extend(self, places: Iterable[_Place]) -> None:
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

    def __getitem__(self, at: int) -> _Place:
        return self._places[at]

    def __iter__(self) -> Iterator[_Place]:
        return iter(self._places)


class Incidents:
    """Groups alerts into incidents.

    Parameters
    ----------
    gap : int or duration
        From one alert to the next, at most: rows (of its key), or a time span such as "30min".
    rate : float, optional
        The promised rate of alerts. With keys and a rate, alerts of so many keys at once as the
        rate does not explain are one incident; without a rate incidents are of single keys.
    most : int, optional
        So many of single keys may be open: where one more opens, the one that closes is that whose
        last alert is longest ago. It bounds the memory.

    Notes
    -----
    With keys, "at once" is within the last `n` rows, n being the number of keys so far (20 at
    least), and with a gap by the clock not longer ago than that. If within them so many keys have
    begun to alert (after none of their alerts was at once) that it is a crowd
    (:func:`~onkel.alerting.crowds.is_crowd`), an incident of many keys opens and takes theirs in.
    (A key that goes on with an older one keeps that.) From then on the alerts of every key that
    begins to alert are its. It closes when a gap has passed since
    its alerts were last those of so many keys at once (in rows: of all keys, two rows of each at
    least).

    Times may run backwards: the latest so far is the clock.

    Examples
    --------
    >>> groups = Incidents(gap=2)
    >>> found = groups.update([True, False, True, False], [-1.0, 0.0, -3.0, 0.0])
    >>> found.numbers, [(e.what, e.incident.number) for e in found.events]
    (array([1, 0, 1, 0]), [('opened', 1)])
    >>> [(e.what, e.incident.peak) for e in groups.update([False], [0.0]).events]
    [('closed', -3.0)]
    """

    def __init__(self, gap: Any, rate: float | None = None, most: int | None = None) -> None:
        self.gap, self._span = gap_of(gap)
        if rate is not None and not 0 < rate < 1:
            raise ValueError(f"Incidents: rate must lie between 0 and 1, or be None; got {rate!r}.")
        self.rate = rate
        self.most = None if most is None else _MOST.check("Incidents", "most", most)
        self.seen = 0
        """Rows so far."""
        self.opened = 0
        """Incidents so far, those among them that another has taken in."""
        self.joined = 0
        """Those."""
        self._now: float | None = None
        self._open: OrderedDict[Key | None, _Track] = OrderedDict()
        """Of single keys, or of a stream without; whose last alert is oldest comes first."""
        self._known = KnownKeys()
        self._horizon = -1
        """What came after this row counts as at once."""
        self._begun: deque[_Place] = deque()
        """Where keys began an incident, of late."""
        self._wide: _Track | None = None
        self._late = _Late()
        """Where its alerts were, of late."""

    def __len__(self) -> int:
        """Number of incidents that may still go on."""
        return len(self._open) + (self._wide is not None)

    @property
    def open(self) -> list[Incident]:
        """The incidents that may still go on, as they are now."""
        return self.newest(len(self))[::-1]

    def newest(self, count: int) -> list[Incident]:
        """Return so many of those that may still go on, the newest first."""
        number = lambda track: track.incident.number  # noqa: E731
        return [t.incident.copy() for t in heapq.nlargest(count, self._tracks(), key=number)]

    @property
    def count(self) -> int:
        """Incidents so far, without those that another has taken in."""
        return self.opened - self.joined

    # -- taking rows -----------------------------------------------------------------------------

    def update(
        self, alerts: Any, values: Any, time: Any = None, keys: Any = None, *, far: Any = None,
        shown: Any = None, rows: Any = None, stamps: Any = None, ids: Any = None,
    ) -> Grouped:  # fmt: skip
        """Take the next rows; return their incidents, and what happened.

        Parameters
        ----------
        alerts, values : arrays
            Of each row: whether it is an alert, and how low it is (score, decision or rank).
        time : array, optional
            Of each row; needed where the gap is a time span.
        keys : list, optional
            Of each row, texts or whole numbers.
        far : array or list, optional
            Of each row: how far each feature lies from its mean, in spreads. Only those of alerts
            are looked at.
        shown : array, optional
            Whether a cool-down lets each alert be shown.
        rows, stamps, ids : lists, optional
            What rows, times and alerts are called, where that is not their number.
        """
        given = self._checked(alerts, values, time, keys, far, shown, rows, stamps, ids)
        found = Grouped(np.zeros(len(given.flags), np.int64), [], [])
        if len(given.flags):
            (self._alone if given.keys is None else self._by_key)(given, found)
        self.seen += len(given.flags)
        return found

    def forget(self, keys: Iterable[Key]) -> list[Event]:
        """Close the incidents of keys of which no rows come any more; return what happened.

        Examples
        --------
        >>> groups = Incidents(gap=2)
        >>> _ = groups.update([True, True], [-1.0, -1.0], keys=["a", "b"])
        >>> [(e.what, e.incident.key) for e in groups.forget(["a", "c"])], len(groups)
        ([('closed', 'a')], 1)
        """
        events: list[Event] = []
        for key in dict.fromkeys(keys):
            if key in self._open:
                self._close(self._open.pop(key), events)
        return events

    def _checked(self, alerts: Any, values: Any, time: Any, keys: Any, *rest: Any) -> _Rows:
        flags, numbers = flags_of("Incidents", alerts), values_of("Incidents", values)
        if self._span is not None and time is None:
            raise ValueError("Incidents: the gap is a time span, so that update needs time.")
        keys = keys.tolist() if isinstance(keys, np.ndarray) else keys
        given = {"values": numbers, "keys": keys, **dict(zip(_REST, rest, strict=True))}
        for name, held in given.items():
            if held is not None and len(held) != len(flags):
                found = f"{len(flags)} and {len(held)}"
                raise ValueError(f"Incidents: alerts and {name} must be as many; got {found}.")
        if self.seen and len(flags) and (keys is None) == (self._known.count > 0):
            raise ValueError("Incidents: either all rows have keys, or none has.")
        times = None if time is None else times_of(time, len(flags))
        return _Rows(flags, numbers, times, keys, *rest)

    def _clock(self, time: Array | None) -> list[float] | None:
        """Return the latest time so far, at each row."""
        if time is None:
            return None
        clock = np.maximum.accumulate(time)
        found: list[float] = np.maximum(clock, clock if self._now is None else self._now).tolist()
        self._now = found[-1]
        return found

    # -- without keys ----------------------------------------------------------------------------

    def _alone(self, given: _Rows, found: Grouped) -> None:
        """Take rows without keys: only alerts, and the end, are looked at."""
        clock, last, events = (
            self._clock(given.time),
            self.seen + len(given.flags) - 1,
            found.events,
        )
        for i in np.flatnonzero(given.flags).tolist():
            row, now = self.seen + i, None if clock is None else clock[i]
            self._close_alone(row - 1, now, events)
            track = self._open.get(None) or self._opened(None)
            found.numbers[i] = self._add(track, given.alert(i, row), row, now, events)
            found.before.append(len(events))
        self._close_alone(last, None if clock is None else clock[-1], events)

    def _close_alone(self, row: int, now: float | None, events: list[Event]) -> None:
        """Close the incident if, after this row, no alert can be its own any more."""
        track = self._open.get(None)
        if track is None:
            return
        if self._span is None:
            assert self.gap is not None
            over = row - track.row >= self.gap
        else:
            over = self._is_past(track, now)
        if over:
            self._close(self._open.pop(None), events)

    def _is_past(self, track: _Track, now: float | None) -> bool:
        """Whether its last alert is longer ago than the gap, by the clock."""
        assert now is not None and track.now is not None and self._span is not None
        return now - track.now > self._span

    # -- opening and closing ---------------------------------------------------------------------

    def _opened(self, key: Key | None) -> _Track:
        self.opened += 1
        found = self._open[key] = _Track(Incident(self.opened, key))
        return found

    def _add(
        self, track: _Track, alert: _Alert, row: int, now: float | None, events: list[Event]
    ) -> int:
        """Give an alert to an incident; one that had none is told to have opened."""
        track.incident.add(alert)
        track.row, track.now, track.since = row, now, 0
        if track.incident.count == 1:
            events.append(Event("opened", track.incident.copy()))
        return track.incident.number

    def _close(self, track: _Track, events: list[Event]) -> None:
        track.incident.open = False
        events.append(Event("closed", track.incident))

    def close(self) -> list[Incident]:
        """End all incidents, and return them; what comes next begins new ones."""
        events: list[Event] = []
        for track in sorted(self._tracks(), key=lambda found: found.incident.number):
            self._close(track, events)
        self._open.clear()
        self._begun.clear()
        self._late.clear()
        self._wide = None
        return [event.incident for event in events]

    def _tracks(self) -> list[_Track]:
        return [*self._open.values(), *([] if self._wide is None else [self._wide])]

    # -- with keys -------------------------------------------------------------------------------

    def _by_key(self, given: _Rows, found: Grouped) -> None:
        clock, flags, first = self._clock(given.time), given.flags.tolist(), self.seen
        events = found.events
        assert given.keys is not None
        for i, key in enumerate(given.keys):
            now = None if clock is None else clock[i]
            self._horizon = max(self._horizon, first + i - max(self._known.add(key), LEAST_ROWS))
            if self._span is not None:
                self._let_pass(now, events)
            track = self._open.get(key)
            if track is not None:
                track.since += 1
            if flags[i]:
                alert = given.alert(i, first + i)
                found.numbers[i] = self._alert(alert, first + i, now, events)
                found.before.append(len(events))
            if self.gap is not None:
                self._count_down(key, first + i, events)

    def _let_pass(self, now: float | None, events: list[Event]) -> None:
        """Close what is over by the clock."""
        while self._open and self._is_past(next(iter(self._open.values())), now):
            self._close(self._open.popitem(last=False)[1], events)
        if self._wide is not None and self._is_past(self._wide, now):
            self._close_wide(events)

    def _count_down(self, key: Key, row: int, events: list[Event]) -> None:
        """Close what is over after a row of this key, by the number of rows."""
        track, gap = self._open.get(key), self.gap
        assert gap is not None
        if track is not None and track.since >= gap:
            self._close(self._open.pop(key), events)
        if self._wide is not None and row >= self._wide.until:
            self._close_wide(events)

    def _close_wide(self, events: list[Event]) -> None:
        assert self._wide is not None
        self._close(self._wide, events)
        self._wide = None
        self._late.clear()

    def _alert(self, alert: _Alert, row: int, now: float | None, events: list[Event]) -> int:
        key = alert.key
        assert key is not None
        track = self._open.get(key)
        begins = track is None or track.row <= self._horizon
        if begins and (self._wide is not None or self._gather(row, now, events)):
            if track is not None:  # it had been quiet, and what comes now is something else
                self._close(self._open.pop(key), events)
            return self._add_wide(alert, row, now, events)
        if begins:
            number = self.opened + 1 if track is None else -track.incident.number
            self._begun.append(_Place(row, now, key, number))
        track = track or self._opened(key)
        self._open.move_to_end(key)
        if self.most is not None and len(self._open) > self.most:
            self._close(self._open.popitem(last=False)[1], events)
        return self._add(track, alert, row, now, events)

    def _gather(self, row: int, now: float | None, events: list[Event]) -> bool:
        """Open an incident of many keys, if one more that begins to alert makes them a crowd."""
        self._forget(self._begun, now)
        n = row - self._horizon
        if self.rate is None or not is_crowd(len(self._begun) + 1, n, self.rate):
            return False  # nor would it be without those that are over
        there = [place for place in self._begun if self._number(place.key) == abs(place.number)]
        if not is_crowd(len(there) + 1, n, self.rate):
            return False
        self.opened += 1
        self._wide = _Track(Incident(self.opened, wide=True))
        for place in there:
            if place.number > 0:
                self._take_in(self._open[place.key], events)
        self._late.extend(there)
        self._begun.clear()
        return True

    def _number(self, key: Key) -> int:
        track = self._open.get(key)
        return 0 if track is None else track.incident.number

    def _take_in(self, track: _Track, events: list[Event]) -> None:
        assert self._wide is not None
        one = track.incident
        del self._open[one.key]
        one.open, one.into = False, self._wide.incident.number
        self._wide.incident.take_in(one)
        self.joined += 1
        events.append(Event("joined", one))

    def _add_wide(self, alert: _Alert, row: int, now: float | None, events: list[Event]) -> int:
        """Give an alert to the incident of many keys; it goes on if there are many of late."""
        wide, key = self._wide, alert.key
        assert wide is not None and key is not None and self.rate is not None
        new = wide.row < 0
        wide.incident.add(alert)
        if new:
            events.append(Event("opened", wide.incident.copy()))
        self._late.append(_Place(row, now, key, 0))
        self._forget(self._late, now)
        if new or is_crowd(self._late.keys, row - self._horizon, self.rate):
            wide.row, wide.now = row, now
            wide.until = row + max(self.gap or 0, 2 * self._known.count)
        return wide.incident.number

    def _forget(self, places: deque[_Place] | _Late, now: float | None) -> None:
        """Leave places out that are not of late any more."""
        span = self._span
        while places and (places[0].row <= self._horizon or (
            span is not None and now is not None and now - (places[0].now or 0.0) > span
        )):  # fmt: skip
            places.popleft()

    # -- files -----------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return all of it as JSON knows it."""
        return {
            "seen": self.seen, "opened": self.opened, "joined": self.joined, "now": self._now,
            "open": [track.dump() for track in self._open.values()],
            "known": self._known.dump() if self._known.count else None,
            "horizon": self._horizon, "begun": [[*place] for place in self._begun],
            "wide": None if self._wide is None else self._wide.dump(),
            "late": [[*place] for place in self._late],
        }  # fmt: skip

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Become what `dump` has described; the gap and the rate are one's own."""
        try:
            tracks = [_Track.restored(held) for held in saved["open"]]
            wide = None if saved["wide"] is None else _Track.restored(saved["wide"])
            begun, late = ([_Place(*place) for place in saved[n]] for n in ("begun", "late"))
            known = KnownKeys() if saved["known"] is None else KnownKeys.restored(saved["known"])
            counts = [int(saved[n]) for n in ("seen", "opened", "joined", "horizon")]
            now = None if saved["now"] is None else float(saved["now"])
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"Incidents: this is not what dump() returns: {error}.") from None
        self.seen, self.opened, self.joined, self._horizon = counts
        self._now, self._known, self._wide = now, known, wide
        self._open = OrderedDict((track.incident.key, track) for track in tracks)
        self._begun, self._late = deque(begun), _Late(late)


def incidents(
    alerts: Any, values: Any, gap: Any, time: Any = None, keys: Any = None,
    rate: float | None = None, far: Any = None, most: int | None = None,
) -> list[Incident]:  # fmt: skip
    """Return the incidents of a whole stream, in the order of their numbers.

    See :class:`Incidents`. Those that were taken in by an incident of many keys are not there.

    Examples
    --------
    >>> found = incidents([1, 0, 1, 0, 0, 1], [-1.0, 0.0, -3.0, 0.0, 0.0, -2.0], gap=2)
    >>> [(one.start, one.end, one.count, one.peak) for one in found]
    [(0, 2, 2, -3.0), (5, 5, 1, -2.0)]
    """
    groups = Incidents(gap, rate, most)
    events = groups.update(alerts, values, time, keys, far=far).events
    found = [e.incident for e in events if e.what == "closed"] + groups.close()
    return sorted(found, key=lambda one: one.number)
