"""A running command's counters for Prometheus, under the names that the service has, too."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from onkel.app.errors import UsageProblem
from onkel.app.http.exposition import Family, deliveries, shared, text_of
from onkel.app.live.watch import own_address
from onkel.app.run.fleets import Keyed
from onkel.app.run.notices import source_name
from onkel.app.run.series import parted
from onkel.app.run.session import Session

PERIOD = 5.0
"""Seconds between two looks at what costs something."""
SHARE = 0.01
"""Of the time, at most, that goes into such looks."""


class Gauges:
    """What a session has counted, as text; a watcher of the session.

    Parameters
    ----------
    source : str
        What the run reads from; its name is the label ``model``.
    """

    def __init__(self, source: str) -> None:
        self._labels = (("model", source_name(source)),)
        self._session: Session | None = None
        self._rows, self._heard = 0, time.monotonic()
        self._bytes: float | None = None
        self._next = 0.0

    def __call__(self, session: Session) -> None:
        """Look at a session, after each block and when nothing came."""
        now = time.monotonic()
        if session is not self._session or session.counters.rows != self._rows:
            self._session, self._rows, self._heard = session, session.counters.rows, now
        if now >= self._next:
            self._bytes = _bytes(session)
            cost = time.monotonic() - now  # of many keys it is large
            self._next = now + max(PERIOD, cost / SHARE)

    def text(self) -> str:
        """Return everything in the text format of Prometheus."""
        session = self._session
        return "" if session is None else text_of(self._families(session))

    def _families(self, session: Session) -> list[Family]:
        counters, summary = session.counters, session.summary()
        own = self._own

        def counted(name: str, words: str, value: int) -> Family:
            return name, "counter", words, [(name, self._labels, float(value))]

        found = [
            counted("onkel_rows_total", "Rows read, broken ones included", counters.rows),
            counted("onkel_broken_rows_total", "Rows that could not be learned", counters.broken),
            own("onkel_examples_total", counters.examples),
            own("onkel_alerts_total", _marked(session)),
            own("onkel_incidents_open", _incidents_open(session)),
            own("onkel_rate_promised", session.settings.promised),
            own("onkel_rate_realised", _realised(summary)),
            own("onkel_model_bytes", self._bytes),
            own("onkel_seconds_since_row", time.monotonic() - self._heard),
            shared("onkel_models", [((), len(session.models))]),
            self._weights(session),
        ]
        return [*found, *deliveries(summary.get("deliveries", {}))]

    def _own(self, name: str, value: float | None) -> Family:
        return shared(name, [(self._labels, value)])

    def _weights(self, session: Session) -> Family:
        counters = session.counters
        pairs = zip(counters.members, counters.weighing, strict=False)
        told = [((*self._labels, ("member", name)), weight) for name, weight in pairs]
        return shared("onkel_member_weight", told)


def _marked(session: Session) -> int | None:
    """Return how many rows were alerts, mistakes or outside; None of intervals that there are not.

    The summary has the counts under the name that each task gives them.
    """
    counters, task = session.counters, session.settings.task
    if task == "regress":
        return None if session.settings.promised is None else counters.examples - counters.covered
    return counters.alerts if task == "detect" else counters.mistakes


def _incidents_open(session: Session) -> int | None:
    """Return how many incidents may still go on; None where there are no such."""
    return None if session.grouping is None else session.counters.incidents_open


def _realised(summary: dict[str, Any]) -> float | None:
    if summary.get("coverage_realised") is not None:
        return 1.0 - float(summary["coverage_realised"])
    return summary.get("rate_realised", summary.get("mistake_rate"))


def _bytes(session: Session) -> float | None:
    """Return what the models take: of a fleet all of them, of others the one used last."""
    if isinstance(session.models, Keyed):
        fleet = session.models.fleet
        return float(fleet.diagnostics_["bytes"]) if len(fleet) else None
    model = session.models.newest()
    if model is None or not model.__sklearn_is_fitted__():
        return None
    return float(parted(model)[0].diagnostics_["bytes"])


@contextlib.contextmanager
def metrics_page(address: str, metrics: Callable[[], str]) -> Iterator[None]:
    """Answer at ``/metrics`` while a command runs."""
    host, port = own_address(address, "--metrics")
    from onkel.app.live.page import Dashboard

    try:
        page = Dashboard(None, host, port, metrics)
    except ValueError as error:
        raise UsageProblem(f"--metrics: {error}") from None
    with page:
        print(f"onkel: metrics are at {page.url}/metrics", file=sys.stderr, flush=True)
        yield
