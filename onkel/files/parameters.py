"""Parameters as JSON: parts by their names, arrays as tensors, a user's own things by name only.

No code is in a file. A kernel function, a loss or rule class of the user's own is written as its
name, and whoever loads the file hands it over again.
"""

from __future__ import annotations

import base64
import datetime
import math
import operator
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import columns, expansions, kernels, losses, rules, schedules
from onkel.files.container import can_hold
from onkel.params import Part

Array = NDArray[Any]

BASES: dict[str, type[Part]] = {
    "kernel": kernels.Kernel,
    "loss": losses.Loss,
    "rule": rules.Rule,
    "expansion": expansions.Expansion,
    "schedule": schedules.Schedule,
    "columns": columns.Columns,
}
# These names are in files: they stay for ever, whatever becomes of the classes.
PARTS: dict[str, dict[str, type[Part]]] = {
    "kernel": {
        **kernels.REGISTRY, "sum": kernels.Sum, "product": kernels.Product,
        "scaled": kernels.Scaled, "function": kernels.Function,
    },
    "loss": {**losses.REGISTRY},
    "rule": {**rules.REGISTRY},
    "expansion": {**expansions.REGISTRY},
    "schedule": {
        "constant": schedules.Constant, "inverse_sqrt": schedules.InverseSqrt,
        "regularized": schedules.Regularized, "horizon": schedules.Horizon,
        "power": schedules.Power,
    },
    "columns": {"columns": columns.Columns},
}  # fmt: skip
_PLACES = {kind: (slot, name) for slot, table in PARTS.items() for name, kind in table.items()}
FUNCTIONS = {
    "kernel": "kernel", "function": "kernel", "learning_rate": "schedule",
    "regularizer": "regularizer",
}  # fmt: skip
"""Parameters that may be a function, and the word under which ``load`` takes it."""
SLOTS = (*BASES, "regularizer")
_SCALARS = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.str_,
)  # fmt: skip
_SCALAR_NAMES = {"str_" if k is np.str_ else np.dtype(k).name: k for k in _SCALARS}
MEMBERS = (
    "KernelClassifier", "KernelRegressor", "LinearClassifier", "LinearRegressor", "NoveltyDetector",
)  # fmt: skip
"""Estimators that may stand inside another one, as its members: their parameters only."""
DEEPEST = 100


def estimator_of(kind: str) -> Any:
    """Return the class by its public name; files stand below the estimators and cannot import."""
    return getattr(import_module("onkel"), kind)


class Writer:
    """Turns values into JSON; collects the tensors and the user's own things on the way."""

    def __init__(self) -> None:
        self.tensors: dict[str, Array] = {}
        self._known: dict[int, tuple[Any, str]] = {}
        self._own: dict[tuple[str, str], Any] = {}

    def value(self, value: Any, name: str, depth: int = 0) -> Any:
        """Return a value as JSON; `name` is the parameter's, for messages and functions."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is bytes:
            return {"bytes": base64.b64encode(value).decode("ascii")}
        if isinstance(value, datetime.timedelta):
            return _duration(value)
        if isinstance(value, np.generic):
            return self._scalar(value, name)
        if isinstance(value, (str, int, float)):  # of a class of its own
            return self.value(_beside(value), name)
        if depth > DEEPEST:
            raise ValueError(f"{name} is nested deeper than {DEEPEST} levels.")
        if isinstance(value, (list, tuple)):
            items = [self.value(v, name, depth + 1) for v in value]
            return items if type(value) is list else {"tuple": items}
        if type(value) is dict:
            pairs = [[self.value(v, name, depth + 1) for v in pair] for pair in value.items()]
            return {"dict": pairs}
        if isinstance(value, Part):
            return self._part(value, depth)
        kind = type(value).__name__
        if kind in MEMBERS and type(value) is estimator_of(kind):
            return {"estimator": kind, "parameters": self._inside(value, depth)}
        if callable(value) and not isinstance(value, type) and name in FUNCTIONS:
            slot = FUNCTIONS[name]
            return {"function": self._name(slot, value, value), "slot": slot}
        return self._array(value, name, depth)

    def _scalar(self, value: Any, name: str) -> Any:
        """A number, a text or a time span of NumPy's."""
        if isinstance(value, np.timedelta64):
            unit, step = np.datetime_data(value.dtype)
            return {"timedelta64": [int(value.astype(np.int64)), unit, step]}
        if isinstance(value, np.bytes_):
            return self.value(bytes(value), name)
        if isinstance(value, np.longdouble):
            return self.value(float(value), name)
        kind = "str_" if isinstance(value, np.str_) else value.dtype.name
        if kind not in _SCALAR_NAMES:
            raise _cannot_hold(value, name)
        return {"scalar": kind, "value": self.value(_plain(value), name)}

    def _part(self, part: Part, depth: int) -> Any:
        slot, name = _PLACES.get(type(part), (None, ""))
        if slot is not None:
            return {"part": f"{slot}/{name}", "parameters": self._inside(part, depth)}
        slot = next((s for s, base in BASES.items() if isinstance(part, base)), "part")
        found: dict[str, Any] = {"own": self._name(slot, type(part), part), "slot": slot}
        if hasattr(part, "__dataclass_fields__"):
            found["parameters"] = self._inside(part, depth)
        return found

    def _inside(self, part: Any, depth: int) -> dict[str, Any]:
        inside = part.get_params(deep=False).items()
        return {name: self.value(v, name, depth + 1) for name, v in inside}

    def _name(self, slot: str, code: Any, thing: Any) -> str:
        """Return a name for code of the user's own, another one for other code."""
        plain = getattr(code, "__name__", type(thing).__name__)
        for i in range(1, 1 + len(self._own) + 1):
            name = plain if i == 1 else f"{plain} {i}"
            if self._own.setdefault((slot, name), code) is code:
                return name
        raise AssertionError("one of so many names is free")

    def _array(self, value: Any, name: str, depth: int) -> Any:
        if id(value) in self._known:
            return {"array": self._known[id(value)][1]}
        array = value if isinstance(value, np.ndarray) else _as_array(value)
        if array is not None and array.dtype == object and array.ndim:
            return self.value(array.tolist(), name, depth + 1)
        if array is None or not can_hold(array):
            raise _cannot_hold(value, name)
        tensor = f"parameters.{len(self.tensors)}"
        self._known[id(value)] = value, tensor  # kept, so that the id stays its own
        self.tensors[tensor] = array
        return {"array": tensor}


