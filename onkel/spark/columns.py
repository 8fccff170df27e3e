"""Features of a frame: columns of any types, or one column of arrays of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns import Encoded, Plan, Raw

Array = NDArray[Any]

NUMBERS = ("byte", "short", "integer", "long", "float", "double", "boolean")
"""Spark's names of the types of numbers; decimals, too."""
OTHERS = {"string": "category", "timestamp": "time", "date": "time"}
"""Of other types, and what such columns are taken for."""


def checked(features: str | Sequence[str]) -> list[str]:
    """Return the names of the feature columns as a list; one name is one column.

    Examples
    --------
    >>> checked("x"), checked(("a", "b"))
    (['x'], ['a', 'b'])
    """
    names = [features] if isinstance(features, str) else list(features)
    if not names or not all(isinstance(n, str) for n in names):
        raise TypeError(
            "features must be the name of a column of arrays, or a list of names of columns; got "
            f"{features!r:.80}."
        )
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise ValueError(f"features names the column {twice[0]!r} twice.")
    return names


def check_schema(schema: Any, features: str | Sequence[str]) -> None:
    """Raise unless a Spark schema has these features, of types that are accepted.

    Parameters
    ----------
    schema : pyspark.sql.types.StructType
        Of the frame that will be read.
    features : str or list of str
        As users give them.
    """
    names = checked(features)
    known = {field.name: field.dataType for field in schema.fields}
    for name in names:
        if name not in known:
            raise ValueError(f"features: there is no column {name!r}; there are {list(known)}.")
        kind = known[name]
        lone = len(names) == 1 and kind.typeName() == "array"
        inner = kind.elementType if lone else kind
        if inner.typeName() not in (*NUMBERS, "decimal", *([] if lone else OTHERS)):
            raise TypeError(
                f"features: column {name!r} is {kind.simpleString()}; numbers, texts, booleans, "
                "timestamps and dates are accepted, or one column of arrays of numbers. Cast it "
                f"first, for example with col({name!r}).cast('double')."
            )


@dataclass(frozen=True)
class Reader:
    """How columns of any types become rows of codes and numbers, on every machine alike."""

    names: tuple[str, ...]
    plan: Plan
    moments: tuple[str, ...]
    """Those that travel as microseconds since 1970: pandas would have them in a zone."""
    aliases: tuple[str, ...]
    """What each is called on its way."""

    def cells(self, schema: Any) -> list[Any]:
        """Return the columns as they travel."""
        from pyspark.sql import functions as F

        found = []
        for name, alias in zip(self.names, self.aliases, strict=True):
            quoted, kind = name.replace("`", "``"), schema[name].dataType.typeName()
            cell = F.col(f"`{quoted}`")
            if kind == "timestamp":
                cell = F.unix_micros(cell)
            elif kind == "date":
                cell = F.unix_date(cell).cast("long") * 86_400_000_000
            found.append((cell.cast("double") if kind == "decimal" else cell).alias(alias))
        return found

    def encode(self, frame: Any) -> Encoded:
        """Return the rows of a pandas frame of columns that have travelled."""
        cells = []
        for name, alias in zip(self.names, self.aliases, strict=True):
            values = frame[alias].to_numpy()
            cells.append(_moments(values) if name in self.moments else values)
        return self.plan.encode(Raw(list(self.names), cells, len(frame)))


def reader_of(
    schema: Any, features: str | Sequence[str], model: Any, aliases: Sequence[str] | None = None
) -> Reader | None:
    """Return how features that are not all numbers are read; None where they are.

    What columns are is told by the schema and the model's ``columns``, not by rows, so that all
    machines agree; or by the plan of a model that has begun.
    """
    names = checked(features)
    kinds = {n: schema[n].dataType.typeName() for n in names}
    plan = _plan(names, kinds, model)
    if plan is None:
        return None
    moments = tuple(n for n in names if OTHERS.get(kinds[n]) == "time")
    return Reader(tuple(names), plan, moments, tuple(aliases or names))


def _plan(names: list[str], kinds: dict[str, str], model: Any) -> Plan | None:
    given: Plan | None = getattr(model, "plan_", None)
    if given is not None and sorted(given.names) != sorted(names):
        raise ValueError(f"features: the model has learned {given.names}; got {names}.")
    if given is not None or "array" in kinds.values():
        return given
    if not OTHERS.keys() & {*kinds.values()} and getattr(model, "columns", None) is None:
        return None
    if not hasattr(model, "plan_of") or model.__sklearn_is_fitted__():
        raise ValueError(
            f"features: this {type(model).__name__} takes numbers alone; got columns of the types "
            f"{kinds}."
        )
    told = {n: OTHERS.get(k, "boolean" if k == "boolean" else "number") for n, k in kinds.items()}
    found: Plan = model.plan_of(Raw(names, [[] for _ in names], 0, told=told))
    return found


def _moments(values: Any) -> Array:
    """Return microseconds as times."""
    micros = np.array([np.nan if v is None else v for v in values], np.float64)
    found = np.full(len(micros), np.datetime64("NaT"), "datetime64[us]")
    there = ~np.isnan(micros)
    found[there] = micros[there].astype(np.int64).astype("datetime64[us]")
    return found


def read(frame: Any, features: str | Sequence[str]) -> Array:
    """Return the features of a pandas frame as rows of float64, NaN where one is null.

    Parameters
    ----------
    frame : pandas.DataFrame
        Some rows, as Spark hands them over.
    features : str or list of str
        Columns of numbers; or one column of arrays, all of one length.

    Examples
    --------
    >>> import pandas as pd
    >>> read(pd.DataFrame({"a": [1, 2], "b": [0.5, None]}), ["a", "b"])
    array([[1. , 0.5], [2. , nan]])
    >>> read(pd.DataFrame({"x": [[1.0, 2.0], [3.0, 4.0]]}), "x")
    array([[1., 2.], [3., 4.]])
    """
    names = checked(features)
    missing = [n for n in names if n not in frame.columns]
    if missing:
        raise ValueError(
            f"features: there is no column {missing[0]!r}; there are {list(frame.columns)}."
        )
    if len(names) == 1 and len(frame) and np.ndim(_present(frame[names[0]])) == 1:
        return _arrays(names[0], frame[names[0]])
    return np.column_stack([_numbers(n, frame[n]) for n in names]).reshape(len(frame), len(names))


def _present(column: Any) -> Any:
    """Return the first value of a column that is not null, or None."""
    return next((v for v in column.to_numpy() if v is not None), None)


def _numbers(name: str, column: Any) -> Array:
    """Return a column of numbers; the row that holds something else is named."""
    if column.dtype != object:  # as most are
        return column.to_numpy(np.float64, na_value=np.nan)
    found = np.empty(len(column))
    for i, value in enumerate(column.to_numpy()):
        try:
            found[i] = np.nan if value is None else float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"Feature {name!r} of row {i} is {value!r:.40} ({type(value).__name__}); numbers "
                "are accepted."
            ) from None
    return found


def _arrays(name: str, column: Any) -> Array:
    """Return a column of arrays as rows; one of another length, or null, is named."""
    width = len(_present(column))
    rows = np.empty((len(column), width))
    for i, value in enumerate(column.to_numpy()):
        if value is None or np.shape(value) != (width,):
            found = "null" if value is None else f"of length {np.size(value)}"
            raise ValueError(
                f"Feature {name!r} of row {i} is {found}; arrays of {width} numbers are accepted, "
                "as the first of these rows has."
            )
        rows[i] = value
    return rows
