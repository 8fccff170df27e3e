"""Ranks among keys of the same age, and alerts at a promised rate at every age.

What is said of a key's fifth row is less sure than what is said of its five hundredth, so that each
is compared with rows that were as young: with rows of other keys, for the most part. Each band of
ages has a memory of its latest scores and a level that moves against its debt, as a detector's:

    log level += 0.01 (nu - alert), between nu/2 and 4 nu
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.fleet.sharing.hearing import Ear, Heard
from onkel.saved import Saved

Array = NDArray[Any]

AGES = (0, 4, 16, 64)
"""Where bands begin; the last one ends where keys are on their own."""
SIZE, NEEDED = 2000, 200
"""Scores that a band remembers, and those that it needs before the first alert."""
TAIL, LEAST = 0.02, 20
"""Share and number of the highest scores beyond which a tail is drawn."""
RATE, FLOOR, CEILING = 0.01, 0.5, 4.0


@dataclass
class Band:
    """Rows of keys of about one age.

    Parameters
    ----------
    nu : float
        The promised rate.

    Examples
    --------
    >>> band, rng = Band(0.01), np.random.default_rng(0)
    >>> found = [band.follow(g) for g in rng.exponential(size=20_000)]
    >>> band.judged, bool(abs(band.alerts / band.judged - 0.01) < 0.002)
    (19800, True)
    >>> bool(abs(band.log_p(3.0) + 3.0) < 0.5)
    True
    """

    nu: float
    scores: list[float] = field(default_factory=list)
    """A ring of the latest, -log p each; the older, the sooner replaced."""
    at: int = 0
    ranked: list[float] = field(default_factory=list)
    """The same, in order."""
    level: float = math.nan
    """Its logarithm."""
    judged: int = 0
    alerts: int = 0
    forgiven: float = 0.0
    unspent: float = 0.0
    """What the level's limits cut off."""

    def __post_init__(self) -> None:
        if math.isnan(self.level):
            self.level = math.log(self.nu)
        self.ranked = sorted(self.scores)

    def log_p(self, g: float) -> float:
        """Return the logarithm of the share of scores as high; beyond all but a few, of a tail."""
        ranked, n = self.ranked, len(self.ranked)
        if n < NEEDED:
            return 0.0
        k = max(int(TAIL * n), LEAST)
        edge = ranked[n - k - 1]
        if g > edge:
            slope = max((ranked[n - k // 2 - 1] - edge) / math.log(2), 0.25)
            return math.log(k / n) - (g - edge) / slope
        return math.log((n - bisect_left(ranked, g) + 1) / (n + 1))

    def follow(self, g: float, ear: Ear | None = None) -> tuple[float, float, bool]:
        """Return log p of a row, the level, and whether it is an alert; remember it.

        `ear`: what was answered of the key's alerts. What is like a fault is not remembered; a row
        that is no alert for an answer's sake does not move the level. Of the first rows nothing is
        an alert but what is like a fault.
        """
        heard, ready = self.look(g, ear), len(self.ranked) >= NEEDED
        if (ready and not heard.hushed) or heard.alert:
            self._settle(heard.alert)
        if not heard.fault:
            self._remember(g)
        return heard.score, heard.level, heard.alert

    def look(self, g: float, ear: Ear | None = None) -> Heard:
        """Return what is said of a row; nothing changes."""
        said = self.log_p(g)
        return Heard(said, self.level, said < self.level) if ear is None else ear(said, self.level)

    def _remember(self, g: float) -> None:
        if len(self.scores) < SIZE:
            self.scores.append(g)
        else:
            del self.ranked[bisect_left(self.ranked, self.scores[self.at])]
            self.scores[self.at] = g
            self.at = (self.at + 1) % SIZE
        insort(self.ranked, g)

    def _settle(self, alert: bool) -> None:
        low, high = math.log(FLOOR * self.nu), math.log(min(CEILING * self.nu, (1 + self.nu) / 2))
        level = self.level + RATE * (self.nu - alert)
        self.judged += 1
        self.alerts += alert
        self.forgiven += max(low - level, 0.0)
        self.unspent += max(level - high, 0.0)
        self.level = max(low, min(level, high))

    def report(self) -> dict[str, Any]:
        """Return promise, outcome, and what explains the difference, exactly."""
        told: dict[str, Any] = {"judged": self.judged, "alerts": self.alerts}
        if not self.judged:
            return {**told, "rate_realised": None, "rate_error_term": None}
        travel = math.log(self.nu) - self.level + self.forgiven - self.unspent
        return {
            **told, "rate_realised": self.alerts / self.judged,
            "rate_error_term": travel / (RATE * self.judged),
        }  # fmt: skip


class Bands:
    """All ages of young keys.

    Parameters
    ----------
    nu : float
        The promised rate.
    grown : int
        Keys of so many rows are young no more.
    """

    def __init__(self, nu: float, grown: int) -> None:
        self.grown = grown
        self.each = [Band(nu) for _ in AGES]

    def of(self, ages: Array) -> Array:
        """Return the band of each age."""
        return np.searchsorted(AGES, ages, side="right") - 1

    def report(self) -> list[dict[str, Any]]:
        """Return promise and outcome of each band."""
        ends = zip(AGES, (*AGES[1:], self.grown), self.each, strict=True)
        return [{"rows": f"{a + 1} to {b}", **band.report()} for a, b, band in ends if a < b]

    def dump(self) -> dict[str, Array]:
        """Return what a file must hold."""
        each = self.each
        return {
            "scores": np.array([v for band in each for v in band.scores], np.float64),
            "counts": np.array(
                [[len(b.scores), b.at, b.judged, b.alerts] for b in each], np.int64
            ),
            "levels": np.array([[b.level, b.forgiven, b.unspent] for b in each]),
        }  # fmt: skip

    def restore(self, saved: Saved) -> None:
        """Be what a file holds."""
        bands, nu = len(self.each), self.each[0].nu
        counts = saved.array("counts", (bands, 4), np.int64, low=0)
        levels = saved.array("levels", (bands, 3), np.float64)
        n, at, judged, alerts = counts.T
        if np.any((n > SIZE) | (at >= SIZE) | ((n < SIZE) & (at > 0)) | (alerts > judged)):
            raise saved.refuse("counts", "do not fit one another")
        least, most = np.log(FLOOR * nu), np.log(min(CEILING * nu, (1 + nu) / 2))
        if np.any((levels[:, 0] < least) | (levels[:, 0] > most) | (levels[:, 1:].min() < 0)):
            raise saved.refuse("levels", "are out of range")
        scores = np.split(saved.array("scores", (int(n.sum()),), np.float64), np.cumsum(n)[:-1])
        self.each = [
            Band(nu, s.tolist(), int(a), level=v[0], judged=int(j), alerts=int(k), forgiven=v[1],
                 unspent=v[2])
            for s, a, j, k, v in zip(scores, at, judged, alerts, levels.tolist(), strict=True)
        ]  # fmt: skip
