"""onkel on Spark: one model per key of a stream, or one model over many partitions.

Needs the extra ``spark`` (pyspark, pandas, pyarrow, protobuf) and Java 17.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onkel.spark.partitions import learn
    from onkel.spark.scoring import predict
    from onkel.spark.streaming import keyed

__all__ = ["keyed", "learn", "predict"]
_HOMES = {"keyed": "streaming", "learn": "partitions", "predict": "scoring"}


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for; without pyspark, say what to install."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("pyspark", "pandas", "pyarrow"):
            raise
        raise ModuleNotFoundError(
            f"onkel.spark needs {missing}: pip install 'onkel[spark]' (and Java 17).",
            name=error.name,
        ) from None
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
