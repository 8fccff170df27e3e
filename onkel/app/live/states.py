"""A state folder on the page: a run that is over, or one that goes on; it is only looked at."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from onkel.app.disk import is_locked
from onkel.app.errors import StateProblem, UsageProblem
from onkel.app.live.board import Board
from onkel.app.live.past import numbers_of, past_of
from onkel.app.run.checkpoint import State
from onkel.app.run.counters import Counters
from onkel.app.run.incidents import Grouping
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

    def look(self) -> bool:
        """Show the newest checkpoint, if it is another than at the last look; say whether."""
        going = _in_use(self.folder)
        state = State(self.folder, writable=False)
        try:
            return self._look(state, going)
        finally:
            state.close()

    def _look(self, state: State, going: bool) -> bool:
        told, kept = state.meta("settings"), state.kept()
        if not told or not kept:
            raise StateProblem(f"{self.folder} holds no checkpoint of a run yet.")
        found = kept[0].checkpoint
        if self._seen == (found.generation, going):
            return False
        self._seen = found.generation, going
        self._show(told, state.meta("memo"), Counters.from_dict(found.counters), going,
                   len(kept[0].models()))  # fmt: skip
        return True

    def _show(
        self, told: dict[str, Any], memo: dict[str, Any], counters: Counters, going: bool,
        models: int,
    ) -> None:  # fmt: skip
        known = {field.name for field in fields(RunSettings)}
        settings = RunSettings(**{n: v for n, v in told.items() if n in known})
        numbers = numbers_of(counters, settings) | ({"keys": models} if models > 1 else {})
        self.board.whole(self.name, past_of(counters, settings, numbers, not going, alerts=True))
        if counters.grouping:
            grouping = Grouping(settings, Schema.from_dict(memo["schema"]).features)
            grouping.restore(counters.grouping)
            self.board.show_incidents(self.name, grouping.newest())

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


def _in_use(folder: Path) -> bool:
    """Whether a run holds the folder now; where nobody tells, whether it was written of late."""
    locked = is_locked(folder)
    return time.time() - _written(folder) < LATELY if locked is None else locked


def _written(folder: Path) -> float:
    found = [path.stat().st_mtime for path in folder.glob("state.sqlite*")]
    return max(found, default=0.0)


def watch(folder: str, host: str, port: int) -> None:
    """Show a state folder on a page of its own until Ctrl-C."""
    from onkel.app.live.page import Dashboard

    shown = Folder(Board(), folder)
    shown.look()
    try:
        page = Dashboard(shown.board, host, port)
    except ValueError as error:
        raise UsageProblem(f"--port: {error}") from None
    stop = threading.Event()
    with page, contextlib.suppress(KeyboardInterrupt):
        tell(f"onkel: {folder} is shown at {page.url} until Ctrl-C.")
        shown.follow(stop, lambda words: tell(f"onkel: {words}"))
