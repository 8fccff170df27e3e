"""What a row is unusual by: numbers outside of their ranges, else a gap, a pair, a step, a mean.

A range is that of the stored rows: from the 5 to the 95 % quantile of those that are alike in the
other features. A number is named by itself only if it lies outside of that and of the range of all
stored rows. One that is outside of the first alone is usual by itself: then it is a pair, if there
is another number such that rows like it there were not like it here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.explain.effects import quantiles, sharpened
from onkel.explain.outcome import Pattern, beside, is_outside
from onkel.explain.shown import name_of

Array = NDArray[Any]
Range = tuple[float, float]

USUAL = (0.05, 0.95)
FIRST, PARTNERS = 4, 6
"""So many features are tried as the first of a pair, and so many others with each."""
GAP = 0.1
"""A gap is no less than this share of a feature's range."""
SAME = 1e-5
"""What is no farther apart than this share of a feature's range is the same but for rounding."""

TOLD = 1e70
"""Numbers beyond are told in no pattern: a detector of densities cuts them at 1e75."""


@dataclass
class Sample:
    """Stored rows, a row beside them, and what is known of its features.

    Parameters
    ----------
    values : function
        From the number of a feature to its values in all stored rows.
    weight : array
        Of the stored rows.
    row : array
        That is explained.
    usual : dict
        Of the features that were looked at: their ranges in stored rows that are alike otherwise.
    effect : array
        By how much each feature moved the score.
    score, limit : float
        Below the limit a row is an alert.
    plain : sequence of int, optional
        Features that are numbers of their own; None: all.
    """

    values: Callable[[int], Array]
    weight: Array
    row: Array
    usual: dict[int, Range]
    effect: Array
    score: float
    limit: float
    plain: Sequence[int] | None = None
    _ranges: dict[int, Range] = field(default_factory=dict)

    def all_range(self, j: int) -> Range:
        """Return the range of a feature over all stored rows."""
        if j not in self._ranges:
            low, high = quantiles(self.values(j), self.weight, USUAL)
            self._ranges[j] = low, high
        return self._ranges[j]

    def numbers(self) -> list[int]:
        """Return the features that were looked at and are numbers, by their effects."""
        own = [j for j in self.usual if self.plain is None or j in self.plain]
        return sorted(own, key=lambda j: (float(self.effect[j]), j))

    def outside(self) -> list[int]:
        """Return the numbers outside of their ranges, by their effects."""
        return [j for j in self.numbers() if self._alone(j)]

    def _alone(self, j: int) -> bool:
        value = float(self.row[j])
        return is_outside(value, self.usual[j]) and is_outside(value, self.all_range(j))

    def helps(self, j: int) -> bool:
        """Whether the row would be no alert, or half the way to it, had a feature agreed."""
        gain = -float(self.effect[j])
        return gain > 0 and gain >= 0.5 * (self.limit - self.score)

    def explains(self, j: int) -> bool:
        """Whether a number outside of its range explains the row, and none did twice as much."""
        most = float(self.effect[self.numbers()[0]])
        return self.helps(j) and not most < 2 * float(self.effect[j])

    # -- patterns ----------------------------------------------------------------------------------

    def gap(self, names: Any) -> Pattern | None:
        """Return a number that lies within its range, where no stored row does."""
        for j in [j for j in self.numbers() if self.helps(j)][:FIRST]:
            found = self._gap(j)
            if found is not None:
                value, name = float(self.row[j]), name_of(names, j)
                shown, hole = beside_gap(value, found)
                said = f"mostly through {name} {shown}, where no row kept lies {hole}"
                return Pattern("gap", (name,), value, found, said, self._without(j))
        return None

    def _gap(self, j: int) -> Range | None:
        """Return the nearest stored values about a number, where they are far apart."""
        value, known, (low, high) = float(self.row[j]), self.values(j), self.all_range(j)
        if not low < value < high:
            return None
        if high <= low or np.any(np.abs(known - value) <= SAME * (high - low)):
            return None
        below, above = known[known < value], known[known > value]
        found = float(below.max()), float(above.min())
        return found if found[1] - found[0] >= GAP * (high - low) else None

    def pair(self, names: Any) -> Pattern | None:
        """Return two numbers, each usual by itself, that are not usual together."""
        inside = [
            j for j in self.numbers()
            if is_told(float(self.row[j])) and not is_outside(float(self.row[j]), self.all_range(j))
        ]  # fmt: skip
        best: tuple[float, int, int, Range] | None = None
        for i in [j for j in inside if self.helps(j)][:FIRST]:
            for j in self._partners(i, inside):
                found = self._given(i, j)
                far = _far(float(self.row[i]), found)
                out = is_outside(float(self.row[i]), found) and is_told(*found)
                if out and (best is None or far > best[0]):
                    best = far, i, j, found
            if best is not None:
                break
        return None if best is None else self._said_pair(names, *best[1:])

    def _partners(self, i: int, inside: list[int]) -> list[int]:
        """Return the numbers that a number goes with most closely."""
        others = [j for j in inside if j != i]
        if len(others) <= PARTNERS:
            return others
        own = _ranked(self.values(i))
        tied = [abs(float(own @ _ranked(self.values(j)))) for j in others]
        return [others[k] for k in np.argsort(tied, kind="stable")[::-1][:PARTNERS].tolist()]

    def _given(self, i: int, j: int) -> Range:
        """Return the range of a number in stored rows that are alike in another one."""
        gaps = np.abs(self.values(j) - self.row[j])
        low, high = self.all_range(j)
        width = high - low if high > low else float(gaps.max()) or 1.0
        near = np.exp(-np.minimum(10.0 * gaps / width, 700.0))
        found = quantiles(self.values(i), sharpened(near, self.weight, 20.0), USUAL)
        return found[0], found[1]

    def _said_pair(self, names: Any, i: int, j: int, found: Range) -> Pattern:
        a, b = name_of(names, i), name_of(names, j)
        value, usual = beside(float(self.row[i]), found)
        other = beside(float(self.row[j]), self.all_range(j))[0]
        said = (
            f"mostly through {a} {value} and {b} {other}, each usual by itself, not together: "
            f"with this {b}, {a} was {usual}"
        )
        return Pattern("pair", (a, b), float(self.row[i]), found, said, self._without(i))

    def _without(self, j: int) -> float:
        return self.score - float(self.effect[j])


