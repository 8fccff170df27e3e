"""Rows of many keys, judged at once: what the doors make lines, JSON and frames of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.fleet.fleet import Fleet
from onkel.fleet.outputs import Verdicts
from onkel.judge import Columns, Rows, briefly

Array = NDArray[Any]


@dataclass(frozen=True)
class FleetDetect:
    """Alerts of a fleet, with scores, thresholds, ranks and reasons in a few words.

    Parameters
    ----------
    names : list of str, optional
        Of the features, for reasons; None: no reasons.
    rarity : bool
        Whether scores are log p, so that p is told, too.
    by_clock : bool
        Whether models forget by the clock, so that they must be told the times.

    Examples
    --------
    >>> from onkel import NoveltyDetector
    >>> fleet, rng = Fleet(NoveltyDetector(nu=0.1)), np.random.default_rng(0)
    >>> judge = FleetDetect(["level", "flow"])
    >>> before = judge(fleet, ["pump"] * 500, Rows(rng.normal(size=(500, 2))))
    >>> judge(fleet, ["pump"], Rows(np.array([[9.0, 0.0]]))).columns()["why"]
    ['level 9.000 is 9.2 spreads above its mean.']
    """

    names: list[str] | None = None
    rarity: bool = False
    by_clock: bool = False

    def __call__(self, fleet: Fleet, keys: Any, rows: Rows) -> FleetDetected:
        """Judge and learn rows, each by the model of its key."""
        time = rows.time if self.by_clock else None
        verdicts, usual = fleet.verdicts(keys, rows.whole(), time)
        return FleetDetected(self, rows, verdicts, usual)


@dataclass(frozen=True)
class FleetDetected:
    """What a fleet said of rows before it learned them."""

    judge: FleetDetect
    rows: Rows
    verdicts: Verdicts
    usual: Array | None
    """[rows][2][features]: means and variances of each row's key before it."""

    def columns(self) -> Columns:
        """Return one column per field."""
        found = self.verdicts
        columns: Columns = {
            "score": found.score, "threshold": found.limit, "alert": found.alert,
            "rank": found.rank,
        }  # fmt: skip
        if self.judge.rarity:
            columns["p"] = np.exp(found.score)
        return columns if self.judge.names is None else {**columns, "why": self._why()}

    def _why(self) -> list[str | None]:
        """Return which numbers of an alert are far from their means, as they were before it."""
        why: list[str | None] = [None] * len(self.verdicts.alert)
        names = self.judge.names
        if self.usual is None or names is None:
            return why
        for i in np.flatnonzero(self.verdicts.alert).tolist():
            mean, variance = self.usual[i]
            spread = np.where(variance > 0, np.sqrt(variance), 1.0)
            why[i] = briefly(self.rows.X[i : i + 1], mean, spread, names)[0]
        return why
