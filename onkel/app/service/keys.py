"""Idempotency keys: a request that is sent again is answered as before, and not applied again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

NUMBER = 10_000
BYTES = 64 * 2**20


@dataclass(frozen=True)
class Remembered:
    """The answer to a request that was applied."""

    key: str
    position: int
    digest: bytes
    """Of the request: the same key with another request is a mistake."""
    status: int
    body: bytes
    lines: bool = False


class Keys:
    """The last answers by key, oldest first; bounded in number and in bytes.

    Examples
    --------
    >>> keys = Keys(number=1)
    >>> keys.add(Remembered("a", 1, b"", 200, b"{}"))
    >>> keys.add(Remembered("b", 2, b"", 200, b"{}"))
    >>> keys.get("a"), keys.get("b").position
    (None, 2)
    """

    def __init__(self, number: int = NUMBER, size: int = BYTES) -> None:
        self._number = number
        self._most = size
        self._known: OrderedDict[str, Remembered] = OrderedDict()
        self._bytes = 0
        self._dropped: list[str] = []
        self._guard = threading.Lock()

    def get(self, key: str) -> Remembered | None:
        """Return what was answered to this key."""
        return self._known.get(key)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, answer: Remembered) -> None:
        """Remember an answer, and forget the oldest that are too many."""
        with self._guard:
            self._forget(self._known.pop(answer.key, None))
            self._known[answer.key] = answer
            self._bytes += len(answer.body)
            while len(self._known) > self._number or self._bytes > self._most:
                oldest = self._known.popitem(last=False)[1]
                self._forget(oldest)
                self._dropped.append(oldest.key)

    def _forget(self, answer: Remembered | None) -> None:
        self._bytes -= 0 if answer is None else len(answer.body)

    def since(self, position: int) -> tuple[list[Remembered], list[str]]:
        """Return what was added behind a position, and the keys that were dropped meanwhile."""
        with self._guard:
            new = [a for a in self._known.values() if a.position > position]
            return new, [key for key in self._dropped if key not in self._known]

    def forgotten(self, keys: list[str]) -> None:
        """Note that these were dropped from the disk, too."""
        with self._guard:
            gone = set(keys)
            self._dropped = [k for k in self._dropped if k not in gone and k not in self._known]
