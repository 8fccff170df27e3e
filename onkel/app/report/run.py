"""The report of a run: one HTML page that holds everything it needs."""

from __future__ import annotations

from html import escape
from string import Template
from typing import Any

import numpy as np
from bokeh.embed import components
from bokeh.models import HoverTool, NumeralTickFormatter, Range1d
from bokeh.resources import Resources
from numpy.typing import NDArray

import onkel
from onkel.app.report import keys
from onkel.app.report.figures import (
    BLUE,
    RED,
    SKY,
    Drawing,
    empty,
    legend_list,
    name_rarities,
    powers,
    stacked,
)
from onkel.app.report.style import STYLE, opening
from onkel.app.run import lost
from onkel.app.run.fleets import Keyed
from onkel.app.run.progress import told
from onkel.app.run.session import Session
from onkel.app.run.settings import RunSettings
from onkel.app.run.tables import by_kind
from onkel.explain import one_in
from onkel.fleet.view import FleetView

Array = NDArray[Any]

TEMPLATE = Template(
    opening("onkel $task")
    + """<body>
<main>
<p class="kicker">onkel $task</p>
<h1>$title</h1>
<p>$lead</p>
<div class="tiles">
$tiles
</div>
$sections
<section id="settings">
<h2>Settings</h2>
<div class="scroll"><table class="summary"><tbody>
$settings
</tbody></table></div>
</section>
<footer>onkel $version</footer>
</main>
$script
</body>
</html>
"""
)


def page(session: Session) -> str:
    """Return the report as HTML; it loads nothing from anywhere."""
    plots = _plots(session)
    drawings = {name: drawn.plot for name, (_, _, drawn) in plots.items()}
    script, divs = components(drawings) if drawings else ("", {})
    sections = [
        f'<section id="{name}"><h2>{title}</h2><p>{text}</p>{legend_list(drawn.legend)}'
        f'<div class="plot">{divs[name]}</div></section>'
        for name, (title, text, drawn) in plots.items()
    ]
    return TEMPLATE.substitute(
        task=session.settings.task, style=STYLE,
        library=Resources(mode="inline", components=["bokeh"]).render_js(),
        title=_title(session), lead=_lead(session), tiles=_tiles(session),
        sections="\n".join([*sections, _keys(session), _alerts(session)]),
        settings=_settings(session),
        version=onkel.__version__, script=script,
    )  # fmt: skip


def _title(session: Session) -> str:
    rows = lost.rows_of(session.counters.rows)
    names = {"detect": "alerts among", "classify": "labels of", "regress": "predictions of"}
    return f"{names[session.settings.task].capitalize()} {rows}"


def _lead(session: Session) -> str:
    text = f"Each row was judged before it was learned. Learned from {_columns(session)}."
    ignored = [f"{escape(n)} ({escape(why)})" for n, why in session.source.schema.ignored()]
    if ignored:
        text += f" Left out: {', '.join(ignored[:12])}."
    if session.counters.broken:
        text += (
            f" {lost.broken(session.counters)}, the first at "
            f"{escape(session.counters.first_broken[0])}."
        )
    return text


def _columns(session: Session) -> str:
    """Return what is learned from, kind by kind."""
    kinds = by_kind(session.source.schema.columns)
    return "; ".join(f"{_SEVERAL[k]}: {', '.join(map(escape, n[:12]))}{', …' * (len(n) > 12)}"
                     for k, n in kinds.items())  # fmt: skip


_SEVERAL = {
    "number": "numbers", "category": "categories", "boolean": "truth values", "time": "times",
    "text": "texts",
}  # fmt: skip


def _tiles(session: Session) -> str:
    tiles = [(f"{session.counters.rows:,}", "rows"), (f"{session.counters.examples:,}", "learned")]
    tiles += [_split(words) for words in told(session.summary())]
    if len(session.models) > 1:
        tiles.append((f"{len(session.models):,}", "models"))
    return "\n".join(f"<div><b>{escape(a)}</b><span>{escape(b)}</span></div>" for a, b in tiles)


def _split(words: str) -> tuple[str, str]:
    """Return the first number of a phrase, and the rest."""
    parts = words.split(" ")
    at = next(i for i, part in enumerate(parts) if part[:1].isdigit())
    return parts[at], " ".join(parts[:at] + parts[at + 1 :])


_SUMMED = ("rows", "shown", "alerts", "score", "threshold", "mistakes", "error", "covered")


