"""Tables of a report: alerts, labels beside predictions, the settings that matter."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from typing import Any

from onkel.app.run.counters import LABELS, OTHERS, Labels
from onkel.app.run.differing import option_of
from onkel.app.run.session import Session
from onkel.app.run.settings import RunSettings
from onkel.explain import one_in

ALERTS, AT_ONCE = 200, 20
"""Rows of the table, and how many of them are seen before more are asked for."""
LONG = 20
"""What is no longer stays in one line; times are not."""


def _folded(head: list[str], rows: list[str], seen: int) -> str:
    """Return a table of which some rows are seen, and the others when they are asked for."""
    seen = min(seen, AT_ONCE)
    shown = _table(head, rows[:seen])
    if len(rows) > seen:
        rest = _table(head, rows[seen:])
        shown += f"<details><summary>{len(rows) - seen:,} more</summary>{rest}</details>"
    return shown


def gap_words(settings: RunSettings) -> str:
    """Return how far alerts of one incident are apart at most."""
    if isinstance(settings.gap, str):
        return settings.gap
    return f"{settings.gap:,} row{'s' * (settings.gap != 1)}"


def alerts(session: Session) -> str:
    """Return the latest alerts, newest first."""
    latest = session.counters.latest[::-1][:ALERTS]
    if not latest:
        return ""
    rare, held = session.settings.tells_p, session.counters.held_back
    shown = session.counters.alerts - held
    given = [name for name in ("time", "key") if any(a.get(name) is not None for a in latest)]
    head = ["row", *given, *(["how rare"] if rare else []), "incident", "why"]
    rows = [_row(head, _alert(a, given, rare)) for a in latest]
    text = "Newest first." if len(latest) >= shown else (
        f"The latest {len(latest):,} of {shown:,}, newest first; the output has all."
    )  # fmt: skip
    text += f" A cool-down has held back {held:,} more." if held else ""
    return section("alerts", "Alerts", text, _folded(head, rows, AT_ONCE))


def _alert(alert: dict[str, Any], given: list[str], rare: bool) -> list[str]:
    cells = [f"{alert['row']:,}"]
    told = [str(alert.get(name) or "") for name in given]
    cells += [f'<span class="{broken(text)}">{escape(text)}</span>' for text in told]
    if rare:
        text = one_in(alert["score"])
        cells.append(f'<b class="{broken(text)}">{text}</b>')
    return [*cells, f"{alert['incident']:,}", escape(alert.get("why") or "")]


def broken(text: str) -> str:
    """Return the class of a cell that stays in one line, unless it took the reasons' room."""
    return "long" if len(text) > LONG else "nowrap"


def confusion(labels: Labels, blind: int) -> str:
    """Return how often each label was predicted for each; `blind` rows had no prediction."""
    if not labels.table:
        return ""
    names = _ordered({*labels.table, *(n for row in labels.table.values() for n in row)})
    rows, head = [], ["it was", *(f"predicted {escape(n)}" for n in names), "rows", "right"]
    for name in names:
        row = labels.table.get(name, {})
        total, right = sum(row.values()), row.get(name, 0)
        cells = [_count(row.get(n, 0), n == name != OTHERS) for n in names]
        share = f"{right / total:.1%}" if total and name != OTHERS else "–"
        rows.append(_row(head, [f"<b>{escape(name)}</b>", *cells, f"{total:,}", share]))
    text = "Rows by the label that came (down) and the one that was predicted before (across)."
    if blind:
        text += (
            f" {blind:,} row{'s' * (blind != 1)} with a label came before any label was known, and "
            f"{'are mistakes' if blind != 1 else 'is a mistake'}, too."
        )
    if OTHERS in names:
        text += (
            f" Labels that came after the first {LABELS} are together, as {OTHERS}: of them it is "
            "not known here how many were right."
        )
    return section("labels", "Labels, predicted and true", text, _table(head, rows, "matrix"))


def _ordered(names: set[str]) -> list[str]:
    """Return labels in their order, whole numbers by size; what came late is the last.

    Examples
    --------
    >>> _ordered({"10", "9", "(others)"}), _ordered({"10", "9", "a"})
    (['9', '10', '(others)'], ['10', '9', 'a'])
    """
    own = names - {OTHERS}
    numbers = all(name.removeprefix("-").isdecimal() for name in own)
    return [*sorted(own, key=int if numbers else None), *(names & {OTHERS})]


def _count(count: int, right: bool) -> str:
    return f"<b>{count:,}</b>" if right else f"{count:,}" if count else "·"


def settings(session: Session) -> str:
    """Return the settings that matter: the model, what was promised, and what was asked for."""
    own, roles = session.settings, session.source.schema.roles
    rows = [("model", repr(own.estimator()), "")]
    if own.promised is not None:
        given = "by default" if own.nu is None else "--nu"
        what = "alerts, of usual rows" if own.tells_p else "alerts"
        kind = what if own.task == "detect" else "targets outside their intervals"
        rows.append(("promised", f"{own.promised:.3g}", f"share of {kind}; {given}"))
    for role in ("target", "time", "key"):
        if getattr(roles, role) is not None:
            rows.append((role, str(getattr(roles, role)), f"--{role}"))
    if own.task == "detect":
        rows.append(("incident gap", gap_words(own), "--incident-gap"))
    usual = {field.name: field.default for field in fields(RunSettings)}
    told = {"nu", "task", "model", "timed", "incident_gap", "output_format", "threads", *_INSIDE}
    told |= {"lags"} if session.source.schema.others else set()  # rows of tables are no series
    for name, value in vars(own).items():
        if name not in told and value != usual[name] and value is not None:
            option = option_of(name)
            rows.append((option.strip("-").replace("-", " "), _said(value), option))
    return "\n".join(
        f'<tr><th scope="row">{escape(n)}</th><td>{escape(v)}</td><td>{escape(w)}</td></tr>'
        for n, v, w in rows
    )


_INSIDE = ("kernel", "loss", "rule", "support")
"""What the model's own words tell."""


def _said(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(
        value
    )  # fmt: skip


def section(name: str, title: str, text: str, body: str) -> str:
    """Return a section of the page."""
    return f'<section id="{name}"><h2>{title}</h2><p>{text}</p>{body}</section>'


def _table(head: list[str], rows: list[str], kind: str = "told") -> str:
    cells = "".join(f"<th>{name}</th>" for name in head)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{cells}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(head: list[str], cells: list[str]) -> str:
    """Return a row; on a narrow screen each cell says what it is."""
    pairs = zip(head, cells, strict=True)
    found = (f'<td data-is="{name}">{cell}</td>' for name, cell in pairs)
    return f"<tr>{''.join(found)}</tr>"
