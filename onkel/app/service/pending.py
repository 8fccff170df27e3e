"""Models whose labels come late: rows that are remembered, and labels that come without rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem
from onkel.app.service.bodies import Batch, Entry, Labels, check_targets
from onkel.app.service.limits import Limits
from onkel.app.service.specs import REFUSALS, field_of
from onkel.clock import ACCEPTED, seconds
from onkel.judge import Answer, Marks, marks_of_labels, marks_of_numbers, named
from onkel.late import Answered, Late
from onkel.late.waiting import NotWaiting

REMEMBER, ANSWER = "remember", "answer"
"""Operations in the log: rows that are predicted and kept, labels of such rows."""


def wanted(pending: int | str | None, ask: float | None, keyed: bool, limits: Limits) -> Entry:
    """Return what a new model's record says of rows that wait; refuse what cannot be."""
    entry = Entry("create", 0, ask=ask)
    if pending is None:
        if ask is not None:
            words = "A model asks for the labels of rows that it keeps: give pending, too."
            raise Problem(422, "bad_field", words, "ask")
        return entry
    if keyed:
        words = "Rows wait for their labels in models without keys; leave pending or keyed out."
        raise Problem(422, "bad_field", words, "pending")
    if isinstance(pending, str):
        if seconds(pending) is None:
            words = f"pending is {ACCEPTED.partition(' or ')[0]}, or a number of rows; got "
            raise Problem(422, "bad_field", f"{words}{pending[:80]!r}.", "pending")
        entry.within = pending
    entry.keep = limits.pending if isinstance(pending, str) else pending
    if not 1 <= entry.keep <= limits.pending:
        words = f"1 to {limits.pending} rows may wait in one model here; got {pending}."
        raise Problem(422, "bad_field", words, "pending", limit=limits.pending)
    return entry


def made(estimator: Any, entry: Entry) -> Any:
    """Return a new model; one that keeps rows, if its record says so."""
    if not entry.keep:
        return estimator
    try:
        return Late(estimator, entry.keep, entry.within or None, entry.ask)
    except REFUSALS as error:
        field = "ask" if "ask" in str(error) else "pending"
        raise Problem(422, "bad_field", str(error)[:2000], field) from error


def bytes_of(model: Any) -> int:
    """Return how much the rows take that wait, about."""
    return model.nbytes if isinstance(model, Late) else 0


def check_file(model: Any, limits: Limits) -> None:
    """Refuse a file of a model that keeps more rows than there may be."""
    if isinstance(model, Late) and model.keep > limits.pending:
        words = f"{limits.pending} rows may wait in one model here; this one has keep={model.keep}."
        raise Problem(422, "bad_file", words, limit=limits.pending)


def check_late(model: Any, field: str) -> Late:
    """Return a model that keeps rows; refuse another one."""
    if not isinstance(model, Late):
        words = 'This model keeps no rows. Make one with "pending": "30d", or a number of rows.'
        raise Problem(422, "bad_field", words, field)
    return model


def remembering(model: Any, batch: Batch, entry: Entry) -> Entry:
    """Return the record of rows that are to be kept."""
    late = check_late(model, "remember" if batch.remember else "ids")
    if not batch.remember:
        words = 'ids are for rows that are kept: give "remember": true, too.'
        raise Problem(422, "bad_field", words, "ids")
    for name in ("y", "sample_weight", "classes"):
        if getattr(batch, name) is not None:
            words = f"Rows that are remembered have no {name} yet; it comes with learn."
            raise Problem(422, "bad_field", words, name)
    entry.op, entry.ids = REMEMBER, batch.ids
    _stamp(late, entry)
    return entry


def check_output(entry: Entry) -> None:
    """Refuse another answer than predictions to rows that are remembered."""
    if entry.output not in (None, "prediction"):
        words = "Rows that are remembered are answered with predictions; leave output out."
        raise Problem(422, "bad_field", words, "output")