def _plots(session: Session) -> dict[str, tuple[str, str, Drawing]]:
    history = session.counters.history
    sums = {name: np.array([s.get(name, 0.0) for s in history.sums]) for name in _SUMMED}
    there = sums["rows"] > 0
    row = (np.arange(len(there)) * history.width + sums["rows"] / 2)[there]
    sums = {name: values[there] for name, values in sums.items()}
    makers = {"detect": _detect, "classify": _classify, "regress": _regress}
    found = makers[session.settings.task](session, row, sums) if there.any() else {}
    return {**found, **_weights(session)}


def _detect(session: Session, row: Array, sums: dict[str, Array]) -> dict[str, Any]:
    rare = session.settings.tells_p
    shown = np.where(sums["shown"] > 0, sums["shown"], np.nan)
    promised = np.full(len(row), session.settings.promised or 0.0)
    so_far = np.cumsum(sums["shown"])
    since = np.cumsum(sums["alerts"]) / np.where(so_far > 0, so_far, np.nan)
    lines: dict[str, Any] = {
        "here": (sums["alerts"] / shown, SKY, "solid"), "since the start": (since, BLUE, "solid"),
        "promised": (promised, RED, "dashed"),
    }  # fmt: skip
    if session.settings.promised is None:
        del lines["promised"]
    rates = _figure("alert rate", row, lines)
    rates.plot.yaxis.formatter = NumeralTickFormatter(format="0.[00]%")
    most = np.nanmax([*(sums["alerts"] / shown), *since, 2 * promised[0]])
    rates.plot.y_range = Range1d(start=0, end=1.05 * float(most))
    return {
        "scores": (*(RARE if rare else SCORED), _scores(row, sums, rare)),
        "rates": ("Alert rate", _about_rate(session, rare), rates),
    }


SCORED = (
    "Score and threshold",
    "High scores are usual; rows below the threshold are alerts. Both are means over stretches of "
    "rows.",
)
RARE = (
    "How rare rows were",
    "Each row gets a number p: a usual row as unusual comes once in 1/p. Downwards is rarer, by "
    "powers of ten; a row below the level is an alert. Both lines are means (of the logarithm) "
    "over stretches of rows, so that a single alert is hardly seen, and a fault that lasts is.",
)


def _scores(row: Array, sums: dict[str, Array], rare: bool) -> Drawing:
    score, limit = sums["score"] / sums["rows"], sums["threshold"] / sums["rows"]
    if not rare:
        return _figure("score", row, {
            "mean score": (score, BLUE, "solid"), "threshold": (limit, RED, "solid"),
        })  # fmt: skip
    lines = {"mean": (powers(score), BLUE, "solid"), "level": (powers(limit), RED, "solid")}
    drawn = _figure("a usual row in so many", row, lines, "10^@y{0.0}")
    name_rarities(drawn.plot, min(float(v.min()) for v, _, _ in lines.values()))
    return drawn


def _about_rate(session: Session, rare: bool) -> str:
    warming, rows = session.counters.warming, session.counters.predicted
    warm = f" The {warming:,} rows of warm-up are not counted." if warming else ""
    if warming == rows:
        return f"All {rows:,} rows were warm-up, which is learned without an alert being shown."
    if session.settings.promised is None:
        return f"No rate was promised, but a share of the answered alerts that are faults.{warm}"
    if rare:
        return (
            f"About {session.settings.promised:.3g} of usual rows raise an alert; faults, and "
            f"changes that last, come on top.{warm}"
        )
    return f"Whatever the stream does, the rate since the start goes to the promised one.{warm}"


def _classify(session: Session, row: Array, sums: dict[str, Array]) -> dict[str, Any]:
    rows = sums["rows"]
    since = np.cumsum(sums["mistakes"]) / np.cumsum(rows)
    plot = _figure("mistakes", row, {
        "here": (sums["mistakes"] / rows, SKY, "solid"), "since the start": (since, BLUE, "solid"),
    })  # fmt: skip
    text = "The share of rows whose label was predicted wrongly, before it was learned."
    return {"mistakes": ("Mistakes", text, plot)}


