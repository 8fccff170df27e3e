"""How much the tests do: little in ``make test``, all of it in ``make test-all`` (ONKEL_LONG=1)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
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
    times *= size(1, 3)
    seen: Counter[str] = Counter()
    kept = []
    for case in found:
        shown = [repr(level) for level in levels(case)]
        if any(seen[level] < times for level in shown):
            seen.update(shown)
            kept.append(case)
    return kept
