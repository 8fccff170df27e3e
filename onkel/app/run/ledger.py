"""The database of a run's state: every row is signed, so that damage is noticed at the opening.

A row of notes or of a checkpoint carries a digest. A checkpoint also tells which notes there were,
how many models, and the sum of their marks: a model's row that was changed, lost or added shows.
The database's version tells whether a first checkpoint was made: one that has lost all of them is
no new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from onkel.app.disk import RUN, claim, private_database
from onkel.app.errors import OutputProblem, StateProblem
from onkel.app.notify import outbox
from onkel.app.notify.messages import Message
from onkel.app.run.store import Place, is_own, model_files

NAME = "state.sqlite"
FORMAT = 2
_NEW, _BEGUN = 2 * FORMAT, 2 * FORMAT + 1
_TABLES = {
    "meta": "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL, digest TEXT NOT NULL) "
    "WITHOUT ROWID",
    "checkpoints": "CREATE TABLE checkpoints (generation INTEGER PRIMARY KEY, data TEXT NOT NULL, "
    "digest TEXT NOT NULL)",
    "models": "CREATE TABLE models (key TEXT NOT NULL, generation INTEGER NOT NULL, start INTEGER "
    "NOT NULL, length INTEGER NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (key, generation)) "
    "WITHOUT ROWID",
}
OUTBOX = "outbox"
"""The note that says that messages are kept, and what their ids begin with."""
_PRUNE = """
DELETE FROM models WHERE key = :key AND generation <
  (SELECT MAX(generation) FROM models WHERE key = :key AND generation < :now)
"""
_ADVICE = "Restore the folder from a copy, or start anew with another --state and --output."


@dataclass
class Checkpoint:
    """What one transaction holds, beside the models."""

    position: dict[str, Any] | None = None
    counters: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    """Bytes of each output file, by its path."""
    ends: dict[str, int] = field(default_factory=dict)
    """A checksum of each output file's last bytes."""
    generation: int = 0
    messages: dict[str, int] = field(default_factory=dict)
    """Messages that were put into the outbox so far, by target."""
    opened: dict[str, list[int]] = field(default_factory=dict)
    """Incidents that a target was told to be open, and of which it must hear the end."""


@dataclass
class Kept:
    """A checkpoint as it was found, and where each key's model lay at it."""

    checkpoint: Checkpoint
    places: dict[str, Place]

    def models(self) -> dict[str, Place]:
        """Return where models lie, and nothing else."""
        return {key: place for key, place in self.places.items() if not is_own(key)}


