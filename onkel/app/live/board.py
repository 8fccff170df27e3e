"""What the live page shows: each model's stream, thinned to what a screen can hold.

Whoever learns calls ``publish(model, block)``; whoever draws asks for what is new. A block costs a
few array operations whatever its size, and a model keeps a bounded ring of buckets: ten a second
at most, so that fifty thousand examples a second are drawn like five.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.live.drift import Drift
from onkel.fleet.view import View

Array = NDArray[Any]

BUCKETS = 600
"""Kept for each model."""
PERIOD = 0.1
"""Seconds that a bucket is open, at least."""
ALERTS = 2000
"""Kept for each model: the latest."""
SENT = 50
"""Of these, and of incidents, that a page is told unasked; more of the alerts on demand."""
REVISED = 200
"""Alerts of one call that are told: the latest so many."""


@dataclass
class Block:
    """What came of some rows that were predicted, then learned.

    ``value`` is what is drawn: the score (novelty), whether it was a mistake (classification), the
    size of the error (regression). ``limit`` is the threshold, or the half-width of the interval.
    ``mark`` says which rows are marked: alerts, mistakes, targets outside.
    """

    task: str
    rows: int
    value: Array | None = None
    limit: Array | None = None
    mark: Array | None = None
    X: Array | None = None
    names: list[str] | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """t, terms, and what else of the model's diagnostics is known: of a self-tuning model its
    members, their weights, and which of them leads."""
    times: Array | None = None
    """In seconds, where rows have times."""


@dataclass
class Bucket:
    """Some rows, summed up."""

    number: int
    first: int
    """Example number of the first row, from 1."""
    rows: int = 0
    seen: int = 0
    """Rows that had a value."""
    low: float = np.inf
    high: float = -np.inf
    total: float = 0.0
    limit: float | None = None
    marks: int = 0
    peak: float | None = None
    """The most extreme marked value: the lowest score, the largest error."""
    time: float | None = None
    """The earliest time of its rows."""

    def add(self, block: Block) -> None:
        """Take a block in."""
        self.rows += block.rows
        if block.times is not None and len(block.times):
            earliest = float(block.times.min())
            self.time = earliest if self.time is None else min(self.time, earliest)
        if block.value is None or not len(block.value):
            return
        value = block.value
        self.seen += len(value)
        self.low, self.high = min(self.low, float(value.min())), max(self.high, float(value.max()))
        self.total += float(value.sum())
        if block.limit is not None:
            self.limit = float(block.limit[-1])
        marked = value[block.mark] if block.mark is not None else value[:0]
        if len(marked):
            self.marks += len(marked)
            lowest = block.task == "novelty"
            extreme = float(marked.min() if lowest else marked.max())
            known = extreme if self.peak is None else self.peak
            self.peak = min(known, extreme) if lowest else max(known, extreme)


class Stream:
    """One model's recent past."""

    def __init__(self, task: str, now: float) -> None:
        self.task = task
        self.t = 0
        self.rows = 0
        """Published so far; so are `marks`."""
        self.marks = 0
        self.numbers: dict[str, Any] = {}
        self.drift = Drift()
        self.alerts: deque[dict[str, Any]] = deque(maxlen=ALERTS)
        self.incidents: list[dict[str, Any]] = []
        """Newest first."""
        self.finished = False
        """Whether no more is to come."""
        self.since = time.time()
        """Alerts are shown that came since then; of a whole run all of them."""
        self.epoch = 0
        """Counts how often all buckets were replaced."""
        self.buckets: deque[dict[str, Any]] = deque(maxlen=BUCKETS)
        self.keys: View | None = None
        """Of a model with keys: what is shown of them."""
        self.number = 0
        """Of the next bucket: how many there have been."""
        self.told = 0
        """Counts alerts and reasons, so that a reader knows whether it has them all."""
        self._open: Bucket | None = None
        self._opened = self._last = now
        self._speed: deque[tuple[float, int]] = deque([(now, 0)], maxlen=20)

    def add(self, block: Block, now: float) -> None:
        """Take a block in; close the bucket if it is full."""
        t, self._last = int(block.numbers.get("t", self.t + block.rows)), now
        if self._open is None:
            self._open, self._opened = Bucket(self.number, t - block.rows + 1), now
        self._open.add(block)
        self.rows += block.rows
        self.marks += 0 if block.mark is None else int(block.mark.sum())
        self.t = t
        self.numbers.update(block.numbers)
        if block.X is not None:
            self.drift.add(block.X, block.names)
        self.close(now)

    def close(self, now: float) -> None:
        """Close the open bucket if its time has come."""
        bucket = self._open
        if bucket is None or now - self._opened < PERIOD:
            return
        self._speed.append((self._last, self.rows))
        self.buckets.append(self._row(bucket))
        self.number += 1
        self._open = None

    def speed(self, now: float) -> float:
        """Return examples per second over the last buckets; 0 where nothing came of late."""
        (then, before), (last, after) = self._speed[0], self._speed[-1]
        if now - self._last > 2.0 or after == before:
            return 0.0
        return (after - before) / max(last - then, PERIOD)

    def _row(self, b: Bucket) -> dict[str, Any]:
        seen = b.seen > 0
        drift = self.drift.largest()
        return {
            "number": b.number,
            "t": b.first + b.rows - 1,
            "low": b.low if seen else None,
            "high": b.high if seen else None,
            "mean": b.total / b.seen if seen else None,
            "limit": b.limit,
            "marks": b.marks,
            "rows": b.rows,
            "peak": b.peak,
            "promised": self.numbers.get("promised"),
            "realised": self.numbers.get("realised"),
            "terms": self.numbers.get("terms"),
            "drift": drift,
            "speed": self.speed(self._last),
            **({} if b.time is None else {"time": b.time}),
            **({"weights": self.numbers["weights"]} if self.numbers.get("weights") else {}),
        }


