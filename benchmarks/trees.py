"""Additive kernels: trees against dense sums, as the number of terms grows.

One example costs a prediction, the insertion of its term and the deletion of the oldest. The dense
side is charged for the prediction alone, by the fastest way there is: with one coordinate the
compiled row sums of the same kernel, in float32 and float64; with several the compiled additive
matrix times the coefficients (and, as a yardstick, a row sum of the Laplacian kernel of all
coordinates together, which takes one exponential per term instead of one per coordinate).

Times are those of the processor: where others work too, a call of some milliseconds is often
interrupted and one of some microseconds is not, and the growth would be that of interruptions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common  # first: it sets the number of BLAS threads
import numpy as np
from common import medians, save, table

from onkel import core
from onkel.core.forest import additive_matrix, forest
from onkel.core.frame import Frame
from onkel.core.layout import LANES, Op
from onkel.core.split import ExpPoly, Poly

FIGURE = common.REPORTS / "trees.png"
TERMS = (10**3, 10**4, 10**5, 10**6)
COORDINATES = (1, 8)
BLOCK = 256
KERNELS: dict[str, tuple[Any, Op | None]] = {
    "exponential": (ExpPoly(1.0), Op.LAPLACIAN),
    "matern32": (ExpPoly(1.0, (1.0, 1.0)), Op.MATERN32),
    "matern52": (ExpPoly(1.0, (1.0, 1.0, 1 / 3)), Op.MATERN52),
    "spline1": (Poly(1), None),
    "spline2": (Poly(2), None),
    "spline3": (Poly(3), None),
}


class Window:
    """A forest of so many terms that takes in new ones and lets the oldest go."""

    def __init__(self, split: Any, terms: int, d: int) -> None:
        self.rng = np.random.default_rng(terms + d)
        self.X = np.abs(self.rng.normal(size=(terms, d)))
        self.coef = self.rng.normal(size=(terms, 1))
        self.ids = np.arange(terms)
        self.at, self.next = 0, terms
        self.trees = forest([split] * d, np.ones(d), 1)
        self.trees.build(self.X, self.coef, self.ids)

    def step(self, new: np.ndarray, coef: np.ndarray) -> float:
        """Return the seconds of predict, insert and delete for these rows, in one call each."""
        n = len(new)
        old = (self.at + np.arange(n)) % len(self.X)
        gone, gone_ids = self.X[old], self.ids[old]
        ids, out = self.next + np.arange(n), np.empty((n, 1))
        began = time.thread_time()
        self.trees.query(new, out)
        self.trees.insert(new, coef, ids)
        self.trees.erase(gone, gone_ids)
        seconds = time.thread_time() - began
        self.X[old], self.coef[old], self.ids[old] = new, coef, ids
        self.at, self.next = (self.at + n) % len(self.X), self.next + n
        return seconds

    def us(self, rows: int, calls: int) -> float:
        """Return the median time per row in microseconds."""
        times = []
        for _ in range(calls):
            new = np.abs(self.rng.normal(size=(rows, self.X.shape[1])))
            times.append(self.step(new, self.rng.normal(size=(rows, 1))))
        return float(np.median(times)) / rows * 1e6

    def error(self, split: Any) -> float:
        """Return the largest error of 8 predictions, relative to the sum of absolute parts."""
        d = self.X.shape[1]
        new, out = np.abs(self.rng.normal(size=(8, d))), np.empty((8, 1))
        self.trees.query(new, out)
        K = additive_matrix([split] * d, np.ones(d), new, self.X)
        return float(np.max(np.abs(out - K @ self.coef) / (K @ np.abs(self.coef))))


class Dense:
    """Row sums of one kernel over panels, as the dense expansion makes them."""

    def __init__(self, op: Op, window: Window, dtype: str) -> None:
        terms, d = window.X.shape
        panels = -(-terms // LANES)
        rows = np.zeros((panels * LANES, d))
        coef = np.zeros((panels * LANES, 1))
        rows[:terms], coef[:terms] = window.X, window.coef
        self.program = [(int(op), 1.0, 0.0, 0)]
        self.frame = Frame.plain(np.zeros(d), np.dtype(dtype), invariant=True)
        stored = self.frame.prepare(rows)
        self.panels = np.ascontiguousarray(stored.v.reshape(panels, LANES, d).transpose(0, 2, 1))
        self.norms = stored.norm.reshape(panels, LANES)
        self.coef = coef.reshape(panels, LANES, 1).transpose(0, 2, 1).astype(dtype)
        self.rng = np.random.default_rng(d)

    def us(self, rows: int) -> float:
        """Return the time of one row's prediction in microseconds."""
        X = np.abs(self.rng.normal(size=(rows, self.panels.shape[1])))
        began = time.thread_time()
        queries = self.frame.prepare(X)
        core.sums(
            self.program, queries, self.panels, self.norms, 0, len(self.panels), self.coef
        )  # fmt: skip
        return (time.thread_time() - began) / rows * 1e6


