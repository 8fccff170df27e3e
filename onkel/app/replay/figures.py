"""Figures of a replay's page: the alerts of all settings on one axis of times, or of rows."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    DatetimeTicker,
    DatetimeTickFormatter,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)

from onkel.app.replay.alerts import Alert
from onkel.app.replay.compare import Difference, Outcome
from onkel.app.report.axis import SCALES
from onkel.app.report.figures import BLUE, GREEN, INK, RED, Drawing, empty, name_rarities, powers
from onkel.explain import one_in

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
CAME = "alerts of the run"
"""What its own line shows: nothing is said there of what would come again."""


def rarity(score: float, tells_p: bool) -> str:
    """Return how rare an alert is, in words; its score, where that is no log p."""
    return one_in(score) if tells_p else f"{score:.3g}"


class Axis:
    """Where alerts stand: by their times, where all have one, else by their rows."""

    def __init__(self, low: float, high: float, timed: bool) -> None:
        margin = 0.02 * (high - low) or 1.0
        self.low, self.high, self.timed = low - margin, high + margin, timed
        self.dates = timed and low > DATES

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Axis | None:
        """Return the axis of all alerts; None where there are none."""
        alerts = [alert for one in outcomes for alert in one.alerts]
        if not alerts:
            return None
        timed = all(alert.seconds is not None for alert in alerts)
        places = [float(alert.seconds or 0.0) if timed else float(alert.row) for alert in alerts]
        return cls(min(places), max(places), timed)

    def at(self, alert: Alert) -> float:
        """Return where an alert stands: seconds, or a row."""
        return float(alert.seconds or 0.0) if self.timed else float(alert.row)

    def drawn(self, place: float) -> float:
        """Return a place as Bokeh takes it: dates in milliseconds."""
        return 1000.0 * place if self.dates else place

    def range(self) -> Range1d:
        """Return the whole of it for a plot."""
        return Range1d(start=self.drawn(self.low), end=self.drawn(self.high), bounds="auto")

    def thinned(self, alerts: Sequence[Alert]) -> list[tuple[Alert, int]]:
        """Return the rarest alert of each part of the axis, and how many it stands for."""
        rarest: dict[int, tuple[Alert, int]] = {}
        for alert in alerts:
            place = int(PLACES * (self.at(alert) - self.low) / (self.high - self.low))
            best, count = rarest.get(place, (alert, 0))
            rarest[place] = (alert if alert.score < best.score else best), count + 1
        return [rarest[place] for place in sorted(rarest)]

    def dress(self, plot: Any, ticks: int = 3) -> None:
        """Let a plot's axis name dates, or rows: so few that they fit a phone beside names."""
        if self.dates:
            plot.xaxis.ticker = DatetimeTicker(desired_num_ticks=ticks)
            plot.xaxis.formatter = DatetimeTickFormatter(**SCALES)
        else:
            plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
            plot.xaxis.ticker.desired_num_ticks = ticks

    @property
    def unit(self) -> str:
        return "time" if self.timed else "row"


def _data(axis: Axis, alerts: Sequence[Alert], y: Any) -> ColumnDataSource:
    thinned = axis.thinned(alerts)
    return ColumnDataSource({
        "x": [axis.drawn(axis.at(a)) for a, _ in thinned], "y": [y(a) for a, _ in thinned],
        "row": [a.row for a, _ in thinned],
        "when": [" ".join(str(v) for v in (a.time, a.key) if v is not None) for a, _ in thinned],
        "rare": [rarity(a.score, a.p is not None) for a, _ in thinned],
        "why": [a.why or "" for a, _ in thinned],
        "more": [f"the rarest of {n:,} here" if n > 1 else "" for _, n in thinned],
    })  # fmt: skip


_TOLD = [("row", "@row{0,0} @when"), ("how rare", "@rare @more"), ("why", "@why")]


def _draw(plot: Any, data: ColumnDataSource, **how: Any) -> None:
    drawn = plot.scatter("x", "y", source=data, line_width=1.6, **how)
    plot.add_tools(HoverTool(renderers=[drawn], tooltips=_TOLD, visible=False))


def _ticks(plot: Any, data: ColumnDataSource, color: str) -> None:
    """Draw ticks across a line."""
    _draw(plot, data, color=color, marker="dash", size=11, angle=np.pi / 2)


def _scatter(plot: Any, data: ColumnDataSource, kind: str) -> None:
    """Draw marks."""
    color, mark = KINDS[kind][:2]
    filled = {} if kind == "gone" else {"fill_alpha": 0.6}
    _draw(plot, data, color=color, marker=mark, size=8, **filled)


def strips(outcomes: Sequence[Outcome], axis: Axis) -> Drawing:
    """Return a line of marks for each setting, one above another."""
    levels = {one.name: -float(i) for i, one in enumerate(outcomes)}
    plot = empty("", axis.range(), axis.unit)
    plot.height = 110 + 48 * len(levels)
    plot.y_range = Range1d(start=0.5 - len(levels), end=0.5)
    plot.yaxis.ticker = FixedTicker(ticks=list(levels.values()))
    plot.yaxis.major_label_overrides = {int(y): _short(name) for name, y in levels.items()}
    axis.dress(plot)
    was, kinds = outcomes[0], set()
    _ticks(plot, _data(axis, was.alerts, lambda a: levels[was.name]), INK)
    for one in outcomes[1:]:
        difference = Difference.of(was.alerts, one.alerts)
        for kind in KINDS:
            alerts = getattr(difference, kind)
            if alerts:
                y = levels[one.name] + KINDS[kind][4]
                _ticks(plot, _data(axis, alerts, lambda a, y=y: y), KINDS[kind][0])
                kinds.add(kind)
    told = [(KINDS[kind][0], KINDS[kind][3]) for kind in KINDS if kind in kinds]
    return Drawing(plot, tuple(("tick", *one) for one in [(INK, CAME), *told]))


def _short(name: str) -> str:
    """Return a name for the axis, in three short lines at most."""
    whole = name.replace(" ", "\u00a0").replace(",\u00a0", ", ")
    lines = textwrap.wrap(whole, 20, max_lines=3, placeholder="…")
    return "\n".join(lines).replace("\u00a0", " ")


def marks(difference: Difference, axis: Axis) -> Drawing:
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
    return Drawing(plot, tuple((KINDS[k][2], KINDS[k][0], KINDS[k][3]) for k in kinds))