def _plain(scalar: Any) -> Any:
    """Python's own form of a scalar; of a text all of it, where item() drops NULs at its end."""
    return str.__str__(scalar) if isinstance(scalar, np.str_) else scalar.item()


def _beside(value: str | int | float) -> str | int | float:
    """What a text or a number of a class of its own is beside."""
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else float(value)


def _cannot_hold(value: Any, name: str) -> ValueError:
    return ValueError(
        f"A model file cannot hold {name}={value!r:.60} (of type {type(value).__name__}): numbers, "
        "texts, lists, tuples, dicts, arrays of numbers and onkel's own parts can be saved."
    )


def _duration(value: datetime.timedelta) -> Any:
    """A time span, also one of a class of its own, such as that of data frames."""
    plain = datetime.timedelta(seconds=value.total_seconds())
    span = value if type(value) is datetime.timedelta else plain
    return {"timedelta": [span.days, span.seconds, span.microseconds]}


def _as_array(value: Any) -> Array | None:
    """A frame or the like, as it is used: numbers."""
    if not hasattr(value, "__array__"):
        return None
    return np.asarray(value)


class Reader:
    """Turns JSON into values again; what is the user's own comes from `own`."""

    def __init__(self, tensors: Mapping[str, Array], own: Mapping[str, Any]) -> None:
        self._tensors = tensors
        self._own = own
        self._wanted: dict[str, set[str]] = {}
        self.used: set[str] = set()

    def value(self, text: Any, depth: int = 0) -> Any:
        """Return the value behind some JSON."""
        if text is None or type(text) in (bool, int, str, float):
            return text
        if depth > DEEPEST:
            raise ValueError(f"a parameter is nested deeper than {DEEPEST} levels.")
        if type(text) is list:
            return [self.value(v, depth + 1) for v in text]
        for mark, read in _MARKS.items():
            if mark in text:
                return read(self, text, depth + 1)
        raise ValueError(f"a parameter is of a kind that is not known: {text!s:.60}.")

    def foresee(self, text: Any, depth: int = 0) -> None:
        """Note which things of the user's own there are, so that all can be asked for at once."""
        for mark in ("own", "function"):
            if type(text) is dict and mark in text and "slot" in text:
                self._wanted.setdefault(str(text["slot"]), set()).add(str(text[mark]))
        if depth < 4 * DEEPEST:
            parts = text.values() if type(text) is dict else text if type(text) is list else ()
            for part in parts:
                self.foresee(part, depth + 1)

    def check_own(self) -> None:
        """Refuse what was handed over for nothing, and name all that is missing."""
        for slot in self._own:
            if slot not in self._wanted:
                raise ValueError(f"{slot}= was given, but the file holds none of your own.")
        missing = [
            f"{slot}={name}" if len(names) == 1 else f"{slot}={{{name!r}: ...}}"
            for slot, names in sorted(self._wanted.items())
            for name in sorted(names)
            if not self._has(slot, name)
        ]
        if missing:
            raise ValueError(
                "it was saved with code of your own, which a file does not hold. Hand it over "
                f"again: load(path, {', '.join(missing)})."
            )

    def _has(self, slot: str, name: str) -> bool:
        given = self._own.get(slot)
        if isinstance(given, dict):
            return name in given
        return given is not None and len(self._wanted[slot]) == 1

    def _read_float(self, text: dict[str, Any], depth: int) -> float:
        return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[_only(text, "float")]

    def _read_scalar(self, text: dict[str, Any], depth: int) -> Any:
        kind, value = _only(text, "scalar", "value")
        value = self.value(value, depth)
        with np.errstate(over="raise"):
            scalar = _SCALAR_NAMES[kind](value)
        if type(_plain(scalar)) is not type(value) or not _same(_plain(scalar), value):
            raise ValueError(f"{value!r} is no {kind}.")
        return scalar

    def _read_bytes(self, text: dict[str, Any], depth: int) -> bytes:
        return base64.b64decode(_only(text, "bytes"), validate=True)

    def _read_timedelta(self, text: dict[str, Any], depth: int) -> datetime.timedelta:
        days, seconds, microseconds = map(operator.index, _only(text, "timedelta"))
        return datetime.timedelta(days, seconds, microseconds)

    def _read_timedelta64(self, text: dict[str, Any], depth: int) -> np.timedelta64:
        number, unit, step = _only(text, "timedelta64")
        kind: Any = (str(unit), operator.index(step))
        return np.timedelta64(operator.index(number), kind)

    def _read_tuple(self, text: dict[str, Any], depth: int) -> tuple[Any, ...]:
        return tuple(self.value(_list(_only(text, "tuple")), depth))

    def _read_dict(self, text: dict[str, Any], depth: int) -> dict[Any, Any]:
        pairs = [self.value(_list(pair), depth) for pair in _list(_only(text, "dict"))]
        found = {key: value for key, value in pairs}
        if len(found) < len(pairs):
            raise ValueError("a key stands twice in a parameter.")
        return found

    def _read_array(self, text: dict[str, Any], depth: int) -> Array:
        name = _only(text, "array")
        if not name.startswith("parameters."):
            raise ValueError(f"{name!r} is no parameter's tensor.")
        self.used.add(name)
        return self._tensors[name]

    def _read_part(self, text: dict[str, Any], depth: int) -> Part:
        place, inside = _only(text, "part", "parameters")
        slot, _, name = place.partition("/")
        return PARTS[slot][name](**self._parameters(inside, depth))

    def _parameters(self, inside: dict[str, Any], depth: int) -> dict[str, Any]:
        return {name: self.value(v, depth) for name, v in inside.items()}

    def _read_estimator(self, text: dict[str, Any], depth: int) -> Any:
        kind, inside = _only(text, "estimator", "parameters")
        if kind not in MEMBERS:
            raise ValueError(f"a member must be one of {list(MEMBERS)}; got {kind!r:.60}.")
        return estimator_of(kind)(**self._parameters(inside, depth))

    def _given(self, slot: str, name: str) -> Any:
        given = self._own[slot]
        return given[name] if isinstance(given, dict) else given

    def _read_function(self, text: dict[str, Any], depth: int) -> Any:
        name, slot = _only(text, "function", "slot")
        thing = self._given(slot, name)
        if not callable(thing) or isinstance(thing, (type, Part)):
            raise ValueError(
                f"{slot}= must be a function, as {name!r} was when the model was saved; got "
                f"{thing!r}."
            )
        return thing

    def _read_own(self, text: dict[str, Any], depth: int) -> Part:
        name, slot, inside = _only({"parameters": None, **text}, "own", "slot", "parameters")
        thing = self._given(slot, name)
        inside = None if inside is None else self._parameters(inside, depth)
        return _own_part(slot, name, thing, inside)


