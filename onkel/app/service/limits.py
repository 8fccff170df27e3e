"""What one request, one client and the whole service may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from onkel.app.service.problems import busy
from onkel.params import Accept

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Limits of the service; each is a positive number.

    Examples
    --------
    >>> Limits(rows=100).rows
    100
    """

    body_bytes: int = 16 * MIB
    """Of one request; a model file may have `file_bytes`."""
    file_bytes: int = 64 * MIB
    rows: int = 10_000
    """Examples in one request."""
    features: int = 10_000
    """Numbers in one row."""
    classes: int = 1000
    """Labels that one classifier may know; targets that one regressor may have."""
    seconds: float = 30.0
    """For a request's body to arrive, and again for its answer."""
    models: int = 256
    model_bytes: int = 256 * MIB
    """A model that has grown beyond it learns no more."""
    requests_per_second: float = 5000.0
    """Of one client address, on average; as many may come at once."""
    connections: int = 512
    waiting: int = 1000
    """Requests that wait for the log or for a model."""

    def __post_init__(self) -> None:
        for field in fields(self):
            whole = field.type == "int"
            accept = Accept(low=0, low_open=True, high=2**53, whole=whole)
            accept.check("Limits", field.name, getattr(self, field.name))


class Rate:
    """A token bucket for each client: so many requests a second, as many at once.

    Examples
    --------
    >>> rate = Rate(1.0, clock=lambda: 0.0)
    >>> rate.spend("a")
    >>> rate.spend("a")
    Traceback (most recent call last):
    onkel.app.service.problems.Problem: More than 1 requests per second from this address.
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
