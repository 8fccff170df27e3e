"""Waiting for the first rows of a live source: not for ever, where somebody said so."""

from __future__ import annotations

import time
from collections.abc import Callable

from onkel.streams.sources.schema import SourceError


class Stopped(SourceError):
    """The run was asked to end before the first rows came."""


class Waiting:
    """How long to wait, and whom to ask whether to go on.

    Parameters
    ----------
    idle : float, optional
        Seconds without anything new after which it is enough; None: never.
    stop : function, optional
        Whether to give up now, asked again and again.

    Examples
    --------
    >>> Waiting().enough(0), Waiting(idle=0.0).enough(0)
    (False, True)
    """

    def __init__(self, idle: float | None = None, stop: Callable[[], bool] | None = None) -> None:
        self.idle, self._stop = idle, stop
        self._seen, self._heard = -1, 0.0

    def enough(self, seen: int) -> bool:
        """Whether nothing came for too long; `seen` is how much has come until now."""
        if self._stop is not None and self._stop():
            raise Stopped("The run was ended before the first rows came.")
        now = time.monotonic()
        if seen != self._seen:
            self._seen, self._heard = seen, now
        return self.idle is not None and now - self._heard >= self.idle

    def nothing(self) -> SourceError:
        """Return what to raise where there is not one row."""
        return SourceError(
            f"Nothing came for {self.idle:g} seconds: there is no row to begin with."
        )
