"""Answers to alerts over HTTP: which can be given, and what a model makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem
from onkel.app.service.bodies import Entry, Feedback, Said
from onkel.core.answers import KINDS
from onkel.fleet import Fleet
from onkel.judge import Marks

Array = NDArray[Any]

OP = "feedback"
MOST = 1000
"""Answers in one request."""
_TOLD = (
    "alerts_waiting", "alerts_answered", "alerts_dismissed", "precision_promised",
    "precision_realised",
)  # fmt: skip


def hears(estimator: Any) -> bool:
    """Whether alerts of a model, or of those of its keys, can be answered."""
    model = estimator.estimator if isinstance(estimator, Fleet) else estimator
    return hasattr(model, "feedback")


def check_hears(estimator: Any) -> None:
    """Refuse answers to a model that takes none."""
    if not hears(estimator):
        model = estimator.estimator if isinstance(estimator, Fleet) else estimator
        words = (
            f"Alerts of {type(model).__name__} cannot be answered; those of Detector can (a model "
            'for the task "novelty").'
        )
        raise Problem(422, "no_feedback", words, "name")


def promised(model: Any) -> float | None:
    """Return the share of faults among alerts that a detector promises; None of one without.

    Another parameter of that name is the arithmetic of a device.
    """
    return model.precision if hears(model) else None


def entry_of(wanted: Feedback, model: int) -> Entry:
    """Return answers as the log holds them, checked as far as that goes without the model."""
    single = wanted.id is not None or wanted.answer is not None or wanted.key is not None
    if single == (wanted.answers is not None):
        words = "Give id and answer of one alert, or a list of such: answers."
        raise Problem(422, "bad_field", words, "answers" if single else "id")
    given = [_one(wanted)] if wanted.answers is None else wanted.answers
    if not 1 <= len(given) <= MOST:
        words = f"answers must be 1 to {MOST} of them; got {len(given)}."
        raise Problem(422, "bad_field", words, "answers", limit=MOST)
    for i, said in enumerate(given):
        _check(said, "" if wanted.answers is None else f"answers[{i}].")
    keys = [said.key for said in given]
    entry = Entry(
        OP, model, alerts=[str(said.id) for said in given], lines=wanted.answers is not None
    )
    entry.answers = [said.answer for said in given]
    known = [key for key in keys if key is not None]
    if known and len(known) < len(keys):
        words = "Some answers have a key, and this one has none."
        raise Problem(422, "bad_field", words, f"answers[{keys.index(None)}].key")
    entry.keys = known or None
    return entry


def _one(wanted: Feedback) -> Said:
    for name in ("id", "answer"):
        if getattr(wanted, name) is None:
            raise Problem(422, "bad_field", f"{name} is missing.", name)
    assert wanted.id is not None and wanted.answer is not None
    return Said(wanted.id, wanted.answer, wanted.key)


def _check(said: Said, where: str) -> None:
    if said.answer not in KINDS:
        words = f"An answer is 'usual' or 'fault'; got {said.answer[:80]!r}."
        raise Problem(422, "bad_field", words, f"{where}answer")
    text = str(said.id)
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        words = (
            "The id of an alert is the number of rows that its model had learned before it, such "
            f"as '1234'; got {text[:80]!r}."
        )
        raise Problem(422, "bad_field", words, f"{where}id")


def check_keys(estimator: Any, entry: Entry) -> None:
    """Refuse answers without keys for a model that has them, and the reverse."""
    if isinstance(estimator, Fleet) == (entry.keys is not None):
        return
    field = "answers[0].key" if entry.lines else "key"
    if entry.keys is not None:
        raise Problem(422, "bad_field", "This model has no keys: leave key out.", field)
    words = "This model has keys: say which one's alert it is, key beside id."
    raise Problem(422, "bad_field", words, field)


def applied(estimator: Any, entry: Entry, position: int) -> bytes:
    """Give a model the answers of a record, all or none; return the body of the answer."""
    check_hears(estimator)
    check_keys(estimator, entry)
    ids, answers = entry.alerts or [], entry.answers or []
    keys: list[Any] = [*entry.keys] if entry.keys else [None] * len(ids)
    listed: dict[Any, set[str]] = {}
    for i, (key, id, answer) in enumerate(zip(keys, ids, answers, strict=True)):
        _find(estimator, key, id, answer, f"answers[{i}]." if entry.lines else "", listed)
    for key, id, answer in zip(keys, ids, answers, strict=True):
        (estimator if key is None else _Of(estimator, key)).feedback(id, answer)
    told = _told(estimator, keys)
    return encode({"position": position, "t": estimator.t_, "taken": len(ids), **told})


class _Of:
    """The model of one key."""

    def __init__(self, fleet: Fleet, key: Any) -> None:
        self.fleet, self.key = fleet, key

    def feedback(self, id: str, answer: str) -> None:
        """Answer an alert of this key."""
        self.fleet.feedback(self.key, id, answer)


def _find(
    estimator: Any, key: Any, id: str, answer: str, where: str, listed: dict[Any, set[str]]
) -> None:
    """Refuse an answer to an alert that is not there, before anything is changed."""
    if key not in listed:
        listed[key] = {alert["id"] for alert in _model(estimator, key, f"{where}key").alerts_}
    if str(int(id)) in listed[key]:
        return
    try:
        _model(estimator, key, f"{where}key").feedback(id, answer)
    except ValueError as error:
        words = str(error).partition(": ")[2][:1000]
        raise Problem(404, "unknown_alert", words[:1].upper() + words[1:], f"{where}id") from None


def _model(estimator: Any, key: Any, field: str) -> Any:
    """Return a model, or that of a key (a copy), that has learned something."""
    if key is not None:
        if key not in estimator:
            raise Problem(404, "unknown_key", f"There is no key {key!r:.80}.", field)
        estimator = estimator[key]
    if not estimator.__sklearn_is_fitted__():
        raise Problem(404, "unknown_alert", "There was no alert so far: no row was learned.", "id")
    return estimator


def _told(estimator: Any, keys: list[Any]) -> dict[str, Any]:
    """Return what came of all answers so far; of several keys nothing is added up."""
    if len(set(keys)) > 1:
        return {}
    model = estimator if keys[0] is None else estimator[keys[0]]
    return told(model.diagnostics_)


def told(report: dict[str, Any]) -> dict[str, Any]:
    """Return what diagnostics say of answers."""
    return {name: report[name] for name in _TOLD if name in report}


def listed(estimator: Any, key: Any, start: int, count: int, waiting: bool) -> dict[str, Any]:
    """Return the alerts that are kept, newest first, with their answers."""
    check_hears(estimator)
    if isinstance(estimator, Fleet):
        if key is None:
            words = "This model has keys: say whose alerts, ?key=..."
            raise Problem(422, "bad_field", words, "key")
    elif key is not None:
        raise Problem(422, "bad_field", "This model has no keys: leave key out.", "key")
    if key is None and not estimator.__sklearn_is_fitted__():
        return {"found": 0, "start": start, "alerts": []}
    model = _model(estimator, key, "key")
    found = [a for a in model.alerts_[::-1] if not waiting or a["answer"] is None]
    page = found[start : start + count]
    return {"found": len(found), "start": start, "alerts": page, **told(model.diagnostics_)}


def ids_of(mark: Array | None, ages: Array) -> Array:
    """Return the id of each row that raised an alert, None of others.

    Examples
    --------
    >>> ids_of(np.array([False, True]), np.array([6, 7])).tolist()
    [None, '7']
    """
    found = np.full(len(ages), None, object)
    if mark is not None:
        for i in np.flatnonzero(mark & (ages >= 0)).tolist():
            found[i] = str(int(ages[i]))
    return found


def ages_of(t: int, rows: int, weights: list[float] | None) -> Array:
    """Return how many rows had been learned before each; -1 of one that is not learned.

    `t` is how many are learned in the end; rows without weight are not.
    """
    live = np.ones(rows, bool) if weights is None else np.asarray(weights) > 0
    before = t - int(live.sum())
    return np.where(live, before + np.cumsum(live) - 1, -1)


def named(estimator: Any, said: Any, entry: Entry, rows: int) -> Any:
    """Return what a model said of rows that it has learned, with the ids of alerts beside it."""
    marks: Marks = said.marks
    if "alert_id" in said.beside or not hears(estimator) or marks.mark is None:
        return said
    ids = ids_of(marks.mark, ages_of(estimator.t_, rows, entry.sample_weight))
    return said._replace(beside={**said.beside, "alert_id": ids})
