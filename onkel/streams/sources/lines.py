"""Bytes cut into rows of text, with a place to continue from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from onkel.streams.sources.feed import Feed

LONGEST = 2**20
"""A line of more bytes is a broken row."""
SHOWN = 200
"""So many bytes of a broken row are kept."""


class Unfit(bytes):
    """The beginning of a row that is broken as a text already."""

    reason = ""


@dataclass
class Taken:
    """Rows that were taken: their texts, their line numbers, and how many bytes they were."""

    lines: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    size: int = 0
    ended: bool = False
    """Whether the present file has no more."""


class Lines:
    """Rows of text from a feed; blank lines are none.

    Parameters
    ----------
    feed : Feed
        Where bytes come from.
    line : int
        Lines read before.
    is_open : function, optional
        Whether a row goes on in the next line (quotes in CSV).
    longest : int
        More bytes make a row broken.
    """

    def __init__(
        self, feed: Feed, line: int = 0, is_open: Callable[[bytes], bool] | None = None,
        longest: int = LONGEST,
    ) -> None:  # fmt: skip
        self.feed, self.line, self.longest = feed, line, longest
        self.is_open = is_open
        self.offset = feed.offset
        """Where the next row begins."""
        self._ready: list[bytes] = []
        self._sizes: list[int] = []
        self._at = 0
        self._tail, self._ended, self._cut = b"", False, 0

    _looking = False
    _quotes = False
    _scan = (-1, 0, 0, False)
    """Of a row in quotes: where it begins, lines and bytes looked at, whether it is open."""

    def look(self, most: int, patience: float = 0.2) -> list[bytes]:
        """Return the first rows, which stay to be taken; none, if a live feed brought none yet."""
        before, self._looking = (self._at, self.offset, self.line), True
        taken = self.take(most, patience)
        (self._at, self.offset, self.line), self._looking = before, False
        return taken.lines

    @property
    def ended(self) -> bool:
        """Whether the present file has no more bytes."""
        return self._ended

    # -- rows out ------------------------------------------------------------------------------

    def take(self, most: int, patience: float = 0.2) -> Taken:
        """Return up to `most` rows; fewer at the end, or if nothing came for a while."""
        taken = Taken()
        started = time.monotonic()
        while len(taken.lines) < most:
            if self._at < len(self._ready):
                if not self._move(taken, most):
                    break
            elif self._ended:
                taken.ended = True
                break
            else:  # a trickle must not hold rows back: all waiting together is bounded
                left = patience - (time.monotonic() - started) if taken.lines else patience
                if not self._fill(max(left, 0.0)) and self.feed.live:
                    break
        return taken

    def _move(self, taken: Taken, most: int) -> bool:
        """Take rows that are ready; False where one is not finished and more must come."""
        want = most - len(taken.lines)
        lines = self._ready[self._at : self._at + want]
        if self._quotes and any(b'"' in line for line in lines):
            return self._move_quoted(taken, want)
        self._note(taken, lines, sum(self._sizes[self._at : self._at + len(lines)]))
        return True

    def _note(self, taken: Taken, lines: list[bytes], size: int) -> None:
        self._at += len(lines)
        numbers = range(self.line + 1, self.line + 1 + len(lines))
        good = [i for i, line in enumerate(lines) if line.strip() or type(line) is Unfit]
        taken.lines += lines if len(good) == len(lines) else [lines[i] for i in good]
        taken.numbers += numbers if len(good) == len(lines) else [numbers[i] for i in good]
        taken.size += size
        self.line += len(lines)
        self.offset += size

    def _move_quoted(self, taken: Taken, want: int) -> bool:
        assert self.is_open is not None
        while want and self._at < len(self._ready):
            found = self._quoted()
            if found is None:
                return self._fill(0.2) if self.feed.live else self._fill_once()
            line, last = found
            sizes = sum(self._sizes[self._at : last + 1])
            if line.strip():
                taken.lines.append(line)
                taken.numbers.append(self.line + 1)
                want -= 1
            self.line += last + 1 - self._at
            taken.size, self.offset, self._at = taken.size + sizes, self.offset + sizes, last + 1
        return True

    def _quoted(self) -> tuple[bytes, int] | None:
        """Return the next row and where its last line is; None where more lines must come."""
        assert self.is_open is not None
        line, last = self._ready[self._at], self._at
        if type(line) is Unfit or not self.is_open(line):
            return line, last
        at, count, size, odd = self._scan
        if at != self.offset:  # else go on where lines were wanting, and not from the start
            count, size, odd = 0, len(line), True
        while odd and size <= self.longest and self._at + count + 1 < len(self._ready):
            count += 1
            more = self._ready[self._at + count]
            size, odd = size + 1 + len(more), odd != bool(more.count(b'"') % 2)
        self._scan = self.offset, count, size, odd
        if odd and size <= self.longest and not self._ended:
            return None
        if odd:
            return (unfit(line, "a quote that is not closed") if count else line), last
        return b"\n".join(self._ready[self._at : self._at + count + 1]), last + count

    def _fill_once(self) -> bool:
        self._fill(0.0)
        return True

    # -- bytes in ------------------------------------------------------------------------------

    def _fill(self, patience: float) -> bool:
        """Read more; whether anything came."""
        found = self.feed.read(patience)
        if found is None:
            return False
        if self._at and not self._looking:
            del self._ready[: self._at], self._sizes[: self._at]
            self._at = 0
        if not found:
            self._finish()
            return True
        self._quotes = self._quotes or (self.is_open is not None and b'"' in found)
        pieces = found.split(b"\n")
        pieces[0] = self._tail + pieces[0]
        self._tail = pieces.pop()
        if self._cut and pieces:
            self._close_cut(pieces)
        self._ready += pieces
        self._sizes += [len(piece) + 1 for piece in pieces]
        self._too_long(len(self._ready) - len(pieces))
        self._shorten_tail()
        return True

    def _finish(self) -> None:
        """The end of a file ends its last line."""
        self._ended = True
        if self._cut or self._tail:
            size = self._cut + len(self._tail)
            last = self._tail if not self._cut else unfit(self._tail, _long(size))
            self._ready.append(last)
            self._sizes.append(size)
            self._tail, self._cut = b"", 0
            self._too_long(len(self._ready) - 1)

    def _shorten_tail(self) -> None:
        """Do not collect a line without end: keep how it begins, and how long it is."""
        if len(self._tail) > self.longest:
            self._cut += len(self._tail) - SHOWN
            self._tail = self._tail[:SHOWN]

    def _close_cut(self, pieces: list[bytes]) -> None:
        whole = self._cut + len(pieces[0])
        self._ready.append(unfit(pieces[0], _long(whole)))
        self._sizes.append(whole + 1)
        self._cut = 0
        del pieces[0]

    def _too_long(self, start: int) -> None:
        if max(self._sizes[start:], default=0) <= self.longest + 1:
            return
        for i in range(start, len(self._ready)):
            if self._sizes[i] > self.longest + 1 and type(self._ready[i]) is not Unfit:
                self._ready[i] = unfit(self._ready[i], _long(len(self._ready[i])))

    def next_file(self) -> bool:
        """After the end of a file that was rotated: go on with the new one."""
        if not self._ended or not self.feed.next_file():
            return False
        self._ended, self.line, self.offset = False, 0, 0
        self._scan = Lines._scan
        return True

    def position(self) -> dict[str, Any]:
        """Return where the next row begins."""
        return {"offset": self.offset, "line": self.line, **self.feed.identity()}


def unfit(line: bytes, reason: str) -> Unfit:
    """Return the beginning of a row, marked as broken."""
    found = Unfit(line[:SHOWN])
    found.reason = reason
    return found


def _long(size: int) -> str:
    return f"a line of {size} bytes is too long"
