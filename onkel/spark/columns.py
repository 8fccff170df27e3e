"""Features of a frame: named columns of numbers, or one column of arrays, as rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NUMBERS = ("byte", "short", "integer", "long", "float", "double", "boolean")
"""Spark's names of the types that a feature may have; decimals, too."""


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
            "features must be the name of a column of arrays, or a list of names of number "
            f"columns; got {features!r:.80}."
        )
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise ValueError(f"features names the column {twice[0]!r} twice.")
    return names


def check_schema(schema: Any, features: str | Sequence[str]) -> None:
    """Raise unless a Spark schema has these features: numbers, or one column of arrays of them.

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
        if inner.typeName() not in (*NUMBERS, "decimal"):
            raise TypeError(
                f"features: column {name!r} is {kind.simpleString()}; numbers are accepted, or "
                "one column of arrays of numbers. Cast it first, for example with "
                f"col({name!r}).cast('double')."
            )


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
