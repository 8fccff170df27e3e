"""Models with keys: one fleet as one model, and what is asked of it by key."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.http.problems import Problem
from onkel.app.service import feedback
from onkel.app.service.bodies import LONGEST, Entry
from onkel.app.service.limits import Limits
from onkel.app.service.slots import Slot
from onkel.estimators import inside
from onkel.fleet import Fleet
from onkel.fleet.judging import FleetDetect, FleetDetected
from onkel.judge import Answer, Marks, NamedRows, Rows, marks_of_labels, marks_of_numbers

Array = NDArray[Any]


def is_fleet(estimator: Any) -> bool:
    """Whether a model has keys."""
    return isinstance(estimator, Fleet)


def made(estimator: Any, keyed: bool, share: bool) -> Fleet:
    """Return a new model with keys."""
    if not keyed:
        words = 'Keys share what is usual; make a model that has such: "keyed": true.'
        raise Problem(422, "bad_field", words, "share")
    if estimator.columns is not None:
        words = "Rows of a model with keys are numbers here: leave columns out."
        raise Problem(422, "bad_parameters", words, "parameters.columns")
    try:
        return Fleet(estimator, share=share)
    except ValueError as error:
        raise Problem(422, "bad_field", str(error), "share") from None


def check(estimator: Any, entry: Entry, limits: Limits) -> None:
    """Refuse rows without keys for a model that has them, and keys for one that has none."""
    if not is_fleet(estimator):
        if entry.keys is not None:
            words = 'This model has no keys. Make one with "keyed": true, or leave keys out.'
            raise Problem(422, "bad_field", words, "keys")
        return
    if entry.keys is None:
        words = "This model has keys: give one for each row, a text or a whole number."
        raise Problem(422, "bad_field", words, "keys")
    if entry.cells is not None or entry.texts is not None:
        words = (
            "A model with keys takes rows of numbers here: lists, or objects if it was made with "
            "features=[...]."
        )
        raise Problem(422, "bad_field", words, "X")
    for i, key in enumerate(entry.keys):
        if isinstance(key, str) and len(key) > LONGEST:
            words = f"A key has up to {LONGEST} characters."
            raise Problem(422, "bad_field", words, f"keys[{i}]", limit=LONGEST)


def check_room(fleet: Fleet, entry: Entry, limits: Limits) -> None:
    """Refuse more keys than there may be."""
    new = sum(key not in fleet for key in set(entry.keys or ()))
    if len(fleet) + new > limits.keys:
        words = f"A model may have {limits.keys} keys here; it has {len(fleet)}."
        raise Problem(409, "too_many_keys", words, "keys", limit=limits.keys)


def labels(slot: Slot) -> set[Any]:
    """Return the labels of all keys.

    The fleet is asked the first time alone, before it learns: later it might be learning for long.
    """
    if slot.labels is None:
        slot.labels = set(slot.estimator.classes_.tolist())
    return slot.labels


def note_labels(slot: Slot, entry: Entry) -> None:
    """Keep them as they are after a record, while no other is at the model."""
    if slot.labels is None:
        return
    if entry.op == "forget":
        slot.labels = set(slot.estimator.classes_.tolist())
    else:
        slot.labels = slot.labels.union(entry.y or ())


def named(rows: Any, names: list[str] | None) -> Any:
    """Return rows as a fleet takes them: with names in any call, since any may bring new keys."""
    return rows if names is None else NamedRows(rows, names)


def learn(fleet: Fleet, entry: Entry, names: list[str] | None, rows: Any, output: str) -> Answer:
    """Predict, then learn; return what the caller asked for, and what the page draws."""
    X = named(rows, names)
    how: dict[str, Any] = {"sample_weight": entry.sample_weight}
    if fleet.task == "novelty":
        return _novelty(fleet, entry, X, output, how, names)
    y = entry.y
    if y is None:
        raise Problem(422, "bad_field", "y is missing: one target per row.", "y")
    if fleet.task == "classification":
        if output == "probability":
            found = fleet.predict_then_learn(
                entry.keys, X, y, entry.time, output="probability", **how
            )
            return Answer(found, {})
        labels = fleet.predict_then_learn(entry.keys, X, y, entry.time, **how)
        return Answer(labels, {}, marks_of_labels(labels.tolist(), y))
    asked = "judgement" if inside.has_interval(fleet.estimator) else "prediction"
    found = fleet.predict_then_learn(entry.keys, X, y, entry.time, output=asked, **how)
    return _numbers(found, y, output, asked)


def _novelty(
    fleet: Fleet, entry: Entry, X: Any, output: str, how: dict[str, Any], names: list[str] | None
) -> Answer:
    found, usual = fleet.verdicts(entry.keys, X, entry.time, **how)
    tells_p = bool(fleet.estimator.tells_p)
    rare = np.exp(found.score) if tells_p else found.rank
    rows = Rows(np.asarray(X.X if isinstance(X, NamedRows) else X))
    told = FleetDetected(FleetDetect(names), rows, found, usual)
    marks = Marks(found.score, found.limit, found.alert, rare, usual, told.reasons, told.own)
    beside: dict[str, Any] = {} if output != "prediction" else {"p": rare}
    if feedback.hears(fleet):
        live, age = entry.sample_weight, found.age
        learned = age if live is None else np.where(np.asarray(live) > 0, age, -1)
        beside["alert_id"] = feedback.ids_of(marks.mark, learned)
    return Answer(found.answer(output, tells_p), beside, marks)


def _numbers(found: Any, y: Any, output: str, asked: str) -> Answer:
    if asked == "prediction":
        return Answer(found, {}, marks_of_numbers(found, y))
    values, low, high = found
    marks = marks_of_numbers(values, y, (high - low) / 2)
    interval = np.stack([low, high], axis=-1)
    if output == "interval":
        return Answer(interval, {}, marks)
    return Answer(values, {"interval": interval}, marks)


def predict(fleet: Fleet, entry: Entry, rows: Any, output: str) -> Answer:
    """Return what models say of rows; nothing changes."""
    if output == "interval":
        return Answer(np.stack(fleet.predict(entry.keys, rows, output), axis=-1), {})
    return Answer(fleet.predict(entry.keys, rows, output), {})


def explain(fleet: Fleet, key: Any, row: Any, top: int, **extra: Any) -> dict[str, Any]:
    """Return why one row gets its score from the model of its key."""
    if key is None:
        raise Problem(422, "bad_field", "This model has keys: give the key of the row.", "key")
    if key not in fleet:
        raise Problem(404, "unknown_key", f"There is no key {key!r:.80}.", "key")
    if not fleet[key].__sklearn_is_fitted__():
        raise Problem(409, "not_learned", "This key has learned nothing yet.", "key")
    found: dict[str, Any] = fleet.explain(key, row, top, **extra).to_dict()
    return found


def forget(fleet: Fleet, keys: list[Any]) -> int:
    """Forget keys; return how many there were."""
    known = [key for key in dict.fromkeys(keys) if key in fleet]
    for key in known:
        fleet.drop(key)
    return len(known)