def _is_of(alert: Mapping[str, Any], key: Any) -> bool:
    """Whether an alert is of a key; of whole ones a page has the digits."""
    same = alert.get("key") == str(key) and alert.get("whole", False) != isinstance(key, str)
    return key is None or same


def _brief(incident: dict[str, Any]) -> dict[str, Any]:
    """Return an incident without the ids of its alerts, of which there may be a thousand."""
    return {name: value for name, value in incident.items() if name != "alert_ids"}


def _strip(incident: dict[str, Any]) -> tuple[int, int, int, bool]:
    """Return what a chart draws: number, first and last row, whether it is drawn unasked.

    Those of several alerts are; with keys those of many keys at once.
    """
    several = incident["wide"] if "keys" in incident else incident["alerts"] > 1
    return incident["incident"], incident["start_row"], incident["end_row"], bool(several)


def _belongs(alert: Mapping[str, Any], one: Mapping[str, Any], ids: set[str]) -> bool:
    """Whether an alert is of an incident: also one that has joined it later.

    Incidents of keys call an alert by its key and its id; a run does so itself, a service does not.
    """
    id, whose = alert.get("id") or "", "" if alert.get("key") is None else f"{alert['key']}:"
    if id.startswith(whose):
        named = id in ids
    else:
        named = f"{whose}{id}" in ids and _is_of(alert, one.get("key"))
    return alert.get("incident") == one["incident"] or named


@dataclass(frozen=True)
class Past:
    """A run from its first row on."""

    task: str
    rows: int
    marks: int
    numbers: dict[str, Any]
    buckets: list[dict[str, Any]]
    alerts: list[dict[str, Any]] | None = None
    """Oldest first; None leaves those that are shown."""
    finished: bool = False


