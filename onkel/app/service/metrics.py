"""The service's counters as the text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable

from onkel.app.http.counts import Requests, Sample
from onkel.app.service.engine import Engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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
        ("onkel_member_weight", "gauge", "Weight of a setting in a self-tuning model",
         [("onkel_member_weight", (*labels, ("member", name)), weight)
          for slot, labels in slots for name, weight in slot.weights.items()]),
        ("onkel_models", "gauge", "Models", one("onkel_models", len(slots))),
        ("onkel_waiting", "gauge", "Requests that wait for the log",
         one("onkel_waiting", engine.waiting)),
        ("onkel_log_commits_total", "counter", "Groups written to the log",
         one("onkel_log_commits_total", commits)),
        ("onkel_log_commit_seconds_total", "counter", "Seconds that took",
         one("onkel_log_commit_seconds_total", seconds)),
        ("onkel_log_bytes", "gauge", "Bytes of the log since the last snapshot",
         one("onkel_log_bytes", engine.state.log.size)),
        ("onkel_models_aside", "gauge", "Models that are set aside",
         one("onkel_models_aside", len(engine.models.aside))),
        ("onkel_models_unsaved", "gauge", "Models in use that could not be saved",
         one("onkel_models_unsaved", len(engine.keeper.unsaved))),
        ("onkel_faults_total", "counter", "Changes refused for an error that is not their own",
         one("onkel_faults_total", engine.faults)),
        ("onkel_snapshots_total", "counter", "Snapshots since the start",
         one("onkel_snapshots_total", engine.keeper.snapshots)),
        ("onkel_snapshot_failures_total", "counter", "Snapshots and models that were not saved",
         one("onkel_snapshot_failures_total", engine.keeper.failures)),
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
