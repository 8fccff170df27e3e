"""What can be asked of a model, by task: before its rows are learned, and without learning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.judge.marks import Marks, marks_of_labels, marks_of_numbers
from onkel.judge.tasks import judgement, middle

Array = NDArray[Any]

OUTPUTS = {
    "novelty": ("prediction", "decision", "score", "rank", "p"),
    "classification": ("prediction", "decision", "probability"),
    "regression": ("prediction", "interval"),
}
"""By task; the first is what is answered unless something else is asked for."""
_METHODS = {
    "prediction": "predict",
    "decision": "decision_function",
    "score": "score_samples",
    "rank": "rank_samples",
    "p": "p_samples",
    "probability": "predict_proba",
}


def predict(model: Any, X: Any, output: str = "prediction") -> Array:
    """Return what a model says of rows; nothing changes. Intervals are pairs, low and high."""
    if output == "interval":
        return np.stack(model.predict_interval(X), axis=-1)
    found: Array = getattr(model, _METHODS[output])(X)
    return found


def answer(
    model: Any, X: Any, y: Any = None, output: str = "prediction", **how: Any
) -> tuple[Array, Marks]:
    """Let a model judge rows and learn them; return what was asked for, and what a page draws.

    Parameters
    ----------
    model : estimator
    X, y : rows and targets
        A detector has no targets.
    output : str
        One of ``OUTPUTS[model.task]``.
    **how
        ``sample_weight``, ``time``, ``classes``: as ``predict_then_learn`` has them.

    Examples
    --------
    >>> from onkel import NoveltyDetector
    >>> found, marks = answer(NoveltyDetector(), [[0.0], [0.1], [0.2]])
    >>> found.tolist(), marks.mark.tolist()
    ([1, -1, 1], [False, True, False])
    """
    return _ANSWERS[model.task](model, X, y, output, how)


def _novelty(model: Any, X: Any, y: Any, output: str, how: dict[str, Any]) -> tuple[Array, Marks]:
    if output == "rank" or (output == "p" and not model.tells_p):
        return model.predict_then_learn(X, output=output, **how), Marks()
    score, limit, alert = judgement(model, X, **how)
    marks = Marks(score, limit, alert)
    if output == "prediction":
        return np.where(alert, -1, 1), marks
    if output == "p":
        return np.exp(score), marks
    return (score if output == "score" else score - limit), marks


def _classification(
    model: Any, X: Any, y: Any, output: str, how: dict[str, Any]
) -> tuple[Array, Marks]:
    found = model.predict_then_learn(X, y, output=output, **how)
    return found, marks_of_labels(found.tolist(), y) if output == "prediction" else Marks()


def _regression(
    model: Any, X: Any, y: Any, output: str, how: dict[str, Any]
) -> tuple[Array, Marks]:
    found = model.predict_then_learn(X, y, output=output, **how)
    if output == "prediction":
        return found, marks_of_numbers(found, y)
    low, high = found
    marks = marks_of_numbers(middle(low, high), y, (high - low) / 2)
    return np.stack([low, high], axis=-1), marks


_ANSWERS = {
    "novelty": _novelty,
    "classification": _classification,
    "regression": _regression,
}
