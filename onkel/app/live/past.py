"""A whole run for the page, out of what its counters remember: finished, or in a state folder."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.live.board import Past
from onkel.app.run import answering
from onkel.app.run.counters import Counters
from onkel.app.run.settings import RunSettings

Array = NDArray[Any]

TASKS = {"detect": "novelty", "classify": "classification", "regress": "regression"}


def past_of(
    counters: Counters, settings: RunSettings, numbers: dict[str, Any], finished: bool,
    alerts: bool = False,
) -> Past:  # fmt: skip
    """Return what the page shows of a run from its first row on, and its alerts if asked for."""
    marks = {"detect": counters.alerts, "classify": counters.mistakes}
    answerable = settings.hears_answers
    told = [alert_of(line, answerable) for line in counters.latest] if alerts else None
    return Past(
        TASKS[settings.task], counters.rows, marks.get(settings.task, 0), numbers,
        buckets_of(counters, settings), told, finished,
    )  # fmt: skip


def numbers_of(counters: Counters, settings: RunSettings) -> dict[str, Any]:
    """Return the numbers of the page that counters tell."""
    summary = counters.summary(settings.task, settings.promised)
    promised, realised = summary.get("rate_promised"), summary.get("rate_realised")
    if settings.task == "classify":
        realised = summary["mistake_rate"]
    elif summary.get("coverage_realised") is not None:
        promised, realised = settings.promised, 1.0 - summary["coverage_realised"]
    found = {
        "t": counters.rows, "promised": promised, "realised": realised,
        "mistakes": summary.get("mistakes"), "rarity": settings.tells_p,
        "error": summary.get("mean_absolute_error"),
    }  # fmt: skip
    if settings.task == "detect":
        names = ("incidents", "incidents_open", "held_back")
        found |= {name: summary.get(name, 0) for name in names}
    if settings.hears_answers:
        heard = answering.told(counters, settings.promise)
        found |= {name: heard[name] for name in answering.SHOWN if name in heard}
    if counters.members:
        found["members"] = counters.members
        found["weights"] = [round(w, 3) for w in counters.weighing]
    return found


def alert_of(line: dict[str, Any], answerable: bool) -> dict[str, Any]:
    """Return an alert as the page takes it, of a line of the output."""
    found = {
        "t": line["row"] + 1, "score": line["score"], "threshold": line["threshold"],
        "sentence": line.get("why"), "features": [],
    }  # fmt: skip
    for name in ("key", "time", "incident"):
        if line.get(name) is not None:
            found[name] = line[name]
    return {**found, "id": line["alert_id"]} if answerable else found


def buckets_of(counters: Counters, settings: RunSettings) -> list[dict[str, Any]]:
    """Return the history as the page's buckets, those with rows."""
    history = counters.history
    rows = history.column("rows")
    there = np.flatnonzero(rows > 0)
    if not len(there):
        return []
    columns = {n: c.tolist() for n, c in _columns(counters, settings, rows).items()}
    weights = counters.weights() if counters.members else []
    found = []
    for number, i in enumerate(there.tolist()):
        held = {name: _finite(column[i]) for name, column in columns.items()}
        bucket: dict[str, Any] = {
            "number": number,
            "t": min((i + 1) * history.width, counters.rows),
            **held,
        }
        if weights and weights[i]:
            bucket["weights"] = weights[i]
        found.append(bucket)
    return found


def _columns(counters: Counters, settings: RunSettings, rows: Array) -> dict[str, Array]:
    history, nothing = counters.history, np.full(len(rows), np.nan)
    part = {"detect": "score", "classify": "mistakes", "regress": "error"}[settings.task]
    marks = history.column("alerts" if settings.task == "detect" else "mistakes")
    if settings.task == "regress":
        marks = rows - history.column("covered")
    with np.errstate(all="ignore"):
        found = {"mean": history.column(part) / rows, "rows": rows, "marks": marks}
        counted = history.column("shown") if settings.task == "detect" else rows
        found["realised"] = np.cumsum(marks) / np.cumsum(counted)
    names = {"low": "low", "high": "high"} if settings.task == "detect" else {}
    names |= {"time": "time"} if "time" in history.sums else {}
    found |= {name: history.column(held) for name, held in names.items()}
    found["limit"] = nothing
    if settings.task == "detect":
        found["limit"] = history.column("threshold") / np.where(rows > 0, rows, np.nan)
        found["peak"] = np.where(marks > 0, found["low"], np.nan)
    if settings.promised is not None:
        found["promised"] = np.full(len(rows), settings.promised)
    return found


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
