"""From dicts of numbers, categories, times and texts to rows of codes and numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, Self

from onkel.columns import Encoded, Plan, Raw, Typed
from onkel.columns.codes import is_missing
from onkel.columns.dates import is_time
from onkel.columns.plan import LATE
from onkel.river.places import Name, number


def is_other(value: Any) -> bool:
    """Whether a value is more than a number: a text, or a time."""
    return isinstance(value, str) or is_time(value)


def raw_of_dict(x: Mapping[Name, Any]) -> Raw:
    """Return what an example holds; a table's columns have texts as names."""
    found = texted(x)
    return Raw(list(found), [[v] for v in found.values()], 1, loose=True).held()


def texted(x: Mapping[Name, Any]) -> dict[str, Any]:
    """Return an example with texts as names.

    Examples
    --------
    >>> texted({"a": 1.0, ("b", 2): "x"})
    {'a': 1.0, "('b', 2)": 'x'}
    """
    found = {str(name): value for name, value in x.items()}
    if len(found) < len(x):
        raise ValueError(
            f"Two features have the same name as a text: {list(x)!r:.200}. Rename one."
        )
    return found


class Table:
    """What each feature is, and what comes later; nothing of it ever changes.

    Parameters
    ----------
    plan : Plan
        What the features are: an open one.
    absent : "mean" or "zero"
        A number that is absent is missing, or 0.

    Examples
    --------
    >>> table = Table(Plan((Typed("shop", "category"), Typed("hour", "number")), open=True), "zero")
    >>> table.whole({"shop": "north"}).X[0, 1:].tolist()
    [0.0, 1.0, 0.0]
    >>> table.whole({"shop": "north", "price": 3.0}) is None
    True
    >>> table.arrivals(raw_of_dict({"shop": "north", "price": 3.0, "note": "new"}))
    {0: [Typed(name='price', kind='number', why='', format=None), \
Typed(name='note', kind='late', why='', format=None)]}
    """

    def __init__(self, plan: Plan, absent: str) -> None:
        self.plan, self.absent = plan, absent
        self._bind()

    def _bind(self) -> None:
        """Make what turns a dict into cells at once."""
        self.names = self.plan.names
        self.width, self._known = len(self.names), frozenset[Hashable](self.names)
        zero = self.absent == "zero"
        self._zeros = [zero and c.kind == "number" for c in self.plan.columns]
        self._get: Callable[[Any], Any] = itemgetter(*self.names)
        if self.width == 1:
            self._get = lambda x: (x[self.names[0]],)

    def __getstate__(self) -> dict[str, Any]:
        """What :meth:`_bind` makes can be made again."""
        return {"plan": self.plan, "absent": self.absent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    def copy(self) -> Self:
        """Return what never changes."""
        return self

    @property
    def place(self) -> dict[str, int]:
        """Where each feature stands in the table."""
        return {name: j for j, name in enumerate(self.names)}

    # -- rows --------------------------------------------------------------------------------------

    def whole(self, x: Mapping[Name, Any]) -> Encoded | None:
        """Return the row of a dict that has no feature but known ones, else None."""
        try:
            if len(x) == self.width:
                return self._row(self._get(x))
        except KeyError:
            pass
        return self._row([x.get(n) for n in self.names]) if x.keys() <= self._known else None

    def row(self, x: Mapping[Name, Any]) -> Encoded:
        """Return the row of any dict: what is unknown is left out."""
        found = texted(x)
        return self._row([found.get(n) for n in self.names])

    def _row(self, cells: Any) -> Encoded:
        if self.absent == "zero":
            pairs = zip(cells, self._zeros, strict=True)
            cells = [0.0 if zero and is_missing(cell) else cell for cell, zero in pairs]
        return self.plan.one(cells)

    def fine(self, row: Encoded) -> bool:
        """Whether a row cannot be read in another way: always."""
        return True

    def note(self, row: Encoded) -> None:
        """Take nothing from a row: the model itself knows what is usual."""

    def encode(self, raw: Raw) -> Encoded:
        """Return rows; a column that is not known is left out."""
        if self.absent == "zero":
            known = [c.name for c, zero in zip(self.plan.columns, self._zeros, strict=True) if zero]
            filled = {n: [0.0 if is_missing(v) else v for v in raw.column(n)] for n in known}
            held = {**dict(zip(raw.names, raw.columns, strict=True)), **filled}
            raw = replace(raw, names=list(held), columns=list(held.values()))
        return self.plan.encode(raw)

    # -- columns that come later -------------------------------------------------------------------

    def arrivals(self, raw: Raw) -> dict[int, list[Typed]]:
        """Return the columns that are not known yet, by the row that brings each."""
        found: dict[int, list[Typed]] = {}
        for name, cells in zip(raw.names, raw.columns, strict=True):
            if name not in self._known:
                first = next((i for i, v in enumerate(cells) if not is_missing(v)), None)
                if first is not None:
                    found.setdefault(first, []).append(Typed(name, _late_kind(name, cells[first])))
        return dict(sorted(found.items()))

    def grown(self, columns: list[Typed]) -> Table:
        """Return the table with more columns."""
        return Table(self.plan.grown(columns), self.absent)

    def values(self, row: Encoded, columns: list[Typed]) -> Any:
        """Return the numbers that new columns had in all rows so far, as `row` brings them."""
        new = sum(c.kind == "number" for c in columns)
        return row.X[0, len(self.plan.outputs) - new :] * (self.absent == "mean")


def _late_kind(name: Name, value: Any) -> str:
    if is_other(value):
        return LATE
    number(name, value)  # which says what is wrong
    return "number"
