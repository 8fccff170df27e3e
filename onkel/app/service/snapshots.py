"""The folder of a service: the log, model files, and one database that ties them together.

``log/<position>.log``, ``models/<id>-<position>.model`` (of a detector also ``.incidents``),
``state.sqlite``. A snapshot is written
file by file; one transaction then makes it the state; then older files go. A model that could not
be saved, or is set aside, keeps the file that it has, and its own part of the log goes into
``models/<id>-<position>.log``: the log of all others need not wait for it. What the log no longer
needs goes, or to ``archive/`` if somebody has asked for that.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from onkel.app import disk
from onkel.app.service.archive import Archive, Keep
from onkel.app.service.keys import Remembered
from onkel.app.service.log import Log, Record, frame_again, records_of, remove
from onkel.app.service.slots import Spec

FORMAT = 2
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS models (
  id INTEGER PRIMARY KEY, spec BLOB NOT NULL, position INTEGER NOT NULL, file TEXT NOT NULL,
  tails TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS keys (
  key TEXT PRIMARY KEY, position INTEGER NOT NULL, digest BLOB NOT NULL, status INTEGER NOT NULL,
  body BLOB NOT NULL, lines INTEGER NOT NULL, name TEXT NOT NULL);
"""
_OWN = re.compile(r"\d+-\d+\.(model|incidents|log)(\.new)?")
"""Names of files that are written to `models`; whatever else lies there is not touched."""


@dataclass(frozen=True)
class Saved:
    """One model of a snapshot: its file, and what of the log comes behind that."""

    spec: Spec
    position: int
    """Of the last record that is in here."""
    file: str
    """In `models`; empty for a model that was never saved."""
    tails: tuple[str, ...] = ()
    """In `models`: its records behind the file; empty where the file has all."""
    incidents: str = ""
    """In `models`: a detector's incidents, as they were at the file."""

    @property
    def own(self) -> tuple[str, str]:
        """Its file, and that of its incidents; empty where there is none."""
        return self.file, self.incidents

    @property
    def names(self) -> list[str]:
        """All its files."""
        return [name for name in (*self.own, *self.tails) if name]

    def __str__(self) -> str:
        return ", ".join(f"models/{name}" for name in self.names)


