"""Counts of requests: by route, by status, by how long they took."""

from __future__ import annotations

import threading

EDGES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]


class Requests:
    """How many requests of each kind came, how they ended, and how long they took.

    Examples
    --------
    >>> requests = Requests()
    >>> requests.note("learn", 200, 0.003)
    >>> [value for name, labels, value in requests.times() if dict(labels).get("le") == "0.005"]
    [1.0]
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._times: dict[str, list[float]] = {}
        self._guard = threading.Lock()

    def note(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        with self._guard:
            self._counts[route, status] = self._counts.get((route, status), 0) + 1
            times = self._times.setdefault(route, [0.0] * (len(EDGES) + 2))
            times[-2] += 1
            times[-1] += seconds
            for i, edge in enumerate(EDGES):
                times[i] += seconds <= edge

    def counts(self) -> list[Sample]:
        """Return the samples of requests by route and status."""
        with self._guard:
            return [
                ("onkel_requests_total", (("route", route), ("status", str(status))), float(n))
                for (route, status), n in sorted(self._counts.items())
            ]

    def times(self) -> list[Sample]:
        """Return the samples of the histogram of durations."""
        found: list[Sample] = []
        name = "onkel_request_seconds"
        with self._guard:
            for route, times in sorted(self._times.items()):
                own = ("route", route)
                edges = [*map(str, EDGES), "+Inf"]
                for edge, value in zip(edges, times, strict=False):
                    found.append((f"{name}_bucket", (own, ("le", edge)), value))
                found.append((f"{name}_sum", (own,), times[-1]))
                found.append((f"{name}_count", (own,), times[-2]))
        return found
