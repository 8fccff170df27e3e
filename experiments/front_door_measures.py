"""How good answers and probabilities are: error, log loss, calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

BINS = 15
LEAST = 1e-6
"""A probability below counts as this much: nobody's loss is infinite."""


def confidence(p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of the likeliest class, and whether it was the right one."""
    return p.max(axis=1), p.argmax(axis=1) == y


def reliability(said: np.ndarray, came: np.ndarray, bins: int = BINS) -> list[dict[str, float]]:
    """Return, for each bin of equal width that has rows: how many, what was said, what came.

    >>> reliability(np.array([0.9, 0.7, 0.1]), np.array([1, 0, 0]), bins=2)[1]
    {'bin': 1, 'rows': 2, 'said': 0.8, 'came': 0.5}
    """
    at = np.minimum((said * bins).astype(int), bins - 1)
    found = []
    for b in np.unique(at):
        inside = at == b
        mean = float(np.mean(said[inside])), float(np.mean(came[inside]))
        found.append(
            {"bin": int(b), "rows": int(inside.sum()), "said": mean[0], "came": mean[1]}
        )  # fmt: skip
    return found


def ece(said: np.ndarray, came: np.ndarray, bins: int = BINS) -> float:
    """Return the expected calibration error: the mean of |said - came| over bins, by their rows.

    >>> round(ece(np.array([0.9, 0.7, 0.1]), np.array([1, 0, 0]), bins=2), 6)
    0.233333
    """
    rows = reliability(said, came, bins)
    return sum(r["rows"] * abs(r["said"] - r["came"]) for r in rows) / len(said)


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    """Return the mean of -ln of the right class's probability.

    >>> round(log_loss(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 1])), 4)
    0.3466
    """
    right = p[np.arange(len(y)), y]
    return float(-np.log(np.clip(right, LEAST, 1)).mean())


def of_classes(said: np.ndarray, p: np.ndarray | None, y: np.ndarray) -> dict[str, Any]:
    """Return the error over all rows; of probabilities what they are worth in the second half."""
    wrong = 100.0 * (said != y)
    found: dict[str, Any] = {
        "error": float(np.mean(wrong)), "error, after one": float(np.mean(wrong[1:])),
    }  # fmt: skip
    if p is None:
        return found
    half = len(y) // 2
    p, y = p[half:], y[half:]
    each = [ece(p[:, k], y == k) for k in range(p.shape[1])]
    top = confidence(p, y)
    return found | {
        "log loss": log_loss(p, y), "ECE": ece(*top), "ECE, each class": float(np.mean(each)),
        "reliability": reliability(*top),
    }  # fmt: skip


def of_numbers(said: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the mean absolute error, and the root of the mean squared one."""
    gap = np.nan_to_num(said - y, nan=1e12, posinf=1e12, neginf=-1e12)
    return {"error": float(np.mean(np.abs(gap))), "RMSE": float(np.sqrt(np.mean(gap**2)))}
