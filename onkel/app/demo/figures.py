"""The report's figures, in Bokeh, thinned to what a screen can show."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import HoverTool, NumeralTickFormatter, Range1d
from bokeh.models.annotations import BoxAnnotation, Span
from numpy.typing import NDArray

from onkel.app.demo.trial import NU, TERMS, Demonstration, Verdict
from onkel.app.report.figures import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    INK,
    RED,
    SKY,
    Drawing,
    Plot,
    empty,
    name_rarities,
    powers,
    stacked,
)
from onkel.streams.plant import DAY

Array = NDArray[Any]
WIDE = 2.5

POINTS = 1500
"""Per curve."""
CLOSE_ROWS = 240
"""Shown before and after a fault."""


RARITY = "a usual reading in so many"
LEVEL = ("line", INK, "level of an alert")
FAULT = ("flag", AMBER, "fault")
CHANGE = ("dots", GREY, "change of supplier or product")


def drawings(trial: Demonstration) -> dict[str, Drawing]:
    """Return the figures by name; those over the whole stream move together."""
    days = Range1d(start=0, end=len(trial.plant.X) / DAY, bounds="auto")
    drawn = {
        "scores": scores(trial, days),
        "mistakes": mistakes(trial, days),
        "settings": settings(trial),
        "terms": terms(trial, days),
        "rate": rate(trial, days),
    }
    chosen = showpiece(trial.verdicts)
    if chosen is not None:
        drawn["closeup"] = closeup(trial, chosen)
    return drawn


# -- one function per figure -------------------------------------------------------------------


def scores(trial: Demonstration, days: Range1d) -> Drawing:
    """Rarity and level over time, alerts, and the faults shaded."""
    plot = empty(RARITY, days)
    name_rarities(plot)
    _mark_faults(plot, trial)
    _mark_changes(plot, trial)
    score, level = powers(trial.score), powers(trial.threshold)
    day, low, high = _envelope(trial.plant.time, score)
    plot.varea(x=day, y1=low, y2=high, color=BLUE, alpha=0.25)
    keep = _thin(len(score))
    at = np.flatnonzero(trial.alerts)
    plot.scatter(trial.plant.time[at], score[at], size=3.5, color=RED, alpha=0.7)
    plot.line(trial.plant.time[keep], level[keep], color=INK, line_width=1.5)
    plot.y_range.end = 1.5
    _flag_faults(plot, trial, 0.8)
    band = ("band", BLUE, "readings, rarest to most usual")
    return Drawing(plot, (band, LEVEL, ("dot", RED, "alert"), FAULT, CHANGE))


def closeup(trial: Demonstration, verdict: Verdict) -> Drawing:
    """Every row around one fault."""
    fault, n = verdict.fault, len(trial.score)
    rows = np.arange(max(0, fault.start - CLOSE_ROWS), min(n, fault.stop + CLOSE_ROWS))
    hours = (rows - fault.start) / 60
    ends = Range1d(start=float(hours[0]), end=float(hours[-1]), bounds="auto")
    plot = empty(RARITY, ends, "hours since the fault began")
    name_rarities(plot, float(powers(trial.score[rows]).min()))
    plot.add_layout(_box(0.0, (fault.stop - fault.start) / 60))
    score, alert = powers(trial.score[rows]), trial.alerts[rows]
    plot.line(hours, score, color=BLUE, line_width=1.2)
    plot.step(hours, powers(trial.threshold[rows]), color=INK, line_width=1.5, mode="after")
    plot.scatter(hours[alert], score[alert], size=6, color=RED)
    keys = (("line", BLUE, "reading"), LEVEL, ("dot", RED, "alert"))
    return Drawing(plot, (*keys, ("band", AMBER, "fault")))


def mistakes(trial: Demonstration, days: Range1d) -> Drawing:
    """Cumulative mistakes of the classifier and of the no-change baseline."""
    plot = empty("mistakes so far", days)
    _mark_changes(plot, trial)
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    keep = _thin(len(trial.score))
    day, own, base = trial.plant.time[keep], np.cumsum(trial.mistakes), np.cumsum(trial.baseline)
    lines = [
        plot.line(
            day,
            base[keep],
            color=GREY,
            line_dash="dashed",
            line_width=WIDE,
            name="no-change baseline",
        ),
        plot.line(day, own[keep], color=BLUE, line_width=WIDE, name="onkel"),
    ]
    _hover(plot, lines, "@y{0,0} mistakes")
    keys = (("line", BLUE, "onkel's classifier"), ("dash", GREY, "no-change baseline"))
    return Drawing(plot, (*keys, CHANGE))


def settings(trial: Demonstration) -> Drawing:
    """How much each of the classifier's settings counted."""
    run = trial.tracking
    return stacked(run.rows / DAY, run.weights, run.report["names"], "days")


