"""Counters as the text that Prometheus reads; what the command and the service tell alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onkel.app.http.counts import Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Family = tuple[str, str, str, list[Sample]]
"""Name, kind, words and samples."""
SHARED = {
    "onkel_examples_total": ("counter", "Examples learned; by a service: since its start"),
    "onkel_alerts_total": (
        "counter",
        "Alerts, mistakes or targets outside; by a service: since its start",
    ),
    "onkel_incidents_open": ("gauge", "Incidents of a detector that may still go on"),
    "onkel_rate_promised": ("gauge", "Share of rows that was promised to be alerts, or outside"),
    "onkel_rate_realised": ("gauge", "Share of rows that were alerts, mistakes, or outside"),
    "onkel_model_bytes": ("gauge", "Bytes that a model takes"),
    "onkel_seconds_since_row": ("gauge", "Seconds since the last row"),
    "onkel_member_weight": ("gauge", "Weight of a setting in a self-tuning model"),
    "onkel_models": ("gauge", "Models"),
    "onkel_deliveries_total": ("counter", "Messages by what came of them"),
    "onkel_deliveries_waiting": ("gauge", "Messages that wait to be delivered"),
}
"""What the command and the service have in common."""


def shared(name: str, samples: Iterable[tuple[tuple[tuple[str, str], ...], Any]]) -> Family:
    """Return a family of those that are told alike; a value that is None is left out."""
    kind, words = SHARED[name]
    return name, kind, words, [(name, labels, float(v)) for labels, v in samples if v is not None]


def deliveries(summary: Mapping[str, Mapping[str, int]]) -> list[Family]:
    """Return the families of messages, from what came of them by target."""
    parts = {target: dict(found) for target, found in summary.items()}
    waits = [((("target", t),), found.pop("waiting")) for t, found in parts.items()]
    told = [
        ((("target", target), ("outcome", outcome)), count)
        for target, found in parts.items()
        for outcome, count in found.items()
    ]
    return [shared("onkel_deliveries_total", told), shared("onkel_deliveries_waiting", waits)]


def text_of(families: Iterable[Family]) -> str:
    r"""Return everything in the text format of Prometheus; a family without samples is left out.

    Examples
    --------
    >>> print(text_of([("a_total", "counter", "Words", [("a_total", (("b", 'c"'),), 1.0)])]))
    # HELP a_total Words.
    # TYPE a_total counter
    a_total{b="c\""} 1.0
    <BLANKLINE>
    """
    return "".join(_family(*family) for family in families if family[3])


def _family(name: str, kind: str, words: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP {name} {words}.", f"# TYPE {name} {kind}"]
    for sample, labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(said)}"' for key, said in labels)
        lines.append(f"{sample}{{{inside}}} {value!r}" if inside else f"{sample} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(said: str) -> str:
    shown = said.encode("utf-8", "backslashreplace").decode()
    return shown.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
