"""Messages that wait in a database, until they are delivered; written with what they came from.

Two tables in a database that its owner opens. A row holds one message to one target, numbered from
1; another table says up to which number a target's messages are done. So all rows between that and
the number of the last that was written must be there: one that was lost or changed shows.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from onkel.app.notify.messages import Message

TABLES = {
    "outbox": "CREATE TABLE outbox (target TEXT NOT NULL, number INTEGER NOT NULL, message TEXT "
    "NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (target, number)) WITHOUT ROWID",
    "delivered": "CREATE TABLE delivered (target TEXT PRIMARY KEY, number INTEGER NOT NULL, digest "
    "TEXT NOT NULL) WITHOUT ROWID",
}


def create(db: sqlite3.Connection) -> None:
    """Make the tables; the caller's transaction."""
    for table in TABLES.values():
        db.execute(table)


def put(db: sqlite3.Connection, target: str, last: int, messages: list[Message]) -> None:
    """Write messages behind number `last`; the caller's transaction."""
    numbered = [(last + 1 + i, message.to_text()) for i, message in enumerate(messages)]
    rows = [(target, n, text, _digest(target, n, text)) for n, text in numbered]
    db.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?)", rows)


def cut(db: sqlite3.Connection, made: Mapping[str, int]) -> None:
    """Forget what lies behind these numbers: it will be made again, and delivered again.

    The caller's transaction.
    """
    for target, done in _delivered(db).items():
        if done > made.get(target, 0):
            _set_done(db, target, made.get(target, 0))
    for (target,) in db.execute("SELECT DISTINCT target FROM outbox").fetchall():
        last = made.get(target, 0)
        db.execute("DELETE FROM outbox WHERE target = ? AND number > ?", (target, last))


def check(db: sqlite3.Connection, made: Mapping[str, int]) -> str:
    """Return what is wrong with the tables, if something is; `made` says what was written."""
    try:
        done = _delivered(db)
    except ValueError as error:
        return str(error)
    numbers: dict[str, list[int]] = {target: [] for target in {*made, *done}}
    for target, number, text, digest in db.execute("SELECT * FROM outbox ORDER BY target, number"):
        if digest != _digest(target, number, text) or target not in numbers:
            return f"message {number} of the outbox is not what was written"
        numbers[target].append(number)
    for target, found in numbers.items():
        if found != [*range(done.get(target, 0) + 1, made.get(target, 0) + 1)]:
            return "messages of the outbox are missing"
    return ""


def waiting(db: sqlite3.Connection) -> dict[str, int]:
    """Return how many messages wait for each target."""
    return dict(db.execute("SELECT target, COUNT(*) FROM outbox GROUP BY target"))


def _delivered(db: sqlite3.Connection) -> dict[str, int]:
    found = {}
    for target, number, digest in db.execute("SELECT * FROM delivered"):
        if digest != _digest(target, number, "delivered"):
            raise ValueError("what is noted as delivered is not what was written")
        found[target] = number
    return found


def _set_done(db: sqlite3.Connection, target: str, number: int) -> None:
    row = (target, number, _digest(target, number, "delivered"))
    db.execute("INSERT OR REPLACE INTO delivered VALUES (?, ?, ?)", row)


def _digest(target: str, number: int, text: str) -> str:
    data = f"{target}\n{number}\n{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class StoredQueue:
    """The messages to one target in a database, over a connection of its own.

    It is never in the midst of a transaction while a message is on its way. What was delivered is
    not synced: a power cut may bring a message twice, and never loses one.

    Parameters
    ----------
    path : path
        The database; it has the tables.
    target : str
    """

    def __init__(self, path: Path, target: str) -> None:
        self.target = target
        name = f"file:{quote(str(path.absolute()))}?mode=rw"
        self._db = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._guard = threading.Lock()
        self._done, self._noted = 0, 0
        """Up to which number messages are done, and up to which the database says so."""

    def first(self) -> tuple[int, Message] | None:
        """Return the first message that waits and its number; None if there is none."""
        query = (
            "SELECT number, message FROM outbox WHERE target = ? AND number > ? ORDER BY number "
            "LIMIT 1"
        )
        with self._guard:
            self._note()
            row = self._db.execute(query, (self.target, self._done)).fetchone()
        return None if row is None else (row[0], Message.from_text(row[1]))

    def done(self, number: int) -> None:
        """Forget messages up to a number; if the disk does not take that, later."""
        with self._guard:
            self._done = max(self._done, number)
            self._note()

    def _note(self) -> None:
        if self._noted == self._done:
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            _set_done(self._db, self.target, self._done)
            rows = (self.target, self._done)
            self._db.execute("DELETE FROM outbox WHERE target = ? AND number <= ?", rows)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._noted = self._done

    def waiting(self) -> int:
        """Return how many wait."""
        # All between the first and the last are there; to count them would be to read them.
        where = "FROM outbox WHERE target = :target AND number > :done"
        query = f"SELECT (SELECT MIN(number) {where}), (SELECT MAX(number) {where})"
        with self._guard:
            own = {"target": self.target, "done": self._done}
            low, high = self._db.execute(query, own).fetchone()
        return 0 if low is None else int(high - low + 1)

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            self._db.close()
