"""The state of a group of keys: what is known of each, and the pages in which its model lies.

A page holds the records of many keys, one behind another, in one entry of the map state ``pages``;
the same entry of ``keys`` says whose they are, with each key's counters. Pages are never changed:
what a batch has changed goes to a new page, whose number is higher, so that of several records of a
key the one in the highest page counts. A record is whole, or (of large models) the 64-byte pieces
in which it differs from the key's last whole one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import types

from onkel import files

Array = NDArray[Any]
Key = tuple[Any, ...]

LAYOUT = 2
"""Of the states ``arena``, ``keys`` and ``pages``."""
COUNTS = ("time", "learned", "late", "refused", "used")
"""What a page says of each key beside its record; see :class:`onkel.spark.models.Head`. `used`: the
processing time in milliseconds of the last batch that had rows of it."""
_ENTRY = np.dtype([
    ("alive", "?"), ("here", "?"), ("time", "f8"), ("learned", "i8"), ("late", "i8"),
    ("refused", "i8"), ("used", "i8"), ("page", "i8"), ("at", "i8"), ("size", "i8"),
    ("change", "i8"), ("change_at", "i8"), ("change_size", "i8"),
])  # fmt: skip


_WHOLE, _CHANGE = ("page", "at", "size"), ("change", "change_at", "change_size")


def key_columns(keys: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the state ``keys``, for keys of these columns."""
    long, double, flag = types.LongType(), types.DoubleType(), types.BooleanType()
    of_each = {
        **keys, "time": double, **dict.fromkeys(COUNTS[1:], long), "bytes": long, "whole": flag,
    }  # fmt: skip
    return {
        "layout": types.IntegerType(), "format": types.IntegerType(), "written": long,
        "digest": types.BinaryType(), **{n: types.ArrayType(t) for n, t in of_each.items()},
    }  # fmt: skip


class Page(NamedTuple):
    """What is known of a page without reading it."""

    digest: bytes
    written: int
    """Processing time in milliseconds; -1: there is none."""
    total: int
    """Bytes, of records in use or not."""


def digest_of(data: bytes) -> bytes:
    """Return the digest by which a page is checked."""
    return hashlib.blake2b(data, digest_size=16).digest()


class Directory:
    """The keys of a group: a number for each, and by it counters and where the record lies.

    Examples
    --------
    >>> directory = Directory()
    >>> directory.enter(("a",)), directory.enter(("b",)), directory.enter(("a",))
    (0, 1, 0)
    >>> directory.forget(np.array([0]))
    >>> directory.enter(("c",)), directory.names
    (0, [('c',), ('b',)])
    """

    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}
        self.names: list[Key | None] = []
        self.entries = np.zeros(0, _ENTRY)
        self._free: list[int] = []

    def enter(self, key: Key) -> int:
        """Return a key's number, a new one for a new key."""
        number = self.numbers.get(key)
        if number is not None:
            return number
        if self._free:
            number = self._free.pop()
            self.names[number] = key
        else:
            number = len(self.names)
            self.names.append(key)
        if number >= len(self.entries):
            self.entries = np.concatenate([self.entries, np.zeros(max(64, number), _ENTRY)])
        self.numbers[key] = number
        self.entries[number] = (True, False, -np.inf, 0, 0, 0, -1, -1, 0, 0, -1, 0, 0)
        return number

    def forget(self, numbers: Array) -> None:
        """Forget keys; their numbers are used again."""
        for number in numbers.tolist():
            key = self.names[number]
            assert key is not None
            del self.numbers[key]
            self.names[number] = None
            self._free.append(number)
            self.entries[number] = np.zeros((), _ENTRY)

    def place(self, page: int, numbers: Array, sizes: Array, whole: Array) -> None:
        """Note that a page holds records of keys, one behind another; or, not whole, changes."""
        at, held = np.cumsum(sizes) - sizes, self.entries
        held["change"][numbers] = -1
        for names, there in ((_WHOLE, whole), (_CHANGE, ~whole)):
            for name, column in zip(names, (page, at[there], sizes[there]), strict=True):
                held[name][numbers[there]] = column

    def idle(self, now: int, limit: int) -> Array:
        """Return the numbers of keys that were last used so long ago."""
        found = self.entries
        return np.flatnonzero(found["alive"] & (now - found["used"] >= limit))

    def inside(self, page: int) -> Array:
        """Return the numbers of keys of which a page holds something that is in use."""
        found = self.entries
        there = (found["page"] == page) | (found["change"] == page)
        return np.flatnonzero(found["alive"] & there)

    def live(self, page: int) -> int:
        """Return the bytes of a page that are in use."""
        found = self.entries[self.inside(page)]
        whole = found["size"][found["page"] == page].sum()
        return int(whole + found["change_size"][found["change"] == page].sum())


