"""From options to a session: settings, an open source, outputs; new or continued."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from onkel.app.errors import OutputProblem, SourceProblem, UsageProblem
from onkel.app.run import target
from onkel.app.run.answering import Answered, Hearing
from onkel.app.run.checkpoint import State
from onkel.app.run.counters import Counters
from onkel.app.run.fleets import NOTE, Keyed, check_shared, is_fleet
from onkel.app.run.hints import hints
from onkel.app.run.inbox import Inbox
from onkel.app.run.outputs import FileSink, Sink, StdoutSink
from onkel.app.run.pending import by_clock, late_of
from onkel.app.run.precision import precision_of
from onkel.app.run.series import is_asked, lags_of, model_of, of_table
from onkel.app.run.session import Session, Sinks
from onkel.app.run.settings import RunSettings, memory_of
from onkel.app.run.store import Models, Store
from onkel.app.run.tables import plan_of
from onkel.streams.sources import (
    Block,
    Reading,
    Roles,
    Rules,
    Schema,
    Source,
    SourceError,
    Stopped,
    open_source,
    types_of,
)

DEAD = "dead_letters.jsonl"
STEP = 1024
SOURCE = "source"
"""What the state's note is called that says what is read."""


def settings_of(task: str, options: dict[str, Any]) -> RunSettings:
    """Return the settings that options stand for."""
    apart = {"task", "memory", "output_format", "precision", "promise"}
    names = {field.name for field in fields(RunSettings)} - apart
    given = {n: options[n] for n in names if n in options} | _precisions(options)
    style = options["output_format"]
    if style is None:
        style = "csv" if str(options["output"]).lower().endswith(".csv") else "jsonl"
    return RunSettings(
        task, memory=memory_of(options["memory"]), output_format=style,
        timed=options["time"] is not None, **given,
    )  # fmt: skip


def _precisions(options: dict[str, Any]) -> dict[str, Any]:
    """Return how numbers are held, and what is promised of answers: --precision was both once."""
    said = options.get("precision")
    if isinstance(said, str) and options["numbers"] not in ("auto", said):
        raise UsageProblem(f"--precision {said} and --numbers {options['numbers']}: give one.")
    if isinstance(said, str):
        return {"precision": said}
    return {"precision": options["numbers"], "promise": said}


def reading_of(task: str, options: dict[str, Any]) -> Reading:
    """Return how the source is to be read."""
    settings = settings_of(task, options)
    roles = Roles(
        options.get("target"), task == "classify", options["time"], options["key"],
        tuple(options["ignore"]), tuple(options["columns"]),
        missing_labels=tuple(options.get("missing_label", ())),
        time_format=options["time_format"], types=_types(options["types"]),
        decimal=options["decimal"], series=is_asked(settings), id=options.get("id"),
    )  # fmt: skip
    ordered = settings.by_clock or by_clock(settings)
    return Reading(
        options["format_"], options["delimiter"], options["header"], options["features"],
        options["follow"], options["replay"], _block(settings, options), options["longest"],
        roles=roles, rules=Rules(gaps=options["missing"] == "mean", ordered=ordered),
        durable=options["state"] is not None,
    )  # fmt: skip


def _types(said: Sequence[str]) -> tuple[tuple[str, str], ...]:
    try:
        return types_of(said)
    except SourceError as error:
        raise UsageProblem(str(error)) from None


def _block(settings: RunSettings, options: dict[str, Any]) -> int | None:
    """Return how many rows are handled at once; None leaves it to the source.

    What tunes itself is no slower in small blocks, and its weights are told after each.
    """
    small = STEP if settings.tunes_itself and settings.task != "detect" else None
    return options["block"] or small


def opened(source: str, reading: Reading, *known: Any) -> Source:
    """Return an open source, or raise SourceProblem."""
    try:
        return open_source(source, reading, *known)
    except Stopped:
        raise KeyboardInterrupt from None
    except SourceError as error:
        raise SourceProblem(str(error)) from None


def prepare(
    stack: contextlib.ExitStack, name: str, settings: RunSettings, reading: Reading,
    options: dict[str, Any],
) -> Session:  # fmt: skip
    """Return a session, new or continued; what must be closed after it goes to the stack."""
    lost = options["output_lost"]
    state = State(options["state"], output_lost=lost) if options["state"] is not None else None
    if state is not None:
        stack.callback(state.close)
        state.agree(_identity(settings, reading, options))
    source = _continued(name, reading, state)
    stack.callback(source.close)
    first = source.trial()
    if state is None or not state.last.generation:
        target.check(source.schema, first)
    settings = of_table(settings, source.schema)
    settings = settings.settled(_precision(settings, source.schema, first, state))
    if state is not None and lost:
        state.give_up_lost()
    sinks = _sinks(options, state, stack)
    models = models_of(settings, source.schema, state, stack, options)
    counters = Counters.from_dict(state.last.counters) if state else Counters()
    hearing = None
    if settings.hears_answers:
        inbox = Inbox(None if state is None else state.folder)
        stack.callback(inbox.close)
        hearing = Hearing(inbox, counters, Answered(models, source.schema.at("key") is not None))
    return Session(
        settings, source, models, sinks, state, counters, options["strict"], options["every"],
        options["stop_after"], hints=hints(source, first), hearing=hearing,
    )  # fmt: skip


