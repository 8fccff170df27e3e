"""Durable state: models, the source's position, counters and outputs as one atomic checkpoint.

A checkpoint writes the models that changed to a new file, then commits one SQLite transaction
(WAL, synchronous=FULL) with everything else; then files that nothing refers to go. Two generations
are kept: should the disk have lost the newest one's file, the one before it takes over, and what it
had not seen is done again.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onkel.app.disk import RUN, claim
from onkel.app.errors import OutputProblem, StateProblem
from onkel.app.run import faults
from onkel.app.run.outputs import check_length
from onkel.app.run.store import Place, Store, read
from onkel.files import loads

FORMAT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoints (generation INTEGER PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS models (
  key TEXT NOT NULL, generation INTEGER NOT NULL, file TEXT NOT NULL,
  start INTEGER NOT NULL, length INTEGER NOT NULL, PRIMARY KEY (key, generation));
"""

_PRUNE = """
DELETE FROM models WHERE key = ?1 AND generation <
  (SELECT MAX(generation) FROM models WHERE key = ?1 AND generation < ?2)
"""


@dataclass
class Checkpoint:
    """What one transaction holds, beside the models."""

    position: dict[str, Any] | None = None
    counters: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    """Bytes of each output file, by its path."""
    generation: int = 0


class State:
    """A folder that holds the state of one run; one process at a time.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "state"
    >>> state = State(folder)
    >>> state.commit(Checkpoint({"row": 5}, {"rows": 5}))
    >>> state.close()
    >>> State(folder).last.position
    {'row': 5}
    """

    def __init__(self, folder: str | Path, writable: bool = True) -> None:
        self.folder = Path(folder)
        self._lock = -1
        if writable:
            self._prepare()
        self._db = self._connect(writable)
        self.last = Checkpoint()
        self.store = Store(self.folder, 0, {})
        self._lately: set[str] = set()
        """Keys whose older models may be due to go."""
        if writable:
            self._choose()

    def _prepare(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StateProblem(f"{self.folder}: cannot be used: {error.strerror}.") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateProblem(
                f"{self.folder} is in use by another process. Wait for it, stop it, or give this "
                "run a --state of its own."
            ) from None

    def _connect(self, writable: bool) -> sqlite3.Connection:
        path = self.folder / "state.sqlite"
        if not writable and not path.exists():
            raise StateProblem(f"{self.folder} holds no state: there is no state.sqlite in it.")
        mode = "rwc" if writable else "rw"
        try:
            db = sqlite3.connect(
                f"file:{_quoted(path)}?mode={mode}", uri=True, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip
            wrong = claim(db, RUN)
            if wrong:
                raise StateProblem(f"{self.folder} cannot be used: {wrong}. Choose another folder.")
            if writable:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("PRAGMA synchronous=FULL")
                db.executescript(_TABLES)
            db.execute("SELECT COUNT(*) FROM checkpoints")
        except sqlite3.Error as error:
            raise StateProblem(f"{path} cannot be used: {error}.") from None
        return db

    # -- what was committed --------------------------------------------------------------------

    def checkpoints(self) -> list[Checkpoint]:
        """Return what was committed, newest first."""
        rows = self._db.execute("SELECT data FROM checkpoints ORDER BY generation DESC").fetchall()
        return [Checkpoint(**json.loads(data)) for (data,) in rows]

    def places(self, generation: int) -> dict[str, Place]:
        """Return where each key's model lay at a generation."""
        rows = self._db.execute(
            "SELECT key, file, start, length FROM models WHERE generation <= ? ORDER BY generation",
            (generation,),
        )
        return {key: Place(file, start, length) for key, file, start, length in rows}

    def _choose(self) -> None:
        """Take the newest generation that is whole; raise if there are some, but none is."""
        found = self.checkpoints()
        problems = []
        for checkpoint in found:
            places = self.places(checkpoint.generation)
            try:
                self._check(checkpoint, places)
            except StateProblem as problem:
                problems.append(str(problem))
                continue
            self.last = checkpoint
            self.store = Store(self.folder, checkpoint.generation, places)
            self._lately = set(places)
            self._forget_after(checkpoint.generation)
            return
        if found:
            raise StateProblem(" ".join(dict.fromkeys(problems)))

    def _check(self, checkpoint: Checkpoint, places: dict[str, Place]) -> None:
        for name, size in checkpoint.outputs.items():
            check_length(self.folder / name, size)  # an absolute name stays what it is
        for place in places.values():
            path = self.folder / place.file
            if not path.exists() or path.stat().st_size < place.offset + place.length:
                raise StateProblem(f"{path} is damaged or missing.")
        if len(places) == 1:
            model_of(self.folder, *places.values())

    def _forget_after(self, generation: int) -> None:
        with _transaction(self._db):
            self._db.execute("DELETE FROM checkpoints WHERE generation > ?", (generation,))
            self._db.execute("DELETE FROM models WHERE generation > ?", (generation,))
        self._clean()

    # -- the settings --------------------------------------------------------------------------

    def meta(self, name: str) -> Any:
        """Return a noted value, or None."""
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else None

    def note(self, name: str, value: Any) -> None:
        """Note a value for good."""
        with _transaction(self._db):
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))

    def agree(self, settings: dict[str, Any]) -> None:
        """Note the settings of a new state; raise if they are not those of an old one.

        A run that died (or was refused) before its first checkpoint binds nobody.
        """
        known = self.meta("settings")
        if known is None or self.last.generation == 0:
            self.note("format", FORMAT)
            self.note("settings", settings)
            return
        given = json.loads(json.dumps(settings))
        names = [n for n in {**known, **given} if known.get(n) != given.get(n)]
        if names:
            told = "; ".join(
                f"{n} was {known.get(n)!r}, is {given.get(n)!r}" for n in sorted(names)
            )
            raise StateProblem(
                f"{self.folder} belongs to a run with other settings: {told}. Use those, or give "
                "this run a --state of its own."
            )

    # -- committing ----------------------------------------------------------------------------

    def commit(self, checkpoint: Checkpoint) -> None:
        """Make a checkpoint of this and of the models put into the store: all of it or nothing."""
        changed = self.store.finish()
        generation = checkpoint.generation = self.store.generation
        faults.reach("before-commit")
        try:
            with _transaction(self._db):
                self._insert(checkpoint, changed, generation)
        except sqlite3.Error as error:
            raise OutputProblem(f"{self.folder}: the state cannot be written: {error}.") from None
        faults.reach("after-commit")
        self.last = checkpoint
        self._clean()

    def _insert(self, checkpoint: Checkpoint, changed: dict[str, Place], generation: int) -> None:
        data = json.dumps(vars(checkpoint))
        self._db.execute("INSERT INTO checkpoints VALUES (?, ?)", (generation, data))
        self._db.executemany(
            "INSERT INTO models VALUES (?, ?, ?, ?, ?)",
            [(k, generation, p.file, p.offset, p.length) for k, p in changed.items()],
        )
        self._db.execute("DELETE FROM checkpoints WHERE generation < ?", (generation - 1,))
        # Of older models only what the previous generation still uses is kept.
        self._db.executemany(_PRUNE, [(k, generation) for k in self._lately | changed.keys()])
        self._lately = set(changed)

    def _clean(self) -> None:
        rows = self._db.execute("SELECT DISTINCT file FROM models").fetchall()
        self.store.remove_all_but({file for (file,) in rows})

    def close(self) -> None:
        """Close the database and let others in."""
        self.store.close()
        self._db.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class _transaction:
    """All of it, or nothing."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: Any, *rest: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def model_of(folder: Path, place: Place) -> Any:
    """Return a model, or raise StateProblem where its bytes are damaged."""
    data = read(folder, place)
    try:
        return loads(data)
    except ValueError as error:
        raise StateProblem(f"{folder / place.file} is damaged: {error}") from None


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.absolute()))
