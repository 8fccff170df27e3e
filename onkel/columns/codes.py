"""A category's value as a whole number that any machine makes alike, with no table beside it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import CODES

Array = NDArray[Any]

NOTHING = 0
"""The code of a value that is missing."""
LONGEST = 200
"""So many characters of a value are kept, to call it by."""


def code_of(text: str) -> int:
    """Return the code of a value.

    Two of a thousand values share one in about 3 of 100 tables, and are then taken for equal.

    Examples
    --------
    >>> code_of("AA"), code_of("AA") == code_of("UA"), code_of("")
    (6299239, False, 0)
    """
    return 1 + zlib.crc32(text.encode("utf-8", "surrogatepass")) % (CODES - 1) if text else NOTHING


def is_missing(value: Any) -> bool:
    """Whether a value is not there: None, NaN, or as pandas writes it.

    Examples
    --------
    >>> is_missing(None), is_missing(math.nan), is_missing("")
    (True, True, False)
    """
    if value is None or value.__class__ in (str, bool, int):
        return value is None
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and value != value


def text_of(value: Any) -> str:
    """Return a value as the text that its code is made of; "" where it is missing.

    A whole number is the same value however it is kept.

    Examples
    --------
    >>> text_of(" AA "), text_of(5), text_of(5.0), text_of(True), text_of(None), text_of(b"AA")
    ('AA', '5', '5', 'true', '', 'AA')
    """
    if value.__class__ is str:
        return str(value).strip()
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace").strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and math.isfinite(value):
        return str(int(value))
    return str(value).strip()


def called(text: str) -> str:
    """Return what a value is called: its text, whose length has an end.

    Examples
    --------
    >>> called("AA"), len(called("A" * 1000))
    ('AA', 200)
    """
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def code_and_name(value: Any) -> tuple[int, str]:
    """Return a value's code and what it is called; those that came last are at hand.

    Examples
    --------
    >>> code_and_name("AA"), code_and_name(None)
    ((6299239, 'AA'), (0, ''))
    """
    long = value.__class__ is str and len(value) > LONGEST
    return _found(value) if long else _at_hand(value)


def _found(value: Any) -> tuple[int, str]:
    text = text_of(value)
    return code_of(text), called(text)


_at_hand = lru_cache(maxsize=1 << 14, typed=True)(_found)


def encode(cells: Iterable[Any]) -> tuple[list[int], dict[int, str]]:
    """Return the codes of values, and what each code is called.

    Examples
    --------
    >>> codes, names = encode(["a", None, "a"])
    >>> codes[0] == codes[2], codes[1], names[codes[0]]
    (True, 0, 'a')
    """
    if isinstance(cells, np.ndarray):
        cells = cells.tolist() if cells.dtype.kind in "biufUS" else list(cells)
    else:
        cells = list(cells)
    # True, 1 and 1.0 are one key of a dict, but not one text.
    alike = len(set(map(type, cells))) == 1
    keys = cells if alike else [(cell.__class__, cell) for cell in cells]
    known: dict[Any, int] = dict.fromkeys(keys, NOTHING)
    names: dict[int, str] = {}
    for key in known:
        text = text_of(key if alike else key[1])
        code = known[key] = code_of(text)
        names.setdefault(code, called(text))
    return list(map(known.__getitem__, keys)), names
