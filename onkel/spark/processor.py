"""What Spark's workers do: the rows of a group of keys, key by key, in the order of event time."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import types
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from onkel import files
from onkel.judge import Columns, Detected, Judge, Predicted
from onkel.spark.columns import Reader
from onkel.spark.models import CACHE, Held, Key, Models
from onkel.spark.table import NO_FEATURES, NO_KEY, NO_TARGET, NO_TIME, Table

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


class Processor(StatefulProcessor):
    """One group of keys after another, with a model for each key.

    Keys come in groups since Spark's price for a call (a data frame in, one out, a key to set) is
    several times that of learning some rows; inside a group a key costs two calls to the state.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the states."""
        plan = self.plan
        key, idle = struct(plan.keys), plan.idle
        self._groups = handle.getValueState("groups", struct({"groups": _INT}))
        heads = handle.getMapState("heads", key, struct(HEAD), idle)
        base = struct({"file": _BYTES})
        bases = handle.getMapState("bases", key, base, None if idle is None else 2 * idle)
        start = files.loads(plan.model, **plan.own)
        self.models = Models(heads, bases, lambda: copy.deepcopy(start), plan.own, idle)
        CACHE.limit = plan.cache

    def close(self) -> None:
        """Nothing is open."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Judge and learn a group's rows."""
        self._check_groups()
        now = int(timerValues.getCurrentProcessingTimeInMs())
        table = self.table(pd.concat(list(rows), ignore_index=True))
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
            self._groups.update((self.plan.groups,))
        elif known[0] != self.plan.groups:
            raise ValueError(
                f"keyed: groups={self.plan.groups}, but this checkpoint was begun with groups="
                f"{known[0]}, and that cannot change. Give that number, or a new checkpoint."
            )

    # -- one key -----------------------------------------------------------------------------------

    def _key(self, key: Key, table: Table, part: slice, now: int) -> None:
        """Judge and learn one key's rows, and write down what it knows now."""
        at = self._sound(key, table, np.arange(part.start, part.stop))
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

    def _sound(self, key: Key, table: Table, at: Array) -> Array:
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
        learned = sum(self._stretch(key, held, table, part) for part in table.stretches(at))
        taken = at[table.error[at] == None]  # noqa: E711
        held.head = head._replace(
            time=max(head.time, float(table.seconds[taken].max(initial=-np.inf))),
            learned=head.learned + learned, late=head.late + int(late.sum()),
        )  # fmt: skip
        return learned

    def _stretch(self, key: Key, held: Held, table: Table, at: Array) -> int:
        """Learn rows in one call; where that is refused, one after another, to find the row."""
        judge = self.plan.judge
        try:
            rows = table.rows(at, held.head.time)
            found = judge(held.model, rows)
        except _REFUSALS as error:
            if len(at) == 1:
                self._refuse(key, table, int(at[0]), str(error))
                return 0
            return sum(self._stretch(key, held, table, at[i : i + 1]) for i in range(len(at)))
        table.put(at, _columns(found))
        return judge.learned(rows)

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


def _columns(found: Detected | Predicted) -> Columns:
    """Return what came of rows; they are learned, so that no error may pass for a refusal."""
    try:
        return found.columns()
    except _REFUSALS as error:
        raise RuntimeError(f"rows were learned, but their columns failed: {error}") from error


def _name(key: Key) -> str:
    return repr(key[0] if len(key) == 1 else key)
