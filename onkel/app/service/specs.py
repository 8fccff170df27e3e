"""From JSON to an estimator: kinds, parts and parameters by the names of the registries."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from typing import Any

import onkel
from onkel.app.http.problems import Problem
from onkel.app.service.bodies import LONGEST
from onkel.columns import KINDS as COLUMNS
from onkel.columns import Columns
from onkel.files.parameters import PARTS
from onkel.inputs import WHOLE, RefusedRow
from onkel.nearest import did_you_mean
from onkel.params import Part

TASKS = {"novelty": "Detector", "classification": "Classifier", "regression": "Regressor"}
"""What a model is where nothing but its task is given: one that tunes itself."""
KINDS = (
    *TASKS.values(), "KernelClassifier", "KernelRegressor", "LinearClassifier", "LinearRegressor",
    "NoveltyDetector",
)  # fmt: skip
_SLOTS = {"left": "kernel", "right": "kernel", "learning_rate": "schedule"}
"""Parameters that hold a part, beside those named after its kind."""
_CODE = "function"
"""The kernel that is a user's own function; no request can bring one."""
MOST = {
    "recent": 1_000_000, "terms": 10_000_000, "centers": 100_000, "order": 100, "degree": 100,
    "alerts_kept": 1_000_000,
}  # fmt: skip
"""Parameters that take memory or time before anything is learned."""


DEEPEST = 8
"""Parts within parts."""
REFUSALS = (ValueError, TypeError, AttributeError, ArithmeticError)
"""What parts and estimators raise at what they do not take; they are then as they were before."""
_KEY = r"key (?:'.*?'|\".*?\"|-?\d+): "
_BESIDE = re.compile(rf"(?:\w+: |{_KEY})?(sample_weight|time)\b|.*: give (?:\w+ )?(time)=")
"""How they begin to speak of what comes beside the rows."""


MEMBERS = 64
"""Settings side by side in one model."""


def kind_of(kind: str | None, task: str | None) -> str:
    """Return the kind of a model of which a kind, a task, or both are given.

    Examples
    --------
    >>> kind_of(None, "classification"), kind_of("LinearClassifier", "classification")
    ('Classifier', 'LinearClassifier')
    """
    if task is not None and task not in TASKS:
        meant = did_you_mean(task, TASKS, "task")
        words = f"task must be one of {[*TASKS]}; got {task!r:.80}.{meant}"
        raise Problem(422, "bad_task", words, "task")
    if kind is None and task is None:
        words = f"Give a task, one of {[*TASKS]}, or a kind, one of {list(KINDS)}."
        raise Problem(422, "bad_field", words, "task")
    found = TASKS[str(task)] if kind is None else kind
    if found in KINDS and task is not None and getattr(onkel, found).task != task:
        own = getattr(onkel, found).task
        raise Problem(422, "bad_task", f"{found} is for {own}, not for {task}.", "task")
    return found


def build(kind: str, parameters: Mapping[str, Any]) -> Any:
    """Return a new estimator; raise a Problem that names the field.

    A part is a name or an object with a name and its parameters; a member of a self-tuning model
    is an object with a kind and its parameters.

    Examples
    --------
    >>> build("NoveltyDetector", {"nu": 0.01, "kernel": {"name": "gaussian", "gamma": 0.5}})
    NoveltyDetector(nu=0.01, kernel=Gaussian(gamma=0.5))
    """
    if kind not in KINDS:
        words = f"kind must be one of {list(KINDS)}; got {kind!r}.{did_you_mean(kind, KINDS)}"
        raise Problem(422, "bad_kind", words, "kind")
    given = values_of(kind, parameters, "parameters")
    try:
        estimator = getattr(onkel, kind)(**given)
        estimator.check_params()  # or learning would be the first to do so
    except REFUSALS as error:
        raise _bad(str(error), "parameters") from error
    return estimator


