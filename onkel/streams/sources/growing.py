"""A file that others write: it grows, is rotated, copied and cut to nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from onkel.streams.sources import rotation
from onkel.streams.sources.feed import FileFeed, opened
from onkel.streams.sources.schema import SourceError

BEFORE = 4096
"""So many bytes before the present place tell whether a file was cut, and has grown again."""


class GrowingFeed(FileFeed):
    """A file that others write: goes on when it grows, is rotated, or is cut to nothing."""

    live, returns = True, False

    def __init__(
        self, path: str | Path, position: dict[str, Any] | None = None, durable: bool = False
    ) -> None:
        self.named = Path(path)
        found = rotation.located(self.named, position) if position else None
        super().__init__(found or self.named, position if found else None, durable)
        self._refuse_packed()
        if position and found is None:
            self.notes.append(
                f"the file that was read before is gone; {self.named} is read from its start, and "
                "what came between is not"
            )

    def _start(self, position: dict[str, Any] | None) -> None:
        self._before = b""
        super()._start(position)
        start = max(self.offset - BEFORE, 0)
        self._before = os.pread(self.file.fileno(), self.offset - start, start)

    def _refuse_packed(self) -> None:
        if self._unpack is not None:
            raise SourceError("--follow takes plain files: a compressed one does not grow.")

    def _handed(self, found: bytes) -> bytes:
        self._before = (self._before + found[-BEFORE:])[-BEFORE:]
        return super()._handed(found)

    def read(self, wait: float = 0.0) -> bytes | None:
        """Return the next bytes, None while there are none, b"" when another file took over."""
        until = time.monotonic() + wait
        while True:
            found = self._next()
            if self._was_cut():  # then these may be of the new rows already: they come again
                if not self._goes_on_in_copy():
                    return b""
            elif found:
                return self._handed(found)
            elif self._renamed():
                return self._handed(self._next())  # what was written between the two looks
            elif time.monotonic() >= until:
                return None
            else:
                time.sleep(min(0.05, max(until - time.monotonic(), 0.001)))

    def _next(self) -> bytes:
        self._ended = False
        return super()._next()

    def _was_cut(self) -> bool:
        """Whether the file became shorter, or has grown again with other bytes before here."""
        start = self.offset - len(self._before)
        return os.pread(self.file.fileno(), len(self._before), start) != self._before

    def _goes_on_in_copy(self) -> bool:
        """After a cut: go on in a copy that was made before it, if there is one."""
        copy = rotation.copied(self.named, self.offset, self._before)
        if copy is None:
            self.notes.append(
                f"{self.named} was cut, or written anew: what came to it between the last look and "
                "that is not read, and it is read from its start"
            )
            return False
        self.file.close()
        self.path, self.file = copy, opened(copy)
        self.stat = os.fstat(self.file.fileno())
        self.file.seek(self.offset)
        return True

    def _renamed(self) -> bool:
        try:
            return os.stat(self.named).st_ino != self.stat.st_ino
        except FileNotFoundError:
            return False  # between the two steps of a rotation

    def next_file(self) -> bool:
        """Open the next of those that were rotated since, or what has the name now."""
        finished, until = os.fstat(self.file.fileno()), time.monotonic() + 1.0
        self.file.close()
        while True:
            self.path, packed = rotation.following(self.named, finished)
            try:
                self.file = opened(self.path)
                break
            except SourceError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)  # it is being renamed just now
        self.notes += [f"{n} was packed before it was read: its rows are left out" for n in packed]
        self.stat = os.fstat(self.file.fileno())
        self._start(None)
        self._refuse_packed()
        return True
