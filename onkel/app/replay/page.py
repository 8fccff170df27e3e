"""A replay as one HTML page: numbers side by side, and the alerts of all settings on one axis."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from string import Template
from typing import Any

import numpy as np
from bokeh.embed import components
from bokeh.models import (
    ColumnDataSource,
    DatetimeTicker,
    DatetimeTickFormatter,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.resources import Resources
from numpy.typing import NDArray

import onkel
from onkel.alerting import Incident
from onkel.app.replay import told
from onkel.app.replay.command import Replayed
from onkel.app.replay.compare import Alert, Difference, Outcome
from onkel.app.replay.groups import Places
from onkel.app.report.figures import (
    BLUE,
    GREEN,
    RED,
    Drawing,
    empty,
    legend_list,
    name_rarities,
    powers,
)
from onkel.app.report.style import STYLE, opening
from onkel.explain import one_in

Array = NDArray[Any]

PLACES = 400
"""Of the alerts of one kind that fall into such a part of the axis, the rarest is drawn."""
DATES = 1e8
"""Times in seconds that are larger are dates."""
KINDS = {
    "still": (BLUE, "circle", "dot", "came, and would come again", 0.0),
    "gone": (RED, "x", "cross", "came, and would be gone", -0.25),
    "new": (GREEN, "triangle", "rise", "would have come as well", 0.25),
}
"""Colour, mark, shape in the legend, words; how far off the middle of its setting's line."""
OWN = """
.compare th:first-child { min-width: 9rem; }
.compare :is(th, td):not(:first-child) { text-align: right; white-space: nowrap; }
.told td:not(:last-child) { white-space: nowrap; }
.told td:last-child { min-width: 15rem; }
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
    axis = _Axis.of(found.outcomes)
    drawings = {"all": _strips(found.outcomes, axis)} if axis is not None else {}
    pairs = [(f"setting-{i}", one, Difference.of(was.alerts, one.alerts))
             for i, one in enumerate(others)]  # fmt: skip
    if axis is not None:
        drawings |= {name: _marks(difference, axis) for name, _, difference in pairs}
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
    return [*cells, _rare(alert["score"], "p" in alert)]


def _row(head: Sequence[str], cells: Sequence[str], more: str = "") -> str:
    """Return a row whose cells say what they are, for narrow screens; `more` ends the last one."""
    tagged = "".join(f'<td data-is="{escape(n)}">{escape(c)}</td>'
                     for n, c in zip(head, cells, strict=True))  # fmt: skip
    return f"<tr>{tagged.removesuffix('</td>')}{more}</td></tr>"


def _folding(head: Sequence[str], rows: Sequence[str]) -> str:
    """Return a table whose rows fold on a narrow screen."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return (
        f'<div class="scroll"><table class="told"><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _rare(score: float, tells_p: bool) -> str:
    return one_in(score) if tells_p else f"{score:.3g}"


# -- figures ---------------------------------------------------------------------------------------


class _Axis:
    """Where alerts stand: by their times, where all have one, else by their rows."""

    def __init__(self, low: float, high: float, timed: bool) -> None:
        margin = 0.02 * (high - low) or 1.0
        self.low, self.high, self.timed = low - margin, high + margin, timed
        self.dates = timed and low > DATES

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> _Axis | None:
        alerts = [alert for one in outcomes for alert in one.alerts]
        if not alerts:
            return None
        timed = all(alert.seconds is not None for alert in alerts)
        places = [float(alert.seconds or 0.0) if timed else float(alert.row) for alert in alerts]
        return cls(min(places), max(places), timed)

    def at(self, alert: Alert) -> float:
        return float(alert.seconds or 0.0) if self.timed else float(alert.row)

    def drawn(self, place: float) -> float:
        return 1000.0 * place if self.dates else place

    def range(self) -> Range1d:
        return Range1d(start=self.drawn(self.low), end=self.drawn(self.high), bounds="auto")

    def thinned(self, alerts: Sequence[Alert]) -> list[tuple[Alert, int]]:
        """Return the rarest alert of each part of the axis, and how many it stands for."""
        rarest: dict[int, tuple[Alert, int]] = {}
        for alert in alerts:
            place = int(PLACES * (self.at(alert) - self.low) / (self.high - self.low))
            best, count = rarest.get(place, (alert, 0))
            rarest[place] = (alert if alert.score < best.score else best), count + 1
        return [rarest[place] for place in sorted(rarest)]

    def dress(self, plot: Any, ticks: int = 4) -> None:  # so many fit a phone, too
        if self.dates:
            plot.xaxis.ticker = DatetimeTicker(desired_num_ticks=ticks)
            plot.xaxis.formatter = DatetimeTickFormatter(
                days="%d %b", hours="%d %b %H:%M", hourmin="%d %b %H:%M", minutes="%H:%M",
                months="%b %Y", seconds="%H:%M:%S", minsec="%H:%M:%S",
            )  # fmt: skip
        else:
            plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
            plot.xaxis.ticker.desired_num_ticks = ticks

    @property
    def unit(self) -> str:
        return "time" if self.timed else "row"


