"""What came of a replay: as JSON, and as a table for a terminal."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from typing import Any

FORMAT = 1
"""Of the JSON: it grows by fields that are new, and never otherwise within a number."""
WIDTH = 100
ROOM = 24
"""Of a reason: where less is left for it in a line, it has its own."""


def as_json(found: dict[str, Any]) -> str:
    """Return everything as JSON."""
    return json.dumps(found, ensure_ascii=False)


def as_text(found: dict[str, Any]) -> str:
    """Return the numbers of each setting as tables, then the first alerts that differ."""
    settings = found["settings"]
    parts = [lead(found), table(rows_of(settings))]
    if has_answers(settings):
        parts.append(table(answers_of(settings)))
    if found["notes"]:
        parts.append("\n".join(map(_wrapped, found["notes"])))
    for one in settings[1:]:
        parts += [missed(one)] if one.get("faults_missed") else []
        parts += [listed(one, kind) for kind in ("gone", "new") if one[kind]]
    return "\n\n".join(parts)


def _wrapped(note: str) -> str:
    """Return a note in lines; names of files and keys stay whole."""
    return textwrap.fill(note, WIDTH, break_on_hyphens=False, break_long_words=False)


def lead(found: dict[str, Any]) -> str:
    """Return what was replayed, in words."""
    words = f"{found['rows']:,} rows of {found['source']}"
    if found["keys"] is not None:
        words += f", of these the key{'s' * (len(found['keys']) != 1)} {', '.join(found['keys'])}"
    if found["since"] is not None:
        row = "row " if found["since"].isdecimal() else ""
        words += f"; compared since {row}{found['since']}"
    return f"Replayed {words}. {_checked(found)}"


def _checked(found: dict[str, Any]) -> str:
    return {
        "same": "With its own settings the run's alerts came out again.",
        "differs": "With its own settings the run would have had OTHER alerts than its output has.",
        "unknown": (
            "The rows are those that the run has read, by their checksum." if found["checksum"]
            else "Whether these are the rows of the run could not be checked."
        ),
    }[found["output"]]  # fmt: skip


def rows_of(settings: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the table's cells, the heading first."""
    counts = [name for name in _COUNTS if any(name in one for one in settings)]
    rows = [["setting", "rows", "alerts", "rate", *(_COUNTS[name] for name in counts)]]
    for one in settings:
        cells = [one["name"], f"{one['rows']:,}", f"{one['alerts']:,}", rate(one["rate_realised"])]
        rows.append(cells + ["" if name not in one else f"{one[name]:,}" for name in counts])
    return rows


_COUNTS = {
    "held_back": "held back", "incidents": "incidents", "still": "still", "gone": "gone",
    "new": "new",
}  # fmt: skip
"""Numbers that not every setting has, and how the table calls them."""


def has_answers(settings: Sequence[dict[str, Any]]) -> bool:
    """Whether there is something to say of answers."""
    return any("answers_heard" in one for one in settings)