class Pages:
    """The two map states of a group's pages.

    Parameters
    ----------
    keys, data : pyspark MapState
        From a page's number to what it holds of which keys, and to its bytes.
    width : int
        How many columns a key has.
    """

    def __init__(self, keys: Any, data: Any, width: int) -> None:
        self._keys, self._data, self._width = keys, data, width

    def enter(self, page: int, directory: Directory) -> Page | None:
        """Take in what a page says of its keys; None if it is not there any more."""
        row = self._keys.getValue((page,))
        if row is None:
            return None
        layout, format, written, digest, *rest = row
        check_version(layout, format)
        names, counts = rest[: self._width], rest[self._width : -2]
        sizes, whole = np.array(rest[-2], np.int64), np.array(rest[-1], bool)
        found = [directory.enter(key) for key in zip(*names, strict=True)]
        numbers = np.array(found, np.int64)
        for name, column in zip(COUNTS, counts, strict=True):
            directory.entries[name][numbers] = column
        directory.place(page, numbers, sizes, whole)
        return Page(bytes(digest), written, int(sizes.sum()))

    def read(self, number: int, page: Page) -> bytes:
        """Return a page's bytes."""
        row = self._data.getValue((number,))
        data = b"" if row is None else bytes(row[0])
        if len(data) != page.total or digest_of(data) != page.digest:
            raise ValueError(
                f"keyed: the state of a group of keys cannot be read: page {number} is damaged, or "
                "lost. Start with a new checkpoint, or with an earlier copy of this one."
            )
        return data

    def write(
        self, page: int, numbers: Array, directory: Directory, parts: Sequence[bytes],
        whole: Array, now: int,
    ) -> Page:  # fmt: skip
        """Write a page of records; return what is known of it."""
        data = b"".join(parts)
        sizes = np.array([len(part) for part in parts], np.int64)
        directory.place(page, numbers, sizes, whole)
        found = Page(digest_of(data), now, len(data))
        names = [directory.names[number] for number in numbers.tolist()]
        columns = [[*column] for column in zip(*names, strict=True)]
        counts = [directory.entries[name][numbers].tolist() for name in COUNTS]
        head = (LAYOUT, files.FORMAT, now, found.digest)
        self._keys.updateValue((page,), (*head, *columns, *counts, sizes.tolist(), whole.tolist()))
        self._data.updateValue((page,), (data,))
        return found

    def remove(self, page: int) -> None:
        """Forget a page of which nothing is in use."""
        self._keys.removeKey((page,))
        self._data.removeKey((page,))


def check_version(layout: int, format: int) -> None:
    """Raise if a newer onkel has written the state."""
    if layout > LAYOUT or format > files.FORMAT:
        raise ValueError(
            f"keyed: the state was written by a newer onkel (layout {layout}, format {format}; "
            f"this one reads up to {LAYOUT} and {files.FORMAT}): upgrade onkel on the workers, or "
            "start with a new checkpoint."
        )
