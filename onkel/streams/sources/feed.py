"""Where bytes come from: a file, a pipe, a file that grows and is rotated."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from pathlib import Path
from typing import Any

from onkel.streams.sources import rotation
from onkel.streams.sources.schema import SourceError
from onkel.streams.sources.unpack import LONGEST_MAGIC, Unpack, kind_of

CHUNK = 2**20


class Feed:
    """Bytes in order. `read` returns None where nothing is there *now*, b"" at the end."""

    live = False
    """Whether more may come later: then nobody waits for a block to fill."""
    offset = 0
    """Plain bytes handed out so far, of the present file."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        """What a person should be told: what may not have been read."""

    def read(self, wait: float = 0.0) -> bytes | None:
        """Return the next bytes; wait so many seconds for them, where they may come later."""
        raise NotImplementedError

    def next_file(self) -> bool:
        """After the end: go on with the file that took this one's place, if there is one."""
        return False

    def identity(self) -> dict[str, Any]:
        """Return what a position must know to find the same bytes again."""
        return {}

    def close(self) -> None:
        """Let go of what is open."""


class FileFeed(Feed):
    """A file, compressed or not, from a plain offset on."""

    def __init__(self, path: str | Path, position: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.path = Path(path)
        self._file = _opened(self.path)
        self.stat = os.fstat(self._file.fileno())
        if stat.S_ISDIR(self.stat.st_mode):
            raise SourceError(f"{self.path} is a folder; a source is a file, or - for stdin.")
        self._start(position)

    def _start(self, position: dict[str, Any] | None) -> None:
        head = self._file.read(LONGEST_MAGIC)
        self._file.seek(0)
        make = kind_of(head)
        self._unpack = Unpack(make) if make else None
        self._ended, self.offset = False, 0
        if position is None:
            return
        if not rotation.agrees(self._file, position):
            raise SourceError(
                f"{self.path} is not the file that was read before: it begins differently. Give "
                "the file that the state belongs to, or another --state."
            )
        if self._unpack is None:
            if self.stat.st_size < position["offset"]:
                raise self._shorter()
            self._file.seek(position["offset"])
            self.offset = position["offset"]
        else:
            self._skip(position["offset"])

    def _skip(self, offset: int) -> None:
        """Unpack up to a plain offset: compressed files have no other way."""
        found = b""
        while self.offset < offset:
            found = self.read() or b""
            if not found:
                raise self._shorter()
        extra = self.offset - offset
        self._held = found[len(found) - extra :] if extra else b""
        self.offset = offset

    def _shorter(self) -> SourceError:
        return SourceError(f"{self.path} is shorter than what was read of it before.")

    _held = b""

    def read(self, wait: float = 0.0) -> bytes | None:
        """Return the next bytes, b"" at the end."""
        found, self._held = self._held, b""
        while not found and not self._ended:
            raw = self._file.read(CHUNK)
            if self._unpack is None:
                found, self._ended = raw, not raw
            elif raw:
                found = self._unpack(raw)
            else:
                self._unpack.finish()
                self._ended = True
        self.offset += len(found)
        return found

    def identity(self) -> dict[str, Any]:
        """Return the file's number and how it begins."""
        size, digest = rotation.fingerprint(self._file)
        return {"inode": self.stat.st_ino, "head": size, "digest": digest}

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class GrowingFeed(FileFeed):
    """A file that others write: goes on when it grows, is rotated, or is cut to nothing."""

    live = True

    def __init__(self, path: str | Path, position: dict[str, Any] | None = None) -> None:
        self.named = Path(path)
        found = rotation.located(self.named, position) if position else None
        super().__init__(found or self.named, position if found else None)
        self._refuse_packed()
        if position and found is None:
            self.notes.append(
                f"the file that was read before is gone; {self.named} is read from its start, and "
                "what came between is not"
            )

    def _refuse_packed(self) -> None:
        if self._unpack is not None:
            raise SourceError("--follow takes plain files: a compressed one does not grow.")

    def read(self, wait: float = 0.0) -> bytes | None:
        """Return the next bytes, None while there are none, b"" when another file took over."""
        until = time.monotonic() + wait
        while True:
            self._ended = False
            found = super().read()
            if found:
                return found
            if self._replaced():
                self._ended = False
                return super().read()  # what was written between the two looks
            if time.monotonic() >= until:
                return None
            time.sleep(min(0.05, max(until - time.monotonic(), 0.001)))

    def _replaced(self) -> bool:
        if os.fstat(self._file.fileno()).st_size < self.offset:
            return True
        try:
            return os.stat(self.named).st_ino != self.stat.st_ino
        except FileNotFoundError:
            return False  # between the two steps of a rotation

    def next_file(self) -> bool:
        """Open the next of those that were rotated since, or what has the name now."""
        finished, until = os.fstat(self._file.fileno()), time.monotonic() + 1.0
        self._file.close()
        while True:
            self.path, packed = rotation.following(self.named, finished)
            try:
                self._file = _opened(self.path)
                break
            except SourceError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)  # it is being renamed just now
        self.notes += [f"{n} was packed before it was read: its rows are left out" for n in packed]
        self.stat = os.fstat(self._file.fileno())
        self._start(None)
        self._refuse_packed()
        return True


class PipeFeed(Feed):
    """Standard input, or what has a name but cannot be wound back: a named pipe, a device."""

    live = True

    def __init__(
        self, skip: int = 0, fd: int | None = None, path: str | Path | None = None
    ) -> None:
        super().__init__()
        self._own = _opened_pipe(path) if path is not None else None
        self._fd = self._own if self._own is not None else _stdin() if fd is None else fd
        self._unpack: Unpack | None = None
        self._begun, self._left, self.offset = False, skip, skip
        self._first = b""

    def read(self, wait: float = 0.0) -> bytes | None:
        """Return the next bytes, None while there are none, b"" when the pipe was closed."""
        until = time.monotonic() + wait
        while True:
            left = max(until - time.monotonic(), 0.0)
            if not select.select([self._fd], [], [], left)[0]:
                return None
            raw = os.read(self._fd, CHUNK)
            found = self._plain(raw)
            if self._left:
                cut = min(self._left, len(found))
                self._left, found = self._left - cut, found[cut:]
            if not raw and self._left:
                raise SourceError("The pipe brought less than what was read of it before.")
            if found or not raw:
                self.offset += len(found)
                return found

    def _plain(self, raw: bytes) -> bytes:
        if not self._begun:
            self._first += raw
            if raw and len(self._first) < LONGEST_MAGIC and b"\n" not in self._first:
                return b""  # too little to tell what it is; the end of the pipe tells as well
            self._begun, raw, self._first = True, self._first, b""
            make = kind_of(raw)
            self._unpack = Unpack(make) if make else None
        if self._unpack is None:
            return raw
        if not raw:
            self._unpack.finish()
        return self._unpack(raw)

    def close(self) -> None:
        """Close what was opened here."""
        if self._own is not None:
            os.close(self._own)
            self._own = None


def _opened(path: Path) -> Any:
    try:
        return open(path, "rb")
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}.") from None


def flows(path: str | Path) -> bool:
    """Whether what has a name cannot be wound back: a named pipe, a terminal.

    Examples
    --------
    >>> flows("/dev/null"), flows("/dev")
    (True, False)
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def _opened_pipe(path: str | Path) -> int:
    try:  # a named pipe that nobody writes yet must not be waited for here, where nobody can stop
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}.") from None


def _stdin() -> int:
    if sys.stdin is None:
        raise SourceError("Standard input is closed: name a file, or pipe rows into the command.")
    return sys.stdin.fileno()
