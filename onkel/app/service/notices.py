"""Alerts and incidents of a service's models on their way to a webhook or a command.

What a record of the log brings is put into a database of its own, ``notices.sqlite``, by a thread
of its own, and sent from there. Before a snapshot lets a part of the log go, all messages of that
part are in it. So a service that is killed finds those that are not in it again, when it
applies its log again at its start; which records were taken is noted with their messages, and none
is taken twice.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app import disk
from onkel.app.notify import outbox
from onkel.app.notify.messages import (
    INCIDENT,
    Message,
    alert_of,
    features_of,
    in_order,
    incident_of,
)
from onkel.app.notify.office import UNDELIVERED, Office, grave
from onkel.app.notify.outbox import StoredQueue
from onkel.app.notify.settings import Delivery
from onkel.app.run.incidents import Happened
from onkel.app.service import fleets, tables
from onkel.app.service.bodies import Entry
from onkel.app.service.incidents import ModelIncidents, places_of
from onkel.app.service.slots import Spec
from onkel.inputs import weights_of
from onkel.judge import Answer, Marks, briefly

Array = NDArray[Any]

_LOG = logging.getLogger("onkel.service")
NAME = "notices.sqlite"
PATIENCE = 30.0
"""Seconds that a snapshot waits for alerts to be written."""
ENDING = 30.0
"""Seconds that the end of a service waits for messages at most, however many are being taken."""
_TABLES = {
    "meta": "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "taken": "CREATE TABLE taken (model INTEGER PRIMARY KEY, position INTEGER NOT NULL)",
    **outbox.TABLES,
}
Batch = tuple[int, int, list[Message]]
"""A model's number, a position in the log, and the messages of that record."""


