"""Rows that a run could not learn from: how many, why, and which option may help."""

from __future__ import annotations

import re
import shlex
from typing import Any

from onkel.app.run.counters import Counters

AT_MOST = 0.05
"""A larger share of broken rows ends a run with a code of its own; one of rows without a label is
worth a warning."""

_HELPS = (
    (r"columns where \d+ were expected|not readable as cells",
     "--delimiter CHAR tells what stands between the cells, --no-header that the first line has no "
     "names."),
    (r"not UTF-8", "convert the file: iconv -f ENCODING -t UTF-8 FILE | onkel … -"),
    (r"column (?P<name>.+): .* is no time|column (?P<other>.+): no time",
     "--time-format tells how the times are written, where --time names the right column."),
    (r"time runs backwards",
     "sort the rows by their time, or give --memory and --pending as numbers of rows."),
    (r"\(--missing skip\)", "--missing mean takes such a row, with the column's mean."),
    (r"bytes is too long", "--longest BYTES takes longer lines."),
    (r"column (?P<name>.+): .*(is no number|a number was expected)",
     "--ignore {name} leaves that column out."),
    (r"no key", "--key names a column that every row has a value in."),
    (r"not JSON|an object was expected", "--format tells what the file is."),
)  # fmt: skip
"""Reasons, and what may help."""


def helps(reasons: list[str], target: str | None = None) -> list[str]:
    """Return what may help against broken rows, by their reasons.

    Examples
    --------
    >>> helps(["line 3: column 'a b': 'x' is no number", "line 4: not UTF-8 at byte 0"])[0]
    "--ignore 'a b' leaves that column out."
    """
    found = [_help(reason, target) for reason in reasons]
    return list(dict.fromkeys(words for words in found if words))


def _help(reason: str, target: str | None) -> str:
    for pattern, words in _HELPS:
        match = re.search(pattern, reason)
        if match is None:
            continue
        name = (match.groupdict().get("name") or "").strip("'\"")
        if "{name}" in words and name == target:
            return "onkel classify predicts labels, onkel regress numbers."
        return words.format(name=shlex.quote(name))
    return ""


def share(counters: Counters) -> float:
    """Return which share of the rows was broken."""
    return counters.broken / counters.rows if counters.rows else 0.0


def broken(counters: Counters) -> str:
    """Return how many rows were broken, and which share that is."""
    rate = f"{100 * share(counters):.3g} %"
    were = "was" if counters.broken == 1 else "were"
    return f"{counters.broken:,} of {rows_of(counters.rows)} {were} broken ({rate})"


def rows_of(count: int) -> str:
    """Return a number of rows.

    Examples
    --------
    >>> rows_of(1), rows_of(1200)
    ('1 row', '1,200 rows')
    """
    return f"{count:,} row{'s' * (count != 1)}"


def first_ones(counters: Counters, most: float, target: str | None) -> str:
    """Return how many rows were broken, whether too many, the first ones, and what may help."""
    over = f", more than --broken-at-most {most:g}" if share(counters) > most else ""
    first = "".join(f"\n  {words}" for words in counters.first_broken)
    more = "".join(f"\n{words}" for words in helps(counters.first_broken, target))
    return f"{broken(counters)}{over}. The first:{first}{more}"


def too_many(counters: Counters, most: float, target: str | None) -> str:
    """Return what to say of more broken rows than were allowed; nothing, if they are fewer."""
    if not share(counters) > most:
        return ""
    words = first_ones(counters, most, target)
    if counters.broken == counters.rows:
        return words
    return f"{words}\nThe others were learned, and what came of them is written."


def unlabelled(summary: dict[str, Any], task: str, target: str | None) -> str:
    """Return how many rows had nothing to learn, and of many why; nothing, if all had.

    Examples
    --------
    >>> unlabelled({"unlabelled": 1, "rows": 100}, "classify", "y")
    '1 of 100 rows had no label and was predicted only'
    """
    if not summary.get("unlabelled"):
        return ""
    what, count = "label" if task == "classify" else "target", summary["unlabelled"]
    were = "was" if count == 1 else "were"
    words = f"{count:,} of {rows_of(summary['rows'])} had no {what} and {were} predicted only"
    if not many_unlabelled(summary):
        return words
    word = "of --missing-label" if task == "classify" else "for nothing such as NA"
    return f"{words}: their column {target!r} is empty, or holds a word {word}"


def pending(summary: dict[str, Any]) -> str:
    """Return what became of rows whose targets come late; nothing, where none do.

    Examples
    --------
    >>> pending({"pending": {"answered": 5, "waiting": 1, "expired": 0, "asked": 0}})
    '5 targets came later than their rows; 1 row waits for its own'
    """
    held = summary.get("pending")
    if not held:
        return ""
    came = f"{held['answered']:,} target{'s' * (held['answered'] != 1)} came later than "
    words = [came + ("its row" if held["answered"] == 1 else "their rows")]
    wait = "waits for its own" if held["waiting"] == 1 else "wait for theirs"
    words.append(f"{rows_of(held['waiting'])} {wait}")
    if held["expired"]:
        words.append(f"{rows_of(held['expired'])} expired without one")
    if held["asked"]:
        words.append(f"the targets of {rows_of(held['asked'])} were asked for")
    return "; ".join(words)


def many_unlabelled(summary: dict[str, Any]) -> bool:
    """Whether so many rows had nothing to learn that it is worth a warning."""
    return bool(summary.get("unlabelled", 0) > AT_MOST * summary["rows"])
