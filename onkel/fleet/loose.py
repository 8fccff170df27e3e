"""Models one by one, in a dict: what any estimator can do, at the price of a call for each key."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import files
from onkel.alerting import RecentScores
from onkel.estimators import inside
from onkel.fleet.calls import Call
from onkel.fleet.groups import Key
from onkel.fleet.outputs import Found, chances, joined, said
from onkel.fleet.precedents import has_answers, of_loose
from onkel.inputs import RefusedRow
from onkel.judge import NamedRows

Array = NDArray[Any]
Groups = list[tuple[Key, Array]]
Changed = dict[int, Any]
"""The models that a call has changed, by number; the fleet's when the whole call has succeeded."""


def begun(model: Any) -> bool:
    """Whether a model has learned anything."""
    return bool(model.__sklearn_is_fitted__())


class Loose:
    """Models by number, each an estimator of its own.

    Parameters
    ----------
    estimator : estimator
        What each begins as.
    why : str
        They are not kept in cells.
    own : dict, optional
        Code of the user's own, for :func:`onkel.load`.
    packed : Packed, optional
        Of records that are cells, from where there is a compiled core.
    """

    def __init__(
        self, estimator: Any, why: str, own: dict[str, Any] | None = None, packed: Any = None
    ) -> None:
        self.estimator, self.why = estimator, why
        self.own, self.packed = own or {}, packed
        self.models: dict[int, Any] = {}

    # -- rows ------------------------------------------------------------------------------------

    def learn(self, call: Call) -> Any:
        """Judge and learn rows; return what was asked for. Learned whole, or not at all."""
        found, changed = learned(self._own, call, call.groups())
        self.models.update(changed)
        if call.output != "probability":
            return joined(self.estimator.task, call.output, found, len(call))
        own = {key: self.models[int(call.numbers[at[0]])].classes_ for key, at, _ in found}
        each = [(at, own[key], values) for key, at, values in found]
        return chances(each, self.classes(), len(call))

    def look(self, call: Call) -> Any:
        """Return what is said of rows; nothing changes."""
        if call.output == "probability":
            return self._chances(call)
        found = judged(self.models.get, call, call.groups())
        return joined(self.estimator.task, call.output, found, len(call))

    def _chances(self, call: Call) -> Array:
        each = []
        for key, at in call.groups():
            model = self.models.get(int(call.numbers[at[0]]))
            if model is not None and begun(model):
                with told(key, at):
                    each.append((at, model.classes_, model.predict_proba(call.part(at)[0])))
        return chances(each, self.classes(), len(call))

    def learn_one(self, number: int, row: Any, y: Any, time: Any) -> bool:
        """Learn one row."""
        model = self._own(number)
        how = {} if time is None else {"time": time}
        model.learn_one(row, y, **how)
        self.models[number] = model
        return True

    def look_one(self, number: int, row: Any) -> Any:
        """Return what is said of one row."""
        model = self.models.get(number)
        return (copy.copy(self.estimator) if model is None else model).predict_one(row)

    def _own(self, number: int) -> Any:
        """Return a key's model, a fresh one of a key that is new."""
        model = self.models.get(number)
        return copy.copy(self.estimator) if model is None else model

    # -- models ----------------------------------------------------------------------------------

    def model(self, number: int) -> Any:
        """Return a copy of a model, an ordinary estimator."""
        return copy.copy(self._own(number))

    def put(self, models: dict[int, Any]) -> None:
        """Let models be copies of these."""
        self.models.update({number: copy.copy(model) for number, model in models.items()})

    def answer(self, number: int, id: Any, answer: str, frame: Any = None) -> None:
        """Answer an alert of a model."""
        model = self.model(number)
        inside.answer(model, id, answer, frame)
        self.models[number] = model

    def answered_of(self, numbers: Array) -> list[int]:
        """Return which of these models have answers."""
        known = {n: self.models.get(n) for n in dict.fromkeys(numbers.tolist())}
        return [n for n, m in known.items() if m is not None and begun(m) and has_answers(m)]

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget models."""
        for number in numbers:
            self.models.pop(number, None)

    def records(self, numbers: Iterable[int]) -> list[bytes]:
        """Return models as bytes."""
        return [files.dumps(self._own(number)) for number in numbers]

    def restore(self, numbers: Iterable[int], records: Iterable[bytes]) -> None:
        """Let models be what records hold."""
        found = {n: self._read(r) for n, r in zip(numbers, records, strict=True)}
        self.models.update(found)

    def _read(self, record: bytes) -> Any:
        if not record:
            return copy.copy(self.estimator)
        if self.packed is not None:
            return self.packed.model(record)
        found = files.loads(record, **self.own)
        if type(found) is not type(self.estimator):
            raise ValueError(f"a record holds a {type(found).__name__}.")
        return found

    def sizes(self, numbers: Array) -> Array:
        """Return the bytes of records."""
        return np.array([len(r) for r in self.records(numbers.tolist())], np.int64)

    def joined(self, numbers: Array) -> bytes:
        """Return the records of models, one behind another."""
        return b"".join(self.records(numbers.tolist()))

    def restore_joined(self, numbers: Array, lengths: Array, data: Array) -> None:
        """Let models be what records hold, which lie one behind another."""
        ends = np.cumsum(lengths).tolist()
        parts = (data[e - n : e].tobytes() for e, n in zip(ends, lengths.tolist(), strict=True))
        self.restore(numbers.tolist(), parts)

    def form(self) -> dict[str, Any]:
        """Return what a file must say of these models."""
        return {"kept": "dict", "why": self.why}

    # -- reporting -------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Memory of what the models have stored, about."""
        return sum(m.diagnostics_["bytes"] for m in self.models.values() if begun(m))

    def classes(self) -> Array:
        """Return all classes of all keys, in order."""
        found: dict[Any, None] = {}
        for model in self.models.values():
            if begun(model):
                found.update(dict.fromkeys(model.classes_.tolist()))
        return in_order([*found])

    def counts(self, numbers: Iterable[int]) -> dict[str, Array]:
        """Return of some models rows learned, terms, alerts and their rows, mistakes."""
        rows = [self._counts(self.models.get(number)) for number in numbers]
        names = ("t", "terms", "alerts", "judged", "mistakes")
        return dict(zip(names, np.array(rows, float).reshape(-1, 5).T, strict=True))

    def _counts(self, model: Any) -> tuple[float, ...]:
        if model is None or not begun(model):
            return (0.0,) * 5
        alerts = judged = mistakes = 0.0
        if model.task == "novelty":
            alerts, judged = inside.alert_counts(model)
        elif model.task == "classification":
            mistakes = float(inside.learner_of(model).mistakes)
        return float(model.t_), float(model.n_terms_), alerts, judged, mistakes


