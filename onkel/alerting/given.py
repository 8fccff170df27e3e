"""Rows as they are given to incidents: all is checked before anything changes, and by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.alerting.crowds import Key
from onkel.alerting.hygiene import flags_of, values_of
from onkel.alerting.incident import Alert, farthest
from onkel.clock import times_of

Array = NDArray[Any]

OWNER = "Incidents"


@dataclass
class GivenRows:
    """Rows of one call, checked."""

    flags: Array
    values: Array
    time: Array | None
    keys: list[Key] | None
    far: dict[int, list[tuple[int, float]]]
    """Of each alert."""
    shown: Array | None
    rows: dict[int, int]
    """Of each alert, where rows have numbers of their own."""
    stamps: list[Any] | None
    ids: list[Any] | None
    by_answer: Array | None

    @classmethod
    def checked(
        cls, alerts: Any, values: Any, time: Any, keys: Any, far: Any, shown: Any, rows: Any,
        stamps: Any, ids: Any, by_answer: Any,
    ) -> GivenRows:  # fmt: skip
        """Return rows as lists and arrays, which go by position; refuse what cannot be taken.

        Frames and series are taken as their values, whatever their index.
        """
        flags = flags_of(OWNER, alerts)
        at = np.flatnonzero(flags).tolist()
        given = {
            "values": values_of(OWNER, values), "keys": _keys_of(keys), "far": _rows_of(far),
            "shown": _flags("shown", shown), "rows": _listed("rows", rows),
            "stamps": _listed("stamps", stamps), "ids": _listed("ids", ids),
            "by_answer": _flags("by_answer", by_answer),
        }  # fmt: skip
        for name, held in given.items():
            if held is not None and len(held) != len(flags):
                found = f"{len(flags)} and {len(held)}"
                raise ValueError(f"{OWNER}: alerts and {name} must be as many; got {found}.")
        times = None if time is None else times_of(time, len(flags))
        far, rows = given.pop("far"), given.pop("rows")
        given["far"] = {} if far is None else {i: _far(far[i], i) for i in at}
        given["rows"] = {} if rows is None else {i: _number(rows[i], i) for i in at}
        return cls(flags=flags, time=times, **given)

    def alert(self, i: int, row: int) -> Alert:
        """Return all that an incident wants to know of one of the alerts.

        `row` is its number in the stream.
        """
        own = None if self.ids is None else self.ids[i]
        return Alert(
            self.rows.get(i, row),
            float(self.values[i]),
            None if self.time is None else float(self.time[i]),
            None if self.keys is None else self.keys[i],
            self.shown is None or bool(self.shown[i]),
            self.far.get(i, []),
            None if self.stamps is None else self.stamps[i],
            None if own is None else str(own),
            self.by_answer is not None and bool(self.by_answer[i]),
        )


def _flags(name: str, values: Any) -> Array | None:
    return None if values is None else flags_of(OWNER, values, name)


def _listed(name: str, values: Any) -> list[Any] | None:
    """Return one value per row as a list."""
    if values is None or isinstance(values, list):
        return values
    shape = getattr(values, "shape", (None,))
    if len(shape) != 1 or isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise ValueError(
            f"{OWNER}: {name} must be a list, an array or a series, one value per row; got "
            f"{type(values).__name__} {values!r:.60}."
        )
    return [*values]


def _keys_of(keys: Any) -> list[Key] | None:
    listed = _listed("keys", keys.tolist() if isinstance(keys, np.ndarray) else keys)
    if listed is None or {*map(type, listed)} <= {str, int}:
        return listed
    return [_key(key, row) for row, key in enumerate(listed)]


def _key(key: Any, row: int) -> Key:
    if isinstance(key, str):
        return str(key)
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return int(key)
    raise ValueError(
        f"{OWNER}: keys must be texts or whole numbers, one per row; row {row} has {key!r:.60}. "
        "Nothing was changed."
    )


def _rows_of(far: Any) -> Any:
    """Return what holds a list of numbers for each row, as something that counts from 0."""
    found = far.to_numpy() if hasattr(far, "to_numpy") else far
    if found is None or isinstance(found, (list, tuple, np.ndarray)):
        return found
    return _listed("far", found)


def _far(distances: Any, row: int) -> list[tuple[int, float]]:
    try:
        if distances is None or np.ndim(distances) == 1:
            return farthest(distances)
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"{OWNER}: far must hold a list of numbers for each row (how many spreads each feature "
        f"lies from its mean), or None; row {row} has {distances!r:.60}. Nothing was changed."
    )


def _number(value: Any, row: int) -> int:
    """Return what a row is called, which is a whole number."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    raise ValueError(
        f"{OWNER}: rows must be whole numbers, one per row; row {row} has {value!r:.60}. "
        "Nothing was changed."
    )
