"""The rows of a group of keys as arrays, sorted by key and time, and beside them what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onkel.judge import Columns, Rows
from onkel.spark.columns import Reader
from onkel.spark.models import Key

Array = NDArray[Any]

NO_KEY, NO_TIME, NO_TARGET, NO_FEATURES = 1, 2, 4, 8
"""What a row lacks, as the bits of its column ``lacks``."""


class Table:
    """Rows in, columns out.

    Parameters
    ----------
    frame : pandas.DataFrame
        The key's columns, ``moment``, ``row`` (or the columns of a `reader`), ``lacks``, and
        perhaps ``label`` and ``place``.
    keys : list of str
        The key's columns.
    fields : dict
        What comes out: names, and Spark's names of their types.
    scale : float
        What a time is multiplied with to have seconds.
    reader : Reader, optional
        For features that are not all numbers.

    Examples
    --------
    >>> frame = pd.DataFrame({"id": ["b", "a", "b"], "moment": [3, 1, 2], "lacks": [0, 0, 0]})
    >>> table = Table(frame.assign(row=[[0.0], [1.0], [2.0]]), ["id"], {"score": "double"}, 1.0)
    >>> [(key, table.X[part, 0].tolist()) for key, part in table.by_key()]
    [(('b',), [2.0, 0.0]), (('a',), [1.0])]
    """

    def __init__(
        self, frame: Any, keys: Sequence[str], fields: Mapping[str, Any], scale: float,
        reader: Reader | None = None,
    ) -> None:  # fmt: skip
        columns = [frame[name].to_numpy() for name in keys]
        lacks = frame["lacks"].to_numpy()
        codes = _codes(columns, lacks)
        time = frame["moment"].to_numpy()
        y = frame["label"].to_numpy() if "label" in frame else None
        X: Any = _features(frame["row"]) if reader is None else frame[list(reader.aliases)]
        sequence = frame["place"].to_numpy() if "place" in frame else None
        order = np.lexsort([*_ties(X, y), *([] if sequence is None else [sequence]), time, codes])
        self.names, self.keys = list(keys), [column[order] for column in columns]
        self.codes, self.lacks, self.time = (v[order] for v in (codes, lacks, time))
        self.X: Any = X[order] if reader is None else X.iloc[order]
        self._reader = reader
        self.y = None if y is None else y[order]
        self.sequence = None if sequence is None else sequence[order]
        self.seconds = self.time * scale
        self.late, self.error = np.zeros(len(time), bool), np.full(len(time), None, object)
        self._found = {name: _empty(kind, len(time)) for name, kind in fields.items()}

    def by_key(self) -> Iterator[tuple[Key, slice]]:
        """Yield each key and where its rows are; those without a key come first."""
        edges = np.flatnonzero(np.diff(self.codes, prepend=-2, append=-2)).tolist()
        for start, stop in pairwise(edges):
            yield tuple(_plain(column[start]) for column in self.keys), slice(start, stop)

    def rows(self, at: Array, since: Any) -> Rows:
        """Return some rows for a model; time does not run backwards from `since`."""
        y = None if self.y is None else self.y[at]
        reader = self._reader
        X = self.X[at] if reader is None else reader.encode(self.X.iloc[at])
        return Rows(X, y, self.known(at), np.maximum(self.seconds[at], since))

    def known(self, at: Array) -> Array:
        """Return which of these rows have a target."""
        found: Array = (self.lacks[at] & NO_TARGET) == 0
        return found

    def stretches(self, at: Array) -> Iterator[Array]:
        """Yield runs of these rows with, and without, a target."""
        for part in Rows(at, known=self.known(at)).stretches():
            yield at[part]

    def values(self, i: int) -> list[Any]:
        """Return what a row holds."""
        found: list[Any] = (self.X if self._reader is None else self.X.to_numpy())[i].tolist()
        return found

    def put(self, at: Array, found: Columns) -> None:
        """Take in what came of some rows."""
        for name, values in found.items():
            self._found[name][at] = values

    def frame(self, alerts_only: bool = False) -> Any:
        """Return what comes out, in the order of the rows or less what is no alert."""
        columns: dict[str, Any] = dict(zip(self.names, self.keys, strict=True))
        timeless = (self.lacks & NO_TIME) != 0
        columns["moment"] = pd.Series(self.time).astype(object).mask(timeless, None)
        if self.sequence is not None:
            columns["place"] = self.sequence
        found = pd.DataFrame({**columns, **self._found, "late": self.late, "error": self.error})
        if not alerts_only:
            return found
        kept = self._found["alert"].astype(bool) | (self.error != None)  # noqa: E711
        return found[kept]


def _codes(columns: Sequence[Array], lacks: Array) -> Array:
    """Return one number per key; -1 for rows without one."""
    single = columns[0] if len(columns) == 1 else pd.MultiIndex.from_arrays(columns)
    codes = pd.factorize(single)[0]
    codes[(lacks & NO_KEY) != 0] = -1
    return codes


def _features(column: Any) -> Array:
    """Return features as an array, or (where rows differ in length) as an array of arrays."""
    values = column.to_numpy()
    lengths = {len(v) for v in values}
    if len(lengths) == 1 and lengths != {0}:
        return np.stack(values).astype(np.float64, copy=False)
    found = np.empty(len(values), object)
    found[:] = [np.asarray(v, np.float64) for v in values]
    return found


def _ties(X: Any, y: Array | None) -> list[Array]:
    """Return what decides, last first, which of two rows of the same time is the first."""
    if isinstance(X, pd.DataFrame):
        ties = [pd.factorize(X[name], sort=True)[0] for name in reversed(X.columns)]
    elif X.ndim == 2:
        ties = list(X.T[::-1])
    else:
        ties = [np.unique([repr(v.tolist()) for v in X], return_inverse=True)[1]]
    return ties if y is None else [pd.factorize(y, sort=True)[0], *ties]


def _empty(kind: Any, rows: int) -> Array:
    return np.full(rows, np.nan) if kind == "double" else np.full(rows, None, object)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
