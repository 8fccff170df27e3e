"""Reasons read as a person reads them: is what they say so on its face?"""

from __future__ import annotations

import re
from typing import Any

NUMBER = r"(-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf))"
RANGE = re.compile(rf"{NUMBER}(?: from one row to the next)? where {NUMBER}(?:–| to ){NUMBER} was")
SAME = re.compile(rf"{NUMBER}(?: from one row to the next)? where {NUMBER} was usual")
PAIR = re.compile(
    rf"mostly through (.+) {NUMBER} and (.+) {NUMBER}, each usual by itself, not together: "
    rf"with this (.+), (.+) was {NUMBER}(?:(?:–| to ){NUMBER})?"
)
GAP = re.compile(rf"{NUMBER}, where no row kept lies between {NUMBER} and {NUMBER}")
SPREADS = re.compile(rf"{NUMBER} spreads (above|below) (its mean|what|the mean|its own)")
ASIDE = ("row as a whole", "was answered as", "pieces were never seen", "nothing is stored yet")
"""What names no feature."""
RARE = ("was usual", "seen", "rare words", "missing", "without a word")


def false_in(words: str) -> str:
    """Return what a reason says that is wrong on its face; "" where nothing is."""
    found = [*_out_of_range(words), *_too_near(words)]
    pair = PAIR.search(words)
    if pair:
        a, value, b, _, other, first, low, high = pair.groups()
        if (a, b) != (first, other):
            found.append(f"{a} and {b} are not {first} and {other}")
        if float(low) <= float(value) <= float(high or low):
            found.append(f"{a} {value} is within {low} to {high}")
    for value, low, high in GAP.findall(words):
        if not float(low) < float(value) < float(high):
            found.append(f"{value} is not between {low} and {high}")
    return "; ".join(found)


def _out_of_range(words: str) -> list[str]:
    found = []
    for value, low, high in RANGE.findall(words):
        if float(low) <= float(value) <= float(high):
            found.append(f"{value} is within {low} to {high}")
    for value, usual in SAME.findall(words):
        if float(value) == float(usual):
            found.append(f"{value} is {usual}")
    return found


def _too_near(words: str) -> list[str]:
    least = {"its mean": 2.0}
    return [
        f"{z} spreads are few"
        for z, _, of in SPREADS.findall(words)
        if float(z) <= least.get(of, 3.0)
    ]


def names_something(words: str) -> bool:
    """Whether a reason names what is unusual, or says that it is the row as a whole."""
    known = (RANGE, SAME, PAIR, GAP, SPREADS)
    return any(p.search(words) for p in known) or any(w in words for w in (*ASIDE, *RARE))


def kind_of(words: str) -> str:
    """Return what a reason names: one or more numbers, a pair, a pattern, the whole row."""
    if "not together" in words:
        return "pair"
    if any(w in words for w in ("from one row", "over the last ten rows", "no row kept")):
        return "pattern"
    return "whole row" if "row as a whole" in words else "single"


def all_true(why: Any) -> None:
    """Assert that none of these reasons is wrong, or missing."""
    for words in why:
        assert words and names_something(words) and not false_in(words), (words, false_in(words))
