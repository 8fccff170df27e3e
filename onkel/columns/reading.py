"""Cells of a table as numbers, codes and times; what does not fit its column is refused by name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns import codes, dates, weeks
from onkel.columns.cells import MISSING, number_in
from onkel.columns.dateformats import DateFormat
from onkel.inputs import LARGEST, RefusedRow

Array = NDArray[Any]


def pairs(cells: Iterable[tuple[str, Any]]) -> str:
    """Return the cells that are there as one text, with their names; of a time its hour."""
    held = [(name, _late_text(cell)) for name, cell in cells]
    return ", ".join(f"{name}={text}" for name, text in held if text)


def _late_text(cell: Any) -> str:
    if not dates.is_time(cell) or codes.is_missing(cell):
        return codes.text_of(cell)
    hours = np.floor(dates.seconds_of([cell])[0] / 3600.0) + weeks.MONDAY
    return weeks.said(float(hours % weeks.HOURS))


def floats(cells: Any, name: str) -> Array:
    """Return cells as numbers, NaN where there is none."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        found = cells.astype(np.float64)
    elif isinstance(cells, np.ndarray) and cells.dtype.kind == "m":
        lasted = cells.astype("timedelta64[us]").astype(np.float64) / 1e6
        found = np.where(np.isnat(cells), np.nan, lasted)
    else:
        try:
            found = np.array([math.nan if codes.is_missing(c) else float_of(c) for c in cells])
        except (TypeError, ValueError, OverflowError):
            raise _misfit(cells, name, float_of, "a number", "category") from None
    if np.any(np.abs(found) > LARGEST):
        raise _misfit(cells, name, _bounded, f"a number of at most {LARGEST:g}", "category")
    return found


def float_of(cell: Any) -> float:
    """Return the number of a cell that is there."""
    if isinstance(cell, complex):
        raise TypeError(cell)
    if not isinstance(cell, (str, bytes)):
        return float(cell)
    text = codes.text_of(cell)
    found = number_in(text)
    if found is None and text not in MISSING:
        raise ValueError(text)
    return math.nan if found is None else found


def _bounded(cell: Any) -> None:
    if abs(float_of(cell)) > LARGEST:
        raise ValueError(cell)


def categories(cells: Any, name: str) -> tuple[list[int], dict[int, str]]:
    """Return the codes of cells, and which text each stands for."""
    try:
        return codes.encode(cells)
    except TypeError:  # cannot be a key: a list, a dict
        raise _misfit(cells, name, hash, "a single value", "ignore") from None


def seconds(cells: Any, column: Any) -> Array:
    """Return cells as seconds since 1970, NaN where there is none."""
    try:
        if column.format is None and isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
            return dates.seconds_of(cells)
        return np.array([_written(cell, column.format) for cell in cells], np.float64)
    except (TypeError, ValueError):

        def one(cell: Any) -> float:
            return _written(cell, column.format)

        raise _misfit(cells, column.name, one, "a time", "category") from None


_ISO = DateFormat("iso")


def _written(cell: Any, way: DateFormat | None) -> float:
    """Return a time that is one by its type, or is written: in ISO's way where none is known."""
    if codes.is_missing(cell) or (isinstance(cell, str) and not cell.strip()):
        return math.nan
    if isinstance(cell, str) or (way is not None and not dates.is_time(cell)):
        return (way or _ISO).seconds(cell)
    return float(dates.seconds_of([cell])[0])


def _misfit(cells: Sequence[Any], name: str, reads: Any, wanted: str, other: str) -> RefusedRow:
    """Return the refusal of the first cell that does not fit."""
    for row, cell in enumerate(cells):
        try:
            if not codes.is_missing(cell):
                reads(cell)
        except (TypeError, ValueError, OverflowError):
            shown = cell.item() if isinstance(cell, np.generic) else cell
            return RefusedRow(
                f"Row {row}, column {name!r}: {shown!r:.60} is not {wanted}, as the first rows had "
                f"there. Mend it, leave that row out, or say what the column is: "
                f"columns=Columns({{{name!r}: {other!r}}}). The model was not changed.",
                row,
            )
    raise AssertionError(f"column {name!r} can be read after all")
