"""From a running command to the live page."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import numpy as np

from onkel.app.errors import RunError, UsageProblem
from onkel.app.live.board import ALERTS, PERIOD, Block, Board
from onkel.app.live.past import TASKS, alert_of, numbers_of, past_of
from onkel.app.run import answering
from onkel.app.run.keys import view_of
from onkel.app.run.pending import estimator_of
from onkel.app.run.series import parted
from onkel.app.run.session import Session
from onkel.judge import Marks, marks_of_labels, marks_of_numbers

COUNTED = 20_000
"""So many keys are counted at every block, more now and then only."""


class Live:
    """Publishes what came of each block to a board; a watcher of a session.

    Parameters
    ----------
    board : Board
        What the page shows.
    name : str
        What the stream is called there.
    url : str
        Where the page is.
    """

    def __init__(self, board: Board, name: str, url: str = "") -> None:
        self.board, self.name, self.url = board, name, url
        self._seen: Any = None
        self._next = 0.0
        self._session: Session | None = None
        self._heard = 0
        """Answers that were shown."""
        self._over = False

    def __call__(self, session: Session) -> None:
        """Publish the latest block, once, and what was answered since."""
        self._session = session
        self._answers(session)
        if session.last is None or session.last is self._seen:
            return
        self._seen = session.last
        if self.board.keys(self.name) is None and (view := view_of(session)) is not None:
            self.board.show_keys(self.name, view)
        block, columns = session.last
        task = TASKS[session.settings.task]
        drawn = marks(task, columns) if columns else Marks()
        X, names = block.X, session.source.schema.features
        numbers = self._numbers(session)
        self.board.publish(
            self.name,
            Block(
                task, len(block.rows), drawn.value, drawn.limit, drawn.mark, X, names, numbers,
                block.time,
            ),
        )  # fmt: skip
        if task == "novelty" and columns:
            self._alerts(block, columns, session.settings.hears_answers)
        if session.grouping is not None:
            self.board.show_incidents(self.name, session.grouping.known())

    def take(self, some: list[tuple[str, str]]) -> None:
        """Hand answers to the run; from any thread. Raises a Problem that says why not."""
        from onkel.app.http.problems import Problem

        hearing = None if self._session is None else self._session.hearing
        if hearing is None:
            words = "Alerts of this run cannot be answered, or none was raised yet."
            raise Problem(422, "no_feedback", words)
        for id, answer in some:
            wrong = answering.wrong_with(id, answer, hearing.answered.keyed)
            if wrong:
                field = "answer" if wrong.startswith("an answer") else "id"
                raise Problem(422, "bad_field", f"{wrong[:1].upper()}{wrong[1:]}.", field)
        if self._over and hearing.inbox.path is None:
            words = "The run is over, and has no --state in which answers could wait."
            raise Problem(409, "run_is_over", words)
        try:
            hearing.put(some)
        except RunError as error:
            raise Problem(503, "storage", str(error)) from None
        for id, answer in some if self._over else ():
            self.board.answer(self.name, id, answer, waits=NEXT)

    def _answers(self, session: Session) -> None:
        """Show what the run has taken in, or refused."""
        if session.hearing is None or self._heard == len(session.hearing.decided):
            return
        decided = session.hearing.decided[self._heard :]
        self._heard += len(decided)
        for said, why in decided:
            self.board.answer(self.name, said.id, said.answer, refused=why)
        if session.last is not None:
            task, numbers = TASKS[session.settings.task], self._numbers(session)
            self.board.publish(self.name, Block(task, 0, numbers=numbers))

    def _numbers(self, session: Session) -> dict[str, Any]:
        """Return the numbers of the page; those that cost something now and then only."""
        found = numbers_of(session.counters, session.settings)
        now, model = time.monotonic(), session.models.newest()
        if session.source.schema.at("key") is not None and now >= self._next:
            found["keys"] = count = len(session.models)
            self._next = now + (10 * PERIOD if count > COUNTED else 0.0)
        elif now >= self._next and model is not None and model.__sklearn_is_fitted__():
            self._next = now + PERIOD
            found["terms"] = int(parted(estimator_of(model))[0].n_terms_)
            found["warmup"] = getattr(parted(estimator_of(model))[0], "warmup_", None)
            found["leads"] = session.in_words()
        return found

    def _alerts(self, block: Any, columns: dict[str, Any], answerable: bool) -> None:
        """Show the alerts of a block."""
        at = np.flatnonzero(np.asarray(columns["alert"], bool))[-ALERTS:].tolist()
        given = {"time": block.stamps, "key": block.keys, "row": block.rows, **columns}
        names = [n for n in _TOLD if given.get(n) is not None]
        lines = ({n: _plain(given[n][i]) for n in names} for i in at)
        self.board.tell(self.name, [alert_of(line, answerable) for line in lines])

    def finish(self, session: Session) -> None:
        """Show the whole run, now that it is over."""
        self(session)
        self._next, self._over = 0.0, True
        numbers = self._numbers(session)
        self.board.whole(self.name, past_of(session.counters, session.settings, numbers, True))


NEXT, RUNNING = "the next run takes it in", "the run takes it in soon"
"""Of an answer that waits: where no run is going on, and where one is."""
_TOLD = ("row", "time", "key", "score", "threshold", "alert_id", "why", "incident")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def marks(task: str, columns: dict[str, Any]) -> Marks:
    """Return what is drawn of the rows of a block that have a target."""
    if task == "novelty":
        score, limit = (np.asarray(columns[n], float) for n in ("score", "threshold"))
        return Marks(score, limit, np.asarray(columns["alert"], bool))
    at = [i for i, y in enumerate(columns["target"]) if y is not None]
    found, target = ([columns[n][i] for i in at] for n in ("prediction", "target"))
    if task == "classification":
        return marks_of_labels(found, target)
    return marks_of_numbers([v or 0.0 for v in found], target, _halves(columns, at))


def _halves(columns: dict[str, Any], at: list[int]) -> list[float] | None:
    """Return half the widths of the intervals; 0 where nothing was known."""
    if "low" not in columns:
        return None
    low, high = ([columns[n][i] for i in at] for n in ("low", "high"))
    return [0.0 if lo is None else (hi - lo) / 2 for lo, hi in zip(low, high, strict=True)]


def address_of(text: str, option: str = "--dashboard") -> tuple[str, int]:
    """Return host and port of ``PORT`` or ``HOST:PORT``.

    Examples
    --------
    >>> address_of("8080"), address_of("localhost:0")
    (('127.0.0.1', 8080), ('localhost', 0))
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageProblem(f"{option} is PORT, or HOST:PORT; got {text!r}.")
    return host or "127.0.0.1", int(port)


