"""Where bytes come from: a file, a pipe."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onkel.streams.sources import rotation
from onkel.streams.sources.schema import SourceError
from onkel.streams.sources.trail import Trail
from onkel.streams.sources.unpack import LONGEST_MAGIC, Unpack, kind_of

CHUNK = 2**20


class Feed:
    """Bytes in order. `read` returns None where nothing is there *now*, b"" at the end."""

    live = False
    """Whether more may come later: then nobody waits for a block to fill."""
    offset = 0
    """Plain bytes handed out so far, of the present file."""
    returns = False
    """Whether the same bytes can be had again, and more behind them, by a later run."""
    trail: Trail | None = None
    """What was handed out of the present file, where a later run will want to know."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        """What a person should be told: what may not have been read."""

    def read(self, wait: float = 0.0) -> bytes | None:
        """Return the next bytes; wait so many seconds for them, where they may come later."""
        raise NotImplementedError

    def _handed(self, found: bytes) -> bytes:
        """Note bytes that are handed out."""
        self.offset += len(found)
        if self.trail is not None and found:
            self.trail.add(found)
        return found

    def next_file(self) -> bool:
        """After the end: go on with the file that took this one's place, if there is one."""
        return False

    def identity(self) -> dict[str, Any]:
        """Return what a position must know to find the same bytes again."""
        return {}

    def close(self) -> None:
        """Let go of what is open."""