def values_of(kind: str, parameters: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return parameters of a kind as it takes them, their parts built; `path` is their field."""
    _check_names(kind, getattr(onkel, kind), parameters, path)
    return _inside(parameters, path, 0)


def field_of(error: Exception, otherwise: str, lines: bool = False) -> str:
    """Return what an estimator's refusal is about: a field beside the rows, or another.

    `lines`: each row is an object by itself, where a weight has another name.

    Examples
    --------
    >>> field_of(ValueError("time runs backwards at row 3: ..."), "X")
    'time'
    >>> field_of(ValueError("sample_weight must be finite ..."), "X", lines=True)
    'weight'
    """
    found = None if isinstance(error, RefusedRow) else _BESIDE.match(str(error))
    if found is None:
        return otherwise
    field = found[1] or found[2]
    return "weight" if lines and field == "sample_weight" else field


def _check_names(owner: str, made: Any, given: Mapping[str, Any], path: str) -> None:
    """Refuse a parameter that is not known, by its name."""
    known = list(inspect.signature(made).parameters)
    for name in given:
        if name not in known:
            words = f"{owner} has no parameter {name!r:.80}; there are {known}."
            raise _bad(words + did_you_mean(name, known), f"{path}.{name[:80]}")


def _inside(values: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
    return {name: _value(name, v, f"{path}.{name}", depth) for name, v in values.items()}


def _value(name: str, value: Any, path: str, depth: int) -> Any:
    """Return a parameter's value, its parts built."""
    if depth > DEEPEST:
        raise _bad("Parts of parts of parts: too deep.", path)
    if isinstance(value, dict) and name == "class_weight":
        return {label: _weight(w, f"{path}.{label[:80]}") for label, w in value.items()}
    if isinstance(value, dict) and name == "columns":
        return _columns(value, path)
    if isinstance(value, dict):
        return _part(name, value, path, depth + 1)
    if name == "members" and isinstance(value, list):
        return _members(value, path, depth + 1)
    if isinstance(value, list):
        listed = [_value(name, v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
        return tuple(listed) if name == "kernel" else listed
    check_size(name, value, path)
    return _held(value, path)


def _columns(value: dict[str, Any], path: str) -> Columns:
    """Return what columns are: kinds by their names, or as "types", more beside."""
    given = value if isinstance(value.get("types"), dict) else {"types": value}
    for name, kind in given["types"].items():
        if not 1 <= len(name) <= LONGEST:
            raise _bad(f"A column's name has 1 to {LONGEST} characters.", path)
        if kind not in COLUMNS:
            words = f"A column is one of {list(COLUMNS)}; got {kind!r:.60}."
            raise _bad(words, f"{path}.{name[:80]}")
    try:
        return Columns(**given)
    except REFUSALS as error:
        raise _bad(str(error), path) from error


def _weight(value: Any, path: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _bad(f"The weight of a label must be a number; got {value!r:.60}.", path)
    return _held(value, path)


def _held(value: Any, path: str) -> Any:
    """Return a value that can be kept: whole numbers have 64 bits, in the log and in files."""
    low, high = WHOLE
    if isinstance(value, int) and not low <= value <= high:
        raise _bad(f"A whole number must be in [-2**63, 2**63 - 1]; got {value!r:.60}.", path)
    return value


def check_size(name: str, value: Any, path: str) -> None:
    """Refuse a parameter that takes too much before anything is learned."""
    most = (os.cpu_count() or 1) if name == "n_jobs" else MOST.get(name)
    if most is not None and isinstance(value, (int, float)) and not abs(value) <= most:
        raise _bad(f"{name} may be at most {most} here; got {value}.", path)


def _members(values: list[Any], path: str, depth: int) -> list[Any]:
    """Return the settings of a self-tuning model: objects with a kind and its parameters."""
    if len(values) > MEMBERS:
        raise _bad(f"There may be {MEMBERS} members here; got {len(values)}.", path)
    found = []
    for i, value in enumerate(values):
        given = dict(value) if isinstance(value, dict) else {}
        kind, at = given.pop("kind", None), f"{path}[{i}]"
        if kind not in KINDS:
            words = f"kind must be one of {list(KINDS)}; got {kind!r:.60}."
            raise _bad(words + did_you_mean(kind, KINDS), f"{at}.kind")
        _check_names(kind, getattr(onkel, kind), given, at)
        try:
            found.append(getattr(onkel, kind)(**_inside(given, at, depth)))
        except REFUSALS as error:
            raise _bad(str(error), at) from error
    return found


def _part(name: str, value: dict[str, Any], path: str, depth: int) -> Part:
    table = PARTS.get(_SLOTS.get(name, name), {})
    table = {word: part for word, part in table.items() if word != _CODE}
    if not table:
        raise _bad(f"{name} does not take an object.", path)
    given = dict(value)
    part = given.pop("name", None)
    if not isinstance(part, str) or part not in table:
        meant = did_you_mean(part, table, _SLOTS.get(name, name))
        raise _bad(f"name must be one of {sorted(table)}; got {part!r:.60}.{meant}", f"{path}.name")
    _check_names(part, table[part], given, path)
    inside = _inside(given, path, depth)
    try:
        return table[part](**inside)
    except REFUSALS as error:
        raise _bad(str(error), path) from error


def _bad(words: str, path: str) -> Problem:
    return Problem(422, "bad_parameters", words[:2000], path)
