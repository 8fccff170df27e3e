"""The score of the Numenta Anomaly Benchmark (Lavin & Ahmad 2015), exactly.

An alert inside a window of labels is worth ``A_tp s(p) / s(-1)``, the earliest of a window
counting alone; a window without one costs ``A_fn``; an alert outside costs ``A_fp s(p)``; where

    s(p) = 2 / (1 + exp(5 p)) - 1,   and -1 from p = 3 on.

Inside, ``p = -(rows to the window's last row + 1) / (rows of the window)``, from -1 at its first
row; outside, ``p = (rows since the last window's end) / (rows of that window - 1)``, and 3 before
the first window. Rows on probation (the first 15 % of a series, of its first 5000 rows at most)
do not count. One threshold serves all series, and is the best there is. A raw score r becomes
``100 (r - r_null) / (r_perfect - r_null)``: 0 for a detector that never alerts, 100 for one alert
at the first row of every window.

>>> round(scaled_sigmoid(-1.0), 5), round(scaled_sigmoid(-0.5), 5), scaled_sigmoid(3.0)
(0.98661, 0.84828, -1.0)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Profile:
    """What is gained and lost."""

    tp: float = 1.0
    fp: float = 0.11
    fn: float = 1.0


PROFILES = {
    "standard": Profile(),
    "low FP": Profile(fp=0.22),
    "low FN": Profile(fn=2.0),
}
"""NAB's config/profiles.json."""
PROBATION, LONGEST = 0.15, 5000
FAR = 3.0
"""From so many windows' widths on an alert is as wrong as can be."""


def scaled_sigmoid(position: float) -> float:
    """Return s(p), of which the sign says whether an alert was right."""
    return -1.0 if position >= FAR else float(2 / (1 + np.exp(5 * position)) - 1)


def probation(rows: int) -> int:
    """Return how many rows do not count.

    >>> probation(1000), probation(20_000)
    (150, 750)
    """
    return int(min(np.floor(PROBATION * rows), PROBATION * LONGEST))


@dataclass(frozen=True)
class Marks:
    """What an alert would be worth at each row, before the profile's weights."""

    window: np.ndarray
    """Which window the row is in; -1: none."""
    worth: np.ndarray
    """s(p) / s(-1) inside windows, s(p) outside."""
    counts: np.ndarray
    """False on probation."""

    @property
    def windows(self) -> np.ndarray:
        """The windows in which something counts."""
        inside = self.window[self.counts]
        return np.unique(inside[inside >= 0])


def marks(rows: int, windows: list[tuple[int, int]]) -> Marks:
    """Return the worth of an alert at each row; windows as (first row, last row), in order."""
    window, worth = np.full(rows, -1), np.full(rows, -1.0)
    for number, (first, last) in enumerate(windows):
        width = last - first + 1
        window[first : last + 1] = number
        for i in range(first, last + 1):
            worth[i] = scaled_sigmoid(-(last - i + 1) / width) / scaled_sigmoid(-1.0)
        for i in range(last + 1, rows):  # until the next window overwrites it
            worth[i] = scaled_sigmoid((i - last) / (width - 1))
    return Marks(window, worth, np.arange(rows) >= probation(rows))


def null(series: list[Marks], profile: Profile) -> float:
    """Return the raw score of a detector that never alerts."""
    return -profile.fn * sum(len(m.windows) for m in series)


def normalised(raw: float, series: list[Marks], profile: Profile) -> float:
    """Return a raw score on the scale from 0 (never an alert) to 100 (perfect)."""
    base, perfect = null(series, profile), profile.tp * sum(len(m.windows) for m in series)
    return 100 * (raw - base) / (perfect - base)


def changes(scores: np.ndarray, mark: Marks, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """Return scores in falling order, and what each such row adds to the raw score as an alert."""
    keep = np.flatnonzero(mark.counts)
    order = keep[np.argsort(-scores[keep], kind="stable")]
    added = np.where(mark.window[order] < 0, profile.fp * mark.worth[order], 0.0)
    for window in mark.windows:
        rows = np.flatnonzero(mark.window[order] == window)
        best = np.maximum.accumulate(profile.tp * mark.worth[order[rows]])
        added[rows] = np.diff(best, prepend=-profile.fn)
    return scores[order], added


def sweep(
    scores: list[np.ndarray], series: list[Marks], profile: Profile
) -> tuple[np.ndarray, np.ndarray]:
    """Return every threshold that makes a difference, and the raw score of all series there.

    A row is an alert if its score is at least the threshold; the first threshold is infinite.
    """
    parts = [changes(s, m, profile) for s, m in zip(scores, series, strict=True)]
    values, added = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(-values, kind="stable")
    values, total = values[order], null(series, profile) + np.cumsum(added[order])
    last = np.append(values[1:] != values[:-1], True)
    return np.append(np.inf, values[last]), np.append(null(series, profile), total[last])


def best_threshold(
    scores: list[np.ndarray], series: list[Marks], profile: Profile
) -> tuple[float, float]:
    """Return the threshold with the best raw score (the highest such), and that score."""
    thresholds, raw = sweep(scores, series, profile)
    at = int(np.argmax(raw))
    return float(thresholds[at]), float(raw[at])


def raw_score(scores: np.ndarray, threshold: float, mark: Marks, profile: Profile) -> float:
    """Return the raw score of one series at a threshold."""
    values, added = changes(scores, mark, profile)
    return null([mark], profile) + float(added[values >= threshold].sum())
