"""The write-ahead log: append-only files of checksummed frames, one fsync for all that wait.

A frame is a head, a table and the records, and holds all requests that were waiting when it was
written. Head and table have checksums of their own, and the table has one for each record and says
whose it is. So three things can be told apart:

- a frame that ends before its head says, or zeros alone: a torn write, never acknowledged; it is
  cut off, and told of;
- a damaged record: it is passed on as such, with its owner, who alone has lost something;
- a damaged head or table: what was acknowledged there, and for whom, cannot be known any more.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from onkel.app.disk import open_private, read_private, sync_folder

_LOG = logging.getLogger("onkel.service")
MAGIC = b"okl2"
_HEAD = struct.Struct("<4sIQQII")
"""Magic, number of records, bytes behind the head, first position, checksums: table, head."""
_ROW = struct.Struct("<QII")
"""Of the table: the record's owner, its bytes, its checksum."""
_NAME = re.compile(r"\d{20}\.log")


class Damaged(RuntimeError):
    """The log has lost something that was acknowledged."""


class Stopped(RuntimeError):
    """The disk failed: nothing more is accepted."""


class Record(NamedTuple):
    """One record, where it stands and whose it is."""

    position: int
    owner: int
    body: bytes
    check: int

    @property
    def whole(self) -> bool:
        """Whether it is as it was written."""
        return zlib.crc32(self.body) == self.check


def frame(first: int, records: Sequence[tuple[int, bytes]]) -> bytes:
    """Return the bytes of one frame; `first` is the position of its first record.

    Examples
    --------
    >>> [record.body for record in records_of(frame(1, [(7, b"abc"), (8, b"d")]))]
    [b'abc', b'd']
    """
    return _packed(first, [(owner, body, zlib.crc32(body)) for owner, body in records])


def frame_again(record: Record) -> bytes:
    """Return a frame with this one record, damaged as it may be."""
    return _packed(record.position, [record[1:]])


def _packed(first: int, records: Sequence[tuple[int, bytes, int]]) -> bytes:
    table = b"".join([_ROW.pack(owner, len(body), check) for owner, body, check in records])
    bodies = [body for _, body, _ in records]
    size = len(table) + sum(map(len, bodies))
    head = _HEAD.pack(MAGIC, len(records), size, first, zlib.crc32(table), 0)[:-4]
    return b"".join([head, zlib.crc32(head).to_bytes(4, "little"), table, *bodies])


class Frame(NamedTuple):
    """A frame as it was found."""

    first: int
    records: list[Record]
    stop: int


def frames(data: bytes) -> Iterator[Frame]:
    """Yield frame after frame; a torn one ends them.

    Raises
    ------
    Damaged
        At a head or a table that is not as it was written.
    """
    at = 0
    while at + _HEAD.size <= len(data):
        magic, count, size, first, check, own = _HEAD.unpack_from(data, at)
        body = at + _HEAD.size
        if magic != MAGIC or zlib.crc32(data[at : body - 4]) != own:
            if not data[at:].strip(b"\0"):  # room that was given, and not written to
                return
            raise Damaged(f"at byte {at}")
        if body + size > len(data):
            return
        table = data[body : body + count * _ROW.size]
        if zlib.crc32(table) != check:
            raise Damaged(f"at byte {body}")
        yield Frame(first, _rows(data, first, table, body + len(table)), body + size)
        at = body + size


def _rows(data: bytes, first: int, table: bytes, at: int) -> list[Record]:
    found = []
    for position, (owner, length, check) in enumerate(_ROW.iter_unpack(table), first):
        found.append(Record(position, owner, data[at : at + length], check))
        at += length
    return found


def records_of(data: bytes) -> list[Record]:
    """Return all records of some frames; these must be there to the last byte."""
    found, end = list[Record](), 0
    for one in frames(data):
        found += one.records
        end = one.stop
    if end < len(data):
        raise Damaged(f"at byte {end}: its end is missing")
    return found


def owned(file: BinaryIO, owner: int | None, end: int) -> Iterator[Record]:
    """Yield the records of one owner before a position; no more than one is held at a time.

    Those of others are stepped over; None: there are no others.

    Raises
    ------
    Damaged
        Where a head or a table is not as it was written, or the file ends before that position.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO(frame(1, [(7, b"abc"), (8, b"d")]) + frame(3, [(7, b"e"), (7, b"f")]))
    >>> [(record.position, record.body) for record in owned(file, 7, end=4)]
    [(1, b'abc'), (3, b'e')]
    """
    at = 0
    while at < end:
        place = file.tell()
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise Damaged(f"at byte {place}: its end is missing")
        magic, count, _, at, check, own = _HEAD.unpack(head)
        known = magic == MAGIC and zlib.crc32(head[:-4]) == own
        table = file.read(count * _ROW.size) if known else b""
        if not table or zlib.crc32(table) != check:
            raise Damaged(f"at byte {place}")
        for whose, length, checked in _ROW.iter_unpack(table):
            if at < end and owner in (whose, None):
                yield Record(at, whose, file.read(length), checked)
            else:
                file.seek(length, os.SEEK_CUR)
            at += 1


