"""What was said of rows before their labels came, and how much those would teach."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.estimators import inside
from onkel.judge import tells_interval
from onkel.judge.tasks import likeliest

Array = NDArray[Any]


class Said(NamedTuple):
    """What was said of rows that are kept now."""

    ids: list[str]
    """Under which each row waits for its label."""
    prediction: Array
    """Labels, or numbers; None or NaN where nothing is known yet."""
    probability: Array | None
    """Of a classifier: of the predicted labels."""
    interval: Array | None
    """Of a regressor that has them: low and high."""
    ask: Array
    """Which labels would teach most; all False without ``ask=``."""


class Answered(NamedTuple):
    """What had been said of rows whose labels came."""

    ids: list[str]
    """Those that were learned."""
    prediction: Array
    probability: Array | None
    interval: Array | None
    rows: Array
    """How many rows came between each row and its label."""
    seconds: Array
    """How long that took; NaN where times are not known."""


class Looked(NamedTuple):
    """What an estimator thinks of rows: what is said, what is kept, and its doubt."""

    prediction: Array
    probability: Array | None
    interval: Array | None
    labels: list[Any]
    """To be kept: predicted labels, None each of a regressor."""
    told: Array | None
    """To be kept: a row of numbers each; None where nothing is known yet."""
    doubt: Array
    """How much each label would teach."""
    known: Array
    """Where that is known."""


def nothing_known(estimator: Any, count: int) -> Looked:
    """Return what is said of rows before anything was learned."""
    gaps, labels = np.full(count, np.nan), [None] * count
    unknown = np.zeros(count, bool)
    if estimator.task == "classification":
        return Looked(np.full(count, None), gaps, None, labels, None, gaps, unknown)
    interval = np.full((count, 2), np.nan) if tells_interval(estimator) else None
    return Looked(gaps, None, interval, labels, None, gaps, unknown)


def look(estimator: Any, X: Any, asks: bool) -> Looked:
    """Return what an estimator that has learned says of rows; doubts of numbers only if it asks."""
    if estimator.task == "classification":
        if not len(estimator.classes_):
            return nothing_known(estimator, len(X))
        chances = estimator.predict_proba(X)
        labels, p = likeliest(estimator.classes_, chances)
        known = np.ones(len(labels), bool)
        return Looked(labels, p, None, labels.tolist(), p[:, None], _ahead(chances), known)
    if not tells_interval(estimator):
        values = estimator.predict(X)
        return _of_numbers([values], None, np.zeros(len(values)))
    values, low, high = inside.outlook(estimator, X)
    interval = np.stack([low, high], axis=-1)
    doubt = np.zeros(len(values))
    if asks:
        doubt = _doubt(estimator, X, (high - low).reshape(len(values), -1).mean(axis=1))
    return _of_numbers([values, low, high], interval, doubt)


def _of_numbers(parts: list[Array], interval: Array | None, doubt: Array) -> Looked:
    values, count = parts[0], len(parts[0])
    told = np.concatenate([part.reshape(count, -1) for part in parts], axis=1)
    return Looked(values, None, interval, [None] * count, told, doubt, np.ones(count, bool))


def _doubt(estimator: Any, X: Any, width: Array) -> Array:
    """Return how much of the width of intervals is doubt, that labels could take away.

    Where targets are noisy intervals are wide, and a label teaches little. Members that
    disagree have not learned enough yet; a model of one setting cannot tell the two apart.
    """
    apart = inside.disagreement(estimator, X)
    doubt = width if apart is None else apart / np.maximum(width, np.finfo(float).tiny)
    return np.nan_to_num(doubt)


def _ahead(chances: Array) -> Array:
    """Return how little the likeliest class is ahead of the next, in [0, 1]."""
    if chances.shape[1] < 2:
        return np.zeros(len(chances))
    two = np.partition(chances, -2, axis=1)[:, -2:]
    return 1.0 - (two[:, 1] - two[:, 0])


def said_blindly(answered: Answered) -> list[bool]:
    """Return which rows had been predicted before anything was known."""
    if answered.prediction.dtype == object:
        return [label is None for label in answered.prediction.tolist()]
    values = answered.prediction
    found: list[bool] = np.isnan(values if values.ndim == 1 else values[:, 0]).tolist()
    return found
