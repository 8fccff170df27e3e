"""How well anomalies are found: by rank (AUC, AP), by range (VUS-PR), by alerts.

A score is the higher, the stranger the row. VUS-PR (Paparrizos et al. 2022, "Volume under the
surface") forgives scores that come a little early or late: labels fade to both sides of an anomaly,
as sqrt(1 - distance / l) up to a distance of l / 2; precision and recall are of those labels, what
was faded in and is missed costs nothing, and recall is multiplied by the share of (faded) anomalies
that hold an alert. The area under precision over recall is averaged over l = 0, ..., 100. It is the
authors' own code's, except that every score is a threshold, not 250 of them.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

LONGEST = 100
"""Rows over which labels fade at most."""
RECENT, FEWEST, BLOCK = 1000, 100, 256


def auc(y: np.ndarray, score: np.ndarray) -> float:
    """Return the chance that an anomaly is stranger than a usual row."""
    return float(roc_auc_score(y, score))


def ap(y: np.ndarray, score: np.ndarray) -> float:
    """Return the average precision."""
    return float(average_precision_score(y, score))


# -- ranges ----------------------------------------------------------------------------------------


def ranges(mask: np.ndarray) -> np.ndarray:
    """Return where stretches of true begin and end (the row after the last).

    >>> ranges(np.array([0, 1, 1, 0, 1])).tolist()
    [[1, 3], [4, 5]]
    """
    edges = np.diff(np.concatenate([[0], (np.asarray(mask) != 0).astype(int), [0]]))
    return np.column_stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)])


def faded(y: np.ndarray, length: int) -> np.ndarray:
    """Return labels that fade over length / 2 rows to both sides.

    >>> faded(np.array([0, 0, 0, 1, 0, 0, 0]), 4).round(2).tolist()
    [0.0, 0.71, 0.87, 1.0, 0.87, 0.71, 0.0]
    """
    label = y.astype(float)
    for first, stop in ranges(y):
        after = np.arange(stop, min(stop + length // 2, len(y)))
        before = np.arange(max(first - length // 2, 0), first)
        label[after] += np.sqrt(1 - (after - stop + 1) / max(length, 1))
        label[before] += np.sqrt(1 - (first - before) / max(length, 1))
    return np.minimum(label, 1.0)


def range_pr(y: np.ndarray, score: np.ndarray, length: int) -> float:
    """Return the area under precision over recall, for labels that fade over `length` rows."""
    return _area(y, score, np.argsort(-score, kind="stable"), length)


def _area(y: np.ndarray, score: np.ndarray, order: np.ndarray, length: int) -> float:
    label = faded(y, length)
    sorted_score = score[order]
    last = np.flatnonzero(np.append(sorted_score[1:] != sorted_score[:-1], True))
    hits, core = np.cumsum(label[order])[last], np.cumsum(y[order])[last]
    highest = np.sort([score[a:b].max() for a, b in ranges(label)])
    found = 1 - np.searchsorted(highest, sorted_score[last]) / len(highest)
    recall = np.minimum(hits / (y.sum() + (hits - core) / 2), 1) * found
    return float(np.diff(recall, prepend=0.0) @ (hits / (last + 1)))


def vus_pr(y: np.ndarray, score: np.ndarray, longest: int = LONGEST) -> float:
    """Return the mean of `range_pr` over the lengths 0, ..., `longest`."""
    order = np.argsort(-score, kind="stable")
    return float(np.mean([_area(y, score, order, length) for length in range(longest + 1)]))


# -- alerts ----------------------------------------------------------------------------------------


def recent_alerts(score: np.ndarray, nu: float, recent: int = RECENT) -> np.ndarray:
    """Alert where a score's rank among the `recent` before it is at most nu.

    ``(1 + how many of them are as high) / (1 + how many there are) <= nu``, from 100 rows on: the
    alert rule of contenders that have none of their own.
    """
    n, alerts = len(score), np.zeros(len(score), bool)
    padded = np.concatenate([np.full(recent, -np.inf), score])
    past = np.lib.stride_tricks.sliding_window_view(padded, recent)
    for a in range(FEWEST, n, BLOCK):
        stop = min(a + BLOCK, n)
        seen = np.minimum(np.arange(a, stop), recent)
        above = (past[a:stop] >= score[a:stop, None]).sum(axis=1)
        alerts[a:stop] = (1 + above) / (1 + seen) <= nu
    return alerts


def alert_shares(y: np.ndarray, alerts: np.ndarray) -> dict[str, float]:
    """Return the share of anomalous rows, of anomalies and of usual rows with an alert."""
    spans = ranges(y)
    return {
        "rows": float(alerts[y == 1].mean()) if y.any() else np.nan,
        "episodes": float(np.mean([alerts[a:b].any() for a, b in spans])) if len(spans) else np.nan,
        "outside": float(alerts[y == 0].mean()),
    }


def likelihood(score: np.ndarray, recent: int = RECENT) -> np.ndarray:
    """Return scores in spreads above the mean of the `recent` before them: NAB's likelihood.

    NAB takes the normal tail probability of this, which has the same order.
    """
    sums, squares = (np.append(0.0, np.cumsum((score - score[0]) ** power)) for power in (1, 2))
    t = np.arange(len(score))
    start = np.maximum(t - recent, 0)
    n = np.maximum(t - start, 1)
    mean = (sums[t] - sums[start]) / n
    variance = np.maximum((squares[t] - squares[start]) / n - mean**2, 0)
    floor = 1e-12 * (1 + mean**2)
    found: np.ndarray = (score - score[0] - mean) / np.sqrt(np.maximum(variance, floor))
    return found
