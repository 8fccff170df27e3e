"""Parquet and Arrow files, through pyarrow: columns with types of their own."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.streams.sources import rotation
from onkel.streams.sources.arrowfile import ArrowFile
from onkel.streams.sources.assemble import Rules, assemble
from onkel.streams.sources.block import MOST, Block, most_rows
from onkel.streams.sources.decoder import Cells, Wanted, fit
from onkel.streams.sources.delimited import numbers_of
from onkel.streams.sources.feed import FileFeed
from onkel.streams.sources.lines import LONGEST
from onkel.streams.sources.schema import CELLS, SAMPLE, Roles, Schema, SourceError, check_names
from onkel.streams.sources.source import Source
from onkel.streams.sources.values import BadRow, Odd, number

Array = NDArray[Any]


class Parquet(Source):
    """Rows of a Parquet file; a position is a row number. Columns of no role are not read."""

    format = "parquet"

    def __init__(
        self, path: str, roles: Roles, size: int | None = None,
        position: dict[str, Any] | None = None, schema: Schema | None = None,
        rules: Rules | None = None, durable: bool = False,
    ) -> None:  # fmt: skip
        self._feed = FileFeed(path)
        self._whole = rotation.digest(self._feed.path) if durable else ""
        try:
            self._check(position)
            self._file = _opened(path, self.format)
        except SourceError:
            self._feed.close()
            raise
        self._row, self.size, self._rules = (position or {}).get("row", 0), size, rules
        self._clock = {k: v for k, v in (position or {}).items() if k == "clock"}
        self.schema = schema or self._looked(roles)
        self._wanted = Wanted.of(self.schema)

    def _check(self, position: dict[str, Any] | None) -> None:
        known = position or {}
        if position and not rotation.agrees(self._feed.file, position):
            how = "it begins differently"
        elif self._whole and known.get("whole", self._whole) != self._whole:
            how = "it was changed since"
        else:
            return
        raise SourceError(
            f"{self._feed.path} is not the file that was read before: {how}. Give the file that "
            "the state belongs to, or another --state."
        )

    def _looked(self, roles: Roles) -> Schema:
        """Learn the columns from their types, and where those leave it open from the first rows."""
        fields = {field.name: field.type for field in self._file.schema_arrow}
        names = [field.name for field in self._file.schema_arrow]
        check_names(names, roles)
        named = {roles.target, roles.time, roles.key}
        told = {n: kind for n in names if (kind := _told_by(fields[n])) is not None}
        looked = [n for n in names if n in named or told.get(n) != "other"]
        found: dict[str, Any] = dict.fromkeys(names, (_OTHER,)) | dict.fromkeys(looked, ())
        found |= {n: _values(c) for n, c in self._head(looked).items()}
        return Schema.of(names, [found[n] for n in names], roles, told)

    def _head(self, names: list[str]) -> dict[str, Any]:
        rows = min(SAMPLE, max(CELLS // max(len(names), 1), 1))
        return next(map(_by_name, self._batches(rows, names)), {})

    def trial(self) -> Block:
        """Return the first rows, broken ones included."""
        cells = self._cells(self._head(self._names()))
        count = len(cells.good) + len(cells.bad)
        numbers = list(range(1, count + 1))
        return assemble(0, cells, self.schema, numbers, [b""] * count, {}, self._rules)

    def _names(self) -> list[str]:
        names = self.schema.names
        return [names[j] for j in (*self._wanted.features, *self._wanted.others.values())]

    def blocks(self) -> Iterator[Block | None]:
        """Yield blocks."""
        for columns, count in self._cuts():
            first, self._row = self._row, self._row + count
            numbers = list(range(first + 1, first + count + 1))
            position = {"row": self._row, **self._feed.identity(), **self._clock}
            position |= {"whole": self._whole} if self._whole else {}
            block = assemble(
                first, self._cells(columns), self.schema, numbers, [b""] * count, position,
                self._rules,
            )  # fmt: skip
            self._clock = {k: v for k, v in position.items() if k == "clock"}
            yield block

    def _batches(self, size: int, names: list[str]) -> Iterator[Any]:
        import pyarrow

        try:
            yield from self._file.iter_batches(batch_size=size, columns=names)
        except (pyarrow.ArrowException, OSError) as error:
            raise SourceError(f"{self._feed.path} is damaged: {error}.") from None

    def _cuts(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield columns from cut to cut, however the file is divided into batches."""
        import pyarrow

        held, skip, names = None, self._row, self._names()
        for batch in self._batches(min(MOST, most_rows(len(names))), names):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            table = pyarrow.Table.from_batches([batch.slice(skip)])
            skip, held = 0, table if held is None else pyarrow.concat_tables([held, table])
            while held.num_rows >= (want := self._left()):
                yield _by_name(held.slice(0, want)), want
                held = held.slice(want)
        if held is not None and held.num_rows:
            yield _by_name(held), held.num_rows

    def _cells(self, columns: dict[str, Any]) -> Cells:
        names = self.schema.names
        if not columns:  # not one row
            columns = dict.fromkeys(names, ())
        wanted = self._wanted
        others = {role: _values(columns[names[at]]) for role, at in wanted.others.items()}
        features = [columns[name] for name in self.schema.features]
        count = len(next(iter(columns.values())))
        found = [_numbers(column) for column in features]
        plain = [column for column in found if column is not None]
        if not found:
            return Cells(list(range(count)), np.empty((count, 0)), others, [])
        if len(plain) == len(found):
            X = np.ascontiguousarray(np.reshape(plain, (len(plain), count)).T)
            if fit(X):
                return Cells(list(range(count)), X, others, [])
        return self._closely([_values(column) for column in features], others, count)

    def _closely(self, features: list[Any], others: dict[str, Any], count: int) -> Cells:
        good: list[int] = []
        rows, bad = [], []
        names, decimal = self.schema.features, self.schema.decimal
        for i in range(count):
            try:
                rows.append([
                    number(c[i], n, decimal) for c, n in zip(features, names, strict=True)
                ])  # fmt: skip
                good.append(i)
            except BadRow as reason:
                bad.append((i, str(reason)))
        kept = {role: [column[i] for i in good] for role, column in others.items()}
        return Cells(good, np.array(rows, float).reshape(len(rows), len(names)), kept, bad)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._feed.close()


