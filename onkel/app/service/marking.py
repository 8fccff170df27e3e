"""What the page draws of rows, whatever the caller wants to know of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import judge
from onkel.alerting import RecentScores
from onkel.judge import Answer, marks_of_labels

Array = NDArray[Any]


def answer(model: Any, X: Any, y: Any, output: str, how: dict[str, Any]) -> Answer:
    """Let a model judge rows and learn them; return what was asked for, and what a page draws."""
    if model.task == "novelty" and output == "rank":
        return _ranked(model, X, how)
    found = judge.answer(model, X, y, output, **how)
    if model.task == "classification" and found.marks.value is None:
        labels = _labels(np.asarray(found.values), model.classes_)
        return found._replace(marks=marks_of_labels(labels, y))
    return found


def _ranked(model: Any, X: Any, how: dict[str, Any]) -> Answer:
    """Rank scores among those before them, as the model itself would: rows of weight 0 stay out."""
    fitted = model.__sklearn_is_fitted__()
    recent = model.recent_.copy() if fitted else None
    found = judge.answer(model, X, None, "score", **how)
    recent, weight = recent or RecentScores(model.recent_.size), how.get("sample_weight")
    if weight is None:
        ranks = judge.ranks_at(recent, found.values, np.arange(len(found.values)))
        return found._replace(values=ranks)
    return found._replace(values=np.array(_one_by_one(recent, found.values, weight)))


def _one_by_one(recent: RecentScores, scores: Array, weight: Any) -> list[float]:
    ranks = []
    for score, counts in zip(scores.tolist(), weight, strict=True):
        ranks.append(float(recent.ranks([score])[0]))
        if counts > 0:
            recent.add(score)
    return ranks


def _labels(values: Array, classes: Array) -> list[Any]:
    """Return the labels that decisions or probabilities speak for.

    Examples
    --------
    >>> _labels(np.array([-1.0, 0.5]), np.array(["a", "b"]))
    ['a', 'b']
    >>> _labels(np.array([[0.2, 0.7, 0.1]]), np.array([1, 2, 3]))
    [2]
    """
    at = values.argmax(axis=1) if values.ndim == 2 else (values >= 0).astype(int)
    found: list[Any] = classes[np.minimum(at, len(classes) - 1)].tolist()
    return found
