"""What is sent: one message for an alert, or for what happened to an incident; and its bodies."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

FORMATS = ("json", "alertmanager")
MOST_FEATURES = 256
"""Values of a row that are sent with its alert; of more it is said how many were left out."""
LONGEST = 1000
"""Characters of one of them."""
ALERT, INCIDENT = "alert", "incident"
"""Kinds of messages."""
OPENED = "opened"
"""The state of an incident that goes on; after any other it does not."""
LASTING = 30 * 86400.0
"""Seconds after which Alertmanager lets an incident end of which no end was told."""


@dataclass(frozen=True)
class Message:
    """One thing that somebody should hear of.

    Parameters
    ----------
    id : str
        The same however often it is sent, and no other message's.
    kind : str
        "alert", or "incident".
    source : str
        Whose it is: the name of a run's source, or of a service's model.
    seen : float
        When, in seconds since 1970.
    facts : dict
        What there is to know; JSON-ready.

    Examples
    --------
    >>> message = Message("f00", ALERT, "pump.csv", 0.0, {"row": 7, "why": "level 9 is new"})
    >>> json.loads(body_of(message, "json"))["seen"]
    '1970-01-01T00:00:00.000Z'
    >>> Message.from_text(message.to_text()) == message
    True
    """

    id: str
    kind: str
    source: str
    seen: float
    facts: dict[str, Any] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return the message as an outbox keeps it."""
        return json.dumps(vars(self))

    @classmethod
    def from_text(cls, text: str) -> Message:
        """Return the message that `to_text` has written."""
        return cls(**json.loads(text))

    def to_dict(self) -> dict[str, Any]:
        """Return everything under its name, as it is sent."""
        about = {"id": self.id, "kind": self.kind, "source": self.source, "seen": iso(self.seen)}
        return {**about, **self.facts}


def id_of(run: str, kind: str, name: str) -> str:
    """Return the id of what is called `name` in a run: the same whenever it is made again.

    Examples
    --------
    >>> id_of("a", "alert", "7") == id_of("a", "alert", "7") != id_of("b", "alert", "7")
    True
    """
    text = "\n".join((run, kind, name)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def alert_of(run: str, source: str, name: str, seen: float, facts: Mapping[str, Any]) -> Message:
    """Return the message of an alert.

    Parameters
    ----------
    run : str
        Tells apart what has the same name elsewhere.
    source : str
        Whose alert it is.
    name : str
        The alert's own, its ``alert_id``.
    seen : float
        When.
    facts : mapping
        Row, score and so on.
    """
    given = {"alert_id": name, **facts}
    known = {key: plain(value) for key, value in given.items() if value is not None}
    return Message(id_of(run, ALERT, name), ALERT, source, seen, known)


def incident_of(run: str, source: str, name: str, seen: float, told: Mapping[str, Any]) -> Message:
    """Return the message of what happened to an incident.

    The ``incident_id`` is the same in all messages of an incident, and no other incident's; the
    message's own id is that of the incident and its state.

    Parameters
    ----------
    run, source, seen
        As of an alert.
    name : str
        What the incident is called in its run.
    told : mapping
        Its number, its state and all that is known of it.
    """
    given = {"incident_id": id_of(run, INCIDENT, name), **told}
    if "key" in given:
        given["key"] = str(given["key"])
    known = {key: plain(value) for key, value in given.items() if value is not None}
    return Message(id_of(run, INCIDENT, f"{name} {told['state']}"), INCIDENT, source, seen, known)


def in_order(
    alerts: list[Message], events: list[Message], before: Sequence[int]
) -> list[Message]:  # fmt: skip
    """Return messages of alerts and of incidents in the order in which they came about.

    `before` says of each alert how many of the incidents' messages come before it.

    Examples
    --------
    >>> in_order(["a", "b"], ["opened", "closed", "late"], [1, 2])
    ['opened', 'a', 'closed', 'b', 'late']
    """
    if not alerts or not events:
        return [*alerts, *events]
    found, done = list[Message](), 0
    for alert, count in zip(alerts, before, strict=True):
        found += [*events[done:count], alert]
        done = count
    return [*found, *events[done:]]


def features_of(names: list[str], values: list[Any]) -> dict[str, Any]:
    """Return a row's values by their names; how many were left out, if there are many.

    Examples
    --------
    >>> features_of(["level", "state"], [float("nan"), "on"])
    {'features': {'level': None, 'state': 'on'}}
    """
    pairs = zip(names[:MOST_FEATURES], values[:MOST_FEATURES], strict=True)
    found: dict[str, Any] = {"features": {name: plain(value) for name, value in pairs}}
    left = len(names) - MOST_FEATURES
    return {**found, "features_left_out": left} if left > 0 else found


def plain(value: Any) -> Any:
    """Return a value as JSON knows it; a number that is none becomes None."""
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()[:LONGEST]


def iso(seconds: float) -> str:
    """Return a time as RFC 3339 has it.

    Examples
    --------
    >>> iso(1700000000.5)
    '2023-11-14T22:13:20.500Z'
    """
    found = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return found.removesuffix("+00:00") + "Z"


def body_of(message: Message, form: str) -> bytes:
    """Return what is sent: the message itself, or what Alertmanager's API takes."""
    found: Any = message.to_dict()
    if form == "alertmanager":
        found = [_alertmanager(message)]
    return json.dumps(found, allow_nan=False).encode("ascii")


def _alertmanager(message: Message) -> dict[str, Any]:
    """Return an alert of Alertmanager.

    What it is known by there (its labels) is the source and the key: alerts of one of them that
    follow each other are one that goes on. An incident is known by its own id: it fires until its
    end is told. All else is told in annotations.
    """
    facts = message.facts
    labels = {"alertname": f"onkel_{message.kind}", "source": message.source}
    labels |= {name: str(facts[name]) for name in LABELS.get(message.kind, ()) if name in facts}
    told = {n: _said(v) for n, v in message.to_dict().items() if n not in ("kind", *labels)}
    summary = facts.get("why") or facts.get("words") or f"{message.kind} of {message.source}"
    annotations = {"summary": str(summary), **told}
    # An empty label is none to Alertmanager.
    named = {name: value or "-" for name, value in labels.items()}
    found = {"labels": named, "annotations": annotations, "startsAt": iso(message.seen)}
    if message.kind == INCIDENT:
        lasts = LASTING if facts["state"] == OPENED else 0.0
        found["endsAt"] = iso(message.seen + lasts)
    return found


LABELS = {ALERT: ("key",), INCIDENT: ("key", "incident", "incident_id")}
"""What Alertmanager knows a message by, beside its source."""


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
