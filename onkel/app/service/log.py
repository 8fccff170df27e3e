"""The write-ahead log: append-only files of checksummed frames, one fsync for all that wait.

A frame is ``magic, length, checksum, first position, records``, and holds all requests that were
waiting when it was written. The next frame is written when this one is on the disk, so a frame
that is not whole was never acknowledged if it is the last, and is damage if another follows.
"""

from __future__ import annotations

import itertools
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from onkel.app.disk import sync_folder

MAGIC = b"okl1"
_HEAD = struct.Struct("<4sIIQ")
_DECODER = msgspec.msgpack.Decoder(list[bytes])


class Damaged(RuntimeError):
    """The log has lost something that was acknowledged."""


class Stopped(RuntimeError):
    """The disk failed: nothing more is accepted."""


def frame(first: int, records: list[bytes]) -> bytes:
    """Return the bytes of one frame; `first` is the position of its first record.

    Examples
    --------
    >>> len(frame(1, [b"abc"]))
    26
    """
    payload = msgspec.msgpack.encode(records)
    check = _checksum(first, payload)
    return _HEAD.pack(MAGIC, len(payload), check, first) + payload


def _checksum(first: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(first.to_bytes(8, "little")))


def frames(data: bytes) -> Iterator[tuple[int, list[bytes], int]]:
    """Yield first position, records and end of each whole frame; stop at the first broken one."""
    at = 0
    while at + _HEAD.size <= len(data):
        magic, length, check, first = _HEAD.unpack_from(data, at)
        stop = at + _HEAD.size + length
        payload = data[at + _HEAD.size : stop]
        whole = magic == MAGIC and stop <= len(data)
        if not whole or _checksum(first, payload) != check:
            return
        yield first, _DECODER.decode(payload), stop
        at = stop


class Log:
    """The log of one state, in files named by the position of their first record.

    Examples
    --------
    >>> import tempfile
    >>> log = Log(Path(tempfile.mkdtemp()))
    >>> list(log.recover(1))
    []
    >>> log.append([b"one", b"two"])
    1
    >>> log.next
    3
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.next = 1
        """The position of the next record."""
        self.size = 0
        """Bytes of the file that is written to."""
        self.cut = 0
        """Bytes of a torn frame that were cut off at the start."""
        self._file = -1
        self._failed = ""

    def segments(self) -> list[Path]:
        """Return the files, oldest first."""
        return sorted(self.folder.glob("*.log"))

    # -- reading -------------------------------------------------------------------------------

    def recover(self, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield position and bytes of each record, then be ready to append.

        A torn frame at the end of the last file is cut off. `start` is the position that comes
        next if the log is empty.
        """
        self.next = start
        paths = self.segments()
        for path in paths:
            yield from self._read(path, last=path == paths[-1])
        self._open(paths[-1] if paths else None)

    def _read(self, path: Path, last: bool) -> Iterator[tuple[int, bytes]]:
        data, end = path.read_bytes(), 0
        for first, records, stop in frames(data):
            if first > self.next:
                raise Damaged(f"{path.name}: records {self.next} to {first - 1} are missing.")
            for i, record in enumerate(records):
                yield first + i, record
            self.next, end = max(self.next, first + len(records)), stop
        if end < len(data):
            self._cut(path, data, end, last)

    def _cut(self, path: Path, data: bytes, end: int, last: bool) -> None:
        """Cut a torn frame off; refuse if whole frames follow it."""
        if not last or _another(data, end + 1):
            raise Damaged(
                f"{path.name} is damaged at byte {end}, before its end: acknowledged examples "
                "are unreadable. Restore the state from a copy, or move this file and all later "
                "ones away to go on without them."
            )
        self.cut = len(data) - end
        with open(path, "r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())

    # -- writing -------------------------------------------------------------------------------

    def _open(self, path: Path | None = None) -> None:
        if path is None:
            path = self.folder / f"{self.next:020d}.log"
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.size = os.fstat(self._file).st_size
        sync_folder(self.folder)

    def append(self, records: list[bytes]) -> int:
        """Write records as one frame and wait until they are on the disk; return the first's place.

        If the disk refuses them, the log is as it was before.
        """
        if self._failed:
            raise Stopped(self._failed)
        data, first = frame(self.next, records), self.next
        try:
            _write(self._file, data)
        except OSError:
            self._undo()
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
                path.unlink()

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _another(data: bytes, start: int) -> bool:
    """Whether a whole frame begins somewhere behind `start`."""
    at = data.find(MAGIC, start)
    while at >= 0:
        if next(frames(data[at:]), None) is not None:
            return True
        at = data.find(MAGIC, at + 1)
    return False
