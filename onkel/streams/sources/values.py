"""What counts as a number, a date or nothing: one judge for every format and parser."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from typing import Any

from onkel.inputs import EXACT, LARGEST, WHOLE

MISSING = (
    "", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "none", "?", "-",
)  # fmt: skip
"""What stands for a number that is not there."""
_MISSING = frozenset(MISSING)
_DIGITS = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


LONGEST_LABEL = 1000
"""Characters of a label: a longer one is a text that stands in the wrong column."""
LARGEST_TARGET = 1e150
"""What a regression accepts."""


class BadRow(ValueError):
    """A row that cannot be read; the message is the reason."""


@dataclass(frozen=True)
class Odd:
    """A cell that holds what nobody can use, and what that is."""

    what: str


def _kind_of(value: Any) -> str:
    return value.what if isinstance(value, Odd) else type(value).__name__


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing.

    Examples
    --------
    >>> is_missing(" NA "), is_missing(None), is_missing(0.0)
    (True, True, False)
    """
    if isinstance(value, str):
        return value.strip() in _MISSING
    return value is None or (isinstance(value, float) and value != value)


def number(value: Any, column: str = "?") -> float:
    """Return a cell as a number, NaN where it holds nothing.

    Examples
    --------
    >>> number(" 1.5e3 "), number("NA"), number(True)
    (1500.0, nan, 1.0)
    """
    if isinstance(value, str):
        text = value.strip()
        if text in _MISSING:
            return math.nan
        if not _NUMBER.fullmatch(text):
            raise BadRow(f"column {column!r}: {text[:40]!r} is no number")
        return _in_range(float(text), column)
    if value is None or value != value:
        return math.nan
    if isinstance(value, (int, float)):
        try:
            return _in_range(float(value), column)
        except OverflowError:
            raise BadRow(f"column {column!r}: a number too large") from None
    raise BadRow(f"column {column!r}: {_kind_of(value)} where a number was expected")


def _in_range(value: float, column: str) -> float:
    if not abs(value) <= LARGEST:
        raise BadRow(f"column {column!r}: {value!r} is not a finite number up to {LARGEST:g}")
    return value


def target(value: Any, column: str = "?") -> float:
    """Return a number that is to be predicted, NaN where there is none."""
    found = number(value, column)
    if abs(found) > LARGEST_TARGET:
        raise BadRow(f"column {column!r}: {found!r} is no target up to {LARGEST_TARGET:g} in size")
    return found


def number_or_nan(value: Any) -> float:
    """Return a cell as a number, NaN where it holds nothing or something else."""
    try:
        return number(value)
    except BadRow:
        return math.nan


def is_number(value: Any) -> bool:
    """Whether a cell holds a number (nothing is none)."""
    return not math.isnan(number_or_nan(value))


def seconds(value: Any, column: str = "?") -> float:
    """Return a time in seconds: a number as it is, a date (ISO 8601) since 1970, UTC.

    Examples
    --------
    >>> seconds("1970-01-02"), seconds("1970-01-01T01:00:00+01:00"), seconds("12.5")
    (86400.0, 0.0, 12.5)
    """
    if is_missing(value):
        raise BadRow(f"column {column!r}: no time")
    if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()):
        return number(value, column)
    try:
        date = datetime.datetime.fromisoformat(value.strip())
    except ValueError:
        raise BadRow(f"column {column!r}: {value[:40]!r} is no time") from None
    if date.tzinfo is None:
        date = date.replace(tzinfo=datetime.UTC)
    return (date - _EPOCH) / datetime.timedelta(seconds=1)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def label(value: Any, whole: bool, column: str = "?") -> Any:
    """Return a class label: a whole number, or a text; None where there is nothing.

    Examples
    --------
    >>> label("1", whole=True), label(" cat ", whole=False), label("", whole=False)
    (1, 'cat', None)
    """
    if is_missing(value):
        return None
    if not whole:
        return _label(value, column)
    found = _whole(value, column)
    if not WHOLE[0] <= found <= WHOLE[1]:
        bits = found.bit_length() + 1
        words = f"a whole number of {bits} bits, sign and all, is no label; 64 are taken"
        raise BadRow(f"column {column!r}: {words}")
    return found


def _whole(value: Any, column: str) -> int:
    """Return a whole number; as it is written, if it is written without a point."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, int):
        return int(value)
    found = number(value, column)
    if found != int(found):
        raise BadRow(f"column {column!r}: {found!r} is no label; the others are whole numbers")
    if abs(found) >= EXACT:
        raise BadRow(f"column {column!r}: {found!r} is no label; with a point they go up to 2**53")
    return int(found)


def _label(value: Any, column: str) -> str:
    found = _text(value, column)
    if len(found) > LONGEST_LABEL:
        raise BadRow(
            f"column {column!r}: a label of {len(found)} characters; up to {LONGEST_LABEL} are "
            "taken"
        )
    return found


def _text(value: Any, column: str) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    raise BadRow(f"column {column!r}: {_kind_of(value)} where a label was expected")


def key(value: Any, column: str = "?") -> str:
    """Return what a row's model is called; every row needs one."""
    found = None if value is None else _text(value, column)
    if not found:
        raise BadRow(f"column {column!r}: no key")
    return found
