"""The folder of a service: a lock, the log, model files, and one database that ties them together.

``lock``, ``log/<position>.log``, ``models/<id>-<position>.model``, ``state.sqlite``. A snapshot
is written file by file; one transaction then makes it the state; then older files go.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from onkel.app.disk import SERVICE, claim, sync_folder
from onkel.app.service.keys import Remembered
from onkel.app.service.log import Log
from onkel.app.service.slots import Spec

FORMAT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS models (
  id INTEGER PRIMARY KEY, spec BLOB NOT NULL, position INTEGER NOT NULL, file TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS keys (
  key TEXT PRIMARY KEY, position INTEGER NOT NULL, digest BLOB NOT NULL, status INTEGER NOT NULL,
  body BLOB NOT NULL, lines INTEGER NOT NULL);
"""


class InUse(RuntimeError):
    """Another process works on this state."""


@dataclass(frozen=True)
class Saved:
    """One model of a snapshot."""

    spec: Spec
    position: int
    file: str


class Folder:
    """What is on the disk; one process at a time may hold it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(folder / "lock")
        for name in ("log", "models"):
            (folder / name).mkdir(exist_ok=True)
        self.log = Log(folder / "log")
        self._db = sqlite3.connect(
            folder / "state.sqlite", isolation_level=None, check_same_thread=False
        )
        wrong = claim(self._db, SERVICE)
        if wrong:
            self.close()
            raise RuntimeError(f"{folder} cannot be used: {wrong}. Choose another folder.")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(_TABLES)
        self._check_format()

    def _check_format(self) -> None:
        found = self.meta("format", FORMAT)
        if found > FORMAT:
            raise RuntimeError(
                f"{self.folder} was written by a newer onkel (format {found}, known: {FORMAT})."
            )
        self._db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (FORMAT,))

    # -- reading -------------------------------------------------------------------------------

    def meta(self, name: str, default: int) -> int:
        """Return a number that the last snapshot has noted."""
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return default if row is None else int(row[0])

    def models(self) -> list[Saved]:
        """Return the models of the last snapshot."""
        rows = self._db.execute("SELECT spec, position, file FROM models ORDER BY id").fetchall()
        return [Saved(msgspec.json.decode(s, type=Spec), p, f) for s, p, f in rows]

    def model_bytes(self, saved: Saved) -> bytes:
        """Return a model's file."""
        return (self.folder / "models" / saved.file).read_bytes()

    def answers(self) -> Iterator[Remembered]:
        """Yield remembered answers, oldest first."""
        query = "SELECT key, position, digest, status, body, lines FROM keys ORDER BY position"
        for key, position, digest, status, body, lines in self._db.execute(query):
            yield Remembered(key, position, digest, status, body, bool(lines))

    # -- writing -------------------------------------------------------------------------------

    def write_model(self, id: int, position: int, data: bytes) -> str:
        """Write a model's file, durably; it counts when :meth:`commit` says so."""
        folder = self.folder / "models"
        path = folder / f"{id}-{position}.model"
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)
        return path.name

    def commit(
        self, noted: Mapping[str, int], models: list[Saved], new: list[Remembered], old: list[str]
    ) -> None:
        """Make a snapshot the state: models, answers, and where the log goes on, all at once."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", [*noted.items()])
            self._db.execute("DELETE FROM models")
            self._db.executemany(
                "INSERT INTO models VALUES (?, ?, ?, ?)",
                [(m.spec.id, msgspec.json.encode(m.spec), m.position, m.file) for m in models],
            )
            self._db.executemany("DELETE FROM keys WHERE key = ?", [(key,) for key in old])
            self._db.executemany(
                "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?)",
                [(k.key, k.position, k.digest, k.status, k.body, k.lines) for k in new],
            )
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    def clean(self) -> None:
        """Remove what no snapshot and no replay needs any more."""
        used = {saved.file for saved in self.models()}
        for path in (self.folder / "models").iterdir():
            if path.name not in used:
                path.unlink()
        self.log.drop(self.meta("start", 1))

    def close(self) -> None:
        """Give the folder back."""
        self.log.close()
        self._db.close()
        os.close(self._lock)


def _locked(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise InUse(
            f"{path.parent} is in use by another onkel: one process per state. Stop it, or choose "
            "another folder."
        ) from error
    return handle
