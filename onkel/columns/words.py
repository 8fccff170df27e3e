"""A text as codes of its words, each word in a place of its own.

A word stands in place ``hash % places``, and its code is made of the rest of the hash; where two
words want one place the smaller code stays, and an empty place has the code of what is missing. So
two texts differ in about as many places as they have words of which the other has none.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns.codes import called, text_of
from onkel.core.layout import CODES

Array = NDArray[Any]

_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
LONGEST = 10_000
"""Words of a text that are looked at."""


def words_of(text: str) -> list[str]:
    """Return the words of a text, each once, as they are compared: any digit is a 0.

    Examples
    --------
    >>> words_of("Call NOW, call 0870!")
    ['call', 'now', '0000']
    """
    plain = _DIGIT.sub("0", text.lower())
    return list(dict.fromkeys(_WORD.findall(plain)[:LONGEST]))


def place_of(word: str, places: int) -> tuple[int, int]:
    """Return where a word stands, and its code."""
    found = zlib.crc32(word.encode("utf-8", "surrogatepass"))
    return found % places, 1 + found // places % (CODES - 1)


def encode(cells: Iterable[Any], places: int) -> tuple[Array, dict[int, str]]:
    """Return the codes of each text, and which word each code stands for."""
    known: dict[str, tuple[int, int]] = {}
    names: dict[int, str] = {}
    rows = []
    for cell in cells:
        row = [0] * places
        for word in words_of(text_of(cell)):
            at = known.get(word)
            if at is None:
                at = known[word] = place_of(word, places)
                names.setdefault(at[1], called(word))
            place, code = at
            if row[place] == 0 or code < row[place]:
                row[place] = code
        rows.append(row)
    return np.array(rows, np.float64).reshape(len(rows), places), names
