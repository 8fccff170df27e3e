"""What the requests do to an estimator, and what they answer. The log's replay comes here too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem
from onkel.app.service.bodies import Entry
from onkel.app.service.specs import REFUSALS

Array = NDArray[Any]
OUTPUTS = {
    "novelty": ("prediction", "decision", "score", "rank"),
    "classification": ("prediction", "decision", "probability"),
    "regression": ("prediction", "interval"),
}


class Named:
    """Rows whose columns have names, as a data frame shows them."""

    def __init__(self, rows: Array, columns: list[str]) -> None:
        self.rows = rows
        self.columns = columns

    def __len__(self) -> int:
        return len(self.rows)

    def to_numpy(self) -> Array:
        """Return the rows."""
        return self.rows


@dataclass
class Judged:
    """What was said about each row before it was learned, for the page."""

    value: Array | None = None
    """The score; whether it was a mistake; the size of the error."""
    limit: Array | None = None
    """The threshold; the half-width of the interval."""
    mark: Array | None = None
    """Alerts; mistakes; targets outside the interval."""


def output_of(task: str, entry: Entry) -> str:
    """Return what the caller wants to know."""
    output = entry.output or "prediction"
    if output not in OUTPUTS[task]:
        words = f"output must be one of {list(OUTPUTS[task])} for {task}; got {output[:80]!r}."
        raise Problem(422, "bad_field", words, "output")
    return output


def refused(error: Exception, field: str | None = "X") -> Problem:
    """Return the estimator's own words as a refusal."""
    return Problem(422, "refused", str(error)[:2000], field)


def check_learned(estimator: Any) -> None:
    """Refuse a question to a model that knows nothing."""
    if not estimator.__sklearn_is_fitted__():
        words = "This model has learned nothing yet, so that it can predict nothing."
        raise Problem(409, "not_learned", words)


def learn(estimator: Any, entry: Entry, names: list[str] | None) -> tuple[Any, Judged]:
    """Predict, then learn; return what the caller asked for, and what the page shows."""
    X: Any = entry.rows()
    if names is not None and not estimator.__sklearn_is_fitted__():
        X = Named(X, names)
    extra: dict[str, Any] = {"sample_weight": entry.sample_weight, "time": entry.time}
    try:
        return _LEARN[estimator.task](estimator, X, entry, extra)
    except REFUSALS as error:
        raise refused(error) from error


def _needs_y(entry: Entry) -> list[Any]:
    if entry.y is None:
        raise Problem(422, "bad_field", "y is missing: one target per row.", "y")
    return entry.y


def _novelty(est: Any, X: Any, entry: Entry, extra: dict[str, Any]) -> tuple[Any, Judged]:
    output = output_of("novelty", entry)
    if output == "rank":
        return est.predict_then_learn(X, output="rank", **extra), Judged()
    judged = est.predict_then_learn(X, output="judgement", **extra)
    score, limit, alert = judged[:, 0], judged[:, 1], judged[:, 2] > 0
    said = Judged(score, limit, alert)
    if output == "prediction":
        return np.where(alert, -1, 1), said
    return (score if output == "score" else score - limit), said


def _classification(est: Any, X: Any, entry: Entry, extra: dict[str, Any]) -> tuple[Any, Judged]:
    y, output = _needs_y(entry), output_of("classification", entry)
    found = est.predict_then_learn(X, y, output=output, classes=entry.classes, **extra)
    if output != "prediction":
        return found, Judged()
    wrong = np.array([a != b for a, b in zip(found.tolist(), y, strict=True)])
    return found, Judged(wrong.astype(float), None, wrong)


def _regression(est: Any, X: Any, entry: Entry, extra: dict[str, Any]) -> tuple[Any, Judged]:
    y, output = _needs_y(entry), output_of("regression", entry)
    found = est.predict_then_learn(X, y, output=output, **extra)
    if output == "prediction":
        return found, Judged(_largest(np.abs(found - np.asarray(y, float))))
    low, high = found
    middle, half = (low + high) / 2, (high - low) / 2
    error = np.abs(np.asarray(y, float) - middle)
    pair = np.stack([low, high], axis=-1)
    return pair, Judged(_largest(error), _largest(half), _largest(error > half).astype(bool))


def _largest(values: Array) -> Array:
    """Return one number per row, where there are several targets."""
    return values if values.ndim == 1 else values.max(axis=1)


_LEARN = {
    "novelty": _novelty,
    "classification": _classification,
    "regression": _regression,
}


def predict(estimator: Any, entry: Entry) -> Any:
    """Return the model's answers for rows; nothing changes."""
    check_learned(estimator)
    output, X = output_of(estimator.task, entry), entry.rows()
    try:
        if output == "interval":
            return np.stack(estimator.predict_interval(X), axis=-1)
        return getattr(estimator, _METHODS[output])(X)
    except REFUSALS as error:
        raise refused(error) from error


_METHODS = {
    "prediction": "predict",
    "decision": "decision_function",
    "score": "score_samples",
    "rank": "rank_samples",
    "probability": "predict_proba",
}


def explain(estimator: Any, row: Any, top: int, target: int) -> dict[str, Any]:
    """Return why one row gets its score."""
    check_learned(estimator)
    extra = {"target": target} if estimator.task == "regression" else {}
    if estimator.task != "regression" and target:
        raise Problem(422, "bad_field", "target is for regression with several targets.", "target")
    try:
        found: dict[str, Any] = estimator.explain(row, top=top, **extra).to_dict()
    except (*REFUSALS, IndexError) as error:
        raise refused(error, "x") from error
    return found


def answer(entry: Entry, values: Any, t: int, position: int | None = None) -> bytes:
    """Return the body of an answer to a batch: an object, or a line for each row."""
    listed = values.tolist() if values is not None else None
    if entry.lines and listed is not None:
        word = entry.output or "prediction"
        return b"".join(encode({word: value}) + b"\n" for value in listed)
    found: dict[str, Any] = {} if position is None else {"position": position}
    found["t"] = t
    if listed is None:
        found["learned"] = len(entry.rows())
    else:
        found["output"] = entry.output or "prediction"
        found["values"] = listed
    return encode(found)
