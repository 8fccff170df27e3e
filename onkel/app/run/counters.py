"""What a run has seen so far: numbers, a thinned history, the latest alerts. All JSON-ready."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BUCKETS = 400
"""The history has at most so many entries; then two become one."""
LATEST = 50
FIRST = 3
"""So many broken rows are told with line and reason."""


@dataclass
class History:
    """Sums over stretches of rows that double in length when there are too many of them.

    Examples
    --------
    >>> history = History(width=1)
    >>> for row in range(1000):
    ...     history.add(row, {"rows": 1.0, "alerts": float(row % 2)})
    >>> history.width, len(history.sums), history.sums[0]
    (4, 250, {'rows': 4.0, 'alerts': 2.0})
    """

    width: int = 64
    sums: list[dict[str, float]] = field(default_factory=list)

    def add(self, row: int, sums: dict[str, float]) -> None:
        """Add a block that starts at `row`."""
        while row // self.width >= BUCKETS:
            self._halve()
        at = row // self.width
        while len(self.sums) <= at:
            self.sums.append({})
        for name, value in sums.items():
            self.sums[at][name] = self.sums[at].get(name, 0.0) + value

    def _halve(self) -> None:
        old, self.sums = self.sums, []
        self.width *= 2
        for i, sums in enumerate(old):
            if i % 2 == 0:
                self.sums.append(dict(sums))
            else:
                last = self.sums[-1]
                self.sums[-1] = {n: last.get(n, 0.0) + sums.get(n, 0.0) for n in {**last, **sums}}


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
        return {**vars(self), "history": vars(self.history)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Counters:
        """Return the counters that `to_dict` has described."""
        own = dict(data)
        own.pop("explained", None)  # of states that were written when it counted
        own["history"] = History(**own.get("history", {}))
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
        for sums in self.history.sums:
            held = [sums.get(member(i), 0.0) for i in range(len(self.members))]
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


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None
