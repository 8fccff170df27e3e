"""How much may come at once, and from one client."""

from __future__ import annotations

import time
from collections.abc import Callable

from onkel.app.http.problems import busy

PER_SECOND = 5000.0
"""Requests of one client address, on average, unless told."""
CONNECTIONS = 512
"""At once, unless told."""
SECONDS = 30.0
"""For a request's body to arrive, for its answer, and for the client to take that, unless told."""


class Rate:
    """A token bucket for each client: so many requests a second, as many at once.

    Examples
    --------
    >>> rate = Rate(1.0, clock=lambda: 0.0)
    >>> rate.spend("a")
    >>> rate.spend("a")
    Traceback (most recent call last):
    onkel.app.http.problems.Problem: More than 1 requests per second from this address.
    """

    REMEMBERED = 10_000
    """Addresses; the oldest goes first."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self.most = max(per_second, 1.0)
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def spend(self, client: str) -> None:
        """Take one token, or refuse."""
        now = self._clock()
        left, then = self._left.pop(client, (self.most, now))
        left = min(self.most, left + (now - then) * self.per_second)
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > self.REMEMBERED:
            del self._left[next(iter(self._left))]
        if left < 1:
            words = f"More than {self.per_second:g} requests per second from this address."
            raise busy("rate_limit", words, status=429)
