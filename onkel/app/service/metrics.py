"""Counters of the service, and the text that Prometheus reads."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onkel.app.service.engine import Engine

EDGES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]


class Requests:
    """How many requests of each kind came, how they ended, and how long they took.

    Examples
    --------
    >>> requests = Requests()
    >>> requests.note("learn", 200, 0.003)
    >>> [value for name, labels, value in requests.times() if dict(labels).get("le") == "0.005"]
    [1.0]
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._times: dict[str, list[float]] = {}
        self._guard = threading.Lock()

    def note(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        with self._guard:
            self._counts[route, status] = self._counts.get((route, status), 0) + 1
            times = self._times.setdefault(route, [0.0] * (len(EDGES) + 2))
            times[-2] += 1
            times[-1] += seconds
            for i, edge in enumerate(EDGES):
                times[i] += seconds <= edge

    def counts(self) -> list[Sample]:
        """Return the samples of requests by route and status."""
        with self._guard:
            return [
                ("onkel_requests_total", (("route", route), ("status", str(status))), float(n))
                for (route, status), n in sorted(self._counts.items())
            ]

    def times(self) -> list[Sample]:
        """Return the samples of the histogram of durations."""
        found: list[Sample] = []
        name = "onkel_request_seconds"
        with self._guard:
            for route, times in sorted(self._times.items()):
                own = ("route", route)
                edges = [*map(str, EDGES), "+Inf"]
                for edge, value in zip(edges, times, strict=False):
                    found.append((f"{name}_bucket", (own, ("le", edge)), value))
                found.append((f"{name}_sum", (own,), times[-1]))
                found.append((f"{name}_count", (own,), times[-2]))
        return found


def text(requests: Requests, engine: Engine) -> str:
    """Return everything in the text format of Prometheus."""
    commits, seconds = engine.commits
    slots = [(slot, (("model", slot.spec.name),)) for slot in engine.slots()]

    def each(name: str, field: str) -> list[Sample]:
        return [(name, labels, float(getattr(slot, field))) for slot, labels in slots]

    def one(name: str, value: float) -> list[Sample]:
        return [(name, (), float(value))]

    families: list[tuple[str, str, str, list[Sample]]] = [
        ("onkel_requests_total", "counter", "Requests by route and status", requests.counts()),
        ("onkel_request_seconds", "histogram", "Seconds to answer", requests.times()),
        ("onkel_examples_total", "counter", "Examples learned since the start",
         each("onkel_examples_total", "examples")),
        ("onkel_alerts_total", "counter", "Alerts, mistakes or targets outside since the start",
         each("onkel_alerts_total", "alerts")),
        ("onkel_model_bytes", "gauge", "Bytes that a model takes",
         each("onkel_model_bytes", "bytes")),
        ("onkel_models", "gauge", "Models", one("onkel_models", len(slots))),
        ("onkel_waiting", "gauge", "Requests that wait for the log",
         one("onkel_waiting", engine.waiting)),
        ("onkel_log_commits_total", "counter", "Groups written to the log",
         one("onkel_log_commits_total", commits)),
        ("onkel_log_commit_seconds_total", "counter", "Seconds that took",
         one("onkel_log_commit_seconds_total", seconds)),
        ("onkel_log_bytes", "gauge", "Bytes of the log since the last snapshot",
         one("onkel_log_bytes", engine.state.journal.size)),
        ("onkel_snapshots_total", "counter", "Snapshots since the start",
         one("onkel_snapshots_total", engine.snapshots)),
        ("onkel_replayed_records", "gauge", "Records applied again at the start",
         one("onkel_replayed_records", engine.replayed)),
    ]  # fmt: skip
    return "".join(_family(*family) for family in families)


def _family(name: str, kind: str, words: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP {name} {words}.", f"# TYPE {name} {kind}"]
    for sample, labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(said)}"' for key, said in labels)
        lines.append(f"{sample}{{{inside}}} {value!r}" if inside else f"{sample} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(said: str) -> str:
    return said.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
