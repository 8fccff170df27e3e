"""Detectors with the same information as onkel's: a row is judged before it is learned, in order.

All get raw rows; where a scale matters they standardise by running moments. Every function takes
the rows and returns how strange each was, the higher the stranger. They are written for many rows
at a time, and what that leaves late is said at each.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np

BLOCK = 64
Detect = Callable[[np.ndarray], np.ndarray]


def moments(X: np.ndarray) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """Yield blocks of rows with mean and spread of all rows before each block (at least 16)."""
    shift = X[0]
    total, square, seen = np.zeros(X.shape[1]), np.zeros(X.shape[1]), 0
    start = min(16, len(X))
    for a in range(start, len(X), BLOCK):
        new = X[seen:a] - shift
        total, square, seen = total + new.sum(axis=0), square + (new**2).sum(axis=0), a
        mean = total / seen
        spread = np.sqrt(np.maximum(square / seen - mean**2, 0))
        yield a, min(a + BLOCK, len(X)), shift + mean, spread + 1e-9 * (1 + np.abs(shift + mean))


# -- moments ---------------------------------------------------------------------------------------


def z_scores(memory: int, worst: bool = False) -> Detect:
    """Squared distance from a fading mean, in fading spreads: the features' mean, or the worst."""

    def detect(X: np.ndarray) -> np.ndarray:
        mean, variance, found = X[0].copy(), np.ones(X.shape[1]), np.zeros(len(X))
        for t, x in enumerate(X):
            gap = (x - mean) ** 2
            ratio = gap / (variance + 1e-9)
            found[t] = ratio.max() if worst else ratio.mean()
            rate = max(1 / (t + 2), 1 / memory)
            mean += rate * (x - mean)
            variance += rate * (gap - variance)
        return found

    return detect


def mahalanobis(memory: int, shrink: float = 0.05, every: int = 10) -> Detect:
    """Mahalanobis distance by fading moments, correlations shrunk; inverted at every tenth row."""

    def detect(X: np.ndarray) -> np.ndarray:
        d = X.shape[1]
        mean, cov, found = X[0].copy(), np.eye(d), np.zeros(len(X))
        inverse = np.eye(d)
        for t, x in enumerate(X):
            if t % every == 0 or t < every:
                inverse = _inverse(cov, max(shrink, d / (d + t + 1)))
            gap = x - mean
            found[t] = gap @ inverse @ gap
            rate = max(1 / (t + 2), 1 / memory)
            mean += rate * gap
            cov += rate * (np.outer(gap, gap) - cov)
        return found

    return detect


def _inverse(cov: np.ndarray, shrink: float) -> np.ndarray:
    spread = np.sqrt(np.diag(cov) + 1e-9)
    correlation = (1 - shrink) * cov / np.outer(spread, spread)
    np.fill_diagonal(correlation, 1.0)
    return np.linalg.inv(correlation) / np.outer(spread, spread)


def smoothed(memory: int, span: int = 10) -> Detect:
    """A control chart: the z-score of a short fading mean of the rows."""
    whole = z_scores(memory)

    def detect(X: np.ndarray) -> np.ndarray:
        keep, total, weight = 1 - 2 / (span + 1), np.zeros(X.shape[1]), 0.0
        means = np.zeros_like(X)
        for t, x in enumerate(X):
            total, weight = keep * total + x, keep * weight + 1
            means[t] = total / weight
        return whole(means)

    return detect


# -- neighbours ------------------------------------------------------------------------------------


def neighbours(window: int = 1000, k: int = 10) -> Detect:
    """Distance to the k-th neighbour among the last rows, up to the row before."""

    def detect(X: np.ndarray) -> np.ndarray:
        found = np.zeros(len(X))
        for a, b, mean, spread in moments(X):
            low = max(0, a - window)
            part = (X[low:b] - mean) / spread
            gaps = squares(part[a - low :], part)
            behind = np.arange(a, b)[:, None] - np.arange(low, b)
            gaps[(behind < 1) | (behind > window)] = np.inf
            found[a:b] = np.partition(gaps, k - 1, axis=1)[:, k - 1]
        return found

    return detect


