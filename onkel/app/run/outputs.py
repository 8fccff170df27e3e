"""Where results go: files that only grow, cut back to what was committed; or standard output."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from onkel.app.disk import check_link, holder, open_private, try_lock
from onkel.app.errors import OutputProblem, StateProblem
from onkel.app.telling import unwritten

TAIL = 4096
"""By so many last bytes a file is known again."""


class Sink:
    """Bytes out; `position` counts them."""

    position = 0

    def write(self, data: bytes) -> None:
        """Write everything, or raise OutputProblem."""
        raise NotImplementedError

    def sync(self) -> int:
        """See to it that everything is on the disk; return the position."""
        return self.position

    def close(self) -> None:
        """Let go of what is open."""


class FileSink(Sink):
    """A file that only grows, and that no other process writes meanwhile.

    Parameters
    ----------
    path : path
        The file.
    position : int, optional
        What an earlier run has committed: the file is cut back to it. None: what the file held
        goes.
    name : str, optional
        What a state calls it; its path, unless told.
    private : bool
        Whether it lies in a state's folder: for its owner alone, and no link is followed.
    fresh : bool
        Whether it must not be there yet.
    mode : int
        Who may read a file that is made anew, as far as the umask lets them.
    """

    def __init__(
        self, path: str | Path, position: int | None = None, name: str | None = None,
        private: bool = False, fresh: bool = False, mode: int = 0o666,
    ) -> None:  # fmt: skip
        self.path = Path(path)
        self.name = name or str(path)
        self.position, self._tail = position or 0, b""
        flags = (os.O_RDWR if position else os.O_WRONLY) | os.O_CREAT
        try:
            self._file = opened(self.path, flags | (os.O_EXCL if fresh else 0), private, mode)
        except OSError as error:
            raise self._problem(error) from None
        self.regular = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        """Whether it keeps what is written; a device does not."""
        if self.regular:
            self._take()

    def _problem(self, error: OSError) -> OutputProblem:
        return OutputProblem(f"{self.path}: cannot be written: {error.strerror}.")

    def _take(self) -> None:
        """Lock the file, then cut it back to what was committed."""
        try:
            if not _locked(self._file.fileno()):
                who = holder(self._file.fileno())
                raise OutputProblem(
                    f"{self.path} is written by {who}: give this run another --output, and "
                    "another --dead-letters where it has one."
                )
            if self.position:
                check_length(self.path, self.position)
                self._file.seek(max(self.position - TAIL, 0))
                self._tail = self._file.read(min(self.position, TAIL))
            self._file.seek(self._file.truncate(self.position))
        except BaseException:
            self._file.close()
            raise

    def write(self, data: bytes) -> None:
        """Write everything, or raise OutputProblem."""
        view = memoryview(data)
        while view:
            try:
                done = self._file.write(view)
            except OSError as error:
                raise self._problem(error) from None
            view = view[done:]
            self.position += done
        self._tail = (self._tail + data[-TAIL:])[-TAIL:]

    def end(self) -> int:
        """Return a checksum of the last bytes."""
        return zlib.crc32(self._tail)

    def sync(self) -> int:
        """Wait until the disk has everything."""
        if not self.regular:
            return self.position
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._problem(error) from None
        return self.position

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def opened(path: Path, flags: int, private: bool, mode: int) -> BinaryIO:
    """Return a file that is open to write, unbuffered; nothing is cut off it."""
    if private:
        handle = open_private(path, flags)
    else:
        check_link(path)
        handle = os.open(path, flags | getattr(os, "O_BINARY", 0), mode)
    return os.fdopen(handle, "r+b" if flags & os.O_RDWR else "wb", buffering=0)


def _locked(handle: int) -> bool:
    try:
        return try_lock(handle)
    except OSError:  # a disk without locks: the state's own must do
        return True


class StdoutSink(Sink):
    """Standard output: what was written cannot be taken back."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        if stream is None and sys.stdout is None:
            raise OutputProblem("standard output is closed: give --output FILE.")
        self._stream = stream or sys.stdout.buffer

    def write(self, data: bytes) -> None:
        """Write and flush: whoever listens hears at once."""
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            raise unwritten(error) from None
        self.position += len(data)