def models_of(
    settings: RunSettings, schema: Schema, state: State | None, stack: contextlib.ExitStack,
    options: dict[str, Any],
) -> Models | Keyed:  # fmt: skip
    """Return who keeps the models: a fleet where that is possible, else single ones by key."""
    columns, store = len(schema.features), _store(state, stack)
    lags = lags_of(settings, columns)
    note = state.meta(NOTE) if state is not None and state.last.generation else None
    begun = state is not None and bool(state.last.generation)
    fits = is_fleet(settings, schema, lags, plan_of(settings, schema))
    if settings.share:
        check_shared(settings, schema, fits)
    if note is not None or (fits and not begun):
        folder = None if state is None else str(state.folder)
        return Keyed(settings, store, options["key_memory"], folder, note)
    late = settings.pending is not None
    make = partial(late_of, settings) if late else partial(model_of, settings, columns)
    return Models(make, store, options["models_in_memory"])


def _identity(settings: RunSettings, reading: Reading, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a restart must not change."""
    output, dead, told = options["output"], options["dead_letters"], options.get("incidents")
    return {
        **settings.to_dict(), "target": reading.roles.target, "time": reading.roles.time,
        "key": reading.roles.key, "ignore": list(reading.roles.ignore),
        "columns": list(reading.roles.columns), "longest": reading.longest,
        "missing_label": list(reading.roles.missing_labels),
        "time_format": reading.roles.time_format, "types": dict(reading.roles.types),
        "decimal": reading.roles.decimal, "id": reading.roles.id,
        "output": output if output == "-" else os.path.abspath(output),
        "dead_letters": dead and os.path.abspath(dead),
        "incidents": told and os.path.abspath(told),
    }  # fmt: skip


def _continued(name: str, reading: Reading, state: State | None) -> Source:
    if state is None:
        return opened(name, reading)
    memo = state.meta("memo") if state.last.generation else None
    source = opened(name, reading, memo, state.last.position)
    if memo is None:
        state.note("memo", source.memo())
    _note_source(name, reading, source, state)
    return source


def _note_source(name: str, reading: Reading, source: Source, state: State) -> None:
    """Note what is read, so that it can be read once more (`onkel replay`)."""
    flows = source.live and not reading.follow
    told = {"name": name if flows else os.path.abspath(name), "flows": flows}
    if state.meta(SOURCE) != told:
        state.note(SOURCE, told)


def _precision(settings: RunSettings, schema: Schema, first: Block, state: State | None) -> str:
    """Return the precision: as told, as the run began, or as the first rows need it."""
    if settings.precision != "auto":
        return settings.precision
    known = state.meta("precision") if state is not None and state.last.generation else None
    if known is None:
        known = precision_of(first.X, schema.features)
        if state is not None:
            state.note("precision", known)
    return str(known)


def _sinks(options: dict[str, Any], state: State | None, stack: contextlib.ExitStack) -> Sinks:
    """Return where results and broken rows go; the stack closes each as soon as it is open."""
    output: Sink = StdoutSink()
    if options["output"] != "-":
        output = _file(Path(options["output"]).absolute(), state)
        stack.callback(output.close)
    dead = _dead(options, state)
    if dead is not None:
        stack.callback(dead.close)
    told = None
    if options.get("incidents"):
        told = _file(Path(options["incidents"]).absolute(), state)
        stack.callback(told.close)
    return Sinks(output, dead, told)


def _dead(options: dict[str, Any], state: State | None) -> FileSink | None:
    path = dead_path(options)
    if path is None:
        return None
    if options["dead_letters"]:
        return _file(path, state, mode=0o600)  # they hold what came in
    known = state.last.outputs.get(DEAD) if state is not None else None
    return FileSink(path, known, DEAD, private=True)  # the folder may move, and the name stays


def dead_path(options: dict[str, Any]) -> Path | None:
    """Return the file for broken rows, if there is one."""
    if options["dead_letters"]:
        return Path(options["dead_letters"]).absolute()
    return Path(options["state"]).absolute() / DEAD if options["state"] else None


def _file(path: Path, state: State | None, mode: int = 0o666) -> FileSink:
    """Return a file to write: one that a state has begun, or a new one."""
    if state is None:
        return FileSink(path, mode=mode)
    name, claims = str(path), state.meta("claims") or {}
    known = state.last.outputs.get(name)
    if known is not None or claims.get(name) or (path.exists() and not path.is_file()):
        return FileSink(path, known, mode=mode)
    if path.exists() and (name not in claims or path.stat().st_size):
        raise OutputProblem(
            f"{path} is there already, and this --state has not begun it: perhaps another run's. "
            "Give another name, or remove it."
        )
    # A death in between leaves an empty file of a claim that was announced: that is taken.
    state.note("claims", {**claims, name: False})
    sink = FileSink(path, fresh=not path.exists(), mode=mode)
    state.note("claims", {**claims, name: True})
    return sink


def _store(state: State | None, stack: contextlib.ExitStack) -> Store:
    """Return where models go: the state's store, or a folder that goes when the run ends."""
    if state is not None:
        return state.store
    folder = tempfile.mkdtemp(prefix="onkel-")
    store = Store(Path(folder), 0, {})
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    stack.callback(store.close)
    return store
