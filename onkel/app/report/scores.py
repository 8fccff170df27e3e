"""Scores of a run as a picture: rows, the level, every alert, and the incidents."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import BoxAnnotation, HoverTool, Range1d
from numpy.typing import NDArray

from onkel.app.report.axis import Axis
from onkel.app.report.figures import AMBER, BLUE, INK, RED, Drawing, Plot, name_rarities, powers
from onkel.app.run.session import Session

Array = NDArray[Any]


def scores(session: Session, axis: Axis) -> Drawing:
    """Return rows from lowest to highest, the threshold, alerts, and incidents behind them."""
    rare, history = session.settings.tells_p, session.counters.history
    shown: Any = powers if rare else np.asarray
    columns = {name: history.column(name)[axis.there] for name in ("low", "high", "threshold")}
    level = shown(columns["threshold"] / history.column("rows")[axis.there])
    low, high = shown(columns["low"]), shown(columns["high"])
    plot = axis.empty("a usual row in so many" if rare else "score")
    marks, alerts = session.counters.marks, shown(np.array(session.counters.marks.score))
    bottom = min([*low, *level, *alerts])
    if rare:
        name_rarities(plot, float(bottom))
    else:
        space = 0.05 * (max([*high, *level]) - bottom) or 1.0
        plot.y_range = Range1d(start=bottom - space, end=max([*high, *level]) + space)
    boxes = _boxes(session, axis, plot)
    if len(axis.x) > 1:
        plot.varea(axis.x, low, high, color=BLUE, alpha=0.25)
        plot.line(axis.x, low, color=BLUE, alpha=0.5, line_width=0.8)
    else:
        plot.vbar(axis.x, top=high, bottom=low, width=1, color=BLUE, alpha=0.25)
    plot.line(axis.x, level, color=INK, line_width=1.5)
    place = axis.place(marks.row, marks.time)
    source = {"x": place, "y": alerts, "row": marks.row}
    dots = plot.scatter("x", "y", source=source, size=4.5, color=RED, alpha=0.75)
    tip = "alert, row @row{0,0}" + ("" if axis.unit == "row" else f", {axis.tip}")
    plot.add_tools(HoverTool(renderers=[dots], tooltips=tip, formatters=axis.forms, visible=False))
    keys = [
        ("band", BLUE, "rows, rarest to most usual" if rare else "rows, lowest to highest"),
        ("line", INK, "level of an alert" if rare else "threshold"), ("dot", RED, "alert"),
    ]  # fmt: skip
    return Drawing(plot, (*keys, *([("band", AMBER, "incident")] if boxes else [])))


def _boxes(session: Session, axis: Axis, plot: Plot) -> int:
    """Shade incidents; return how many."""
    found = shaded(session)
    for one in found:
        left, right = (
            float(axis.place(one[f"{end}_row"], one["began" if end == "start" else "ended"]))
            for end in ("start", "end")
        )
        wide = max(axis.step, 0.002 * (axis.end - float(axis.x[0])))  # so that it can be seen
        plot.add_layout(BoxAnnotation(
            left=left - wide / 2, right=max(right, left) + wide / 2, fill_color=AMBER,
            fill_alpha=0.3, line_alpha=0, level="underlay",
        ))  # fmt: skip
    return len(found)


def shaded(session: Session) -> list[dict[str, Any]]:
    """Return the incidents that are shaded: of several alerts; with keys, of many at once."""
    keyed = session.source.schema.at("key") is not None
    return [one for one in told_of(session) if (one["wide"] if keyed else one["alerts"] > 1)]


def told_of(session: Session) -> list[dict[str, Any]]:
    """Return the incidents that are known, those with most alerts first."""
    if session.grouping is None:
        return []
    known = [*session.grouping.largest, *session.grouping.open]
    return sorted(known, key=lambda one: (-one["alerts"], -one["incident"]))
