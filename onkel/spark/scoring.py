"""Batch scoring: a fitted model as a vectorised function of columns."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import files, inputs, judge
from onkel.columns import Plan, Raw
from onkel.spark import columns
from onkel.spark.mixing import REFUSALS

__all__ = ["predict"]

Array = NDArray[Any]

_KEPT: dict[str, Any] = {}
"""In a Python worker: the models of the latest few functions."""
KEEP = 4
_LABELS = {bool: "boolean", int: "bigint", float: "double", str: "string"}


def predict(
    model: Any,
    output: str = "prediction",
    *,
    on_error: str = "raise",
    own: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return a function of columns that scores rows, as ``model.predict`` does.

    ``frame.withColumn("p", predict(model)("a", "b"))``

    The model is sent to each machine once (a Spark broadcast of its file's bytes) and opened once
    in each Python worker; rows come and go as Arrow batches. Scoring never changes a model.

    Parameters
    ----------
    model : estimator
        A fitted one. What it learns later does not change the function.
    output : str
        "prediction"; classifiers also "decision" and "probability", regressors "interval",
        detectors "alert", "decision", "score", "rank", "p" and "judgement".
    on_error : {"raise", "null"}
        A row that the model refuses ends the job with an error that shows it; or its result is
        null.
    own : dict, optional
        Code of your own that the model uses, as for :func:`onkel.load`.

    Returns
    -------
    function
        From columns (or their names), one per feature (of any type that the model has learned, in
        that order) or one of arrays, to a column: double for
        numbers, an array of them where there are several per row, the labels' own type, a struct
        for "interval" (low, high) and "judgement" (score, threshold, alert).
    """
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import arrow_udf

    if on_error not in ("raise", "null"):
        raise ValueError(f"predict: on_error must be 'raise' or 'null'; got {on_error!r}.")
    kind = _kind(model, output)
    session = SparkSession.getActiveSession()
    if session is None:
        raise RuntimeError("predict: there is no Spark session; make one first.")
    data, given = files.dumps(model), dict(own or {})
    files.loads(data, **given)  # refused here, if it would be there
    sent, key = session.sparkContext.broadcast(data), uuid.uuid4().hex

    def score(*arrays: Any) -> Any:
        return _scored(_opened(key, sent, given), output, kind, arrays, on_error == "null")

    score.__annotations__ = {"arrays": pa.Array, "return": pa.Array}  # how Spark tells its kind
    udf: Any = arrow_udf(score, kind)
    width = model.n_features_in_

    def call(*names: Any) -> Any:
        if len(names) not in (1 if _plan_of(model) is None else width, width):
            raise ValueError(
                f"predict: this {type(model).__name__} takes {width} columns{_other_way(model)}; "
                f"got {len(names)} columns."
            )
        return udf(*names)

    return call


def _other_way(model: Any) -> str:
    plan = _plan_of(model)
    if plan is None:
        return f", or one of arrays of {model.n_features_in_} numbers"
    return f" in this order: {', '.join(plan.names)}"


def _opened(key: str, sent: Any, own: Mapping[str, Any]) -> Any:
    """Return the model, from memory if this worker has opened it before."""
    if key not in _KEPT:
        while len(_KEPT) >= KEEP:
            _KEPT.pop(next(iter(_KEPT)))
        _KEPT[key] = files.loads(sent.value, **own)
    return _KEPT[key]


# -- what a model can be asked -----------------------------------------------------------------


def _kind(model: Any, output: str) -> str:
    """Return Spark's type of an output, or say what this model can be asked."""
    task = getattr(model, "task", None)
    known = _KINDS.get(task) if isinstance(task, str) else None
    if known is None:
        raise TypeError(f"predict: model must be an estimator of onkel; got {model!r:.80}.")
    if output not in known:
        raise ValueError(
            f"predict: output of a {type(model).__name__} must be one of {list(known)}; got "
            f"{output!r}."
        )
    if not hasattr(model, "n_features_in_"):
        raise inputs.not_fitted(type(model).__name__)
    if not model.n_features_in_:
        raise TypeError("predict: columns must be numbers; the kernel of this model takes strings.")
    ask(model, output, _blank(model))  # refused here, if it would be there
    kind = known[output]
    return kind if isinstance(kind, str) else kind(model)


def _plan_of(model: Any) -> Plan | None:
    """Return what the columns of a model are that has not learned numbers alone."""
    found: Plan | None = getattr(model, "plan_", None)
    return found


def _blank(model: Any) -> Any:
    """Return a row of nothing."""
    plan, width = _plan_of(model), model.n_features_in_
    return np.zeros((1, width)) if plan is None else plan.one([None] * width)


def _label_kind(model: Any) -> str:
    """Return the type of the labels."""
    kinds = {type(label) for label in model.classes_.tolist()}
    if len(kinds) != 1 or not kinds <= {*_LABELS}:
        raise ValueError(
            "predict: the labels must be all words, all whole numbers, all numbers or all "
            f"booleans to make a column; got {model.classes_.tolist()!r:.80}. Ask for 'decision'."
        )
    return _LABELS[kinds.pop()]


def _decision_kind(model: Any) -> str:
    return "double" if len(model.classes_) == 2 else "array<double>"


def _number_kind(model: Any) -> str:
    found = model.predict(_blank(model))
    return "double" if found.ndim == 1 else "array<double>"


def _interval_kind(model: Any) -> str:
    return "struct<low: {0}, high: {0}>".format(_number_kind(model))


