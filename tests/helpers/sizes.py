"""How much the tests do: little in ``make test``, all of it in ``make test-all`` (ONKEL_LONG=1).

A quick run has four minutes of processor time for everything. What it leaves out is chosen:

- ``size(20, 100)``: fewer rows, rounds, deaths. Enough that what the test is about still happens:
  the ring turns, alerts come. Assert it where rows could become too few.
- ``some(cases)``: of a table of cases, enough that each level of each factor occurs.
- ``@pytest.mark.few`` above stacked ``parametrize``: of their product, enough that each value of
  each occurs, along a diagonal; ``few(2)``: twice each. Nothing else is to be written.
- ``@pytest.mark.long``: the long run alone has it. A cheaper test should see the same code.

With ONKEL_LONG=1 nothing is left out. So many tests take so little each that it is sums that count:
a table of thirty cases at 50 ms is as dear as one test of a second and a half.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from onkel import core

T = TypeVar("T")

LONG = os.environ.get("ONKEL_LONG", "") not in ("", "0")
WHY_NOT = "long: make test-all runs it (ONKEL_LONG=1: here too)"
"""Why a test is skipped that takes longer than what ``make test`` has."""


def size(quick: T, long: T, plain: T | None = None) -> T:
    """Return the first in a quick run, the second in a long one.

    `plain` is for a long run in plain NumPy: fewer rows where a loop over them takes its time, or
    where the long run of the compiled core has been through both.
    """
    if LONG and plain is not None and not core.has_lane():
        return plain
    return long if LONG else quick


def some(
    cases: Iterable[T],
    times: int = 2,
    levels: Callable[[T], Iterable[Any]] = lambda case: case.items(),
) -> list[T]:
    """Return all cases in a long run, else enough of them that each level occurs so often.

    A level is what ``levels`` tells of a case: of a dict, each name with its value. In a long run
    in plain NumPy each occurs three times as often: the compiled core's goes through all of them.
    """
    found = list(cases)
    if LONG and core.has_lane():
        return found
    kept = cover([[*map(repr, levels(case))] for case in found], times * size(1, 3))
    return [case for place, case in enumerate(found) if place in kept]


def cover(cases: Sequence[Iterable[Hashable]], times: int = 1) -> set[int]:
    """Return the places of few cases, in which each level that occurs at all occurs so often.

    Each time the case goes in that brings most of what is missing, then the one whose levels were
    seen least, then the first: of a product, a diagonal.
    """
    levels = [set(case) for case in cases]
    there = Counter(level for case in levels for level in case)
    seen: Counter[Hashable] = Counter()
    kept: set[int] = set()

    def worth(place: int) -> tuple[int, int, int]:
        missing = sum(seen[level] < min(times, there[level]) for level in levels[place])
        return -missing, sum(seen[level] for level in levels[place]), place

    while any(seen[level] < min(times, there[level]) for level in there):
        best = min((place for place in range(len(levels)) if place not in kept), key=worth)
        kept.add(best)
        seen.update(levels[best])
    return kept
