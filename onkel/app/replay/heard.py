"""Answers to a run's alerts beside other settings: which of these alerts each would have shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onkel.alerting import Incident
from onkel.app.replay.alerts import Alert, Mark
from onkel.app.replay.groups import Places
from onkel.core.answers import KINDS

FIRST = 10
"""So many faults that a setting would have missed are told."""
USUAL, FAULT = KINDS


@dataclass(frozen=True)
class Heard:
    """What a setting was told of its alerts while it learned, and what it promises."""

    answers: Mapping[Mark, str]
    """Those that it could take in, by alert; who changed their mind counts once."""
    promised: float | None = None
    """The promised precision."""
    early: int = 0
    """How often it was told something before the last row, ..."""
    late: int = 0
    """... and how often after it, where no alert can follow."""
    refused: Sequence[str] = ()
    """What it could not take in, and why."""

    @property
    def precision(self) -> float | None:
        """The share of faults among them."""
        return share_of(list(self.answers.values()))

    def told(self) -> dict[str, Any]:
        """Return the numbers, JSON-ready."""
        return {
            "answers_heard": len(self.answers), "precision_promised": self.promised,
            "precision_realised": self.precision,
        }  # fmt: skip


def share_of(answers: Sequence[str]) -> float | None:
    """Return the share of faults among answers; None where there are none."""
    dismissed = sum(answer != FAULT for answer in answers)  # as the detector has it, to the bit
    return 1.0 - dismissed / len(answers) if answers else None


@dataclass(frozen=True)
class Known:
    """The alerts of a run that were answered, and lie where settings are compared.

    Parameters
    ----------
    answers : dict
        By alert.
    alerts : list of Alert
        Those alerts, as the run's own settings have told them; what these do not show again (a
        model that begins late knows less than the run's) is not among them.
    incidents : list of Incident
        Of the run's own settings.

    Examples
    --------
    >>> was = [Alert(3, 3, -9.0, -4.0, incident=1), Alert(5, 5, -9.0, -4.0, incident=1)]
    >>> known = Known.of(was, [Incident(1, start=3, end=5)], {Mark("3"): "fault"})
    >>> known.shown([was[1]])["fault"], [a["beside"] for a in known.missed([was[1]])]
    ({'of': 1, 'shown': 0, 'share': 0.0}, [5])
    """

    answers: Mapping[Mark, str]
    alerts: list[Alert]
    incidents: Mapping[int, Incident]

    @classmethod
    def of(
        cls, was: Sequence[Alert], incidents: Sequence[Incident], answers: Mapping[Mark, str]
    ) -> Known:
        """Return what is known of the answered alerts."""
        some = [alert for alert in was if alert.mark in answers]
        return cls(answers, some, {one.number: one for one in incidents})

    def shown(self, alerts: Sequence[Alert]) -> dict[str, Any]:
        """Return, for each answer, how many alerts had it, and how many of them a setting shows."""
        marks = {alert.mark for alert in alerts}
        found: dict[str, Any] = {}
        for kind in KINDS:
            each = [mark in marks for mark, answer in self.answers.items() if answer == kind]
            share = sum(each) / len(each) if each else None
            found[kind] = {"of": len(each), "shown": sum(each), "share": share}
        return found

    def precision(self, alerts: Sequence[Alert]) -> float | None:
        """Return the share of faults among the answered alerts that a setting shows."""
        return share_of([self.answers[a.mark] for a in alerts if a.mark in self.answers])

    def missed(self, alerts: Sequence[Alert]) -> list[dict[str, Any]]:
        """Return the faults that a setting does not show, first those that it misses altogether.

        `beside` is the row of an alert that it shows within the same incident of the run.
        """
        marks, places, found = {alert.mark for alert in alerts}, Places(alerts), []
        known = {alert.mark: alert for alert in self.alerts}
        for mark, answer in self.answers.items():
            if answer == FAULT and mark not in marks:
                alert = known.get(mark)
                one = None if alert is None else self.incidents.get(alert.incident or 0)
                beside = None if one is None else places.within(one)
                told = {"id": mark.id} if alert is None else alert.told()
                found.append({**told, "beside": beside})
        return sorted(found, key=lambda one: (one["beside"] is not None, one.get("row", -1)))

    def told(self, alerts: Sequence[Alert]) -> dict[str, Any]:
        """Return what they say of a setting, JSON-ready."""
        missed = self.missed(alerts)
        return {
            "answered": self.shown(alerts), "precision_shown": self.precision(alerts),
            "faults_missed": len(missed),
            "faults_missed_altogether": sum(one["beside"] is None for one in missed),
            "first_missed": missed[:FIRST],
        }  # fmt: skip
