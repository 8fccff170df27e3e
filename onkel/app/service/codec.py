"""Models as bytes: the one place that knows how, for snapshots, exports and imports."""

from __future__ import annotations

from typing import Any

from onkel import files
from onkel.app.http.problems import Problem
from onkel.app.service.specs import KINDS, check_size
from onkel.fleet import Fleet
from onkel.late import Late


def dumps(estimator: Any) -> bytes:
    """Return the bytes of a model file."""
    return files.dumps(estimator)


def loads(data: bytes) -> Any:
    """Return the model that a file's bytes hold; nothing in them is executed."""
    return files.loads(data)


def usable(data: bytes) -> Any:
    """Return the model that a file's bytes hold, once it has said how it is."""
    estimator = loads(data)
    if estimator.__sklearn_is_fitted__():
        _ = estimator.diagnostics_
    return estimator


def received(data: bytes) -> Any:
    """Return the model in a file that came from a client, or refuse it.

    It must be one that can be saved and loaded again: it will be.
    """
    try:
        estimator = usable(data)
        usable(dumps(estimator))
    except Exception as error:
        raise Problem(422, "bad_file", _reason(error)[:2000]) from error
    if type(estimator).__name__ == "Series":
        raise Problem(
            422, "bad_file",
            "The file holds a Series, whose rows are made wider before they are learned; the "
            "service does not do that. Make the rows wider yourself (onkel.series.Lags), and send "
            "its estimator: onkel.load(file).estimator.save(...).",
        )  # fmt: skip
    if isinstance(estimator, (Fleet, Late)):
        _check_sizes(estimator.estimator, "parameters")
        return estimator
    if type(estimator).__name__ not in KINDS:
        raise Problem(422, "bad_file", f"The file must hold one of {list(KINDS)}.")
    _check_sizes(estimator, "parameters")
    return estimator


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError):
        return str(error)
    return f"The model in the file cannot be used ({type(error).__name__}: {error})."


def _check_sizes(estimator: Any, path: str) -> None:
    """Refuse parameters that take too much, also those of a self-tuning model's members."""
    for name, value in estimator.get_params().items():
        check_size(name.rpartition("__")[2], value, f"{path}.{name}")
    for i, member in enumerate(getattr(estimator, "members", None) or ()):
        _check_sizes(member, f"{path}.members[{i}]")
