"""The incidents of a run: which alerts belong together, which are held back, and both in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.alerting import CoolDown, Event, Incident, Incidents
from onkel.app.notify.messages import OPENED
from onkel.app.run.series import names_of
from onkel.app.run.settings import RunSettings
from onkel.explain import one_in
from onkel.saved import Saved
from onkel.scaling import Moments
from onkel.streams.sources import Block, Schema

Array = NDArray[Any]

HORIZON = 10_000.0
"""Rows over which the usual means and spreads are taken."""
ENOUGH = 30
"""Before so many rows nothing is far from its mean."""
NAMES = 20
"""Keys of an incident that are named, those with most alerts first."""
REMEMBERED = 200
"""Incidents that are over and remembered for the report and the page: those with most alerts."""
LATEST = 50
"""And so many that were the latest, for the page."""

UNFINISHED = "unfinished"
"""The state of an incident that was open when all ended."""
RATE = 0.01
"""Where no rate of alerts was promised: so many are thought to come by chance."""


@dataclass(frozen=True)
class Happened:
    """What came of the alerts of a block."""

    columns: dict[str, Any]
    """Of each row: its incident, and whether it is held back."""
    events: list[Event]
    before: list[int]
    """Of each alert: how many of the events come before it."""
    tell: Callable[[Incident, str], dict[str, Any]]

    def told(self) -> list[dict[str, Any]]:
        """Return what is told of the events."""
        return [self.tell(event.incident, event.what) for event in self.events]


def known_numbers(settings: RunSettings, schema: Schema, fleet: bool) -> list[str]:
    """Return what a grouping knows the distances from means of, as reasons of alerts name them.

    Of keys whose models are no fleet it knows none.

    Examples
    --------
    >>> from onkel.streams.sources import Column
    >>> schema = Schema((Column("minutes"),))
    >>> known_numbers(RunSettings("detect"), schema, False)
    ['minutes', 'minutes roughness', 'minutes residual']
    >>> known_numbers(RunSettings("detect", lags="0"), schema, False)
    ['minutes']
    """
    if fleet:
        return schema.features
    return [] if schema.at("key") is not None else names_of(settings, schema.features)


class Grouping:
    """Groups the alerts of a run, and holds back what a cool-down asks for.

    Parameters
    ----------
    settings : RunSettings
    features : list of str
        The numbers that rows are learned from; none where nobody knows how far they lie from their
        means.
    most : int, optional
        Incidents of single keys that may be open at once.
    remembered, latest : int
        Of those that are over, so many with most alerts are remembered, and so many of the latest.
    """

    def __init__(
        self, settings: RunSettings, features: list[str], most: int | None = None,
        remembered: int = REMEMBERED, latest: int = LATEST,
    ) -> None:  # fmt: skip
        self.features = features
        self._tells_p = settings.tells_p
        self.groups = Incidents(settings.gap, settings.promised or RATE, most)
        self.pause = CoolDown(settings.cool_down)
        self.moments = _moments(len(features))
        self._keeps = remembered, latest
        self.largest: list[dict[str, Any]] = []
        """What was told of those that are over and had most alerts, oldest first."""
        self.latest: list[dict[str, Any]] = []
        """What was told of the latest that are over."""

    def __call__(self, block: Block, columns: dict[str, Any]) -> Happened:
        """Take what came of a block; return columns more, and what happened to incidents."""
        alert = np.asarray(columns["alert"], bool)
        shown = self.pause.update(alert, block.keys)
        far = columns.get("far")
        if block.keys is None:
            far = self._far(columns.pop("seen", block.X), alert)
        by_answer = ~np.isnan(_own(columns, len(alert)))
        found = self.groups.update(
            alert, self._values(columns, alert), block.time, block.keys, far=far, shown=shown,
            rows=block.rows, stamps=block.stamps, ids=columns.get("alert_id"), by_answer=by_answer,
        )  # fmt: skip
        self._note(found.events)
        numbers = [number or None for number in found.numbers.tolist()]
        added = {"incident": numbers, "held_back": alert & ~shown}
        return Happened(added, found.events, found.before, self.told)

    def forget(self, keys: Iterable[Any]) -> Happened:
        """Close the incidents of keys of which no rows come any more."""
        events = self.groups.forget(keys)
        self._note(events)
        return Happened({}, events, [], self.told)

    def _note(self, events: list[Event]) -> None:
        for event in events:
            if event.what == "closed":
                self._remember(self._drawn(event.incident))

    def _remember(self, told: dict[str, Any]) -> None:
        """Remember an incident that is over; of too many the smallest is forgotten."""
        remembered, latest = self._keeps
        self.latest = [*self.latest, told][-latest:]
        self.largest.append(told)
        if len(self.largest) > remembered:
            self.largest.remove(min(self.largest, key=lambda one: (one["alerts"], one["incident"])))

    def _drawn(self, one: Incident) -> dict[str, Any]:
        """Return what is told, and where it lies on an axis of times."""
        more = {"began": one.began, "ended": one.ended, "lasted": lasting(one), "wide": one.wide}
        return {**self.told(one), **more}

    def _values(self, columns: dict[str, Any], alert: Array) -> Array:
        """Return how low rows are by themselves: log p, or how far below the threshold."""
        if not alert.any():
            return np.zeros(len(alert))
        score, own = np.asarray(columns["score"], float), _own(columns, len(alert))
        score = np.where(np.isnan(own), score, own)
        if not self._tells_p:
            score = score - np.asarray(columns["threshold"], float)
        return np.where(alert, np.nan_to_num(score), 0.0)

    def _far(self, X: Array, alert: Array) -> list[Any]:
        """Return how far the numbers of alerts lie from their means, by the rows before each."""
        far: list[Any] = [None] * len(alert)
        done = 0
        for i in np.flatnonzero(alert).tolist():
            self.moments.update(X[done:i])
            done = i
            known = self.moments.seen >= ENOUGH
            with np.errstate(all="ignore"):
                z = (X[i] - self.moments.mean) / self.moments.spread()
            far[i] = np.where(known, z, 0.0)
        self.moments.update(X[done:])
        return far

    def known(self, most: int = 50) -> list[dict[str, Any]]:
        """Return the incidents that are known: so many open ones, and those over; newest first."""
        over = {one["incident"]: one for one in (*self.latest, *self.largest)}
        still = [self._drawn(one) for one in self.groups.newest(most)]
        return [*still, *(over[number] for number in sorted(over, reverse=True))]

    def still(self, start: int, count: int) -> list[dict[str, Any]]:
        """Return so many of the incidents that are open, the newest first, from a place on."""
        return [self._drawn(one) for one in self.groups.newest(start + count)[start:]]

    @property
    def open(self) -> list[dict[str, Any]]:
        """What can be told of the incidents that are open, oldest first."""
        return [self._drawn(one) for one in self.groups.open]

    def going_on(self) -> list[dict[str, Any]]:
        """Return what is told of those that are open to who hears of them for the first time."""
        return [self.told(one, OPENED) for one in self.groups.open]

    def unfinished(self) -> list[dict[str, Any]]:
        """Return what is told of those that are open where nobody goes on with them."""
        return [self.told(one, UNFINISHED) for one in self.groups.open]

    # -- words -----------------------------------------------------------------------------------

    def told(self, one: Incident, what: str = "") -> dict[str, Any]:
        """Return what is told of an incident, as JSON knows it."""
        peak = float(np.exp(one.peak)) if self._tells_p else one.peak
        found: dict[str, Any] = {
            "incident": one.number, "state": what or ("open" if one.open else "closed"),
            "start_row": one.start, "end_row": one.end, "rows": one.rows,
        }  # fmt: skip
        timed = any(stamp is not None for stamp in one.stamps)
        if timed:
            found |= {"start": one.stamps[0], "end": one.stamps[1], "seconds": one.duration}
        found |= {"alerts": one.count, "held_back": one.held_back}
        if one.by_answer:
            found["by_answer"] = one.by_answer
        found["peak_row"] = one.peak_at
        if timed:
            found["peak_time"] = one.stamps[2]
        if one.key is not None:
            found["key"] = one.key
        if one.keys:
            names = sorted(one.keys, key=lambda key: (-one.keys[key], str(key)))
            found |= {"peak_key": one.peak_key, "keys": len(names), "key_names": names[:NAMES]}
        found["peak_p" if self._tells_p else "peak"] = peak
        if self.features:
            found["features"] = [
                {"name": self.features[j], "alerts": count, "spreads": round(z, 3)}
                for j, count, z in one.drivers()
            ]
        if one.ids:
            found["alert_ids"] = list(one.ids)
        if one.into is not None:
            found["joined"] = one.into
        return {**found, "words": self._words(one)}

    def _words(self, one: Incident) -> str:
        if one.into is not None:
            return f"It is part of incident {one.into}, of many keys at once."
        like = _by_answer(one)
        return f"{_extent(one)}{self._peak(one)}. {like}{self._driven(one)}".rstrip()

    def _peak(self, one: Incident) -> str:
        if not self._tells_p:
            return ""
        if one.count == 1:
            return f", {one_in(one.peak)}"
        return f"; the most unusual, {one_in(one.peak)}, at row {one.peak_at:,}"

    def _driven(self, one: Incident) -> str:
        if not self.features:
            return ""  # the reasons of its alerts may name some
        parts = [
            f"{self.features[j]} {'up to ' * (count > 1)}{far(z)} spreads "
            f"{'above' if z > 0 else 'below'} its mean{_in_alerts(count, one.count)}"
            for j, count, z in one.drivers(3)
        ]
        if not parts:
            return "No single number was three spreads or more from its mean."
        return f"Driven by {', '.join(parts)}."

    # -- files -----------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return all of it as JSON knows it."""
        moments = {name: values.tolist() for name, values in self.moments.dump().items()}
        return {
            "groups": self.groups.dump(), "left": self.pause.left, "paused": self.pause.paused,
            "features": self.features, "moments": moments, "largest": self.largest,
            "latest": self.latest,
        }  # fmt: skip

    def restore(self, saved: dict[str, Any]) -> None:
        """Become what `dump` has described."""
        self.features = [*saved["features"]]
        self.groups.restore(saved["groups"])
        self.pause.left, self.pause.paused = saved["left"], dict(saved["paused"])
        held = {name: np.array(values, float) for name, values in saved["moments"].items()}
        self.moments.restore(Saved(held, "incidents."), len(self.features))
        self.largest, self.latest = [*saved["largest"]], [*saved["latest"]]