WAYS = (
    "Put it back; or move away what is there, and --output-lost goes on without the results that "
    "it held; or start anew with another --state."
)


def is_gone(path: Path) -> bool:
    """Whether a file is not there, or empty: nothing is lost if it is begun anew."""
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def check_length(path: Path, position: int) -> None:
    """Raise if a file is shorter than what was committed of it."""
    size = path.stat().st_size if path.exists() else -1
    if size < position and position > 0:
        found = "is not there" if size < 0 else f"has {size} bytes"
        raise StateProblem(
            f"{path} {found}, but the state knows of {position} bytes written to it. {WAYS}"
        )


def check_written(path: Path, position: int, end: int) -> None:
    """Raise if a file does not hold what was committed of it, by length and last bytes."""
    check_length(path, position)
    if position == 0:
        return
    try:
        with open(path, "rb") as file:
            file.seek(max(position - TAIL, 0))
            found = file.read(min(position, TAIL))
    except OSError as error:
        raise StateProblem(f"{path}: cannot be read: {error.strerror}.") from None
    if zlib.crc32(found) != end:
        raise StateProblem(
            f"{path} is not what this run has written: the bytes before its byte {position} are "
            f"others. {WAYS}"
        )


# -- lines -------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    kind = type(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else "null"
    if kind is int:
        return repr(value)
    return _WORDS[value] if value in _WORDS else json.dumps(value, ensure_ascii=False)


_WORDS = {None: "null", True: "true", False: "false"}


_SUSPECT = frozenset("'=+-@\t\r\n＝＋－＠")
_FORMULA = re.compile("'*[=+\\-@\\t\\r\\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)


def _csv(value: Any) -> str:
    """Return a cell; a text that a spreadsheet would take for a formula gets an apostrophe before.

    One that has such apostrophes of its own gets one more, so that it can be taken off again.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else repr(value)
    if text[:1] in _SUSPECT and isinstance(value, str) and _is_formula(text):
        text = "'" + text
    if any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _is_formula(text: str) -> bool:
    return _FORMULA.match(text) is not None and not _NUMBER.fullmatch(text)


def unmarked(cell: str) -> str:
    """Return the text that a cell of an output stands for: without an apostrophe put before it.

    Examples
    --------
    >>> unmarked("'=x"), unmarked("''=x"), unmarked("'quoted")
    ('=x', "'=x", "'quoted")
    """
    marked = cell.startswith("'") and _is_formula(cell[1:])
    return cell[1:] if marked else cell


def _cells(column: list[Any], write: Callable[[Any], str]) -> list[str]:
    """Return a column's values as text, quickly where they are plain numbers."""
    kinds = set(map(type, column))
    if kinds == {int} or (kinds == {float} and all(map(math.isfinite, column))):
        return list(map(repr, column))
    return list(map(write, column))


def lines(columns: Mapping[str, Sequence[Any]], style: str) -> bytes:
    r"""Return rows as JSON lines or CSV: the same numbers, to the last digit.

    Examples
    --------
    >>> lines({"row": [7], "score": [0.1]}, "jsonl")
    b'{"row": 7, "score": 0.1}\n'
    >>> lines({"row": [7], "why": ["a, b"]}, "csv")
    b'7,"a, b"\n'
    >>> lines({"row": [7], "key": ["=1+1"]}, "csv")
    b"7,'=1+1\n"
    """
    write = _json if style == "jsonl" else _csv
    cells = [_cells(list(column), write) for column in columns.values()]
    if style == "jsonl":
        names = ", ".join(f"{json.dumps(n).replace('%', '%%')}: %s" for n in columns)
        template = "{" + names + "}"
        rows = [template % row for row in zip(*cells, strict=True)]
    else:
        rows = [",".join(row) for row in zip(*cells, strict=True)]
    return "".join(f"{row}\n" for row in rows).encode("utf-8", "backslashreplace")


def header(names: Sequence[str], style: str) -> bytes:
    """Return the first line of a CSV output."""
    return (",".join(names) + "\n").encode() if style == "csv" else b""
