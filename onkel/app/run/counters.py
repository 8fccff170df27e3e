"""What a run has seen so far: numbers, a thinned history, the latest alerts. All JSON-ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BUCKETS = 800
"""The history has at most so many entries; then two become one."""
MARKS = 4000
"""Alerts that a report marks; of more, every second one, and so on."""
LATEST = 200
LABELS = 40
"""Of the table of labels; what comes later is counted as others."""
OTHERS = "(others)"
BINS = 10
"""Of predicted probabilities, for calibration."""
FIRST = 3
"""So many broken rows are told with line and reason."""


_LEAST, _MOST = ("low", "time"), ("high",)
"""Of these the least and the most are kept; all else is added up."""


@dataclass
class History:
    """Sums over stretches of rows that double in length when there are too many of them.

    Examples
    --------
    >>> history = History()
    >>> history.add(np.arange(1000), {"rows": 1.0, "low": np.arange(1000.0)})
    >>> history.width, len(history), history.sums["rows"][0], history.sums["low"][1]
    (2, 500, 2.0, 2.0)
    """

    width: int = 1
    sums: dict[str, list[float]] = field(default_factory=dict)
    """By name, one entry for each stretch."""

    def __len__(self) -> int:
        return max(map(len, self.sums.values()), default=0)

    def add(self, rows: Array, values: Mapping[str, Any]) -> None:
        """Add rows by their numbers, of each an entry per name (or one for all of them)."""
        if not len(rows):
            return
        while int(rows[-1]) // self.width >= BUCKETS:
            self._halve()
        at, count = rows // self.width, int(rows[-1]) // self.width + 1
        for name, added in values.items():
            held = self._column(name, max(count, len(self)))
            _put(name, held, at, np.broadcast_to(np.asarray(added, float), len(rows)))
            self.sums[name] = held.tolist()

    def _column(self, name: str, count: int) -> Array:
        held = self.sums.get(name, [])
        return np.concatenate([held, np.full(count - len(held), _start(name))])

    def _halve(self) -> None:
        self.width *= 2
        for name, held in self.sums.items():
            fewer = np.full((len(held) + 1) // 2, _start(name))
            _put(name, fewer, np.arange(len(held)) // 2, np.array(held))
            self.sums[name] = fewer.tolist()

    def column(self, name: str) -> Array:
        """Return one entry for each stretch."""
        return self._column(name, len(self))


def _start(name: str) -> float:
    return np.nan if name in (*_LEAST, *_MOST) else 0.0


def _put(name: str, held: Array, at: Array, added: Array) -> None:
    put: Any = np.fmin if name in _LEAST else np.fmax if name in _MOST else np.add
    put.at(held, at, added)


@dataclass
class AlertMarks:
    """Where alerts were: all of them, or every second, fourth and so on if they are too many.

    Examples
    --------
    >>> marks = AlertMarks()
    >>> marks.add(np.arange(5000), np.zeros(5000), None)
    >>> marks.every, len(marks.row), marks.seen
    (2, 2500, 5000)
    """

    every: int = 1
    seen: int = 0
    row: list[int] = field(default_factory=list)
    score: list[float] = field(default_factory=list)
    time: list[float] = field(default_factory=list)

    def add(self, rows: Array, scores: Array, times: Array | None) -> None:
        """Take alerts in."""
        kept = (self.seen + np.arange(len(rows))) % self.every == 0
        self.seen += len(rows)
        self.row += rows[kept].tolist()
        self.score += scores[kept].tolist()
        self.time += [] if times is None else times[kept].tolist()
        while len(self.row) > MARKS:
            self.every *= 2
            self.row, self.score, self.time = self.row[::2], self.score[::2], self.time[::2]


@dataclass
class Labels:
    """How often each label was predicted for each, and how often probabilities were right."""

    table: dict[str, dict[str, int]] = field(default_factory=dict)
    """By the label that came, then by the one that was predicted."""
    chances: list[list[float]] = field(default_factory=lambda: [[0, 0.0, 0] for _ in range(BINS)])
    """By predicted probability: rows, sum of the probabilities, how many were right."""

    def add(self, found: list[Any], chances: list[Any], targets: list[Any]) -> None:
        """Take predictions in; rows without a target, or without a prediction, do not count."""
        for label, chance, target in zip(found, chances, targets, strict=True):
            if target is None or label is None:
                continue
            row = self.table.setdefault(self._name(target, self.table), {})
            name = self._name(label, self.table)
            row[name] = row.get(name, 0) + 1
            bin_ = self.chances[min(int(chance * BINS), BINS - 1)]
            bin_[0] += 1
            bin_[1] += chance
            bin_[2] += label == target

    @property
    def count(self) -> int:
        """How many rows were predicted, and got a label."""
        return sum(sum(row.values()) for row in self.table.values())

    def _name(self, label: Any, known: Mapping[str, Any]) -> str:
        name = str(label)
        return name if name in known or len(known) < LABELS else OTHERS


def member(number: int) -> str:
    """Return what the history calls the weight of a member, summed over rows."""
    return f"weight {number}"


@dataclass
class Counters:
    """Counts since the first row, restarts included."""

    rows: int = 0
    """Rows read, broken ones included."""
    broken: int = 0
    examples: int = 0
    """Rows learned."""
    predicted: int = 0
    """Rows judged, learned or not."""
    alerts: int = 0
    warming: int = 0
    """Rows of the warm-up, in which no alert is shown."""
    mistakes: int = 0
    unchanged: int = 0
    """Mistakes of who repeats the last label."""
    absolute_error: float = 0.0
    squared_error: float = 0.0
    covered: int = 0
    held_back: int = 0
    """Alerts that a cool-down did not show."""
    incidents: int = 0
    incidents_open: int = 0
    grouping: dict[str, Any] = field(default_factory=dict)
    """All that is known of incidents, as a checkpoint holds it."""
    marks: AlertMarks = field(default_factory=AlertMarks)
    labels: Labels = field(default_factory=Labels)
    history: History = field(default_factory=History)
    latest: list[dict[str, Any]] = field(default_factory=list)
    last_label: Any = None
    """For the no-change baseline; without keys only."""
    first_broken: list[str] = field(default_factory=list)
    """Line and reason of the first three."""
    lost: dict[str, int] = field(default_factory=dict)
    """Outputs that were lost on the way, and the first row whose results they hold since."""
    members: list[str] = field(default_factory=list)
    """A few words for each setting of a self-tuning model; the history has their weights."""
    weighing: list[float] = field(default_factory=list)
    """Their weights after the latest block (of the latest model, where there are keys)."""
    pending: dict[str, int] = field(default_factory=dict)
    """With --pending: labels that came late, rows that wait, expired, were asked for."""

    heard: int = 0
    """Answers up to this number were decided, and ..."""
    heard_also: list[int] = field(default_factory=list)
    """... these beyond it."""
    answered: int = 0
    """Alerts that were answered, ..."""
    dismissed: int = 0
    """... and those of them that were usual."""
    answers_refused: int = 0
    first_refused: list[str] = field(default_factory=list)
    """Which, and why, of the first three."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        return {**vars(self), **{name: vars(getattr(self, name)) for name in _INSIDE}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Counters:
        """Return the counters that `to_dict` has described."""
        own = dict(data)
        own.pop("explained", None)  # of states that were written when it counted
        for name, kind in _INSIDE.items():
            own[name] = kind(**own.get(name, {}))
        return cls(**own)

    def note(self, alerts: list[dict[str, Any]]) -> None:
        """Remember the latest alerts."""
        self.latest = [*self.latest, *alerts][-LATEST:]

    def note_broken(self, words: list[str]) -> None:
        """Remember the first broken rows."""
        self.first_broken = [*self.first_broken, *words][:FIRST]

    def weights(self) -> list[list[float]]:
        """Return the members' mean weights in each stretch of the history; [] where none were."""
        found = []
        columns = [self.history.column(member(i)) for i in range(len(self.members))]
        for held in np.array(columns).T.tolist():
            total = sum(held)
            found.append([w / total for w in held] if total > 0 else [])
        return found

    def summary(self, task: str, promised: float | None) -> dict[str, Any]:
        """Return the numbers that a task is judged by."""
        found: dict[str, Any] = {
            "rows": self.rows, "examples": self.examples, "broken": self.broken,
        }  # fmt: skip
        if self.broken:
            found["first_broken"] = self.first_broken
        if self.lost:
            found["output_lost"] = self.lost
        if self.pending:
            found["pending"] = self.pending
        elif task != "detect":
            found["unlabelled"] = self.predicted - self.examples
        if task == "detect":
            shown = self.predicted - self.warming
            found |= {"warmup": self.warming, "alerts": self.alerts, "rate_promised": promised}
            found["rate_realised"] = _share(self.alerts, shown)
            found |= {"incidents": self.incidents, "incidents_open": self.incidents_open}
            if self.held_back:
                found["held_back"] = self.held_back
        elif task == "classify":
            found |= {"mistakes": self.mistakes}
            found["mistake_rate"] = _share(self.mistakes, self.examples)
            if self.last_label is not None:
                found["mistake_rate_no_change"] = _share(self.unchanged, self.examples)
        else:
            found["mean_absolute_error"] = _share(self.absolute_error, self.examples)
            squared = _share(self.squared_error, self.examples)
            found["root_mean_squared_error"] = None if squared is None else squared**0.5
            if promised is not None:
                found["coverage_promised"] = 1.0 - promised
                found["coverage_realised"] = _share(self.covered, self.examples)
        return found


_INSIDE: dict[str, Any] = {"history": History, "marks": AlertMarks, "labels": Labels}


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None