def in_order(labels: list[Any]) -> Array:
    """Return labels in order; of several kinds by how they are written."""
    kinds = {isinstance(label, str) for label in labels}
    return np.array(sorted(labels, key=str if len(kinds) > 1 else None))


def learned(get: Callable[[int], Any], call: Call, groups: Groups) -> tuple[Found, Changed]:
    """Judge and learn the rows of some keys, on copies of the models that `get` returns."""
    found, changed = [], {}
    for key, at in groups:
        number = int(call.numbers[at[0]])
        model = copy.copy(get(number))
        X, y, how = call.part(at)
        with told(key, at):
            if call.tells_usual and (numbers := _numbers(call.X)) is not None:
                call.precedents |= of_loose(model, numbers[at], how, at)
                _tell_usual(call, numbers, at, copy.copy(model))
            values = _learn(model, X, y, call.output, how)
        found.append((key, at, values))
        changed[number] = model
    return found, changed


def _numbers(X: Any) -> Array | None:
    """Return rows of numbers as a matrix, None of others."""
    X = X.X if isinstance(X, NamedRows) else X
    return X if isinstance(X, np.ndarray) and X.dtype.kind == "f" else None


def _tell_usual(call: Call, rows: Array, at: Array, model: Any) -> None:
    """Note means and variances before each row of a key; `model` is a copy that learns them."""
    if call.usual is None:
        call.usual = np.full((len(call), 2, rows.shape[1]), np.nan)
    for i in at.tolist():
        if begun(model):
            moments = model.moments_
            call.usual[i] = moments.mean, moments.variance
        _, _, how = call.part(np.array([i]))
        model.partial_fit(rows[[i]], **how)


def _learn(model: Any, X: Any, y: Any, output: str, how: dict[str, Any]) -> Any:
    if output == "verdict":
        return _verdict(model, X, how)
    if model.task == "novelty":
        return model.predict_then_learn(X, output=output, **how)
    return model.predict_then_learn(X, y, output=output, **how)


def _verdict(model: Any, X: Any, how: dict[str, Any]) -> Array:
    """Return score, threshold, 1 for an alert, the score's rank, and the rows learned before."""
    recent = model.recent_.copy() if begun(model) else RecentScores(model.recent)
    age = model.t_ if begun(model) else 0
    found = model.predict_then_learn(X, output="judgement", **how)
    weight = how.get("sample_weight")
    live = np.ones(len(found), bool) if weight is None else np.asarray(weight) > 0
    ranks = np.empty(len(found))
    for i, score in enumerate(found[:, 0].tolist()):
        ranks[i] = recent.ranks([score])[0]
        if live[i]:
            recent.add(score)
    return np.column_stack([found, ranks, age + np.cumsum(live) - live])


def judged(get: Callable[[int], Any], call: Call, groups: Groups) -> Found:
    """Return what each key's model says of its rows; None of a key that is not known."""
    found: Found = []
    for key, at in groups:
        model = get(int(call.numbers[at[0]]))
        with told(key, at):
            known = model is not None and begun(model)
            values = said(model, call.part(at)[0], call.output) if known else None
            found.append((key, at, values))
    return found


class told:
    """Errors inside it name the key, and rows by their number in the whole call.

    Examples
    --------
    >>> with told("pump", np.array([4, 9])):
    ...     raise RefusedRow("Row 1: too large.", 1)
    Traceback (most recent call last):
    ...
    onkel.inputs.RefusedRow: Row 9, key 'pump': too large.
    """

    def __init__(self, key: Key, at: Array) -> None:
        self.key, self.at = key, at

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, RefusedRow):
            row = int(self.at[min(error.row, len(self.at) - 1)])
            raise RefusedRow(_renumbered(str(error), row, self.key), row) from None
        if type(error) is ValueError:
            raise ValueError(f"key {self.key!r}: {error}") from None


def _renumbered(words: str, row: int, key: Key) -> str:
    """Return a refusal's words with the key, and the row's number in the whole call."""
    if words.startswith("Row "):
        return re.sub(r"^Row \d+", lambda _: f"Row {row}, key {key!r}", words)
    return f"Row {row}, key {key!r}: " + re.sub(r"\b([Rr])ow \d+", rf"\1ow {row}", words, count=1)