_OTHER = Odd("something else")
"""Stands for what a column holds that can be no number."""


def _by_name(table: Any) -> dict[str, Any]:
    return dict(zip(table.schema.names, table.columns, strict=True))


def _told_by(kind: Any) -> str | None:
    """Return what a type tells of a column; None where its values must."""
    from pyarrow import types

    held = kind.value_type if types.is_dictionary(kind) else kind
    texts = types.is_string(held) or types.is_large_string(held) or types.is_string_view(held)
    if types.is_boolean(held):
        return "boolean"
    if types.is_timestamp(held) or types.is_date(held):
        return "time"
    if texts:
        return "category" if types.is_dictionary(kind) else None
    return None if _is_number(held) or types.is_null(held) else "other"


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    plain = types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)
    return plain or types.is_decimal(kind)


def _numbers(column: Any) -> Array | None:
    """Return a column of numbers, NaN where there is none; None if it holds something else."""
    import pyarrow
    from pyarrow import types

    if not hasattr(column, "type"):
        return None
    whole = pyarrow.chunked_array([column]) if isinstance(column, pyarrow.Array) else column
    if types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    if not _is_number(whole.type):
        return None
    whole = whole.cast(pyarrow.uint8()) if types.is_boolean(whole.type) else whole
    return numbers_of(whole.cast(pyarrow.float64(), safe=False))


def _values(column: Any) -> list[Any]:
    """Return a column's values: numbers and texts, dates as texts, what is neither as it is."""
    if not hasattr(column, "to_pylist"):
        return list(column)
    column = _in_microseconds(column)
    try:
        found = column.to_pylist()
    except (ValueError, OverflowError, LookupError):  # a time that Python has no value for
        found = [_value(cell) for cell in column]
    return [_plain(value) for value in found]


def _in_microseconds(column: Any) -> Any:
    """Return times as Python has them: without nanoseconds, which a clock in seconds rounds off."""
    import pyarrow
    from pyarrow import types

    kind = column.type
    if types.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pyarrow.timestamp("us", kind.tz), safe=False)
    if types.is_time64(kind) and kind.unit == "ns":
        return column.cast(pyarrow.time64("us"), safe=False)
    if types.is_duration(kind) and kind.unit == "ns":
        return column.cast(pyarrow.duration("us"), safe=False)
    return column


def _value(cell: Any) -> Any:
    try:
        return cell.as_py()
    except (ValueError, OverflowError, LookupError):
        return Odd(f"a {cell.type} that is out of range")


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, str) and len(value) > LONGEST:
        return Odd(f"a text of {len(value)} characters, more than {LONGEST},")
    return value


class Feather(Parquet):
    """Rows of an Arrow file (Feather, IPC)."""

    format = "arrow"


def _opened(path: str, kind: str) -> Any:
    name = kind.capitalize()
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise SourceError(f"{name} needs pyarrow: pip install 'onkel[arrow]'.") from None
    try:
        if kind == "arrow":
            return ArrowFile(path)
        return parquet.ParquetFile(path, page_checksum_verification=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise SourceError(f"{path} cannot be read as {name}: {error}.") from None
