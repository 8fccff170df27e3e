"""Times as they come from users, made into seconds; durations likewise."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|min|h|d|w)\s*")
ACCEPTED = "a duration such as '30min', '12h' or datetime.timedelta(hours=12)"


def is_duration(value: Any) -> bool:
    """Whether a value means a time span, rather than a number of examples."""
    return isinstance(value, (str, datetime.timedelta, np.timedelta64))


def seconds(value: Any) -> float | None:
    """Return a duration in seconds, or None if it is none (or not above 0).

    Examples
    --------
    >>> seconds("30min"), seconds("1.5 h"), seconds("soon")
    (1800.0, 5400.0, None)
    """
    found: float | None = None
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        found = float(match[1]) * _UNITS[match[2]] if match else None
    elif isinstance(value, np.timedelta64):
        found = float(value / np.timedelta64(1, "us")) / 1e6
    elif isinstance(value, datetime.timedelta):
        found = value.total_seconds()
    return found if found is not None and 0 < found < float("inf") else None


def times_of(time: Any, rows: int) -> Array:
    """Return one time per row, in seconds; dates count from 1970."""
    if hasattr(time, "to_numpy"):
        time = time.to_numpy()
    try:
        found = np.asarray(time)
        if found.dtype == object:
            found = np.array([_plain(v) for v in np.atleast_1d(found)])
        if found.dtype.kind == "M":
            lost = np.isnat(found)
            found = found.astype("datetime64[us]").astype(np.int64) / 1e6
            found[lost] = np.nan
        if found.dtype.kind not in "fiu":
            raise ValueError(f"got dtype {found.dtype}")
        found = np.ascontiguousarray(np.atleast_1d(found), np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"time must hold one number (seconds) or date (datetime, datetime64) per row; {error}."
        ) from None
    if found.shape != (rows,):
        raise ValueError(f"time must hold one value per row, shape ({rows},); got {found.shape}.")
    if not np.all(np.isfinite(found)):
        bad = int(np.flatnonzero(~np.isfinite(found))[0])
        raise ValueError(f"time must be finite; row {bad} has {found[bad]}. Nothing was learned.")
    return found


def check_order(times: Array, last: float | None) -> None:
    """Raise if time runs backwards, within the call or against what was learned before."""
    steps = np.diff(times, prepend=times[:1] if last is None else last)
    if len(times) and steps.min() < 0:
        bad = int(np.flatnonzero(steps < 0)[0])
        before = times[bad - 1] if bad else last
        raise ValueError(
            f"time runs backwards at row {bad}: {times[bad]:.17g} after {before:.17g} (seconds). "
            "Sort the rows by time, or leave late ones out. Nothing was learned."
        )


def _plain(value: Any) -> Any:
    """Return a date as NumPy's; one with a zone in UTC."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return np.datetime64(value, "us")
    return value.to_datetime64() if hasattr(value, "to_datetime64") else value
