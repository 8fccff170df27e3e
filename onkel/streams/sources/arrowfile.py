"""Arrow's own files (Feather, IPC), as a Parquet file is read: batches of some columns.

A file is a stream of messages behind a mark. A batch is unpacked whole, and a few packed bytes may
stand for gigabytes: what a message says that it unpacks to is looked at before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from onkel.streams.sources.schema import SourceError

_FILE, _OLD = b"ARROW1", b"FEA1"
MEMORY = 2**30
"""Bytes that a batch may unpack to."""


class ArrowFile:
    """An Arrow file, or a stream of batches in a file; each batch is checked before it is used.

    Parameters
    ----------
    path : str
        Of the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with open(path, "rb") as file:
            head = file.read(len(_FILE))
        if head.startswith(_OLD):
            raise SourceError(f"{path} is Feather of version 1: write it anew, as version 2.")
        self._start = 8 if head == _FILE else 0
        with self._opened() as file:
            self.schema_arrow = _stream(file, None).schema

    def _opened(self) -> Any:
        import pyarrow

        file = pyarrow.OSFile(self._path)  # no memory map: a file that shrinks would end us
        file.seek(self._start)
        return file

    def iter_batches(self, batch_size: int, columns: list[str]) -> Iterator[Any]:
        """Yield the rows of some columns, in batches of up to so many."""
        import pyarrow

        wanted = set(columns)
        fields = [j for j, name in enumerate(self.schema_arrow.names) if name in wanted]
        with self._opened() as looked, self._opened() as file:
            messages = pyarrow.MessageReader.open_stream(looked)
            reader = _stream(file, fields)
            while self._next_fits(messages):
                batch = reader.read_next_batch()
                batch.validate(full=True)
                for start in range(0, batch.num_rows, batch_size):
                    yield batch.slice(start, batch_size).select(columns)

    def _next_fits(self, messages: Iterator[Any]) -> bool:
        """Look at all messages up to the next batch; return whether there is one."""
        for message in messages:
            size = sum(_claims(message))
            if size > MEMORY:
                raise SourceError(
                    f"{self._path}: to unpack a batch of it takes {size >> 20} MiB of memory, more "
                    f"than {MEMORY >> 20}. Write it in smaller batches."
                )
            if message.type == "record batch":
                return True
        return False

    def close(self) -> None:
        """Leave nothing open: files are, while batches are read."""


def _stream(file: Any, fields: list[int] | None) -> Any:
    from pyarrow import ipc

    how = ipc.IpcReadOptions(included_fields=fields, use_threads=False)
    return ipc.open_stream(file, options=how)


def _claims(message: Any) -> list[int]:
    """Return how many bytes each packed buffer of a message unpacks to, as it says itself."""
    if message.type == "schema" or message.body is None:
        return []
    data, body = message.metadata.to_pybytes(), memoryview(message.body)
    try:
        batch = _table(data, struct.unpack_from("<i", data)[0], 2)
        if message.type == "dictionary":
            batch = _table(data, batch, 1)
        if not _field(data, batch, 3):
            return []  # nothing is packed
        at = _field(data, batch, 2)
        at += struct.unpack_from("<I", data, at)[0]
        (count,) = struct.unpack_from("<I", data, at)
        places = [struct.unpack_from("<qq", data, at + 4 + 16 * i) for i in range(count)]
        return [max(struct.unpack_from("<q", body, p)[0], 0) for p, size in places if size >= 8]
    except struct.error:
        raise SourceError("An Arrow message is damaged.") from None


def _field(data: bytes, table: int, number: int) -> int:
    """Return where a field of a flatbuffer's table is; 0 if it has none."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, vtable)
    at = 4 + 2 * number
    offset = struct.unpack_from("<H", data, vtable + at)[0] if at < size else 0
    return table + offset if offset else 0


def _table(data: bytes, table: int, number: int) -> int:
    at = _field(data, table, number)
    return at + int(struct.unpack_from("<I", data, at)[0])
