"""From the disk back to models: what was decided once is not decided otherwise a second time.

Each record of a model says up to where the model's records had been applied or refused when it
was logged, and which were refused. A record that was refused is left out; one that was applied,
and cannot be applied again, takes its model out of use; one of which nothing is known (its answer
was on its way when the service ended) is decided now.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from onkel.app.http.problems import Problem
from onkel.app.service import calls, codec, pending
from onkel.app.service.bodies import Entry
from onkel.app.service.incidents import ModelIncidents, incidents_of
from onkel.app.service.keys import Remembered
from onkel.app.service.log import Record
from onkel.app.service.notices import Batch, Notices
from onkel.app.service.places import MAKING
from onkel.app.service.slots import Slot, Spec, inner
from onkel.app.service.specs import build
from onkel.fleet import Fleet

NOTE = "note"
_ENTRY = msgspec.msgpack.Decoder(Entry)


class Unreadable(RuntimeError):
    """A model cannot be brought back."""


class _Noted(msgspec.Struct):
    """What a record says of those before it; the rest of it is passed over."""

    model: int
    decided: int = 0
    refused: list[int] = []


_NOTED = msgspec.msgpack.Decoder(_Noted)


class Notes:
    """What records say of others: up to where all were decided, and which were refused."""

    def __init__(self, refused: Iterable[int] = ()) -> None:
        self.refused = set(refused)
        self.anew: set[int] = set()
        """Of these, those that were refused just now, and of which no record says so."""
        self.decided: dict[int, int] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Take in what records say; one that is damaged says nothing."""
        for record in records:
            try:
                found = _NOTED.decode(record.body) if record.whole else _Noted(0)
            except msgspec.MsgspecError:
                continue
            self.refused.update(found.refused)
            known = self.decided.get(found.model, 0)
            self.decided[found.model] = max(known, found.decided)

    def undecided(self, record: Record, error: Exception) -> bool:
        """Whether a record that cannot be applied may be refused: nobody was told otherwise.

        Where memory was short it may be applied the next time.
        """
        later = record.position > self.decided.get(record.owner, 0)
        return later and not isinstance(error, MemoryError)


def entry_of(record: Record) -> Entry:
    """Return what a record holds, or raise Unreadable."""
    words = f"record {record.position} of its log"
    if not record.whole:
        raise Unreadable(f"{words} is damaged")
    try:
        return _ENTRY.decode(record.body)
    except msgspec.MsgspecError as error:
        raise Unreadable(f"{words} makes no sense ({error})") from error


def made(entry: Entry) -> Any:
    """Return the estimator of a record that brings one."""
    if entry.file:
        return codec.loads(entry.file)
    model = build(entry.kind, parameters_of(entry))
    return Fleet(model, share=entry.share) if entry.keyed else pending.made(model, entry)


def kind_of(estimator: Any) -> str:
    """Return what a model is; of one with keys, what each of them has."""
    estimator = inner(estimator)
    return type(estimator.estimator if isinstance(estimator, Fleet) else estimator).__name__


def parameters_of(entry: Entry) -> dict[str, Any]:
    """Return the parameters that a new model was asked for with."""
    return msgspec.json.decode(entry.parameters) if entry.parameters else {}


def note_of(slot: Slot, guard: threading.RLock) -> Entry:
    """Return a record that says which of a model's were refused, and nothing else."""
    with guard:
        return Entry(NOTE, slot.spec.id, decided=slot.position, refused=sorted(slot.refused))


def spec_of(position: int, entry: Entry, kind: str) -> Spec:
    """Return what a record that brings a model says of it."""
    return Spec(
        entry.model, entry.name, kind, parameters_of(entry), entry.features, position, entry.keyed
    )


def words_of(error: BaseException) -> str:
    """Return what went wrong, briefly."""
    found = str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
    return found[:1000]


def unchanged(estimator: Any, t: int, error: BaseException) -> bool:
    """Whether a refused call has left a model as it was, as refusals in its own words do."""
    return isinstance(error, Problem) and time_of(estimator) == t


def time_of(estimator: Any) -> int:
    """Return how many examples a model has learned."""
    return getattr(estimator, "t_", 0)


@dataclass
class Revived:
    """A model that comes back, with what its records have brought."""

    model: Any
    incidents: ModelIncidents | None
    answers: list[Remembered] = field(default_factory=list)
    messages: list[Batch] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    """Records of which nobody had been told whether they were applied, and that cannot be."""


def loaded(data: bytes | None, incidents: bytes | None) -> Revived:
    """Return a model and its incidents from their files; nothing, where there are none yet."""
    if data is None:
        return Revived(None, None)
    model = codec.loads(data)
    return Revived(model, incidents_of(inner(model), incidents))


def revived(
    load: Callable[[], Revived], records: list[Record], spec: Spec, notes: Notes,
    remember: Callable[[Remembered], None] | None = None, notices: Notices | None = None,
) -> Revived:  # fmt: skip
    """Return a model as it is after some records; `load` returns it as it was before them.

    `remember` is told the answers, `notices` the alerts. Raises whatever keeps a model from coming
    back.
    """
    while True:  # once more without each record that has moved the model and then failed
        found = load()
        if not any(_one(found, record, spec, notes, notices) for record in records):
            break
    if found.model is None:
        raise Unreadable("nothing there says how it was made")
    if remember is not None:
        for answer in found.answers:
            remember(answer)
    for batch in found.messages:
        assert notices is not None
        notices.take(*batch)
    found.refused = notes.anew.intersection(record.position for record in records)
    return found


def _one(
    found: Revived, record: Record, spec: Spec, notes: Notes, notices: Notices | None
) -> bool:  # fmt: skip
    """Apply one record; return whether it was refused, and the model has moved all the same."""
    model, entry, position = found.model, entry_of(record), record.position
    t = time_of(model)
    if position in notes.refused or entry.op in (NOTE, "delete"):
        return False
    if entry.op in MAKING:
        found.model = made(entry)
        found.incidents = incidents_of(inner(found.model))
        return False
    try:
        body, said, rows = calls.learned(model, entry, spec.features, position)
    except Exception as error:
        check_undecided(record, notes, error)
        return not unchanged(model, t, error)
    happened = None
    if found.incidents is not None:
        happened = found.incidents.take(entry, position, inner(model), said, rows, spec.features)
    found.answers.append(calls.remembered(entry, position, 200, body, spec.name))
    if notices is not None:
        messages = notices.messages(spec, entry, position, inner(model), said, happened)
        found.messages.append((spec.id, position, messages))
    return False


def check_undecided(record: Record, notes: Notes, error: Exception) -> None:
    """Refuse a record for good if nobody was told that it was applied; else raise Unreadable."""
    if not notes.undecided(record, error):
        words = f"record {record.position} of its log cannot be applied again"
        raise Unreadable(f"{words} ({words_of(error)})") from error
    notes.refused.add(record.position)
    notes.anew.add(record.position)
