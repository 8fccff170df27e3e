"""One model over many partitions: learn on each, merge, and again for as many rounds as asked.

``f <- sum over partitions of w_j f_j``, f_j = f after the rows of partition j
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from onkel import files
from onkel.estimators import inside
from onkel.estimators.base import Estimator
from onkel.expansions import Centers
from onkel.judge import forgets_by_clock
from onkel.params import Accept
from onkel.spark import columns
from onkel.spark.checks import BY_TASK, TIMES, model_of
from onkel.spark.mixing import FAN, Part, Reading, group_of, learned, mixed

__all__ = ["LearnReport", "learn"]

SCHEMA = (
    "partition int, model binary, examples long, weight double, skipped long, why string, "
    "dropped long, bound double"
)
"""Of parts on their way, as :class:`~onkel.spark.mixing.Part` has them."""
_COUNTS = Accept(low=1, high=2**31 - 1, whole=True)
_WORDS = {"weights": ("examples", "equal"), "on_error": ("raise", "skip")}


@dataclass(frozen=True)
class LearnReport:
    """What learning over partitions came to; counts are those of one round."""

    rounds: int
    partitions: int
    """Those that had an example."""
    examples: tuple[int, ...]
    """Learned in each of them, in their order."""
    skipped: int
    """Rows that were refused and left out."""
    first_skipped: str
    """The first of them, with its values and the reason; "" if there was none."""
    terms_dropped: int
    """By the last round's merging: what the window could not hold."""
    bound: float
    """What that changed at most: abs(f(x) - sum w_j f_j(x)) <= bound * sqrt(k(x, x))."""


def learn(
    frame: Any,
    model: Any,
    *,
    features: str | Sequence[str],
    target: str | None = None,
    partitions: int | None = None,
    rounds: int = 1,
    weights: str = "examples",
    time: str | None = None,
    on_error: str = "raise",
    refit: bool = True,
    own: Mapping[str, Any] | None = None,
) -> Any:
    """Learn one model on all rows of a Spark frame, in parallel on its partitions.

    ``f <- sum of w_j f_j``, f_j = f after the rows of partition j; `rounds` times

    Each round sends the model out, learns every partition's rows from it, in order and one Arrow
    batch at a time, and merges the results in the order of the partitions (:func:`onkel.merge`, as
    a tree if there are many). Nothing depends on which task ran where, when, or how often.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Not a streaming one.
    model : estimator or str
        Fitted or not; it stays as it is. The name of a task stands for the self-tuning model of
        it: "classification", "regression", "novelty".
    features : str or list of str
        Columns of numbers, texts (categories, unless the model's ``columns`` say otherwise),
        booleans, timestamps and dates; or one column of arrays of numbers.
    target : str, optional
        Column of labels or numbers; none for a detector.
    partitions : int, optional
        Deal the rows out anew to so many partitions, by a hash of their values, and learn them in
        the order of that hash (of `time`, where given): a random order that depends on nothing
        but the rows. None: partitions and their order are the frame's own.
    rounds : int
        Each is a pass over all rows. With more than one the rows are kept (in memory, or on
        disk) by Spark meanwhile.
    weights : {"examples", "equal"}
        A partition's weight: the number of rows that it has learned, or the same for each.
    time : str, optional
        Column to order each partition by; also the time that a model with its `memory` as a
        duration forgets by.
    on_error : {"raise", "skip"}
        A row that the model refuses ends it all with a ValueError that shows it; or is left out
        and counted.
    refit : bool
        As in :func:`onkel.merge`.
    own : dict, optional
        Code of your own that the model uses, as for :func:`onkel.load`: ``{"kernel": function}``.

    Returns
    -------
    estimator
        A new one, of the same class, with a :class:`LearnReport` as its ``learn_report_``.
    """
    _check_numbers(partitions=partitions, rounds=rounds)
    _check_words(weights=weights, on_error=on_error)
    _check_frame(frame, features, target, time)
    model = model_of(model)
    _check_model(model, columns.checked(features), target, rounds, time)
    reading = _reading(frame, model, features, target, time, on_error == "skip", own)
    start = files.loads(files.dumps(model), **reading.own)  # refused here, if it would be there
    rows = _dealt(frame, reading, time, partitions)
    keep = rounds > 1 and not _kept(rows)
    rows = rows.persist() if keep else rows
    try:
        for _ in range(int(rounds)):
            start, whole, examples = _round(rows, start, reading, weights, bool(refit))
    finally:
        if keep:
            rows.unpersist()
    start.learn_report_ = LearnReport(
        int(rounds), len(examples), examples, whole.skipped, whole.why, whole.dropped, whole.bound
    )
    return start