_MARKS = {
    "float": Reader._read_float, "bytes": Reader._read_bytes, "scalar": Reader._read_scalar,
    "tuple": Reader._read_tuple,
    "dict": Reader._read_dict, "array": Reader._read_array, "part": Reader._read_part,
    "estimator": Reader._read_estimator,
    "own": Reader._read_own, "function": Reader._read_function,
    "timedelta": Reader._read_timedelta, "timedelta64": Reader._read_timedelta64,
}  # fmt: skip


def _only(text: dict[str, Any], *names: str) -> Any:
    """Return these fields of an object that has no other."""
    if set(text) != set(names):
        raise ValueError(f"a parameter must have the fields {list(names)}; got {list(text)}.")
    return text[names[0]] if len(names) == 1 else [text[n] for n in names]


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"a parameter must be a list; got {value!r:.60}.")
    return value


def _own_part(slot: str, name: str, thing: Any, inside: dict[str, Any] | None) -> Part:
    """Return the user's own part: of the class handed over, or the object itself if it agrees."""
    base = BASES[slot]
    if isinstance(thing, type) and issubclass(thing, base):
        return thing(**(inside or {}))
    if not isinstance(thing, base):
        raise ValueError(
            f"{slot}= must be the class {name} or an object of it, a {base.__name__}; got "
            f"{thing!r}."
        )
    given = {} if inside is None else thing.get_params(deep=False)
    other = [n for n in given if not _same(given[n], (inside or {}).get(n))]
    if other:
        raise ValueError(
            f"{slot}={thing!r} has another {other[0]} than the model was saved with "
            f"({(inside or {}).get(other[0])!r}). Hand over the class, or an equal object."
        )
    return thing


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a is b or a == b or (a != a and b != b))