def squares(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return squared distances."""
    gaps: np.ndarray = (A**2).sum(axis=1)[:, None] - 2 * A @ B.T + (B**2).sum(axis=1)
    return np.maximum(gaps, 0)


def thinned(memory: int = 20_000, kept: int = 1000, k: int = 10) -> Detect:
    """Distance to the k-th of 1000 neighbours, evenly from the last 20 000 rows before a block."""

    def detect(X: np.ndarray) -> np.ndarray:
        found = np.zeros(len(X))
        for a, b, mean, spread in moments(X):
            past = X[max(0, a - memory) : a]
            past = past[:: -(-len(past) // kept)]
            gaps = squares((X[a:b] - mean) / spread, (past - mean) / spread)
            found[a:b] = np.partition(gaps, k - 1, axis=1)[:, k - 1]
        return found

    return detect


def lagged(detect: Detect, lags: int = 8) -> Detect:
    """A detector that sees the last rows side by side."""

    def look(X: np.ndarray) -> np.ndarray:
        past = np.maximum(np.arange(len(X))[:, None] - np.arange(lags), 0)
        return detect(X[past].reshape(len(X), -1))

    return look


# -- refitted now and then -------------------------------------------------------------------------


def forest(window: int = 1000, memory: int = 0) -> Detect:
    """scikit-learn's isolation forest, refitted at every twentieth of the rows (100 at least).

    On the last `window` rows; with `memory`, on so many spread over that many.
    """

    def detect(X: np.ndarray) -> np.ndarray:
        from sklearn.ensemble import IsolationForest

        found = np.zeros(len(X))
        for a, b in _steps(len(X), max(len(X) // 20, 100)):
            past = X[max(0, a - (memory or window)) : a]
            model = IsolationForest(random_state=0).fit(past[:: -(-len(past) // window)])
            found[a:b] = -model.score_samples(X[a:b])
        return found

    return detect


def local_outliers(window: int = 1000) -> Detect:
    """scikit-learn's local outlier factor over the last rows, refitted every hundred rows."""

    def detect(X: np.ndarray) -> np.ndarray:
        from sklearn.neighbors import LocalOutlierFactor

        found = np.zeros(len(X))
        for a, b in _steps(len(X), 100):
            whole, past = X[:a], X[max(0, a - window) : a]
            mean, spread = whole.mean(axis=0), whole.std(axis=0) + 1e-9
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # equal rows
                model = LocalOutlierFactor(novelty=True, algorithm="brute")
                model.fit((past - mean) / spread)
                found[a:b] = -model.score_samples((X[a:b] - mean) / spread)
        return found

    return detect


def _steps(n: int, every: int) -> list[tuple[int, int]]:
    """Return blocks; the first, of 20 rows at most, begins early, so that short streams count."""
    starts = [20, 40, 60, 80, *range(100, n, every)]
    return [(a, min(b, n)) for a, b in zip(starts, [*starts[1:], n], strict=True) if a < n]


PEERS: dict[str, Detect] = {
    "z-score 1000": z_scores(1000),
    "z-score 20000": z_scores(20_000),
    "largest z 1000": z_scores(1000, worst=True),
    "largest z 20000": z_scores(20_000, worst=True),
    "smoothed z 20000": smoothed(20_000),
    "neighbours 1000": neighbours(),
    "neighbours 20000 thinned": thinned(),
    "isolation forest 1000": forest(),
    "isolation forest 20000 thinned": forest(memory=20_000),
    "Mahalanobis 1000": mahalanobis(1000),
    "Mahalanobis 20000": mahalanobis(20_000),
    "local outlier factor 1000": local_outliers(),
    "lagged neighbours 20000": lagged(thinned()),
    "lagged Mahalanobis 20000": lagged(mahalanobis(20_000)),
}
