"""The incidents of a run in its report: a line each, which unfolds with all that is known of it."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from onkel.app.report.scores import told_of
from onkel.app.report.tables import AT_ONCE, gap_words, section
from onkel.app.run.counters import LATEST
from onkel.app.run.incidents import far
from onkel.app.run.session import Session
from onkel.explain import one_in

MOST = 100
"""Incidents that are told, those with most alerts."""
LISTED = 50
"""Alerts of one that are told, the latest."""
DRIVEN = "driven by, spreads"
Told = dict[str, Any]


def incidents(session: Session) -> str:
    """Return the incidents as a section: the largest first."""
    known, count = told_of(session)[:MOST], session.counters.incidents
    if not known:
        return ""
    several, keyed = sum(one["alerts"] > 1 for one in known), any("keys" in one for one in known)
    of = " of their key" if keyed and isinstance(session.settings.gap, int) else ""
    text = (
        f"Alerts at most {gap_words(session.settings)}{of} apart are one incident. Those with most "
        f"alerts come first; {several:,} of these have more than one. A click unfolds one."
    )
    if count > len(known):
        text += f" These are {len(known):,} of {count:,}; --incidents FILE writes all."
    columns = _columns(session, keyed, any("features" in one for one in known))
    lines = [_line(one, session, columns) for one in known]
    kind = f"incidents{' keyed' * keyed}{' undriven' * (DRIVEN not in columns)}"
    return section("incidents", "Incidents", text, _folded(_head(columns), lines, several, kind))


def _folded(head: str, lines: list[str], several: int, kind: str) -> str:
    """Return lines of which some are seen, and the others when they are asked for."""
    seen = min(several or AT_ONCE, AT_ONCE)
    shown = f'<div class="{kind}">{head}{"".join(lines[:seen])}</div>'
    if len(lines) > seen:
        shown += (
            f"<details><summary>{len(lines) - seen:,} more</summary>"
            f'<div class="{kind}">{"".join(lines[seen:])}</div></details>'
        )
    return shown


def _columns(session: Session, keyed: bool, driven: bool) -> list[str]:
    found = ["incident", "began", "lasted", "alerts", *(["keys"] if keyed else [])]
    found += ["most unusual"] if session.settings.tells_p else []
    return [*found, *([DRIVEN] if driven else [])]


def _head(columns: list[str]) -> str:
    cells = "".join(f"<span>{name}</span>" for name in columns)
    return f'<div class="head" aria-hidden="true">{cells}</div>'


def _line(one: Told, session: Session, columns: list[str]) -> str:
    pairs = zip(columns, _cells(one, session, columns), strict=True)
    cells = "".join(f'<span data-is="{name}">{cell}</span>' for name, cell in pairs)
    parts = [_span(one, session), _place(one, session), _drivers(one), _alerts(one, session)]
    return (
        f'<details><summary>{cells}</summary><div class="inside">{parts[0]}'
        f"<p>{escape(one['words'])}</p>{''.join(parts[1:])}</div></details>"
    )


def _cells(one: Told, session: Session, columns: list[str]) -> list[str]:
    state = " (open)" if one["state"] == "open" else ""
    began = escape(str(one["start"])) if session.settings.timed else f"row {one['start_row']:,}"
    cells = [f"{one['incident']:,}{state}", began, escape(one["lasted"]), f"{one['alerts']:,}"]
    if "keys" in columns:
        cells.append(escape(_several(one, 1)))
    if session.settings.tells_p:
        cells.append(one_in(float(np.log(max(one["peak_p"], 1e-300)))))
    return [*cells, *([_few_drivers(one)] if DRIVEN in columns else [])]


def _few_drivers(one: Told) -> str:
    """Return the first numbers that were far from their means; where nobody knows, say so."""
    if "features" not in one:
        return "see its alerts"
    names = [f"{escape(f['name'])} {_signed(f['spreads'])}" for f in one["features"][:3]]
    return ", ".join(names) or "no single number"


def _several(one: Told, most: int) -> str:
    """Return some of an incident's keys, and how many there are more."""
    names, count = one.get("key_names", []), one.get("keys", 0)
    shown = ", ".join(map(str, names[:most]))
    return shown + (f" and {count - most:,} more" if count > most and shown else "")


def _signed(spreads: float) -> str:
    return f"{'+' if spreads > 0 else '−'}{far(spreads)}"


def _span(one: Told, session: Session) -> str:
    """Return where it lies in the run, as a bar."""
    rows = max(session.counters.rows, 1)
    left, wide = one["start_row"] / rows, (one["end_row"] + 1 - one["start_row"]) / rows
    return (
        f'<div class="span" role="img" aria-label="where it lies in the run"><i style="left:'
        f'{100 * left:.4g}%;width:{100 * wide:.4g}%"></i></div>'
    )


def _place(one: Told, session: Session) -> str:
    """Return when, in which rows, and of which keys it was."""
    first, last, rows = one["start_row"], one["end_row"], session.counters.rows
    at = f"Row {first:,}" if first == last else f"Rows {first:,} to {last:,}"
    words = f"{at} of {rows:,}"
    if session.settings.timed and one["start"] != one["end"]:
        words += f", {one['start']} to {one['end']}"
    keys = f" Keys: {_several(one, 20)}." if one.get("key_names") else ""
    return f"<p>{escape(words)}.{escape(keys)}</p>"


def _drivers(one: Told) -> str:
    """Return the numbers that were far from their means, as a table."""
    if not one.get("features"):
        return ""
    rows = "".join(
        f"<tr><th>{escape(f['name'])}</th><td>{f['alerts']:,}</td><td>{_signed(f['spreads'])}</td>"
        "</tr>" for f in one["features"]
    )  # fmt: skip
    head = "<th>input</th><th>in alerts</th><th>spreads from its mean, at most</th>"
    return f'<table class="drivers"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _alerts(one: Told, session: Session) -> str:
    """Return those of its alerts that are among the latest ones, which are remembered."""
    ids, latest = set(one.get("alert_ids", ())), session.counters.latest
    own = [a for a in latest if a["incident"] == one["incident"] or a.get("alert_id") in ids]
    held, shown = one["held_back"], one["alerts"] - one["held_back"]
    more = f" A cool-down has held back {held:,}." if held else ""
    if not own and not shown:
        return "<p>A cool-down has held back all of its alerts.</p>"
    if not own:
        return (
            f"<p>Its alerts are not among the latest {LATEST}, which the report tells one by one; "
            f"the output has them.{more}</p>"
        )
    some = own[::-1][:LISTED]
    items = "".join(f"<li>{_alert(a, session.settings.tells_p)}</li>" for a in some)
    few = f"The latest {len(some):,} of its {shown:,} alerts."
    words = few if len(some) < shown else "Its alerts, newest first."
    return f"<p>{words}{more}</p><ul>{items}</ul>"


def _alert(alert: Told, rare: bool) -> str:
    place = [f"row {alert['row']:,}"]
    place += [escape(str(alert[n])) for n in ("time", "key") if alert.get(n) is not None]
    how = f"<b>{one_in(alert['score'])}</b>. " if rare else ""
    return f"{', '.join(place)}: {how}{escape(alert.get('why') or '')}"
