"""A command from its options to its exit code: open or continue, watch, finish."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onkel.app.errors import (
    NotDelivered,
    OutputProblem,
    StateProblem,
    TooManyBroken,
    UsageProblem,
)
from onkel.app.live.metrics import Gauges, metrics_page
from onkel.app.live.watch import Live, address_of, dashboard
from onkel.app.notify.settings import Delivery, delivery_of
from onkel.app.run import lost, pending, target
from onkel.app.run.dry_run import describe
from onkel.app.run.notices import Notices, left_behind
from onkel.app.run.prepare import dead_path, opened, prepare, reading_of, settings_of
from onkel.app.run.progress import Progress, closing
from onkel.app.run.series import lags_of
from onkel.app.run.session import Session
from onkel.app.run.settings import RunSettings
from onkel.app.telling import forget_stdout, say, tell
from onkel.streams.sources import Source

INTERRUPTED = 130


def run(task: str, source: str, options: dict[str, Any]) -> int:
    """Run a command; return its exit code, or raise RunError."""
    settings, reading = settings_of(task, options), reading_of(task, options)
    _check(settings, options)
    _check_paths(source, options)
    delivery = delivery_of(options)
    for note in [] if options["quiet"] else settings.notes():
        tell(f"onkel: {note}")
    if options["dry_run"]:
        return _try(settings, opened(source, reading), options)
    try:
        with contextlib.ExitStack() as stack:
            signals = stack.enter_context(_Stops())
            gauges, live = Gauges(source), None  # ports are taken before an output is
            if options["dashboard"] is not None:
                page = dashboard(task, source, options["dashboard"], gauges.text)
                live = stack.enter_context(page)
            if options["metrics"] is not None:
                stack.enter_context(metrics_page(options["metrics"], gauges.text))
            reading = replace(reading, idle=options["stop_after"], stop=lambda: signals.came)
            session = prepare(stack, source, settings, reading, options)
            session.watchers += [live] if live is not None else []
            if live is not None or options["metrics"] is not None:
                session.watchers.append(gauges)
            _notify(stack, session, source, delivery)
            code = conduct(session, options, signals)
            if live is not None:
                _stay(live, session, options, signals)
            return code
    except sqlite3.OperationalError as error:
        raise OutputProblem(f"{options['state']}: cannot be used: {error}.") from None
    except sqlite3.Error as error:
        raise StateProblem(f"{options['state']} is damaged: {error}.") from None


def _notify(
    stack: contextlib.ExitStack, session: Session, source: str, delivery: Delivery | None
) -> None:
    """Let alerts be sent, if that was asked for."""
    session.hints += left_behind(session.state, delivery)
    if delivery is not None or (session.state is not None and session.state.has_outbox):
        session.notices = Notices(delivery, source, session.state)
        stack.callback(session.notices.close)
        session.notices.start()


def _try(settings: RunSettings, source: Source, options: dict[str, Any]) -> int:
    """Say what the first rows tell; raise what a run would raise."""
    with contextlib.closing(source):
        first = source.trial()
        say(describe(settings, source, first, options["as_json"], options["broken_at_most"]))
        target.check(source.schema, first)
    return 0


def _check(settings: RunSettings, options: dict[str, Any]) -> None:
    settings.estimator()
    if settings.by_clock and options["time"] is None:
        raise UsageProblem(
            f"--memory {settings.memory} goes by the clock: name its column, --time COL."
        )
    if isinstance(settings.gap, str) and options["time"] is None:
        raise UsageProblem(
            f"--incident-gap {settings.gap} goes by the clock: name its column, --time COL."
        )
    _check_season(settings, options)
    pending.check(settings, options)
    if options["dashboard"] is not None:
        address_of(options["dashboard"])
    if options["metrics"] is not None:
        address_of(options["metrics"], "--metrics")
    if options["replay"] and options["state"] is None:
        raise UsageProblem("--replay skips what --state knows: give a --state.")
    if options["output_lost"] and options["state"] is None:
        raise UsageProblem("--output-lost goes on with a --state: give one.")
    if options["report"] and find_spec("bokeh") is None:
        raise UsageProblem("--report needs Bokeh: pip install 'onkel[report]'.")
    if options["report"] and not Path(options["report"]).absolute().parent.is_dir():
        raise UsageProblem(f"--report: there is no folder {Path(options['report']).parent}.")


def _check_season(settings: RunSettings, options: dict[str, Any]) -> None:
    lags = lags_of(settings, 1)  # for how many columns does not matter here
    clock = [s for s in str(lags and lags.season).split(",") if s.strip() in ("day", "week")]
    if clock and options["time"] is None:
        raise UsageProblem(
            f"--season {settings.season} goes by the clock: name its column, --time COL."
        )


def _check_paths(source: str, options: dict[str, Any]) -> None:
    """Raise if what is read would be written over, or two things to one file."""
    written = {"--output": options["output"], "--report": options["report"]}
    written["--dead-letters"] = dead_path(options)
    written["--incidents"] = options.get("incidents")
    if options.get("incidents") == "-":
        raise UsageProblem("--incidents is a file: standard output is for results.")
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


_OWN = ("state.sqlite", "answers.sqlite", "models-", "undelivered.jsonl")


def _is_own(path: Path, state: Path) -> bool:
    """Whether a name is one that the state gives its own files."""
    inside = os.path.realpath(path.parent) == os.path.realpath(state)
    return inside and (path.name == "lock" or path.name.startswith(_OWN))


def conduct(session: Session, options: dict[str, Any], signals: _Stops) -> int:
    """Run a session to its end; show progress where a person watches, and a summary."""
    quiet, watched = options["quiet"], sys.stderr.isatty()
    signals.watch(session)
    warned = _warn(session, 0, quiet)
    shown = watched and not quiet and not (options["output"] == "-" and sys.stdout.isatty())
    progress = Progress(sys.stderr, _columns()) if shown else None
    if progress is not None:
        session.watchers.append(progress)
    begun, before = time.monotonic(), session.counters.rows
    try:
        session.run()
    except Exception as error:
        if isinstance(error, OutputProblem):
            forget_stdout()
        for words in _undelivered(session, signals):
            tell(f"onkel: {words}")
        raise
    finally:
        if progress is not None:
            progress.close()
    undelivered = _undelivered(session, signals)
    _warn(session, warned, quiet)
    _hint(session, quiet)
    problem = lost.too_many(
        session.counters, options["broken_at_most"], session.source.schema.roles.target
    )
    told = bool(problem) and not signals.came
    seconds, rows = time.monotonic() - begun, session.counters.rows - before
    _finish(session, options, partial(closing, session, seconds, rows, not told))
    if signals.came and session.state is not None and watched:
        tell("Interrupted; the same command goes on from here.")
    if undelivered and (told or signals.came):
        tell("\n".join(f"onkel: {words}" for words in undelivered))
    if told:
        raise TooManyBroken(problem)
    if undelivered and not signals.came:
        raise NotDelivered("\n".join(undelivered))
    return INTERRUPTED if signals.came else 0


def _undelivered(session: Session, signals: _Stops) -> list[str]:
    """Send what can be sent soon; return what was not, in words. A signal ends the wait."""
    if session.notices is None:
        return []
    before = signals.came
    session.notices.finish(lambda: signals.came and not before)
    return session.notices.troubles()


def _warn(session: Session, shown: int, quiet: bool) -> int:
    """Print the source's warnings from number `shown` on; return how many there are."""
    found = [*session.hints, *session.source.warnings()]
    for warning in [] if quiet else found[shown:]:
        tell(f"onkel: {warning}")
    return len(found)


