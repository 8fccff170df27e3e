"""Tables as people have them, column by column: frames, records, dicts, lists of lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns.codes import is_missing
from onkel.columns.dates import is_time

Array = NDArray[Any]


@dataclass(frozen=True)
class Raw:
    """A table: names, and what each column holds (an array, or a list of any values)."""

    names: list[str]
    columns: list[Any]
    rows: int
    named: bool = True
    """Whether the names are the table's own."""
    loose: bool = False
    """Whether a column that is not there is only a value that is missing (dicts)."""
    told: dict[str, str] = field(default_factory=dict)
    """Kinds that the table itself tells, by its types."""

    @cached_property
    def _at(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names)}

    def __len__(self) -> int:
        return self.rows

    def part(self, which: Sequence[int]) -> Raw:
        """Return some of the rows."""
        at = list(which)
        found = [c[at] if isinstance(c, np.ndarray) else [c[i] for i in at] for c in self.columns]
        return replace(self, columns=found, rows=len(at))

    def held(self) -> Raw:
        """Return the columns that hold anything."""
        pairs = zip(self.names, self.columns, strict=True)
        found = {name: c for name, c in pairs if not all(map(is_missing, c))}
        return replace(self, names=list(found), columns=list(found.values()))

    def head(self, rows: int) -> Raw:
        """Return the first rows."""
        if self.rows <= rows:
            return self
        return replace(self, columns=[c[:rows] for c in self.columns], rows=rows)

    def column(self, name: str) -> Any:
        """Return a column; one of nothing where there is none of that name."""
        at = self._at.get(name)
        return [None] * self.rows if at is None else self.columns[at]


def raw_of(X: Any) -> Raw | None:
    """Return a table that holds more than numbers, or is made of dicts, else None.

    Examples
    --------
    >>> raw_of([{"a": 1, "b": "x"}, {"a": 2}]).column("b")
    ['x', None]
    >>> raw_of([[1.0, 2.0]]) is None
    True
    """
    found = table_of(X)
    if found is None or not (found.loose or found.told or any(map(_is_other, found.columns))):
        return None
    return found


def table_of(X: Any) -> Raw | None:
    """Return any table column by column; None for what is none, or cannot hold but numbers."""
    if isinstance(X, np.ndarray):
        return _of_array(X)
    if isinstance(X, Mapping):
        return _of_columns(X) or _of_dicts([X])
    if hasattr(X, "column_names") and hasattr(X, "schema"):  # Arrow
        names = [str(n) for n in X.column_names]
        types = dict(zip(names, X.schema.types, strict=True))
        columns = [_values(X.column(j)) for j in range(len(names))]
        return Raw(names, columns, len(X), told=_told(types))
    if hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "__getitem__"):
        return _of_frame(X)
    if isinstance(X, (list, tuple)) and X:
        return _of_list(X)
    return None


def _of_frame(X: Any) -> Raw | None:
    names, types = list(X.columns), list(X.dtypes)
    if not all(isinstance(name, str) for name in names):  # read without a header
        named = _places(len(names))
        columns = [X.iloc[:, j].to_numpy() for j in range(len(names))]
        told = _told(dict(zip(named, types, strict=True)))
        return Raw(named, columns, len(X), named=False, told=told)
    if len(set(names)) < len(names):
        if all(getattr(t, "kind", "O") in "biuf" for t in types):
            return None
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has columns of the name {twice!r} twice: call one otherwise.")
    told = _told(dict(zip(names, types, strict=True)))
    return Raw(names, [X[name].to_numpy() for name in names], len(X), told=told)


def _places(count: int) -> list[str]:
    """Return names for columns that have none."""
    return [f"x{j}" for j in range(count)]


def _of_columns(X: Mapping[Any, Any]) -> Raw | None:
    """Return a dict of columns; None where it is a row."""
    kinds, names = (list, tuple, np.ndarray), [str(name) for name in X]
    columns = [_values(column) for column in X.values()]
    if not columns or not all(isinstance(c, kinds) for c in columns):
        return None
    lengths = {len(c) for c in columns}
    if len(lengths) > 1:
        raise ValueError(f"X is a dict of columns whose lengths differ: {sorted(lengths)}.")
    types = {name: getattr(c, "dtype", "") for name, c in zip(names, X.values(), strict=True)}
    return Raw(names, columns, lengths.pop(), told=_told(types))


def _values(column: Any) -> Any:
    """Return a column of a frame or of Arrow as an array; another one as it is."""
    if hasattr(column, "to_pylist"):  # Arrow
        return column.to_numpy(zero_copy_only=False)
    return column.to_numpy() if hasattr(column, "to_numpy") else column


def _told(types: dict[str, Any]) -> dict[str, str]:
    """Return which columns are categories by their type, as each library calls it."""
    marks = ("category", "categorical", "enum", "dictionary")
    return {n: "category" for n, t in types.items() if str(t).lower().startswith(marks)}


def _of_array(X: Array) -> Raw | None:
    if X.dtype.names:
        return Raw(list(X.dtype.names), [X[n] for n in X.dtype.names], len(X))
    if X.ndim != 2 or X.dtype.kind not in "OUS":
        return None
    if X.dtype.kind == "S":
        X = np.char.decode(X, "utf-8", "backslashreplace")
    return of_matrix(X)


def of_matrix(X: Array) -> Raw:
    """Return the columns of a matrix, which have no names of their own."""
    columns = [X[:, j] for j in range(X.shape[1])]
    return Raw(_places(len(columns)), columns, len(X), named=False)


def _of_list(X: Sequence[Any]) -> Raw | None:
    if isinstance(X[0], Mapping):
        return _of_dicts(X)
    if not isinstance(X[0], (list, tuple)):
        return None
    width = len(X[0])
    if any(not isinstance(row, (list, tuple)) or len(row) != width for row in X):
        return None
    columns = [list(column) for column in zip(*X, strict=True)]
    return Raw(_places(width), columns, len(X), named=False)


def is_dicts(X: Any) -> bool:
    """Whether rows are dicts, or a single one is."""
    first = X[0] if isinstance(X, (list, tuple)) and X else X
    return isinstance(first, Mapping)


def _of_dicts(X: Sequence[Any]) -> Raw | None:
    if not all(isinstance(row, Mapping) for row in X):
        return None
    names = list(dict.fromkeys(name for row in X for name in row))
    if not all(isinstance(name, str) for name in names):
        return None
    return Raw(names, [[row.get(name) for row in X] for name in names], len(X), loose=True)


def _is_other(column: Any) -> bool:
    """Whether a column holds texts or times."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return column.dtype.kind in "USMm"
    return any(isinstance(v, (str, bytes)) or is_time(v) for v in column if not is_missing(v))
