"""From options to a run: open or continue, watch, finish."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import stat
import sys
import tempfile
import time
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onkel.app.counters import Counters
from onkel.app.dry import describe
from onkel.app.errors import OutputProblem, SourceProblem, StateProblem, UsageProblem
from onkel.app.live import address_of, dashboard
from onkel.app.outputs import FileSink, Sink, StdoutSink
from onkel.app.precision import precision_of
from onkel.app.progress import Progress, closing
from onkel.app.session import Session, Sinks
from onkel.app.settings import Settings, memory_of
from onkel.app.state import State
from onkel.app.store import Models, Store
from onkel.streams.sources import (
    Reading,
    Roles,
    Rules,
    Source,
    SourceError,
    Stopped,
    open_source,
)

INTERRUPTED = 130
DEAD = "dead_letters.jsonl"


def run(task: str, source: str, options: dict[str, Any]) -> int:
    """Run a command; return its exit code, or raise RunError."""
    settings, reading = settings_of(task, options), reading_of(task, options)
    _check(settings, options)
    _check_paths(source, options)
    if options["dry_run"]:
        print(describe(settings, _opened(source, reading), options["as_json"]))
        return 0
    try:
        with contextlib.ExitStack() as stack:
            signals = stack.enter_context(_Stops())
            live = None  # its port is taken before an output is
            if options["dashboard"] is not None:
                live = stack.enter_context(dashboard(task, source, options["dashboard"]))
            reading = replace(reading, idle=options["stop_after"], stop=lambda: signals.came)
            session = prepare(stack, source, settings, reading, options)
            session.watchers += [live] if live is not None else []
            return conduct(session, options, signals)
    except sqlite3.OperationalError as error:
        raise OutputProblem(f"{options['state']}: cannot be used: {error}.") from None
    except sqlite3.Error as error:
        raise StateProblem(f"{options['state']} is damaged: {error}.") from None


def settings_of(task: str, options: dict[str, Any]) -> Settings:
    """Return the settings that options stand for."""
    names = {field.name for field in fields(Settings)} - {"task", "memory", "output_format"}
    given = {n: options[n] for n in names if n in options}
    style = options["output_format"]
    if style is None:
        style = "csv" if str(options["output"]).lower().endswith(".csv") else "jsonl"
    return Settings(task, memory=memory_of(options["memory"]), output_format=style, **given)


def reading_of(task: str, options: dict[str, Any]) -> Reading:
    """Return how the source is to be read."""
    roles = Roles(
        options.get("target"), task == "classify", options["time"], options["key"],
        tuple(options["ignore"]), tuple(options["columns"]),
    )  # fmt: skip
    ordered = isinstance(memory_of(options["memory"]), str)
    return Reading(
        options["format_"], options["delimiter"], options["header"], options["features"],
        options["follow"], options["replay"], options["block"], options["longest"], roles=roles,
        rules=Rules(gaps=options["missing"] == "mean", ordered=ordered),
    )  # fmt: skip


def _check(settings: Settings, options: dict[str, Any]) -> None:
    settings.estimator()
    if settings.by_clock and options["time"] is None:
        raise UsageProblem(
            f"--memory {settings.memory} goes by the clock: name its column, --time COL."
        )
    if options["dashboard"] is not None:
        address_of(options["dashboard"])
    if options["replay"] and options["state"] is None:
        raise UsageProblem("--replay skips what --state knows: give a --state.")
    if options["report"] and find_spec("bokeh") is None:
        raise UsageProblem("--report needs Bokeh: pip install 'onkel[report]'.")
    if options["report"] and not Path(options["report"]).absolute().parent.is_dir():
        raise UsageProblem(f"--report: there is no folder {Path(options['report']).parent}.")


def _check_paths(source: str, options: dict[str, Any]) -> None:
    """Raise if what is read would be written over, or two things to one file."""
    written = {"--output": options["output"], "--report": options["report"]}
    written["--dead-letters"] = _dead_path(options)
    if options["dead_letters"] == "-":
        raise UsageProblem("--dead-letters is a file: standard output is for results.")
    seen = {_same(source): "the source"}
    if options["config"]:
        seen[_same(options["config"])] = "the --config"
    for option, path in written.items():
        if path in (None, "-"):
            continue
        if _same(path) in seen:
            name = seen[_same(path)]
            raise UsageProblem(f"{option} {path} is {name} as well: give it another name.")
        seen[_same(path)] = option
        if options["state"] and _is_own(Path(path), Path(options["state"])):
            raise UsageProblem(
                f"{option} {path} is a file of the state's own: give it another name."
            )


def _same(path: str | Path) -> Any:
    """Return what two names of one file have in common."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else str(path)


def _is_own(path: Path, state: Path) -> bool:
    """Whether a name is one that the state gives its own files."""
    inside = os.path.realpath(path.parent) == os.path.realpath(state)
    return inside and (path.name == "lock" or path.name.startswith(("state.sqlite", "models-")))


def _opened(source: str, reading: Reading, *known: Any) -> Source:
    try:
        return open_source(source, reading, *known)
    except Stopped:
        raise KeyboardInterrupt from None
    except SourceError as error:
        raise SourceProblem(str(error)) from None


def prepare(
    stack: contextlib.ExitStack, name: str, settings: Settings, reading: Reading,
    options: dict[str, Any],
) -> Session:  # fmt: skip
    """Return a session, new or continued; what must be closed after it goes to the stack."""
    state = State(options["state"]) if options["state"] is not None else None
    if state is not None:
        stack.callback(state.close)
        state.agree(_identity(settings, reading, options))
    source = _continued(name, reading, state)
    stack.callback(source.close)
    settings = settings.settled(_precision(settings, source, state))
    sinks = _sinks(options, state)
    for sink in (sinks.output, sinks.dead):
        if sink is not None:
            stack.callback(sink.close)
    models = Models(settings.estimator, _store(state, stack), options["models_in_memory"])
    counters = Counters.from_dict(state.last.counters) if state else Counters()
    return Session(
        settings, source, models, sinks, state, counters, options["strict"], options["every"],
        options["stop_after"],
    )  # fmt: skip