_KINDS: dict[str, dict[str, Any]] = {
    "classification": {
        "prediction": _label_kind, "decision": _decision_kind, "probability": "array<double>",
    },
    "regression": {"prediction": _number_kind, "interval": _interval_kind},
    "novelty": {
        "prediction": "int", "alert": "boolean", "decision": "double", "score": "double",
        "rank": "double", "p": "double",
        "judgement": "struct<score: double, threshold: double, alert: boolean>",
    },
}  # fmt: skip
"""By task: what may be asked, and Spark's type of the answer (or a function of the model)."""


def ask(model: Any, output: str, X: Array) -> tuple[Array, ...]:
    """Return an output for rows: one array, or one for each field of a struct.

    Examples
    --------
    >>> from onkel import KernelRegressor
    >>> model = KernelRegressor().partial_fit([[0.0], [1.0]], [1.0, 2.0])
    >>> [a.shape for a in ask(model, "prediction", np.zeros((3, 1)))]
    [(3,)]
    """
    if output == "interval":
        return tuple(model.predict_interval(X))
    if output == "alert":
        return (model.predict(X) == -1,)
    if output == "judgement":
        scores = model.score_samples(X)
        alert = (scores < model.threshold_) & (model.t_ >= model.warmup_)
        return scores, np.full(len(scores), model.threshold_), alert
    return (judge.predict(model, X, output),)


# -- in a worker -------------------------------------------------------------------------------


def _scored(model: Any, output: str, kind: str, arrays: tuple[Any, ...], null: bool) -> Any:
    """Score one Arrow batch."""
    try:
        return _column(ask(model, output, _rows(model, arrays)), kind)
    except REFUSALS:
        return _one_by_one(model, output, kind, arrays, null)


def _one_by_one(model: Any, output: str, kind: str, arrays: tuple[Any, ...], null: bool) -> Any:
    """Score a batch in which a row was refused: that one is null, or shown in the error."""
    import pyarrow as pa

    found = []
    for i in range(len(arrays[0])):
        row = tuple(array.slice(i, 1) for array in arrays)
        try:
            found.append(_column(ask(model, output, _rows(model, row)), kind))
        except REFUSALS as error:
            if not null:
                raise ValueError(_told(i, row, error)) from None
            found.append(None)
    kinds = next((array.type for array in found if array is not None), _arrow_kind(kind))
    return pa.concat_arrays([pa.nulls(1, kinds) if array is None else array for array in found])


def _told(i: int, row: tuple[Any, ...], error: Exception) -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    where = "" if context is None else f" in partition {context.partitionId()}"
    values = [array.to_pylist()[0] for array in row]
    return f"predict: row {i} of a batch{where} was refused: {error} The row: {values!r:.400}."


def _rows(model: Any, arrays: tuple[Any, ...]) -> Any:
    """Return Arrow columns as rows, NaN where a number is null."""
    import pyarrow as pa

    types, plan = pa.types, _plan_of(model)
    if plan is not None:
        cells = [_cells(array) for array in arrays]
        return plan.encode(Raw(plan.names, cells, len(arrays[0])))
    if all(types.is_floating(a.type) or types.is_integer(a.type) for a in arrays):
        return np.column_stack([a.to_numpy(zero_copy_only=False) for a in arrays]).astype(float)
    if len(arrays) == 1 and types.is_list(arrays[0].type) and not arrays[0].null_count:
        flat, n = arrays[0].flatten(), len(arrays[0])
        lengths = np.diff(arrays[0].offsets.to_numpy())
        if n and types.is_floating(flat.type) and np.all(lengths == lengths[0]):
            return flat.to_numpy(zero_copy_only=False).reshape(n, -1).astype(float)
    names = [f"column {i}" for i in range(len(arrays))]
    return columns.read(pa.table(list(arrays), names=names).to_pandas(), names)


def _cells(array: Any) -> Array:
    """Return what an Arrow column holds; times as they are in UTC."""
    import pyarrow as pa

    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us"))
    found: Array = array.to_numpy(zero_copy_only=False)
    return found


def _arrow_kind(kind: str) -> Any:
    """Return Arrow's type for one of Spark's."""
    import pyarrow as pa

    plain = {
        "double": pa.float64(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(),
        "string": pa.string(), "array<double>": pa.list_(pa.float64()),
    }  # fmt: skip
    if kind in plain:
        return plain[kind]
    fields = [part.split(": ") for part in kind[len("struct<") : -1].split(", ")]
    return pa.struct([(name, plain[inner]) for name, inner in fields])


def _column(found: tuple[Array, ...], kind: str) -> Any:
    """Return an output as an Arrow array of a type of Spark's."""
    import pyarrow as pa

    wanted = _arrow_kind(kind)
    if not pa.types.is_struct(wanted):
        return _plain(found[0], wanted)
    inner = [_plain(array, field.type) for array, field in zip(found, wanted, strict=True)]
    return pa.StructArray.from_arrays(inner, fields=list(wanted))


def _plain(found: Array, wanted: Any) -> Any:
    import pyarrow as pa

    if not pa.types.is_list(wanted):
        return pa.array(found.tolist() if found.dtype == object else found, wanted)
    wide = found.reshape(len(found), -1)
    edges = np.arange(len(wide) + 1, dtype=np.int32) * wide.shape[1]
    return pa.ListArray.from_arrays(edges, np.ascontiguousarray(wide, np.float64).ravel())
