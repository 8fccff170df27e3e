"""Where messages wait for their thread: in memory here, in a database in `outbox`."""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

from onkel.app.notify.messages import Message

MOST = 10_000
"""Messages that wait in memory, at most: no more is kept for a receiver that does not come back."""


class Queue(Protocol):
    """Messages to one target, in their order; one thread takes them."""

    def first(self) -> tuple[int, Message] | None:
        """Return the first message that waits and its number; None if there is none."""

    def done(self, number: int) -> None:
        """Forget messages up to a number."""

    def waiting(self) -> int:
        """Return how many wait."""


class MemoryQueue:
    """Messages of a run without a state: a bounded number of them.

    Examples
    --------
    >>> queue = MemoryQueue(most=1)
    >>> a, b = Message("a", "alert", "x", 0.0), Message("b", "alert", "x", 0.0)
    >>> queue.put([a, b]), queue.first()[1].id
    (1, 'a')
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._held: deque[Message] = deque()
        self._first = 1
        self._guard = threading.Lock()

    def put(self, messages: list[Message]) -> int:
        """Take messages as far as there is room; return how many there was none for."""
        with self._guard:
            room = max(self.most - len(self._held), 0)
            self._held.extend(messages[:room])
        return max(len(messages) - room, 0)

    def first(self) -> tuple[int, Message] | None:
        """Return the first message that waits and its number; None if there is none."""
        with self._guard:
            return (self._first, self._held[0]) if self._held else None

    def done(self, number: int) -> None:
        """Forget messages up to a number."""
        with self._guard:
            while self._held and self._first <= number:
                self._held.popleft()
                self._first += 1

    def waiting(self) -> int:
        """Return how many wait."""
        return len(self._held)
