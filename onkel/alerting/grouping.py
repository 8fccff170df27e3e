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
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.alerting.crowds import LEAST_ROWS, Key, KnownKeys, is_crowd
from onkel.alerting.given import GivenRows
from onkel.alerting.incident import Alert, Event, Grouped, Incident
from onkel.alerting.ongoing import LatePlaces, Place, Track
from onkel.clock import ACCEPTED, is_duration, seconds
from onkel.params import Accept

Array = NDArray[Any]

_MOST = Accept(low=1, high=2**31, whole=True)
_RATE = Accept(low=0, low_open=True, high=1, high_open=True)


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

    Times may run backwards: the latest so far is the clock. An incident begins and ends by the
    times of its own alerts, and by the clock a gap has also passed where it has by the latest time
    since its first alert (of its key): so it does in a file that tells one key after another.

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
        if rate is not None and not _RATE.fits(rate):
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
        self._open: OrderedDict[Key | None, Track] = OrderedDict()
        """Of single keys, or of a stream without; whose last alert is oldest comes first."""
        self._known = KnownKeys()
        self._horizon = -1
        """What came after this row counts as at once."""
        self._begun: deque[Place] = deque()
        """Where keys began an incident, of late."""
        self._wide: Track | None = None
        self._late = LatePlaces()
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
        by_answer: Any = None,
    ) -> Grouped:  # fmt: skip
        """Take the next rows; return their incidents, and what happened.

        What has one value per row is a list, an array or a series, and goes by position, whatever
        index it has. A call that is refused changes nothing.

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
        by_answer : array, optional
            Whether each alert is one only since one like it was answered as a fault.
        """
        given = self._checked(alerts, values, time, keys, far, shown, rows, stamps, ids, by_answer)
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
        if isinstance(keys, (str, bytes)):
            raise ValueError(f"Incidents: forget takes a list of keys; got the text {keys!r:.60}.")
        events: list[Event] = []
        for key in dict.fromkeys(keys):
            if key in self._open:
                self._close(self._open.pop(key), events)
        return events

    def _checked(self, alerts: Any, values: Any, time: Any, keys: Any, *rest: Any) -> GivenRows:
        if self._span is not None and time is None:
            raise ValueError("Incidents: the gap is a time span, so that update needs time.")
        given = GivenRows.checked(alerts, values, time, keys, *rest)
        if self.seen and len(given.flags) and (keys is None) == (self._known.count > 0):
            raise ValueError("Incidents: either all rows have keys, or none has.")
        return given

    def _clock(self, time: Array | None) -> list[float] | None:
        """Return the latest time so far, at each row."""
        if time is None:
            return None
        clock = np.maximum.accumulate(time)
        found: list[float] = np.maximum(clock, clock if self._now is None else self._now).tolist()
        self._now = found[-1]
        return found

    # -- without keys ----------------------------------------------------------------------------

    def _alone(self, given: GivenRows, found: Grouped) -> None:
        """Take rows without keys: only alerts, and the end, are looked at."""
        clock, events, seen = self._clock(given.time), found.events, 0
        last = self.seen + len(given.flags) - 1
        for i in np.flatnonzero(given.flags).tolist():
            row, now = self.seen + i, None if clock is None else clock[i]
            self._see(given.time, seen, i + 1)
            seen = i + 1
            self._close_alone(row - 1, now, events)
            track = self._open.get(None) or self._opened(None)
            found.numbers[i] = self._add(track, given.alert(i, row), row, now, events)
            found.before.append(len(events))
        self._see(given.time, seen, len(given.flags))
        self._close_alone(last, None if clock is None else clock[-1], events)

    def _see(self, time: Array | None, start: int, stop: int) -> None:
        """Let the incident that is open know the times of these rows."""
        track = self._open.get(None)
        if track is not None and time is not None and stop > start:
            track.see(float(time[start:stop].max()))

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

    def _is_past(self, track: Track, now: float | None) -> bool:
        """Whether its last alert is longer ago than the gap, by the clock."""
        assert now is not None and track.now is not None and self._span is not None
        own = 0.0 if track.own is None or track.last is None else track.own - track.last
        return max(now - track.now, own) > self._span

    # -- opening and closing ---------------------------------------------------------------------

    def _opened(self, key: Key | None) -> Track:
        self.opened += 1
        found = self._open[key] = Track(Incident(self.opened, key))
        return found

    def _add(
        self, track: Track, alert: Alert, row: int, now: float | None, events: list[Event]
    ) -> int:
        """Give an alert to an incident; one that had none is told to have opened."""
        track.incident.add(alert)
        track.row, track.now, track.since = row, now, 0
        if alert.time is not None:
            track.see(alert.time)
        track.last = track.own
        if track.incident.count == 1:
            events.append(Event("opened", track.incident.copy()))
        return track.incident.number

    def _close(self, track: Track, events: list[Event]) -> None:
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

    def _tracks(self) -> list[Track]:
        return [*self._open.values(), *([] if self._wide is None else [self._wide])]

    # -- with keys -------------------------------------------------------------------------------

    def _by_key(self, given: GivenRows, found: Grouped) -> None:
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
                if given.time is not None:
                    self._see_key(track, float(given.time[i]), now, events)
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

    def _see_key(self, track: Track, time: float, now: float | None, events: list[Event]) -> None:
        """Note the time of a row of this incident's key; close it if that is too late."""
        track.see(time)
        if self._span is not None and self._is_past(track, now):
            self._close(self._open.pop(track.incident.key), events)

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

    def _alert(self, alert: Alert, row: int, now: float | None, events: list[Event]) -> int:
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
            self._begun.append(Place(row, now, key, number))
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
        self._wide = Track(Incident(self.opened, wide=True))
        for place in there:
            if place.number > 0:
                self._take_in(self._open[place.key], events)
        self._late.extend(there)
        self._begun.clear()
        return True

    def _number(self, key: Key) -> int:
        track = self._open.get(key)
        return 0 if track is None else track.incident.number

    def _take_in(self, track: Track, events: list[Event]) -> None:
        assert self._wide is not None
        one = track.incident
        del self._open[one.key]
        one.open, one.into = False, self._wide.incident.number
        self._wide.incident.take_in(one)
        self.joined += 1
        events.append(Event("joined", one))

    def _add_wide(self, alert: Alert, row: int, now: float | None, events: list[Event]) -> int:
        """Give an alert to the incident of many keys; it goes on if there are many of late."""
        wide, key = self._wide, alert.key
        assert wide is not None and key is not None and self.rate is not None
        new = wide.row < 0
        wide.incident.add(alert)
        if new:
            events.append(Event("opened", wide.incident.copy()))
        self._late.append(Place(row, now, key, 0))
        self._forget(self._late, now)
        if new or is_crowd(self._late.keys, row - self._horizon, self.rate):
            wide.row, wide.now = row, now
            wide.until = row + max(self.gap or 0, 2 * self._known.count)
        return wide.incident.number

    def _forget(self, places: deque[Place] | LatePlaces, now: float | None) -> None:
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
            tracks = [Track.restored(held) for held in saved["open"]]
            wide = None if saved["wide"] is None else Track.restored(saved["wide"])
            begun, late = ([Place(*place) for place in saved[n]] for n in ("begun", "late"))
            known = KnownKeys() if saved["known"] is None else KnownKeys.restored(saved["known"])
            counts = [int(saved[n]) for n in ("seen", "opened", "joined", "horizon")]
            now = None if saved["now"] is None else float(saved["now"])
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"Incidents: this is not what dump() returns: {error}.") from None
        self.seen, self.opened, self.joined, self._horizon = counts
        self._now, self._known, self._wide = now, known, wide
        self._open = OrderedDict((track.incident.key, track) for track in tracks)
        self._begun, self._late = deque(begun), LatePlaces(late)


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
