"""Rows of a request as a matrix, or refused with their place."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.http.problems import Problem
from onkel.app.service.limits import Limits

Array = NDArray[Any]


def same(rows: list[Any], kind: type) -> list[Any]:
    """Return rows that are all of one kind, or refuse them."""
    for i, row in enumerate(rows):
        if not isinstance(row, kind):
            words = f"Rows must all be of one kind; row {i} is not like row 0."
            raise Problem(422, "bad_field", words, f"X[{i}]")
    return rows


def matrix(rows: list[Any], names: list[str] | None, limits: Limits) -> Array:
    """Return rows of numbers, in lists or by name, as a matrix."""
    if isinstance(rows[0], dict):
        return _by_name(same(rows, dict), names or [], limits)
    check_width(same(rows, list), limits)
    if names is not None and len(rows[0]) != len(names):
        listed = ", ".join(f"{name[:80]!r}" for name in names[:10])
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        words = f"A row has {len(rows[0])} numbers; this model has {len(names)}: {listed}{more}."
        raise Problem(422, "bad_field", words, "X[0]")
    return np.array(rows, np.float64)  # None becomes NaN, a gap


def check_width(rows: list[Any], limits: Limits, what: str = "numbers") -> None:
    """Refuse lists that are not all as long, or too long."""
    width = len(rows[0])
    if not 1 <= width <= limits.features:
        words = f"A row holds 1 to {limits.features} {what}; got {width}."
        raise Problem(422, "bad_field", words, "X[0]", limit=limits.features)
    for i, row in enumerate(rows):
        if len(row) != width:
            words = f"Row {i} has {len(row)} {what}, row 0 has {width}."
            raise Problem(422, "bad_field", words, f"X[{i}]")


def check_room(rows: int, features: int, limits: Limits) -> None:
    """Refuse rows that leave out so much that they would take more room than a body may have."""
    if rows * features > limits.body_bytes:
        words = f"{rows} rows of {features} features are too much. Send them in parts."
        raise Problem(413, "too_many_rows", words, "X", limit=limits.body_bytes // features)


def check_known(rows: list[dict[str, Any]], names: Container[str]) -> None:
    """Refuse rows with a name that is none of the model's."""
    for i, row in enumerate(rows):
        for name in row:
            if name not in names:
                words = f"This model has no feature {name[:80]!r}."
                raise Problem(422, "bad_field", words, f"X[{i}]")


def _by_name(rows: list[dict[str, Any]], names: list[str], limits: Limits) -> Array:
    """Return rows by name as a matrix; it costs what the rows hold, not what they leave out."""
    check_room(len(rows), len(names), limits)
    place = {name: j for j, name in enumerate(names)}
    if not all(row.keys() <= place.keys() for row in rows):
        check_known(rows, place)
    if sum(map(len, rows)) == len(rows) * len(names):
        return np.array([[*map(row.get, names)] for row in rows], np.float64)
    found = np.full((len(rows), len(names)), np.nan)
    for i, row in enumerate(rows):
        found[i, [place[name] for name in row]] = np.array([*row.values()], np.float64)
    return found
