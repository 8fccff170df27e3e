"""Data frames and series, of any kind that River takes, in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns import Raw, raw_of, table_of
from onkel.inputs import LARGEST
from onkel.river.places import Name, number

Array = NDArray[Any]


def matrix(X: Any) -> tuple[list[Name], Array]:
    """Return the names of a data frame's columns and its numbers, NaN where one is absent."""
    import narwhals.stable.v2 as nw
    from river.utils import dataframe

    frame = dataframe.into_frame(X)
    names = list(frame.columns)
    plain = all(t.is_numeric() or t == nw.Boolean for t in frame.schema.values())
    if plain:
        rows = np.array(dataframe.to_numpy(frame), np.float64).reshape(len(frame), len(names))
    else:
        rows = np.empty((len(frame), len(names)))
        for j, name in enumerate(names):
            values = [number(name, v) for v in frame[name].to_list()]
            rows[:, j] = [np.nan if v is None else v for v in values]
    for i, j in np.argwhere(np.abs(rows) > LARGEST)[:1].tolist():
        number(names[j], rows[i, j])  # which says what is wrong
    return names, rows


def holds_others(X: Any) -> bool:
    """Whether a data frame holds more than numbers: texts, times, categories."""
    return raw_of(X) is not None


def raw(X: Any) -> Raw:
    """Return a data frame column by column, whatever is in it; its names become texts."""
    found = table_of(X)
    names = [str(name) for name in getattr(X, "columns", [])]
    if found is None or len(set(names)) < len(names):
        raise ValueError(f"A data frame must have a name for each column; got {names!r:.80}.")
    return replace(found, names=found.names if found.named else names, loose=True)


def texts(X: Any, on: str | None) -> list[Any]:
    """Return the texts of a series, of a list, or of the column `on` of a data frame."""
    if hasattr(X, "columns"):
        if on is None or on not in list(X.columns):
            raise ValueError(
                f"A string kernel reads one column of a data frame, named by on=; got on={on!r} "
                f"and the columns {list(X.columns)!r}."
            )
        X = X[on]
    return list(X.to_list() if hasattr(X, "to_list") else X)


def values(y: Any) -> list[Any]:
    """Return what a series (or a list, or an array) holds."""
    for name in ("to_list", "tolist"):
        if hasattr(y, name):
            return list(getattr(y, name)())
    return list(y)


def name_of(y: Any) -> Any:
    """Return the name of a series."""
    return getattr(y, "name", None)


def series(found: Any, name: Any, like: Any) -> Any:
    """Return results as a series of the same kind, and with the same index, as the input."""
    import narwhals.stable.v2 as nw
    from river.utils import dataframe

    found = found.tolist() if isinstance(found, np.ndarray) else found
    return dataframe.to_native_series(
        found, name=name, like=nw.from_native(like, allow_series=True)
    )


def frame(found: Mapping[Any, Array], like: Any) -> Any:
    """Return columns of results as a data frame of the same kind, and index, as the input."""
    import narwhals.stable.v2 as nw
    from river.utils import dataframe

    return dataframe.to_native_frame(found, like=nw.from_native(like, allow_series=True))
