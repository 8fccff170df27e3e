"""Plots in the reports' style, in Bokeh, and their legends."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from bokeh.models import FixedTicker, NumeralTickFormatter, Range1d
from bokeh.plotting import figure
from numpy.typing import NDArray

Array = NDArray[Any]
Plot = Any  # Bokeh brings no types

# Okabe and Ito's colours: distinct for colour-blind readers too. Each means one thing throughout.
BLUE, SKY, GREEN, AMBER, RED = "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00"
SHADES = (BLUE, AMBER, GREEN, RED, SKY, "#cc79a7")
"""Of areas that lie on top of each other."""
INK, GREY, PALE = "#1f2933", "#6b7680", "#e6e9ec"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"

RARITIES = {
    0: "1 in 1", -2: "1 in 100", -4: "1 in 10 000", -6: "1 in a million",
    -9: "1 in a billion", -12: "1 in a trillion",
}  # fmt: skip
"""What scores that are log p mean, by powers of ten; rarer is drawn as the last."""


@dataclass(frozen=True)
class Drawing:
    """A plot and its legend, which the page sets as text: that wraps on a narrow screen."""

    plot: Plot
    legend: tuple[tuple[str, str, str], ...]
    """Shape (line, dash, dots, band, area, dot, flag), colour, label."""


def empty(label: str, x_range: Range1d, unit: str = "days") -> Plot:
    """Return a plot in the report's style. No tool is active, so that a finger can scroll past."""
    plot = figure(
        height=320, sizing_mode="stretch_width", x_range=x_range, y_axis_label=label,
        tools="xpan,xbox_zoom,xwheel_zoom,reset", active_drag=None, active_scroll=None,
        toolbar_location="below", x_axis_label=unit, min_border_right=12,
    )  # fmt: skip
    plot.toolbar.logo = None
    plot.outline_line_color = None
    plot.grid.grid_line_color = PALE
    plot.xgrid.grid_line_color = None
    for axis in (*plot.xaxis, *plot.yaxis):
        axis.axis_line_color = axis.major_tick_line_color = "#b8c0c7"
        axis.minor_tick_line_color = None
        axis.axis_label_text_color = axis.major_label_text_color = GREY
        axis.axis_label_text_font = axis.major_label_text_font = FONT
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px"
    return plot


def legend_list(keys: tuple[tuple[str, str, str], ...]) -> str:
    """Return a legend as a list of HTML."""
    items = (
        f'<li class="{shape}" style="--c:{color}">{label}</li>' for shape, color, label in keys
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def stacked(x: Array, weights: Array, names: list[str], unit: str = "row") -> Drawing:
    """Return weights as areas on top of each other: the most important ones, and the others.

    The one that leads at the end is among the first.

    Parameters
    ----------
    x : array
        Where along the axis, one per row of `weights` [places][members].
    """
    order = np.argsort(-weights.mean(axis=0), kind="stable")
    first = [i for i in order[: len(SHADES)].tolist() if weights[:, i].max() > 0.02]
    leads = int(weights[-1].argmax())
    if leads not in first:
        first = [*first[: len(SHADES) - 1], leads]
    rest = [i for i in order.tolist() if i not in first]
    shown = [(names[i], weights[:, i], color) for i, color in zip(first, SHADES, strict=False)]
    if rest:
        other = "the other one" if len(rest) == 1 else f"the other {len(rest)}"
        shown.append((other, weights[:, rest].sum(axis=1), GREY))
    plot = empty("weight", Range1d(start=float(x[0]), end=float(x[-1]), bounds="auto"), unit)
    plot.xaxis.ticker.desired_num_ticks = 5  # they fit a phone, too
    plot.yaxis.formatter = NumeralTickFormatter(format="0%")
    plot.y_range = Range1d(start=0, end=1)
    below = np.zeros(len(x))
    for name, values, color in shown:
        plot.varea(x, below, below + values, color=color, alpha=0.85, name=name)
        below = below + values
    return Drawing(plot, tuple(("area", color, escape(name)) for name, _, color in shown))


def powers(log_p: Array) -> Array:
    """Return powers of ten of scores that are log p, as an axis of rarities takes them.

    Examples
    --------
    >>> powers(np.log([1.0, 1e-3, 1e-100])).round(6).tolist()
    [0.0, -3.0, -12.0]
    """
    found: Array = np.maximum(log_p / np.log(10.0), min(RARITIES))
    return found


def name_rarities(plot: Plot, lowest: float = min(RARITIES)) -> None:
    """Let an axis of powers of ten speak of one row in so many, down to where something is."""
    low = max((r for r in RARITIES if r <= lowest), default=min(RARITIES))
    plot.yaxis.ticker = FixedTicker(ticks=[r for r in RARITIES if r >= low])
    plot.yaxis.major_label_overrides = dict(RARITIES)
    plot.y_range = Range1d(start=1.04 * low, end=0.04 * -low)
