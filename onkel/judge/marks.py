"""What a page draws of each judged row: a value, its limit, and whether the row is marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass
class Marks:
    """One entry per row with a target (of a detector: per row); nothing where nothing is known."""

    value: Array | None = None
    """The score; 1 for a mistake; the size of the error."""
    limit: Array | None = None
    """The threshold; the half-width of the interval."""
    mark: Array | None = None
    """Alerts; mistakes; targets outside their intervals."""
    rare: Array | None = None
    """Of detectors with keys: p, or the rank of the score."""
    usual: Array | None = None
    """Of detectors with keys: means and variances before each row, [rows][2][features]."""
    why: Callable[[], dict[int, Any]] | None = None
    """Of a detector, where it was asked: the reasons of its alerts, by row."""
    own: Array | None = None
    """Of a detector whose alerts are answered: :func:`own_scores`."""


def own_scores(rows: int, by_answer: Mapping[int, float]) -> Array:
    """Return log p had nothing been answered, of rows that are alerts for an answer alone.

    NaN of all others, whose score is their own.

    Examples
    --------
    >>> own_scores(3, {1: -0.5})
    array([ nan, -0.5,  nan])
    """
    found = np.full(rows, np.nan)
    for i, score in by_answer.items():
        found[i] = score
    return found


def marks_of_labels(found: Sequence[Any], target: Sequence[Any]) -> Marks:
    """Return what is drawn of predicted labels.

    Examples
    --------
    >>> marks_of_labels(["a", None], ["a", "b"]).value
    array([0., 1.])
    """
    wrong = np.array([a != b for a, b in zip(found, target, strict=True)], bool)
    return Marks(wrong.astype(float), None, wrong)


def marks_of_numbers(found: Any, target: Any, half: Any = None) -> Marks:
    """Return what is drawn of predicted numbers; `half` is half the width of their intervals.

    Of several targets the largest error of a row counts.

    Examples
    --------
    >>> marks_of_numbers([1.0, 2.0], [1.5, 2.0], half=[0.1, 0.1]).mark
    array([ True, False])
    """
    error = np.abs(np.asarray(found, float) - np.asarray(target, float))
    if half is None:
        return Marks(_largest(error))
    half = np.asarray(half, float)
    return Marks(_largest(error), _largest(half), _largest(error > half).astype(bool))


def _largest(values: Array) -> Array:
    """Return one number per row, where there are several targets."""
    return values if values.ndim == 1 else values.max(axis=1)
