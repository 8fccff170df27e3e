"""onkel beside River, scikit-learn, LIBSVM and Vowpal Wabbit: same streams, same protocol.

Every method predicts a row before it learns it. Seconds are those of the processor. A method that
takes longer than its share of time on a stream is stopped there: its line says how many rows it
saw, and what onkel's default had reached after as many. The streams are in feeds.py, the methods
in adapters.py and detectors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import adapters
import common
import detectors
import feeds
import numpy as np
from adapters import Method
from common import clock, median
from feeds import Feed

from onkel.alerting import ranks

SECONDS = {True: 0.5, False: 30.0}
"""What a method may take on one stream, quick or not."""
ROUNDS = {True: 1, False: 3}
"""Passes over a stream, all methods in turn; the slow ones make one."""
QUICK_ROWS = {"classes": 1200, "novelty": 5000}
UNCOUNTED = {"classes": 200, "novelty": 400}
"""Rows at the start of a stream that do not count: some methods wait for their first window."""


def run(method: Method, feed: Feed, seconds: float) -> tuple[np.ndarray, float]:
    """Return the predictions of as many rows as the time allows, and the seconds they took."""
    feed.dicts, feed.texts, feed.labels  # noqa: B018  made beforehand
    step, parts, spent, start = method.make(feed), [], 0.0, 0
    while start < len(feed.X) and spent < seconds:
        stop = min(start + method.chunk, len(feed.X))
        began = clock()
        parts.append(step(start, stop))
        spent += clock() - began
        start = stop
    return np.concatenate(parts), spent


def run_all(methods: list[Method], parts: list[Feed], quick: bool) -> dict[str, Any]:
    """Return for each method that can run: its predictions for each part, and its seconds."""
    share = SECONDS[quick] / len(parts)
    found: dict[str, Any] = {}
    run(methods[0], parts[0].head(1000), share)  # warm
    for i in range(ROUNDS[quick]):
        for method in methods:
            if refusal(method, parts[0].classes) or (i and found[method.name][1][0] > 2):
                continue
            runs = [run(method, feed, share) for feed in parts]
            found.setdefault(method.name, ([r[0] for r in runs], []))
            found[method.name][1].append(sum(r[1] for r in runs))
    return {name: (answers, max(median(times), 1e-9)) for name, (answers, times) in found.items()}


def refusal(method: Method, classes: int) -> str:
    """Return why a method cannot run here, or nothing."""
    if not method.installed:
        return "not installed"
    return "two classes only" if method.binary and classes > 2 else ""


def lines_of(
    methods: list[Method], parts: list[Feed], quick: bool, judge: Callable[..., common.Row]
) -> list[common.Row]:
    """Return a line for every method; onkel's default, the first, is what speeds are held to."""
    found = run_all(methods, parts, quick)
    rows, lines, speed = sum(len(feed.X) for feed in parts), [], 0.0
    for method in methods:
        line: common.Row = {"method": method.name, "family": method.family}
        if method.name in found:
            answers, seconds = found[method.name]
            seen = sum(map(len, answers))
            speed = speed or seen / seconds
            line |= {"rows": seen, "of": rows, **judge(answers, found[methods[0].name][0])}
            line |= {"examples/s": seen / seconds, "onkel/it": speed * seconds / seen}
        lines.append(line | {"note": refusal(method, parts[0].classes)})
    return lines


# -- classifiers -------------------------------------------------------------------------------


def classify(feed: Feed, quick: bool) -> list[common.Row]:
    """Return a line for every classifier: its error, and onkel's default's on the same rows."""
    first = UNCOUNTED["classes"]

    def judge(answers: list[np.ndarray], default: list[np.ndarray]) -> common.Row:
        part = slice(first, len(answers[0]))
        truth = feed.y[part]
        wrong, there = (_share(x[part] != truth) for x in (answers[0], default[0]))
        return {"error %": wrong, "onkel there": there}

    return lines_of(adapters.METHODS, [feed], quick, judge)


# -- detectors ---------------------------------------------------------------------------------


def auc(unusual: np.ndarray, positive: np.ndarray) -> float:
    """Return the chance that an anomaly is more unusual than another row (ties count half)."""
    _, rank, count = np.unique(unusual, return_inverse=True, return_counts=True)
    mean_rank = (np.cumsum(count) - (count - 1) / 2)[rank]
    n = int(positive.sum())
    if not 0 < n < len(positive):
        return float("nan")
    return float((mean_rank[positive].sum() - n * (n + 1) / 2) / (n * (len(positive) - n)))


def detect(parts: list[Feed], quick: bool) -> list[common.Row]:
    """Return a line for every detector; each part is a stream of its own."""

    def judge(answers: list[np.ndarray], default: list[np.ndarray]) -> common.Row:
        there = [x[: len(a)] for a, x in zip(answers, default, strict=True)]
        return judged(answers, parts) | {"onkel there": judged(there, parts)["AUC"]}

    return lines_of(detectors.METHODS, parts, quick, judge)


def judged(answers: list[np.ndarray], parts: list[Feed]) -> common.Row:
    """Return means over the parts of AUC, by score, beyond the threshold and by the score's rank
    among the last 1000; shares of alerts.
    """
    first = UNCOUNTED["novelty"]
    truth = [feed.y[first : len(a)] > 0 for a, feed in zip(answers, parts, strict=True)]
    pairs = list(zip(answers, truth, strict=True))
    raised, anomalous = np.concatenate([a[first:, 2] > 0 for a in answers]), np.concatenate(truth)
    line = {
        name: _mean([auc(a[first:, i], t) for a, t in pairs])
        for i, name in enumerate(("AUC", "AUC, beyond threshold"))
    }
    line["AUC, rank"] = _mean([auc(-ranks(-a[:, 0], 1000)[first:], t) for a, t in pairs])
    line |= {"alerts %": _share(raised), "caught %": _share(raised[anomalous])}
    return line | {"false %": _share(raised[~anomalous])}


