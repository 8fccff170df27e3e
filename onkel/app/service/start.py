"""The start: the last snapshot, then what the log has beyond it; what cannot come back is named."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from onkel.app.http.problems import Problem
from onkel.app.service import replay
from onkel.app.service.bodies import Entry
from onkel.app.service.keeper import Keeper
from onkel.app.service.keys import Remembered
from onkel.app.service.log import Record
from onkel.app.service.places import MAKING
from onkel.app.service.slots import Slot, Spec
from onkel.app.service.snapshots import Saved

_LOG = logging.getLogger("onkel.service")
Apply = Callable[[int, Entry, Any, Slot | None], Remembered]


class Start:
    """Fills models and keys from the disk.

    Parameters
    ----------
    keeper : Keeper
        Knows the disk and the models.
    apply : function
        Applies a record: position, entry, nothing, model.
    pool : Executor
        For the models' threads.
    """

    def __init__(self, keeper: Keeper, apply: Apply, pool: Executor) -> None:
        self.keeper = keeper
        self.models = keeper.models
        self.replayed = 0
        self._apply = apply
        self._pool = pool
        self._notes = replay.Notes()

    def run(self) -> None:
        """Take the last snapshot over, then apply what the log has beyond it."""
        state, models, start = self.keeper.state, self.models, self.keeper.log_start
        models.next_id, models.settled = state.meta("next_id", 1), state.meta("settled", 0)
        self._notes.add(state.log.recover(start))
        if self.keeper.notices is not None:
            self.keeper.notices.begin(state.log.next)
        for answer in state.answers():
            self.keeper.keys.add(answer, saved=True)
        for saved in state.models():
            self._enter(saved)
        for record in state.log.records(start - 1, state.log.next):
            self._again(record)
        state.clean()

    def _enter(self, saved: Saved) -> None:
        self.keeper.files[saved.spec.id] = saved
        try:
            found = self.keeper.load(saved, self._notes)
            slot = Slot(saved.spec, found.model, self._pool, found.incidents)
        except Exception as error:
            words = f"{saved} cannot be loaded ({replay.words_of(error)})."
            self.models.set_aside(saved.spec, words)
            return
        slot.refused |= found.refused
        slot.position = saved.position
        slot.saved = -1 if saved.tails else saved.position
        self.models.enter(slot)

    def _again(self, record: Record) -> None:
        """Apply a record of the log once more, if the snapshot does not have it."""
        try:
            entry = replay.entry_of(record)
        except replay.Unreadable as error:
            self._lost(record, error)
            return
        self.models.next_id = max(self.models.next_id, entry.model + 1)
        slot = self.models.slots.get(entry.model)
        if self._passed_over(record.position, entry, slot):
            return
        self.replayed += 1
        t = replay.time_of(slot.estimator) if slot else 0
        try:
            self.keeper.keys.add(self._apply(record.position, entry, None, slot))
        except Exception as error:
            self._not_again(record, entry, slot, t, error)
        if slot is not None:
            slot.position = record.position

    def _passed_over(self, position: int, entry: Entry, slot: Slot | None) -> bool:
        """Whether a record is in the snapshot, was refused, or waits with a model set aside."""
        names = entry.op in (*MAKING, "delete")
        had = self.models.settled if names else slot.position if slot else 0
        waits = entry.model in self.models.aside and not names
        refused = position in self._notes.refused or entry.op == replay.NOTE
        return position <= had or waits or refused

    def _not_again(
        self, record: Record, entry: Entry, slot: Slot | None, t: int, error: Exception
    ) -> None:
        """Refuse a record that cannot be applied, or set its model aside if it once could."""
        if slot is None:
            self._not_made(record, entry, error)
            return
        try:
            replay.check_undecided(record, self._notes, error)
            slot.refused.add(record.position)
            words = "record %d of model %r, on which nothing was noted, is refused: %s"
            _LOG.warning(words, record.position, slot.spec.name, replay.words_of(error))
            if not replay.unchanged(slot.estimator, t, error):
                slot.model = self.keeper.rebuilt(slot, record.position)
        except Exception as found:
            self.models.set_aside(slot.spec, f"{replay.words_of(found)}.")

    def _not_made(self, record: Record, entry: Entry, error: Exception) -> None:
        """Set a model aside that cannot be made; unless it was gone, or its name taken, before."""
        if isinstance(error, Problem) and error.code in ("unknown_model", "name_taken"):
            return
        words = f"record {record.position} of the log, which makes it, cannot be applied"
        spec = replay.spec_of(record.position, entry, entry.kind)
        self.models.set_aside(spec, f"{words} ({replay.words_of(error)}).")

    def _lost(self, record: Record, error: Exception) -> None:
        """Set the model aside whose record is damaged, unless the snapshot has the record."""
        models, words = self.models, f"{error}. What it held is not known."
        slot = models.slots.get(record.owner)
        if slot is not None and record.position > slot.position:
            models.set_aside(slot.spec, words)
        elif slot is None and record.owner not in models.aside and record.position > models.settled:
            spec = Spec(record.owner, f"~{record.owner}", "", {}, created=record.position)
            models.next_id = max(models.next_id, record.owner + 1)
            models.set_aside(spec, f"{words} The model's name is not known either.")
