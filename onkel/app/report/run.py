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
from onkel.app.report import incidents, keys, tables
from onkel.app.report.axis import Axis, axis_of, lined
from onkel.app.report.figures import BLUE, INK, SKY, Drawing, empty, legend_list, stacked
from onkel.app.report.scores import scores, shaded
from onkel.app.report.style import STYLE, opening
from onkel.app.run import lost
from onkel.app.run.answering import UNKNOWN
from onkel.app.run.keys import view_of
from onkel.app.run.progress import told
from onkel.app.run.session import Session
from onkel.app.run.tables import by_kind

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
        sections="\n".join([*sections, *_tables(session)]),
        settings=tables.settings(session),
        version=onkel.__version__, script=script,
    )  # fmt: skip


def _tables(session: Session) -> list[str]:
    counters = session.counters
    labels = tables.confusion(counters.labels, counters.examples - counters.labels.count)
    return [labels, incidents.incidents(session), _keys(session), tables.alerts(session)]


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
    return text + "".join(f" {escape(words)}." for words in _without_targets(session))


def _without_targets(session: Session) -> list[str]:
    """Return what became of rows whose target was not there, or came later."""
    summary, task = session.summary(), session.settings.task
    target = session.source.schema.roles.target
    return [*filter(None, (lost.unlabelled(summary, task, target), lost.pending(summary)))]


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
    """Return the first number of a phrase, and the rest; a dash where it is not known yet.

    Examples
    --------
    >>> _split("precision 0.75 (promised 0.8)"), _split("precision not known yet (promised 0.8)")
    (('0.75', 'precision (promised 0.8)'), ('–', 'precision (promised 0.8; not known yet)'))
    """
    if UNKNOWN in words:
        return "–", words.replace(f" {UNKNOWN}", "").replace(")", f"; {UNKNOWN})")
    parts = words.split(" ")
    at = next(i for i, part in enumerate(parts) if part[:1].isdigit())
    return parts[at], " ".join(parts[:at] + parts[at + 1 :])


def _plots(session: Session) -> dict[str, tuple[str, str, Drawing]]:
    axis = axis_of(session.counters)
    makers = {"detect": _detect, "classify": _classify, "regress": _regress}
    found = {} if axis is None else makers[session.settings.task](session, axis)
    return {**found, **_weights(session)}


def _sums(session: Session, axis: Axis, *names: str) -> list[Array]:
    """Return columns of the history where there were rows."""
    return [session.counters.history.column(name)[axis.there] for name in names]


def _detect(session: Session, axis: Axis) -> dict[str, Any]:
    rare = session.settings.tells_p
    title, text = RARE if rare else SCORED
    found = {"scores": (title, text + _thinned(session), scores(session, axis))}
    if session.counters.warming < session.counters.predicted:
        found["rates"] = ("Alert rate", _about_rate(session, rare), _rates(session, axis))
    return found


SCORED = (
    "Score and threshold",
    "High scores are usual; rows below the threshold are alerts. The band reaches from the lowest "
    "to the highest score of each stretch of rows.",
)
RARE = (
    "How rare rows were",
    "Each row gets a number p: a usual row as unusual comes once in 1/p. Downwards is rarer, by "
    "powers of ten; a row below the level is an alert. The band reaches from the rarest row of "
    "each stretch to the most usual one.",
)


def _thinned(session: Session) -> str:
    """Return how many alerts are marked, if not all, and what shading means."""
    marks, warming = session.counters.marks, session.counters.warming
    kind = "many keys at once" if session.source.schema.at("key") is not None else "several alerts"
    text = f" Shaded: incidents of {kind}." if shaded(session) else ""
    if marks.every > 1:
        text += f" There were {marks.seen:,} alerts; one in {marks.every:,} is marked."
    if warming == session.counters.predicted:
        which = "Its only row was" if warming == 1 else f"All {warming:,} rows were"
        text += f" {which} warm-up, which is learned without an alert being shown."
    return text


