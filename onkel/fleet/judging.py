"""Rows of many keys, judged at once: what the doors make lines, JSON and frames of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.fleet.fleet import Fleet
from onkel.fleet.outputs import Verdicts
from onkel.fleet.young import said_of
from onkel.judge import Columns, Rows, own_scores

Array = NDArray[Any]


@dataclass(frozen=True)
class FleetDetect:
    """Alerts of a fleet, with scores, thresholds, ranks and reasons in a few words.

    Parameters
    ----------
    names : list of str, optional
        Of the features, for reasons.
    rarity : bool
        Whether scores are log p, so that p is told, too.
    by_clock : bool
        Whether models forget by the clock, so that they must be told the times.
    reasons : bool
        Whether alerts have reasons, in a few words.

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
    reasons: bool = True

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
        return {**columns, "why": self._why()} if self.judge.reasons else columns

    @property
    def own(self) -> Array:
        """Of alerts that are such for an answer alone: log p had nothing been answered, or NaN."""
        alert, known = self.verdicts.alert, self.verdicts.precedents.items()
        found = {i: like.score for i, like in known if like.decided and alert[i]}
        return own_scores(len(alert), found)

    def _why(self) -> list[str | None]:
        found = self.reasons()
        return [found.get(i) for i in range(len(self.verdicts.alert))]

    def reasons(self) -> dict[int, Any]:
        """Return what of each alert is far from its mean, as that was just before it; by row."""
        return {i: self._reason(i) for i in np.flatnonzero(self.verdicts.alert).tolist()}

    def _reason(self, i: int) -> str:
        told, usual = self.verdicts, self.usual
        own = None if usual is None or not len(usual) else usual[i]
        like = told.precedents.get(i)
        return said_of(int(told.age[i]), self.rows.X[i], own, self.judge.names, like)