def moved(
    kind: str, value: Array, stored: Array, numbers: Sequence[int], names: Any
) -> Pattern | None:
    """Return the step from the row before, or the mean of late, that is farthest out of its range.

    `stored` are those that are kept, [rows][features]; `numbers` the features that count.
    """
    best: tuple[float, int, Range] | None = None
    for j in numbers:
        low, high = quantiles(stored[:, j], np.ones(len(stored)), USUAL)
        far = _far(float(value[j]), (low, high))
        out = is_outside(float(value[j]), (low, high)) and is_told(float(value[j]), low, high)
        if out and (best is None or far > best[0]):
            best = far, j, (low, high)
    if best is None:
        return None
    _, j, usual = best
    name, (shown, range_) = name_of(names, j), beside(float(value[j]), usual)
    said = f"through the mean of {name} over the last ten rows or so, {shown}"
    if kind == "step":
        said = f"through {name}, which changed by {shown} from one row to the next"
    said += f" where {range_} was usual"
    return Pattern(kind, (name,), float(value[j]), usual, said)


def is_told(*values: float) -> bool:
    """Whether numbers are so small that nothing of them was cut, nor of what they were made of."""
    return all(abs(v) < TOLD for v in values)


def beside_gap(value: float, gap: Range) -> tuple[str, str]:
    """Return a value and the gap about it in words; the value's digits lie inside of it."""
    for digits in range(3, 18):
        words = [f"{v:.{digits}g}" for v in (value, *gap)]
        if float(words[1]) < float(words[0]) < float(words[2]):
            break
    return words[0], f"between {words[1]} and {words[2]}"


def _far(value: float, usual: Range) -> float:
    """Return how far a value lies outside of a range, in units of its width."""
    beyond = max(usual[0] - value, value - usual[1], 0.0)
    width = usual[1] - usual[0]
    return beyond / width if width > 0 else np.inf if beyond > 0 else 0.0


def _ranked(values: Array) -> Array:
    """Return ranks about their mean, of length 1."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(float)
    ranks -= ranks.mean()
    return ranks / (float(np.sqrt(ranks @ ranks)) or 1.0)
