"""What can be asked of a model, by task: before its rows are learned, and without learning."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.alerting import RecentScores
from onkel.estimators import inside
from onkel.estimators.detector import ranks_before
from onkel.inputs import weights_of
from onkel.judge.marks import Marks, marks_of_labels, marks_of_numbers, own_scores
from onkel.judge.ranks import ranks_at
from onkel.judge.reasons import Asked
from onkel.judge.rows import NamedRows, Rows
from onkel.judge.tasks import judgement, labelled, likeliest, tells_interval

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


class Answer(NamedTuple):
    """What a model says of rows."""

    values: Array
    """What was asked for."""
    beside: dict[str, Array]
    """What goes with a prediction: the label's ``probability``, the ``interval``."""
    marks: Marks = Marks()
    """What a page draws of the rows, where they were learned."""


def predicted(model: Any, X: Any, output: str = "prediction") -> Answer:
    """Return what a model says of rows, and what goes with it; nothing changes.

    Examples
    --------
    >>> from onkel import Classifier
    >>> found = predicted(Classifier().fit([[0.0], [1.0]] * 50, ["a", "b"] * 50), [[0.0]])
    >>> found.values.tolist(), bool(found.beside["probability"][0] > 0.5)
    (['a'], True)
    """
    if output == "prediction" and model.task == "classification":
        return _labels(*likeliest(model.classes_, model.predict_proba(X)))
    if output == "prediction" and model.task == "regression" and tells_interval(model):
        return _numbers(*inside.outlook(model, X))
    return Answer(predict(model, X, output), {})


def _labels(labels: Array, chances: Array) -> Answer:
    return Answer(labels, {"probability": chances})


def _numbers(values: Array, low: Array, high: Array) -> Answer:
    return Answer(values, {"interval": np.stack([low, high], axis=-1)})


def answer(
    model: Any, X: Any, y: Any = None, output: str = "prediction", *, explain: float = 0,
    **how: Any,
) -> Answer:  # fmt: skip
    """Let a model judge rows and learn them; return what was asked for, and what a page draws.

    Parameters
    ----------
    model : estimator
    X, y : rows and targets
        A detector has no targets.
    output : str
        One of ``OUTPUTS[model.task]``.
    explain : float
        So many of a detector's alerts are explained, and then every 500th; the others are told in
        a few words. 0: there are no reasons.
    **how
        ``sample_weight``, ``time``, ``classes``: as ``predict_then_learn`` has them.

    Examples
    --------
    >>> from onkel import NoveltyDetector
    >>> found = answer(NoveltyDetector(), [[0.0], [0.1], [0.2]])
    >>> found.values.tolist(), found.marks.mark.tolist()
    ([1, -1, 1], [False, True, False])
    """
    if model.task == "novelty":
        return _novelty(model, X, output, explain, how)
    return _ANSWERS[model.task](model, X, y, output, how)


def _novelty(model: Any, X: Any, output: str, explain: float, how: dict[str, Any]) -> Answer:
    ranked = output == "rank" or (output == "p" and not model.tells_p)
    known = model.recent_.copy() if ranked and model.__sklearn_is_fitted__() else None
    asked = _asked(model, X, explain, how) if explain else None
    score, limit, alert = judgement(model, X, None if asked is None else asked.heard, **how)
    marks = Marks(score, limit, alert)
    if asked is not None:
        marks.why = lambda: _why(asked, score, limit, alert)
        marks.own = own_scores(len(score), asked.by_answer)
    if ranked:  # which rows are alerts does not hang on the question
        live = weights_of(how.get("sample_weight"), len(score)) > 0
        before = known or RecentScores(model.recent_.size)
        return Answer(ranks_before(before, score, live), {}, marks)
    if output == "prediction":
        return Answer(np.where(alert, -1, 1), {}, marks)
    if output == "p":
        return Answer(np.exp(score), {}, marks)
    return Answer(score if output == "score" else score - limit, {}, marks)


def _asked(model: Any, X: Any, explain: float, how: dict[str, Any]) -> Asked:
    """Return who is asked for the reasons of alerts."""
    names = X.columns if isinstance(X, NamedRows) else getattr(model, "feature_names_in_", None)
    rows = X.X if isinstance(X, NamedRows) else X
    if isinstance(rows, list) and not (rows and isinstance(rows[0], str)):
        rows = np.asarray(rows)
    time, weight = how.get("time"), how.get("sample_weight")
    own = Rows(rows, time=None if time is None else np.asarray(time))
    return Asked.begin(model, own, names, explain, None if weight is None else np.asarray(weight))


def _why(asked: Asked, score: Array, limit: Array, alert: Array) -> dict[int, Any]:
    rank, at = np.ones(len(score)), np.flatnonzero(alert)
    rank[at] = ranks_at(asked.recent, score, at)
    return asked.found(score, limit, alert, rank)


def _classification(model: Any, X: Any, y: Any, output: str, how: dict[str, Any]) -> Answer:
    if output != "prediction":
        return Answer(model.predict_then_learn(X, y, output=output, **how), {})
    found = _labels(*labelled(model, X, y, **how))
    return found._replace(marks=marks_of_labels(found.values.tolist(), y))


def _regression(model: Any, X: Any, y: Any, output: str, how: dict[str, Any]) -> Answer:
    if output == "prediction" and not tells_interval(model):
        found = model.predict_then_learn(X, y, **how)
        return Answer(found, {}, marks_of_numbers(found, y))
    found, low, high = model.predict_then_learn(X, y, output="judgement", **how)
    values, beside, _ = _numbers(found, low, high)
    marks = marks_of_numbers(values, y, (high - low) / 2)
    if output == "interval":
        return Answer(beside["interval"], {}, marks)
    return Answer(values, beside, marks)


_ANSWERS = {
    "classification": _classification,
    "regression": _regression,
}
