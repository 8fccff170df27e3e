"""Where rows lie along a report's axis: by their times where these run forward, else by number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.models import (
    DatetimeTicker,
    DatetimeTickFormatter,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from numpy.typing import NDArray

from onkel.app.report.figures import Drawing, Plot, empty
from onkel.app.run.counters import Counters

Array = NDArray[Any]

DATED = 1e8
"""Times from here on, in seconds, are dates: earlier ones are no more than numbers."""
SCALES = {
    "milliseconds": "%H:%M:%S.%3Ns", "seconds": "%H:%M:%S", "minsec": "%H:%M:%S",
    "minutes": "%H:%M", "hourmin": "%H:%M\n%d %b", "hours": "%H:%M\n%d %b", "days": "%d %b",
    "months": "%b %Y", "years": "%Y",
}  # fmt: skip
"""How dates are written below an axis: in two lines where one would reach into the next."""


@dataclass(frozen=True)
class Axis:
    """Places of a run's stretches, and how they are told."""

    x: Array
    """Of each stretch of the history that has rows."""
    there: Array
    """Which stretches those are."""
    unit: str
    """row, time or date."""
    end: float
    step: float
    """From one stretch to the next, about."""

    def place(self, row: Any, time: Any) -> Array:
        """Return where rows lie, by number or by time."""
        found = np.asarray(row if self.unit == "row" else time, float)
        return 1000.0 * found if self.unit == "date" else found

    def empty(self, label: str) -> Plot:
        """Return an empty plot over the whole run."""
        start = 0.0 if self.unit == "row" else float(self.x[0])
        ends = Range1d(start=start, end=self.end, bounds="auto")
        plot = empty(label, ends, {"row": "row", "time": "time", "date": ""}[self.unit])
        plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
        if self.unit == "date":
            plot.xaxis.ticker = DatetimeTicker()
            plot.xaxis.formatter = DatetimeTickFormatter(**SCALES)
        plot.xaxis.ticker.desired_num_ticks = 4 if self.unit == "date" else 5  # they fit a phone
        if self.unit == "row":
            plot.xaxis.ticker.min_interval = 1
        return plot

    @property
    def tip(self) -> str:
        """How a place is told beside the pointer."""
        return {"row": "row @x{0,0}", "time": "time @x{0,0.[00]}", "date": "@x{%F %T}"}[self.unit]

    @property
    def forms(self) -> dict[str, str]:
        """What Bokeh must know to tell a place."""
        return {"@x": "datetime"} if self.unit == "date" else {}


def axis_of(counters: Counters) -> Axis | None:
    """Return the axis of a run; None if it had no row to draw."""
    history = counters.history
    there = history.column("rows") > 0 if len(history) else np.zeros(0, bool)
    if not there.any():
        return None
    rows = (np.flatnonzero(there) + 0.5) * history.width
    times = history.column("time")[there]
    if len(times) > 1 and np.all(np.diff(times) >= 0) and times[-1] > times[0]:
        dated = times[0] > DATED
        x = 1000.0 * times if dated else times
        step = float(np.median(np.diff(x)))
        return Axis(x, there, "date" if dated else "time", float(x[-1]) + step, step)
    return Axis(rows, there, "row", float(rows[-1]) + history.width / 2, float(history.width))


def lined(
    axis: Axis, label: str, lines: dict[str, tuple[Array, str, str]], value: str = "@y{0.0000}"
) -> Drawing:
    """Return lines over a run: by name their values, colour, and whether solid or dashed."""
    plot = axis.empty(label)
    for name, (values, color, dash) in lines.items():
        drawn = plot.line(axis.x, values, color=color, line_dash=dash, line_width=1.8, name=name)
        tip = f"$name, {axis.tip}: {value}"
        plot.add_tools(
            HoverTool(renderers=[drawn], tooltips=tip, formatters=axis.forms, visible=False)
        )
    shapes = {"solid": "line", "dashed": "dash"}
    keys = tuple((shapes[dash], color, name) for name, (_, color, dash) in lines.items())
    return Drawing(plot, keys)
