"""Tables in plain loops: codes, word sets, circles, counts. Imports nothing of the package."""

from __future__ import annotations

import datetime
import math
import re
import zlib
from typing import Any


def code(value: Any) -> int:
    """A value's code: 0 where there is none, else a hash of its text below 2**24."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return 0
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    return 1 + zlib.crc32(text.encode()) % (2**24 - 1)


def words(text: str) -> set[str]:
    """The words of a text, any digit a 0."""
    return set(re.findall(r"\w+", re.sub(r"\d", "0", text.lower())))


def places(text: str, many: int) -> list[int]:
    """A code in each place: the smallest of the words that want it, 0 where none does."""
    found = [0] * many
    for word in words(text):
        rest, place = divmod(zlib.crc32(word.encode()), many)
        code = 1 + rest % (2**24 - 1)
        found[place] = min(found[place] or code, code)
    return found


def circles(when: datetime.datetime) -> list[float]:
    """Days since 2000, and points on the circles of the day and the week."""
    start = datetime.datetime(2000, 1, 1)
    days = (when - start).total_seconds() / 86400
    found = [days]
    for part in (days % 1, ((days - 2) % 7) / 7):
        found += [math.cos(2 * math.pi * part), math.sin(2 * math.pi * part)]
    return found


def rarities(values: list[Any]) -> list[float]:
    """How rare each value was when it came: log((1 + rows) / (1 + times seen)) - log 2, or 0."""
    counts: dict[Any, int] = {}
    found = []
    for i, value in enumerate(values):
        found.append(max(math.log((1 + i) / (1 + counts.get(value, 0)) / 2), 0.0))
        counts[value] = counts.get(value, 0) + 1
    return found


def answered_rarities(rows: list[list[Any]], said: list[dict[str, Any]]) -> list[float]:
    """The same of rows of words (one: a category), after what answers have said of values.

    Each answer holds from row `first` to row `last`. A value of a fault is 14; of what was usual a
    word is no rarer than `level` + log 2, before log 2 is taken off of the mean. The last counts.
    """
    counts: dict[Any, int] = {}
    found = []
    for i, words in enumerate(rows):
        each, fault = [], False
        for word in words:
            rare = math.log((1 + i) / (1 + counts.get(word, 0)))
            known = [s for s in said if word in s["values"] and s["first"] <= i]
            if known and i <= known[-1]["last"]:
                fault = fault or not known[-1]["usual"]
                rare = min(rare, known[-1]["level"] + math.log(2))
            each.append(rare)
        found.append(14.0 if fault else max(sum(each) / len(each) - math.log(2), 0.0))
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    return found


def seldom(rows: list[list[Any]], i: int, share: float) -> set[Any]:
    """The values of row i that had come in no more than such a share of the rows before it."""
    return {w for w in rows[i] if sum(w in row for row in rows[:i]) <= share * i}
