"""Alerts of two settings over the same rows: which still come, which are gone, which are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onkel.alerting import Episode

FIRST = 10
"""So many alerts that are gone, or new, are told of each setting."""
GAP = 20
"""Alerts at most so many rows apart are one incident, unless told."""
WAS = "as it was"


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

    @property
    def id(self) -> str:
        """What an answer to the alert calls it."""
        return str(self.at) if self.key is None else f"{self.key}:{self.at}"

    def told(self) -> dict[str, Any]:
        """Return what is said of it, JSON-ready; what there is not is left out."""
        names = ("row", "id", "time", "key", "p", "score", "threshold", "why")
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Outcome:
    """What one setting made of the rows."""

    name: str
    changed: dict[str, Any]
    """The settings that are not the run's own."""
    promised: float | None
    rows: int
    """Rows judged, from where comparing begins."""
    warming: int
    """Of these, rows of the warm-up, in which no alert is shown."""
    alerts: list[Alert]

    @property
    def rate(self) -> float | None:
        """Alerts of the rows that could be one."""
        shown = self.rows - self.warming
        return len(self.alerts) / shown if shown else None


@dataclass(frozen=True)
class Difference:
    """What another setting would have changed, by row numbers.

    Examples
    --------
    >>> was = [Alert(3, 3, -9.0, -4.0), Alert(5, 5, -7.0, -4.0)]
    >>> found = Difference.of(was, [Alert(5, 5, -7.0, -5.0), Alert(8, 8, -6.0, -5.0)])
    >>> [a.row for a in found.still], [a.row for a in found.gone], [a.row for a in found.new]
    ([5], [3], [8])
    """

    still: list[Alert] = field(default_factory=list)
    gone: list[Alert] = field(default_factory=list)
    """As the run's own settings have told them."""
    new: list[Alert] = field(default_factory=list)

    @classmethod
    def of(cls, was: Sequence[Alert], would: Sequence[Alert]) -> Difference:
        """Compare the alerts of two settings."""
        before, after = {a.row for a in was}, {a.row for a in would}
        return cls(
            [a for a in would if a.row in before], [a for a in was if a.row not in after],
            [a for a in would if a.row not in before],
        )  # fmt: skip


def incidents_of(alerts: Sequence[Alert], gap: int = GAP) -> list[Episode]:
    """Return incidents: alerts of one model that are at most `gap` of its rows apart.

    Examples
    --------
    >>> alerts = [Alert(row, row, -float(row), -4.0) for row in (3, 5, 40)]
    >>> [(e.start, e.end, e.count, e.peak) for e in incidents_of(alerts, gap=2)]
    [(3, 5, 2, -5.0), (40, 40, 1, -40.0)]
    """
    open_: dict[str | None, tuple[int, Episode]] = {}
    ended = []
    for alert in alerts:
        before, episode = open_.get(alert.key, (alert.at, None))
        if episode is not None and alert.at - before <= gap:
            episode = episode.joined(alert.row, alert.score)
        else:
            ended += [] if episode is None else [episode]
            episode = Episode(alert.row, alert.row, alert.score, alert.row, 1)
        open_[alert.key] = alert.at, episode
    return sorted([*ended, *(e for _, e in open_.values())], key=lambda e: (e.start, e.end))


def answered_shown(alerts: Sequence[Alert], answers: Mapping[str, str]) -> dict[str, Any]:
    """Return, for each answer, how many alerts had it, and how many of these a setting shows.

    Examples
    --------
    >>> answered_shown([Alert(3, 3, -9.0, -4.0)], {"3": "usual", "7": "usual", "9": "fault"})
    {'usual': {'of': 2, 'shown': 1}, 'fault': {'of': 1, 'shown': 0}}
    """
    shown = {a.id for a in alerts}
    found: dict[str, Any] = {}
    for id_, answer in answers.items():
        counts = found.setdefault(answer, {"of": 0, "shown": 0})
        counts["of"] += 1
        counts["shown"] += id_ in shown
    return found


def described(
    outcomes: Sequence[Outcome], gap: int, answers: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return what each setting made of the rows, beside the first one, JSON-ready."""
    was = outcomes[0]
    found = [_numbers(one, gap, answers or {}) for one in outcomes]
    for one, told in zip(outcomes[1:], found[1:], strict=True):
        difference = Difference.of(was.alerts, one.alerts)
        for name in ("still", "gone", "new"):
            told[name] = len(getattr(difference, name))
        told["first_gone"] = [a.told() for a in difference.gone[:FIRST]]
        told["first_new"] = [a.told() for a in difference.new[:FIRST]]
    return found


def _numbers(one: Outcome, gap: int, answers: Mapping[str, str]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": one.name, "changed": one.changed, "rows": one.rows, "warmup": one.warming,
        "alerts": len(one.alerts), "rate_promised": one.promised, "rate_realised": one.rate,
        "incidents": len(incidents_of(one.alerts, gap)),
    }  # fmt: skip
    return {**told, "answered": answered_shown(one.alerts, answers)} if answers else told
