"""What a keyed query is asked to do, and whether it can be done: found out before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onkel import Classifier, Detector, Regressor
from onkel.clock import ACCEPTED, seconds
from onkel.estimators import inside
from onkel.estimators.base import Estimator
from onkel.files.model import ESTIMATORS
from onkel.params import Accept
from onkel.spark.columns import check_schema, checked

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PARTITIONS = "spark.sql.shuffle.partitions"
_WHOLE = ("byte", "short", "integer", "long")
KEYS = ("string", "boolean", *_WHOLE)
TIMES = ("timestamp", "float", "double", *_WHOLE)
TARGETS = {
    "classification": (*KEYS, "float", "double"),
    "regression": ("boolean", "float", "double", *_WHOLE),
}
ACCEPTS = {
    "explain": Accept(low=0, high=2**31, whole=True, hint="It counts alerts; 0 is none."),
    "groups": Accept(low=1, high=2**31 - 1, whole=True, hint="It counts groups, say 1024."),
    "cache": Accept(low=0, high=2**20, hint="It counts MiB for each Python worker."),
}

BY_TASK = {"classification": Classifier, "regression": Regressor, "novelty": Detector}
"""The self-tuning model of each task, which its name stands for."""


@dataclass(frozen=True)
class Names:
    """The columns that are read."""

    key: list[str]
    time: str
    features: list[str]
    target: str | None = None
    sequence: str | None = None

    @classmethod
    def given(
        cls, key: str | Sequence[str], time: str, features: str | Sequence[str],
        target: str | None, sequence: str | None,
    ) -> Names:  # fmt: skip
        """Return the names that a user gave, or raise where they are none."""
        keys = [key] if isinstance(key, str) else list(key)
        if not keys or len(set(keys)) < len(keys):
            raise ValueError(f"keyed: key must name one or more columns, each once; got {key!r}.")
        words = {"time": time, "target": target, "sequence": sequence}
        for name, value in [*[("key", k) for k in keys], *words.items()]:
            if not isinstance(value, str) and (value is not None or name in ("key", "time")):
                raise TypeError(f"keyed: {name} must be the name of a column; got {value!r:.60}.")
        return cls(keys, time, checked(features), target, sequence)

    def kinds(self, schema: Any, task: str) -> dict[str, Any]:
        """Return the columns' types, or raise where one is missing or of a type of no use."""
        known = {field.name: field.dataType for field in schema.fields}
        wanted: list[tuple[str, str, tuple[str, ...]]] = [("key", k, KEYS) for k in self.key]
        wanted.append(("time", self.time, TIMES))
        wanted += [] if self.target is None else [("target", self.target, TARGETS[task])]
        wanted += [] if self.sequence is None else [("sequence", self.sequence, _WHOLE)]
        for role, name, accepted in wanted:
            if name not in known:
                raise ValueError(f"keyed: {role}: there is no column {name!r}; there are "
                                 f"{list(known)}.")  # fmt: skip
            if known[name].typeName() not in accepted:
                raise TypeError(
                    f"keyed: {role}: column {name!r} is {known[name].simpleString()}; accepted are "
                    f"{', '.join(accepted)}. Cast it first."
                )
        check_schema(schema, self.features)
        return known

    def check_clash(self, fields: Sequence[str]) -> None:
        """Raise if a column would stand twice in the output."""
        out = [*self.key, self.time, *([] if self.sequence is None else [self.sequence])]
        for name in out:
            if name in fields or out.count(name) > 1:
                raise ValueError(
                    f"keyed: {name!r} would stand twice in the output, whose own columns are "
                    f"{list(fields)}. Rename it, with withColumnRenamed({name!r}, ...)."
                )


def check_words(late: str, on_error: str) -> None:
    """Raise unless these are words that are known."""
    for name, value, words in (
        ("late", late, ("learn", "drop")),
        ("on_error", on_error, ("raise", "skip")),
    ):
        if value not in words:
            raise ValueError(f"keyed: {name} must be one of {list(words)}; got {value!r}.")


def model_of(model: Any) -> Any:
    """Return a model as it is given, or the self-tuning one of the task that is named.

    Examples
    --------
    >>> model_of("regression")
    Regressor()
    """
    return BY_TASK[model]() if isinstance(model, str) and model in BY_TASK else model


def check_model(model: Any, target: str | None, explain: bool, alerts_only: bool) -> None:
    """Raise unless keys can have such a model."""
    if type(model).__name__ not in ESTIMATORS or not hasattr(model, "predict_then_learn"):
        raise TypeError(
            "keyed: model must be an estimator of onkel's, or the name of a task "
            f"({', '.join(BY_TASK)}); got {model!r:.80}."
        )
    novelty = model.task == "novelty"
    if novelty and target is not None:
        raise ValueError("keyed: a detector learns without a target: leave target out.")
    if not novelty and target is None:
        raise ValueError(f"keyed: {type(model).__name__} learns targets: give target=, a column.")
    if not novelty and (explain or alerts_only):
        raise ValueError("keyed: explain and alerts_only are for detectors; leave them out.")
    if _on_strings(model):
        raise ValueError("keyed: string kernels are not read from columns yet; use numbers.")


def _on_strings(model: Any) -> bool:
    model.check_params()
    if not isinstance(model, Estimator):
        return False  # a series, whose rows are numbers
    return any(settings.kernel.domain == "strings" for settings in inside.settings_of(model))


def check_provider(events: Any) -> None:
    """Raise unless the state store can hold what we keep."""
    if not hasattr(events, "isStreaming"):
        raise TypeError(f"keyed: events must be a Spark DataFrame; got {type(events).__name__}.")
    found = events.sparkSession.conf.get(PROVIDER, "")
    if events.isStreaming and not str(found).endswith("RocksDBStateStoreProvider"):
        raise ValueError(
            f"keyed: the state store must be RocksDB; it is {found or 'not set'}. Set it with "
            f'spark.conf.set("{PROVIDER}", "{ROCKSDB}") before the query is made.'
        )


def groups_of(events: Any) -> int:
    """Return into how many groups keys go, if nobody says: twenty for each shuffle partition."""
    partitions = int(events.sparkSession.conf.get(PARTITIONS, "200"))
    return min(20 * max(partitions, 1), 1024)


def milliseconds(idle: Any) -> int | None:
    """Return a duration in milliseconds."""
    if idle is None:
        return None
    found = seconds(idle)
    if found is None or found < 1e-3:
        raise ValueError(f"keyed: idle must be None or {ACCEPTED}; got {idle!r}.")
    return round(1000 * found)
