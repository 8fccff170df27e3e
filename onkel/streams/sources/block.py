"""What a source hands over: rows between two fixed row numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns import Raw
from onkel.streams.sources.lines import SHOWN

Array = NDArray[Any]


@dataclass(frozen=True)
class Bad:
    """A row that could not be read."""

    row: int
    line: int
    reason: str
    text: str
    """How it begins."""


@dataclass
class Block:
    """Rows `first` to `first + count - 1` of a source, and where to go on after them.

    Examples
    --------
    >>> import numpy as np
    >>> block = Block(0, 3, np.array([0, 2]), np.zeros((2, 1)), {"row": 3})
    >>> block.count, len(block.rows), block.known.tolist()
    (3, 2, [True, True])
    """

    first: int
    count: int
    """Rows, bad ones included."""
    rows: Array
    """The numbers of the good rows."""
    X: Array
    """The numbers (`Schema.features`)."""
    position: dict[str, Any]
    """JSON-ready; a source that is opened with it goes on with the next row."""
    y: Array | None = None
    known: Array = field(default_factory=lambda: np.zeros(0, bool))
    """Which rows have a target; all, unless told."""
    time: Array | None = None
    """In seconds."""
    stamps: list[Any] | None = None
    """Times as they came."""
    keys: list[str] | None = None
    bad: list[Bad] = field(default_factory=list)
    ids: list[str] | None = None
    """Stable names of the rows, where a source has such (brokers), or a column of ids."""
    lines: list[int] = field(default_factory=list)
    """Line numbers of all `count` rows, and how they were written, for those that are refused."""
    texts: list[bytes] = field(default_factory=list)
    others: dict[str, Any] = field(default_factory=dict)
    """Features that are no numbers, by name (`Schema.others`): times in seconds since 1970 (an
    array, NaN where there is none); truth values, categories and texts as they came, None or an
    empty text where there is none."""

    def __post_init__(self) -> None:
        if len(self.known) != len(self.rows):
            self.known = np.ones(len(self.rows), bool)

    def part(self, which: Any) -> Block:
        """Return some of the good rows, as a block of their own."""
        at = np.arange(len(self.rows))[which]
        return Block(
            self.first, self.count, self.rows[at], self.X[at], self.position,
            y=None if self.y is None else self.y[at], known=self.known[at],
            time=None if self.time is None else self.time[at],
            stamps=None if self.stamps is None else [self.stamps[i] for i in at],
            keys=None if self.keys is None else [self.keys[i] for i in at],
            ids=None if self.ids is None else [self.ids[i] for i in at],
            others={name: _picked(column, at) for name, column in self.others.items()},
        )  # fmt: skip

    def raw(self, features: list[str]) -> Raw:
        """Return the rows as a table, by the names of the numbers' columns; see `Schema.plan`."""
        numbers = [self.X[:, j] for j in range(len(features))]
        names = [*features, *self.others]
        return Raw(names, [*numbers, *self.others.values()], len(self.rows))


def _picked(column: Any, at: Array) -> Any:
    return column[at] if isinstance(column, np.ndarray) else [column[i] for i in at]


def without(block: Block, refused: dict[int, str]) -> Block:
    """Return a block in which some good rows, by their places, have joined the bad ones.

    Examples
    --------
    >>> import numpy as np
    >>> block = Block(5, 2, np.array([5, 6]), np.zeros((2, 1)), {"row": 7}, lines=[6, 7])
    >>> left = without(block, {1: "too large"})
    >>> left.rows.tolist(), left.bad
    ([5], [Bad(row=6, line=7, reason='too large', text='')])
    """
    if not refused:
        return block
    left = block.part(np.array([i for i in range(len(block.rows)) if i not in refused], np.int64))
    bad = [_bad(block, int(block.rows[i]), why) for i, why in refused.items()]
    left.bad = sorted([*block.bad, *bad], key=lambda b: b.row)
    return left


def _bad(block: Block, row: int, why: str) -> Bad:
    at = row - block.first
    line = block.lines[at] if block.lines else row + 1
    return Bad(row, line, why, beginning(block.texts[at]) if block.texts else "")


def beginning(text: bytes) -> str:
    """Return how a row begins, as text whatever it holds."""
    return text[:SHOWN].decode("utf-8", "backslashreplace")


MOST, LEAST, NUMBERS = 16384, 1024, 2**17
"""Rows in a block, and how many numbers they should be at most."""
ROOM = 2**24
"""How many numbers they are at most, however few rows that makes: 128 MiB."""


def rows_for(features: int) -> int:
    """Return how many rows a block has by default: many, unless rows are wide.

    Examples
    --------
    >>> rows_for(2), rows_for(8), rows_for(9), rows_for(784)
    (16384, 16384, 8192, 1024)
    """
    rows = MOST
    while rows > LEAST and rows * features > NUMBERS:
        rows //= 2
    return rows


def most_rows(features: int) -> int:
    """Return how many rows a block has at most, whoever asks for more: few, where rows are huge.

    Examples
    --------
    >>> most_rows(8), most_rows(16384), most_rows(100_000), most_rows(10**9)
    (2097152, 1024, 167, 1)
    """
    return max(ROOM // max(features, 1), 1)


EARLY = 64
"""The first block; the next ones double, so that a model is soon there to explain with."""


def next_cut(row: int, size: int) -> int:
    """Return where the block that starts at `row` ends: a fixed number, however one got there.

    64, 128, 256, … up to `size`, then its multiples.

    Examples
    --------
    >>> [next_cut(row, 1024) for row in (0, 64, 70, 1000, 1024, 3000)]
    [64, 128, 128, 1024, 2048, 3072]
    """
    if row >= size:
        return (row // size + 1) * size
    cut = EARLY
    while cut <= row:
        cut *= 2
    return min(cut, size)
