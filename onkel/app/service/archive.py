"""The archive: parts of the log that no restart needs any more, kept so that they can be replayed.

``archive/<first>-<end>.log``, files of the log under another name: the positions of the first
record and of the one behind the last. A file is moved there when a snapshot has made it needless,
in the place of being removed, and goes when it is older than was asked for, or when all of them are
larger; the oldest first. So at any moment a record is in the log or in the archive, and nothing
that a restart needs is in the archive alone.
"""

from __future__ import annotations

import errno
import itertools
import logging
import math
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from onkel.app.disk import open_private, sync_folder
from onkel.app.notify.messages import iso
from onkel.app.service.log import Damaged, Log, Record, owned
from onkel.clock import seconds
from onkel.fleet.bounded import bytes_of

_LOG = logging.getLogger("onkel.service")
_NAME = re.compile(r"(\d{20})-(\d{20})\.log")
FULL = (errno.ENOSPC, errno.EDQUOT)
EVERY = 60.0
"""Seconds between two looks for what has become too old."""


class Gone(RuntimeError):
    """Rows went while they were read."""


@dataclass(frozen=True)
class Keep:
    """How long rows are kept, and how many bytes of them.

    Examples
    --------
    >>> Keep.of("30d"), Keep.of("12h,2GB").bytes
    (Keep(text='30d', seconds=2592000.0, bytes=inf), 2000000000)
    """

    text: str
    seconds: float = math.inf
    bytes: float = math.inf

    @classmethod
    def of(cls, text: str) -> Keep:
        """Return what was asked for, or raise ValueError."""
        found: dict[str, float] = {}
        for part in map(str.strip, text.split(",")):
            name, value = _limit(part, text)
            if name in found:
                raise _unlike(text)
            found[name] = value
        return cls(text, **found)


def _limit(part: str, text: str) -> tuple[str, float]:
    span = seconds(part)
    if span is not None:
        return "seconds", span
    try:
        return "bytes", bytes_of(part if part[-1:] in "bB" else "")
    except ValueError:
        raise _unlike(text) from None


def _unlike(text: str) -> ValueError:
    return ValueError(
        f"--archive is a time span, a size, or both: 30d, 2GB, 30d,2GB; got {text[:80]!r}."
    )


class Piece(NamedTuple):
    """A file with all records from one position up to another."""

    first: int
    end: int
    path: Path


class _Came(msgspec.Struct):
    """When a record came; the rest of it is passed over."""

    stamp: float = 0.0


_CAME = msgspec.msgpack.Decoder(_Came)


