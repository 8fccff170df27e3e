"""Whether the first line of a table has the names of its columns, or is a row like the others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from onkel.columns.cells import is_missing, number_in
from onkel.columns.dateformats import find_format
from onkel.columns.kinds import kind_of, truth_of
from onkel.streams.sources.judging import decimal_of

ROWS = 100
"""So many rows below are looked at."""
NO_NAMES = (
    "the first line is taken for a row, as it looks like those below: columns are called c1, c2, "
    "… (--header takes it for names)"
)
NAMES = (
    "nothing tells whether the first line has the names of the columns; it is taken for them "
    "(--no-header takes it for a row, --header says that it is none)"
)


def is_header(
    first: Sequence[str], rows: Sequence[Sequence[str]], named: frozenset[str] = frozenset()
) -> tuple[bool, str]:
    """Return whether the first line has names, and what to say where that is doubtful.

    Parameters
    ----------
    first : list of str
        Its cells.
    rows : list of lists of str
        The cells of some rows below.
    named : frozenset of str
        Columns that someone has named: one of them in the first line settles it.

    Examples
    --------
    >>> is_header(["size", "colour"], [["1", "red"], ["2", "blue"]])
    (True, '')
    >>> is_header(["3", "red"], [["1", "red"], ["2", "blue"]])[0]
    False
    """
    cells = [c.strip() for c in first]
    if named & set(cells):
        return True, ""
    if named and all(re.fullmatch(r"c\d+", name) for name in named):
        return False, ""
    below = list(zip(*rows, strict=True)) or [()] * len(cells)
    decimal = decimal_of([[c, *column] for c, column in zip(cells, below, strict=True)])
    if all(is_missing(c) or number_in(c, decimal) is not None for c in cells):
        return False, ""
    found = [_fits(c, column, decimal) for c, column in zip(cells, below, strict=True)]
    if False in found:
        return True, ""
    if True in found:
        return False, NO_NAMES
    return _by_words(cells, below) if rows else (True, "")


def _fits(cell: str, below: Sequence[str], decimal: str) -> bool | None:
    """Return whether a cell is of the kind of those below; None where that says nothing."""
    if is_missing(cell) or all(map(is_missing, below)):
        return None if below or number_in(cell, decimal) is None else True
    kind = kind_of(below, decimal)
    if kind == "number":
        return number_in(cell, decimal) is not None
    if kind == "boolean":
        return isinstance(truth_of(cell), bool)
    return find_format([cell]) is not None if kind == "time" else None


def _by_words(cells: Sequence[str], below: Sequence[Sequence[str]]) -> tuple[bool, str]:
    """Judge a table of words: a name stands there once, and not among its column's values."""
    again = any(c and c in map(str.strip, column) for c, column in zip(cells, below, strict=True))
    if again or len(set(cells)) < len(cells):
        return False, NO_NAMES
    return True, NAMES