class Ledger:
    """Notes, checkpoints and the places of models, in one database."""

    def __init__(self, folder: Path, writable: bool) -> None:
        self.path = folder / NAME
        try:
            private_database(self.path, new=writable)
        except FileNotFoundError:
            raise StateProblem(f"{folder} holds no state: there is no {NAME} in it.") from None
        except OSError as error:
            raise StateProblem(f"{error.filename} cannot be used: {error.strerror}.") from None
        self._noted: dict[str, str] = {}
        self._marks: dict[str, int] = {}
        """A number that stands for each key's newest row."""
        self._sum = 0
        self._lately: set[str] = set()
        """Keys whose older models may be due to go."""
        try:
            self._db = _connected(self.path, writable)
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from None
        try:
            self._claim(writable)
            self.found = self._read()
            """What was there at the opening, newest first."""
        except BaseException as error:
            self._db.close()
            if isinstance(error, (sqlite3.Error, UnicodeError)):  # its own words may be garbled
                raise self._damaged(str(error)) from None
            raise

    def _damaged(self, why: str) -> StateProblem:
        return StateProblem(f"{self.path} is damaged, or cannot be used: {why}. {_ADVICE}")

    # -- opening -------------------------------------------------------------------------------

    def _claim(self, writable: bool) -> None:
        (count,) = self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if not count and (not writable or model_files(self.path.parent)):
            found = "there are models, but it holds no tables"
            raise self._damaged(found) if writable else _no_state(self.path.parent)
        wrong = claim(self._db, RUN)
        if wrong:
            raise StateProblem(f"{self.path} cannot be used: {wrong}. Choose another folder.")
        if writable:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
        if not count:
            self._create()
        self._check_whole()

    def _create(self) -> None:
        with _transaction(self._db, "BEGIN IMMEDIATE"):
            for table in _TABLES.values():
                self._db.execute(table)
            self._db.execute(f"PRAGMA user_version = {_NEW}")

    def _check_whole(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version // 2 != FORMAT:
            raise StateProblem(
                f"{self.path} was written by another version of onkel (format {version // 2}; "
                f"known: {FORMAT}), or is damaged. {_ADVICE}"
            )
        (told,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if told != "ok":
            raise self._damaged(str(told))
        tables = dict(self._db.execute("SELECT name, sql FROM sqlite_master"))
        if tables not in (_TABLES, _TABLES | outbox.TABLES):
            known = {*tables, *_TABLES}  # a name that is damaged may be no text
            wanted = _TABLES | outbox.TABLES
            wrong = sorted(str(n) for n in known if tables.get(n) != wanted.get(n))
            raise self._damaged(f"its tables are not those of a run ({', '.join(wrong)})")

    def _read(self) -> list[Kept]:
        """Return all checkpoints; raise if a row of any table is not as it was written."""
        with _transaction(self._db, "BEGIN"):  # one moment, while a run may go on
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            self._noted = self._notes()
            rows = self._db.execute("SELECT * FROM checkpoints ORDER BY generation DESC").fetchall()
            places = self._db.execute("SELECT * FROM models ORDER BY generation").fetchall()
            wrong = self._wrong_with_outbox(rows)
        if wrong:
            raise self._damaged(wrong)
        if bool(rows) != (version == _BEGUN) or (places and not rows):
            raise self._damaged("its checkpoints are gone")
        if any(tuple(map(type, row)) != (str, int, int, int, int) for row in places):
            raise self._damaged("a model's row is not what was written")
        models = [(row[0], Place(*row[1:])) for row in places]
        return [self._verified(row, models) for row in rows]

    def _wrong_with_outbox(self, rows: list[tuple[int, str, str]]) -> str:
        """Return what is wrong with the messages that wait, if something is."""
        query = "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('outbox', 'delivered')"
        (there,) = self._db.execute(query).fetchone()
        if there != (len(outbox.TABLES) if OUTBOX in self._noted else 0):
            return "its outbox is gone, or was not made by a run"
        made = json.loads(rows[0][1]).get("messages", {}) if rows and there else {}
        return outbox.check(self._db, made) if there else ""

    def _notes(self) -> dict[str, str]:
        noted = {}
        for name, value, digest in self._db.execute("SELECT * FROM meta"):
            if digest != _digest(name, value):
                raise self._damaged(f"the note {name!r} is not what was written")
            noted[name] = value
        return noted

    def _verified(self, row: tuple[int, str, str], models: list[tuple[str, Place]]) -> Kept:
        generation, data, digest = row
        if digest != _digest(generation, data):
            raise self._damaged(f"checkpoint {generation} is not what was written")
        found = json.loads(data)
        places = {key: place for key, place in models if place.generation <= generation}
        if not set(found.pop("notes")) <= self._noted.keys():
            raise self._damaged("notes are missing")
        if found.pop("models") != [len(places), sum(_mark(*at) for at in places.items()) % 2**64]:
            raise self._damaged(f"the models of checkpoint {generation} are not those written")
        return Kept(Checkpoint(**found), places)

    def go_on_from(self, kept: Kept) -> None:
        """Forget what is newer than a checkpoint; what comes next follows it."""
        self.found = []  # with many keys it is large
        generation = kept.checkpoint.generation
        self._lately = set(kept.places)
        self._mark(kept.places)
        with self._changing():
            self._db.execute("DELETE FROM checkpoints WHERE generation > ?", (generation,))
            self._db.execute("DELETE FROM models WHERE generation > ?", (generation,))
            if OUTBOX in self._noted:
                outbox.cut(self._db, kept.checkpoint.messages)

    # -- notes ---------------------------------------------------------------------------------

    def meta(self, name: str) -> Any:
        """Return a noted value, or None."""
        return json.loads(self._noted[name]) if name in self._noted else None

    def note(self, name: str, value: Any) -> None:
        """Note a value for good."""
        text = json.dumps(value)
        with self._changing():
            row = (name, text, _digest(name, text))
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", row)
        self._noted[name] = text

    # -- messages ------------------------------------------------------------------------------

    def open_outbox(self) -> str:
        """Keep messages from now on; return what their ids begin with."""
        if OUTBOX not in self._noted:
            text = json.dumps(uuid.uuid4().hex)
            with self._changing():
                outbox.create(self._db)
                row = (OUTBOX, text, _digest(OUTBOX, text))
                self._db.execute("INSERT INTO meta VALUES (?, ?, ?)", row)
            self._noted[OUTBOX] = text
        return str(self.meta(OUTBOX))

    def waiting(self) -> dict[str, int]:
        """Return how many messages wait, by target."""
        return outbox.waiting(self._db) if OUTBOX in self._noted else {}

    # -- committing ----------------------------------------------------------------------------

    def commit(
        self, checkpoint: Checkpoint, changed: dict[str, Place],
        messages: dict[str, list[Message]] | None = None,
    ) -> None:  # fmt: skip
        """Write a checkpoint, the places of models that changed, and messages: all or nothing."""
        generation = checkpoint.generation
        self._mark(changed)
        models = [len(self._marks), self._sum]
        data = json.dumps({**vars(checkpoint), "notes": sorted(self._noted), "models": models})
        with self._changing():
            row = (generation, data, _digest(generation, data))
            self._db.execute("INSERT INTO checkpoints VALUES (?, ?, ?)", row)
            rows = [(k, p.generation, p.offset, p.length, p.checksum) for k, p in changed.items()]
            self._db.executemany("INSERT INTO models VALUES (?, ?, ?, ?, ?)", rows)
            self._db.execute("DELETE FROM checkpoints WHERE generation < ?", (generation - 1,))
            # Of older models only what the previous generation still uses is kept.
            keys = self._lately | changed.keys()
            self._db.executemany(_PRUNE, [{"key": k, "now": generation} for k in keys])
            for target, new in (messages or {}).items():
                outbox.put(self._db, target, checkpoint.messages[target] - len(new), new)
            if generation == 1:
                self._db.execute(f"PRAGMA user_version = {_BEGUN}")
        self._lately = set(changed)

    def _mark(self, places: dict[str, Place]) -> None:
        for key, place in places.items():
            mark = _mark(key, place)
            self._sum = (self._sum + mark - self._marks.get(key, 0)) % 2**64
            self._marks[key] = mark

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the database: all of it, or nothing and a problem that names it."""
        try:
            with _transaction(self._db, "BEGIN IMMEDIATE"):
                yield
        except sqlite3.OperationalError as error:
            raise OutputProblem(f"{self.path} cannot be written: {error}.") from None
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from None

    def generations(self) -> set[int]:
        """Return the generations whose models are in use."""
        return {g for (g,) in self._db.execute("SELECT DISTINCT generation FROM models")}

    def close(self) -> None:
        """Close the database."""
        self._db.close()


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection, begin: str) -> Iterator[None]:
    """All of it, or nothing."""
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk may have ended it
            db.execute("ROLLBACK")
        raise


def _connected(path: Path, writable: bool) -> sqlite3.Connection:
    mode = "rwc" if writable else "rw"
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True, isolation_level=None,
        check_same_thread=False,
    )  # fmt: skip


def _no_state(folder: Path) -> StateProblem:
    return StateProblem(f"{folder} holds no state of a run.")


def _digest(name: int | str, text: str) -> str:
    return hashlib.blake2b(f"{name}\n{text}".encode(), digest_size=16).hexdigest()


def _mark(key: str, place: Place) -> int:
    """Return a number that stands for a model's row."""
    parts = (place.generation, place.offset, place.length, place.checksum, key)
    data = "\n".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