def own_address(text: str, option: str) -> tuple[str, int]:
    """Return host and port of this machine, where nobody else can look."""
    try:
        from onkel.app.http.access import is_loopback
    except ImportError as error:
        raise UsageProblem(f"{option} needs {error.name}: pip install 'onkel[serve]'.") from None
    host, port = address_of(text, option)
    if not is_loopback(host):
        raise UsageProblem(
            f"{option} is for this machine alone, 127.0.0.1 or localhost; got {host}. Others "
            "can look through a tunnel (ssh -L)."
        )
    return host, port


@contextlib.contextmanager
def dashboard(
    task: str, name: str, address: str, metrics: Callable[[], str] | None = None
) -> Iterator[Live]:
    """Open a page; what it yields makes a session show itself there."""
    host, port = own_address(address, "--dashboard")
    from onkel.app.live.page import Dashboard

    board = Board()
    shown = PurePath(name).name if name != "-" else "stdin"
    board.begin(shown, TASKS[task])
    live = Live(board, shown)
    try:
        page = Dashboard(board, host, port, metrics, live.take)
    except ValueError as error:
        raise UsageProblem(f"--dashboard: {error}") from None
    with page:
        print(f"onkel: the live page is at {page.url}", file=sys.stderr, flush=True)
        live.url = page.url
        yield live
