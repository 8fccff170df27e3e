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
from onkel.app.report.figures import BLUE, RED, SKY, Drawing, empty, legend_list
from onkel.app.report.style import STYLE, opening
from onkel.app.run.progress import told
from onkel.app.run.session import Session

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
        sections="\n".join([*sections, _alerts(session)]), settings=_settings(session),
        version=onkel.__version__, script=script,
    )  # fmt: skip


def _title(session: Session) -> str:
    rows = f"{session.counters.rows:,} rows"
    names = {"detect": "alerts among", "classify": "labels of", "regress": "predictions of"}
    return f"{names[session.settings.task].capitalize()} {rows}"


def _lead(session: Session) -> str:
    columns = ", ".join(map(escape, session.source.schema.features[:12]))
    text = f"Each row was judged before it was learned. Learned from: {columns}."
    ignored = [f"{escape(n)} ({escape(why)})" for n, why in session.source.schema.ignored()]
    if ignored:
        text += f" Left out: {', '.join(ignored[:12])}."
    if session.counters.broken:
        text += (
            f" {session.counters.broken:,} rows were broken, the first at "
            f"{escape(session.counters.first_broken)}."
        )
    return text


def _tiles(session: Session) -> str:
    tiles = [(f"{session.counters.rows:,}", "rows"), (f"{session.counters.examples:,}", "learned")]
    tiles += [_split(words) for words in told(session.summary())]
    tiles.append((f"{len(session.models):,}", "models" if len(session.models) > 1 else "model"))
    return "\n".join(f"<div><b>{escape(a)}</b><span>{escape(b)}</span></div>" for a, b in tiles)


def _split(words: str) -> tuple[str, str]:
    """Return the first number of a phrase, and the rest."""
    parts = words.split(" ")
    at = next(i for i, part in enumerate(parts) if part[:1].isdigit())
    return parts[at], " ".join(parts[:at] + parts[at + 1 :])


def _plots(session: Session) -> dict[str, tuple[str, str, Drawing]]:
    history = session.counters.history
    sums = {
        name: np.array([s.get(name, 0.0) for s in history.sums])
        for name in ("rows", "alerts", "score", "threshold", "mistakes", "error", "covered")
    }
    there = sums["rows"] > 0
    row = (np.arange(len(there)) + 0.5)[there] * history.width
    sums = {name: values[there] for name, values in sums.items()}
    makers = {"detect": _detect, "classify": _classify, "regress": _regress}
    return makers[session.settings.task](session, row, sums) if there.any() else {}


def _detect(session: Session, row: Array, sums: dict[str, Array]) -> dict[str, Any]:
    rows = sums["rows"]
    scores = _figure("score", row, {
        "mean score": (sums["score"] / rows, BLUE, "solid"),
        "threshold": (sums["threshold"] / rows, RED, "solid"),
    })  # fmt: skip
    promised = np.full(len(row), session.settings.promised or 0.0)
    since = np.cumsum(sums["alerts"]) / np.cumsum(rows)
    rates = _figure("alert rate", row, {
        "here": (sums["alerts"] / rows, SKY, "solid"), "since the start": (since, BLUE, "solid"),
        "promised": (promised, RED, "dashed"),
    })  # fmt: skip
    return {
        "scores": ("Score and threshold", "High scores are usual; rows below the threshold are "
                   "alerts. Both are means over stretches of rows.", scores),
        "rates": ("Alert rate", "Whatever the stream does, the rate since the start goes to the "
                  "promised one.", rates),
    }  # fmt: skip


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
    if session.settings.nu is not None:
        promised = np.full(len(row), 1.0 - session.settings.nu)
        covered = _figure("coverage", row, {
            "here": (sums["covered"] / rows, SKY, "solid"),
            "since the start": (np.cumsum(sums["covered"]) / np.cumsum(rows), BLUE, "solid"),
            "promised": (promised, RED, "dashed"),
        })  # fmt: skip
        text = "The share of targets inside their intervals, beside the promised one."
        found["coverage"] = ("Coverage", text, covered)
    return found


def _figure(label: str, row: Array, lines: dict[str, tuple[Array, str, str]]) -> Drawing:
    plot = empty(label, Range1d(start=0, end=float(row[-1]), bounds="auto"), "row")
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    for name, (values, color, dash) in lines.items():
        drawn = plot.line(row, values, color=color, line_dash=dash, line_width=1.8, name=name)
        plot.add_tools(
            HoverTool(renderers=[drawn], tooltips="$name, row @x{0,0}: @y{0.0000}", visible=False)
        )
    shapes = {"solid": "line", "dashed": "dash"}
    keys = tuple((shapes[dash], color, name) for name, (_, color, dash) in lines.items())
    return Drawing(plot, keys)


def _alerts(session: Session) -> str:
    latest = [a for a in session.counters.latest[::-1] if a.get("why")][:20]
    if not latest:
        return ""
    rows = "\n".join(
        f"<tr><td>{a['row']:,}</td><td>{escape(str(a.get('time') or a.get('key') or ''))}</td>"
        f"<td>{escape(a['why'])}</td></tr>"
        for a in latest
    )
    return (
        '<section id="alerts"><h2>Latest alerts with an explanation</h2><div class="scroll">'
        "<table><thead><tr><th>row</th><th></th><th>why</th></tr></thead><tbody>"
        f"{rows}</tbody></table></div></section>"
    )


def _settings(session: Session) -> str:
    given = {n: v for n, v in session.settings.to_dict().items() if v not in (None, "", [])}
    return "\n".join(
        f'<tr><th scope="row">{escape(n)}</th><td>{escape(str(v))}</td><td></td></tr>'
        for n, v in given.items()
    )
