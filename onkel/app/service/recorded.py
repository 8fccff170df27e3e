"""What a model has learned, read again from log and archive: rows in blocks, answers between them.

It is read twice. The first time says what there is, and which records were refused: that is told
by later ones. Requests are put together, since many bring one row.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.app.service import feedback
from onkel.app.service.bodies import Entry
from onkel.app.service.log import Record
from onkel.app.service.replay import entry_of

Array = NDArray[Any]

LEARNING = ("learn", "predict-then-learn")
FORGET, MADE = "forget", "create"
ROWS, BYTES = 4096, 2**22
"""Requests are put together up to so many rows, or bytes of their numbers and texts."""


class Said(NamedTuple):
    """An answer to an alert."""

    key: Any
    id: int
    answer: str
    life: int = 0
    """How often the key had been forgotten before: each time its alerts are counted anew."""


def said(entry: Entry) -> list[Said]:
    """Return the answers of a record."""
    ids, answers = entry.alerts or [], entry.answers or []
    keys: Sequence[Any] = entry.keys or [None] * len(ids)
    return [Said(k, int(id), a) for k, id, a in zip(keys, ids, answers, strict=True)]


# -- the first time ----------------------------------------------------------------------------


class _Brief(NamedTuple):
    """What is remembered of a record until it is known whether it was refused."""

    position: int
    entry: Entry
    rows: int


@dataclass
class Survey:
    """What there is of a model.

    Parameters
    ----------
    by_key : bool
        Whether rows are counted by their keys.
    """

    by_key: bool = False
    rows: int = 0
    learned: int = 0
    """Of these; rows without weight are only judged."""
    begin: float = math.inf
    end: float = -math.inf
    """Times of the first and the last row; infinite where none is known."""
    refused: set[int] = field(default_factory=set)
    answers: list[Said] = field(default_factory=list)
    learned_by_key: Counter[Any] = field(default_factory=Counter)
    """Of each key that has rows: since it was last forgotten."""
    lives: Counter[Any] = field(default_factory=Counter)
    """How often a key was forgotten."""
    made: bool = False
    """Whether the model was made by one of the records, so that nothing came before them."""
    _open: deque[_Brief] = field(default_factory=deque)

    @classmethod
    def of(
        cls, records: Iterable[Record], refused: Iterable[int], by_key: bool = False,
        upto: float = math.inf,
    ) -> Survey:  # fmt: skip
        """Return what some records hold; `refused` are those of which the log does not say so.

        Records behind `upto` only tell what was refused.
        """
        found = cls(by_key)
        for record in records:
            entry = entry_of(record)
            if record.position <= upto:
                found.add(record.position, entry)
            else:
                found.refused.update(entry.refused or ())
        found.refused.update(refused)
        found.decide(math.inf)
        return found

    def add(self, position: int, entry: Entry) -> None:
        """Take a record in; it counts as soon as one tells that it was not refused."""
        self.refused.update(entry.refused or ())
        self.decide(entry.decided)
        rows = entry.count if entry.op in LEARNING else 0
        entry.numbers, entry.texts, entry.cells, entry.file = b"", None, None, b""
        self._open.append(_Brief(position, entry, rows))

    def decide(self, upto: float) -> None:
        """Count the records up to a position: which of them were refused is known."""
        while self._open and self._open[0].position <= upto:
            brief = self._open.popleft()
            if brief.position not in self.refused:
                self._count(brief.entry, brief.rows)

    def _count(self, entry: Entry, rows: int) -> None:
        if entry.op == feedback.OP:
            self.answers += [one._replace(life=self.lives[one.key]) for one in said(entry)]
        elif entry.op == FORGET:
            for key in entry.keys or ():
                self.lives[key] += 1
                if key in self.learned_by_key:
                    self.learned_by_key[key] = 0
        elif rows:
            self._count_rows(entry, rows)
        elif entry.op == MADE:
            self.made = True

    def cut(self) -> frozenset[Any]:
        """Return keys that were forgotten, and may have learned rows before these records.

        How many is not told anywhere: which of the alerts of that first life has which number is
        not known.
        """
        return frozenset() if self.made else frozenset(self.lives)

    def known(self) -> list[Said]:
        """Return the answers to alerts whose numbers are known."""
        cut = self.cut()
        return [one for one in self.answers if one.life or one.key not in cut]

    def _count_rows(self, entry: Entry, rows: int) -> None:
        weight = entry.sample_weight
        self.rows += rows
        self.learned += rows if weight is None else sum(w > 0 for w in weight)
        times = times_of(entry, rows)
        self.begin = min(self.begin, float(times[0]))
        self.end = max(self.end, float(times.max()))
        if self.by_key:
            keys = entry.keys or ()
            self.learned_by_key.update(keys if weight is None else dict.fromkeys(keys, 0))
            if weight is not None:
                self.learned_by_key.update(k for k, w in zip(keys, weight, strict=True) if w)


def times_of(entry: Entry, rows: int) -> Array:
    """Return when rows were, in seconds: as they say it themselves, or when their request came.

    Of rows that were learned when nothing was to be kept nobody knows it: −∞, before all others.
    """
    if entry.time is not None:
        return np.asarray(entry.time, float)
    return np.full(rows, entry.stamp or -math.inf)


# -- the second time ---------------------------------------------------------------------------


class Step(NamedTuple):
    """Rows that a model has learned, or answers, or keys that it has forgotten."""

    entry: Entry
    rows: Array
    """Numbers of the rows."""
    times: Array

    @property
    def learns(self) -> bool:
        """Whether there are rows."""
        return self.entry.op in LEARNING


def steps(
    records: Iterable[Record], refused: set[int], first: int, keys: frozenset[Any] | None = None
) -> Iterator[Step]:
    """Yield what a model did, in order; rows are numbered from `first`.

    With `keys` only their rows are there; the others are counted.
    """
    waiting, latest = _Waiting(first, keys), -math.inf
    for record in records:
        if record.position in refused:
            continue
        entry = entry_of(record)
        if entry.op not in LEARNING:
            if entry.op in (feedback.OP, FORGET):
                yield from waiting.flushed()
                yield Step(entry, np.zeros(0, int), np.zeros(0))
            continue
        if not waiting.takes(entry):
            yield from waiting.flushed()
        if entry.time is None and entry.stamp:  # requests that come at once may change places
            latest = entry.stamp = max(entry.stamp, latest)
        waiting.add(entry)
    yield from waiting.flushed()


class _Waiting:
    """Requests that are to be put together."""

    def __init__(self, first: int, keys: frozenset[Any] | None) -> None:
        self.next, self.keys = first, keys
        self._entries: list[Entry] = []
        self._times: list[Array] = []
        self._rows = self._bytes = 0

    def takes(self, entry: Entry) -> bool:
        """Whether a request goes with those that wait."""
        if not self._entries:
            return True
        room = self._rows < ROWS and self._bytes < BYTES
        return room and _form(entry) == _form(self._entries[0])

    def add(self, entry: Entry) -> None:
        """Take a request in."""
        count = entry.count
        self._entries.append(entry)
        self._times.append(times_of(entry, count))
        self._rows += count
        texts = entry.texts if entry.cells is None else (c for col in entry.cells for c in col)
        self._bytes += len(entry.numbers) + sum(len(str(text)) for text in texts or ())

    def flushed(self) -> Iterator[Step]:
        """Yield what waits as one step, if there is something."""
        if not self._entries:
            return
        rows, times = np.arange(self.next, self.next + self._rows), np.concatenate(self._times)
        entry = together(self._entries)
        self.next += self._rows
        self._entries, self._times, self._rows, self._bytes = [], [], 0, 0
        if self.keys is None:
            yield Step(entry, rows, times)
            return
        at = [i for i, key in enumerate(entry.keys or ()) if key in self.keys]
        if at:
            yield Step(part(entry, at), rows[at], times[at])


def _form(entry: Entry) -> tuple[Any, ...]:
    """Return what must be alike in requests that are put together."""
    columns = None if entry.cells is None else (entry.names or len(entry.cells))
    has = [getattr(entry, name) is None for name in ("texts", "sample_weight", "time", "keys")]
    return entry.width, columns, has


def together(entries: Sequence[Entry]) -> Entry:
    """Return one request with the rows of several that are alike.

    Examples
    --------
    >>> rows = [Entry("learn", 1, width=1, numbers=np.array([x]).tobytes()) for x in (1.0, 2.0)]
    >>> together(rows).rows().tolist()
    [[1.0], [2.0]]
    """
    first = entries[0]
    if len(entries) == 1:
        return first
    found = Entry(
        LEARNING[0], first.model, width=first.width, names=first.names, plan=first.plan,
        numbers=b"".join([entry.numbers for entry in entries]),
    )  # fmt: skip
    for name in ("texts", "sample_weight", "time", "keys"):
        if getattr(first, name) is not None:
            setattr(found, name, [v for entry in entries for v in getattr(entry, name)])
    if first.time is None:
        found.stamp = first.stamp
    if first.cells is not None:
        columns = zip(*[entry.cells or [] for entry in entries], strict=True)
        found.cells = [[v for part in column for v in part] for column in columns]
    return found


def part(entry: Entry, at: Sequence[int]) -> Entry:
    """Return a request with some of its rows, which are numbers."""
    found = Entry(LEARNING[0], entry.model, width=entry.width)
    found.numbers = entry.rows()[at].tobytes()
    for name in ("sample_weight", "time", "keys"):
        if (values := getattr(entry, name)) is not None:
            setattr(found, name, [values[i] for i in at])
    return found
