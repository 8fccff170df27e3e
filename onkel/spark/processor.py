"""What Spark's workers do: the rows of a group of keys, in the order of event time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import types
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from onkel import files
from onkel.judge import Columns, Judge
from onkel.spark.arenas import ARENA, Arena, Blank, Store, blank_of, checked, other_groups
from onkel.spark.columns import Reader
from onkel.spark.models import CACHE, Held, Key, Models
from onkel.spark.pages import Pages, key_columns
from onkel.spark.table import NO_FEATURES, NO_KEY, NO_TARGET, NO_TIME, Table
from onkel.spark.together import Together

Array = NDArray[Any]

_LACKS = {NO_KEY: "its key is null", NO_TIME: "its time is null", NO_FEATURES: "it has no features"}
_REFUSALS = (ValueError, TypeError, OverflowError)
"""What the library raises for a row that it will not take; the model is as it was."""
_INT, _LONG, _BYTES = types.IntegerType(), types.LongType(), types.BinaryType()
HEAD = {
    "layout": _INT, "format": _INT, "time": types.DoubleType(), "learned": _LONG, "late": _LONG,
    "refused": _LONG, "digest": _BYTES, "based": _LONG, "data": _BYTES,
}  # fmt: skip
"""The types of :class:`onkel.spark.models.Head`."""
_OTHER_LAYOUT = (
    "keyed: this checkpoint keeps its models in another way: it was begun by an older onkel, or "
    "with another kind of model or of features. Give what it was begun with, or a new checkpoint."
)


def struct(columns: dict[str, Any]) -> types.StructType:
    """Return a Spark schema."""
    return types.StructType([types.StructField(name, kind) for name, kind in columns.items()])


@dataclass(frozen=True)
class Plan:
    """What a worker must know; all of it can be sent anywhere.

    Parameters
    ----------
    model : bytes
        The file of the model that each key starts with.
    judge : Judge
        What comes out.
    keys : dict
        Names and Spark types of the key's columns.
    fields : dict
        Names and types of what the judge says.
    features : list of str
        Names, for messages.
    scale : float
        What a time is multiplied with to have seconds.
    late, on_error, alerts_only, groups, idle, cache, own
        As :func:`onkel.spark.keyed` has them; `idle` in milliseconds, `cache` in bytes.
    """

    model: bytes
    judge: Judge
    keys: dict[str, Any]
    fields: dict[str, Any]
    features: list[str]
    scale: float
    late: str
    on_error: str
    alerts_only: bool
    groups: int
    idle: int | None
    cache: int
    own: dict[str, Any] = field(default_factory=dict)
    reader: Reader | None = None
    """For features that are not all numbers."""
    together: bool = True
    """Whether the models of a group are one fleet, where they can be."""


class Processor(StatefulProcessor):
    """One group of keys after another, with a model for each key.

    Keys come in groups since Spark's price for a call (a data frame in, one out, a key to set) is
    several times that of learning some rows. Where cells can hold the models, a group costs some
    calls to the state (:mod:`onkel.spark.arenas`); else each of its keys costs two.
    """

    refusals = _REFUSALS

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the states."""
        plan = self.plan
        start = files.loads(plan.model, **plan.own)
        self._groups = handle.getValueState("groups", struct({"groups": _INT}))
        self._arena = handle.getValueState("arena", struct(ARENA))
        self.blank = self._blank(start)
        if self.blank is None:
            self._open_models(handle, lambda: copy.deepcopy(start))
        else:
            self._open_pages(handle)
        CACHE.limit = plan.cache

    def _blank(self, start: Any) -> Blank | None:
        """Return how models are kept together, if they can be: they must see named numbers."""
        plan = self.plan
        if not plan.together or plan.reader is not None or plan.own or not plan.features:
            return None
        return blank_of(start, len(plan.features), plan.judge.names)

    def _open_models(self, handle: StatefulProcessorHandle, fresh: Callable[[], Any]) -> None:
        key, idle = struct(self.plan.keys), self.plan.idle
        heads = handle.getMapState("heads", key, struct(HEAD), idle)
        base = struct({"file": _BYTES})
        bases = handle.getMapState("bases", key, base, None if idle is None else 2 * idle)
        self.models = Models(heads, bases, fresh, self.plan.own, idle)

    def _open_pages(self, handle: StatefulProcessorHandle) -> None:
        plan, number = self.plan, struct({"page": _LONG})
        life = None if plan.idle is None else 2 * plan.idle
        keys = handle.getMapState("keys", number, struct(key_columns(plan.keys)), life)
        data = handle.getMapState("pages", number, struct({"data": _BYTES}), life)
        self.store = Store(self._arena, Pages(keys, data, len(plan.keys)), plan.groups, plan.idle)

    def close(self) -> None:
        """Nothing is open."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Judge and learn a group's rows."""
        now = int(timerValues.getCurrentProcessingTimeInMs())
        table = self.table(pd.concat(list(rows), ignore_index=True))
        if self.blank is not None:
            self._together(tuple(key), self.blank, table, now)
        else:
            self._check_groups()
            for name, part in table.by_key():
                self._key(name, table, part, now)
        yield table.frame(self.plan.alerts_only)

    def table(self, frame: Any) -> Table:
        """Return a group's rows in order."""
        plan = self.plan
        return Table(frame, list(plan.keys), plan.fields, plan.scale, plan.reader)

    def _check_groups(self) -> None:
        """Raise if keys were spread over another number of groups: their models lie elsewhere."""
        known = self._groups.get()
        if known is None:
            if self._arena.get() is not None:
                raise ValueError(_OTHER_LAYOUT)
            self._groups.update((self.plan.groups,))
        elif known[0] != self.plan.groups:
            raise ValueError(other_groups(self.plan.groups, known[0]))

    # -- a group at once ---------------------------------------------------------------------------

    def _together(self, group: Key, blank: Blank, table: Table, now: int) -> None:
        """Judge and learn a group's rows; the arena is held on to when all is written."""
        row = checked(self._arena.get(), blank, self.plan.groups)
        if row is None and self._groups.get() is not None:
            raise ValueError(_OTHER_LAYOUT)
        name = ("arena", blank.seed, *group)
        arena = CACHE.take(name, blank.seed if row is None else bytes(row[5]))
        if arena is None:
            arena = Arena(blank, row)
            arena.read(self.store)
        self.learn_all(table, arena, now)
        CACHE.put(name, arena)

    def learn_all(self, table: Table, arena: Arena, now: int) -> None:
        """Judge and learn a group's rows, and write what changed."""
        Together(self, table, arena).learn(self.store, now)

    # -- one key -----------------------------------------------------------------------------------

    def _key(self, key: Key, table: Table, part: slice, now: int) -> None:
        """Judge and learn one key's rows, and write down what it knows now."""
        at = self.sound(key, table, np.arange(part.start, part.stop))
        if table.lacks[part.start] & NO_KEY:
            return
        try:
            held = self.models.take(key)
        except ValueError as error:
            raise ValueError(f"key {_name(key)}: {error}") from None
        learned = self.learn(key, held, table, at)
        refused = sum(e is not None for e in table.error[part])
        held.head = held.head._replace(refused=held.head.refused + refused)
        self.models.put(key, held, learned > 0, now)

    def sound(self, key: Key, table: Table, at: Array) -> Array:
        """Return the rows that lack nothing; refuse the others."""
        lacking = (table.lacks[at] & ~NO_TARGET) != 0
        for i in at[lacking].tolist():
            why = next(text for bit, text in _LACKS.items() if table.lacks[i] & bit)
            self._refuse(key, table, i, f"{why}.")
        return at[~lacking]

    def learn(self, key: Key, held: Held, table: Table, at: Array) -> int:
        """Judge and learn a key's rows; return how many were learned."""
        head = held.head
        table.late[at] = late = table.seconds[at] < head.time
        if self.plan.late == "drop":
            at = at[~late]
        learned = sum(self.stretch(key, held, table, part) for part in table.stretches(at))
        taken = at[table.error[at] == None]  # noqa: E711
        held.head = head._replace(
            time=max(head.time, float(table.seconds[taken].max(initial=-np.inf))),
            learned=head.learned + learned, late=head.late + int(late.sum()),
        )  # fmt: skip
        return learned

    def stretch(self, key: Key, held: Held, table: Table, at: Array) -> int:
        """Learn rows in one call; where that is refused, one after another, to find the row."""
        judge = self.plan.judge
        try:
            rows = table.rows(at, held.head.time)
            found = judge(held.model, rows)
        except _REFUSALS as error:
            if len(at) == 1:
                self._refuse(key, table, int(at[0]), str(error))
                return 0
            return sum(self.stretch(key, held, table, at[i : i + 1]) for i in range(len(at)))
        table.put(at, self.columns(found.columns))
        return judge.learned(rows)

    def columns(self, answer: Callable[[], Columns]) -> Columns:
        """Return what came of rows; they are learned, so that no error may pass for a refusal."""
        try:
            return answer()
        except _REFUSALS as error:
            raise RuntimeError(f"rows were learned, but their columns failed: {error}") from error

    def _refuse(self, key: Key, table: Table, i: int, why: str) -> None:
        """Say which row it was: as an error, or in its own row of the output."""
        text = f"key {_name(key)}, time {self._time(table, i)}, row {self._row(table, i)}: {why}"
        if self.plan.on_error == "raise":
            raise ValueError(text)
        table.error[i] = text

    def _time(self, table: Table, i: int) -> str:
        if table.lacks[i] & NO_TIME:
            return "null"
        time = table.time[i]
        return str(np.datetime64(int(time), "us") if self.plan.scale == 1e-6 else time)

    def _row(self, table: Table, i: int) -> str:
        names, values = self.plan.features, table.values(i)
        if len(names) != len(values):
            return f"{values!r:.200}"
        return f"{dict(zip(names, values, strict=True))!r:.200}"


def _name(key: Key) -> str:
    return repr(key[0] if len(key) == 1 else key)
