"""Bytes cut into rows of text, with a place to continue from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onkel.streams.sources.feed import Feed

LONGEST = 2**20
"""A line of more bytes is a broken row."""
SHOWN = 200
"""So many bytes of a broken row are kept."""
MANY = 4096
"""So many lines are looked at when blank ones are passed."""
HEAVY = 2**26
"""When rows of so many bytes were taken, a block ends, and so does the look at the first rows."""


class Unfit(bytes):
    """The beginning of a row that is broken as a text already."""

    reason = ""
    size = 0
    """How many bytes the line was, its end included."""


@dataclass
class Taken:
    """Rows that were taken: their texts, their line numbers, and how many bytes they hold."""

    lines: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    weight: int = 0
    ended: bool = False
    """Whether the present file has no more."""


class Looked(NamedTuple):
    """A row that was looked at and is still to be taken, and what is known behind it."""

    text: bytes
    number: int
    position: dict[str, Any]


class Lines:
    """Rows of text from a feed; blank lines are none: they are counted, and not kept.

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
    hold : bool
        Whether a last line without an end is left for a later run, which may find it finished.
    """

    def __init__(
        self, feed: Feed, line: int = 0, is_open: Callable[[bytes], bool] | None = None,
        longest: int = LONGEST, hold: bool = False,
    ) -> None:  # fmt: skip
        self.feed, self.line, self.longest, self.hold = feed, line, longest, hold
        self.is_open = is_open
        self.offset = feed.offset
        """Where the next row begins that was not looked at."""
        self._ready: list[bytes] = []
        self._at = 0
        self._tail, self._ended, self._cut = b"", False, 0
        self._looked: list[Looked] = []
        self._position: dict[str, Any] | None = None
        """Behind the last row taken, where the next one was looked at already."""

    _quotes = False
    _unfit = False
    """Whether some line that is ready is not what was read."""
    _endless = False
    """Whether the last line has no line end."""
    _scan = (-1, 0, 0, False)
    """Of a row in quotes: where it begins, lines and bytes looked at, whether it is open."""
    held = 0
    """Bytes of the last line, if it was left for a later run."""

    # -- rows out ------------------------------------------------------------------------------

    def look(self, most: int, patience: float = 0.2) -> list[bytes]:
        """Return the first rows, which stay to be taken; none, if a live feed brought none yet."""
        until = time.monotonic() + patience
        weight = sum(len(row.text) for row in self._looked)
        while len(self._looked) < most and weight < HEAVY:
            taken = Taken()
            self._take(taken, 1, max(until - time.monotonic(), 0.0))
            if not taken.lines:
                break
            self._looked.append(Looked(taken.lines[0], taken.numbers[0], self._here()))
            weight += taken.weight
        return [row.text for row in self._looked]

    def looked(self) -> Taken:
        """Return the rows that were looked at and are still to be taken."""
        return Taken([row.text for row in self._looked], [row.number for row in self._looked])

    @property
    def ended(self) -> bool:
        """Whether the present file has no more bytes."""
        return self._ended

    def take(self, most: int, patience: float = 0.2) -> Taken:
        """Return up to `most` rows; fewer at the end, if they are heavy, or if nothing came."""
        taken = Taken()
        self._position = None
        while self._looked and len(taken.lines) < most and taken.weight < HEAVY:
            row = self._looked.pop(0)
            taken.lines.append(row.text)
            taken.numbers.append(row.number)
            taken.weight += len(row.text)
            self._position = row.position if self._looked else None
        if not self._looked:
            self._take(taken, most, patience)
        return taken

    def _take(self, taken: Taken, most: int, patience: float) -> None:
        """Take rows until there are so many."""
        started, waited = time.monotonic(), 0.0
        while len(taken.lines) < most and taken.weight < HEAVY:
            if self._at < len(self._ready):
                if not self._move(taken, most):
                    break
            elif self._ended:
                taken.ended = True
                break
            elif self.feed.live and waited > patience:
                break  # nothing but blank lines, or a line without end
            else:  # a trickle must not hold rows back: all waiting together is bounded
                left = patience - (time.monotonic() - started) if taken.lines else patience
                if not self._fill(max(left, 0.0)) and self.feed.live:
                    break
                waited = time.monotonic() - started

    def _move(self, taken: Taken, most: int) -> bool:
        """Take rows that are ready; False where one is not finished and more must come."""
        if not _is_row(self._ready[self._at]):
            self._pass_blank()
            return True
        want = most - len(taken.lines)
        lines = self._ready[self._at : self._at + want]
        if self._quotes and any(b'"' in line for line in lines):
            return self._move_quoted(taken, want)
        weight = sum(map(len, lines))
        if taken.weight + weight > HEAVY:
            lines = _light(lines, HEAVY - taken.weight)
            weight = sum(map(len, lines))
        first = self.line + 1
        self._pass(lines, weight)
        if all(map(bytes.strip, lines)):
            taken.lines += lines
            taken.numbers += range(first, first + len(lines))
            taken.weight += weight
        else:
            rows = [(line, n) for n, line in enumerate(lines, first) if _is_row(line)]
            taken.lines += [line for line, _ in rows]
            taken.numbers += [n for _, n in rows]
            taken.weight += sum(len(line) for line, _ in rows)
        return True

    def _pass_blank(self) -> None:
        lines = self._ready[self._at : self._at + MANY]
        count = next((i for i, line in enumerate(lines) if _is_row(line)), len(lines))
        self._pass(lines[:count], sum(map(len, lines[:count])))

    def _pass(self, lines: list[bytes], weight: int) -> None:
        """Go on behind lines that are ready."""
        self._at += len(lines)
        self.line += len(lines)
        self.offset += weight + len(lines)
        if self._unfit:
            self.offset += sum(line.size - len(line) - 1 for line in lines if type(line) is Unfit)
        if self._endless and self._at == len(self._ready):
            self.offset -= 1

    def _move_quoted(self, taken: Taken, want: int) -> bool:
        assert self.is_open is not None
        while want and taken.weight < HEAVY and self._at < len(self._ready):
            found = self._quoted()
            if found is None:
                return self._fill(0.2) if self.feed.live else self._fill_once()
            line, last = found
            number, passed = self.line + 1, self._ready[self._at : last + 1]
            self._pass(passed, sum(map(len, passed)))
            if _is_row(line):
                taken.lines.append(line)
                taken.numbers.append(number)
                taken.weight += len(line)
                want -= 1
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
        del self._ready[: self._at]
        self._at, self._unfit = 0, self._unfit and bool(self._ready)
        if self.feed.trail is not None:
            self.feed.trail.sum(self.offset)  # what is behind us need not be kept there
        if not found:
            self._finish()
        elif not self._ready and self._is_blank(found):
            self.line, self.offset = self.line + len(found), self.offset + len(found)
        else:
            self._cut_up(found)
        return True

    def _is_blank(self, found: bytes) -> bool:
        begins = found.startswith(b"\n") and not self._tail and not self._cut
        return begins and found.count(b"\n") == len(found)

    def _cut_up(self, found: bytes) -> None:
        self._quotes = self._quotes or (self.is_open is not None and b'"' in found)
        pieces = found.split(b"\n")
        pieces[0] = self._tail + pieces[0]
        self._tail = pieces.pop()
        if pieces and self._cut:
            self._add_unfit(pieces.pop(0))
        if len(found) > self.longest or (pieces and len(pieces[0]) > self.longest):
            for piece in pieces:
                self._add(piece)
        else:
            self._ready += pieces
        self._shorten_tail()

    def _add(self, piece: bytes) -> None:
        if len(piece) > self.longest:
            self._add_unfit(piece)
        else:
            self._ready.append(piece)

    def _add_unfit(self, last: bytes) -> None:
        """Add a line that is too long, of which the beginning or all is left."""
        size = self._cut + len(last)
        self._ready.append(unfit(last, f"a line of {size} bytes is too long", size + 1))
        self._cut, self._unfit = 0, True

    def _shorten_tail(self) -> None:
        """Do not collect a line without end: keep how it begins, and how long it is."""
        if len(self._tail) > self.longest:
            self._cut += len(self._tail[SHOWN:])
            self._tail = self._tail[:SHOWN]
            if self.feed.trail is not None:
                self.feed.trail.leap()

    def _finish(self) -> None:
        """The end of a file ends its last line, unless a later run may find more of it."""
        self._ended = True
        if not self._tail:
            return
        if self.hold:
            self.held = self._cut + len(self._tail)
        elif self._cut:
            self._add_unfit(self._tail)
        else:
            self._add(self._tail)
        self._endless = not self.hold
        self._tail, self._cut = b"", 0

    def next_file(self) -> bool:
        """After the end of a file that was rotated: go on with the new one."""
        if not self._ended or not self.feed.next_file():
            return False
        self._ended, self._endless, self.line, self.offset = False, False, 0, 0
        self._scan = Lines._scan
        return True

    # -- where we are --------------------------------------------------------------------------

    def position(self) -> dict[str, Any]:
        """Return where the next row begins."""
        return {**(self._position or self._here()), **self.feed.identity()}

    def _here(self) -> dict[str, Any]:
        trail = self.feed.trail
        read = {} if trail is None else trail.upto(self.offset)
        return {"offset": self.offset, "line": self.line, **read}


def unfit(line: bytes, reason: str, size: int = 0) -> Unfit:
    """Return the beginning of a row, marked as broken."""
    found = Unfit(line[:SHOWN])
    found.reason, found.size = reason, size
    return found


def _is_row(line: bytes) -> bool:
    return bool(line.strip()) or type(line) is Unfit


def _light(lines: list[bytes], most: int) -> list[bytes]:
    """Return the first lines, up to the one with which they hold so many bytes."""
    held = 0
    for i, line in enumerate(lines):
        held += len(line)
        if held >= most:
            return lines[: i + 1]
    return lines
