"""What a user says of columns, and what is found of the rest from the first rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from onkel.columns.codes import is_missing
from onkel.columns.dateformats import find_format
from onkel.columns.dates import Parts, is_time
from onkel.columns.kinds import kind_of
from onkel.columns.plan import GAPS, KINDS, Plan, Typed
from onkel.columns.raw import Raw
from onkel.params import Accept, Part

_PLACES = Accept(low=1, high=1024, whole=True, hint="It counts codes of a text, for example 64.")


FIRST = 1000
"""So many rows tell what a column is."""


@dataclass(frozen=True)
class Columns(Part):
    """What the columns of a table are, where their first rows do not tell.

    Parameters
    ----------
    types : dict
        For a column's name one of "number", "category", "boolean", "time", "text", "ignore".
        Other columns are what the table's types and first rows tell.
    places : int
        Codes that the words of a text are made into: more of them lose fewer words of long texts.
    year : bool
        Whether the place in the year counts of a time, beside those in the day and the week: for
        streams of several years.

    Examples
    --------
    >>> Columns({"flight": "category", "id": "ignore"}).types["flight"]
    'category'
    """

    types: Mapping[str, str] = field(default_factory=dict)
    places: int = 64
    year: bool = False
    _accepts: ClassVar[Mapping[str, Accept]] = {"places": _PLACES}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.year, bool):
            raise ValueError(f"Columns: year must be True or False; got {self.year!r}.")
        if not isinstance(self.types, Mapping):
            raise ValueError(f"Columns: types must be a dict of names; got {self.types!r}.")
        for name, kind in self.types.items():
            if kind not in KINDS:
                raise ValueError(
                    f"Columns: types[{name!r}] must be one of {list(KINDS)}; got {kind!r}."
                )

    def plan(self, raw: Raw, running: bool = True, late: bool = False) -> Plan:
        """Return what each column of a table is; its first rows tell.

        `late`: whether columns may come later, those of `types` among them.
        """
        raw, known = raw.head(FIRST), set(raw.names)
        unknown = [name for name in self.types if name not in known]
        if unknown and not late:
            raise ValueError(
                f"Columns: there is no column {unknown[0]!r}. There are: {', '.join(raw.names)}."
            )
        found = tuple(self._typed(n, raw) for n in (*raw.names, *unknown))
        if all(c.kind == "ignore" for c in found):
            told = "; ".join(f"{c.name}: {c.why}" for c in found)
            raise ValueError(f"There is no column to learn from ({told}).")
        plan = Plan(found, int(self.places), Parts(running, self.year), late)
        _check_names(plan)
        return plan

    def _typed(self, name: str, raw: Raw) -> Typed:
        cells = raw.column(name)
        if self.types.get(name, raw.told.get(name)) is not None:
            kind = self.types.get(name, raw.told.get(name, ""))
            return Typed(name, kind, "asked for" if kind == "ignore" else "", _format(kind, cells))
        kind = _found(cells)
        if kind == "identifier":
            return Typed(name, "ignore", "different in every row")
        return Typed(name, kind, "", _format(kind, cells))


def _check_names(plan: Plan) -> None:
    """Refuse a column that is called like something that is made of others."""
    made = Counter([*plan.outputs, *([GAPS] if GAPS in plan.names else [])])
    for name in plan.names:
        if made[name] > 1:
            raise ValueError(f"Columns: {name!r} is needed as a name; call that column otherwise.")


def _found(cells: Any) -> str:
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biufMm":
        return {"b": "boolean", "M": "time"}.get(cells.dtype.kind, "number")
    return kind_of(list(cells))


def _format(kind: str, cells: Any) -> Any:
    """Return how times are written, where they are texts or numbers."""
    if kind != "time":
        return None
    held = [c for c in cells if not is_missing(c)]
    return None if not held or is_time(held[0]) else find_format(held)