def _share(values: np.ndarray) -> float | None:
    return 100 * float(values.mean()) if len(values) else None


def _mean(values: list[float]) -> float | None:
    known = [v for v in values if np.isfinite(v)]
    return float(np.mean(known)) if known else None


# -- the section -------------------------------------------------------------------------------


def measure(quick: bool) -> dict[str, Any]:
    """Return the lines of every stream that is there."""
    found: dict[str, Any] = {"classes": {}, "novelty": {}, "about": {}}
    for name, make in feeds.available(feeds.CLASSES).items():
        print(f"   {name}", flush=True)
        feed = make().head(QUICK_ROWS["classes"] if quick else None)
        found["about"][name] = _about(make, feed.d, feed.classes)
        found["classes"][name] = classify(feed, quick)
    for name, make in feeds.available(feeds.NOVELTY).items():
        print(f"   {name}", flush=True)
        parts = make()[: 2 if quick else None]
        parts = [feed.head(QUICK_ROWS["novelty"] if quick else None) for feed in parts]
        found["about"][name] = _about(make, parts[0].d, 0)
        found["novelty"][name] = detect(parts, quick)
    return found


def _about(make: Any, d: int, classes: int) -> str:
    kinds = f", {classes} classes" if classes else ""
    return f"{make.__doc__.rstrip('.')} (d = {d}{kinds})"


def named(line: common.Row) -> str:
    """Return a method's name with its family's."""
    return line["method"] if line["family"] == "plain" else f"{line['family']}: {line['method']}"


def shown(line: common.Row) -> common.Row:
    """Return a line of a table: one that stopped early says so, and what onkel had there."""
    hidden = ("method", "family", "rows", "of", "note", "onkel there")
    row = {"method": named(line)} | {k: v for k, v in line.items() if k not in hidden}
    note = line["note"]
    if line.get("rows", 0) < line.get("of", 0):
        note = f"first {line['rows']:,} rows"
        if line["onkel there"] is not None:
            note += f"; onkel there {line['onkel there']:.3g}"
    return row | {"note": note}


def area(line: common.Row) -> float:
    """Return the best AUC of the three ways; below 0 where there is none."""
    return max(line.get(key) or -1 for key in ("AUC", "AUC, beyond threshold", "AUC, rank"))


def best_first(lines: list[common.Row]) -> list[common.Row]:
    """Return lines by error or by AUC; those without either at the end."""

    def key(line: common.Row) -> float:
        if "AUC" in line:
            return -area(line)
        value = line.get("error %")
        return np.inf if value is None else value

    return sorted(lines, key=key)


def tables(report: dict[str, Any]) -> list[tuple[str, list[common.Row]]]:
    """Return a table per stream, the best first."""
    found = []
    for name, lines in (report["classes"] | report["novelty"]).items():
        rows = max(line.get("of", 0) for line in lines)
        title = f"{name}: {report['about'][name]}, {rows:,} rows"
        found.append((title, [shown(line) for line in best_first(lines)]))
    return found


# -- figure ------------------------------------------------------------------------------------

COLOURS = {
    "onkel": common.ACCENT, "plain": common.INK, "River": common.ALARM, "scikit-learn": "#e08e0b",
    "LIBSVM": "#5a9367", "Vowpal Wabbit": "#7d4e9e",
}  # fmt: skip
MARKERS = "osD^v<>P*X"


def looks(lines: list[common.Row]) -> dict[str, dict[str, Any]]:
    """Return a colour for each family and a marker for each of its methods."""
    seen: dict[str, int] = {}
    found = {}
    for line in lines:
        i = seen[line["family"]] = seen.get(line["family"], -1) + 1
        colour = COLOURS[line["family"]]
        found[line["method"]] = {"edgecolors": colour, "marker": MARKERS[i % len(MARKERS)]}
    return found


def panel(axis: Any, lines: list[common.Row], handles: dict[str, Any]) -> None:
    """Draw one stream; hollow marks stopped early, the broken line repeats the last label."""
    look = looks(lines)
    for line in lines:
        height = area(line) if "AUC" in line else line.get("error %")
        if height is None or height < 0:
            continue
        if line["method"] == "last label":
            axis.axhline(height, color=common.SOFT, lw=0.8, ls="--", zorder=0)
            continue
        whole, style = line["rows"] == line["of"], look[line["method"]]
        face = style["edgecolors"] if whole else "none"
        at = max(height, 0.05)  # the scale of errors is logarithmic
        mark = axis.scatter(line["examples/s"], at, s=28, facecolors=face, **style)
        if whole or named(line) not in handles:
            handles[named(line)] = mark
    axis.set(xscale="log", xlabel="examples per second")
    axis.xaxis.set_minor_formatter("")


def figure(report: dict[str, Any], path: Path) -> None:
    """Draw error (or AUC) against speed, a panel per stream."""
    panels = report["classes"] | report["novelty"]
    down = -(-len(panels) // 3)
    made = common.canvas(len(panels), 3, (11, 2.7 * down + 1.3))
    if made is None:
        return
    fig, axes = made
    handles: dict[str, Any] = {}
    for axis, (name, lines) in zip(axes, panels.items(), strict=False):
        panel(axis, lines, handles)
        area_ = name in report["novelty"]
        axis.set_title(f"{name}: {'higher' if area_ else 'lower'} is better")
        axis.set(ylabel="AUC" if area_ else "error, %", yscale="linear" if area_ else "log")
        if not area_:
            common.readable(axis.yaxis)
    fig.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
    common.keep(fig, path)
