"""Where rows lie while they wait: one matrix (or texts), and beside it what was said of them."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import inputs
from onkel.columns import Encoded, Plan
from onkel.saved import Saved

Array = NDArray[Any]

SPARE = 1000
"""So many texts of codes are kept beyond need, before those of rows that went are looked for."""
TEXT_BYTES = 130
"""What the text of a code takes, about: a word, and its place among the others."""


class Shelf:
    """Rows by place; places that become free are taken again.

    Examples
    --------
    >>> shelf = Shelf()
    >>> places = shelf.put(np.array([[1.0, 2.0], [3.0, 4.0]]), None)
    >>> shelf.rows_at(places[1:])
    array([[3., 4.]])
    """

    def __init__(self) -> None:
        self.rows: Any = None
        """A matrix, or a list of texts; None before the first row."""
        self.plan: Plan | None = None
        """Of a table, whose rows are codes and numbers."""
        self.names: dict[str, dict[int, str]] = {}
        """What the codes of a table stand for."""
        self.told: Array | None = None
        """What was said of each row, in numbers; NaN where nothing was known."""
        self._free: list[int] = []
        self._kept = 0
        """So many texts of codes there were when those of rows that went had just gone."""

    @property
    def nbytes(self) -> int:
        """Bytes of rows, of the texts of their codes (about), and of what was said."""
        texts = sum(map(len, self.rows)) if isinstance(self.rows, list) else 0
        texts += TEXT_BYTES * sum(map(len, self.names.values()))
        held = [a.nbytes for a in (self.rows, self.told) if isinstance(a, np.ndarray)]
        return sum(held) + texts

    @property
    def kind(self) -> str:
        """What the rows are, in words."""
        return "rows of a table" if self.plan is not None else _kind(self.rows)

    # -- rows in and out -----------------------------------------------------------------------

    def fitting(self, rows: Any, owner: str) -> Any:
        """Return rows in the form of those that lie here already, or refuse them."""
        if isinstance(rows, inputs.SparseRows) or inputs.is_tensor(rows):
            raise ValueError(
                f"{owner} keeps rows of plain arrays; give X.toarray(), or on the CPU."
            )
        if self.rows is None:
            return rows
        if _kind(rows) != self.kind:
            raise ValueError(
                f"{owner}: the first rows were {self.kind}, and so must these be; got "
                f"{_kind(rows)}."
            )
        if isinstance(rows, (list, Encoded)):
            return rows
        if rows.dtype == self.rows.dtype and rows.shape[1] == self.rows.shape[1]:
            return rows
        kind, width = self.rows.dtype, self.rows.shape[1]
        return inputs.numeric_rows(rows, owner, kind, width, gaps=True)

    def check_width(self, rows: Any, owner: str) -> None:
        """Refuse rows with more or fewer columns than those have that lie here, or with none."""
        if self.rows is None:
            return
        found = _width(self.rows)
        if isinstance(rows, Encoded):
            wide = len(rows.plan.names) if self.plan is None else rows.X.shape[1]
        else:
            wide = _width(rows)
        if wide != found:
            raise ValueError(
                f"{owner}: the rows that were kept first have {_columns(found)}, and so must these "
                f"have; got {_columns(wide)}."
            )

    def put(self, rows: Any, told: Array | None) -> list[int]:
        """Lay rows down, and what was said of them (None: nothing); return their places."""
        count = len(rows)
        self._open(rows, told)
        while len(self._free) < count:
            self._grow()
        places = [self._free.pop() for _ in range(count)]
        if isinstance(rows, list):
            for place, text in zip(places, rows, strict=True):
                self.rows[place] = text
        else:
            self.rows[places] = rows.X if isinstance(rows, Encoded) else rows
        if self.told is not None:
            self.told[places] = np.nan if told is None else told
        return places

    def _open(self, rows: Any, told: Array | None) -> None:
        """Make room of the kind that the first rows need."""
        if self.rows is None:
            matrix = rows.X if isinstance(rows, Encoded) else rows
            self.rows = [] if isinstance(rows, list) else matrix[:0].copy()
        if isinstance(rows, Encoded):
            self.plan = rows.plan
            for name, texts in rows.names.items():
                self.names.setdefault(name, {}).update(texts)
        if self.told is None and told is not None:
            self.told = np.full((len(self.rows), told.shape[1]), np.nan)

    def _grow(self) -> None:
        old = len(self.rows)
        more = max(16, old)
        if isinstance(self.rows, list):
            self.rows += [""] * more
        else:
            room = np.zeros((more, self.rows.shape[1]), self.rows.dtype)
            self.rows = np.concatenate([self.rows, room])
        if self.told is not None:
            self.told = np.concatenate([self.told, np.full((more, self.told.shape[1]), np.nan)])
        self._free += range(old + more - 1, old - 1, -1)

    def drop(self, places: list[int]) -> None:
        """Let rows go."""
        if isinstance(self.rows, list):
            for place in places:
                self.rows[place] = ""
        self._free += places
        if self.names:
            most = max(4 * (len(self.rows) - len(self._free)), 2 * self._kept)
            if sum(map(len, self.names.values())) > most + SPARE:
                self.names = self._names_in_use()
                self._kept = sum(map(len, self.names.values()))

    def _names_in_use(self) -> dict[str, dict[int, str]]:
        """Return the texts of the codes of the rows that wait, in order."""
        taken = np.ones(len(self.rows), bool)
        taken[self._free] = False
        assert self.plan is not None
        codes = {int(c) for c in np.unique(self.rows[taken][:, : len(self.plan.apart)])}
        return {
            name: {code: texts[code] for code in sorted(texts) if code in codes}
            for name, texts in sorted(self.names.items())
        }

    def rows_at(self, places: list[int]) -> Any:
        """Return rows as a model takes them."""
        if isinstance(self.rows, list):
            return [self.rows[place] for place in places]
        rows = self.rows[places]
        return rows if self.plan is None else Encoded(rows, self.names, self.plan)

    def told_at(self, places: list[int], width: int) -> Array:
        """Return what was said of rows."""
        if self.told is None:
            return np.full((len(places), width), np.nan)
        return self.told[places]

    # -- copies and files ----------------------------------------------------------------------

    def copy(self) -> Shelf:
        """Return an independent copy."""
        return copy.deepcopy(self)

    def dump(self, places: list[int]) -> dict[str, Any]:
        """Return what a file must hold, rows in this order."""
        if self.rows is None:
            return {}
        found: dict[str, Any] = {}
        if isinstance(self.rows, list):
            found["texts"] = [self.rows[place] for place in places]
        else:
            found["rows"] = self.rows[places]
        if self.told is not None:
            found["told"] = self.told[places]
        if self.plan is not None:
            found["plan"] = json.dumps(self.plan.to_dict())
            found["names"] = [
                [name, [*texts], [*texts.values()]] for name, texts in self._names_in_use().items()
            ]
        return found

    @classmethod
    def restored(cls, saved: Saved, count: int, width: int | None) -> Shelf:
        """Return what a file holds of so many rows; their places are 0, 1, ..."""
        shelf = cls()
        if saved.peek("texts") is not None:
            shelf.rows = saved.items("texts", str)
        elif saved.peek("rows") is not None:
            rows = saved.peek("rows")
            kind = rows.dtype if getattr(rows, "dtype", None) == np.float32 else np.float64
            shelf.rows = saved.array("rows", (count, None), kind, finite=False).copy()
        if len(shelf.rows if shelf.rows is not None else ()) != count:
            raise saved.refuse("texts", f"must be {count}, one for each row that waits")
        if saved.peek("told") is not None:
            shelf.told = saved.array("told", (count, width), np.float64, finite=False).copy()
        if saved.peek("plan") is not None:
            shelf._restore_table(saved)
        saved.finish()
        return shelf

    def _restore_table(self, saved: Saved) -> None:
        try:
            self.plan = Plan.from_dict(json.loads(saved.value("plan")))
        except (TypeError, ValueError) as error:
            raise saved.refuse("plan", f"is none: {error}") from None
        if isinstance(self.rows, list) or self.rows.shape[1] != len(self.plan.outputs):
            raise saved.refuse("plan", "does not make rows of this width")
        for entry in saved.items("names", list):
            name, codes, texts = entry
            sound = [type(c) is int and type(t) is str for c, t in zip(codes, texts, strict=True)]
            if type(name) is not str or not all(sound):
                raise saved.refuse("names", "must be codes and their texts, by column")
            self.names[name] = dict(zip(codes, texts, strict=True))


def _kind(rows: Any) -> str:
    if isinstance(rows, list):
        return "texts"
    return "rows of a table" if isinstance(rows, Encoded) else "rows of numbers"


def _width(rows: Any) -> int | None:
    """Return how many columns rows have; None for texts, which have none."""
    return None if isinstance(rows, list) else int(rows.shape[1])


def _columns(width: int | None) -> str:
    return "no columns (texts)" if width is None else f"{width} column{'s' * (width != 1)}"