def _identity(settings: Settings, reading: Reading, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a restart must not change."""
    output, dead = options["output"], options["dead_letters"]
    return {
        **settings.to_dict(), "target": reading.roles.target, "time": reading.roles.time,
        "key": reading.roles.key, "ignore": list(reading.roles.ignore),
        "columns": list(reading.roles.columns), "longest": reading.longest,
        "output": output if output == "-" else os.path.abspath(output),
        "dead_letters": dead and os.path.abspath(dead),
    }  # fmt: skip


def _continued(name: str, reading: Reading, state: State | None) -> Source:
    if state is None:
        return _opened(name, reading)
    memo = state.meta("memo") if state.last.generation else None
    source = _opened(name, reading, memo, state.last.position)
    if memo is None:
        state.note("memo", source.memo())
    return source


def _precision(settings: Settings, source: Source, state: State | None) -> str:
    """Return the precision: as told, as the run began, or as the first rows need it."""
    if settings.precision != "auto":
        return settings.precision
    known = state.meta("precision") if state is not None and state.last.generation else None
    if known is None:
        known = precision_of(source)
        if state is not None:
            state.note("precision", known)
    return str(known)


def _sinks(options: dict[str, Any], state: State | None) -> Sinks:
    output: Sink = StdoutSink()
    if options["output"] != "-":
        output = _file(Path(options["output"]).absolute(), state)
    dead = _dead_path(options)
    own = None if options["dead_letters"] else DEAD  # in the state's folder, which may move
    return Sinks(output, _file(dead, state, own) if dead is not None else None)


def _dead_path(options: dict[str, Any]) -> Path | None:
    if options["dead_letters"]:
        return Path(options["dead_letters"]).absolute()
    return Path(options["state"]).absolute() / DEAD if options["state"] else None


def _file(path: Path, state: State | None, name: str | None = None) -> FileSink:
    name = name or str(path)
    return FileSink(path, None if state is None else state.last.outputs.get(name), name)


def _store(state: State | None, stack: contextlib.ExitStack) -> Store:
    """Return where models go: the state's store, or a folder that goes when the run ends."""
    if state is not None:
        return state.store
    folder = tempfile.mkdtemp(prefix="onkel-")
    store = Store(Path(folder), 0, {})
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    stack.callback(store.close)
    return store


def conduct(session: Session, options: dict[str, Any], signals: _Stops) -> int:
    """Run a session to its end; show progress and summary where a person watches."""
    quiet, watched = options["quiet"], sys.stderr.isatty()
    signals.watch(session)
    told = _warn(session, 0, quiet)
    shown = watched and not quiet and not (options["output"] == "-" and sys.stdout.isatty())
    progress = Progress(sys.stderr, _columns()) if shown else None
    if progress is not None:
        session.watchers.append(progress)
    begun, before = time.monotonic(), session.counters.rows
    try:
        session.run()
    except OutputProblem:
        _forget_stdout()
        raise
    finally:
        if progress is not None:
            progress.close()
    _warn(session, told, quiet)
    _finish(session, options, time.monotonic() - begun, session.counters.rows - before, watched)
    if signals.came and session.state is not None and watched:
        print("Interrupted; the same command goes on from here.", file=sys.stderr)
    return INTERRUPTED if signals.came else 0


def _warn(session: Session, told: int, quiet: bool) -> int:
    """Say what a person should know and was not told yet; return how much that is in all."""
    found = session.source.warnings()
    for warning in [] if quiet else found[told:]:
        print(f"onkel: {warning}", file=sys.stderr)
    return len(found)


def _finish(
    session: Session, options: dict[str, Any], seconds: float, rows: int, watched: bool
) -> None:
    if options["report"]:
        from onkel.app import run_report

        page = run_report.page(session)
        try:
            Path(options["report"]).write_text(page, encoding="utf-8")
        except OSError as error:
            raise OutputProblem(f"--report {options['report']}: {error.strerror}.") from None
    summary = session.summary()
    stream = sys.stderr if options["output"] == "-" else sys.stdout
    if options["as_json"]:
        try:
            print(json.dumps(summary), file=stream, flush=True)
        except OSError as error:
            _forget_stdout()
            raise OutputProblem(f"the summary cannot be written: {error.strerror}.") from None
    elif not options["quiet"] and (watched or summary["broken"]):
        words = closing(summary, session.counters.first_broken, seconds, rows)
        print(words, file=sys.stderr)


def _columns() -> int:
    return max(shutil.get_terminal_size((100, 24)).columns - 1, 20)


def _forget_stdout() -> None:
    """Let Python end without a second complaint about a pipe that was closed."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Stops:
    """While it is entered, Ctrl-C and a polite kill end the run after the present block.

    Before there is a session, who waits for the first rows asks whether one `came`.
    """

    def __init__(self) -> None:
        self.session: Session | None = None
        self.came = False
        self._before: dict[int, Any] = {}

    def watch(self, session: Session) -> None:
        """End this session, at once if a signal has come before."""
        self.session = session
        if self.came:
            session.stop()

    def _handle(self, number: int, frame: Any) -> None:
        self.came = True
        if self.session is not None:
            self.session.stop()
        signal.signal(number, self._before[number])  # the second one is not polite

    def __enter__(self) -> _Stops:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *rest: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