class Notices:
    """Makes messages of alerts, keeps them, and has them sent.

    Parameters
    ----------
    delivery : Delivery
    folder : path
        Of the service; this process holds it.
    """

    def __init__(self, delivery: Delivery, folder: Path) -> None:
        self.trouble = ""
        """Why alerts could not be taken, or written, the last time."""
        self._folder, self._targets, self._delivery = folder, [*delivery.channels()], delivery
        self._db = _opened(folder / NAME)
        self._noted = dict(self._db.execute("SELECT name, value FROM meta"))
        self._taken = dict(self._db.execute("SELECT model, position FROM taken"))
        self._since = int(self._noted["since"]) if "since" in self._noted else None
        self._hears = {target: int(value) for target, value in _named(self._noted, "hears")}
        """From which record on each target hears of incidents: those open there were told to it."""
        self._writing = threading.Lock()
        self._pending: list[Batch] = []
        self._wake, self._closing = threading.Condition(), False
        self._leaving: list[Future[None]] = []
        self._queues = {t: StoredQueue(folder / NAME, t) for t in self._targets}
        self.office = Office(delivery, self._queues, grave(folder))
        self._writer = threading.Thread(target=self._write_all, name="onkel-notices", daemon=True)

    def begin(self, position: int) -> None:
        """Take alerts of this position on, unless an earlier start has said so; begin to send."""
        if self._since is None:
            with _changing(self._db):
                self._note("since", str(position))
            self._since = position
        self._writer.start()
        self.office.start()

    def catch_up(self, position: int, going_on: Iterable[tuple[Spec, ModelIncidents]]) -> None:
        """Tell of the incidents that are open to who begins to hear of such, from this record on.

        Called once, when all models are there and before anything is learned.
        """
        hearing = [*self._targets] if self._delivery.incidents else []
        new = [target for target in hearing if target not in self._hears]
        found = [m for spec, known in going_on for m in self._told(spec, known.going_on())]
        with self._writing:
            with _changing(self._db):
                for target in set(self._hears).difference(hearing):
                    self._db.execute("DELETE FROM meta WHERE name = ?", (f"hears {target}",))
                for target in new:
                    self._put(target, found)
                    self._note(f"hears {target}", str(position))
            self._hears = {target: self._hears.get(target, position) for target in hearing}
        self.office.wake()

    # -- taking --------------------------------------------------------------------------------

    def messages(
        self, spec: Spec, entry: Entry, position: int, model: Any, said: Answer,
        happened: Happened | None,
    ) -> list[Message]:  # fmt: skip
        """Return the messages of a record that was just applied; an error is noted, not raised."""
        if model.task != "novelty" or self._has(spec.id, position):
            return []
        alerts, events = list[Message](), list[Message]()
        before = [] if happened is None else happened.before
        try:
            if self._delivery.alerts and said.marks.mark is not None:
                alerts = self._alerts(spec, entry, position, model, said, happened)
            if happened is not None:
                events = self.incidents(spec, position, happened.told())
            return in_order(alerts, events, before)
        except Exception as error:
            self.trouble = f"Alerts of record {position} are not sent ({error!r:.200})."
            _LOG.exception("alerts of record %d of model %r are not sent", position, spec.name)
            return []

    def incidents(
        self, spec: Spec, position: int, told: list[dict[str, Any]]
    ) -> list[Message]:  # fmt: skip
        """Return the messages of what a record has done to incidents, if they are wanted."""
        if not self._delivery.incidents or self._has(spec.id, position):
            return []
        return self._told(spec, told)

    def _told(self, spec: Spec, told: list[dict[str, Any]]) -> list[Message]:
        now = time.time()
        return [
            incident_of(self._run, spec.name, f"{spec.id} {one['incident']}", now, one)
            for one in told
        ]

    def _alerts(
        self, spec: Spec, entry: Entry, position: int, model: Any, said: Answer,
        happened: Happened | None,
    ) -> list[Message]:  # fmt: skip
        marks = said.marks
        assert marks.mark is not None
        at, now = np.flatnonzero(marks.mark).tolist(), time.time()
        places, names = places_of(entry, model), _names(entry, model, at)
        rows = [tables.row_of(model, entry, i) for i in at]
        reasons = self._reasons(model, spec.features, rows, marks, at)
        found = []
        for i, row, why, name in zip(at, rows, reasons, names, strict=True):
            facts = {"row": int(places[i]), **_facts(entry, model, said, i)}
            if happened is not None and happened.columns:
                facts["incident"] = happened.columns["incident"][i]
            facts |= _features(spec.features, row)
            # Its own id follows from the log: there it cannot be another's.
            own = f"{spec.id} {position} {i}"
            facts |= {"alert_id": name, "why": why}
            found.append(alert_of(self._run, spec.name, own, now, facts))
        return found

    def _reasons(self, model: Any, *about: Any) -> list[str | None]:
        """Return why rows are alerts; that nobody knows is no reason to keep an alert back."""
        try:
            return _reasons(model, *about)
        except Exception as error:
            self.trouble = f"Alerts are sent without reasons ({error!r:.200})."
            return [None] * len(about[-1])

    @property
    def _run(self) -> str:
        return self._noted["run"]

    def _has(self, model: int, position: int) -> bool:
        """Whether the alerts of a record are taken already, or are none of ours."""
        return position <= self._taken.get(model, 0) or position < (self._since or 0)

    def take(self, model: int, position: int, messages: list[Message]) -> None:
        """Have messages of a record written; called in the order of a model's records."""
        if messages:
            with self._wake:
                self._pending.append((model, position, messages))
                self._wake.notify_all()

    # -- writing -------------------------------------------------------------------------------

    def _write_all(self) -> None:
        while True:
            with self._wake:
                while not self._pending and not self._closing:
                    self._wake.wait()
                if not self._pending:
                    return
                batches = [*self._pending]
            try:
                self._write(batches)
            except sqlite3.Error as error:
                self.trouble = f"Alerts could not be written to {NAME} ({error})."
                _LOG.error("%s", self.trouble)
                if self._closing:
                    return
                time.sleep(0.5)
                continue
            with self._wake:
                del self._pending[: len(batches)]
                self._wake.notify_all()
            self.office.wake()

    def _write(self, batches: list[Batch]) -> None:
        taken = {model: position for model, position, _ in batches}
        with self._writing, _changing(self._db):
            for target in self._targets:
                self._put(target, self._wanted(target, batches))
            rows = [*taken.items()]
            self._db.executemany("INSERT OR REPLACE INTO taken VALUES (?, ?)", rows)
        self._taken |= taken

    def _wanted(self, target: str, batches: list[Batch]) -> list[Message]:
        """Return the messages for a target: of incidents, those since it hears of such."""
        since = self._hears.get(target)
        return [
            message
            for _, position, some in batches
            for message in some
            if message.kind != INCIDENT or (since is not None and position >= since)
        ]

    def _put(self, target: str, messages: list[Message]) -> None:
        last = _made(self._db).get(target, 0)
        outbox.put(self._db, target, last, messages)
        self._note(f"made {target}", str(last + len(messages)))

    def _note(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def expect(self, leaving: Future[None]) -> None:
        """Let a snapshot wait for what a model that is deleted still has to tell."""
        with self._wake:
            self._leaving = [*(one for one in self._leaving if not one.done()), leaving]

    def settle(self) -> None:
        """Wait until all that was taken is written; raise OSError if that cannot be."""
        with self._wake:
            leaving = self._leaving
        if wait(leaving, PATIENCE).not_done:
            raise OSError("a model that was deleted has not told yet of all its alerts")
        with self._wake:
            if not self._wake.wait_for(lambda: not self._pending, PATIENCE):
                raise OSError(self.trouble or f"alerts could not be written to {NAME}")

    # -- asking --------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """Return what came of the messages, by target."""
        return self.office.summary()

    def troubles(self) -> list[str]:
        """Return what is not as it should be, in words."""
        failing = [
            f"{sender.channel} does not take {self.office.word}s: {sender.tally.trouble}."
            for sender in self.office.senders
            if sender.tally.trouble
        ]
        lost = sum(tally.lost for tally in self.office.tallies().values())
        words = f"{lost} {self.office.word}s could not be delivered; they lie in {UNDELIVERED}."
        return [*filter(None, [self.trouble]), *failing, *([words] if lost else [])]

    def close(self) -> None:
        """Send what can be sent soon; what waits is sent after the next start."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        if self._writer.is_alive():
            self._writer.join(PATIENCE)
            until = time.monotonic() + ENDING
            self.office.drain(lambda: time.monotonic() > until)
        self.office.stop()
        for words in self.office.troubles("they are sent after the next start"):
            _LOG.warning("%s", words)
        for queue in self._queues.values():
            queue.close()
        self._db.close()


def off(folder: Path) -> None:
    """Note that a service runs without delivery: its alerts are not sent later either."""
    if not (folder / NAME).exists():
        return
    db = _opened(folder / NAME)
    try:
        with _changing(db):
            db.execute("DELETE FROM meta WHERE name = 'since' OR name LIKE 'hears %'")
            db.execute("DELETE FROM taken")
        for target, count in outbox.waiting(db).items():
            _LOG.warning("%d messages of an earlier start wait for the %s", count, target)
    finally:
        db.close()


def _names(entry: Entry, model: Any, at: list[int]) -> list[str | None]:
    """Return what alerts are called: by the rows learned before; of a key, by those of the key.

    A row without weight is not learned: the number is that of the next one, and it has none.
    """
    live = weights_of(entry.sample_weight, entry.count) > 0
    if entry.keys is None:
        places = places_of(entry, model)
        return [str(int(places[i])) if live[i] else None for i in at]
    left = {key: model[key].t_ for key in {entry.keys[i] for i in at if live[i]}}
    found: dict[int, str] = {}
    for i in range(entry.count - 1, -1, -1):
        key = entry.keys[i]
        if live[i] and key in left:
            left[key] -= 1
            found[i] = f"{key}:{left[key]}"
    return [found.get(i) for i in at]


def _facts(entry: Entry, model: Any, said: Answer, i: int) -> dict[str, Any]:
    """Return what is known of an alert."""
    value, limit = said.marks.value, said.marks.limit
    assert value is not None and limit is not None
    tells_p = (model.estimator if fleets.is_fleet(model) else model).tells_p
    given = {
        "key": None if entry.keys is None else str(entry.keys[i]),
        "time": None if entry.time is None else entry.time[i], "score": value[i],
        "p": np.exp(value[i]) if tells_p else None, "threshold": limit[i],
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def _features(names: list[str] | None, row: Any) -> dict[str, Any]:
    """Return a row's values by their names."""
    if isinstance(row, dict):
        return features_of([*row], [*row.values()])
    if isinstance(row, str):
        return features_of(["text"], [row])
    values = np.asarray(row).tolist()
    return features_of(names or [f"x{j}" for j in range(len(values))], values)


def _reasons(
    model: Any, names: list[str] | None, rows: list[Any], marks: Marks, at: list[int]
) -> list[str | None]:
    """Return why rows are alerts: as the model said, or which numbers are far from their means."""
    told = getattr(marks, "why", None)
    if told is not None and at:
        found = told()
        return [getattr(found[i], "sentence", found[i]) for i in at]
    plain = all(isinstance(row, np.ndarray) for row in rows)
    if not rows or not plain or fleets.is_fleet(model):
        return [None] * len(rows)
    X, usual = np.stack(rows), model.moments_
    if usual is None or len(usual.mean) != X.shape[1]:
        return [None] * len(rows)
    named = names or [f"x{j}" for j in range(X.shape[1])]
    return [*briefly(X, usual.mean, usual.spread(), named)]


# -- the database ------------------------------------------------------------------------------


def _opened(path: Path) -> sqlite3.Connection:
    """Return the database, made if it is not there; raise RuntimeError if it is damaged."""
    disk.private_database(path)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        wrong = disk.claim(db, disk.SERVICE) or _prepared(db)
    except sqlite3.DatabaseError as error:
        wrong = str(error)
    if wrong:
        db.close()
        raise RuntimeError(
            f"{path} cannot be used: {wrong}. Restore it from a copy; or move it away, and alerts "
            "that wait in it are not sent."
        )
    return db


def _prepared(db: sqlite3.Connection) -> str:
    """Make the tables of a new database; return what is wrong with those of an old one."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    tables_there = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    if not tables_there:
        with _changing(db):
            for table in _TABLES.values():
                db.execute(table)
            db.execute("INSERT INTO meta VALUES ('run', ?)", (uuid.uuid4().hex,))
    elif tables_there != _TABLES:
        return "its tables are not those of a service's alerts"
    noted = dict(db.execute("SELECT name, value FROM meta"))
    if tables_there and noted.get("check") != _checksum(db, noted):
        return "it is damaged: its checksum is wrong"
    return outbox.check(db, _made(db))


def _made(db: sqlite3.Connection) -> dict[str, int]:
    """Return how many messages were written, by target."""
    noted = dict(db.execute("SELECT name, value FROM meta"))
    return {target: int(value) for target, value in _named(noted, "made")}


def _named(noted: dict[str, str], what: str) -> list[tuple[str, str]]:
    """Return what is noted of each target.

    Examples
    --------
    >>> _named({"made webhook": "7", "run": "f00"}, "made")
    [('webhook', '7')]
    """
    parts = [(*name.partition(" "), value) for name, value in noted.items()]
    return [(target, value) for first, _, target, value in parts if first == what and target]


def _checksum(db: sqlite3.Connection, noted: dict[str, str]) -> str:
    notes = sorted((name, value) for name, value in noted.items() if name != "check")
    taken = db.execute("SELECT model, position FROM taken ORDER BY model").fetchall()
    return str(zlib.crc32(repr((notes, taken)).encode()))


@contextlib.contextmanager
def _changing(db: sqlite3.Connection) -> Iterator[None]:
    """Change the database, its checksum with it: all of it, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        noted = dict(db.execute("SELECT name, value FROM meta"))
        row = ("check", _checksum(db, noted))
        db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