class FileFeed(Feed):
    """A file, compressed or not, from a plain offset on.

    Parameters
    ----------
    path : path
        Of the file.
    position : dict, optional
        Of an earlier run; what it has read is looked at once more, if it is known by a checksum.
    durable : bool
        Whether what is read becomes known by a checksum.
    """

    returns = True

    def __init__(
        self, path: str | Path, position: dict[str, Any] | None = None, durable: bool = False
    ) -> None:
        super().__init__()
        self.path, self._durable = Path(path), durable
        self.file = opened(self.path)
        self.stat = os.fstat(self.file.fileno())
        try:
            self._start(position)
        except BaseException:
            self.file.close()
            raise

    def _start(self, position: dict[str, Any] | None) -> None:
        head = self.file.read(LONGEST_MAGIC)
        self.file.seek(0)
        make = kind_of(head)
        self._unpack = Unpack(make) if make else None
        self._ended, self.offset = False, 0
        self.trail = Trail() if self._durable else None
        if position is None:
            return
        if not rotation.agrees(self.file, position):
            raise SourceError(
                f"{self.path} is not the file that was read before: it begins differently. Give "
                "the file that the state belongs to, or another --state."
            )
        if self._unpack is None and self.stat.st_size < position["offset"]:
            raise self._shorter()
        self._go_to(position)

    def _go_to(self, position: dict[str, Any]) -> None:
        """Go to an offset; read everything before it, where that tells whether it is the same."""
        if "read" in position:
            self.trail = Trail()
            self._retrace(position)
            self.trail = self.trail if self._durable else None
        elif self._unpack is None:
            self.offset = self.file.seek(position["offset"])
        else:
            self._skip_to(position["offset"])

    def _retrace(self, position: dict[str, Any]) -> None:
        assert self.trail is not None
        before = 0
        for at, known in [*position["marks"], (position["offset"], position["read"])]:
            self._skip_to(at)
            if self.trail.sum(at) != known:
                raise SourceError(
                    f"{self.path} was changed since it was read: between its bytes {before} and "
                    f"{at} stands something else. Rows behind it would be read in the wrong "
                    "place. Give the file as it was, or another --state to read this one anew."
                )
            before = at

    def _skip_to(self, offset: int) -> None:
        while self.offset < offset:
            found = self._next()
            if not found:
                raise self._shorter()
            wanted = offset - self.offset
            self._handed(found[:wanted])
            self._held = found[wanted:]

    def _shorter(self) -> SourceError:
        return SourceError(f"{self.path} is shorter than what was read of it before.")

    _held = b""

    def read(self, wait: float = 0.0) -> bytes | None:
        """Return the next bytes, b"" at the end."""
        return self._handed(self._next())

    def _next(self) -> bytes:
        found, self._held = self._held, b""
        while not found and not self._ended:
            if self._unpack is not None:
                found = self._unpack.read()
                if found:
                    break
            raw = self.file.read(CHUNK)
            self._ended = not raw
            if self._unpack is None:
                found = raw
            elif raw:
                self._unpack.add(raw)
            else:
                self._unpack.finish()
        return found

    def identity(self) -> dict[str, Any]:
        """Return the file's number and how it begins."""
        size, digest = rotation.fingerprint(self.file)
        return {"inode": self.stat.st_ino, "head": size, "digest": digest}

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class PipeFeed(Feed):
    """Standard input, or what has a name but cannot be wound back: a named pipe, a device.

    Parameters
    ----------
    fd : int, optional
        What is read; else what has the name `path`, else standard input.
    path : path, optional
        Of a named pipe.
    position : dict, optional
        Of an earlier run: as much is skipped, for the pipe begins anew.
    durable : bool
        Whether what comes will come again in a later run, and becomes known by a checksum.
    """

    live = True

    def __init__(
        self, fd: int | None = None, path: str | Path | None = None,
        position: dict[str, Any] | None = None, durable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._own = _opened_pipe(path) if path is not None else None
        self._fd = self._own if self._own is not None else _stdin() if fd is None else fd
        self._unpack: Unpack | None = None
        self._begun, self._first, self._ended = False, b"", False
        self._known = position or {}
        self._left = self.offset = self._known.get("offset", 0)
        self.returns = durable
        self.trail = Trail() if durable else None

    def read(self, wait: float = 0.0) -> bytes | None:
        """Return the next bytes, None while there are none, b"" when the pipe was closed."""
        until = time.monotonic() + wait
        while True:
            found = self._unpack.read() if self._unpack is not None else b""
            if not found:
                left = max(until - time.monotonic(), 0.0)
                if not select.select([self._fd], [], [], left)[0]:
                    return None
                found = self._plain(os.read(self._fd, CHUNK))
            found = self._behind_known(found) if self._left else found
            if found or self._ended:
                return self._handed(found)

    def _behind_known(self, found: bytes) -> bytes:
        """Return what is new of the next bytes; what is known must be the same as before."""
        known, found = found[: self._left], found[self._left :]
        self._left -= len(known)
        if self._ended and self._left:
            raise SourceError("The pipe brought less than what was read of it before.")
        if self.trail is not None:
            self.trail.add(known)
            found_sum = self.trail.sum(self.offset - self._left)
            if not self._left and found_sum != self._known.get("read", found_sum):
                raise SourceError(
                    f"The pipe brought something else than before in its first {self.offset} "
                    "bytes. Give what was read then, or another --state to read this anew."
                )
        return found

    def _plain(self, raw: bytes) -> bytes:
        self._ended = not raw
        if not self._begun:
            self._first += raw
            if raw and len(self._first) < LONGEST_MAGIC and b"\n" not in self._first:
                return b""  # too little to tell what it is; the end of the pipe tells as well
            self._begun, raw, self._first = True, self._first, b""
            make = kind_of(raw)
            self._unpack = Unpack(make) if make else None
        if self._unpack is None:
            return raw
        self._unpack.add(raw)
        if self._ended:
            self._unpack.finish()
        return self._unpack.read()

    def close(self) -> None:
        """Close what was opened here."""
        if self._own is not None:
            os.close(self._own)
            self._own = None


_FLOWING = {stat.S_IFIFO: "named pipe", stat.S_IFCHR: "device", stat.S_IFSOCK: "socket"}
"""What has a name but cannot be wound back."""


def opened(path: Path) -> Any:
    """Return a file that can be wound back, open; raise SourceError where it is none."""
    try:  # a pipe that took a file's place must not be waited for, where nobody can stop
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}.") from None
    kinds = {stat.S_IFDIR: "directory", **_FLOWING}
    kind = kinds.get(stat.S_IFMT(os.fstat(number).st_mode))
    if kind is not None:
        os.close(number)
        raise SourceError(f"{path} is a {kind}, where a file was to be read.")
    return open(number, "rb")


def flows(path: str | Path) -> bool:
    """Whether what has a name cannot be wound back: a named pipe, a terminal.

    Examples
    --------
    >>> flows("/dev/null"), flows("/dev")
    (True, False)
    """
    try:
        return stat.S_IFMT(os.stat(path).st_mode) in _FLOWING
    except OSError:
        return False


@contextlib.contextmanager
def readable(name: str) -> Iterator[None]:
    """An error of the disk, or of whatever a source lies on, is told as the source's own."""
    try:
        yield
    except OSError as error:
        raise SourceError(f"{name}: cannot be read: {error.strerror or error}.") from None


def _opened_pipe(path: str | Path) -> int:
    try:  # a named pipe that nobody writes yet must not be waited for here, where nobody can stop
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}.") from None


def _stdin() -> int:
    if sys.stdin is None:
        raise SourceError("Standard input is closed: name a file, or pipe rows into the command.")
    return sys.stdin.fileno()
