"""Durable state: models, the source's position, counters and outputs as one atomic checkpoint.

A checkpoint writes the models that changed to a new file, then commits one SQLite transaction
(WAL, synchronous=FULL) with everything else; then files that nothing refers to go. Two generations
are kept: should the disk have lost the newest one's file, the one before it takes over, and what it
had not seen is done again.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from onkel.app.disk import InUse, holds, lock_folder, private_folder
from onkel.app.errors import OutputProblem, StateProblem
from onkel.app.notify.messages import Message
from onkel.app.run.differing import differences
from onkel.app.run.fleets import NOTE, model_of_record
from onkel.app.run.ledger import OUTBOX, Checkpoint, Kept, Ledger
from onkel.app.run.outputs import check_written, is_gone
from onkel.app.run.store import Place, Store, model_files, read
from onkel.files import loads


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

    def __init__(
        self, folder: str | Path, writable: bool = True, output_lost: bool = False
    ) -> None:
        self.folder, self._output_lost = Path(folder), output_lost
        self._lock = self._locked() if writable else -1
        try:
            self._ledger = Ledger(self.folder, writable)
            self.last = Checkpoint()
            self.store = Store(self.folder, 0, {})
            self.meta, self.note = self._ledger.meta, self._ledger.note
            self.database, self.open_outbox = self._ledger.path, self._ledger.open_outbox
            self.messages_waiting = self._ledger.waiting
            if writable:
                self._choose()
        except BaseException:
            self._unlock()
            raise

    def _locked(self) -> int:
        try:
            private_folder(self.folder)
            return lock_folder(self.folder)
        except InUse as error:
            raise StateProblem(
                f"{error}. Wait for it, stop it, or give this run a --state of its own."
            ) from None
        except OSError as error:
            raise StateProblem(f"{self.folder}: cannot be used: {error.strerror}.") from None

    @property
    def has_outbox(self) -> bool:
        """Whether a run in it has delivered messages, or was to."""
        return self.meta(OUTBOX) is not None

    # -- what was committed --------------------------------------------------------------------

    def kept(self) -> list[Kept]:
        """Return the checkpoints of a state that is only looked at, newest first."""
        return self._ledger.found

    def newest_whole(self) -> tuple[Kept | None, str]:
        """Return the newest checkpoint that is whole, and what is wrong with newer ones."""
        problems = []
        for kept in self._ledger.found:
            try:
                self._check(kept)
            except StateProblem as problem:
                problems.append(str(problem))
                continue
            return kept, " ".join(dict.fromkeys(problems))
        return None, " ".join(dict.fromkeys(problems))

    def _choose(self) -> None:
        """Take the newest generation that is whole; raise if there are some, but none is."""
        kept, problems = self.newest_whole()
        if kept is not None:
            self.last = kept.checkpoint
            self.store = Store(self.folder, self.last.generation, dict(kept.places))
            self._ledger.go_on_from(kept)
            self._clean()
        elif problems:
            raise StateProblem(problems)

    def _check(self, kept: Kept) -> None:
        checkpoint, models = kept.checkpoint, kept.models()
        for name, size in checkpoint.outputs.items():
            path = self.folder / name  # an absolute name stays what it is
            if not (self._output_lost and is_gone(path)):
                check_written(path, size, checkpoint.ends[name])
        sizes = {g: path.stat().st_size for g, path in model_files(self.folder).items()}
        for place in kept.places.values():
            if sizes.get(place.generation, -1) < place.offset + place.length:
                raise StateProblem(f"{self.folder / place.file} is damaged or missing.")
        if len(models) == 1:
            self.model_at(*models.values())

    def model_at(self, place: Place) -> Any:
        """Return a model, or raise StateProblem where its bytes are damaged."""
        data, note = read(self.folder, place), self.meta(NOTE)
        try:
            return loads(data) if note is None else model_of_record(note, data)
        except ValueError as error:
            raise StateProblem(f"{self.folder / place.file} is damaged: {error}") from None

    # -- the settings --------------------------------------------------------------------------

    def agree(self, settings: dict[str, Any]) -> None:
        """Note the settings of a new state; raise if they are not those of an old one.

        A run that died (or was refused) before its first checkpoint binds nobody.
        """
        known = self.meta("settings")
        if known is None or self.last.generation == 0:
            self.note("settings", settings)
            return
        given = json.loads(json.dumps(settings))
        if known["task"] != given["task"]:
            raise StateProblem(
                f"{self.folder} belongs to a run of onkel {known['task']}, and this is onkel "
                f"{given['task']}. Give this run a --state of its own."
            )
        told = differences(known, given)
        if told:
            raise StateProblem(
                f"{self.folder} belongs to a run with other settings: {told}. Use those, or give "
                "this run a --state of its own."
            )

    # -- committing ----------------------------------------------------------------------------

    def commit(
        self, checkpoint: Checkpoint, messages: dict[str, list[Message]] | None = None,
        opened: dict[str, list[int]] | None = None,
    ) -> None:  # fmt: skip
        """Make a checkpoint of this and of the models put into the store: all of it or nothing.

        Messages to be delivered, by target, are part of it, and the incidents that each target
        was told to be open; those of the last checkpoint unless told.
        """
        if not holds(self._lock, self.folder):
            raise OutputProblem(
                f"{self.folder} was moved, removed or replaced while this run was using it. Put it "
                "back where it was, and the same command goes on."
            )
        changed = self.store.finish()
        checkpoint.generation = self.store.generation
        new = {target: found for target, found in (messages or {}).items() if found}
        made = self.last.messages
        more = {target: made.get(target, 0) + len(found) for target, found in new.items()}
        checkpoint.messages = {**made, **more}
        checkpoint.opened = self.last.opened if opened is None else opened
        self._ledger.commit(checkpoint, changed, new)
        self.last = checkpoint
        self._clean()

    def give_up_lost(self) -> None:
        """Note for good that outputs which are gone begin anew, with the next row's results."""
        known = self.last.outputs
        gone = [name for name, size in known.items() if size and is_gone(self.folder / name)]
        if not gone:
            return
        counters = dict(self.last.counters)
        counters["lost"] = {**counters["lost"], **dict.fromkeys(gone, counters["rows"])}
        outputs, ends = known | dict.fromkeys(gone, 0), self.last.ends | dict.fromkeys(gone, 0)
        self.commit(replace(self.last, counters=counters, outputs=outputs, ends=ends))

    def _clean(self) -> None:
        self.store.remove_all_but(self._ledger.generations())

    def close(self) -> None:
        """Close the database and let others in."""
        self.store.close()
        self._ledger.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
