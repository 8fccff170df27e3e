"""Limits on one request, one client and the whole service."""

from __future__ import annotations

from dataclasses import dataclass, fields

from onkel.app.http.rate import CONNECTIONS, PER_SECOND, SECONDS
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
    seconds: float = SECONDS
    """For a request's body to arrive, again for its answer, and again for that to be taken."""
    replay_seconds: float = 300.0
    """For settings to be compared over the rows that were kept."""
    models: int = 256
    model_bytes: int = 256 * MIB
    """A model that has grown beyond it learns no more."""
    keys: int = 1_000_000
    """Of one model that has keys."""
    key_bytes: int = 2048 * MIB
    """Of its models that are held in memory; those of idle keys wait on the disk."""
    pending: int = 100_000
    """Rows of one model that wait for their labels."""
    requests_per_second: float = PER_SECOND
    """Of one client address, on average; as many may come at once."""
    connections: int = CONNECTIONS
    """At once; a quarter of them is for those that have not shown that they may come in."""
    waiting: int = 1000
    """Requests that wait for the log or for a model."""

    def __post_init__(self) -> None:
        for field in fields(self):
            whole = field.type == "int"
            accept = Accept(low=0, low_open=True, high=2**53, whole=whole)
            accept.check("Limits", field.name, getattr(self, field.name))