class Log:
    """The log of one state, in files named by the position of their first record.

    Examples
    --------
    >>> import tempfile
    >>> log = Log(Path(tempfile.mkdtemp()))
    >>> list(log.recover(1))
    []
    >>> log.append([(1, b"one"), (2, b"two")])
    1
    >>> log.next, [record.owner for record in log.records(1, 3)]
    (3, [2])
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.next = 1
        """The position of the next record."""
        self.size = 0
        """Bytes of the file that is written to."""
        self.cut = 0
        """Bytes of a torn frame that were cut off at the start."""
        self.make_room: Callable[[OSError], bool] = lambda error: False
        """Asked where the disk did not take a record: True if that may go otherwise now."""
        self._file = -1
        self._failed = ""

    def segments(self) -> list[Path]:
        """Return the files, oldest first; whatever else lies there is not of the log."""
        there = (p for p in self.folder.iterdir() if _NAME.fullmatch(p.name))
        return sorted(p for p in there if not p.is_dir())

    # -- reading -------------------------------------------------------------------------------

    def recover(self, start: int) -> Iterator[Record]:
        """Yield each record, then be ready to append.

        A torn frame at the end of the last file is cut off. `start` is the position that comes
        next if the log is empty.
        """
        self.next = start
        paths = self.segments()
        for path in paths:
            end = 0
            for found in self._frames(path):
                if found.first > self.next:
                    raise _missing(path, self.next, found.first)
                yield from found.records
                self.next, end = max(self.next, found.first + len(found.records)), found.stop
            self._cut(path, end, path.stat().st_size, path == paths[-1])
        self._open(paths[-1] if paths else None)

    def records(self, after: int, before: int) -> Iterator[Record]:
        """Yield the records between two positions, which must be on the disk."""
        at, paths = after + 1, self.segments()
        for path, following in itertools.zip_longest(paths, paths[1:]):
            if following is not None and int(following.stem) <= at:
                continue
            for found in self._frames(path):
                if at >= before:
                    return
                if found.first > at:
                    raise _missing(path, at, found.first)
                yield from (r for r in found.records if at <= r.position < before)
                at = max(at, found.first + len(found.records))
        if at < before:
            raise Damaged(f"{self.folder}: records {at} to {before - 1} are missing.")

    def _frames(self, path: Path) -> Iterator[Frame]:
        """Yield the frames of a file."""
        try:
            yield from frames(read_private(path))
        except Damaged as error:
            raise Damaged(
                f"{path} is damaged {error}: acknowledged examples are unreadable, of which "
                "models is not known. Restore the state from a copy, or move this file and all "
                "later ones away to go on without them."
            ) from None
        except OSError as error:
            raise Damaged(f"{path} cannot be read ({error}).") from error

    def _cut(self, path: Path, end: int, size: int, last: bool) -> None:
        """Cut a torn frame off; refuse if it is not the end of all."""
        if end == size:
            return
        if not last:
            raise Damaged(
                f"{path} ends within a frame, at byte {end}, but there are later files: its end "
                "is missing. Restore the state from a copy, or move the later files away to go on "
                "without them."
            )
        self.cut = size - end
        _LOG.warning("%s: %d bytes of a write that did not end are cut off", path, self.cut)
        handle = open_private(path, os.O_WRONLY)
        try:
            os.ftruncate(handle, end)
            os.fsync(handle)
        finally:
            os.close(handle)

    # -- writing -------------------------------------------------------------------------------

    def _open(self, path: Path | None = None) -> None:
        if path is None:
            path = self.folder / f"{self.next:020d}.log"
        file = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.close()  # not before: a disk without room leaves the log as it was
        self._file = file
        self.size = os.fstat(self._file).st_size
        sync_folder(self.folder)

    def append(self, records: Sequence[tuple[int, bytes]]) -> int:
        """Write records as one frame and wait until they are on the disk; return the first's place.

        Each is given with its owner. If the disk refuses them, the log is as it was before.
        """
        if self._failed:
            raise Stopped(self._failed)
        data, first = frame(self.next, records), self.next
        while True:
            try:
                _write(self._file, data)
                break
            except OSError as error:
                self._undo()
                if self._failed or not self.make_room(error):
                    raise
        try:
            os.fdatasync(self._file)
        except OSError as error:  # what is on the disk now is unknown: no more promises
            self._failed = f"The log could not be brought to the disk ({error}). Restart onkel."
            raise Stopped(self._failed) from error
        self.size += len(data)
        self.next += len(records)
        return first

    def _undo(self) -> None:
        try:
            os.ftruncate(self._file, self.size)
            os.fdatasync(self._file)
        except OSError as error:
            self._failed = f"The log could not be cut after a failed write ({error}). Restart."

    def rotate(self) -> int:
        """Go on in a new file; return the position of its first record."""
        if self.size:
            self._open()
        return self.next

    def drop(self, before: int) -> None:
        """Remove files whose records all lie before a position; the newest file stays."""
        paths = self.segments()
        for path, following in itertools.pairwise(paths):
            if int(following.stem) <= before:
                remove(path)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def remove(path: Path) -> None:
    """Remove a file that is not needed any more; one that stays does no harm."""
    try:
        path.unlink()
    except OSError as error:
        _LOG.warning("%s could not be removed (%s)", path, error)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _missing(path: Path, first: int, then: int) -> Damaged:
    return Damaged(f"{path}: records {first} to {then - 1} are missing.")