def answering(model: Any, labels: Labels, id: int, limits: Limits) -> Entry:
    """Return the record of labels that come without rows."""
    late = check_late(model, "ids")
    count = len(labels.ids)
    if not 1 <= count <= limits.rows:
        words = f"ids must be 1 to {limits.rows} of them; got {count}."
        raise Problem(413 if count else 422, "too_many_rows" if count else "bad_field", words,
                      "ids", limit=limits.rows)  # fmt: skip
    for name in ("y", "sample_weight", "time"):
        values = getattr(labels, name)
        if values is not None and len(values) != count:
            words = f"{name} has {len(values)} values for {count} ids."
            raise Problem(422, "bad_field", words, name)
    check_targets(labels.y, limits)
    entry = Entry(ANSWER, id, ids=labels.ids, y=labels.y, sample_weight=labels.sample_weight)
    entry.time, entry.skip = labels.time, labels.skip_unknown
    _stamp(late, entry)
    return entry


def _stamp(late: Late, entry: Entry) -> None:
    """Note when a request came that does not say so itself, where rows expire by the clock."""
    if late.within is not None and entry.time is None:
        entry.stamp = time.time()


def _when(late: Late, entry: Entry) -> Any:
    """Return the time of a request; one that was stamped never runs backwards."""
    if entry.time is not None or not entry.stamp:
        return entry.time
    return max(entry.stamp, late.clock or entry.stamp)


# -- applying --------------------------------------------------------------------------------------


def remember(late: Late, entry: Entry, names: list[str] | None, rows: Any, position: int) -> bytes:
    """Predict rows and keep them; return the body of the answer."""
    X = rows if isinstance(rows, list) else named(late, rows, names)
    try:
        said = late.predict(X, time=_when(late, entry), ids=entry.ids)
    except REFUSALS as error:
        field = "ids" if "id " in str(error) or "ids" in str(error) else field_of(error, "X")
        raise Problem(422, "refused", str(error)[:2000], field) from error
    found: dict[str, Any] = {
        "position": position, "t": late.t_, "output": "prediction",
        "values": said.prediction.tolist(), "ids": said.ids, "ask": said.ask.tolist(),
    }  # fmt: skip
    for name in ("probability", "interval"):
        if (beside := getattr(said, name)) is not None:
            found[name] = beside.tolist()
    return encode(found)


def check_first(model: Any, rows: Any) -> None:
    """Refuse the first rows of a model if those that wait for their labels have other columns."""
    try:
        if isinstance(model, Late):
            model.check_first(rows)
    except ValueError as error:
        raise Problem(422, "refused", str(error), "X") from None


def answer(late: Late, entry: Entry, position: int) -> tuple[bytes, Answer, list[str]]:
    """Learn rows whose labels came; return the answer, what the page draws, and their ids."""
    ids, y = entry.ids or [], entry.y or []
    unknown = "skip" if entry.skip else "error"
    try:
        found = late.learn(
            ids, y, time=_when(late, entry), sample_weight=entry.sample_weight, unknown=unknown
        )
    except NotWaiting as error:
        raise Problem(422, "not_waiting", _words(error), f"ids[{error.row}]") from error
    except REFUSALS as error:
        raise Problem(422, "refused", str(error)[:2000], field_of(error, "y")) from error
    skipped = len(ids) - len(found.ids)
    body = {"position": position, "t": late.t_, "learned": len(found.ids), "skipped": skipped}
    marks = _marks(late, found, ids, y) if found.ids else Marks()
    return encode(body), Answer(np.zeros(0), {}, marks), found.ids


def _words(error: NotWaiting) -> str:
    """Return a refusal in the words of a request."""
    return str(error).replace("unknown='skip'", '"skip_unknown": true')


def _marks(late: Late, found: Answered, ids: list[Any], y: list[Any]) -> Marks:
    """Return what a page draws: labels beside what had been said."""
    target = dict(zip(reversed([str(id) for id in ids]), reversed(y), strict=True))
    came = [target[id] for id in found.ids]
    if late.task == "classification":
        return marks_of_labels(found.prediction.tolist(), came)
    values = np.nan_to_num(found.prediction)
    if found.interval is None:
        return marks_of_numbers(values, came)
    half = np.nan_to_num((found.interval[..., 1] - found.interval[..., 0]) / 2)
    return marks_of_numbers(values, came, half)