def _hint(session: Session, quiet: bool) -> None:
    """Say where nothing was there to be learned."""
    counters = session.counters
    hint = target.last_hint(counters.last_label, counters.unchanged, counters.examples)
    hint = hint if counters.rows else "there was no row to learn from"
    if hint and not quiet:
        tell(f"onkel: {hint}")


def _finish(session: Session, options: dict[str, Any], words: Callable[[], str]) -> None:
    """Write the report, and say what came of the run: as JSON, or in words."""
    if options["report"]:
        from onkel.app.report.run import page

        html = page(session)
        try:
            Path(options["report"]).write_text(html, encoding="utf-8")
        except OSError as error:
            raise OutputProblem(f"--report {options['report']}: {error.strerror}.") from None
    summary = session.closing()
    if options["as_json"]:
        (tell if options["output"] == "-" else say)(json.dumps(summary))
    if options["quiet"]:
        return
    if not options["as_json"]:
        tell(words())
    elif lost.many_unlabelled(summary):
        task, column = session.settings.task, session.source.schema.roles.target
        tell(f"onkel: {lost.unlabelled(summary, task, column)}.")


def _stay(live: Live, session: Session, options: dict[str, Any], signals: _Stops) -> None:
    """Keep the page of a run that is over, for a person at a terminal; or say how to look again."""
    live.finish(session)
    if sys.stderr.isatty() and sys.stdin is not None and sys.stdin.isatty() and not signals.came:
        tell(f"The run is over. Its page stays at {live.url} until Ctrl-C.")
        while not signals.came:
            time.sleep(0.1)
    elif not options["quiet"]:
        again = options["state"] and f"onkel watch {shlex.quote(str(options['state']))}"
        tell(
            f"To look at the page again: {again or 'give the run a --state, then onkel watch DIR'}"
        )


def _columns() -> int:
    return max(shutil.get_terminal_size((100, 24)).columns - 1, 20)


class _Stops:
    """While it is entered, SIGINT and SIGTERM end the run after the present block.

    Only a main thread may hear signals: called from another, the command runs without.
    `came` says whether one has arrived; the source asks it while it waits for the first rows.
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
        signal.signal(number, self._before[number])  # a second one ends the process at once

    def __enter__(self) -> _Stops:
        heard = threading.current_thread() is threading.main_thread()
        for number in (signal.SIGINT, signal.SIGTERM) if heard else ():
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *rest: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
