"""keyed: one estimator per key of a stream, inside Spark Structured Streaming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql import types

from onkel import files
from onkel.judge import judge_of
from onkel.spark import checks
from onkel.spark.columns import Reader, reader_of
from onkel.spark.processor import Plan, Processor, struct
from onkel.spark.table import NO_FEATURES, NO_KEY, NO_TARGET, NO_TIME

_TYPES = {
    "double": types.DoubleType(), "boolean": types.BooleanType(), "string": types.StringType(),
}  # fmt: skip
_FILL = {"string": "", "boolean": False}
"""What stands for null on the way; 0 for numbers."""


def keyed(
    events: Any,
    model: Any,
    *,
    key: str | Sequence[str],
    time: str,
    features: str | Sequence[str],
    target: str | None = None,
    sequence: str | None = None,
    late: str = "learn",
    on_error: str = "raise",
    alerts_only: bool = False,
    explain: int = 0,
    idle: Any = None,
    groups: int | None = None,
    cache: float = 256,
    own: Mapping[str, Any] | None = None,
) -> Any:
    """Return what one model per key says of each event before it learns it.

    ``(prediction of row i, model) <- predict_then_learn(model, row i)``, for each key apart

    Rows of a key are learned in the order of `time`, within each micro-batch; of `sequence` where
    times are equal; of the features and then the target where these are, too. So the order in which
    Spark hands them over does not matter. A row is *late* if a later one of its key was learned in
    an earlier batch.

    Parameters
    ----------
    events : pyspark DataFrame
        A stream, or a batch: then all keys start anew.
    model : estimator or str
        Each key starts with a copy of it; it may have learned something already. The name of a
        task stands for the self-tuning model of it: "classification", "regression", "novelty".
    key : str or list of str
        Columns of texts, whole numbers or booleans.
    time : str
        Column of event times: timestamps, or numbers (seconds).
    features : str or list of str
        Columns of numbers, texts (categories, unless the model's ``columns`` say otherwise),
        booleans, timestamps and dates; or one column of arrays of numbers.
    target : str, optional
        Column of targets. Rows in which it is null are predicted, and not learned.
    sequence : str, optional
        Column of whole numbers that orders rows of the same time. It comes out, too.
    late : {"learn", "drop"}
        Late rows are learned all the same, before the newer ones of their batch (at the latest time
        so far, where forgetting goes by the clock); or they come out without a score, and are not
        learned.
    on_error : {"raise", "skip"}
        A row that the model refuses ends the query; or it comes out with the column ``error``
        saying why, and its key's model is the model that it was.
    alerts_only : bool
        Only alerts and refused rows come out (detectors).
    explain : int
        So many alerts of each key are explained, and then every 500th; the others have a reason in
        a few words (detectors). 0: no reasons.
    idle : duration, optional
        A key without events for so long (processing time) is forgotten: "12h", or a timedelta.
    groups : int, optional
        Keys are handed over, and kept, in so many groups; fixed for the life of a checkpoint. None:
        twenty for each shuffle partition, which makes these about equally large; 1024 at most.
    cache : float
        MiB of models that each Python worker keeps at hand.
    own : dict, optional
        Code of your own that the model uses, as :func:`onkel.load` takes it.

    Returns
    -------
    pyspark DataFrame
        The key's columns, `time`, `sequence`; for detectors ``score``, ``threshold``, ``rank``,
        ``alert`` (and ``why``), else ``prediction`` (with ``low`` and ``high`` for regression with
        nu) and ``target``; then ``late`` and ``error``.
    """
    checks.check_provider(events)
    checks.check_words(late, on_error)
    groups = checks.groups_of(events) if groups is None else groups
    for name, value in {"explain": explain, "groups": groups, "cache": cache}.items():
        checks.ACCEPTS[name].check("keyed", name, value)
    model = checks.model_of(model)
    checks.check_model(model, target, bool(explain), alerts_only)
    names = checks.Names.given(key, time, features, target, sequence)
    kinds = names.kinds(events.schema, model.task)
    lone = kinds[names.features[0]].typeName() == "array"
    aliases = [f"f{i}" for i in range(len(names.features))]
    reader = reader_of(events.schema, names.features, model, aliases)
    judge = judge_of(
        model, names.features if explain and not lone else None, int(explain), brief=bool(explain)
    )
    names.check_clash([*judge.fields(), "late", "error"])
    data, code = files.dumps(model), dict(own or {})
    files.loads(data, **code)  # where code of the user's own is missing, this says so
    plan = Plan(
        data, judge, {f"key{i}": kinds[k] for i, k in enumerate(names.key)},
        judge.fields(), [] if lone else names.features,
        1e-6 if kinds[time].typeName() == "timestamp" else 1.0,
        late, on_error, bool(alerts_only), int(groups), checks.milliseconds(idle),
        int(cache * 2**20), code, reader,
    )  # fmt: skip
    return run(prepared(events, names, kinds, int(groups), reader), Processor(plan), names)


def _col(name: str) -> Any:
    return sf.col(f"`{name}`")


def _filled(column: Any, kind: Any) -> Any:
    return sf.coalesce(column, sf.lit(_FILL.get(kind.typeName(), 0)).cast(kind))


def prepared(
    events: Any, names: checks.Names, kinds: Mapping[str, Any], groups: int,
    reader: Reader | None = None,
) -> Any:  # fmt: skip
    """Return the columns that workers read.

    Nulls are marked in a column of bits and filled, since pandas would change the types. Names are
    our own, since on the way they must be such as Python's attributes have.
    """
    time, long = _col(names.time), types.LongType()
    moment = sf.unix_micros(time) if kinds[names.time].typeName() == "timestamp" else time
    moment_kind = long if moment is not time else kinds[names.time]
    nothing = sf.array().cast("array<double>")
    row = sf.coalesce(_features(names, kinds), nothing).alias("row") if reader is None else None
    columns = [
        sf.pmod(sf.hash(*map(_col, names.key)), sf.lit(groups)).alias("bunch"),
        *[_filled(_col(k), kinds[k]).alias(f"key{i}") for i, k in enumerate(names.key)],
        _filled(moment, moment_kind).alias("moment"),
        *([row] if reader is None else reader.cells(events.schema)),
        _lacks(names, kinds).alias("lacks"),
    ]
    if names.target is not None:
        columns.append(_filled(_col(names.target), kinds[names.target]).alias("label"))
    if names.sequence is not None:
        columns.append(_filled(_col(names.sequence).cast(long), long).alias("place"))
    return events.select(*columns)


def _features(names: checks.Names, kinds: Mapping[str, Any]) -> Any:
    if kinds[names.features[0]].typeName() == "array":
        return _col(names.features[0]).cast("array<double>")
    return sf.array(*[_col(n).cast("double") for n in names.features])


def _lacks(names: checks.Names, kinds: Mapping[str, Any]) -> Any:
    """Return which of a row's parts are null, as bits."""
    bits = [(NO_KEY, k) for k in names.key[:1]] + [(NO_TIME, names.time)]
    bits += [] if names.target is None else [(NO_TARGET, names.target)]
    if kinds[names.features[0]].typeName() == "array":
        bits.append((NO_FEATURES, names.features[0]))
    found = [sf.when(_absent(_col(n), kinds[n], bit), bit).otherwise(0) for bit, n in bits]
    for other in names.key[1:]:
        found[0] = sf.when(_col(other).isNull(), NO_KEY).otherwise(found[0])
    return sum(found[1:], found[0])


def _absent(column: Any, kind: Any, bit: int) -> Any:
    """Return whether a value is null; a time that is no number is none."""
    if bit == NO_TIME and kind.typeName() in ("float", "double"):
        return column.isNull() | sf.isnan(column)
    return column.isNull()


def run(given: Any, processor: Processor, names: checks.Names) -> Any:
    """Return what a processor makes of prepared rows."""
    plan, schema = processor.plan, given.schema
    back = {n: schema[n].dataType for n in ("moment", "place") if n in given.columns}
    kinds = {**_TYPES, "target": schema["label"].dataType if "label" in given.columns else None}
    fields = {n: kinds[kind] for n, kind in plan.fields.items()}
    flags = {"late": _TYPES["boolean"], "error": _TYPES["string"]}
    found = given.groupBy("bunch").transformWithStateInPandas(
        statefulProcessor=processor,
        outputStructType=struct({**plan.keys, **back, **fields, **flags}),
        outputMode="Append",
        timeMode="None" if plan.idle is None else "ProcessingTime",
    )
    moment = sf.timestamp_micros(_col("moment")) if plan.scale == 1e-6 else _col("moment")
    order = [] if names.sequence is None else [_col("place").alias(names.sequence)]
    keys = [_col(k).alias(name) for k, name in zip(plan.keys, names.key, strict=True)]
    rest = map(_col, (*fields, *flags))
    return found.select(*keys, moment.alias(names.time), *order, *rest)
