"""Rows that a model refuses: left out and told of, while the others are learned.

A refusal names its row. The rows before it are learned in a call, it is left out, and what follows
is tried in calls that double in length: each row is tried twice at most, however many are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onkel.app.run.counting import Counting, Finish
from onkel.inputs import RefusedRow
from onkel.judge import Columns, Halted
from onkel.streams.sources import Block

FIRST = 256
"""A quarter of this, or of what was tried, is tried at once after a refusal; then the double."""


@dataclass
class Sifted:
    """What came of a block.

    Examples
    --------
    >>> Sifted([lambda: {"a": [1]}, lambda: {"a": [2, 3]}]).finish()
    {'a': [1, 2, 3]}
    """

    pieces: list[Finish] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    """Places among the good rows, with the reasons."""

    def finish(self) -> Columns:
        """Return the columns of the rows that were not refused."""
        found = [piece() for piece in self.pieces]
        if len(found) < 2:
            return found[0] if found else {}
        return {name: _joined([columns[name] for columns in found]) for name in found[0]}


def sift(counting: Counting, model: Any, block: Block) -> Sifted:
    """Judge and learn a block but for the rows that the model refuses."""
    found, start, reach, count = Sifted(), 0, len(block.rows), len(block.rows)
    ends = [count]  # refused rows that are still ahead, the nearest last
    while start < count:
        if start == ends[-1]:
            start = ends.pop() + 1
            continue
        stop = min(start + reach, ends[-1])
        try:
            whole = (start, stop) == (0, count)
            piece = block if whole else block.part(slice(start, stop))
            found.pieces.append(counting(model, piece))
            start, reach = stop, 2 * reach
        except RefusedRow as error:
            ends.append(start + error.row)
            found.refused[ends[-1]] = reason_of(error)
            reach = max(min(FIRST, stop - start) // 4, 1)
            if isinstance(error, Halted) and error.learned:
                found.pieces.append(error.found)
                start += error.learned
    return found


def reason_of(error: RefusedRow) -> str:
    """Return why a row was refused, without its number in the call.

    Examples
    --------
    >>> reason_of(RefusedRow("Row 3: k(x, x) is not finite.", 3))
    'k(x, x) is not finite.'
    """
    return re.sub(r"^Row \d+(: |, )", "", str(error))


def _joined(parts: list[Any]) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [value for part in parts for value in part]
