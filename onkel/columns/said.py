"""What answers to alerts have said of values: some are rare no more, others stay rare.

It stands beside the counts, which nobody's answer changes. A value of what was usual is no rarer
than was typical of its column then; one of a fault is as rare as nothing else is, however often it
comes. Of a time a value is an hour of the week, of a text a word that was rare.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core.answers import ALIKE, MOST
from onkel.saved import Saved

Array = NDArray[Any]
Codes = tuple[int, ...]

CONDEMNED = 14.0
"""How rare a value of a fault is: a value that never came would be after two million rows."""
HALF = math.log(2)
NONE = np.zeros(0, np.int64)


class Values(NamedTuple):
    """The values of an alert, of each column."""

    rare: list[Codes]
    """Those that may have made it one: of a text the words that were rare."""
    seldom: list[Codes]
    """Those of them that had come in one of a thousand rows at most."""


class Value(NamedTuple):
    """What was said of one value of one column."""

    usual: bool
    until: int
    """The last row that it holds for: so many rows had come before it."""
    level: float
    """How rare the value is at most, if it is usual."""


@dataclass(frozen=True)
class Saying:
    """What one answer has said of values."""

    of: int
    """The alert; 0 where models were merged since."""
    usual: bool
    until: int
    codes: tuple[Codes, ...]
    """Of each column; mostly of one."""
    levels: tuple[float, ...]

    def likeness(self, came: int, memory: float) -> float:
        """Return how much of it is left after so many rows, from 1 to 1/2."""
        return min(ALIKE * math.exp(max(self.until - came, 0) / memory), 1.0)


@dataclass(frozen=True)
class Said:
    """What answers have said of values, and the values of the alerts that can be answered.

    Columns are those of a tally's rarities, by their numbers. It never changes.
    """

    columns: int
    sayings: tuple[Saying, ...] = ()
    """The oldest first: what came later counts."""
    numbers: Array = field(default_factory=lambda: NONE)
    """Of the alerts, ascending, ..."""
    lengths: Array = field(default_factory=lambda: NONE.reshape(0, 0))
    """... how many codes each has in each column, and how many of them had hardly come, ..."""
    codes: Array = field(default_factory=lambda: NONE)
    """... and these codes, one behind another."""

    def __getstate__(self) -> dict[str, Any]:
        """What was made of the fields can be made again."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    # -- asking ------------------------------------------------------------------------------------

    @cached_property
    def of_columns(self) -> list[dict[int, Value]]:
        """Of each column what was said of its values."""
        found: list[dict[int, Value]] = [{} for _ in range(self.columns)]
        for one in self.sayings:
            for j, codes in enumerate(one.codes):
                value = Value(one.usual, one.until, one.levels[j])
                found[j].update(dict.fromkeys(codes, value))
        return found

    def of(self, column: int, code: int, came: int) -> bool | None:
        """Return whether a value was called usual; None where nothing holds that was said of it."""
        value = self.of_columns[column].get(code)
        return None if value is None or came > value.until else value.usual

    def by(self, rows: Sequence[Codes], usual: bool, came: int) -> Saying | None:
        """Return the last answer that holds for some value of a row; `rows`: of each column."""
        for one in reversed(self.sayings):
            if one.usual == usual and came <= one.until:
                shared = [
                    (j, c) for j, codes in enumerate(one.codes) for c in codes if c in rows[j]
                ]
                if any(self.of(j, code, came) == usual for j, code in shared):
                    return one
        return None

    def alert(self, number: int) -> Values | None:
        """Return the values of an alert; None if it is not kept."""
        at = int(np.searchsorted(self.numbers, number))
        if at == len(self.numbers) or self.numbers[at] != number:
            return None
        ends = np.cumsum(self.lengths[at]) + int(self.lengths[:at].sum())
        codes, starts = self.codes, ends - self.lengths[at]
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        found = [tuple(codes[start:stop].tolist()) for start, stop in pairs]
        return Values(found[: self.columns], found[self.columns :])

    # -- alerts and answers ------------------------------------------------------------------------

    def noting(self, numbers: Array, found: Sequence[Values], oldest: int) -> Self:
        """Return the same with more alerts, and without those before the oldest."""
        first = int(np.searchsorted(self.numbers, oldest))
        gone = int(self.lengths[:first].sum())
        rows = [[*values.rare, *values.seldom] for values in found]
        lengths = np.array([[len(codes) for codes in row] for row in rows], np.int64)
        flat = np.array([code for row in rows for codes in row for code in codes], np.int64)
        kept = self.lengths[first:].reshape(-1, 2 * self.columns)
        return replace(
            self, numbers=np.concatenate([self.numbers[first:], numbers]),
            lengths=np.concatenate([kept, lengths]),
            codes=np.concatenate([self.codes[gone:], flat]),
        )  # fmt: skip

    def answered(self, saying: Saying, faults: Iterable[int]) -> Self:
        """Return the same with one more answer, in the place of what was said of that alert.

        `faults`: the alerts whose places as faults are kept; what is said of others is forgotten.
        """
        known = {0, *faults}
        kept = [s for s in self.sayings if s.of != saying.of or not saying.of]
        kept = [s for s in kept if s.usual or s.of in known]
        kept += [saying] if any(saying.codes) else []
        return replace(self, sayings=_bounded(kept))

    def since(self, came: int) -> Self:
        """Return the same without what holds no more after so many rows."""
        kept = tuple(s for s in self.sayings if s.until >= came)
        return self if len(kept) == len(self.sayings) else replace(self, sayings=kept)

    def joined(self, others: Sequence[Said], later: Sequence[int]) -> Self:
        """Return what several have said, each once, and no alerts.

        `later`: by how many rows each is behind the whole. Nobody knows the alerts of several
        models by their numbers.
        """
        merged: dict[Any, Saying] = {}
        parts: list[Said] = [self, *others]
        for said, rows in zip(parts, later, strict=True):
            for one in said.sayings:
                of, until = one.of * (not others), one.until + rows
                key = one.usual, one.codes, one.levels
                if key not in merged or merged[key].until < until:
                    merged[key] = replace(one, of=of, until=until)
        ordered = sorted(merged.values(), key=lambda s: s.until)
        return type(self)(self.columns, _bounded(ordered))

    # -- files -------------------------------------------------------------------------------------

    @property
    def blank(self) -> bool:
        """Whether there is nothing to keep."""
        return not self.sayings and not len(self.numbers)

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold."""
        said = self.sayings
        lengths = [[len(codes) for codes in s.codes] for s in said]
        codes = [code for s in said for codes in s.codes for code in codes]
        return {
            "numbers": self.numbers, "lengths": self.lengths.reshape(-1, 2 * self.columns),
            "codes": self.codes, "of": np.array([s.of for s in said], np.int64),
            "usual": np.array([s.usual for s in said], bool),
            "until": np.array([s.until for s in said], np.int64),
            "said_lengths": np.array(lengths, np.int64).reshape(-1, self.columns),
            "said_codes": np.array(codes, np.int64),
            "levels": np.array([s.levels for s in said], np.float64).reshape(-1, self.columns),
        }  # fmt: skip

    @classmethod
    def restored(cls, columns: int, saved: Saved) -> Self:
        """Return what a file holds."""
        numbers = saved.array("numbers", (None,), np.int64, low=0)
        lengths, codes = _held(saved, len(numbers), 2 * columns, "")
        of = saved.array("of", (None,), np.int64, low=0)
        usual = saved.array("usual", (len(of),), bool)
        until = saved.array("until", (len(of),), np.int64, low=0)
        said_lengths, said_codes = _held(saved, len(of), columns, "said_")
        levels = saved.array("levels", (len(of), columns), np.float64, low=0.0)
        if np.any(np.diff(numbers) <= 0):
            raise saved.refuse("numbers", "must increase")
        if max(int(usual.sum()), int((~usual).sum())) > MOST:
            raise saved.refuse("usual", f"must be of {MOST} answers of a kind at most")
        saved.finish()
        found, left = [], said_codes.tolist()
        for i, row in enumerate(said_lengths.tolist()):
            own = []
            for many in row:
                own.append(tuple(left[:many]))
                left = left[many:]
            kind, level = bool(usual[i]), tuple(levels[i].tolist())
            found.append(Saying(int(of[i]), kind, int(until[i]), tuple(own), level))
        return cls(columns, tuple(found), numbers, lengths, codes)


def _held(saved: Saved, rows: int, columns: int, start: str) -> tuple[Array, Array]:
    """Take codes, and how many there are of each row and column."""
    lengths = saved.array(f"{start}lengths", (rows, columns), np.int64, low=0)
    codes = saved.array(f"{start}codes", (None,), np.int64)
    if int(lengths.sum()) != len(codes) or (lengths > len(codes)).any():
        raise saved.refuse(f"{start}codes", "do not fit their lengths")
    return lengths, codes


def _bounded(sayings: Sequence[Saying]) -> tuple[Saying, ...]:
    """Return the last of each kind, as many as there may be."""
    held = {kind: [s for s in sayings if s.usual == kind][-MOST:] for kind in (True, False)}
    kept = {id(s) for same in held.values() for s in same}
    return tuple(s for s in sayings if id(s) in kept)


def until_of(came: int, memory: float) -> int:
    """Return the last row that an answer holds for, as a place does: while half of it is left.

    Examples
    --------
    >>> until_of(1000, 100.0)
    1169
    """
    return came + math.floor(memory * (1.0 - math.log(ALIKE)))


def heard(
    said: dict[int, Value], codes: Sequence[int], logs: Sequence[float], rows: float, came: int,
    rare: float,
) -> float:  # fmt: skip
    """Return how rare a row's values in one column are, after what was said of them.

    Parameters
    ----------
    said : dict
        Of the column's values, by code.
    codes : sequence of int
        Of a text's words; else one.
    logs : sequence of float
        Of each ``log(1 + times seen)``; looked at where there are several.
    rows : float
        That count.
    came : int
        Rows before this one.
    rare : float
        How rare they are, had nothing been said.
    """
    found = [said.get(code) for code in codes]
    holds = [None if v is None or came > v.until else v for v in found]
    if any(v is not None and not v.usual for v in holds):
        return CONDEMNED
    if all(v is None for v in holds):
        return rare
    if len(holds) == 1:
        assert holds[0] is not None
        return min(rare, holds[0].level)
    each = [math.log1p(rows) - seen for seen in logs]
    each = [
        own if v is None else min(own, v.level + HALF)
        for own, v in zip(each, holds, strict=True)
    ]  # fmt: skip
    mean = sum(each) / len(each) - HALF
    return mean if mean > 1e-12 else 0.0
