"""Tables of a report: incidents, alerts, labels beside predictions, the settings that matter."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from typing import Any

from onkel.app.report.scores import told_of
from onkel.app.run.counters import Labels
from onkel.app.run.session import Session
from onkel.app.run.settings import RunSettings
from onkel.explain import one_in

INCIDENTS, ALERTS, AT_ONCE = 100, 200, 20
"""Rows of the tables, and how many of them are seen before more are asked for."""


def incidents(session: Session) -> str:
    """Return the incidents as a section: the largest first."""
    known, count = told_of(session)[:INCIDENTS], session.counters.incidents
    if not known:
        return ""
    several, keyed = sum(one["alerts"] > 1 for one in known), any("keys" in one for one in known)
    of = " of their key" if keyed and isinstance(session.settings.gap, int) else ""
    text = (
        f"Alerts at most {_gap(session.settings)}{of} apart are one incident. Those with most "
        f"alerts come first; {several:,} of these have more than one."
    )
    if count > len(known):
        text += f" The table has {len(known):,} of {count:,}; --incidents FILE writes all."
    timed = session.settings.timed
    head = ["incident", "began", *(["lasted"]), "alerts", *(["keys"] if keyed else []), "what"]
    rows = [_row(head, _incident(one, timed, keyed)) for one in known]
    return _section("incidents", "Incidents", text, _folded(head, rows, several or AT_ONCE))


def _folded(head: list[str], rows: list[str], seen: int) -> str:
    """Return a table of which some rows are seen, and the others when they are asked for."""
    seen = min(seen, AT_ONCE)
    shown = _table(head, rows[:seen])
    if len(rows) > seen:
        rest = _table(head, rows[seen:])
        shown += f"<details><summary>{len(rows) - seen:,} more</summary>{rest}</details>"
    return shown


def _gap(settings: RunSettings) -> str:
    if isinstance(settings.gap, str):
        return settings.gap
    return f"{settings.gap:,} row{'s' * (settings.gap != 1)}"


def _incident(one: dict[str, Any], timed: bool, keyed: bool) -> list[str]:
    state = " (open)" if one["state"] == "open" else ""
    began = escape(str(one["start"])) if timed else f"row {one['start_row']:,}"
    cells = [f"{one['incident']:,}{state}", f'<span class="nowrap">{began}</span>']
    cells += [f'<span class="nowrap">{escape(one["lasted"])}</span>', f"{one['alerts']:,}"]
    if keyed:
        names = one.get("key_names", [])
        more = f" and {one['keys'] - 3:,} more" if one.get("keys", 0) > 3 else ""
        cells.append(escape(", ".join(map(str, names[:3]))) + more)
    return [*cells, escape(one["words"])]


def alerts(session: Session) -> str:
    """Return the latest alerts, newest first."""
    latest = session.counters.latest[::-1][:ALERTS]
    if not latest:
        return ""
    rare, total = session.settings.tells_p, session.counters.alerts
    given = [name for name in ("time", "key") if any(a.get(name) is not None for a in latest)]
    head = ["row", *given, *(["how rare"] if rare else []), "incident", "why"]
    rows = [_row(head, _alert(a, given, rare)) for a in latest]
    text = "Newest first." if len(latest) >= total else (
        f"The latest {len(latest):,} of {total:,}, newest first; the output has all"
        f"{' that were shown' if session.counters.held_back else ''}."
    )  # fmt: skip
    return _section("alerts", "Alerts", text, _folded(head, rows, AT_ONCE))


def _alert(alert: dict[str, Any], given: list[str], rare: bool) -> list[str]:
    cells = [f"{alert['row']:,}"]
    cells += [f'<span class="nowrap">{escape(str(alert.get(n) or ""))}</span>' for n in given]
    if rare:
        cells.append(f'<b class="nowrap">{one_in(alert["score"])}</b>')
    return [*cells, f"{alert['incident']:,}", escape(alert.get("why") or "")]


def confusion(labels: Labels) -> str:
    """Return how often each label was predicted for each."""
    if not labels.table:
        return ""
    names = sorted({*labels.table, *(n for row in labels.table.values() for n in row)})
    rows, head = [], ["it was", *(f"predicted {escape(n)}" for n in names), "rows", "right"]
    for name in names:
        row = labels.table.get(name, {})
        total, right = sum(row.values()), row.get(name, 0)
        cells = [_count(row.get(n, 0), n == name) for n in names]
        share = f"{right / total:.1%}" if total else "–"
        rows.append(_row(head, [f"<b>{escape(name)}</b>", *cells, f"{total:,}", share]))
    text = "Rows by the label that came (down) and the one that was predicted before (across)."
    return _section("labels", "Labels, predicted and true", text, _table(head, rows, "matrix"))


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
        rows.append(("incident gap", _gap(own), "--incident-gap"))
    usual = {field.name: field.default for field in fields(RunSettings)}
    told = {"nu", "task", "model", "timed", "incident_gap", "output_format", "threads", *_INSIDE}
    for name, value in vars(own).items():
        if name not in told and value != usual[name] and value is not None:
            rows.append((name.replace("_", " "), _said(value), _option(name)))
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


def _option(name: str) -> str:
    return {"everything": "--all"}.get(name, f"--{name.replace('_', '-')}")


def _section(name: str, title: str, text: str, body: str) -> str:
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
