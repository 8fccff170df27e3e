"""A model as a table of JSON and tensors, and back: what stands in a file, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.files.container import FORMAT
from onkel.files.parameters import MEMBERS, Reader, Writer, estimator_of
from onkel.saved import Saved

Array = NDArray[Any]
Model = dict[str, Any]

ESTIMATORS = (*MEMBERS, "Classifier", "Regressor", "Detector")
"""What a file may hold: public names of the package, for ever."""

LATE = "late."
"""With this begin the fields of rows that wait for their labels."""

UPGRADES: dict[int, Callable[[Model, dict[str, Array]], None]] = {}
"""From each version to the next: a function that changes model and tensors in place.

A field that a later version adds is put in here with the value that older models had, so that
everything else knows the newest version only.
"""


def describe(estimator: Any) -> tuple[Model, dict[str, Array]]:
    """Return all that makes up a model, as JSON and tensors of their own; nothing is changed."""
    if _is_fleet(estimator):
        return _describe_fleet(estimator)
    if _is_late(estimator):
        return _describe_late(estimator)
    estimator, lags = parted(estimator)
    kind = type(estimator).__name__
    if kind not in ESTIMATORS or type(estimator) is not estimator_of(kind):
        raise ValueError(
            f"save writes {', '.join(ESTIMATORS)}; got a {kind}. A class of your own can hold one "
            "of these and save that."
        )
    parameters, settings, state = estimator.dump()
    writer = Writer()
    model: Model = {"estimator": kind, "parameters": _each(writer, parameters)}
    if lags is not None:
        model["lags"], made = _each(writer, lags.get_params()), lags.dump()
        state = {**state, **({"lags": made} if made else {})}
    if settings is not None:
        model["settings"] = _each(writer, settings)
    if not state:
        return model, writer.tensors
    model["state"], tensors = _split(writer, state)
    return model, {**writer.tensors, **tensors}


def _is_fleet(model: Any) -> bool:
    return type(model).__name__ == "Fleet" and type(model) is estimator_of("Fleet")


def _describe_fleet(fleet: Any) -> tuple[Model, dict[str, Array]]:
    """Return the estimator that all keys began as, and all keys and models as tensors."""
    model, tensors = describe(fleet.estimator_)
    parameters, form, held = fleet.dump()
    writer = Writer()
    model["fleet"] = {"parameters": _each(writer, parameters), "form": _each(writer, form or {})}
    return model, {**tensors, **held}


def _is_late(model: Any) -> bool:
    return type(model).__name__ == "Late" and type(model) is estimator_of("Late")


def _describe_late(late: Any) -> tuple[Model, dict[str, Array]]:
    """Return the estimator, and the rows that wait for their labels."""
    model, tensors = describe(late.estimator)
    parameters, state = late.dump()
    writer = Writer()
    values, held = _split(writer, state, LATE)
    model["late"] = {"parameters": _each(writer, parameters), "state": values}
    return model, {**tensors, **held}


def parted(model: Any) -> tuple[Any, Any]:
    """Return a model's estimator, and the lags before it where it is a series."""
    if type(model).__name__ != "Series" or type(model) is not import_module("onkel.series").Series:
        return model, None
    return model.estimator, model.lags


def _each(writer: Writer, values: Mapping[str, Any]) -> Model:
    return {name: writer.value(value, name) for name, value in values.items()}


def _split(writer: Writer, tree: Model, path: str = "") -> tuple[Model, dict[str, Array]]:
    """Part a tree of fields into JSON and tensors, both named by their place in the tree."""
    values: Model = {}
    tensors: dict[str, Array] = {}
    for name, value in tree.items():
        if isinstance(value, np.ndarray):
            tensors[path + name] = value
        elif isinstance(value, dict):
            for found, inside in zip(
                (values, tensors), _split(writer, value, f"{path}{name}."), strict=True
            ):
                found.update(inside)
        else:
            values[path + name] = writer.value(value, name)
    return values, tensors


def rebuild(version: int, model: Model, tensors: dict[str, Array], own: Mapping[str, Any]) -> Any:
    """Return the model that a file holds."""
    for older in range(version, FORMAT):
        UPGRADES[older](model, tensors)
    if "fleet" in model:
        return _fleet(version, model, tensors, own)
    if "late" in model:
        return _late(version, model, tensors, own)
    reader = Reader(tensors, own)
    reader.foresee(model)
    reader.check_own()
    whole = Saved(model)
    kind = estimator_of(whole.word("estimator", ESTIMATORS))
    parameters = _read(reader, whole.value("parameters"))
    settings, saved = None, Saved({})
    if whole.peek("settings") is not None:
        settings = _read(reader, whole.value("settings"))
    if whole.peek("state") is not None:
        saved = Saved(_joined(reader, whole.value("state"), tensors))
    before = saved.inside("lags")
    estimator = kind.restored(parameters, settings, saved)
    if whole.peek("lags") is not None:
        estimator = _series(estimator, _read(reader, whole.value("lags")), before)
    before.finish()
    saved.finish()
    whole.finish()
    if reader.used != {name for name in tensors if name.startswith(_PARAMETERS)}:
        raise ValueError("a tensor belongs to no parameter.")
    return estimator


def _fleet(version: int, model: Model, tensors: dict[str, Array], own: Mapping[str, Any]) -> Any:
    held = Saved(model.pop("fleet"), "fleet.")
    mine = {name: tensors.pop(name) for name in [*tensors] if name.startswith("fleet.")}
    estimator = rebuild(version, model, tensors, own)
    reader = Reader({}, {})
    parameters, form = (_read(reader, held.value(name)) for name in ("parameters", "form"))
    held.finish()
    kind = estimator_of("Fleet")
    return kind.restored(estimator, parameters, form or None, Saved(mine), dict(own))


def _late(version: int, model: Model, tensors: dict[str, Array], own: Mapping[str, Any]) -> Any:
    held = Saved(model.pop("late"), LATE)
    mine = {name: tensors.pop(name) for name in [*tensors] if name.startswith(LATE)}
    estimator = rebuild(version, model, tensors, own)
    reader = Reader({}, {})
    parameters = _read(reader, held.value("parameters"))
    state = Saved(_joined(reader, held.value("state"), mine)).inside("late")
    held.finish()
    return estimator_of("Late").restored(estimator, parameters, state)


def _series(estimator: Any, parameters: dict[str, Any], saved: Saved) -> Any:
    series = import_module("onkel.series")
    return series.Series(estimator, series.Lags.restored(parameters, saved))


_PARAMETERS = "parameters."


def _read(reader: Reader, values: Any) -> dict[str, Any]:
    return {name: reader.value(value) for name, value in values.items()}


def _joined(reader: Reader, values: Model, tensors: Mapping[str, Array]) -> Model:
    """Return the tree of fields that :func:`_split` parted."""
    leaves: list[tuple[str, Any]] = [*_read(reader, values).items()]
    leaves += [(name, t) for name, t in tensors.items() if not name.startswith(_PARAMETERS)]
    tree: Model = {}
    for name, leaf in leaves:
        *path, last = name.split(".")
        at = tree
        for step in path:
            at = at.setdefault(step, {})
        if last in at:
            raise ValueError(f"{name} stands twice in the file.")
        at[last] = leaf
    return tree