def answers_of(settings: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the cells of the table of answers, the heading first.

    Examples
    --------
    >>> one = {"name": "as it was", "answers_heard": 0, "precision_promised": 0.8,
    ...        "precision_realised": None}
    >>> print(table(answers_of([one])))
    answers    heard  precision  promised
    as it was      0                  0.8
    """
    answered = any("answered" in one for one in settings)
    head = ["answers", "heard", "precision", "promised"]
    rows = [head + (["usual shown", "faults shown", "precision shown"] if answered else [])]
    for one in settings:
        cells = [one["name"], f"{one['answers_heard']:,}", _share(one["precision_realised"]),
                 _share(one["precision_promised"])]  # fmt: skip
        if answered:
            cells += [f"{n['shown']:,} of {n['of']:,}" for n in one["answered"].values()]
            cells.append(_share(one["precision_shown"]))
        rows.append(cells)
    return rows


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def rate(value: float | None) -> str:
    """Return a rate as a person reads it.

    Examples
    --------
    >>> rate(0.01234), rate(0.0000123), rate(None)
    ('1.23 %', '0.0012 %', '')
    """
    return (
        "" if value is None else f"{100 * value:.3g} %" if value > 1e-4 else f"{100 * value:.2g} %"
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return columns beside each other: the first to the left, numbers to the right.

    Examples
    --------
    >>> print(table([["setting", "alerts"], ["as it was", "12"]]))
    setting    alerts
    as it was      12
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )


def listed(one: dict[str, Any], kind: str) -> str:
    """Return the first alerts that are gone, or new, one per line."""
    alerts = one[f"first_{kind}"]
    return _lines(f"{one['name']}: {kind}, {_which(alerts, one[kind])}", alerts)


def missed(one: dict[str, Any]) -> str:
    """Return the first faults that a setting would have missed, one per line."""
    alerts = one["first_missed"]
    head = f"{one['name']}: FAULTS MISSED, {_which(alerts, one['faults_missed'])}{altogether(one)}"
    return _lines(head, alerts, [beside(alert) for alert in alerts])


def altogether(one: dict[str, Any]) -> str:
    """Return of how many missed faults nothing comes at all, as the end of a sentence.

    Examples
    --------
    >>> altogether({"faults_missed": 8, "faults_missed_altogether": 3})
    '; of 3 nothing of the same incident comes'
    >>> altogether({"faults_missed": 1, "faults_missed_altogether": 0})
    '; another alert of the same incident comes'
    """
    count, lost = one["faults_missed"], one["faults_missed_altogether"]
    if not lost:
        return f"; {'of each ' * (count > 1)}another alert of the same incident comes"
    which = "it" if count == 1 else "all of them" if lost == count else f"{lost:,}"
    return f"; of {which} nothing of the same incident comes"


def beside(alert: dict[str, Any]) -> str:
    """Return what a setting shows of the incident that a missed fault belongs to."""
    row = alert["beside"]
    return "nothing comes" if row is None else f"row {row:,} comes"


def _which(alerts: Sequence[dict[str, Any]], count: int) -> str:
    return f"the first {len(alerts)} of {count:,}" if count > len(alerts) else f"{count:,}"


def _lines(head: str, alerts: Sequence[dict[str, Any]], more: Sequence[str] = ()) -> str:
    """Return a heading and a line for each alert, columns beside each other.

    Where long keys leave no room for the reason, it has a line of its own.
    """
    cells = [[_place(a), _rare(a)] for a in alerts]
    cells = [[*row, word] for row, word in zip(cells, more, strict=True)] if more else cells
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    wide = WIDTH - sum(widths) - 2 * (len(widths) + 1) < ROOM
    lines = []
    for row, a in zip(cells, alerts, strict=True):
        line, why = "  ".join(["", *map(str.ljust, row, widths)]), reason(a.get("why") or "")
        lines += [line.rstrip(), f"      {why}"] if wide and why else [f"{line}  {why}".rstrip()]
    return "\n".join([textwrap.fill(head, WIDTH), *map(_short, lines)])


def reason(why: str) -> str:
    """Return what a reason names, without how rare the row is, which stands beside it.

    Examples
    --------
    >>> reason("Alert: 1 in 250 is as unusual (alerts from 1 in 97), mostly through a 6.0 where …")
    'mostly through a 6.0 where …'
    >>> reason("Alert: 1 in 250 is as unusual (alerts from 1 in 97); no number of it …")
    'no number of it …'
    >>> reason("a 6.0 is 4.1 spreads above its mean.")
    'a 6.0 is 4.1 spreads above its mean.'
    """
    found = re.match(r"Alert: [^()]*\([^()]*\)[,;.] ", why)
    return why[found.end() :] if found else why


def _place(alert: dict[str, Any]) -> str:
    words = [f"row {alert['row']:,}", *(str(alert[n]) for n in ("time", "key") if n in alert)]
    return "  ".join(words)


def _rare(alert: dict[str, Any]) -> str:
    return f"p {alert['p']:.2g}" if "p" in alert else f"score {alert['score']:.3g}"


def _short(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
