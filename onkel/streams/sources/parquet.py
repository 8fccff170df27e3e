"""Parquet files, through pyarrow: columns with types of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.streams.sources.assemble import Rules, assemble
from onkel.streams.sources.block import MOST, Block
from onkel.streams.sources.decoder import Cells, Wanted, fit
from onkel.streams.sources.delimited import numbers_of
from onkel.streams.sources.feed import FileFeed
from onkel.streams.sources.schema import SAMPLE, Roles, Schema, SourceError
from onkel.streams.sources.source import Source
from onkel.streams.sources.values import BadRow, number

Array = NDArray[Any]


class Parquet(Source):
    """Rows of a Parquet file; a position is a row number."""

    format = "parquet"

    def __init__(
        self, path: str, roles: Roles, size: int | None = None,
        position: dict[str, Any] | None = None, schema: Schema | None = None,
        rules: Rules | None = None,
    ) -> None:  # fmt: skip
        self._feed = FileFeed(path, {**position, "offset": 0} if position else None)
        self._file = _opened(path)
        self._row, self.size, self._rules = (position or {}).get("row", 0), size, rules
        self._clock = {k: v for k, v in (position or {}).items() if k == "clock"}
        self._names = [field.name for field in self._file.schema_arrow]
        if schema is None:
            rows = list(zip(*(_values(c) for c in self._head()), strict=True))
            schema = Schema.infer(self._names, rows, roles)
        self.schema = schema
        self._wanted = Wanted.of(schema)

    def _head(self) -> list[Any]:
        for batch in self._batches(SAMPLE):
            return list(batch.columns)
        return [[] for _ in self._names]

    def sample(self) -> Array:
        """Return the numbers of the first rows."""
        return self._cells(self._head()).X

    def blocks(self) -> Iterator[Block | None]:
        """Yield blocks."""
        for columns, count in self._cuts():
            first, self._row = self._row, self._row + count
            numbers = list(range(first + 1, first + count + 1))
            position = {"row": self._row, **self._feed.identity(), **self._clock}
            block = assemble(
                first, self._cells(columns), self.schema, numbers, [b""] * count, position,
                self._rules,
            )  # fmt: skip
            self._clock = {k: v for k, v in position.items() if k == "clock"}
            yield block

    def _batches(self, size: int) -> Iterator[Any]:
        import pyarrow

        try:
            yield from self._file.iter_batches(batch_size=size)
        except (pyarrow.ArrowException, OSError) as error:
            raise SourceError(f"{self._feed.path} is damaged: {error}.") from None

    def _cuts(self) -> Iterator[tuple[list[Any], int]]:
        """Yield columns from cut to cut, however the file is divided into batches."""
        import pyarrow

        held, skip = None, self._row
        for batch in self._batches(MOST):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            table = pyarrow.Table.from_batches([batch.slice(skip)])
            skip, held = 0, table if held is None else pyarrow.concat_tables([held, table])
            while held.num_rows >= (want := self._left()):
                yield held.slice(0, want).columns, want
                held = held.slice(want)
        if held is not None and held.num_rows:
            yield held.columns, held.num_rows

    def _cells(self, columns: list[Any]) -> Cells:
        others = {role: _values(columns[at]) for role, at in self._wanted.others.items()}
        count = len(columns[0]) if columns else 0
        found = [_numbers(columns[j]) for j in self._wanted.features]
        plain = [column for column in found if column is not None]
        if len(plain) == len(found):
            X = np.ascontiguousarray(np.reshape(plain, (len(plain), count)).T)
            if fit(X):
                return Cells(list(range(count)), X, others, [])
        return self._closely([_values(columns[j]) for j in self._wanted.features], others, count)

    def _closely(self, features: list[Any], others: dict[str, Any], count: int) -> Cells:
        good: list[int] = []
        rows, bad = [], []
        names = self.schema.features
        for i in range(count):
            try:
                rows.append([number(c[i], n) for c, n in zip(features, names, strict=True)])
                good.append(i)
            except BadRow as reason:
                bad.append((i, str(reason)))
        kept = {role: [column[i] for i in good] for role, column in others.items()}
        return Cells(good, np.array(rows, float).reshape(len(rows), len(names)), kept, bad)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._feed.close()


def _numbers(column: Any) -> Array | None:
    """Return a column of numbers, NaN where there is none; None if it holds something else."""
    import pyarrow
    from pyarrow import types

    if not hasattr(column, "type"):
        return None
    kind = column.type
    if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
        return None
    whole = pyarrow.chunked_array([column]) if isinstance(column, pyarrow.Array) else column
    whole = whole.cast(pyarrow.uint8()) if types.is_boolean(kind) else whole
    return numbers_of(whole.cast(pyarrow.float64(), safe=False))


def _values(column: Any) -> list[Any]:
    """Return a column's values; dates as texts, what is neither number nor text as it is."""
    found = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    return [v.isoformat() if hasattr(v, "isoformat") else v for v in found]


def _opened(path: str) -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise SourceError("Parquet needs pyarrow: pip install 'onkel[arrow]'.") from None
    try:
        return parquet.ParquetFile(path, page_checksum_verification=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise SourceError(f"{path} cannot be read as Parquet: {error}.") from None