def terms(trial: Demonstration, days: Range1d) -> Drawing:
    """Terms stored by both models, and the limit of the larger one."""
    plot = empty("terms stored", days)
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    runs = {"detector": (trial.detection, GREEN), "classifier": (trial.tracking, BLUE)}
    most = max(int(run.terms.max()) for run, _ in runs.values())
    plot.y_range = Range1d(start=0, end=1.12 * most)
    plot.add_layout(Span(location=TERMS, dimension="width", line_color=GREY, line_dash="dashed"))
    lines = []
    for name, (run, color) in runs.items():
        day, count = np.append(0.0, run.rows / DAY), np.append(0, run.terms)
        keep = _thin(len(day))
        lines.append(plot.line(day[keep], count[keep], color=color, line_width=WIDE, name=name))
    _hover(plot, lines, "@y{0,0} terms")
    keys = tuple(("line", color, name) for name, (_, color) in runs.items())
    return Drawing(plot, (*keys, ("dash", GREY, f"the classifier's limit, {TERMS:,}")))


def rate(trial: Demonstration, days: Range1d) -> Drawing:
    """Alert rate of usual readings, since the start and over a week, against the promise."""
    plot = empty("alert rate of usual readings", days)
    plot.yaxis.formatter = NumeralTickFormatter(format="0.0%")
    plot.y_range = Range1d(start=0, end=4 * NU)
    _mark_faults(plot, trial)
    _mark_changes(plot, trial)
    keep = _thin(len(trial.score))
    day, (so_far, recent) = trial.plant.time[keep], _rates(trial.alerts, trial.usual)
    lines = [
        plot.line(day, recent[keep], color=SKY, line_width=1.5, name="last 7 days"),
        plot.line(day, so_far[keep], color=BLUE, line_width=WIDE, name="since the start"),
    ]
    plot.line([0, float(day[-1])], [NU, NU], color=INK, line_dash="dashed", line_width=1.5)
    _hover(plot, lines, "@y{0.00%}")
    keys = (("dash", INK, "promised, about"), ("line", BLUE, "since the start"))
    return Drawing(plot, (*keys, ("line", SKY, "last 7 days"), ("band", AMBER, "fault"), CHANGE))


# -- numbers -----------------------------------------------------------------------------------


def _thin(n: int) -> Array:
    """Return at most POINTS rows, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, POINTS).astype(int))


def _envelope(time: Array, values: Array) -> tuple[Array, Array, Array]:
    """Return first time, lowest and highest value of each stretch."""
    starts = _thin(len(values))[:-1]
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return time[starts], low, high


def _rates(alerts: Array, usual: Array) -> tuple[Array, Array]:
    """Return the alert rate of usual rows, so far and over the last seven days, for each row."""
    total, rows = np.cumsum(alerts & usual), np.cumsum(usual)
    before, gone = (np.concatenate([np.zeros(7 * DAY), c])[: len(alerts)] for c in (total, rows))
    return total / np.maximum(rows, 1), (total - before) / np.maximum(rows - gone, 1)


def showpiece(verdicts: list[Verdict]) -> Verdict | None:
    """Return the fault to show close up: a leak that was found, else any found, else any."""
    order = sorted(verdicts, key=lambda v: (not v.found, v.fault.kind != "leak"))
    return order[0] if order else None


# -- Bokeh -------------------------------------------------------------------------------------


def _hover(plot: Plot, lines: list[Any], value: str) -> None:
    tip = HoverTool(renderers=lines, tooltips=f"$name, day @x{{0.0}}: {value}", visible=False)
    plot.add_tools(tip)


def _box(left: float, right: float) -> BoxAnnotation:
    return BoxAnnotation(
        left=left, right=right, fill_color=AMBER, fill_alpha=0.3, line_color=AMBER, line_alpha=0.6,
        level="underlay",
    )  # fmt: skip


def _mark_faults(plot: Plot, trial: Demonstration) -> None:
    for fault in trial.plant.faults:
        plot.add_layout(_box(fault.start / DAY, fault.stop / DAY))


def _flag_faults(plot: Plot, trial: Demonstration, height: float) -> None:
    """Mark faults above the scores too: filled if found, hollow if missed; hover for the kind."""
    verdicts = trial.verdicts
    source = {
        "x": [v.fault.start / DAY for v in verdicts],
        "y": [height] * len(verdicts),
        "kind": [v.fault.kind for v in verdicts],
        "alerts": [v.alerts for v in verdicts],
        "fill": [AMBER if v.found else "white" for v in verdicts],
        "verdict": ["found" if v.found else "missed" for v in verdicts],
    }
    flags = plot.scatter("x", "y", source=source, marker="inverted_triangle", size=11,
                         fill_color="fill", line_color="#a06f00")  # fmt: skip
    tip = "@kind, day @x{0.0}: @alerts alerts, @verdict"
    plot.add_tools(HoverTool(renderers=[flags], tooltips=tip, visible=False))


def _mark_changes(plot: Plot, trial: Demonstration) -> None:
    for row in trial.plant.changes:
        plot.add_layout(Span(location=row / DAY, dimension="height", line_color=GREY,
                             line_dash="dotted", line_width=1.5, level="underlay"))  # fmt: skip
