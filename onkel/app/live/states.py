"""A state folder on the page: a run that is over, or one that goes on.

Nothing of the state is written; answers to alerts are put where the run looks for them.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from onkel.app.disk import is_locked
from onkel.app.errors import RunError, StateProblem, UsageProblem
from onkel.app.live.board import Board
from onkel.app.live.past import numbers_of, past_of
from onkel.app.live.stored import StoredKeys
from onkel.app.live.watch import NEXT, RUNNING
from onkel.app.run import answering, feedback
from onkel.app.run.checkpoint import State
from onkel.app.run.counters import Counters
from onkel.app.run.fleets import NOTE
from onkel.app.run.inbox import Inbox
from onkel.app.run.incidents import Grouping
from onkel.app.run.ledger import Kept
from onkel.app.run.settings import RunSettings
from onkel.app.telling import tell
from onkel.streams.sources import Schema

EVERY = 1.0
"""Seconds between two looks."""
LATELY = 30.0
"""Where nobody tells who holds a lock, a state that was written so many seconds ago is in use."""


class Folder:
    """Shows what a state folder holds, and what is new of it.

    Parameters
    ----------
    board : Board
        What the page shows.
    folder : str
        The state's.
    """

    def __init__(self, board: Board, folder: str) -> None:
        self.board, self.folder = board, Path(folder)
        self.name = self.folder.absolute().name or str(self.folder)
        self._seen: tuple[int, bool] | None = None
        self._written: set[tuple[str, int, int]] = set()
        """The files that were looked at last, as they were."""
        self._said: dict[str, dict[str, Any]] = {}
        """Answers that are shown, by the ids of alerts."""
        self._guard = threading.Lock()

    def look(self) -> bool:
        """Show the newest checkpoint, and new answers, if there are some; say whether."""
        with self._guard:
            going, written = _in_use(self.folder), _marks(self.folder)
            if self._seen is not None and (going, written) == (self._seen[1], self._written):
                return False
            state = State(self.folder, writable=False)
            try:
                found = self._look(state, going)
            finally:
                state.close()
            self._written = written  # before it was read: what has come since is looked at
            return found

    def _look(self, state: State, going: bool) -> bool:
        told, kept = state.meta("settings"), state.kept()
        if not told or not kept:
            raise StateProblem(f"{self.folder} holds no checkpoint of a run yet.")
        found, before = kept[0].checkpoint, (self._seen, self._said)
        counters = Counters.from_dict(found.counters)
        self._said = self._answers(counters)
        self._seen = found.generation, going
        if before[0] != self._seen:
            self._show(state, told, kept[0], counters, going)
            before = None, {}
        new = [id for id, said in self._said.items() if before[1].get(id) != said]
        for id in new:
            self._show_answer(id, going)
        return before[0] is None or bool(new)

    def _answers(self, counters: Counters) -> dict[str, dict[str, Any]]:
        with contextlib.closing(Inbox(self.folder)) as inbox:
            return answering.said_of(inbox, counters)

    def _show_answer(self, id: str, going: bool) -> None:
        said = self._said[id]
        waits = (RUNNING if going else NEXT) if said.get("waits") else ""
        why = said.get("refused", "")
        self.board.answer(self.name, id, said.get("answer"), refused=why, waits=waits)

    def _show(
        self, state: State, told: dict[str, Any], kept: Kept, counters: Counters, going: bool
    ) -> None:
        known = {field.name for field in fields(RunSettings)}
        settings = RunSettings(**{n: v for n, v in told.items() if n in known})
        features = Schema.from_dict(state.meta("memo")["schema"]).features
        numbers = numbers_of(counters, settings)
        if told.get("key") is not None:
            numbers["keys"] = len(kept.models())
        self.board.whole(self.name, past_of(counters, settings, numbers, not going, alerts=True))
        if told.get("key") is not None:
            keys = StoredKeys(self.folder, kept, state.meta(NOTE), settings, features)
            self.board.show_keys(self.name, keys)
        if counters.grouping:
            grouping = Grouping(settings, [])
            grouping.restore(counters.grouping)
            self.board.show_incidents(self.name, grouping.known())

    def take(self, some: list[tuple[str, str]]) -> None:
        """Put answers where the run finds them, as ``onkel feedback``; show that they wait."""
        from onkel.app.http.problems import Problem

        try:
            feedback.give(str(self.folder), some)
            self.look()
        except UsageProblem as problem:
            words = str(problem)
            raise Problem(422, "bad_field", words[:1].upper() + words[1:]) from None
        except RunError as problem:
            raise Problem(503, "storage", str(problem)) from None

    def follow(self, stop: threading.Event, trouble: Callable[[str], None]) -> None:
        """Look again and again until told to stop; what stays wrong is told once."""
        said = told = ""
        while not stop.wait(EVERY):
            try:
                self.look()
                said = ""
            except StateProblem as problem:  # a run may just have replaced what was read
                if str(problem) == said != told:
                    told = said
                    trouble(said)
                said = str(problem)


def _marks(folder: Path) -> set[tuple[str, int, int]]:
    """Return what tells whether a state has changed: to open it, with many keys, takes a second."""
    found = set()
    for name in ("state.sqlite", "answers.sqlite"):
        for path in (folder / name, folder / f"{name}-wal"):
            with contextlib.suppress(OSError):
                told = path.stat()
                if told.st_size:  # SQLite makes and removes an empty one for whoever looks
                    found.add((path.name, told.st_mtime_ns, told.st_size))
    return found


def _in_use(folder: Path) -> bool:
    """Whether a run holds the folder now; where nobody tells, whether it was written of late."""
    locked = is_locked(folder)
    return time.time() - _written(folder) < LATELY if locked is None else locked


def _written(folder: Path) -> float:
    found = [path.stat().st_mtime for path in folder.glob("state.sqlite*")]
    return max(found, default=0.0)


def watch(folder: str, host: str, port: int) -> None:
    """Show a state folder on a page of its own until Ctrl-C, or until it is told to end."""
    from onkel.app.live.page import Dashboard

    shown = Folder(Board(), folder)
    shown.look()
    try:
        page = Dashboard(shown.board, host, port, take=shown.take)
    except ValueError as error:
        raise UsageProblem(f"--port: {error}") from None
    stop = threading.Event()
    with _ended_by_signals(stop), page:
        tell(f"onkel: {folder} is shown at {page.url} until Ctrl-C.")
        shown.follow(stop, lambda words: tell(f"onkel: {words}"))


@contextlib.contextmanager
def _ended_by_signals(stop: threading.Event) -> Iterator[None]:
    """Set `stop` at SIGINT and SIGTERM: a shell lets what it starts behind it ignore the first."""
    heard = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if heard else ()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
