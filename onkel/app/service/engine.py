"""The models, the log and the snapshots, behind one object; it knows nothing of HTTP.

A change goes to the log, is on the disk, is applied to its model in the order of the log, and is
then answered. A restart makes the same calls in the same order, so that it ends with the same bits.
"""

from __future__ import annotations

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
from onkel.app.service import calls, codec
from onkel.app.service.bodies import Entry
from onkel.app.service.committer import Committer, Waiting
from onkel.app.service.keys import Keys, Remembered
from onkel.app.service.limits import MIB, Limits
from onkel.app.service.log import Stopped
from onkel.app.service.slots import Slot, Spec
from onkel.app.service.snapshots import Folder, Saved
from onkel.app.service.specs import build
from onkel.app.service.watching import Watch

_ENTRY = msgspec.msgpack.Decoder(Entry)


class Engine:
    """Many named models on one state folder.

    Parameters
    ----------
    folder : path
        The state; made if it is not there.
    limits : Limits
    snapshot_bytes, snapshot_seconds : number
        A snapshot is made when the log has grown by so much, or so long after a change.
    """

    def __init__(
        self, folder: Path, limits: Limits | None = None, board: Board | None = None,
        snapshot_bytes: int = 64 * MIB, snapshot_seconds: float = 300.0,
    ) -> None:  # fmt: skip
        self.limits = limits or Limits()
        self.board = board or Board()
        self.watch = Watch(self.board)
        self.keys = Keys()
        self.snapshots = 0
        self.replayed = 0
        """Records of the log that were applied again at the start."""
        self.trouble = ""
        """Why the last snapshot failed."""
        self._snapshot_bytes, self._snapshot_seconds = snapshot_bytes, snapshot_seconds
        self._slots: dict[int, Slot] = {}
        self._names: dict[str, int] = {}
        self._pending: dict[str, tuple[bytes, Future[Remembered]]] = {}
        self._guard = threading.RLock()
        self._saving = threading.Lock()
        self._stop = threading.Event()
        self._waiting = 0
        self._making = 0
        self.pool = ThreadPoolExecutor((os.cpu_count() or 1) + 2, thread_name_prefix="onkel")
        self.state = Folder(folder)
        self._load()
        self._committer = Committer(self.state.log)
        self._committer.start()
        self._keeper = threading.Thread(target=self._keep_snapshots, daemon=True)
        self._keeper.start()

    # -- the start -----------------------------------------------------------------------------

    def _load(self) -> None:
        """Take the last snapshot over, then apply what the log has beyond it."""
        state = self.state
        self._next_id = state.meta("next_id", 1)
        self._settled = state.meta("settled", 0)
        """Position of the last change to which models there are."""
        self._files: dict[int, Saved] = {}
        for saved in state.models():
            slot = Slot(saved.spec, codec.loads(state.model_bytes(saved)), self.pool)
            slot.position = slot.saved = saved.position
            self._files[saved.spec.id] = saved
            self._enter(slot)
        for answer in state.answers():
            self.keys.add(answer)
        self._keys_saved = state.meta("start", 1) - 1
        for position, record in state.log.recover(state.meta("start", 1)):
            self._again(position, _ENTRY.decode(record))
        state.clean()

    def _again(self, position: int, entry: Entry) -> None:
        slot = self._slots.get(entry.model)
        names = entry.op in ("create", "import", "delete")
        if position <= (self._settled if names else slot.position if slot else 0):
            return  # the snapshot has it
        self._next_id = max(self._next_id, entry.model + 1)
        self.replayed += 1
        try:
            answer = self._apply(position, entry, None, slot)
        except Problem:
            return  # it was refused the first time, too
        if entry.key:
            self.keys.add(answer)

    def _enter(self, slot: Slot) -> None:
        self._slots[slot.spec.id] = slot
        self._names[slot.spec.name] = slot.spec.id
        self.watch.begin(slot)

    # -- asking --------------------------------------------------------------------------------

    def slots(self) -> list[Slot]:
        """Return all models, oldest first."""
        with self._guard:
            return [self._slots[id] for id in sorted(self._slots)]

    def slot(self, name: str) -> Slot:
        """Return a model by its name."""
        with self._guard:
            id = self._names.get(name)
            if id is None:
                raise Problem(404, "unknown_model", f"There is no model {name[:80]!r}.", "name")
            return self._slots[id]

    def ask(self, slot: Slot, call: Callable[[Any], Any]) -> Future[Any]:
        """Ask a model something that does not change it."""
        self._check_room(slot)
        return slot.ask(lambda: call(slot.estimator))

    def _check_room(self, slot: Slot) -> None:
        if slot.failed:
            raise Problem(503, "model_failed", slot.failed)
        if slot.waiting + self._waiting >= self.limits.waiting:
            raise busy("busy", "Too many requests wait for this model.")

    @property
    def waiting(self) -> int:
        """Requests that wait for the log."""
        return self._waiting

    @property
    def commits(self) -> tuple[int, float]:
        """Return how many groups were written to the log, and the seconds that took."""
        return self._committer.commits, self._committer.seconds

    # -- changing ------------------------------------------------------------------------------

    def change(self, entry: Entry, made: Any = None) -> Future[Remembered]:
        """Log a change, apply it, and promise its answer; a key that is known is answered at once.

        `made` is the estimator of a new model, where it has been built already.
        """
        with self._guard:
            if entry.key:
                known = self._known(entry)
                if known is not None:
                    return known
            self._check_change(entry)
            future: Future[Remembered] = Future()
            if entry.key:
                self._pending[entry.key] = entry.digest, future
            self._waiting += 1
        record = msgspec.msgpack.encode(entry)
        self._committer.submit(
            Waiting(
                record,
                lambda position: self._durable(position, entry, made, future),
                lambda error: self._finish(entry, future, None, _storage(error)),
            )
        )
        return future

    def _known(self, entry: Entry) -> Future[Remembered] | None:
        """Return the answer that this key has had, or will have."""
        done = self.keys.get(entry.key)
        if done is None and entry.key not in self._pending:
            return None
        digest, future = (done.digest, Future[Remembered]()) if done else self._pending[entry.key]
        if digest != entry.digest:
            words = "This Idempotency-Key was used for another request."
            raise Problem(422, "key_reused", words, "Idempotency-Key")
        if done is not None:
            future.set_result(done)
        return future

    def known(self, key: str, digest: bytes) -> Future[Remembered] | None:
        """Return what was, or will be, answered to a request that has come before."""
        with self._guard:
            return self._known(Entry("", 0, key=key, digest=digest))

    def _check_change(self, entry: Entry) -> None:
        """Refuse what the limits forbid. A replay does not ask: the limits may have changed."""
        if self._waiting >= self.limits.waiting:
            raise busy("busy", "Too many requests wait for the log.")
        if entry.op in ("create", "import"):
            if entry.name in self._names:
                raise _taken(entry.name)
            if len(self._slots) + self._making >= self.limits.models:
                words = f"There are {len(self._slots)} models, as many as there may be."
                raise Problem(409, "too_many_models", words, limit=self.limits.models)
            entry.model, self._next_id = self._next_id, self._next_id + 1
            self._making += 1
            return
        slot = self._slots.get(entry.model)
        if slot is None or entry.op == "delete":
            return
        self._check_room(slot)
        if slot.bytes > self.limits.model_bytes:
            words = f"This model has grown to {slot.bytes} bytes and learns no more."
            raise Problem(409, "model_too_large", words, limit=self.limits.model_bytes)
        self._check_classes(slot, entry)

    def _check_classes(self, slot: Slot, entry: Entry) -> None:
        if slot.estimator.task != "classification":
            return
        known = set(getattr(slot.estimator, "class_count_", ()))
        labels = known.union(v for v in entry.y or () if not isinstance(v, list))
        if len(labels.union(entry.classes or ())) > self.limits.classes:
            words = f"A classifier may know {self.limits.classes} labels here."
            raise Problem(422, "too_many_classes", words, "y", limit=self.limits.classes)

    def _durable(self, position: int, entry: Entry, made: Any, future: Future[Remembered]) -> None:
        """Apply a record that is on the disk. Called in the order of positions."""
        slot = self._slots.get(entry.model)
        if slot is None or entry.op == "delete":  # which names there are follows the log at once
            self._run(position, entry, made, slot, future)
        else:
            slot.do(lambda: self._run(position, entry, made, slot, future))

    def _run(
        self, position: int, entry: Entry, made: Any, slot: Slot | None, future: Future[Remembered]
    ) -> None:
        try:
            self._finish(entry, future, self._apply(position, entry, made, slot), None)
        except Problem as problem:
            self._finish(entry, future, None, problem)
        except BaseException as error:  # a fault of ours: this model is not trusted any more
            words = f"This model failed ({type(error).__name__}: {error}). Restart onkel."
            if slot is not None:
                slot.failed = words
            self._finish(entry, future, None, Problem(500, "internal", words))

    def _finish(
        self, entry: Entry, future: Future[Remembered], answer: Remembered | None,
        problem: Problem | None,
    ) -> None:  # fmt: skip
        with self._guard:
            self._waiting -= 1
            self._making -= entry.op in ("create", "import")
            if entry.key:
                self._pending.pop(entry.key, None)
                if answer is not None:
                    self.keys.add(answer)
        if answer is not None:
            future.set_result(answer)
        else:
            future.set_exception(problem or RuntimeError())

    # -- applying ------------------------------------------------------------------------------

    def _apply(self, position: int, entry: Entry, made: Any, slot: Slot | None) -> Remembered:
        """Do what a record says; the first time and at a replay alike."""
        if entry.op in ("create", "import"):
            status, body = 201, self._make(position, entry, made)
        elif entry.op == "delete":
            status, body = 200, self._delete(position, entry)
        else:
            status, body = 200, self._learn(position, entry, slot)
        return Remembered(entry.key, position, entry.digest, status, body, entry.lines)

    def _make(self, position: int, entry: Entry, made: Any) -> bytes:
        parameters = msgspec.json.decode(entry.parameters) if entry.parameters else {}
        if made is None:
            made = codec.loads(entry.file) if entry.file else build(entry.kind, parameters)
        kind = type(made).__name__
        spec = Spec(entry.model, entry.name, kind, parameters, entry.features, position)
        with self._guard:
            if entry.name in self._names:
                raise _taken(entry.name)
            self._enter(Slot(spec, made, self.pool))
            self._settled = position
        return encode({"position": position, "name": entry.name, "kind": kind})

    def _delete(self, position: int, entry: Entry) -> bytes:
        with self._guard:
            slot = self._slots.pop(entry.model, None)
            if slot is None:
                raise Problem(404, "unknown_model", "This model was deleted meanwhile.", "name")
            del self._names[slot.spec.name]
            slot.gone = True
            self._settled = position
        self.watch.end(slot)
        return encode({"position": position, "name": slot.spec.name, "deleted": True})

    def _learn(self, position: int, entry: Entry, slot: Slot | None) -> bytes:
        if slot is None:
            raise Problem(404, "unknown_model", "This model was deleted meanwhile.", "name")
        if slot.failed:
            raise Problem(503, "model_failed", slot.failed)
        slot.position = position
        said = calls.learn(slot.estimator, entry, slot.spec.features)
        self.watch.learned(slot, entry.rows(), said.marks)
        wanted = said if entry.op == "predict-then-learn" else None
        return calls.answer(entry, wanted, slot.estimator.t_, position)

    # -- snapshots -----------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Save every model that has changed; the log before that is no longer needed."""
        with self._saving:
            noted: dict[str, int] = {}
            self._committer.between(lambda: noted.update(start=self.state.log.rotate()))
            with self._guard:
                slots = self.slots()
                noted.update(settled=self._settled, next_id=self._next_id)
            saved = [found for slot in slots if (found := self._save(slot)) is not None]
            new, old = self.keys.since(self._keys_saved)
            self.state.commit(noted, saved, new, old)
            self.keys.forgotten(old)
            for found in saved:  # not before: what did not count is saved again
                slot = self._slots.get(found.spec.id)
                if slot is not None:
                    slot.saved = found.position
            # Later ones may be answered out of order: they are in the log, and saved next time.
            self._keys_saved = noted["start"] - 1
            self._files = {s.spec.id: s for s in saved}
            self.state.clean()
            self.snapshots += 1

    def _save(self, slot: Slot) -> Saved | None:
        """Write a model's file, as it is after all that was logged before; None if it is gone."""
        known = self._files.get(slot.spec.id)
        position, data = slot.do(lambda: _dumped(slot)).result()
        if data is None:
            return known
        if slot.failed:
            raise RuntimeError(f"{slot.spec.name}: {slot.failed}")
        return Saved(slot.spec, position, self.state.write_model(slot.spec.id, position, data))

    def _keep_snapshots(self) -> None:
        """Make snapshots as they come due, until closed."""
        last = time.monotonic()
        while not self._stop.wait(0.5):
            size, waited = self.state.log.size, time.monotonic() - last
            there = size or self.state.log.segments()[1:]  # or what a snapshot that failed left
            if size < self._snapshot_bytes and (not there or waited < self._snapshot_seconds):
                continue
            try:
                self.snapshot()
                self.trouble = ""
            except Exception as error:
                self.trouble = f"{type(error).__name__}: {error}"
                self._stop.wait(5.0)
            last = time.monotonic()

    def close(self) -> None:
        """Finish what has come, make a snapshot, and let go of the folder."""
        self._stop.set()
        self._keeper.join()
        try:
            if self.state.log.size or self.state.log.segments()[1:]:
                self.snapshot()
        finally:
            self._committer.close()
            self.pool.shutdown()
            self.state.close()


def _dumped(slot: Slot) -> tuple[int, bytes | None]:
    """Return a model's bytes and its position; no bytes where the last snapshot has them."""
    if slot.saved == slot.position:
        return slot.position, None
    return slot.position, codec.dumps(slot.estimator)


def _taken(name: str) -> Problem:
    return Problem(409, "name_taken", f"There is a model {name!r} already.", "name")


def _storage(error: Exception) -> Problem:
    """Return what a client learns when the log could not be written; nothing was applied."""
    if isinstance(error, Stopped):
        return Problem(503, "storage", str(error))
    words = f"The log could not be written ({error}); nothing was learned. Make room and retry."
    return Problem(507, "storage", words)
