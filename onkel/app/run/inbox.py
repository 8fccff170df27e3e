"""Answers to alerts on their way to a run: anybody may put some in, the run takes them out.

They lie in a database of their own beside the state's, since that one is the run's alone. An
answer is taken in between two rows, and before it has any effect the database holds which: a run
that is killed, and goes on from a checkpoint before that row, takes it in at the same place. What
was decided is part of the checkpoint, so that it happens once. All of them stay: a replay takes
them in again at the same rows.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from onkel.app.disk import ANSWERS, claim, private_database, sync_folder
from onkel.app.errors import OutputProblem, StateProblem

NAME = "answers.sqlite"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS answers (number INTEGER PRIMARY KEY AUTOINCREMENT, "
    "id TEXT NOT NULL, answer TEXT NOT NULL, came TEXT NOT NULL, row INTEGER)"
)
_LAST = "SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'answers'"
WAIT = 10.0
"""Seconds for another process to be done with the database."""


@dataclass(frozen=True)
class Said:
    """One answer: to which alert, what, when it came; and before which row it is taken in."""

    number: int
    id: str
    answer: str
    came: str
    row: int | None = None


class Inbox:
    """The answers of one state; of a run without one they are in memory.

    Examples
    --------
    >>> inbox = Inbox(None)
    >>> inbox.put([("7", "usual"), ("9", "fault")])
    [1, 2]
    >>> [said.id for said in inbox.after(1)]
    ['9']
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / NAME
        self._db: sqlite3.Connection | None = None
        self._closed = False
        self._guard = threading.RLock()

    def put(self, answers: Sequence[tuple[str, str]], least: int = 0) -> list[int]:
        """Take answers, all or none of them; return their numbers, which are above `least`."""
        came = datetime.now(UTC).isoformat(timespec="seconds")
        with self._changing(new=True) as db:
            (last,) = db.execute(_LAST).fetchone()
            first = max(last, least) + 1
            rows = [(first + i, id, answer, came) for i, (id, answer) in enumerate(answers)]
            sql = "INSERT INTO answers (number, id, answer, came) VALUES (?, ?, ?, ?)"
            db.executemany(sql, rows)
        return [row[0] for row in rows]

    def after(self, number: int) -> list[Said]:
        """Return the answers above a number, in their order."""
        if not self._is_there():
            return []
        with self._problems(), self._guard:
            sql = "SELECT number, id, answer, came, row FROM answers WHERE number > ?"
            found = self._opened().execute(f"{sql} ORDER BY number", (number,)).fetchall()
        return [Said(*row) for row in found]

    def pin(self, numbers: Sequence[int], row: int) -> None:
        """Note before which row answers are taken in; on the disk when this returns."""
        with self._changing() as db:
            sql = "UPDATE answers SET row = ? WHERE number = ?"
            db.executemany(sql, [(row, number) for number in numbers])

    def close(self) -> None:
        """Close the database."""
        with self._guard:
            self._closed = True
            if self._db is not None:
                self._db.close()
                self._db = None

    # -- the database --------------------------------------------------------------------------

    def _is_there(self) -> bool:
        return self._db is not None or (self.path is not None and self.path.exists())

    @contextlib.contextmanager
    def _problems(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OutputProblem(f"{self.path} cannot be used: {error}.") from None
        except sqlite3.Error as error:
            raise StateProblem(
                f"{self.path} is damaged: {error}. Move it away: answers that were not taken in "
                "yet are lost with it, and nothing else."
            ) from None
        except OSError as error:
            raise OutputProblem(f"{self.path} cannot be used: {error.strerror}.") from None

    @contextlib.contextmanager
    def _changing(self, new: bool = False) -> Iterator[sqlite3.Connection]:
        """Change the database: all of it, or nothing."""
        with self._problems(), self._guard:
            db = self._opened(new)
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _opened(self, new: bool = False) -> sqlite3.Connection:
        if self._db is not None:
            return self._db
        if self.path is None and self._closed:
            raise OutputProblem(
                "The run has ended, and has no --state in which answers could wait."
            )
        if self.path is None:
            db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        else:
            db = _connected(self.path, new)
        try:
            wrong = claim(db, ANSWERS)
            if wrong:
                raise StateProblem(f"{self.path} cannot be used: {wrong}. Move it away.")
            db.execute(_TABLE)
        except BaseException:
            db.close()
            raise
        self._db = db
        return db


def _connected(path: Path, new: bool) -> sqlite3.Connection:
    private_database(path, new=new)
    name = f"file:{quote(str(path.absolute()))}?mode=rwc"
    db = sqlite3.connect(
        name, uri=True, isolation_level=None, check_same_thread=False, timeout=WAIT
    )
    try:
        (told,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if told != "ok":
            raise sqlite3.DatabaseError(str(told))
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
    except BaseException:
        db.close()
        raise
    sync_folder(path.parent)
    return db
