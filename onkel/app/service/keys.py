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
    name: str = ""
    """Of the model: its keys end with it."""


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
        self._new: dict[str, None] = {}
        """Keys whose answers are not saved yet, in their order."""
        self._dropped: list[str] = []
        self._guard = threading.Lock()

    def get(self, key: str) -> Remembered | None:
        """Return what was answered to this key."""
        return self._known.get(key)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, answer: Remembered, saved: bool = False) -> None:
        """Remember an answer that has a key, and forget the oldest that are too many.

        `saved`: it comes from the disk.
        """
        if not answer.key:
            return
        with self._guard:
            if answer.key in self._known:
                self._drop(answer.key)
            self._known[answer.key] = answer
            self._bytes += len(answer.body)
            if not saved:
                self._new[answer.key] = None
            while len(self._known) > self._number or self._bytes > self._most:
                self._drop(next(iter(self._known)))

    def _drop(self, key: str) -> None:
        self._bytes -= len(self._known.pop(key).body)
        self._new.pop(key, None)
        self._dropped.append(key)

    def forget(self, name: str) -> None:
        """Forget all answers about a model: another may come under its name."""
        with self._guard:
            for key in [k for k, answer in self._known.items() if answer.name == name]:
                self._drop(key)

    def unsaved(self) -> tuple[list[Remembered], list[str]]:
        """Return what was added since it was last saved, and the keys that were dropped."""
        with self._guard:
            new = [self._known[key] for key in self._new]
            return new, [key for key in self._dropped if key not in self._known]

    def saved(self, new: list[Remembered], old: list[str]) -> None:
        """Note that these are on the disk now, and those are gone from it."""
        with self._guard:
            for answer in new:
                if self._known.get(answer.key) is answer:
                    self._new.pop(answer.key, None)
            gone = set(old)
            self._dropped = [k for k in self._dropped if k not in gone and k not in self._known]
