"""Alerts of two settings over the same rows: which still come, which are gone, which are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onkel.alerting import Incident
from onkel.app.replay.alerts import Alert, Mark
from onkel.app.replay.groups import Places, incidents_of
from onkel.app.replay.heard import Heard, Known

__all__ = ["WAS", "Alert", "Difference", "Outcome", "described"]

FIRST = 10
"""So many alerts that are gone, or new, are told of each setting."""
WAS = "as it was"


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
    """Those that a cool-down holds back, too."""
    incidents: Sequence[Incident] | None = None
    """Of these alerts; None where they were not grouped while the rows were read."""
    largest: Sequence[dict[str, Any]] = ()
    """What is told of the incidents with most alerts."""
    heard: Heard | None = None
    """Of a replay: the answers that it took in."""

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


def described(
    outcomes: Sequence[Outcome], gap: Any, answers: Mapping[Mark, str] | None = None
) -> list[dict[str, Any]]:
    """Return what each setting made of the rows, beside the first one, JSON-ready.

    Parameters
    ----------
    gap : int or duration
        Of incidents, where outcomes do not bring theirs.
    answers : dict, optional
        To alerts among what is compared.
    """
    was = outcomes[0]
    found = [_numbers(one, gap) for one in outcomes]
    if any(one.heard is not None and one.heard.promised is not None for one in outcomes) or answers:
        for one, told in zip(outcomes, found, strict=True):
            told |= {} if one.heard is None else one.heard.told()
    for one, told in zip(outcomes[1:], found[1:], strict=True):
        told |= _beside(was, one)
    if answers:
        known = Known.of(was.alerts, was.incidents or (), answers)
        for one, told in zip(outcomes, found, strict=True):
            told |= known.told(one.alerts)
    return found


def _numbers(one: Outcome, gap: Any) -> dict[str, Any]:
    own = one.incidents
    told: dict[str, Any] = {
        "name": one.name, "changed": one.changed, "rows": one.rows, "warmup": one.warming,
        "alerts": len(one.alerts), "rate_promised": one.promised, "rate_realised": one.rate,
        "incidents": len(incidents_of(one.alerts, gap) if own is None else own),
    }  # fmt: skip
    held_back = sum(alert.held_back for alert in one.alerts)
    if held_back:
        told["held_back"] = held_back
    return told if own is None else {**told, "largest_incidents": one.largest}


def _beside(was: Outcome, one: Outcome) -> dict[str, Any]:
    """Return what a setting would have changed."""
    difference = Difference.of(was.alerts, one.alerts)
    told: dict[str, Any] = {
        name: len(getattr(difference, name)) for name in ("still", "gone", "new")
    }
    if was.incidents is not None and one.incidents is not None:
        told["incidents_gone"] = _without(was.incidents, one.alerts)
        told["incidents_new"] = _without(one.incidents, was.alerts)
    told["first_gone"] = [a.told() for a in difference.gone[:FIRST]]
    told["first_new"] = [a.told() for a in difference.new[:FIRST]]
    return told


def _without(incidents: Sequence[Incident], alerts: Sequence[Alert]) -> int:
    """Return how many incidents have none of some alerts, of the same keys."""
    places = Places(alerts)
    return sum(not places.count(one) for one in incidents)