class Board:
    """The streams of all models.

    Examples
    --------
    >>> board = Board(clock=iter([0.0, 0.0, 0.2, 0.2]).__next__)
    >>> score = np.array([0.5, 0.1])
    >>> board.publish("a", Block("novelty", 2, score, np.full(2, 0.2), score < 0.2))
    >>> board.publish("a", Block("novelty", 2, score, np.full(2, 0.2), score < 0.2))
    >>> found = board.changes("a")
    >>> found["buckets"][0]["marks"], found["rows"]
    (2, 4)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._streams: dict[str, Stream] = {}
        self._guard = threading.Lock()

    def begin(self, model: str, task: str) -> None:
        """Show a model that has learned nothing yet."""
        with self._guard:
            self._streams.setdefault(model, Stream(task, self._clock()))

    def publish(self, model: str, block: Block) -> None:
        """Show what came of a block."""
        with self._guard:
            now = self._clock()
            if model not in self._streams:
                self._streams[model] = Stream(block.task, now)
            self._streams[model].add(block, now)

    def tell(self, model: str, alerts: Iterable[dict[str, Any]]) -> None:
        """Show alerts that are new, oldest first."""
        with self._guard:
            stream = self._streams.get(model)
            if stream is not None:
                stream.alerts.extend(alerts)
                stream.told += 1

    def show_incidents(self, model: str, incidents: list[dict[str, Any]]) -> None:
        """Show incidents, newest first: those that ``app.run.incidents.Grouping`` knows."""
        with self._guard:
            stream = self._streams.get(model)
            if stream is not None and incidents != stream.incidents:
                stream.incidents = incidents
                stream.told += 1

    def join(self, model: str, into: Mapping[int, int]) -> None:
        """Show alerts of incidents that have become part of others as alerts of those."""
        with self._guard:
            stream = self._streams.get(model)
            for i, alert in enumerate(stream.alerts if stream is not None else ()):
                if alert.get("incident") in into:
                    assert stream is not None
                    stream.alerts[i] = {**alert, "incident": into[alert["incident"]]}

    def incident(self, model: str, number: int) -> dict[str, Any] | None:
        """Return an incident and those of its alerts that are kept, newest first; None without."""
        with self._guard:
            stream = self._streams.get(model)
            known = [] if stream is None else stream.incidents
            one = next((one for one in known if one["incident"] == number), None)
            if one is None or stream is None:
                return None
            ids = set(one.get("alert_ids", ()))
            alerts = [a for a in stream.alerts if _belongs(a, one, ids)]
            return {"incident": one, "alerts": alerts[::-1]}

    def alerts(self, model: str, start: int, count: int) -> dict[str, Any] | None:
        """Return some alerts, newest first; None for a model that is not shown."""
        with self._guard:
            stream = self._streams.get(model)
            if stream is None:
                return None
            return {"kept": len(stream.alerts), "alerts": [*stream.alerts][::-1][start:][:count]}

    def whole(self, model: str, past: Past) -> None:
        """Show a run from its first row on, in the place of what was shown of it."""
        with self._guard:
            stream = self._streams.setdefault(model, Stream(past.task, self._clock()))
            stream.t, stream.rows, stream.marks = past.rows, past.rows, past.marks
            stream.numbers.update(past.numbers)
            stream.buckets = deque(past.buckets, maxlen=max(len(past.buckets), BUCKETS))
            stream.number, stream.epoch = len(past.buckets), stream.epoch + 1
            stream.finished = past.finished
            if past.alerts is not None:
                stream.alerts = deque(past.alerts, maxlen=ALERTS)
                stream.told += 1

    def answer(
        self, model: str, id: str, answer: str | None, key: Any = None, refused: str = "",
        waits: str = "",
    ) -> None:  # fmt: skip
        """Show what was said of an alert and who takes it in; or why that could not be."""
        with self._guard:
            stream = self._streams.get(model)
            for i, alert in enumerate(stream.alerts if stream is not None else ()):
                if alert.get("id") == id and _is_of(alert, key):
                    said = alert.get("answer") if refused else answer
                    assert stream is not None
                    told = {"answer": said, "refused": refused, "waits": waits}
                    stream.alerts[i] = {**alert, **told}
            if stream is not None:
                stream.told += 1

    def show_keys(self, model: str, view: View) -> None:
        """Show the keys of a model, too."""
        with self._guard:
            stream = self._streams.get(model)
            if stream is not None:
                stream.keys = view

    def keys(self, model: str) -> View | None:
        """Return what is shown of a model's keys; None if it has none."""
        with self._guard:
            stream = self._streams.get(model)
            return None if stream is None else stream.keys

    def forget(self, model: str) -> None:
        """Show a model no longer."""
        with self._guard:
            self._streams.pop(model, None)

    def models(self) -> list[dict[str, Any]]:
        """Return names, tasks and numbers of examples."""
        with self._guard:
            return [
                {
                    "name": name,
                    "task": s.task,
                    "t": s.t,
                    "marks": s.marks,
                    "keyed": s.keys is not None,
                }
                for name, s in sorted(self._streams.items())
            ]

    def changes(self, model: str, since: int = 0, told: int = -1) -> dict[str, Any] | None:
        """Return buckets from number `since` on, and the numbers as they are now.

        The alerts are there if they are others than at `told`. None for a model that is not shown.
        """
        with self._guard:
            stream = self._streams.get(model)
            if stream is None:
                return None
            now = self._clock()
            stream.close(now)
            found = {
                "model": model, "task": stream.task, "t": stream.t, "rows": stream.rows,
                "marks": stream.marks, "next": stream.number, "told": stream.told,
                "speed": stream.speed(now), "numbers": dict(stream.numbers),
                "buckets": [b for b in stream.buckets if b["number"] >= since],
                "drift": stream.drift.table(), "keyed": stream.keys is not None,
                "finished": stream.finished, "epoch": stream.epoch, "since": stream.since,
            }  # fmt: skip
            if stream.told != told:
                found["alerts"], found["kept"] = [*stream.alerts][-SENT:], len(stream.alerts)
                found["incidents"] = [_brief(one) for one in stream.incidents[:SENT]]
                found["strips"] = [_strip(one) for one in stream.incidents]
            return found