def _moments(columns: int) -> Moments:
    return Moments(columns, HORIZON, float(np.finfo(float).eps), gaps=True, steady=True)


def _own(columns: dict[str, Any], rows: int) -> Array:
    """Return log p had nothing been answered, of rows that are alerts for an answer alone."""
    own = columns.get("own")
    return np.full(rows, np.nan) if own is None else np.asarray(own, float)


def _extent(one: Incident) -> str:
    """Return how large an incident is, as a sentence."""
    alerts = f"{one.count:,} alert{'s' * (one.count != 1)}"
    if one.held_back:
        alerts += f" ({one.held_back:,} held back)"
    if one.wide:
        alerts += f" of {len(one.keys):,} keys"
    elif one.key is not None:
        alerts += f" of key {one.key}"
    if one.count == 1:
        return f"{alerts} at row {one.start:,}"
    by_rows = one.duration is None or one.duration <= 0
    return f"{alerts} in {lasting(one)}{' of all keys' * (by_rows and bool(one.keys))}"


def lasting(one: Incident) -> str:
    """Return how long an incident has lasted: by the clock, if that is known."""
    if one.duration is None or one.duration <= 0:
        return f"{one.rows:,} row{'s' * (one.rows != 1)}"
    return span(one.duration)


def span(duration: float) -> str:
    """Return so many seconds in words.

    Examples
    --------
    >>> span(90.0), span(7200.0), span(0.5), span(200000.0)
    ('1.5 minutes', '2 hours', '0.5 seconds', '2.31 days')
    """
    for unit, size in (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0)):
        if duration >= size:
            return f"{duration / size:.3g} {unit}{'s' * (duration != size)}"
    return f"{duration:.3g} second{'s' * (duration != 1.0)}"


def _by_answer(one: Incident) -> str:
    """Return how many of its alerts are such for an answer alone, as a sentence."""
    if not one.by_answer:
        return ""
    if one.count == 1:
        return "It is an alert only since one like it was answered as a fault. "
    if one.by_answer == 1:
        return "One of them is an alert only since one like it was answered as a fault. "
    which = "All" if one.by_answer == one.count else f"{one.by_answer:,}"
    return f"{which} of them are alerts only since some like them were answered as faults. "


def far(spreads: float) -> str:
    """Return how far something is from its mean, in spreads, without its sign.

    Examples
    --------
    >>> far(-9.8912), far(1682.91), far(4.0e12)
    ('9.89', '1,683', '4e+12')
    """
    size = abs(spreads)
    return f"{size:,.0f}" if 1e3 <= size < 1e9 else f"{size:.3g}"


def _in_alerts(count: int, of: int) -> str:
    if of == 1:
        return ""
    return " (in all of them)" if count == of else f" (in {count:,} of them)"


def lines(told: list[dict[str, Any]]) -> bytes:
    """Return what is told of incidents as JSON lines."""
    return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in told).encode(
        "utf-8", "backslashreplace"
    )
