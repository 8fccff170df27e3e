"""Snapshots: models are saved, read back, and only then does the log that they replace go."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import Any

import msgspec

from onkel.app.service import codec, replay
from onkel.app.service.committer import Committer
from onkel.app.service.incidents import incidents_of
from onkel.app.service.keys import Keys
from onkel.app.service.log import Record
from onkel.app.service.models import Models
from onkel.app.service.notices import Notices
from onkel.app.service.replay import Notes, Revived, loaded, revived, words_of
from onkel.app.service.slots import Slot, Spec
from onkel.app.service.snapshots import Folder, Saved
from onkel.fleet import Fleet

_LOG = logging.getLogger("onkel.service")


LARGE = 2**25
"""Files of models with keys from this size on are written less often than the log is cut."""


class NotReadBack(RuntimeError):
    """A model's file does not bring the model back."""


class Keeper:
    """Brings models to the disk, and one of them back where it must be.

    Parameters
    ----------
    state : Folder
    models : Models
    keys : Keys
    key_bytes : int
        Of a model with keys that are held in memory.
    notices : Notices, optional
        Takes the alerts of the log before that goes.
    """

    def __init__(
        self, state: Folder, models: Models, keys: Keys, key_bytes: int = 2**31,
        notices: Notices | None = None,
    ) -> None:  # fmt: skip
        self.state, self.notices = state, notices
        self.key_bytes = key_bytes
        self.models = models
        self.keys = keys
        self.snapshots = 0
        self.failures = 0
        """Snapshots that failed, and models that could not be saved, since the start."""
        self.trouble = ""
        """Why the last snapshot failed."""
        self.unsaved: dict[int, str] = {}
        """Models in use that could not be saved, by number, and why."""
        self.files: dict[int, Saved] = {}
        """What the last snapshot has of each model."""
        self.log_start = state.meta("start", 1)
        """Where the log begins; what is before is in the files."""
        self._saving = threading.Lock()
        self._tidying = threading.Lock()  # files that are read meanwhile stay
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="onkel-snapshots", daemon=True)

    def start(self, committer: Committer, most: int, seconds: float) -> None:
        """Make snapshots from now on: of so many bytes of log, or so long after a change."""
        self._committer, self._most, self._seconds = committer, most, seconds
        self._thread.start()

    def stop(self) -> None:
        """Make a last snapshot if there is something to save."""
        self._stop.set()
        self._thread.join()
        if self._something():
            self.snapshot()

    def _something(self) -> bool:
        """Whether there is something to save: of late, left by a failure, or just brought back."""
        log, slots = self.state.log, self.models.slots
        tails = any(saved.tails and id in slots for id, saved in self.files.items())
        return bool(log.size or log.segments()[1:] or tails)

    def _keep(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(0.5):
            self.state.archive.tick()
            self.models.watch.catch_up(self.models.in_use())
            waited = time.monotonic() - last
            late = waited >= self._seconds and self._something()
            if not late and self.state.log.size < self._most:
                continue
            try:
                self.snapshot()
            except Exception:
                self._stop.wait(5.0)
            last = time.monotonic()

    # -- saving --------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Save every model that has changed; the log before that is no longer needed."""
        with self._saving:
            try:
                self._with_room()
            except Exception as error:
                self.failures += 1
                self.trouble = (
                    f"A snapshot failed ({type(error).__name__}: {error}); the log stays."
                )
                _LOG.error("%s", self.trouble)
                raise
            self.trouble = ""
            self.snapshots += 1

    def _with_room(self) -> None:
        """Make a snapshot; where the disk is full, what the archive has goes before that fails."""
        while True:
            try:
                return self._snapshot()
            except OSError as error:
                if not self.state.archive.make_room(error):
                    raise

    def _snapshot(self) -> None:
        noted: dict[str, int] = {}
        self._note_refusals()
        self._committer.between(lambda: noted.update(start=self.state.log.rotate()))
        with self.models.guard:
            slots, aside = self.models.in_use(), self.models.out_of_use()
            noted.update(settled=self.models.settled, next_id=self.models.next_id)
        saved = {slot.spec.id: self._save(slot) for slot in slots}
        kept = [slot.spec for slot in slots if saved[slot.spec.id] is None]
        found = self._kept([*kept, *(a.spec for a in aside)], noted["start"])
        found |= {id: one for id, one in saved.items() if one is not None}
        new, old = self.keys.unsaved()
        if self.notices is not None:
            self.notices.settle()
        self._note_refusals()  # those that came meanwhile: their records may be needed no more
        with self._tidying:
            self.state.commit(noted, [*found.values()], new, old)
            self.files, self.log_start = found, noted["start"]
            self.unsaved = {id: words for id, words in self.unsaved.items() if id in found}
        self.keys.saved(new, old)
        for slot in slots:  # not before: what did not count is saved again
            if (one := saved[slot.spec.id]) is not None:
                slot.saved = one.position
        with self._tidying:
            self.state.clean()

    def _note_refusals(self) -> None:
        """Bring what was refused to the log, where the next start, and a replay, look for it."""
        with self.models.guard:
            slots = [slot for slot in self.models.slots.values() if slot.refused]
        for slot in slots:
            note = replay.note_of(slot, self.models.guard)
            self._committer.write(slot.spec.id, msgspec.msgpack.encode(note))
            with self.models.guard:
                slot.refused.difference_update(note.refused or ())

    def _save(self, slot: Slot) -> Saved | None:
        """Write a model's file, as it is after all that was logged before; None if that fails."""
        id = slot.spec.id
        if self._by_tail(slot):
            return None
        try:
            position, data, told = slot.do(lambda: _dumped(slot)).result()
            if data is None:
                return self.files[id]
            file = self.state.write_model(id, position, data)
            self._read_back(file, data)
            incidents = self._write_incidents(slot, position, told)
        except OSError:  # the disk's fault, and no model's
            raise
        except Exception as error:
            self._not_saved(slot, error)
            return None
        self.unsaved.pop(id, None)
        slot.logged = 0
        return Saved(slot.spec, position, file, incidents=incidents)

    def _write_incidents(self, slot: Slot, position: int, data: bytes) -> str:
        """Write a detector's incidents, and read them back; nothing of other models."""
        if not data:
            return ""
        file = self.state.write_incidents(slot.spec.id, position, data)
        found = incidents_of(slot.estimator, self.state.model_bytes(file))
        if found is None or found.dumps() != data:
            raise NotReadBack(f"models/{file} does not bring its incidents back")
        return file

    def _by_tail(self, slot: Slot) -> bool:
        """Whether the log of a large model with keys is kept for now: less than a new file."""
        saved = self.files.get(slot.spec.id)
        if not isinstance(slot.estimator, Fleet) or saved is None or not saved.file or slot.failed:
            return False
        size = self.state.size_of(saved.file)
        return size > LARGE and slot.logged < size / 2

    def fit(self, estimator: Any) -> Any:
        """Let a model with keys hold no more in memory than it may; return it."""
        if isinstance(estimator, Fleet):
            estimator.hold(self.key_bytes, str(self.state.folder))
        return estimator

    def _read_back(self, file: str, data: bytes) -> None:
        """Load what was written, and see that the same bytes would be written again."""
        try:
            found = self.state.model_bytes(file)
            if found != data:
                raise NotReadBack("the disk returns other bytes than were written")
            if codec.dumps(codec.usable(found)) != data:
                raise NotReadBack("what it holds is not the model that was saved")
        except Exception as error:
            raise NotReadBack(f"models/{file} does not load: {words_of(error)}") from error

    def _not_saved(self, slot: Slot, error: Exception) -> None:
        if slot.failed or slot.gone:
            return  # it was set aside or deleted meanwhile
        self.failures += 1
        self.unsaved[slot.spec.id] = (
            f"The model {slot.spec.name!r} could not be saved ({words_of(error)}). It goes on, and "
            "its older file and its log stay."
        )
        _LOG.error("%s", self.unsaved[slot.spec.id])

    def _kept(self, specs: list[Spec], start: int) -> dict[int, Saved]:
        """Return models as they are on the disk, with what the log before `start` has of them."""
        if not specs:
            return {}
        known = {spec.id: self.files.get(spec.id) for spec in specs}
        after = {s.id: one.position if (one := known[s.id]) else s.created - 1 for s in specs}
        more: dict[int, list[Record]] = {spec.id: [] for spec in specs}
        for record in self.state.log.records(self.log_start - 1, start):
            if record.owner in more and record.position > after[record.owner]:
                more[record.owner].append(record)
        found = {}
        for spec in specs:
            before, records = known[spec.id], more[spec.id]
            if before is not None and not records:
                found[spec.id] = before
                continue
            old = Saved(spec, start - 1, "") if before is None else before
            tail = self.state.write_tail(spec.id, start - 1, records)
            found[spec.id] = replace(old, position=start - 1, tails=(*old.tails, tail))
        return found

    # -- bringing back -------------------------------------------------------------------------

    def load(self, saved: Saved, notes: Notes) -> Revived:
        """Return the model that a snapshot has, its own part of the log applied."""
        tail = self.state.tail(saved)
        notes.add(tail)
        data, told = (self.state.model_bytes(n) if n else None for n in saved.own)
        found = revived(
            lambda: loaded(data, told), tail, saved.spec, notes, self.keys.add, self.notices
        )
        self.fit(found.model)
        return found

    def rebuilt(self, slot: Slot, before: int) -> Any:
        """Return a model that is in use as it was before a record, from the disk."""
        id, notes = slot.spec.id, Notes(slot.refused)  # before the log, which may take some over
        with self._tidying:
            saved = self.files.get(id)
            records = self.state.tail(saved)
            data = self.state.model_bytes(saved.file) if saved and saved.file else None
            after = saved.position if saved else slot.spec.created - 1
            found = self.state.log.records(self.log_start - 1, self.state.log.next)
            records += [r for r in found if r.owner == id and r.position > after]
        notes.add(records)  # later ones, too: they may tell of earlier ones
        notes.decided[id] = before
        records = [r for r in records if r.position < before]
        return self.fit(revived(lambda: loaded(data, None), records, slot.spec, notes).model)


def _dumped(slot: Slot) -> tuple[int, bytes | None, bytes]:
    """Return a model's position, its bytes and its incidents'; none where a snapshot has them."""
    if slot.failed:
        raise NotReadBack(slot.failed)
    if slot.saved == slot.position:
        return slot.position, None, b""
    told = b"" if slot.incidents is None else slot.incidents.dumps()
    return slot.position, codec.dumps(slot.model), told