class Folder:
    """What is on the disk; one process at a time may hold it."""

    def __init__(self, folder: Path, keep: Keep | None = None) -> None:
        self.folder = folder
        disk.private_folder(folder)
        self._lock = _locked(folder)
        try:
            for name in ("log", "models", *(["archive"] if keep else [])):
                _private_inside(folder / name)
            self.log = Log(folder / "log")
            self.archive = Archive(folder / "archive", self.log, keep)
            self._db = self._opened(folder / "state.sqlite")
        except BaseException:
            os.close(self._lock)
            raise

    def _opened(self, path: Path) -> sqlite3.Connection:
        disk.private_database(path)
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            wrong = disk.claim(db, disk.SERVICE)
            if wrong:
                raise RuntimeError(f"{path.parent} cannot be used: {wrong}. Choose another folder.")
            self._prepare(db)
        except sqlite3.DatabaseError as error:
            db.close()
            raise RuntimeError(
                f"{path} cannot be read ({error}). Restore it from a copy."
            ) from error
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        (tables,) = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        db.executescript(_TABLES)
        if not tables:
            db.execute("INSERT INTO meta VALUES ('format', ?)", (FORMAT,))
        (found,) = db.execute("SELECT value FROM meta WHERE name = 'format'").fetchone() or (0,)
        if found != FORMAT:
            raise RuntimeError(
                f"{self.folder} was written by another onkel (format {found}, known: {FORMAT})."
            )
        self._check(db)

    def _check(self, db: sqlite3.Connection) -> None:
        """Refuse a database in which a number is not as it was written."""
        noted = dict(db.execute("SELECT name, value FROM meta"))
        wanted = noted.pop("check", None)
        rows = db.execute("SELECT * FROM models ORDER BY id").fetchall()
        if wanted is not None and wanted != _checksum(noted, rows):
            raise RuntimeError(
                f"{self.folder / 'state.sqlite'} is damaged: its checksum is wrong. Restore the "
                "state from a copy."
            )

    # -- reading -------------------------------------------------------------------------------

    def meta(self, name: str, default: int) -> int:
        """Return a number that the last snapshot has noted."""
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return default if row is None else int(row[0])

    def models(self) -> list[Saved]:
        """Return the models of the last snapshot."""
        query = "SELECT spec, position, file, tails FROM models ORDER BY id"
        rows = self._db.execute(query).fetchall()
        return [
            Saved(msgspec.json.decode(spec, type=Spec), position, file, tuple(tails.split()), told)
            for spec, position, own, tails in rows
            for file, _, told in [own.partition(" ")]
        ]

    def model_bytes(self, file: str) -> bytes:
        """Return what a model's file holds."""
        return disk.read_private(self.folder / "models" / file)

    def size_of(self, file: str) -> int:
        """Return the bytes of a model's file."""
        return (self.folder / "models" / file).stat().st_size

    def tail(self, saved: Saved | None) -> list[Record]:
        """Return the records that a model has behind its file."""
        tails = saved.tails if saved else ()
        return [record for name in tails for record in records_of(self.model_bytes(name))]

    def answers(self) -> Iterator[Remembered]:
        """Yield remembered answers, oldest first."""
        query = (
            "SELECT key, position, digest, status, body, lines, name FROM keys ORDER BY position"
        )
        for key, position, digest, status, body, lines, name in self._db.execute(query):
            yield Remembered(key, position, digest, status, body, bool(lines), name)

    # -- writing -------------------------------------------------------------------------------

    def write_model(self, id: int, position: int, data: bytes) -> str:
        """Write a model's file, durably; it counts when :meth:`commit` says so."""
        path = self.folder / "models" / f"{id}-{position}.model"
        disk.write_private(path, data)
        return path.name

    def write_incidents(self, id: int, position: int, data: bytes) -> str:
        """Write a model's incidents beside its file; the same holds."""
        path = self.folder / "models" / f"{id}-{position}.incidents"
        disk.write_private(path, data)
        return path.name

    def write_tail(self, id: int, position: int, records: list[Record]) -> str:
        """Write records of a model that come behind its file, damaged or not."""
        path = self.folder / "models" / f"{id}-{position}.log"
        disk.write_private(path, b"".join(map(frame_again, records)))
        return path.name

    def commit(
        self, noted: Mapping[str, int], models: list[Saved], new: list[Remembered], old: list[str]
    ) -> None:
        """Make a snapshot the state: models, answers, and where the log goes on, all at once."""
        rows = [
            (
                m.spec.id,
                msgspec.json.encode(m.spec),
                m.position,
                " ".join(filter(None, m.own)),
                " ".join(m.tails),
            )
            for m in sorted(models, key=lambda m: m.spec.id)
        ]
        noted = {"format": FORMAT, **noted}
        noted["check"] = _checksum(noted, rows)
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.execute("DELETE FROM meta")
            self._db.executemany("INSERT INTO meta VALUES (?, ?)", [*noted.items()])
            self._db.execute("DELETE FROM models")
            self._db.executemany("INSERT INTO models VALUES (?, ?, ?, ?, ?)", rows)
            self._db.executemany("DELETE FROM keys WHERE key = ?", [(key,) for key in old])
            self._db.executemany(
                "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(k.key, k.position, k.digest, k.status, k.body, k.lines, k.name) for k in new],
            )
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    def clean(self) -> None:
        """Remove what no snapshot and no replay needs any more."""
        used = {name for saved in self.models() for name in saved.names}
        for path in (self.folder / "models").iterdir():
            if _OWN.fullmatch(path.name) and path.name not in used and not path.is_dir():
                remove(path)
        self.archive.take(self.meta("start", 1))

    def close(self) -> None:
        """Give the folder back."""
        self.log.close()
        self._db.close()
        os.close(self._lock)


def _checksum(noted: Mapping[str, int], rows: list[Any]) -> int:
    notes = sorted(noted.items(), key=lambda note: str(note[0]))  # a damaged name may be no text
    return zlib.crc32(msgspec.msgpack.encode([notes, [list(row) for row in rows]]))


def _private_inside(folder: Path) -> None:
    """Make a folder of the state; a link in its place is not followed, whoever made it."""
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "is a symbolic link, which is not followed", str(folder))
    disk.private_folder(folder)


def _locked(folder: Path) -> int:
    try:
        return disk.lock_folder(folder)
    except disk.InUse as error:
        raise disk.InUse(
            f"{error}: one process per state. Stop it, or choose another folder."
        ) from None
