"""The rows of a group of keys, learned in as few calls as there can be.

All keys' rows go to the fleet at once; where targets are missing here and there, the first stretch
of every key, then the second. A call that is refused has changed nothing: the keys that caused it
are learned apart, each by an ordinary estimator that is put back into the fleet, the others in one
call again. So what comes out is what single estimators say that are given the same rows in the
same calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.inputs import LARGEST, RefusedRow
from onkel.spark.answers import Asked
from onkel.spark.arenas import Arena, Store
from onkel.spark.models import NEW, Held
from onkel.spark.pages import Key
from onkel.spark.table import NO_TARGET, Table

Array = NDArray[Any]


class Together:
    """A group's rows and its arena.

    Parameters
    ----------
    host : Processor
        Knows what is asked, what comes of a key's rows, and how a row is refused.
    table : Table
    arena : Arena
    """

    def __init__(self, host: Any, table: Table, arena: Arena) -> None:
        self.host, self.table, self.arena = host, table, arena
        self.who = np.full(len(table.lacks), -1, np.int64)
        self.since = np.full(len(table.lacks), -np.inf)

    def learn(self, store: Store, now: int) -> None:
        """Judge and learn all rows, and write down what is known of their keys now."""
        table, parts = self.table, [*self.table.by_key()]
        self._sound(parts)
        parts = [(key, part) for key, part in parts if table.codes[part.start] >= 0]
        numbers = self.arena.take([key for key, _ in parts], store, now)
        for number, (_, part) in zip(numbers.tolist(), parts, strict=True):
            self.who[part] = number
        counts, owned = self.arena.entries, self.who >= 0
        self.since[owned] = counts["time"][self.who[owned]]
        at = self._on_time(np.flatnonzero(owned & self._unrefused()))
        for rows in self._rounds(at):
            known = table.known(rows)
            self._call(rows[known], learns=True)
            self._call(rows[~known], learns=False)
        taken = at[self._unrefused()[at]]
        np.maximum.at(counts["time"], self.who[taken], table.seconds[taken])
        self._count("refused", np.flatnonzero(owned & ~self._unrefused()))
        if len(numbers):
            self.arena.write(numbers, store, now)

    def _unrefused(self) -> Array:
        found: Array = self.table.error == None  # noqa: E711
        return found

    def _count(self, name: str, at: Array) -> None:
        np.add.at(self.arena.entries[name], self.who[at], 1)

    def _sound(self, parts: list[tuple[Key, slice]]) -> None:
        """Refuse the rows that lack something."""
        lacking = (self.table.lacks & ~NO_TARGET) != 0
        for key, part in parts if lacking.any() else []:
            if lacking[part].any():
                self.host.sound(key, self.table, np.arange(part.start, part.stop))

    def _on_time(self, at: Array) -> Array:
        """Note which rows are late; return those that are learned."""
        self.table.late[at] = late = self.table.seconds[at] < self.since[at]
        self._count("late", at[late])
        return at[~late] if self.host.plan.late == "drop" else at

    def _rounds(self, at: Array) -> Iterator[Array]:
        """Yield the first stretch (with, or without targets) of each key, then the second, ..."""
        if not len(at):
            return
        who, known = self.who[at], self.table.known(at)
        first = np.diff(who, prepend=-1) != 0
        stretch = np.cumsum(first | (np.diff(known, prepend=~known[:1]) != 0))
        within = stretch - stretch[np.maximum.accumulate(np.where(first, np.arange(len(at)), 0))]
        for i in range(int(within.max()) + 1):
            yield at[within == i]

    # -- calls -------------------------------------------------------------------------------------

    def _call(self, at: Array, learns: bool) -> None:
        """Learn (or only judge) rows in one call; keys that are refused, apart."""
        while len(at):
            asked = self._asked(at)
            try:
                answer = asked.learn() if learns else asked.look()
            except self.host.refusals as error:
                apart = np.isin(self.who[at], self._suspects(at, error))
                self._apart(at[apart])
                at = at[~apart]
                continue
            self.table.put(at, self.host.columns(answer))
            if learns:
                self._count("learned", at)
            return

    def _asked(self, at: Array) -> Asked:
        who = self.who[at]
        begun = (self.arena.entries["learned"][who] > 0) | bool(self.arena.blank.record)
        rows = self.table.rows(at, self.since[at])
        return Asked(self.host.plan.judge, self.arena.fleet, who, rows, begun)

    def _suspects(self, at: Array, error: Exception) -> Array:
        """Return the keys for which a call may have been refused."""
        odd = self._odd(at)
        if isinstance(error, RefusedRow):
            odd[min(error.row, len(at) - 1)] = True
        return np.unique(self.who[at[odd]] if odd.any() else self.who[at])

    def _odd(self, at: Array) -> Array:
        """Return which rows are of another length, or have numbers that may be refused."""
        X, width = self.table.X[at], self.arena.blank.form["features"]
        plain = np.full((len(at), width), np.inf)
        for i in range(len(at)):
            plain[i] = X[i] if len(X[i]) == width else np.inf
        with np.errstate(invalid="ignore"):
            return np.asarray(~(np.abs(plain) <= LARGEST).all(axis=1))

    def _apart(self, at: Array) -> None:
        """Learn keys one by one, by ordinary estimators; rows that are refused are found so."""
        arena = self.arena
        for number in dict.fromkeys(self.who[at].tolist()):
            own = at[self.who[at] == number]
            key, model = arena.directory.names[number], arena.fleet[number]
            held = Held(model, NEW._replace(time=float(self.since[own[0]])))
            learned = self.host.stretch(key, held, self.table, own)
            if learned:
                arena.fleet[number] = model
                arena.entries["learned"][number] += learned