class Archive:
    """What is kept of a log beyond what a restart needs; nothing, unless asked for.

    Parameters
    ----------
    folder : path
        It is there if something is to be kept.
    log : Log
    keep : Keep, optional
    """

    def __init__(self, folder: Path, log: Log, keep: Keep | None = None) -> None:
        self.folder, self.log, self.keep = folder, log, keep
        self.bytes = 0
        """Of all that is kept beyond what a restart needs."""
        self.oldest: float | None = None
        """When the oldest of it came, in seconds since 1970."""
        self._troubles: dict[str, str] = {}
        self._needed = 0  # position of the first record that a restart needs
        self._readers = 0
        self._began: tuple[int, float] | None = None
        self._looked = 0.0
        self._guard = threading.RLock()
        if keep is not None:
            log.make_room = self.make_room
            sync_folder(folder.parent)
        elif self._archived():
            words = "%s holds rows that an earlier --archive has kept: none come, and none go"
            _LOG.warning(words, folder)

    def troubles(self) -> list[str]:
        """Return what is not as it should be, in words."""
        return [*self._troubles.values()]

    def about(self) -> dict[str, Any] | None:
        """Return what there is, JSON-ready; None where nothing is to be kept."""
        if self.keep is None:
            return None
        oldest = None if self.oldest is None else iso(self.oldest)
        return {"keep": self.keep.text, "bytes": self.bytes, "oldest": oldest}

    # -- keeping -------------------------------------------------------------------------------

    def take(self, needed: int) -> None:
        """Take over the files of the log whose records all lie before a position.

        What cannot be moved stays in the log, where it does no harm, and is tried again.
        """
        if self.keep is None:
            self.log.drop(needed)
            return
        with self._guard:
            self._needed = needed
            try:
                self._move()
                self._troubles.pop("moving", None)
            except OSError as error:
                self._trouble("moving", f"Rows could not be moved to {self.folder} ({error}): "
                              "they stay in the log's folder, and it is tried again.")  # fmt: skip
            self.tidy()

    def _move(self) -> None:
        moved = [piece for piece in self._logged() if piece.end <= self._needed]
        for piece in moved:
            piece.path.rename(self.folder / f"{piece.first:020d}-{piece.end:020d}.log")
        if moved:
            sync_folder(self.folder)
            sync_folder(self.log.folder)

    def tick(self) -> None:
        """Let go what has become too old, where no snapshot does; asked as often as you like."""
        if time.monotonic() - self._looked > EVERY:
            self.tidy()

    def tidy(self) -> None:
        """Let go what is older or larger than was asked for, unless it is being read."""
        if self.keep is None:
            return
        self._looked = time.monotonic()
        with self._guard:
            try:
                self._tidy()
                self._troubles.pop("looking", None)
            except OSError as error:
                self._trouble("looking", f"{self.folder} cannot be looked at ({error}).")

    def _tidy(self) -> None:
        kept = self._sized()
        size, now = sum(bytes for _, bytes, _ in kept), time.time()
        while kept and not self._readers and self._too_much(size, now - kept[0][2]):
            if not self._removed(kept[0][0]):
                break
            size -= kept.pop(0)[1]
        self.bytes = size
        self.oldest = self._since(kept[0]) if kept else None

    def _too_much(self, size: float, age: float) -> bool:
        assert self.keep is not None
        return size > self.keep.bytes or age > self.keep.seconds

    def _removed(self, piece: Piece) -> bool:
        try:
            piece.path.unlink(missing_ok=True)
        except OSError as error:
            self._trouble("removing", f"{piece.path} is to go, and cannot be removed ({error}).")
            return False
        self._troubles.pop("removing", None)
        return True

    def make_room(self, error: OSError) -> bool:
        """Remove the oldest file where the disk is full; return whether there was one.

        Learning goes before what is kept of it.
        """
        if self.keep is None or error.errno not in FULL:
            return False
        with self._guard:
            kept = self._kept()
            if not kept or not self._removed(kept[0]):
                return False
            self._trouble("room", "The disk is full. So that learning goes on, rows are let go "
                          f"from the archive before {self.keep.text} is reached, the oldest first; "
                          f"last {kept[0].path.name}, {iso(time.time())}. Make room.")  # fmt: skip
            return True

    def _trouble(self, what: str, words: str) -> None:
        if self._troubles.get(what) != words:
            _LOG.warning("%s", words)
        self._troubles[what] = words

    # -- what there is -------------------------------------------------------------------------

    def _logged(self) -> list[Piece]:
        """Return the files of the log but the newest, which is written to."""
        pairs = itertools.pairwise(self.log.segments())
        return [Piece(int(path.stem), int(then.stem), path) for path, then in pairs]

    def _archived(self) -> list[Piece]:
        if not self.folder.is_dir() or self.folder.is_symlink():
            return []
        found = [(_NAME.fullmatch(path.name), path) for path in self.folder.iterdir()]
        return [Piece(int(m[1]), int(m[2]), path) for m, path in found if m]

    def _kept(self) -> list[Piece]:
        """Return all files that no restart needs, oldest first."""
        left = [piece for piece in self._logged() if piece.end <= self._needed]
        return sorted([*self._archived(), *left])

    def _sized(self) -> list[tuple[Piece, int, float]]:
        """Return the same with their bytes, and when they were last written to."""
        found = []
        for piece in self._kept():
            try:
                about = piece.path.lstat()
            except FileNotFoundError:
                continue
            found.append((piece, about.st_size, about.st_mtime))
        return found

    def _since(self, oldest: tuple[Piece, int, float]) -> float:
        """Return when the first record came; of one that does not say: when the last did."""
        piece, _, written = oldest
        if self._began is None or self._began[0] != piece.first:
            self._began = piece.first, self._came(piece) or written
        return self._began[1]

    def _came(self, piece: Piece) -> float:
        try:
            for record in self._records(piece, None, piece.end):
                return _CAME.decode(record.body).stamp
        except (Damaged, Gone, msgspec.MsgspecError):
            pass  # whoever replays it is told
        return 0.0

    # -- reading -------------------------------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let nothing go meanwhile, unless the disk is full."""
        with self._guard:
            self._readers += 1
        try:
            yield
        finally:
            with self._guard:
                self._readers -= 1

    def pieces(self) -> list[Piece]:
        """Return the files of archive and log, oldest first, between which nothing is missing."""
        with self._guard:
            end = self.log.next  # asked first: the log may go on in a new file meanwhile
            newest = self.log.segments()[-1]
            last = Piece(int(newest.stem), max(int(newest.stem), end), newest)
            found = sorted([*self._archived(), *self._logged(), last])
        for i in range(len(found) - 1, 0, -1):
            if found[i - 1].end < found[i].first:
                return found[i:]
        return found

    def records(self, pieces: list[Piece], owner: int, upto: int) -> Iterator[Record]:
        """Yield a model's records in some files, none twice, up to a position.

        Raises
        ------
        Damaged
            With the file, the byte, and what can be done.
        Gone
            Where the disk was full, and a file went.
        """
        done = 0
        for piece in (p for p in pieces if p.first <= upto):
            for record in self._records(piece, owner, min(piece.end, upto + 1)):
                if record.position > done:
                    yield record
                    done = record.position

    def _records(self, piece: Piece, owner: int | None, end: int) -> Iterator[Record]:
        handle, path = self._opened(piece)
        with os.fdopen(handle, "rb", 2**18) as file:
            try:
                yield from owned(file, owner, end)
            except Damaged as error:
                raise Damaged(
                    f"{path} is damaged {error}. Move it away, with all older ones of the archive: "
                    "a replay then begins behind it."
                ) from None

    def _opened(self, piece: Piece) -> tuple[int, Path]:
        """Open a file where it lies: it may have been moved since it was found."""
        for _ in range(3):
            for path in (piece.path, *self.folder.glob(f"{piece.first:020d}-*.log")):
                try:
                    return open_private(path, os.O_RDONLY), path
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise Damaged(f"{path} cannot be read ({error}).") from error
        raise Gone(
            f"{piece.path.name} went while it was read: the disk is full, or somebody took it."
        )