def _reading(
    frame: Any, model: Any, features: Any, target: str | None, time: str | None, skip: bool,
    own: Mapping[str, Any] | None,
) -> Reading:  # fmt: skip
    """Return how rows become examples, once all is known to fit."""
    names = columns.checked(features)
    aliases = [f"{n} (feature)" if n in (target, time) else n for n in names]
    return Reading(
        features=tuple(names),
        target=target,
        time=time if forgets_by_clock(model) else None,
        skip=skip,
        named=not _arrays(frame, names),
        own=dict(own or {}),
        reader=columns.reader_of(frame.schema, names, model, aliases),
    )


def _kept(rows: Any) -> bool:
    """Whether Spark keeps these very rows already: then they are the user's to let go."""
    level = rows.storageLevel
    return bool(level.useMemory or level.useDisk)


def _arrays(frame: Any, names: list[str]) -> bool:
    return bool(frame.schema[names[0]].dataType.typeName() == "array")


# -- before any job ----------------------------------------------------------------------------


def _check_numbers(**given: Any) -> None:
    for name, value in given.items():
        if value is not None or name != "partitions":
            _COUNTS.check("learn", name, value)


def _check_words(**given: Any) -> None:
    for name, word in given.items():
        if word not in _WORDS[name]:
            raise ValueError(f"learn: {name} must be one of {list(_WORDS[name])}; got {word!r}.")


def _check_frame(frame: Any, features: Any, target: str | None, time: str | None) -> None:
    """Refuse what is no frame, or has not the columns that are asked for."""
    if not hasattr(frame, "mapInPandas") or not hasattr(frame, "schema"):
        raise TypeError(
            f"learn: frame must be a Spark DataFrame; got {type(frame).__name__}. Make one with "
            "spark.createDataFrame, or call the model's partial_fit."
        )
    if frame.isStreaming:
        raise ValueError(
            "learn: frame is a stream, which has no end to merge at. onkel.spark.keyed learns "
            "streams; learn takes what spark.read gives."
        )
    columns.check_schema(frame.schema, features)
    for name, column in (("target", target), ("time", time)):
        if column is not None and column not in frame.columns:
            raise ValueError(
                f"learn: {name}: there is no column {column!r}; there are {frame.columns}."
            )
    if time is not None and frame.schema[time].dataType.typeName() not in TIMES:
        raise TypeError(
            f"learn: time: column {time!r} is {frame.schema[time].dataType.simpleString()}; one "
            f"of {list(TIMES)} is accepted."
        )


def _check_model(
    model: Any, names: list[str], target: str | None, rounds: Any, time: str | None
) -> None:
    """Refuse a model that cannot learn these columns, or whose parts could not be merged."""
    if not isinstance(model, Estimator):
        raise TypeError(
            "learn: model must be an estimator of onkel, or the name of a task "
            f"({', '.join(BY_TASK)}); got {model!r:.80}."
        )
    owner = type(model).__name__
    if (model.task == "novelty") == (target is not None):
        wanted = "needs target=, the column of labels or numbers" if target is None else "has none"
        raise ValueError(f"learn: a {owner} {wanted}; got target={target!r}.")
    width = getattr(model, "n_features_in_", len(names))
    if len(names) > 1 and width != len(names):
        raise ValueError(
            f"learn: this {owner} has learned rows of {width} features; got {len(names)} columns "
            f"{names}."
        )
    if forgets_by_clock(model) and (time is None or rounds != 1):
        raise ValueError(
            f"learn: the memory of {model!r} goes by the clock: give time=, and one round, since a "
            f"second would run time backwards; got time={time!r}, rounds={rounds!r}."
        )
    _check_parts(model)


def _check_parts(model: Any) -> None:
    """Refuse what cannot be sent as columns of numbers, or cannot be merged."""
    model.check_params()
    for settings in inside.settings_of(model):
        kernel, expansion = settings.kernel, settings.expansion
        if kernel.domain == "strings":
            raise TypeError(f"learn: features must be numbers; {kernel!r} takes strings.")
        chosen = isinstance(expansion, Centers) and expansion.given is None
        if chosen and not settings.rule.second_order and not hasattr(model, "t_"):
            raise ValueError(
                f"learn: with {expansion!r} each partition would collect centres of its own, which "
                "cannot be merged. Give the points: expansions.Centers(points)."
            )


