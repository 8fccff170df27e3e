"""Which column is what, and how a row of any types becomes one of codes and numbers."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns import codes, dates, reading, words
from onkel.columns.dateformats import DateFormat
from onkel.columns.raw import Raw
from onkel.core.layout import APART
from onkel.inputs import LARGEST

Array = NDArray[Any]

KINDS = ("number", "category", "boolean", "time", "text", "ignore")
GAPS = "gaps"
"""The column of codes that says which numbers are missing."""
GAPS_NAMED = 20
"""So many missing numbers are named."""
WHOLE = 1
"""Its code where none is."""
OTHERS = "(others)"
"""The column of codes of what came late and is no number."""
LATE = "late"
"""The kind of such columns, which nobody gives: they have one code together."""


@dataclass(frozen=True)
class Typed:
    """A column of a table: its kind, why it is ignored, and how its times are written."""

    name: str
    kind: str
    why: str = ""
    format: DateFormat | None = None


@dataclass(frozen=True)
class Plan:
    """What each column of a table is.

    A row becomes ``[codes | numbers]``: a code for each category, one for which numbers are
    missing, one for the hour of each time, `places` of them for each text; then the numbers, and
    those of each time, in the table's order.

    Examples
    --------
    >>> plan = Plan((Typed("carrier", "category"), Typed("minutes", "number")))
    >>> plan.outputs
    ['carrier', 'gaps', 'minutes']
    >>> plan.encode(Raw(["minutes", "carrier"], [[5.0, None], ["AA", "AA"]], 2)).X[:, 2]
    array([ 5., nan])
    """

    columns: tuple[Typed, ...]
    places: int = 64
    """Of the words of a text."""
    time: dates.Parts = dates.PLAIN
    open: bool = False
    """Whether columns may come later: what does and is no number has one code together."""

    # -- what comes out ----------------------------------------------------------------------------

    @cached_property
    def names(self) -> list[str]:
        """The columns that are read, in the table's order."""
        return [c.name for c in self.columns]

    def of(self, *kinds: str) -> list[Typed]:
        """Return the columns of some kinds."""
        return [c for c in self.columns if c.kind in kinds]

    @cached_property
    def counted(self) -> list[str]:
        """Categories, and which numbers are missing: their codes come first."""
        others = [OTHERS] if self.open else []
        return [*(c.name for c in self.of("category", "boolean")), *others, GAPS]

    @cached_property
    def categories(self) -> list[str]:
        """What has one code each: the same, and the hours of times."""
        return [*self.counted, *(dates.hour_of(c.name) for c in self.of("time"))]

    @cached_property
    def texts(self) -> list[str]:
        """Columns of texts, whose codes stand behind those of the categories."""
        return [c.name for c in self.of("text")]

    @cached_property
    def apart(self) -> tuple[float, ...]:
        """How far apart two unequal values of each column of codes are."""
        words = (APART / self.places,) * (self.places * len(self.texts))
        return (APART,) * len(self.categories) + words

    @cached_property
    def _numeric(self) -> list[tuple[Typed, list[str]]]:
        """The columns that become numbers, each with what these are called."""
        return [
            (c, [c.name] if c.kind == "number" else self.time.names(c.name))
            for c in self.of("number", "time")
        ]

    @cached_property
    def numbers(self) -> list[str]:
        """What the numbers are called."""
        return [name for _, names in self._numeric for name in names]

    @cached_property
    def plain(self) -> list[int]:
        """Where those stand in a row that are numbers in the table."""
        kinds = [c.kind for c, names in self._numeric for _ in names]
        return [j for j, kind in enumerate(kinds, len(self.apart)) if kind == "number"]

    @cached_property
    def weekdays(self) -> dict[str, int]:
        """Where the circle of the week of each time stands in a row."""
        at = {name: j for j, name in enumerate(self.outputs)}
        return {c.name: at[f"{c.name} (weekday cos)"] for c in self.of("time")}

    @cached_property
    def owners(self) -> list[str]:
        """The column that each column of what comes out was made of."""
        times = [c.name for c in self.of("time")]
        words = [name for name in self.texts for _ in range(self.places)]
        numbers = [c.name for c, names in self._numeric for _ in names]
        return [*self.counted, *times, *words, *numbers]

    @cached_property
    def outputs(self) -> list[str]:
        """What the columns that come out are called."""
        words = [f"{name} [{i}]" for name in self.texts for i in range(self.places)]
        return [*self.categories, *words, *self.numbers]

    def grown(self, columns: Sequence[Typed]) -> Plan:
        """Return the plan of a table that has more columns: numbers, and late ones of other kinds.

        What comes out only gets longer: the new numbers stand behind those that were there.

        Examples
        --------
        >>> plan = Plan((Typed("carrier", "category"),), open=True)
        >>> plan.grown([Typed("gate", LATE), Typed("minutes", "number")]).outputs
        ['carrier', '(others)', 'gaps', 'minutes']
        """
        if not self.open or any(c.kind not in ("number", LATE) for c in columns):
            raise ValueError(f"These columns cannot come late to this plan: {columns!r:.200}.")
        taken = [c.name for c in columns if c.name in {*self.names, *self.outputs}]
        if taken:
            raise ValueError(f"{taken[0]!r} is needed as a name; call that column otherwise.")
        return replace(self, columns=(*self.columns, *columns))

    # -- encoding ----------------------------------------------------------------------------------

    def encode(self, raw: Raw) -> Encoded:
        """Return the rows of a table; a value that does not fit its column is refused."""
        times = {c.name: reading.seconds(raw.column(c.name), c) for c in self.of("time")}
        numbers = self._numbers(raw, times)
        code, names = np.zeros((raw.rows, len(self.apart))), {}
        for j, name in enumerate(c.name for c in self.of("category", "boolean")):
            code[:, j], names[name] = reading.categories(raw.column(name), name)
        if self.open:
            code[:, len(names)], names[OTHERS] = codes.encode(self._others(raw))
        code[:, len(names)], names[GAPS] = self._gaps(numbers)
        for j, seconds in enumerate(times.values(), len(names)):
            code[:, j] = dates.hours(seconds)
        at = len(self.categories)
        for name in self.texts:
            part = slice(at, at + self.places)
            code[:, part], names[name] = words.encode(raw.column(name), self.places)
            at += self.places
        return Encoded(np.hstack([code, numbers]), names, self)

    def _numbers(self, raw: Raw, times: dict[str, Array]) -> Array:
        found = [
            reading.floats(raw.column(c.name), c.name)[:, None]
            if c.kind == "number"
            else self.time.numbers(times[c.name])
            for c, _ in self._numeric
        ]
        return np.hstack([np.zeros((raw.rows, 0)), *found])

    def _others(self, raw: Raw) -> list[str]:
        """Return of each row what came late and is no number, with the columns' names."""
        late = [(name, raw.column(name)) for name, _ in self._at[LATE]]
        return [reading.pairs((name, cells[i]) for name, cells in late) for i in range(raw.rows)]

    def _gaps(self, numbers: Array) -> tuple[Array, dict[int, str]]:
        """Return a code for which numbers are missing: WHOLE where none is.

        That is a value like another, so that linear models have a constant.
        """
        gaps = np.isnan(numbers)
        found, names = np.full(len(numbers), float(WHOLE)), {WHOLE: ""}
        known: dict[bytes, int] = {}
        for i in np.flatnonzero(gaps.any(axis=1)).tolist():
            which = gaps[i].tobytes()
            if which not in known:
                text = self._gap_text(gaps[i])
                known[which] = codes.code_of(text)
                names[known[which]] = text
            found[i] = known[which]
        return found, names

    def _gap_text(self, gaps: Array) -> str:
        """Return the columns that a row lacks in words, whose length has an end."""
        names = self._gap_names(gaps)
        if len(names) <= GAPS_NAMED:
            return ", ".join(names)
        mark = zlib.crc32("\0".join(names).encode("utf-8", "surrogatepass"))
        rest = f"{len(names) - GAPS_NAMED} more ({mark:08x})"
        return f"{', '.join(names[:GAPS_NAMED])} and {rest}"

    def _gap_names(self, gaps: Array) -> list[str]:
        """Return which columns a row lacks; a time is one, however many numbers it makes."""
        firsts = np.cumsum([0, *(len(names) for _, names in self._numeric)]).tolist()
        return [c.name for (c, _), j in zip(self._numeric, firsts, strict=False) if gaps[j]]

    # -- one row -----------------------------------------------------------------------------------

    def cells(self, row: Any) -> Sequence[Any] | None:
        """Return the cells of one record in the order of the columns; None for what is none."""
        if isinstance(row, Mapping):
            return [row.get(name) for name in self.names] if row.keys() <= self._known else None
        fits = isinstance(row, (list, tuple)) and len(row) == len(self.columns)
        return row if fits else None

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def one(self, cells: Sequence[Any]) -> Encoded:
        """Return the row of one record, its cells in the order of the columns: `encode`, quicker.

        Examples
        --------
        >>> plan = Plan((Typed("carrier", "category"), Typed("minutes", "number")))
        >>> plan.one(["AA", 5]).X.tolist()
        [[6299239.0, 1.0, 5.0]]
        """
        try:
            return self._one(cells)
        except (TypeError, ValueError, OverflowError):  # refused in better words
            return self.encode(Raw(self.names, [[cell] for cell in cells], 1))

    def _one(self, cells: Sequence[Any]) -> Encoded:
        code: list[Any] = []
        names: dict[str, dict[int, str]] = {}
        for name, j in self._at["category"]:
            found, text = codes.code_and_name(cells[j])
            code.append(found)
            names[name] = {found: text}
        if self.open:
            text = reading.pairs((name, cells[j]) for name, j in self._at[LATE])
            code.append(codes.code_of(text))
            names[OTHERS] = {code[-1]: codes.called(text)}
        seconds = {
            name: reading.seconds([cells[j]], self.columns[j]) for name, j in self._at["time"]
        }
        numbers = self._one_numbers(cells, seconds)
        text = self._gap_text(np.isnan(numbers)) if any(v != v for v in numbers) else ""
        code.append(codes.code_of(text) if text else WHOLE)
        names[GAPS] = {code[-1]: text}
        code += [dates.hours(found).item() for found in seconds.values()]
        for name, j in self._at["text"]:
            places, names[name] = words.encode([cells[j]], self.places)
            code += places[0].tolist()
        return Encoded(np.array([code + numbers], np.float64), names, self)

    def _one_numbers(self, cells: Sequence[Any], seconds: dict[str, Array]) -> list[float]:
        numbers: list[float] = []
        for name, j in self._at["number"]:
            cell = cells[j]
            if name in seconds:
                numbers += self.time.numbers(seconds[name])[0].tolist()
                continue
            if cell.__class__ is not float:
                cell = math.nan if codes.is_missing(cell) else reading.float_of(cell)
            if abs(cell) > LARGEST:
                raise ValueError(cell)
            numbers.append(cell)
        return numbers

    @cached_property
    def _at(self) -> dict[str, list[tuple[str, int]]]:
        """Names and places of the columns that are read alike; times are numbers, too."""
        kinds = {"category": ("category", "boolean"), "number": ("number", "time")}
        all_of = {
            kind: kinds.get(kind, (kind,)) for kind in ("category", "number", "time", "text", LATE)
        }
        found = {
            kind: [(c.name, j) for j, c in enumerate(self.columns) if c.kind in alike]
            for kind, alike in all_of.items()
        }
        return {**found, LATE: sorted(found[LATE])}  # in an order that does not hang on who came

    # -- as data -----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """What was made of the fields can be made again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __deepcopy__(self, memo: Any) -> Plan:
        return self  # it never changes

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        columns = [
            {**asdict(c), "format": None if c.format is None else c.format.to_dict()}
            for c in self.columns
        ]
        rest = {"places": self.places, **asdict(self.time), "open": self.open}
        return {"columns": columns, **rest}

    @classmethod
    def from_dict(cls, data: Any) -> Plan:
        """Return the plan that `to_dict` has described; refuse what is none."""
        try:
            columns = tuple(
                Typed(str(c["name"]), str(c["kind"]), str(c["why"]),
                      None if c["format"] is None else DateFormat.from_dict(c["format"]))
                for c in data["columns"]
            )  # fmt: skip
            places, *flags = (data[name] for name in ("places", "running", "year", "open"))
        except (KeyError, TypeError) as error:
            raise ValueError(f"A plan of columns lacks {error}.") from None
        kinds = {c.kind for c in columns} <= {*KINDS, *([LATE] if flags[-1] is True else [])}
        sound = type(places) is int and 1 <= places <= 1024
        sound = sound and all(type(flag) is bool for flag in flags)
        if not (kinds and sound and len({c.name for c in columns}) == len(columns)):
            raise ValueError("A plan of columns holds kinds or numbers that there are not.")
        return cls(columns, places, dates.Parts(*flags[:2]), flags[2])


@dataclass(frozen=True)
class Encoded:
    """Rows as codes and numbers, the texts that the codes stand for, and the plan.

    Estimators take it as they take a frame.
    """

    X: Array
    names: dict[str, dict[int, str]]
    plan: Plan

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, which: Any) -> Encoded:
        """Return some of the rows, or one."""
        if isinstance(which, int) and which >= len(self.X):
            raise IndexError(which)  # else who goes through the rows would never end
        which = slice(which, which + 1) if isinstance(which, int) else which
        return Encoded(self.X[which], self.names, self.plan)

    @property
    def dtype(self) -> Any:
        """Of the numbers."""
        return self.X.dtype

    @property
    def codes(self) -> Array:
        """The columns of codes."""
        return self.X[:, : len(self.plan.apart)]
