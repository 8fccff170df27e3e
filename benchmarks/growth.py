"""How cost and memory grow: with trials, terms, features and classes; with terms in trees.

Float32 rows, Gaussian kernel, every example stored; microseconds of the processor per example of
predict_then_learn, in blocks. The trees are those of trees.py.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import common
import trees
import workloads
from common import clock, median, ratio

D = 16
TRIALS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
TERMS = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
WIDTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
CLASSES = (2, 10, 100)
"""Two classes need one output; more need one each."""
ROWS = 1000


# -- trials ------------------------------------------------------------------------------------


def along(trials: tuple[int, ...]) -> tuple[list[float], list[int]]:
    """Return us per example just before each of these trials, and the bytes stored then."""
    model = workloads.regressor(workloads.TERMS)
    X, y = workloads.regression(D, "float32", ROWS)
    costs, sizes, done = [], [], 0
    for stop in trials:
        recent: list[float] = []
        while done < stop:
            began = clock()
            model.predict_then_learn(X, y)
            recent.append((clock() - began) / ROWS * 1e6)
            done += ROWS
        costs.append(median(recent[-5:]))
        sizes.append(model.diagnostics_["bytes"])
    return costs, sizes


def trials(quick: bool) -> dict[str, Any]:
    """Return cost and memory against the number of trials, window of 1000 terms."""
    ends = TRIALS[: 5 if quick else None]
    runs = [along(ends) for _ in range(3 if quick else 9)]
    costs = [median(run[0][i] for run in runs) for i in range(len(ends))]
    return {"trials": list(ends), "us": costs, "bytes": runs[0][1]}


# -- terms, features, classes ------------------------------------------------------------------


def terms(quick: bool) -> dict[str, list[float]]:
    """Return ns per example and term, by number of terms."""
    sizes = TERMS[: 5 if quick else None]
    models = {m: workloads.full_regressor(D, "float32", m) for m in sizes}
    found = {
        str(m): partial(workloads.onkel_ns, D, "float32", ROWS, model)
        for m, model in models.items()
    }
    return common.rounds(found, 3 if quick else 9)


def widths(quick: bool) -> dict[str, list[float]]:
    """Return ns per example and term, by number of features."""
    found = {}
    for d in WIDTHS[:: 2 if quick else 1]:
        model = workloads.full_regressor(d, "float32")
        found[str(d)] = partial(workloads.onkel_ns, d, "float32", ROWS, model)
    return common.rounds(found, 3 if quick else 9)


def classes_us(model: Any, X: Any, y: Any) -> float:
    """Return us per example."""
    began = clock()
    model.predict_then_learn(X, y)
    return (clock() - began) / len(X) * 1e6


def classes(quick: bool) -> dict[str, list[float]]:
    """Return us per example at d = 256 and 1000 terms, by number of classes."""
    found = {str(c): partial(classes_us, *workloads.full_classifier(256, c)) for c in CLASSES}
    return common.rounds(found, 3 if quick else 9)


def in_trees(quick: bool) -> list[common.Row]:
    """Return the lines of trees.py for the exponential kernel."""
    sizes = trees.TERMS[: 3 if quick else None]
    return [
        trees.measure("exponential", m, d, 1 if quick else 5)
        for d in trees.COORDINATES
        for m in sizes
    ]


def measure(quick: bool) -> dict[str, Any]:
    """Return everything."""
    parts = {"trials": trials, "terms": terms, "widths": widths, "classes": classes}
    return {name: part(quick) for name, part in (parts | {"trees": in_trees}).items()}


# -- tables ------------------------------------------------------------------------------------


def _trials(found: dict[str, Any]) -> list[common.Row]:
    base = found["us"][1]  # the first thousand rows fill the window
    rows = zip(found["trials"], found["us"], found["bytes"], strict=True)
    return [
        {"trials": t, "us per example": us, "to 2,000 trials": us / base, "kB": size / 1e3}
        for t, us, size in rows
    ]


def _sizes(name: str, found: dict[str, list[float]], base: str, many: bool) -> list[common.Row]:
    """Return lines for terms (us grows with their number) or features."""
    rows = []
    for key, ns in found.items():
        count = int(key) if many else workloads.TERMS
        row: common.Row = {name: int(key), "us per example": median(ns) * count / 1e3}
        row |= {"ns per example and term": median(ns)}
        rows.append(row | {f"ns to {name} = {base}": ratio(ns, found[base])})
    return rows


def _classes(found: dict[str, list[float]]) -> list[common.Row]:
    rows = [(int(key), us) for key, us in found.items()]
    return [
        {"classes": c, "us per example": median(us), "to 2 classes": ratio(us, found["2"])}
        for c, us in rows
    ]


def _trees(lines: list[common.Row]) -> list[common.Row]:
    keys = ("d", "terms", "tree", "dense", "ratio", "tree, 1 row", "dense, 1 row", "ratio, 1 row")
    return [{key: line[key] for key in (*keys, "MB")} for line in lines]


def tables(report: dict[str, Any]) -> list[tuple[str, list[common.Row]]]:
    """Return one table per axis."""
    return [
        ("with trials: 1000 terms, d = 16", _trials(report["trials"])),
        ("with terms: d = 16", _sizes("terms", report["terms"], "1000", True)),
        ("with features: 1000 terms", _sizes("d", report["widths"], "2", False)),
        ("with classes: 1000 terms, d = 256, least squares", _classes(report["classes"])),
        (
            "with terms in trees: additive exponential kernel, us per example",
            _trees(report["trees"]),
        ),
    ]


# -- figure ------------------------------------------------------------------------------------


def _curve(axis: Any, rows: list[common.Row], x: str, y: str = "us per example") -> None:
    """Draw one column against another; flat things look flat."""
    at, values = [row[x] for row in rows], [row[y] for row in rows]
    axis.plot(at, values, "o-", ms=3, color=common.ACCENT)
    axis.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    axis.set_ylim(min(values) / 2, max(2 * max(values), 20 * min(values)))
    common.readable(axis.yaxis)
    shown = at[:: -(-len(at) // 4)]
    axis.set_xticks(shown, [f"{v:,}" for v in shown])
    axis.minorticks_off()


def _tree_curves(axis: Any, lines: list[common.Row]) -> None:
    for d, style in zip(trees.COORDINATES, ("o-", "o:"), strict=True):
        mine = [line for line in lines if line["d"] == d]
        for key, colour in (("tree", common.ACCENT), ("dense", common.ALARM)):
            label, at = f"{key}, d = {d}", [line["terms"] for line in mine]
            axis.plot(at, [line[key] for line in mine], style, ms=3, color=colour, label=label)
    axis.set(xscale="log", yscale="log", xlabel="terms", title="with terms in trees")
    axis.legend(frameon=False, fontsize=7)


def figure(report: dict[str, Any], path: Path) -> None:
    """Draw one panel per axis."""
    made = common.canvas(6, 3, (9, 5))
    if made is None:
        return
    fig, axes = made
    found = tables(report)
    flat = found[0][1]
    names = ("trials", "terms", "d", "classes")
    for axis, (title, rows), name in zip(axes, found[:4], names, strict=False):
        _curve(axis, rows, name)
        axis.set_title(title.partition(":")[0])
    _tree_curves(axes[4], found[4][1])
    _curve(axes[5], flat, "trials", "kB")
    axes[5].set_title("memory with trials")
    common.keep(fig, path)
