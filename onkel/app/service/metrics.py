"""The service's counters as the text that Prometheus reads."""

from __future__ import annotations

import time

from onkel.app.http.counts import Requests, Sample
from onkel.app.http.exposition import CONTENT_TYPE, Family, deliveries, shared, text_of
from onkel.app.service.engine import Engine

__all__ = ["CONTENT_TYPE", "text"]


def text(requests: Requests, engine: Engine) -> str:
    """Return everything in the text format of Prometheus."""
    commits, seconds = engine.commits
    slots = [(slot, (("model", slot.spec.name),)) for slot in engine.slots()]

    def each(name: str, field: str) -> Family:
        return shared(name, [(labels, getattr(slot, field)) for slot, labels in slots])

    def one(name: str, value: float) -> list[Sample]:
        return [(name, (), float(value))]

    sending = {} if engine.notices is None else engine.notices.summary()
    now, archive = time.monotonic(), engine.state.archive
    families: list[Family] = [
        ("onkel_requests_total", "counter", "Requests by route and status", requests.counts()),
        ("onkel_request_seconds", "histogram", "Seconds to answer", requests.times()),
        each("onkel_examples_total", "examples"),
        each("onkel_alerts_total", "alerts"),
        shared("onkel_incidents_open", [(labels, slot.incidents.open)
               for slot, labels in slots if slot.incidents is not None]),
        each("onkel_rate_promised", "promised"),
        each("onkel_rate_realised", "realised"),
        each("onkel_model_bytes", "bytes"),
        shared("onkel_seconds_since_row", [(labels, now - slot.heard) for slot, labels in slots]),
        shared("onkel_member_weight", [((*labels, ("member", name)), weight)
               for slot, labels in slots for name, weight in slot.weights.items()]),
        shared("onkel_models", [((), len(slots))]),
        *deliveries(sending),
        ("onkel_waiting", "gauge", "Requests that wait for the log",
         one("onkel_waiting", engine.waiting)),
        ("onkel_log_commits_total", "counter", "Groups written to the log",
         one("onkel_log_commits_total", commits)),
        ("onkel_log_commit_seconds_total", "counter", "Seconds that took",
         one("onkel_log_commit_seconds_total", seconds)),
        ("onkel_log_bytes", "gauge", "Bytes of the log since the last snapshot",
         one("onkel_log_bytes", engine.state.log.size)),
        ("onkel_archive_bytes", "gauge", "Bytes of the log that are kept to be replayed",
         one("onkel_archive_bytes", archive.bytes) if archive.keep else []),
        ("onkel_archive_oldest_timestamp_seconds", "gauge", "When the oldest row of these came",
         [] if archive.oldest is None
         else one("onkel_archive_oldest_timestamp_seconds", archive.oldest)),
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
    return text_of(families)
