"""What a state folder holds, told without disturbing a run."""

from __future__ import annotations

import contextlib
import json
from dataclasses import fields
from typing import Any

from onkel.app.errors import StateProblem
from onkel.app.run import answering
from onkel.app.run.checkpoint import State
from onkel.app.run.counters import Counters
from onkel.app.run.inbox import Inbox
from onkel.app.run.ledger import Checkpoint, Kept
from onkel.app.run.pending import estimator_of
from onkel.app.run.series import parted
from onkel.app.run.settings import RunSettings
from onkel.app.run.tables import by_kind
from onkel.streams.sources import Schema

_APART = ("settings", "model", "outputs", "position", "problem", "columns", "undelivered")
_LATE = ("answered", "waiting", "expired", "delay_rows_mean", "delay_seconds_mean", "ask_in_words")
_HEARD = (
    "alerts_waiting", "alerts_answered", "alerts_dismissed", "precision_promised",
    "precision_realised", "precision_level",
)  # fmt: skip
_NAMED = {"precision": "numbers", "promise": "precision"}
"""Settings that the command line calls otherwise."""
_SHOWN = (*_LATE, *_HEARD, "in_words", "terms", "threshold", "kernel", "memory", "bytes")


def inspect(folder: str) -> dict[str, Any]:
    """Return examples, position, generation, settings and models of a state.

    They are those that a run would go on from; ``damaged`` says what is wrong with newer ones,
    ``problem`` why no run could go on.
    """
    with contextlib.suppress(StateProblem):  # a run that goes on may have removed what is looked at
        found = _looked(folder)
        if not {"problem", "damaged"} & found.keys():
            return found
    return _looked(folder)


def _looked(folder: str) -> dict[str, Any]:
    state = State(folder, writable=False)
    try:
        return _told(state)
    finally:
        state.close()


def _told(state: State) -> dict[str, Any]:
    settings = state.meta("settings") or {}
    if not settings:
        raise StateProblem(f"{state.folder} holds no state of a run.")
    whole, wrong = state.newest_whole()
    last = whole or next(iter(state.kept()), Kept(Checkpoint(), {}))
    found, places = last.checkpoint, last.models()
    counters = Counters.from_dict(found.counters) if found.counters else Counters()
    task, known = settings["task"], {f.name for f in fields(RunSettings)}
    own = RunSettings(**{n: v for n, v in settings.items() if n in known})
    told: dict[str, Any] = {
        "task": task, "generation": found.generation, **counters.summary(task, own.promised),
        **_answers(state, own, counters),
        "position": found.position, "outputs": found.outputs,
        "models": len(places), "bytes": sum(p.length for p in places.values()),
        "settings": settings, "columns": _columns(state.meta("memo")),
    }  # fmt: skip
    if waiting := state.messages_waiting():
        told["undelivered"] = waiting
    if whole is not None and len(places) == 1:
        told["model"] = _model(state, places)
    if wrong:
        told["problem" if whole is None else "damaged"] = wrong
    return told


def _answers(state: State, settings: RunSettings, counters: Counters) -> dict[str, Any]:
    """Return what came of answers to alerts, and how many wait to be taken in by a run."""
    if not settings.hears_answers:
        return {}
    found = answering.told(counters, settings.promise)
    if not found["alerts_answered"] and settings.promise is None:
        found = {n: v for n, v in found.items() if "refused" in n}
    with contextlib.closing(Inbox(state.folder)) as inbox:
        waiting = answering.undecided(inbox, counters)
    return found | ({"answers_to_take_in": len(waiting)} if waiting else {})


def _columns(memo: dict[str, Any] | None) -> dict[str, list[str]]:
    return by_kind(Schema.from_dict(memo["schema"]).columns) if memo else {}


def _model(state: State, places: dict[str, Any]) -> dict[str, Any]:
    model = state.model_at(*places.values())
    inner, (_, lags) = estimator_of(model), parted(model)
    report = inner.diagnostics_ if inner.__sklearn_is_fitted__() else {}
    if inner is not model:
        report = {**report, **{n: v for n, v in model.diagnostics_.items() if n in _LATE}}
    shown = {name: report[name] for name in _SHOWN if name in report}
    return shown if lags is None else {**shown, "season": lags.season_ or "none found"}


def as_json(found: dict[str, Any]) -> str:
    """Return everything as JSON."""
    return json.dumps(found)


def as_text(found: dict[str, Any]) -> str:
    """Return the most important numbers, one per line."""
    rows: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict) and name not in _APART:
            rows |= {f"{name}: {n}": v for n, v in value.items()}
        elif isinstance(value, list) and name not in _APART:
            rows |= {f"{name}: {i}": v for i, v in enumerate(value, 1)}
        elif name not in _APART:
            rows[name] = value
    waiting = found.get("undelivered", {})
    rows |= {f"undelivered: {target}": count for target, count in waiting.items()}
    rows |= {f"columns: {kind}": ", ".join(names) for kind, names in found["columns"].items()}
    position = found["position"] or {}
    rows |= {f"position: {n}": position[n] for n in ("row", "line", "offset") if n in position}
    rows |= {f"output: {path}": f"{size:,} bytes" for path, size in found["outputs"].items()}
    rows |= {f"model: {n}": v for n, v in found.get("model", {}).items()}
    changed = {n: v for n, v in found["settings"].items() if v not in (None, "", [], {}, False)}
    rows |= {f"setting: {_NAMED.get(n, n)}": v for n, v in changed.items()}
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {_shown(value)}" for name, value in rows.items())


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