def additive_us(split: Any, window: Window, rows: int) -> float:
    """Return the time of one row's prediction by the additive matrix, tile by tile."""
    d = window.X.shape[1]
    new, weights = np.abs(window.rng.normal(size=(rows, d))), np.ones(d)
    total = np.zeros((rows, 1))
    tile = 4096 if rows > 1 else 65536  # the matrix stays in cache; one row is long enough
    began = time.thread_time()
    for i in range(0, len(window.X), tile):
        K = additive_matrix([split] * d, weights, new, window.X[i : i + tile])
        total += K @ window.coef[i : i + tile]
    return (time.thread_time() - began) / rows * 1e6


def jobs_of(kernel: str, terms: int, d: int) -> tuple[Window, dict[str, Callable[[], float]]]:
    """Return the things to be timed for one size; blocks of rows, and one row per call."""
    split, op = KERNELS[kernel]
    window = Window(split, terms, d)
    many = 32 if terms >= 10**5 else BLOCK
    jobs: dict[str, Callable[[], float]] = {
        "tree": lambda: window.us(BLOCK, 10),
        "tree, 1 row": lambda: window.us(1, 200),
        "additive": lambda: additive_us(split, window, min(many, 32)),
        "additive, 1 row": lambda: additive_us(split, window, 1),
    }
    for dtype in ("float32", "float64") if op is not None else ():
        dense = Dense(op, window, dtype)
        jobs[f"row sum {dtype}"] = lambda dense=dense: dense.us(many)
        jobs[f"row sum {dtype}, 1 row"] = lambda dense=dense: dense.us(1)
    return window, jobs


def measure(kernel: str, terms: int, d: int, repeats: int) -> dict[str, Any]:
    """Return one line of the table: microseconds per example."""
    window, jobs = jobs_of(kernel, terms, d)
    window.us(BLOCK, 20)  # caches and memory as in the middle of a stream
    found = medians(jobs, repeats)
    line: dict[str, Any] = {"d": d, "terms": terms}
    for rows in ("", ", 1 row"):
        rivals = [k for k in found if k.startswith("additive") or d == 1]
        rivals = [k for k in rivals if k.endswith("row") == bool(rows) and "tree" not in k]
        line |= {f"tree{rows}": found[f"tree{rows}"], f"dense{rows}": min(found[k] for k in rivals)}
        line[f"ratio{rows}"] = line[f"dense{rows}"] / line[f"tree{rows}"]
    line |= {"MB": window.trees.nbytes / 1e6, "error": window.error(KERNELS[kernel][0])}
    return line | {"all": found}


def summary(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return growth from 10^4 to 10^6 terms, and the speed-up at 10^6."""
    rows = []
    for d in COORDINATES:
        at = {line["terms"]: line for line in lines if line["d"] == d}
        for way in ("", ", 1 row"):
            growth = at[10**6][f"tree{way}"] / at[10**4][f"tree{way}"]
            name = "1 row" if way else f"{BLOCK} rows"
            rows.append(
                {"d": d, "call": name, "growth": growth, "speed-up": at[10**6][f"ratio{way}"]}
            )
    return rows


def figure(kernel: str, lines: list[dict[str, Any]], path: Path) -> None:
    """Draw times against terms, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        print("no figure: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"tree": "#2a6f97", "dense": "#d1495b"}
    fig, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained", sharey=True)
    for axis, d in zip(axes, COORDINATES, strict=True):
        mine = [line for line in lines if line["d"] == d]
        for key, colour in colours.items():
            for way, style in (("", "o-"), (", 1 row", "o:")):
                label = f"{key}, {'one row' if way else f'{BLOCK} rows'} per call"
                values = [line[key + way] for line in mine]
                axis.plot(
                    [m["terms"] for m in mine], values, style, color=colour, label=label, ms=3
                )
        name = "1 coordinate" if d == 1 else f"{d} coordinates"
        axis.set(xscale="log", yscale="log", xlabel="terms", title=f"{kernel} kernel, {name}")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("microseconds per example")
    axes[0].legend(frameon=False, fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=120)
    print(f"figure: {path.name}")


def main(argv: list[str] | None = None) -> int:
    """Run, print, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", choices=list(KERNELS), default="exponential")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--figure", type=Path, default=FIGURE, help="the guide's is docs/figures")
    args = parser.parse_args(argv)
    lines = []
    for d in COORDINATES:
        for terms in TERMS:
            lines.append(measure(args.kernel, terms, d, args.repeats))
    found = summary(lines)
    print(f"core: {core.BACKEND}; medians; microseconds of one core per example; {args.kernel}")
    print(table([{k: v for k, v in line.items() if k != "all"} for line in lines]))
    laplacian = next(line["all"] for line in lines if line["d"] > 1 and line["terms"] == 10**6)
    if "row sum float32" in laplacian:
        print(f"one row sum of all 8 coordinates, float32: {laplacian['row sum float32']:.3g} us")
    print("growth: tree, 10^6 against 10^4 terms; speed-up: dense over tree at 10^6 terms")
    print(table(found))
    save("trees", {"kernel": args.kernel, "lines": lines, "summary": found})
    figure(args.kernel, lines, args.figure)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