# -- jobs --------------------------------------------------------------------------------------


def _dealt(frame: Any, reading: Reading, time: str | None, partitions: int | None) -> Any:
    """Return the rows in the partitions and in the order in which they are learned.

    Rows come out of a shuffle in the order of their arrival, so that they must be sorted; equal
    rows may change places. A hash orders as a shuffle of cards does, only always the same.
    """
    from pyspark.sql import functions as F

    wanted = [*reading.features, reading.target, time]
    names = list(dict.fromkeys(name for name in wanted if name is not None))
    cells = [_cell(name) for name in names]
    rows = frame.select(*cells)
    if partitions is None and time is None:
        return _travelling(rows, reading, time)
    key = "onkel hash"
    rows = rows.withColumn(key, F.xxhash64(*cells))
    if partitions is not None:
        rows = rows.repartition(int(partitions), _cell(key))
    first = [] if time is None else [_cell(time)]
    rows = rows.sortWithinPartitions(*first, _cell(key), *cells).drop(key)
    return _travelling(rows, reading, time)


def _travelling(rows: Any, reading: Reading, time: str | None) -> Any:
    """Return the columns as workers read them."""
    if reading.reader is None:
        return rows
    rest = dict.fromkeys(name for name in (reading.target, time) if name is not None)
    return rows.select(*reading.reader.cells(rows.schema), *map(_cell, rest))


def _cell(name: str) -> Any:
    """Return a column by its name, whatever is in it."""
    from pyspark.sql import functions as F

    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")


def _round(
    rows: Any, start: Any, reading: Reading, weights: str, refit: bool
) -> tuple[Any, Part, tuple[int, ...]]:
    """Learn all partitions from a start, merge; return the model, what it came to, the counts."""
    context = rows.sparkSession.sparkContext
    sent = context.broadcast(files.dumps(start))
    parts = rows.mapInPandas(_learner(sent, reading, weights), SCHEMA).persist()
    try:
        told = _collected(parts.drop("model"))  # runs the learning; the models stay where they are
        _check_told(told, reading.skip)
        count, level, merged = len(told), 0, parts
        while count > FAN:  # as mixed_in_turns does, each group on some machine
            merge = _merger(sent, reading.own, refit)
            merged = merged.groupBy(_group(level)).applyInPandas(merge, SCHEMA)
            count = len({group_of(part.partition, level) for part in told})
            level += 1
        whole, model = mixed(_collected(merged), start, reading.own, refit)
    finally:
        parts.unpersist()
        sent.unpersist()
    return model, whole, tuple(part.examples for part in told if part.examples)


def _learner(sent: Any, reading: Reading, weights: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what a task runs."""

    def run(frames: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield _framed([learned(context.partitionId(), frames, sent.value, reading, weights)])

    return run


def _merger(sent: Any, own: Mapping[str, Any], refit: bool) -> Callable[[Any], Any]:
    """Return what merges one group of parts, as its first one's."""

    def run(frame: Any) -> Any:
        start = files.loads(sent.value, **own)
        return _framed([mixed(_parts(frame.to_dict("records")), start, own, refit)[0]])

    return run


def _group(level: int) -> Any:
    from pyspark.sql import functions as F

    return F.floor(F.col("partition") / (FAN ** (level + 1)))


def _framed(parts: list[Part]) -> Any:
    import pandas as pd

    return pd.DataFrame([asdict(part) for part in parts])


def _parts(records: Sequence[Mapping[str, Any]]) -> list[Part]:
    found = [Part(**{"model": b"", **record}) for record in records]
    return sorted(found, key=lambda part: part.partition)


def _collected(parts: Any) -> list[Part]:
    return _parts([row.asDict() for row in parts.collect()])


def _check_told(told: list[Part], skip: bool) -> None:
    """Refuse, in the words of the first partition that has to say something."""
    why = next((part.why for part in told if part.why), "")
    if why and not skip:
        raise ValueError(f"learn: {why} on_error='skip' leaves such rows out.")
    if not any(part.examples for part in told):
        rest = f" The first of {sum(p.skipped for p in told)} refused: {why}" if why else ""
        raise ValueError(f"learn: there was no row to learn from.{rest}")
