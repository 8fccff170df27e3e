"""What a single cell holds: nothing, a number, something else."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import numpy as np

from onkel.columns import codes

MISSING = (
    "", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "none", "?", "-",
)  # fmt: skip
"""What stands for a number that is not there."""
_MISSING = frozenset(MISSING)
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""How a number is written; no inf, no underscores, no digits of other scripts."""
ENOUGH = 0.9
"""A column is of a kind if this share of what it holds are such; the rest are broken rows."""


def is_missing(value: Any) -> bool:
    """Whether a cell holds no number, time or the like: nothing, or a word for it.

    Examples
    --------
    >>> is_missing(" NA "), is_missing(None), is_missing(0.0)
    (True, True, False)
    """
    return value.strip() in _MISSING if isinstance(value, str) else codes.is_missing(value)


def pointed(text: str, decimal: str = ".") -> str:
    """Return a number's text with a point where a comma stands for it; "" if it has both.

    Examples
    --------
    >>> pointed("3,14", ","), pointed("3.14", ","), pointed("3,14")
    ('3.14', '', '3,14')
    """
    if decimal == ".":
        return text
    return "" if "." in text else text.replace(decimal, ".")


def number_in(value: Any, decimal: str = ".") -> float | None:
    """Return the number that a cell holds; None where it holds nothing or something else.

    Examples
    --------
    >>> number_in(" 1.5e3 "), number_in("NA"), number_in("1,5"), number_in("1,5", ",")
    (1500.0, None, None, 1.5)
    """
    if isinstance(value, str):
        text = value.strip() if decimal == "." else pointed(value.strip(), decimal)
        if not NUMBER.fullmatch(text):
            return None
    elif not isinstance(value, (float, int, np.number, np.bool_, Decimal)):
        return None
    try:
        found = float(value if decimal == "." or not isinstance(value, str) else text)
    except (OverflowError, TypeError):  # too many digits; a complex number
        return None
    return found if math.isfinite(found) else None
