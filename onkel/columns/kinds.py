"""What kind of column cells make: numbers, truth values, times, texts, identifiers, categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onkel.columns.cells import ENOUGH, is_missing, number_in
from onkel.columns.dateformats import find_format

PAIRS = (("false", "true"), ("no", "yes"), ("off", "on"), ("f", "t"), ("n", "y"))
"""Words for the two truth values, in any case."""
_TRUTH = {word: bool(i) for pair in PAIRS for i, word in enumerate(pair)}
MANY, DIFFERENT = 50, 0.95
"""In so many cells, this share of different ones makes them names of their rows."""
WORDS, MOSTLY = 2.5, 0.5
"""More words than this on average, in cells of which this share differ, are texts."""


def kind_of(cells: Sequence[Any], decimal: str = ".") -> str:
    """Return what a column is, by its first cells (texts of a file, or any values).

    One of "number", "boolean", "time", "text", "identifier" and "category"; "number" where there
    is nothing in any of them.

    Examples
    --------
    >>> kind_of(["1.5", "NA", "2"]), kind_of(["yes", "No"]), kind_of(["2020-03-09", ""])
    ('number', 'boolean', 'time')
    >>> kind_of(["AA", "UA", "AA"]), kind_of([f"user-{i}" for i in range(100)])
    ('category', 'identifier')
    >>> kind_of(["Call me when you can", "I am on my way home"])
    'text'
    """
    held = [c for c in cells if not is_missing(c)]
    if are_truth(held):
        return "boolean"
    if sum(number_in(c, decimal) is not None for c in held) >= ENOUGH * len(held):
        return "number"
    return "time" if find_format(held) is not None else _of_texts([str(c).strip() for c in held])


def truth_of(cell: Any) -> Any:
    """Return the truth value that a cell stands for; what stands for none as it is.

    Examples
    --------
    >>> truth_of(" Yes "), truth_of(False), truth_of("perhaps")
    (True, False, 'perhaps')
    """
    return _TRUTH.get(cell.strip().lower(), cell) if isinstance(cell, str) else cell


def are_truth(held: Sequence[Any]) -> bool:
    """Whether all cells are truth values, or words of one pair: both, if they are letters."""
    if not held or not isinstance(truth_of(held[0]), (bool, np.bool_)):
        return False
    if all(isinstance(c, (bool, np.bool_)) for c in held):
        return True
    found = {c.strip().lower() if isinstance(c, str) else "" for c in held}
    pair = next((p for p in PAIRS if found <= set(p)), None)
    return pair is not None and (len(found) == 2 or len(pair[0]) > 1)


def _of_texts(texts: Sequence[str]) -> str:
    different = len(set(texts)) / len(texts)
    words = sum(len(text.split()) for text in texts) / len(texts)
    if words > WORDS:
        return "text" if different >= MOSTLY else "category"
    return "identifier" if len(texts) >= MANY and different >= DIFFERENT else "category"