def _rates(session: Session, axis: Axis) -> Drawing:
    """Return the rate of alerts, in steps long enough that a single alert is no spike."""
    alerts, shown = _sums(session, axis, "alerts", "shown")
    promised = session.settings.promised or 0.0
    total, rows = np.cumsum(alerts), np.cumsum(shown)
    since, late = total / np.where(rows > 0, rows, np.nan), _moving(alerts, shown)
    lines = {
        "of late": (late, SKY, "solid"), "since the start": (since, BLUE, "solid"),
        "promised": (np.full(len(rows), promised), INK, "dashed"),
    }  # fmt: skip
    if session.settings.promised is None:
        del lines["promised"]
    drawn = lined(axis, "alert rate", lines, "@y{0.[00]%}")
    drawn.plot.yaxis.formatter = NumeralTickFormatter(format="0.[0000]%")
    most = np.nanmax([*late, *since[len(since) // 20 :], 2 * promised])
    drawn.plot.y_range = Range1d(start=0, end=1.05 * float(most))
    return drawn


def _about_rate(session: Session, rare: bool) -> str:
    warming = session.counters.warming
    warm = f" The {warming:,} rows of warm-up are not counted." if warming else ""
    late = " “Of late” is over a twentieth of the run."
    if session.settings.promised is None:
        none = "No rate was promised, but a share of the answered alerts that are faults."
        return f"{none}{late}{warm}"
    if rare:
        return (
            f"About {session.settings.promised:.3g} of usual rows raise an alert; faults, and "
            f"changes that last, come on top.{warm}{late}"
        )
    return (
        f"Whatever the stream does, the rate since the start goes to the promised one.{warm}{late}"
    )


def _moving(part: Array, rows: Array) -> Array:
    """Return a share over the latest twentieth of the stretches, at each."""
    back = max(len(rows) // 20, 1)
    sums = [np.cumsum(c) for c in (part, rows)]
    gone = [np.concatenate([np.zeros(min(back, len(c))), c[:-back]]) for c in sums]
    count = sums[1] - gone[1]
    found: Array = (sums[0] - gone[0]) / np.where(count > 0, count, np.nan)
    return found


def _shares(part: Array, rows: Array) -> dict[str, tuple[Array, str, str]]:
    """Return a share of late, and since the start."""
    since = np.cumsum(part) / np.cumsum(rows)
    return {"of late": (_moving(part, rows), SKY, "solid"),
            "since the start": (since, BLUE, "solid")}  # fmt: skip


def _classify(session: Session, axis: Axis) -> dict[str, Any]:
    mistakes, rows = _sums(session, axis, "mistakes", "rows")
    drawn = lined(axis, "mistakes", _shares(mistakes, rows), "@y{0.[00]%}")
    drawn.plot.yaxis.formatter = NumeralTickFormatter(format="0.[0000]%")
    text = (
        "The share of rows whose label was predicted wrongly, before it was learned. “Of late” is "
        "over a twentieth of the run."
    )
    return {"mistakes": ("Mistakes", text, drawn), **_calibration(session)}


def _calibration(session: Session) -> dict[str, Any]:
    held = [(n, p / n, right / n) for n, p, right in session.counters.labels.chances if n]
    if not held:
        return {}
    rows, said, came = (np.array(column) for column in zip(*held, strict=True))
    off = f"{100 * float(np.sum(rows * np.abs(said - came)) / np.sum(rows)):.2g}"
    plot = empty("share that was right", Range1d(start=0, end=1), "probability that was told")
    for form in (plot.xaxis, plot.yaxis):
        form.formatter = NumeralTickFormatter(format="0%")
    plot.y_range = Range1d(start=0, end=1.04)
    plot.line([0, 1], [0, 1], color=INK, line_dash="dashed", line_width=1.5)
    source = {"x": said, "y": came, "rows": rows, "size": 6 + 16 * np.sqrt(rows / rows.max())}
    dots = plot.scatter("x", "y", size="size", source=source, color=BLUE, alpha=0.8)
    tip = "@rows{0,0} rows: told @x{0.0%}, right @y{0.0%}"
    plot.add_tools(HoverTool(renderers=[dots], tooltips=tip, visible=False))
    text = (
        "Each prediction came with a probability. Rows are taken together by it: on the dashed "
        "line as many were right as was told. "
        f"They are {off} point{'s' * (off != '1')} off it, on the mean."
    )
    keys = (("dot", BLUE, "rows, the larger the more of them"), ("dash", INK, "as told"))
    return {"calibration": ("Are the probabilities right?", text, Drawing(plot, keys))}


def _regress(session: Session, axis: Axis) -> dict[str, Any]:
    rows, error, covered = _sums(session, axis, "rows", "error", "covered")
    drawn = lined(axis, "mean absolute error", _shares(error, rows))
    text = (
        "How far predictions were off, before they were learned. “Of late” is over a twentieth of "
        "the run."
    )
    found = {"error": ("Error", text, drawn)}
    if session.settings.promised is not None:
        promised = np.full(len(rows), 1.0 - session.settings.promised)
        lines = {**_shares(covered, rows), "promised": (promised, INK, "dashed")}
        inside = lined(axis, "coverage", lines, "@y{0.0%}")
        inside.plot.yaxis.formatter = NumeralTickFormatter(format="0.[0000]%")
        text = "The share of targets inside their intervals, beside the promised one."
        found["coverage"] = ("Coverage", text, inside)
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


def _keys(session: Session) -> str:
    view = view_of(session)
    return "" if view is None else keys.section(view, session.settings.task, len(session.models))
