"""Where results go: files that only grow, cut back to what was committed; or standard output."""

from __future__ import annotations

import json
import math
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from onkel.app.errors import OutputProblem, StateProblem
from onkel.app.run import faults


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
    """A file that only grows.

    Parameters
    ----------
    path : path
        The file.
    position : int, optional
        What an earlier run has committed: the file is cut back to it. None: a new file.
    name : str, optional
        What a state calls it; its path, unless told.
    opener : function
        What opens it; tests hand in one whose disk is full.
    """

    def __init__(
        self, path: str | Path, position: int | None = None, name: str | None = None,
        opener: Callable[..., BinaryIO] = open,
    ) -> None:  # fmt: skip
        self.path = Path(path)
        self.name = name or str(path)
        try:
            self._file = opener(self.path, "r+b" if position else "wb", buffering=0)
        except OSError as error:
            raise OutputProblem(f"{self.path}: cannot be written: {error.strerror}.") from None
        self.regular = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        """Whether it keeps what is written; a device does not."""
        if position:
            self._cut(position)
        self.position = position or 0

    def _cut(self, position: int) -> None:
        check_length(self.path, position)
        self._file.truncate(position)
        self._file.seek(position)

    def write(self, data: bytes) -> None:
        """Write everything, or raise OutputProblem."""
        if faults.waits_for("output") and len(data) > 1:
            self._push(data[: len(data) // 2])
            data = data[len(data) // 2 :]
        faults.reach("output")
        self._push(data)

    def _push(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                done = self._file.write(view)
            except OSError as error:
                raise OutputProblem(f"{self.path}: cannot be written: {error.strerror}.") from None
            view = view[done:]
            self.position += done

    def sync(self) -> int:
        """Wait until the disk has everything."""
        if not self.regular:
            return self.position
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputProblem(f"{self.path}: cannot be written: {error.strerror}.") from None
        return self.position

    def close(self) -> None:
        """Close the file."""
        self._file.close()


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
            raise OutputProblem(f"the output was closed: {error.strerror}.") from None
        self.position += len(data)


def check_length(path: Path, position: int) -> None:
    """Raise if a file is shorter than what was committed of it."""
    size = path.stat().st_size if path.exists() else -1
    if size < position and position > 0:
        found = "is not there" if size < 0 else f"has {size} bytes"
        raise StateProblem(
            f"{path} {found}, but the state knows of {position} bytes written to it. Put it back, "
            "or start anew with another --state."
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


def _csv(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, float) else str(value)
    if any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


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