def _data(axis: _Axis, alerts: Sequence[Alert], y: Any) -> ColumnDataSource:
    thinned = axis.thinned(alerts)
    return ColumnDataSource({
        "x": [axis.drawn(axis.at(a)) for a, _ in thinned], "y": [y(a) for a, _ in thinned],
        "row": [a.row for a, _ in thinned],
        "when": [" ".join(str(v) for v in (a.time, a.key) if v is not None) for a, _ in thinned],
        "rare": [_rare(a.score, a.p is not None) for a, _ in thinned],
        "why": [a.why or "" for a, _ in thinned],
        "more": [f"the rarest of {n:,} here" if n > 1 else "" for _, n in thinned],
    })  # fmt: skip


_TOLD = [("row", "@row{0,0} @when"), ("how rare", "@rare @more"), ("why", "@why")]


def _scatter(plot: Any, data: ColumnDataSource, kind: str, tick: bool = False) -> None:
    """Draw marks, or ticks across a line."""
    color, mark = KINDS[kind][:2]
    how: dict[str, Any] = {"marker": mark, "size": 8, "line_width": 1.6}
    if tick:
        how = {"marker": "dash", "size": 11, "angle": np.pi / 2, "line_width": 1.6}
    elif kind != "gone":
        how["fill_alpha"] = 0.6
    drawn = plot.scatter("x", "y", source=data, color=color, **how)
    plot.add_tools(HoverTool(renderers=[drawn], tooltips=_TOLD, visible=False))


def _legend(kinds: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    return tuple((KINDS[k][2], KINDS[k][0], KINDS[k][3]) for k in kinds)


def _strips(outcomes: Sequence[Outcome], axis: _Axis) -> Drawing:
    """Return a line of marks for each setting, one above another."""
    levels = {one.name: -float(i) for i, one in enumerate(outcomes)}
    plot = empty("", axis.range(), axis.unit)
    plot.height = 110 + 48 * len(levels)
    plot.y_range = Range1d(start=0.5 - len(levels), end=0.5)
    plot.yaxis.ticker = FixedTicker(ticks=list(levels.values()))
    plot.yaxis.major_label_overrides = {int(y): _short(name) for name, y in levels.items()}
    axis.dress(plot, ticks=3)  # the names of the settings take their room
    was, kinds = outcomes[0], ["still"]
    _scatter(plot, _data(axis, was.alerts, lambda a: levels[was.name]), "still", tick=True)
    for one in outcomes[1:]:
        difference = Difference.of(was.alerts, one.alerts)
        for kind in KINDS:
            alerts = getattr(difference, kind)
            if alerts:
                y = levels[one.name] + KINDS[kind][4]
                _scatter(plot, _data(axis, alerts, lambda a, y=y: y), kind, tick=True)
                kinds.append(kind)
    return Drawing(plot, _legend([k for k in KINDS if k in kinds]))


def _short(name: str) -> str:
    """Return a name for the axis, in three short lines at most."""
    whole = name.replace(" ", "\u00a0").replace(",\u00a0", ", ")
    lines = textwrap.wrap(whole, 20, max_lines=3, placeholder="…")
    return "\n".join(lines).replace("\u00a0", " ")


def _marks(difference: Difference, axis: _Axis) -> Drawing:
    """Return how rare each alert was, and with which of two settings it comes."""
    every = [*difference.still, *difference.gone, *difference.new]
    rare = all(alert.p is not None for alert in every)
    plot = empty("a usual row in so many" if rare else "score", axis.range(), axis.unit)
    axis.dress(plot)

    def height(alert: Alert) -> float:
        return float(powers(np.array([alert.score]))[0]) if rare else alert.score

    kinds = [kind for kind in KINDS if getattr(difference, kind)]
    for kind in kinds:
        _scatter(plot, _data(axis, getattr(difference, kind), height), kind)
    if rare and every:
        name_rarities(plot, min(map(height, every)))
    return Drawing(plot, _legend(kinds))
