"""Rows that wait, to and from a file: ids, times, what was said."""

from __future__ import annotations

from typing import Any

import numpy as np

from onkel.late.waiting import LONGEST, Row
from onkel.saved import Saved


def dumped(rows: list[Row]) -> dict[str, Any]:
    """Return what a file must hold of rows, in the order in which they came."""
    ids = [row.id.encode() for row in rows]
    kinds = [*{_mark(row.label): row.label for row in rows if row.label is not None}.items()]
    at = {mark: i for i, (mark, _) in enumerate(kinds)}
    said = [-1 if row.label is None else at[_mark(row.label)] for row in rows]
    return {
        "letters": np.frombuffer(b"".join(ids), np.uint8),
        "ends": np.cumsum([len(id) for id in ids], dtype=np.int64),
        "number": np.array([row.number for row in rows], np.int64),
        "time": np.array([row.time for row in rows], np.float64),
        "asked": np.array([row.asked for row in rows], bool),
        "labels": [label for _, label in kinds],
        "said": np.array(said, np.int64),
    }


def _mark(label: Any) -> tuple[str, Any]:
    """Return what tells labels apart: 1, 1.0 and True are three."""
    return type(label).__name__, label


def rows_in(saved: Saved, count: int, keep: int) -> list[Row]:
    """Return the rows that a file holds, their places 0, 1, ...; of `count` that ever came."""
    number = saved.array("number", (None,), np.int64, low=0)
    size = len(number)
    if size > keep or np.any(np.diff(number) <= 0) or (size and number[-1] >= count):
        raise saved.refuse("number", f"must increase, below {count}, and be at most {keep}")
    time = saved.array("time", (size,), np.float64, finite=False)
    if np.isinf(time).any() or np.any(np.diff(time[~np.isnan(time)]) < 0):
        raise saved.refuse("time", "must increase")
    asked, labels = saved.array("asked", (size,), bool), saved.items("labels")
    said = saved.array("said", (size,), np.int64, low=-1)
    if np.any(said >= len(labels)):
        raise saved.refuse("said", "must be labels that there are")
    ids = _ids(saved, size)
    saved.finish()
    label = [None if i < 0 else labels[i] for i in said.tolist()]
    each = zip(ids, number.tolist(), time.tolist(), asked.tolist(), label, strict=True)
    return [Row(*fields, place) for place, fields in enumerate(each)]


def _ids(saved: Saved, size: int) -> list[str]:
    ends = saved.array("ends", (size,), np.int64)
    letters = saved.array("letters", (None,), np.uint8).tobytes()
    steps = np.diff(ends, prepend=0)
    if (
        np.any(steps < 1)
        or np.any(steps > 4 * LONGEST)
        or (ends[-1] if size else 0) != len(letters)
    ):
        raise saved.refuse("ends", "must increase, to the end of the letters")
    return [
        letters[a:b].decode()
        for a, b in zip((ends - steps).tolist(), ends.tolist(), strict=True)
    ]  # fmt: skip


def flag_or_none(saved: Saved, name: str) -> bool | None:
    """Take True, False or nothing."""
    return None if saved.peek(name) is None and saved.value(name) is None else saved.flag(name)


def names_in(saved: Saved) -> list[str] | None:
    """Take the names of features, or nothing."""
    if saved.peek("names") is None:
        saved.value("names")
        return None
    return saved.items("names", str)
