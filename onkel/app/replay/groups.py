"""Incidents of a setting: all of them, as a run of its own would have told them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from onkel.alerting import Incident, incidents
from onkel.app.replay.alerts import Alert
from onkel.app.run.incidents import Grouping, Happened, lasting
from onkel.app.run.settings import RunSettings
from onkel.streams.sources import Block

MOST = 10
"""So many incidents of a setting are told: those with most alerts."""


class Kept(Grouping):
    """Groups as a run does, and keeps the incidents that are over."""

    over: list[Incident]
    into: dict[int, int]
    """Incidents that one of many keys has taken in, and its number."""

    def __call__(self, block: Block, columns: dict[str, Any]) -> Happened:
        """Take what came of a block; return columns more, and what happened to incidents."""
        happened = super().__call__(block, columns)
        for event in happened.events:
            if event.what == "closed":
                event.incident.ids = []  # a thousand texts each, and nobody asks for them here
                self.over.append(event.incident)
            elif event.what == "joined":
                assert event.incident.into is not None
                self.into[event.incident.number] = event.incident.into
        return happened

    def prune(self, begins: float) -> None:
        """Let go of what was over before this time, in seconds."""
        self.over = [one for one in self.over if one.ended is None or one.ended >= begins]

    def of(self, alerts: Sequence[Alert]) -> tuple[list[Alert], list[Incident]]:
        """Return alerts with the numbers of their incidents in the end, and those incidents."""
        found = [a._replace(incident=self.into.get(a.incident or 0, a.incident)) for a in alerts]
        wanted = {alert.incident for alert in found}
        known = [one for one in [*self.over, *self.groups.open] if one.number in wanted]
        return found, sorted(known, key=lambda one: one.number)

    def first(self, some: Sequence[Incident]) -> list[dict[str, Any]]:
        """Return what is told of the incidents with most alerts, of as many the rarest first."""
        first = sorted(some, key=lambda one: (-one.count, one.peak, one.number))[:MOST]
        return [{**self.told(one), "lasted": lasting(one)} for one in first]


def kept(settings: RunSettings, features: list[str]) -> Kept:
    """Return a grouping that has seen nothing yet."""
    found = Kept(settings, features)
    found.over, found.into = [], {}
    return found


def incidents_of(alerts: Sequence[Alert], gap: int | str = 20) -> list[Incident]:
    """Return incidents where nothing is known but alerts: those of each key by themselves.

    Which keys had rows in between is not known of alerts, so that none is of many keys at once.
    With a gap that is a time span, all alerts must have their time in seconds.

    Examples
    --------
    >>> alerts = [Alert(row, row, -float(row), -4.0) for row in (3, 5, 40)]
    >>> [(e.start, e.end, e.count, e.peak) for e in incidents_of(alerts, gap=2)]
    [(3, 5, 2, -5.0), (40, 40, 1, -40.0)]
    """
    by_key = defaultdict(list)
    for alert in alerts:
        by_key[alert.key, alert.whose].append(alert)
    found = [one for some in by_key.values() for one in _of_one(some, gap)]
    return sorted(found, key=lambda one: (one.start, one.end))


def _of_one(alerts: Sequence[Alert], gap: int | str) -> list[Incident]:
    """Return the incidents of one model, their rows counted as those of the stream.

    A gap of rows is one by a clock that ticks at each row: the rows in between, of which there may
    be millions, need not be there.
    """
    scores = np.nan_to_num([alert.score for alert in alerts])
    if isinstance(gap, str):
        span: Any = gap
        clock = [alert.seconds for alert in alerts]
    else:
        span = timedelta(seconds=gap + 0.5)
        clock = [float(alert.at) for alert in alerts]
    found = incidents(np.ones(len(alerts), bool), scores, span, clock)
    for one in found:
        one.start, one.end, one.peak_at = (alerts[i].row for i in (one.start, one.end, one.peak_at))
        if not isinstance(gap, str):
            one.began = one.ended = None
    return found


class Places:
    """Where a setting has alerts: the first one within an incident of another setting.

    Examples
    --------
    >>> places = Places([Alert(3, 1, -9.0, -4.0, key="a"), Alert(8, 2, -9.0, -4.0, key="b")])
    >>> one = Incident(1, start=2, end=9, keys={"b": 4})
    >>> places.within(one), places.count(one)
    (8, 1)
    """

    def __init__(self, alerts: Iterable[Alert]) -> None:
        self._rows: dict[Any, list[int]] = defaultdict(list)
        for alert in alerts:
            self._rows[alert.key].append(alert.row)

    def _spans(self, one: Incident) -> list[list[int]]:
        found = []
        for key in one.keys or [None]:
            rows = self._rows.get(key, [])
            found.append(rows[bisect_left(rows, one.start) : bisect_left(rows, one.end + 1)])
        return found

    def count(self, one: Incident) -> int:
        """Return how many alerts lie within an incident, of its keys."""
        return sum(map(len, self._spans(one)))

    def within(self, one: Incident) -> int | None:
        """Return the row of the first of them."""
        return min((rows[0] for rows in self._spans(one) if rows), default=None)
