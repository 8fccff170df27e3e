"""Predict-then-learn scoring: how good was each prediction before its example was learned?"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Progress", "alert_rate", "coverage", "progressive"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Progress:
    """What :func:`progressive` measured."""

    predictions: Array
    """One per row, made before that row was learned."""
    errors: Array
    """0/1 for classes, absolute error for numbers; 1 for an alert of a detector."""
    seconds: float

    @property
    def error(self) -> float:
        """Mean error: mistake rate, mean absolute error, or alert rate."""
        return float(np.mean(self.errors)) if len(self.errors) else float("nan")

    @property
    def curve(self) -> Array:
        """Mean error so far, after each row."""
        return np.cumsum(self.errors, axis=0) / np.arange(1, len(self.errors) + 1)

    @property
    def rate(self) -> float:
        """Examples per second."""
        return len(self.predictions) / self.seconds if self.seconds else float("inf")


def progressive(
    estimator: Any, X: Any, y: Any = None, *, block: int = 1000, progress: bool = False
) -> Progress:
    """Run predict-then-learn over a stream and score it (progressive validation).

    Parameters
    ----------
    estimator : KernelClassifier, KernelRegressor or NoveltyDetector
        Goes on learning from where it is.
    X, y : arrays
        The stream, in order; no `y` for a detector.
    block : int
        Rows per call; changes the results by rounding only.
    progress : bool
        Show a line on standard error while it runs.

    Examples
    --------
    >>> import numpy as np
    >>> from onkel import KernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> progressive(KernelClassifier(), X, X[:, 0] > 0).error < 0.1
    True
    """
    total = X.shape[0] if hasattr(X, "shape") else len(X)
    targets = None if y is None else np.asarray(y)
    parts = []
    began = time.perf_counter()
    for start in range(0, total, block):
        part = slice(start, start + block)
        rows = X.iloc[part] if hasattr(X, "iloc") else X[part]
        args = (rows,) if targets is None else (rows, targets[part])
        parts.append(estimator.predict_then_learn(*args))
        if progress:
            _show(min(start + block, total), total, began)
    seconds = time.perf_counter() - began
    if progress:
        sys.stderr.write("\n")
    predictions = np.concatenate(parts) if parts else np.zeros(0)
    return Progress(predictions, _errors(estimator, predictions, targets), seconds)


def _errors(estimator: Any, predictions: Array, targets: Array | None) -> Array:
    if targets is None:
        return (predictions == -1).astype(float)
    if estimator.task == "classification":
        return (predictions != targets.reshape(predictions.shape)).astype(float)
    return np.abs(predictions - targets)


def _show(done: int, total: int, began: float) -> None:
    rate = done / max(time.perf_counter() - began, 1e-9)
    sys.stderr.write(f"\r{done:,} of {total:,} examples, {rate:,.0f} per second")
    sys.stderr.flush()


def coverage(low: Array, high: Array, y: Array) -> float:
    """Return the fraction of targets inside their intervals.

    Examples
    --------
    >>> coverage(np.array([0.0, 0.0]), np.array([1.0, 1.0]), np.array([0.5, 2.0]))
    0.5
    """
    return float(np.mean((np.asarray(low) <= y) & (y <= np.asarray(high))))


def alert_rate(predictions: Array) -> float:
    """Return the fraction of alerts (-1).

    Examples
    --------
    >>> alert_rate(np.array([1, 1, -1, 1]))
    0.25
    """
    return float(np.mean(np.asarray(predictions) == -1))
