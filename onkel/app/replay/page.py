"""A replay as one HTML page: numbers side by side, and the alerts of all settings on one axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from bokeh.embed import components
from bokeh.resources import Resources

import onkel
from onkel.alerting import Incident
from onkel.app.replay import told
from onkel.app.replay.command import Replayed
from onkel.app.replay.compare import Difference, Outcome
from onkel.app.replay.figures import Axis, marks, rarity, strips
from onkel.app.replay.groups import Places
from onkel.app.report.figures import Drawing, legend_list
from onkel.app.report.style import STYLE, opening
from onkel.app.report.tables import broken

OWN = """
.compare th:first-child { min-width: 9rem; }
.compare :is(th, td):not(:first-child) { text-align: right; white-space: nowrap; }
.told td:not(:last-child) { white-space: nowrap; }
.alerts h3, h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
.missed {
  border-left: 3px solid #d55e00; padding: .1rem 0 .1rem .9rem; margin: 1.1rem 0;
}
.missed h3 { margin-top: 0; color: #a84800; }
.none, .scroll + p { margin-top: .8rem; }
.elsewhere { display: block; color: var(--soft); font-size: .88rem; margin-top: .2rem; }
.elsewhere span { display: inline-block; margin-right: 1rem; }
#incidents details { margin-top: .6rem; }
@media (max-width: 36rem) {
  .compare thead { display: none; }
  .compare tr {
    display: flex; flex-wrap: wrap; gap: 0 1rem; padding: .5rem 0;
    border-bottom: 1px solid var(--line);
  }
  .compare tr:last-child { border-bottom: 0; }
  .compare :is(th, td) { border: 0; padding: 0; }
  .compare th:first-child { flex-basis: 100%; white-space: normal; }
  .compare td::before { content: attr(data-is) " "; color: var(--soft); }
  .compare td:empty { display: none; }
  .told td:last-child { color: var(--soft); font-size: .88rem; }
}
.legend .cross::before {
  content: "×"; border: 0; width: .8rem; color: var(--c); font-weight: 700; vertical-align: 0;
}
.legend .tick::before {
  width: 0; height: .8rem; border: 0; border-left: 2.5px solid var(--c); vertical-align: -.1em;
}
.legend .rise::before {
  width: 0; border: .38rem solid transparent; border-bottom: .6rem solid var(--c); border-top: 0;
  vertical-align: .02em;
}
"""

TEMPLATE = Template(
    opening("onkel replay")
    + """<body>
<main>
<p class="kicker">onkel replay</p>
<h1>$title</h1>
<p>$lead</p>
<section id="numbers">
<h2>Side by side</h2>
<p>$about</p>
$table
$notes
</section>
$answers
$sections
$incidents
<footer>onkel $version</footer>
</main>
$script
</body>
</html>
"""
)


def page(found: Replayed, description: dict[str, Any]) -> str:
    """Return the page; it loads nothing from anywhere."""
    was, others = found.outcomes[0], found.outcomes[1:]
    axis = Axis.of(found.outcomes)
    drawings = {"all": strips(found.outcomes, axis)} if axis is not None else {}
    pairs = [(f"setting-{i}", one, Difference.of(was.alerts, one.alerts))
             for i, one in enumerate(others)]  # fmt: skip
    if axis is not None:
        drawings |= {name: marks(difference, axis) for name, _, difference in pairs}
    script, divs = components({n: d.plot for n, d in drawings.items()}) if drawings else ("", {})
    plots = {n: _plot(drawings[n], divs[n]) for n in drawings}
    told_of = {one["name"]: one for one in description["settings"]}
    sections = [_overview(plots["all"])] if plots else []
    sections += [_section(n, one, told_of[one.name], plots.get(n, "")) for n, one, _ in pairs]
    settings = description["settings"]
    return TEMPLATE.substitute(
        style=STYLE + OWN, library=Resources(mode="inline", components=["bokeh"]).render_js(),
        title=_title(found), lead=escape(told.lead(description)), about=_about(description),
        table=_table(told.rows_of(settings)), sections="\n".join(sections),
        notes="".join(f"<p>{escape(note)}</p>" for note in description["notes"]),
        answers=_answers(settings), incidents=_incidents(found, settings),
        version=onkel.__version__, script=script,
    )  # fmt: skip


def _title(found: Replayed) -> str:
    others = len(found.outcomes) - 1
    what = "one other setting" if others == 1 else f"{others} other settings"
    return "Would it have fired?" + (f" The same rows with {what}" if others else "")


def _about(description: dict[str, Any]) -> str:
    return (
        "Each setting has learned all rows from the first one on. Still: alerts of the run that "
        "come with this setting, too; gone: those that do not; new: those that the run did not "
        f"have. Alerts at most {_gap(description)} apart are one incident."
    )


def _gap(description: dict[str, Any]) -> str:
    gap = description["gap"]
    return escape(gap) if isinstance(gap, str) else f"{gap:,} row{'s' * (gap != 1)}"


def _answers(settings: Sequence[dict[str, Any]]) -> str:
    """Return what settings heard of answers, and what they show of the answered alerts."""
    if not told.has_answers(settings):
        return ""
    words = (
        "Somebody has said of alerts of the run whether they were usual, or faults. Heard: answers "
        "to alerts that a setting has, too, taken in at the same rows; precision: the share of "
        "faults among them. Shown: of the answered alerts that are compared."
    )
    return (
        f'<section id="answers"><h2>Answers</h2><p>{words}</p>'
        f"{_table(told.answers_of(settings))}</section>"
    )


def _incidents(found: Replayed, settings: Sequence[dict[str, Any]]) -> str:
    """Return the largest incidents of each setting, and what the others have of them."""
    places = [Places(one.alerts) for one in found.outcomes]
    parts = [_largest(one, i, found, places) for i, one in enumerate(settings)]
    words = (
        "Those with most alerts, of each setting, and how many alerts each other setting has "
        "there, of the same keys."
    )
    body = "".join(parts)
    return (
        f'<section id="incidents"><h2>Incidents</h2><p>{words}</p>{body}</section>' if body else ""
    )


def _table(rows: list[list[str]]) -> str:
    """Return numbers side by side; cells say what they are, for narrow screens."""
    names = ["setting", *rows[0][1:]]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(
            f'<td data-is="{escape(n)}">{escape(c)}</td>'
            for n, c in zip(names[1:], row[1:], strict=True)
        )
        + "</tr>"
        for row in rows[1:]
    )
    return (
        f'<div class="scroll"><table class="compare"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _plot(drawn: Drawing, div: str) -> str:
    return f'{legend_list(drawn.legend)}<div class="plot">{div}</div>'


def _overview(plot: str) -> str:
    words = (
        "Every line is a setting; alerts that would be gone stand a little below it, new ones a "
        "little above. Where several fall on one place of the axis, the rarest is drawn."
    )
    return f'<section id="all"><h2>When alerts came</h2><p>{words}</p>{plot}</section>'


def _largest(one: dict[str, Any], which: int, found: Replayed, places: Sequence[Places]) -> str:
    """Return the largest incidents of a setting as a table; folded up, but for the run's own."""
    incidents, count = one["largest_incidents"], one["incidents"]
    if not incidents:
        return ""
    by_number = {i.number: i for i in found.outcomes[which].incidents or ()}
    others = [(other.name, places[i]) for i, other in enumerate(found.outcomes) if i != which]
    head = ["began", "lasted", "alerts", "what"]
    rows = [
        _row(head, [_began(told_), told_["lasted"], f"{told_['alerts']:,}", told_["words"]],
             _elsewhere(by_number[told_["incident"]], others))
        for told_ in incidents
    ]  # fmt: skip
    title = f"{escape(one['name'])}: {_first(len(incidents), count)}"
    table = _folding(head, rows)
    return f"<details{' open' * (which == 0)}><summary>{title}</summary>{table}</details>"


def _elsewhere(one: Incident, others: Sequence[tuple[str, Places]]) -> str:
    """Return how many alerts other settings have within an incident, as HTML."""
    counts = [(name, place.count(one)) for name, place in others]
    words = (
        f"<span>{escape(name)}: <b>{f'{n:,}' if n else 'none'}</b></span>" for name, n in counts
    )
    return f'<span class="elsewhere">{" ".join(words)}</span>' if counts else ""


def _first(shown: int, count: int) -> str:
    return f"{shown:,} of {count:,}" if count > shown else f"{count:,}"


def _began(one: dict[str, Any]) -> str:
    return str(one["start"]) if one.get("start") is not None else f"row {one['start_row']:,}"


def _section(name: str, one: Outcome, numbers: dict[str, Any], plot: str) -> str:
    words = (
        f"{numbers['still']:,} still, {numbers['gone']:,} gone, {numbers['new']:,} new. Of the "
        f"run's incidents {numbers['incidents_gone']:,} would be gone altogether, "
        f"{numbers['incidents_new']:,} would be new."
    )
    lists = "".join(_alerts(numbers, kind) for kind in ("gone", "new") if numbers[kind])
    return (
        f'<section id="{name}" class="alerts"><h2>{escape(one.name)}</h2><p>{words}</p>'
        f"{_missed(numbers)}{plot}{lists}</section>"
    )


def _missed(numbers: dict[str, Any]) -> str:
    """Return the faults that a setting would have missed."""
    count, alerts = numbers.get("faults_missed"), numbers.get("first_missed")
    if count is None:
        return ""
    if not count:
        of = numbers["answered"]["fault"]["of"]
        words = "The one answered fault comes." if of == 1 else f"All {of:,} answered faults come."
        return f'<p class="none">{words}</p>' if of else ""
    title = f"Faults missed: {_first(len(alerts or ()), count)}"
    words = told.altogether(numbers).removeprefix("; ").capitalize()
    return (
        f'<div class="missed"><h3>{title}</h3><p>{words}.</p>'
        f"{_listed(alerts or [], {'instead': told.beside})}</div>"
    )


def _alerts(numbers: dict[str, Any], kind: str) -> str:
    alerts, count = numbers[f"first_{kind}"], numbers[kind]
    which = f", the first {len(alerts)} of {count:,}" if count > len(alerts) else ""
    return f"<h3>{kind.capitalize()}{which}</h3>{_listed(alerts, {})}"


def _listed(
    alerts: Sequence[dict[str, Any]], more: Mapping[str, Callable[[dict[str, Any]], str]]
) -> str:
    """Return alerts as a table, with more columns before the reasons."""
    named = [n for n in ("time", "key") if n in alerts[0]]
    rare = "how rare" if "p" in alerts[0] else "score"
    head = ["row", *named, rare, *more, "why"]
    rows = [_row(head, [*_alert(a, named), *(tell(a) for tell in more.values()), a.get("why", "")])
            for a in alerts]  # fmt: skip
    return _folding(head, rows)


def _alert(alert: dict[str, Any], named: Sequence[str]) -> list[str]:
    cells = [f"{alert['row']:,}", *(str(alert.get(name, "")) for name in named)]
    return [*cells, rarity(alert["score"], "p" in alert)]


def _row(head: Sequence[str], cells: Sequence[str], more: str = "") -> str:
    """Return a row whose cells say what they are, for narrow screens; `more` ends the last one."""
    long = [broken(cell) == "long" for cell in cells[:-1]]
    shown = [f'<span class="long">{escape(c)}</span>' if one else escape(c)
             for c, one in zip(cells, [*long, False], strict=True)]  # fmt: skip
    tagged = "".join(f'<td data-is="{escape(n)}">{c}</td>'
                     for n, c in zip(head, shown, strict=True))  # fmt: skip
    return f"<tr>{tagged.removesuffix('</td>')}{more}</td></tr>"


def _folding(head: Sequence[str], rows: Sequence[str]) -> str:
    """Return a table whose rows fold on a narrow screen."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return (
        f'<div class="scroll"><table class="told"><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
