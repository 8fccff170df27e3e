"""What came of a replay: as JSON, and as a table for a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from onkel.app.replay.compare import FIRST

FORMAT = 1
"""Of the JSON: it grows by fields that are new, and never otherwise within a number."""
WIDTH = 100


def as_json(found: dict[str, Any]) -> str:
    """Return everything as JSON."""
    return json.dumps(found, ensure_ascii=False)


def as_text(found: dict[str, Any]) -> str:
    """Return the numbers of each setting as a table, then the first alerts that differ."""
    parts = [lead(found), table(rows_of(found["settings"]))]
    for one in found["settings"][1:]:
        parts += [listed(one, kind) for kind in ("gone", "new") if one[kind]]
    return "\n\n".join(parts)


def lead(found: dict[str, Any]) -> str:
    """Return what was replayed, in words."""
    words = f"{found['rows']:,} rows of {found['source']}"
    if found["keys"] is not None:
        words += f", of these the keys {', '.join(found['keys'])}"
    if found["since"] is not None:
        words += f"; compared since {found['since']}"
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
    answers = [*dict.fromkeys(a for one in settings for a in one.get("answered", ()))]
    head = ["setting", "rows", "alerts", "rate", "incidents", "still", "gone", "new"]
    rows = [head + [f"answered {answer}" for answer in answers]]
    for one in settings:
        numbers = [one.get(name) for name in ("incidents", "still", "gone", "new")]
        cells = [one["name"], f"{one['rows']:,}", f"{one['alerts']:,}", rate(one["rate_realised"])]
        cells += ["" if n is None else f"{n:,}" for n in numbers]
        told = one.get("answered", {})
        rows.append(cells + [f"{told[a]['shown']} of {told[a]['of']}" for a in answers])
    return rows


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
    alerts, count = one[f"first_{kind}"], one[kind]
    which = f"the first {FIRST} of {count:,}" if count > len(alerts) else f"{count:,}"
    rows = [[_place(a), _rare(a), a.get("why", "")] for a in alerts]
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    lines = [
        f"  {place.ljust(widths[0])}  {rare.ljust(widths[1])}  {why}".rstrip()
        for place, rare, why in rows
    ]
    return "\n".join([f"{one['name']}: {kind}, {which}", *(_short(line) for line in lines)])


def _place(alert: dict[str, Any]) -> str:
    words = [f"row {alert['row']:,}", *(str(alert[n]) for n in ("time", "key") if n in alert)]
    return "  ".join(words)


def _rare(alert: dict[str, Any]) -> str:
    return f"p {alert['p']:.2g}" if "p" in alert else f"score {alert['score']:.3g}"


def _short(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
