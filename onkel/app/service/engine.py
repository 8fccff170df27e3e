"""The models, the log and the snapshots, behind one object; it knows nothing of HTTP.

A change goes to the log, is on the disk, is applied to its model in the order of the log, and is
then answered. A restart makes the same calls in the same order, so that it ends with the same bits.
What cannot be applied is refused, whatever the reason; the model is then as it was, and the log
says so.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem, busy
from onkel.app.live.board import Board
from onkel.app.notify.settings import Delivery
from onkel.app.service import calls, fleets, notices, pending, replay
from onkel.app.service.archive import Keep
from onkel.app.service.bodies import Entry
from onkel.app.service.committer import Committer, Waiting
from onkel.app.service.incidents import incidents_of
from onkel.app.service.keeper import Keeper
from onkel.app.service.keys import Keys, Remembered
from onkel.app.service.limits import MIB, Limits
from onkel.app.service.log import Stopped
from onkel.app.service.models import Aside, Models
from onkel.app.service.places import MAKING, Place, Places
from onkel.app.service.slots import Slot, inner
from onkel.app.service.snapshots import Folder
from onkel.app.service.start import Start
from onkel.app.service.watching import Watch

_LOG = logging.getLogger("onkel.service")


class Engine:
    """Many named models on one state folder.

    Parameters
    ----------
    folder : path
        The state; made if it is not there.
    limits : Limits
    snapshot_bytes, snapshot_seconds : number
        A snapshot is made when the log has grown by so much, or so long after a change.
    delivery : Delivery, optional
        To where alerts are sent; nothing is, unless told.
    archive : Keep, optional
        How much of what was learned is kept, to be replayed; nothing is, unless told.
    """

    def __init__(
        self, folder: Path, limits: Limits | None = None, board: Board | None = None,
        snapshot_bytes: int = 64 * MIB, snapshot_seconds: float = 300.0,
        delivery: Delivery | None = None, archive: Keep | None = None,
    ) -> None:  # fmt: skip
        self.limits = limits or Limits()
        self.board = board or Board()
        self.watch = Watch(self.board)
        self.keys = Keys()
        self.models = Models(self.watch)
        self.faults = 0
        """Changes that ended with an error that is not the request's own, since the start."""
        self._places = Places(self.models.guard, self.keys)
        self.pool = ThreadPoolExecutor((os.cpu_count() or 1) + 2, thread_name_prefix="onkel")
        self.state = Folder(folder, archive)
        self.closing = threading.Event()
        """Set when whatever takes long is to end."""
        self.notices: notices.Notices | None = None
        try:
            if delivery is None:
                notices.off(folder)
            else:
                self.notices = notices.Notices(delivery, folder)
            self.keeper = Keeper(
                self.state, self.models, self.keys, self.limits.key_bytes, self.notices
            )
            start = Start(self.keeper, self._apply, self.pool)
            start.run()
            if self.notices is not None:
                known = [(slot.spec, slot.incidents) for slot in self.models.in_use()]
                open_ = [(spec, found) for spec, found in known if found is not None]
                self.notices.catch_up(self.state.log.next, open_)
        except BaseException:
            self.pool.shutdown()
            if self.notices is not None:
                self.notices.close()
            self.state.close()
            raise
        self.replayed = start.replayed
        """Records of the log that were applied again at the start."""
        for slot in self.models.in_use():
            slot.begin()
        self._committer = Committer(self.state.log)
        self._committer.start()
        self.keeper.start(self._committer, snapshot_bytes, snapshot_seconds)

    # -- asking --------------------------------------------------------------------------------

    def slots(self) -> list[Slot]:
        """Return all models in use, oldest first."""
        return self.models.in_use()

    def slot(self, name: str) -> Slot:
        """Return a model in use by its name."""
        with self.models.guard:
            id = self.models.spec(name).id
            if id in self.models.aside:
                raise self._is_aside(self.models.aside[id])
            return self.models.slots[id]

    def _check_aside(self, entry: Entry) -> None:
        """Refuse what is for a model set aside: the next start would have it learn that."""
        with self.models.guard:
            if entry.model in self.models.aside:
                raise self._is_aside(self.models.aside[entry.model])

    def _is_aside(self, aside: Aside) -> Problem:
        name, saved = aside.spec.name, self.keeper.files.get(aside.spec.id)
        where = str(saved) if saved else "log"
        words = (
            f"The model {name!r} is set aside: {aside.reason} What there is of it lies in {where}, "
            "in the state's folder. A restart of onkel tries it again. "
            f"DELETE /models/{name} deletes it, PUT /models/{name}/file puts another in its place."
        )
        return Problem(503, "set_aside", words, "name", file=where)

    def ask(self, slot: Slot, call: Callable[[Any], Any]) -> Future[Any]:
        """Ask a model something that does not change it."""
        self._check_room(slot)
        return slot.ask(lambda: call(slot.estimator))

    def _check_room(self, slot: Slot) -> None:
        if slot.failed:
            raise Problem(503, "model_failed", slot.failed)
        if slot.waiting + self.waiting >= self.limits.waiting:
            raise busy("busy", "Too many requests wait for this model.")

    @property
    def waiting(self) -> int:
        """Requests that wait for the log."""
        return self._places.waiting

    @property
    def commits(self) -> tuple[int, float]:
        """Return how many groups were written to the log, and the seconds that took."""
        return self._committer.commits, self._committer.seconds

    def troubles(self) -> list[str]:
        """Return all that is not as it should be, in words."""
        aside = [self._is_aside(one).message for one in self.models.out_of_use()]
        unsaved = [words for id, words in [*self.keeper.unsaved.items()] if id in self.models.slots]
        sending = [] if self.notices is None else self.notices.troubles()
        kept = self.state.archive.troubles()
        grouped = [
            f"The incidents of {slot.spec.name!r} are not whole: {slot.incidents.trouble}"
            for slot in self.slots()
            if slot.incidents is not None and slot.incidents.trouble
        ]
        every = (self.keeper.trouble, *aside, *unsaved, *sending, *grouped, *kept)
        return [words for words in every if words]

    # -- changing ------------------------------------------------------------------------------

    def change(self, entry: Entry, made: Any = None) -> Future[Remembered]:
        """Log a change, apply it, and promise its answer; a key that is known is answered at once.

        `made` is the estimator of a new model, where it has been built already.
        """
        with self.models.guard:
            if entry.key:
                known = self._known(entry)
                if known is not None:
                    return known
            self._check_change(entry)
            self._stamp(entry)
            place = self._places.take(entry)
        with place:
            record = _record(entry)
            slot = self.models.slots.get(entry.model)
            if slot is not None:
                slot.logged += len(record)
            self._committer.submit(
                Waiting(
                    entry.model,
                    record,
                    lambda position: self._durable(position, entry, made, place),
                    lambda error: place.fail(_storage(error)),
                )
            )
        return place.future

    def _known(self, entry: Entry) -> Future[Remembered] | None:
        """Return the answer that this key has had, or will have."""
        done, place = self.keys.get(entry.key), self._places.pending.get(entry.key)
        digest = done.digest if done else place.digest if place else entry.digest
        if digest != entry.digest:
            words = "This Idempotency-Key was used for another request."
            raise Problem(422, "key_reused", words, "Idempotency-Key")
        if done is None:
            return place.future if place else None
        future: Future[Remembered] = Future()
        future.set_result(done)
        return future

    def known(self, key: str, digest: bytes) -> Future[Remembered] | None:
        """Return what was, or will be, answered to a request that has come before."""
        with self.models.guard:
            return self._known(Entry("", 0, key=key, digest=digest))

    def _check_change(self, entry: Entry) -> None:
        """Refuse what the limits forbid. A replay does not ask: the limits may have changed."""
        if self.waiting >= self.limits.waiting:
            raise busy("busy", "Too many requests wait for the log.")
        if entry.op in MAKING:
            self._check_new(entry)
            entry.model = self.models.next_id
            self.models.next_id += 1
            return
        slot = self.models.slots.get(entry.model)
        if slot is None:
            if entry.op != "delete":
                self._check_aside(entry)
            return
        entry.decided, entry.refused = slot.position, sorted(slot.refused) or None
        if entry.op == "delete":
            return
        self._check_room(slot)
        if fleets.is_fleet(slot.estimator):
            fleets.check_room(slot.estimator, entry, self.limits)
        elif (size := _size(slot, entry)) > self.limits.model_bytes:
            words = f"This model has grown to {size} bytes and learns no more."
            raise Problem(409, "model_too_large", words, limit=self.limits.model_bytes)
        self._check_classes(slot, entry)

    def _stamp(self, entry: Entry) -> None:
        """Note when a detector's rows came, where they are kept to be replayed."""
        slot = self.models.slots.get(entry.model)
        if self.state.archive.keep and slot is not None and slot.estimator.task == "novelty":
            entry.stamp = entry.stamp or time.time()

    def _check_new(self, entry: Entry) -> None:
        """Refuse a name that is taken; a file may come in the place of a model set aside."""
        models, most = self.models, self.limits.models
        if entry.name in models:
            id = models.spec(entry.name).id
            if id not in models.aside:
                raise _taken(entry.name)
            if entry.op != "import":
                raise self._is_aside(models.aside[id])
            entry.replaces = id
        elif len(models) + self._places.making >= most:
            words = f"There are {len(models)} models, as many as there may be."
            raise Problem(409, "too_many_models", words, limit=most)

    def _check_classes(self, slot: Slot, entry: Entry) -> None:
        if slot.estimator.task != "classification":
            return
        if fleets.is_fleet(slot.estimator):
            known = fleets.labels(slot)
        else:
            known = set(getattr(slot.estimator, "class_count_", ()))
        labels = known.union(v for v in entry.y or () if not isinstance(v, list))
        if len(labels.union(entry.classes or ())) > self.limits.classes:
            words = f"A classifier may know {self.limits.classes} labels here."
            raise Problem(422, "too_many_classes", words, "y", limit=self.limits.classes)

    def _durable(self, position: int, entry: Entry, made: Any, place: Place) -> None:
        """Apply a record that is on the disk. Called in the order of positions."""
        slot = self.models.slots.get(entry.model)
        if slot is not None and entry.refused:
            self._noted(slot, entry)
        if slot is None or entry.op == "delete":  # which names there are follows the log at once
            self._run(position, entry, made, slot, place)
            return
        try:
            slot.do(lambda: self._run(position, entry, made, slot, place))
        except BaseException as error:  # the log has it, and the model will not
            with self.models.guard:
                slot.refused.add(position)
            problem = self._fault(position, entry, error)
            self._note(position, entry.model, slot)
            place.fail(problem)

    def _run(
        self, position: int, entry: Entry, made: Any, slot: Slot | None, place: Place
    ) -> None:  # fmt: skip
        """Apply a record and answer it: whatever happens, its place is given back."""
        t = replay.time_of(slot.estimator) if slot else 0
        with place:
            try:
                answer = self._apply(position, entry, made, slot)
            except BaseException as error:
                place.fail(self._refuse(position, entry, slot, t, error))
                return
            if slot is not None and entry.op != "delete":  # what was logged before may wait
                slot.position = position
            place.answer(answer, None if entry.op == "delete" else slot)

    def _refuse(
        self, position: int, entry: Entry, slot: Slot | None, t: int, error: BaseException
    ) -> Problem:
        """Put the model back as it was if it may have moved, note the refusal, and return it."""
        problem = error if isinstance(error, Problem) else self._fault(position, entry, error)
        doubtful = problem.status >= 500  # it might not come again by itself
        if slot is not None and entry.op != "delete":
            if not replay.unchanged(slot.estimator, t, error):
                self._put_back(slot, position)
                doubtful = True
            with self.models.guard:
                slot.refused.add(position)
                slot.position = position
        if doubtful:
            self._note(position, entry.model, slot)
        return problem

    def _fault(self, position: int, entry: Entry, error: BaseException) -> Problem:
        self.faults += 1
        _LOG.error("record %d (%s) could not be applied", position, entry.op, exc_info=error)
        words = (
            f"This request could not be applied ({replay.words_of(error)}). Nothing was changed, "
            "and it is noted as refused."
        )
        return Problem(500, "fault", words)

    def _put_back(self, slot: Slot, position: int) -> None:
        """Make a model anew, as it was before a record; set it aside if that cannot be done."""
        try:
            slot.model = self.keeper.rebuilt(slot, position)
        except BaseException as error:
            self.models.set_aside(
                slot.spec, f"it could not be put back ({replay.words_of(error)})."
            )

    def _note(self, position: int, model: int, slot: Slot | None) -> None:
        """Bring a refusal to the disk; where that fails, the model's next record says it."""
        note = Entry(replay.NOTE, model, decided=position, refused=[position])
        if slot is not None:
            note = replay.note_of(slot, self.models.guard)
        try:
            self._committer.write(model, _record(note))
        except Exception as error:
            _LOG.error("the refusal of record %d could not be noted (%s)", position, error)
            return
        if slot is not None:
            self._noted(slot, note)

    def _noted(self, slot: Slot, entry: Entry) -> None:
        """Remember that the log says what a record says."""
        with self.models.guard:
            slot.refused.difference_update(entry.refused or ())

    # -- applying ------------------------------------------------------------------------------

    def _apply(self, position: int, entry: Entry, made: Any, slot: Slot | None) -> Remembered:
        """Do what a record says; the first time and at a replay alike."""
        if entry.op in MAKING:
            return self._make(position, entry, made)
        if entry.op == "delete":
            return self._delete(position, entry, slot)
        if slot is None:
            self._check_aside(entry)
            raise Problem(404, "unknown_model", "This model was deleted meanwhile.", "name")
        if slot.failed:
            raise Problem(503, "model_failed", slot.failed)
        t = replay.time_of(slot.estimator)
        body, said, rows = calls.learned(slot.model, entry, slot.spec.features, position)
        slot.kept = pending.bytes_of(slot.model)
        fleets.note_labels(slot, entry)
        estimator, features, happened = slot.estimator, slot.spec.features, None
        if slot.incidents is not None:
            happened = slot.incidents.take(entry, position, estimator, said, rows, features)
        if entry.op != pending.REMEMBER:
            ids = said.beside.get("alert_id")
            learned = replay.time_of(estimator) - t
            self.watch.learned(slot, entry, rows, said.marks, learned, ids, happened)
        if self.notices is not None:
            found = self.notices.messages(slot.spec, entry, position, estimator, said, happened)
            self.notices.take(slot.spec.id, position, found)
        return calls.remembered(entry, position, 200, body, slot.spec.name)

    def _make(self, position: int, entry: Entry, made: Any) -> Remembered:
        estimator = replay.made(entry) if made is None else made
        self.keeper.fit(estimator)
        kind = replay.kind_of(estimator)
        spec = replay.spec_of(position, entry, kind)
        slot = Slot(spec, estimator, self.pool, incidents_of(inner(estimator)))
        body = encode({"position": position, "name": entry.name, "kind": kind})
        with self.models.guard:
            if entry.name in self.models and self.models.spec(entry.name).id != entry.replaces:
                raise _taken(entry.name)
            self.keys.forget(entry.name)
            self.models.drop(entry.replaces)
            self.models.settled = position
            self.models.enter(slot)
        return calls.remembered(entry, position, 201, body, entry.name)

    def _delete(self, position: int, entry: Entry, slot: Slot | None) -> Remembered:
        with self.models.guard:
            spec = self.models.drop(entry.model)
            if spec is None:
                raise Problem(404, "unknown_model", "This model was deleted meanwhile.", "name")
            self.keys.forget(spec.name)
            self.models.settled = position
        if slot is not None and self.notices is not None:  # after what it still has to learn
            self.notices.expect(slot.do(lambda: self._leave(slot, position)))
        body = encode({"position": position, "name": spec.name, "deleted": True})
        return calls.remembered(entry, position, 200, body, spec.name)

    def _leave(self, slot: Slot, position: int) -> None:
        """Tell of the incidents that are open where their model is deleted."""
        if self.notices is not None and slot.incidents is not None:
            told = self.notices.incidents(slot.spec, position, slot.incidents.unfinished())
            self.notices.take(slot.spec.id, position, told)

    # -- the end -------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Save every model that has changed; the log before that is no longer needed."""
        self.keeper.snapshot()

    def close(self) -> None:
        """Finish what has come, make a snapshot, and let go of the folder."""
        self.closing.set()
        try:
            self.keeper.stop()
        finally:
            self._committer.close()
            self.pool.shutdown()
            if self.notices is not None:
                self.notices.close()
            self.state.close()


def _size(slot: Slot, entry: Entry) -> int:
    """Return what counts of a model; a label makes the rows that wait fewer, not more."""
    return slot.bytes + (0 if entry.op == pending.ANSWER else slot.kept)


def _record(entry: Entry) -> bytes:
    """Return what the log holds of a change, or refuse what it cannot hold."""
    try:
        return msgspec.msgpack.encode(entry)
    except (OverflowError, TypeError, ValueError) as error:
        words = f"A value cannot be kept ({error}): whole numbers have up to 64 bits."
        raise Problem(422, "bad_field", words) from error


def _taken(name: str) -> Problem:
    return Problem(409, "name_taken", f"There is a model {name!r} already.", "name")


def _storage(error: Exception) -> Problem:
    """Return what a client learns when the log could not be written; nothing was applied."""
    if isinstance(error, Stopped):
        return Problem(503, "storage", str(error))
    words = f"The log could not be written ({error}); nothing was learned. Make room and retry."
    return Problem(507, "storage", words)
