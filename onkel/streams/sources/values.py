"""What counts as a number, a date or nothing: one judge for every format and parser."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from onkel.columns.cells import MISSING, NUMBER, is_missing, pointed
from onkel.columns.dateformats import DateFormat
from onkel.inputs import EXACT, LARGEST, WHOLE

_MISSING = frozenset(MISSING)
_DIGITS = re.compile(r"[+-]?[0-9]{1,40}")


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


def number(value: Any, column: str = "?", decimal: str = ".") -> float:
    """Return a cell as a number, NaN where it holds nothing; a text has this before decimals.

    Examples
    --------
    >>> number(" 1.5e3 "), number("NA"), number(True)
    (1500.0, nan, 1.0)
    """
    if isinstance(value, str):
        text = value.strip()
        if text in _MISSING:
            return math.nan
        written = text if decimal == "." else pointed(text, decimal)
        if not NUMBER.fullmatch(written):
            why = "" if decimal == "." else " (decimals stand behind a comma)"
            raise BadRow(f"column {column!r}: {text[:40]!r} is no number{why}")
        return _in_range(float(written), column)
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


def target(
    value: Any, column: str = "?", words: frozenset[str] = frozenset(), decimal: str = "."
) -> float:
    """Return a number that is to be predicted, NaN where there is none."""
    if words and is_no_target(value, words):
        return math.nan
    found = number(value, column, decimal)
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


def seconds(value: Any, column: str = "?", dates: DateFormat | None = None) -> float:
    """Return a time in seconds: as a format has it, else a number as it is, or ISO 8601.

    Examples
    --------
    >>> seconds("1970-01-02"), seconds("1970-01-01T01:00:00+01:00"), seconds("12.5")
    (86400.0, 0.0, 12.5)
    >>> seconds("02.01.1970", dates=DateFormat("dmy"))
    86400.0
    """
    if is_missing(value):
        raise BadRow(f"column {column!r}: no time")
    if isinstance(value, Odd):
        raise BadRow(f"column {column!r}: {value.what} where a time was expected")
    try:
        return (dates or _undecided(value)).seconds(value)
    except (ValueError, OverflowError):
        known = f" ({dates.words})" if dates is not None else ""
        shown = repr(value[:40] if isinstance(value, str) else value)[:60]
        raise BadRow(
            f"column {column!r}: {shown} is no time{known}; --time-format says how it is written"
        ) from None


def _undecided(value: Any) -> DateFormat:
    return _ISO if isinstance(value, str) and not NUMBER.fullmatch(value.strip()) else _SECONDS


_ISO, _SECONDS = DateFormat("iso"), DateFormat("s")


def is_no_target(value: Any, words: frozenset[str] = frozenset()) -> bool:
    """Whether a cell holds no label: it is empty, or holds one of the words that say so.

    Words for a missing number are none of them: a label may be called "none".

    Examples
    --------
    >>> is_no_target(" "), is_no_target("none"), is_no_target(-1.0, frozenset(["-1"]))
    (True, False, True)
    """
    if isinstance(value, str):
        text = value.strip()
        return not text or text in words
    if value is None or (isinstance(value, float) and value != value):
        return True
    return bool(words) and isinstance(value, (int, float)) and _spelled(value) in words


def _spelled(value: float) -> str:
    """Return a number as someone would write it who means a label."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if abs(value) < EXACT and value == int(value) else repr(value)


def label(value: Any, whole: bool, column: str = "?", words: frozenset[str] = frozenset()) -> Any:
    """Return a class label: a whole number, or a text; None where there is nothing.

    Examples
    --------
    >>> label("1", whole=True), label(" cat ", whole=False), label("", whole=False)
    (1, 'cat', None)
    """
    if is_no_target(value, words):
        return None
    if not whole:
        return _label(value, column)
    found = _whole(value, column)
    if not WHOLE[0] <= found <= WHOLE[1]:
        bits = found.bit_length() + 1
        said = f"a whole number of {bits} bits, sign and all, is no label; 64 are taken"
        raise BadRow(f"column {column!r}: {said}")
    return found


def _whole(value: Any, column: str) -> int:
    """Return a whole number; as it is written, if it is written without a point."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str) and not is_number(value):
        raise BadRow(
            f"column {column!r}: {value.strip()[:40]!r} is no label, the others are whole numbers "
            f"(--missing-label {value.strip()[:40]}: such rows have none)"
        )
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


def moment(value: Any, column: str, dates: DateFormat | None) -> float:
    """Return a feature's time in seconds since 1970, NaN where there is none."""
    return math.nan if is_missing(value) else seconds(value, column, dates)


def plain(value: Any, column: str) -> Any:
    """Return a category or a text as it came; raise BadRow for what is neither."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise BadRow(f"column {column!r}: {_kind_of(value)} where a text was expected")


def key(value: Any, column: str = "?", what: str = "key") -> str:
    """Return what a row's model is called, or under which id it waits; every row needs one."""
    found = None if value is None else _text(value, column)
    if not found:
        raise BadRow(f"column {column!r}: no {what}")
    if what == "id" and len(found) > LONGEST_LABEL:
        raise BadRow(f"column {column!r}: an id has up to {LONGEST_LABEL} characters")
    return found
