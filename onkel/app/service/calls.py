"""Requests as calls to an estimator, and their answers; the log's replay makes the same calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from onkel import judge
from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem
from onkel.app.service import feedback, fleets, marking, pending, tables
from onkel.app.service.bodies import Entry
from onkel.app.service.keys import Remembered
from onkel.app.service.slots import inner
from onkel.app.service.specs import REFUSALS, field_of
from onkel.columns import Encoded
from onkel.inputs import RefusedRow
from onkel.judge import OUTPUTS, Answer

FIRST_EXPLAINED = 20
"""So many alerts of a detector are explained for the page, and then every 500th."""


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


def rows_of(estimator: Any, entry: Entry, names: list[str] | None) -> Any:
    """Return rows as an estimator takes them, or refuse a cell by its place."""
    try:
        return tables.rows_of(estimator, entry, names)
    except RefusedRow as error:
        raise refused(error, f"X[{error.row}]") from error


def learn(estimator: Any, entry: Entry, names: list[str] | None, rows: Any) -> Answer:
    """Predict, then learn; return what the caller asked for, and what the page draws."""
    task = estimator.task
    if fleets.is_fleet(estimator):
        return _fleet_learn(estimator, entry, names, rows)
    X = rows if isinstance(rows, Encoded) else judge.named(estimator, rows, names)
    how: dict[str, Any] = {"sample_weight": entry.sample_weight, "time": entry.time}
    if task == "classification":
        how["classes"] = entry.classes
    y = None if task == "novelty" else _needs_y(entry)
    output = output_of(task, entry)
    try:
        found = judge.answer(estimator, X, y, output, explain=FIRST_EXPLAINED, **how)
        return marking.marked(estimator, found, y)
    except REFUSALS as error:
        raise refused(error, field_of(error, "X", entry.lines)) from error


def _fleet_learn(fleet: Any, entry: Entry, names: list[str] | None, rows: Any) -> Answer:
    output = output_of(fleet.task, entry)
    try:
        return fleets.learn(fleet, entry, names, rows, output)
    except REFUSALS as error:
        raise refused(error, field_of(error, "X", entry.lines)) from error


def _needs_y(entry: Entry) -> list[Any]:
    if entry.y is None:
        raise Problem(422, "bad_field", "y is missing: one target per row.", "y")
    return entry.y


def predict(estimator: Any, entry: Entry, names: list[str] | None = None) -> Answer:
    """Return the model's answers for rows; nothing changes."""
    check_learned(estimator)
    output, rows = output_of(estimator.task, entry), rows_of(estimator, entry, names)
    try:
        if fleets.is_fleet(estimator):
            return fleets.predict(estimator, entry, rows, output)
        return judge.predicted(estimator, rows, output)
    except REFUSALS as error:
        raise refused(error) from error


def explain(estimator: Any, entry: Entry, top: int, target: int, key: Any = None) -> dict[str, Any]:
    """Return why the one row of an entry gets its score."""
    check_learned(estimator)
    row = tables.row_of(estimator, entry)
    extra = {"target": target} if estimator.task == "regression" else {}
    if estimator.task != "regression" and target:
        raise Problem(422, "bad_field", "target is for regression with several targets.", "target")
    try:
        if fleets.is_fleet(estimator):
            return fleets.explain(estimator, key, row, top, **extra)
        found: dict[str, Any] = estimator.explain(row, top=top, **extra).to_dict()
    except (*REFUSALS, IndexError) as error:
        raise refused(error, "x") from error
    return found


def learned(
    model: Any, entry: Entry, names: list[str] | None, position: int
) -> tuple[bytes, Answer, Any]:
    """Learn a record; return the body of its answer, what the page draws, and the rows."""
    estimator = inner(model)
    if entry.op == pending.ANSWER:
        return pending.answer(pending.check_late(model, "ids"), entry, position)
    if entry.op == pending.REMEMBER:
        late = pending.check_late(model, "remember")
        rows = rows_of(late, entry, names)
        return pending.remember(late, entry, names, rows, position), Answer(np.zeros(0), {}), []
    if entry.op == "forget":
        count = fleets.forget(estimator, entry.keys or [])
        body = encode({"position": position, "forgotten": count, "keys": len(estimator)})
        return body, Answer(np.zeros(0), {}), []
    if entry.op == feedback.OP:
        return feedback.applied(estimator, entry, position), Answer(np.zeros(0), {}), []
    rows = rows_of(model, entry, names)
    pending.check_first(model, rows)
    said = feedback.named(estimator, learn(estimator, entry, names, rows), entry, len(rows))
    wanted = said if entry.op == "predict-then-learn" else None
    return answer(entry, wanted, estimator.t_, position), said, rows


def remembered(entry: Entry, position: int, status: int, body: bytes, name: str) -> Remembered:
    """Return the answer to a record, as it is kept for those who ask again."""
    return Remembered(entry.key, position, entry.digest, status, body, entry.lines, name)


def answer(entry: Entry, said: Answer | None, t: int, position: int | None = None) -> bytes:
    """Return the body of an answer to a batch: an object, or a line for each row.

    What goes with a prediction (a probability, an interval) stands beside it.
    """
    found: dict[str, Any] = {} if position is None else {"position": position}
    found["t"] = t
    if said is None:
        return encode({**found, "learned": entry.count})
    word, beside = entry.output or "prediction", {n: v.tolist() for n, v in said.beside.items()}
    values = said.values.tolist()
    if entry.lines:
        columns = {word: values, **beside}
        rows = zip(*columns.values(), strict=True)
        return b"".join(encode(dict(zip(columns, row, strict=True))) + b"\n" for row in rows)
    return encode({**found, "output": word, "values": values, **beside})