def _regress(session: Session, row: Array, sums: dict[str, Array]) -> dict[str, Any]:
    rows = sums["rows"]
    error = _figure("mean absolute error", row, {
        "here": (sums["error"] / rows, SKY, "solid"),
        "since the start": (np.cumsum(sums["error"]) / np.cumsum(rows), BLUE, "solid"),
    })  # fmt: skip
    found = {"error": ("Error", "How far predictions were off, before they were learned.", error)}
    if session.settings.promised is not None:
        promised = np.full(len(row), 1.0 - session.settings.promised)
        covered = _figure("coverage", row, {
            "here": (sums["covered"] / rows, SKY, "solid"),
            "since the start": (np.cumsum(sums["covered"]) / np.cumsum(rows), BLUE, "solid"),
            "promised": (promised, RED, "dashed"),
        })  # fmt: skip
        text = "The share of targets inside their intervals, beside the promised one."
        found["coverage"] = ("Coverage", text, covered)
    return found


def _weights(session: Session) -> dict[str, Any]:
    """Return how much each setting of a self-tuning model counted, over the run."""
    held = [(i, w) for i, w in enumerate(session.counters.weights()) if w]
    if len(held) < 2:
        return {}
    row = session.counters.history.width * (np.array([i for i, _ in held]) + 0.5)
    drawn = stacked(row, np.array([w for _, w in held]), session.counters.members)
    drawn.plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    text = "Several settings ran side by side; those that predicted better counted for more."
    leads = session.in_words()
    text += " (Means over the models.)" if leads is None else f" {escape(leads)}"
    return {"settings-weights": ("Which settings counted", text, drawn)}


def _figure(
    label: str, row: Array, lines: dict[str, tuple[Array, str, str]], value: str = "@y{0.0000}"
) -> Drawing:
    end = float(row[-1] + (row[-1] - row[-2] if len(row) > 1 else row[-1]) / 2)
    plot = empty(label, Range1d(start=0, end=end, bounds="auto"), "row")
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    plot.xaxis.ticker.desired_num_ticks = 5  # they fit a phone, too
    for name, (values, color, dash) in lines.items():
        drawn = plot.line(row, values, color=color, line_dash=dash, line_width=1.8, name=name)
        plot.add_tools(
            HoverTool(renderers=[drawn], tooltips=f"$name, row @x{{0,0}}: {value}", visible=False)
        )
    shapes = {"solid": "line", "dashed": "dash"}
    keys = tuple((shapes[dash], color, name) for name, (_, color, dash) in lines.items())
    return Drawing(plot, keys)


def _keys(session: Session) -> str:
    if not isinstance(session.models, Keyed):
        return ""
    names = list(session.source.schema.features)
    view = FleetView(session.models.fleet, session.models.ranking, names)
    return keys.section(view, len(session.models))


def _alerts(session: Session) -> str:
    latest = [a for a in session.counters.latest[::-1] if a.get("why")][:20]
    if not latest:
        return ""
    rare = session.settings.tells_p
    rows = "\n".join(_alert(a, rare) for a in latest)
    return (
        '<section id="alerts"><h2>Latest alerts with an explanation</h2><div class="scroll">'
        f"<table><thead><tr><th>row</th><th>{_second(latest[0])}</th>"
        f"{'<th>how rare</th>' * rare}<th>why</th></tr></thead><tbody>{rows}</tbody></table></div>"
        "</section>"
    )


def _alert(alert: dict[str, Any], rare: bool) -> str:
    cells = [f"{alert['row']:,}", escape(str(alert.get(_second(alert)) or ""))]
    if rare:
        cells.append(f'<b style="white-space: nowrap">{one_in(alert["score"])}</b>')
    return f"<tr>{''.join(f'<td>{c}</td>' for c in [*cells, escape(alert['why'])])}</tr>"


def _second(alert: dict[str, Any]) -> str:
    """Return by what an alert is told apart, besides its row."""
    return next((name for name in ("time", "key") if alert.get(name)), "")


def _unsaid(settings: RunSettings) -> list[str]:
    """Return the settings that have no meaning for this run."""
    found = ["scale"] if settings.tunes_itself else []
    if settings.tells_p or settings.task != "detect":
        found.append("learn_alerts")
    return found if settings.task == "detect" else [*found, "recent", "explain", "everything"]


def _settings(session: Session) -> str:
    given = {n: v for n, v in session.settings.to_dict().items() if v not in (None, "", [])}
    given["model"] = repr(session.settings.estimator())
    for name in _unsaid(session.settings):
        given.pop(name, None)
    return "\n".join(
        f'<tr><th scope="row">{escape(n)}</th><td>{escape(str(v))}</td><td></td></tr>'
        for n, v in given.items()
    )
