"""What was read, known by a digest: a run that goes on sees whether it is still the same."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any

FIRST, MOST = 2**20, 32
"""Marks stand so many bytes apart at first, twice as far whenever there are so many of them."""


class Trail:
    r"""A running digest (SHA-256) of all bytes before a row, with marks that tell where it differs.

    Bytes are added as they are handed out, and counted once a row ends behind them: so a position
    depends on nothing that comes after it.

    Examples
    --------
    >>> trail, other = Trail(), Trail()
    >>> trail.add(b"a,b\n1,2\n3,"), other.add(b"a,b\n1,2\n")
    (None, None)
    >>> trail.upto(8) == other.upto(8), trail.digest(8)[:8]
    (True, '492d5ea4')
    """

    def __init__(self) -> None:
        self._hash, self._at = hashlib.sha256(), 0
        self._ahead: deque[memoryview] = deque()
        """Handed out, and not counted yet."""
        self._end = 0
        self._leapt: tuple[int, Any] | None = None
        """How far no row ends any more, and the digest there; `_ahead` ends where that began."""
        self._behind: deque[memoryview] = deque()
        """What came after it."""
        self._apart, self._marks = FIRST, [(0, "")]

    def add(self, data: bytes) -> None:
        """Note bytes that were handed out."""
        (self._ahead if self._leapt is None else self._behind).append(memoryview(data))
        self._end += len(data)

    def leap(self) -> None:
        """No row will end in what came last: a line without end is digested, and not kept."""
        known, came = (self._hash, self._ahead) if self._leapt is None else (
            self._leapt[1], self._behind)  # fmt: skip
        state = known.copy()
        for data in came:
            state.update(data)
        self._leapt, self._behind = (self._end, state), deque()

    def digest(self, offset: int) -> str:
        """Return the digest of all bytes before an offset, in hexadecimal; it never goes back."""
        if self._leapt is not None and offset >= self._leapt[0]:
            (self._at, self._hash), self._ahead = self._leapt, self._behind
            self._leapt, self._behind = None, deque()
        while self._at < offset:
            data = self._ahead.popleft()
            part, rest = data[: offset - self._at], data[offset - self._at :]
            self._hash.update(part)
            self._at += len(part)
            if rest:
                self._ahead.appendleft(rest)
        self._mark()
        return self._hash.hexdigest()[:32]

    def upto(self, offset: int) -> dict[str, Any]:
        """Return what a position must know of all bytes before it, JSON-ready."""
        return {"read": self.digest(offset), "marks": [list(mark) for mark in self._marks[1:]]}

    def _mark(self) -> None:
        if self._at - self._marks[-1][0] >= self._apart:
            self._marks.append((self._at, self._hash.hexdigest()[:8]))
        if len(self._marks) > MOST:
            self._apart, self._marks = 2 * self._apart, self._marks[::2]
