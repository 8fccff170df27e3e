"""The growth of the additive trees: time per example against the number of terms (H01 part 1).

H01 promises that with an additive kernel a prediction and an update cost O(log m) for m terms.
Measured is one example, through the estimator: it is predicted, then learned; its term is stored
and the oldest goes (a window of m terms, two features, squared loss so that every example stores
a term). The window is filled first. Times are those of the processor for 500 rows in a call, the
lower quartile over calls. Beside it the same model with its terms in a dense window, which costs
O(m).

A line ``a + b log2 m`` is fitted. H01's promise is about operations; time also depends on the
processor's caches, which a million terms leave. So times alone do not prove a logarithm, least of
all with a constant cost as large as here: beside R² of the line stands that of ``a + b √m``, which
may fit as well or better. What they do show is how far from linear the growth is: ``m^p`` has p = 1
for linear growth, and a p near 0 for a logarithm.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

if __package__:
    from . import writing
    from .harness import Check
    from .writing import Row, Study
else:
    import writing
    from harness import Check
    from writing import Row, Study

import numpy as np

from onkel import KernelRegressor, expansions, kernels, rules

TITLE = "The growth of the additive trees (H01)"
TERMS = (300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
DENSE_UP_TO = 10_000
KERNELS = {
    "exponential": (kernels.Exponential(1.0), writing.ACCENT),
    "linear spline": (kernels.Spline(1), writing.ALARM),
}
ROWS = 500


def filled(kernel: Any, expansion: Any, terms: int) -> tuple[KernelRegressor, np.random.Generator]:
    """Return a model whose window of that many terms is full."""
    rng = np.random.default_rng(terms)
    model = KernelRegressor(
        kernel=kernels.Additive(kernel, weights="mean"), loss="squared", scale=False,
        rule=rules.Norma(learning_rate=0.01, memory=1e6), expansion=expansion,
    )  # fmt: skip
    for start in range(0, terms, 10_000):
        model.partial_fit(*rows(rng, min(10_000, terms - start)))
    return model, rng


def rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows in the unit square, where splines are tame, and their targets."""
    X = rng.uniform(0, 1, size=(n, 2))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def microseconds(model: KernelRegressor, rng: np.random.Generator, calls: int) -> float:
    """Return the time of one example (a lower quartile): predicted, stored, the oldest dropped."""
    found = []
    for _ in range(calls):
        X, y = rows(rng, ROWS)
        began = time.thread_time()
        model.predict_then_learn(X, y)
        found.append(time.thread_time() - began)
    return 1e6 * float(np.quantile(found, 0.25)) / ROWS


def measure(quick: bool) -> list[Row]:
    """Return one row for each number of terms."""
    lines = []
    for terms in TERMS[: 5 if quick else None]:
        line: Row = {"terms": terms}
        for name, (kernel, _) in KERNELS.items():
            tree = filled(kernel, expansions.Tree(terms=terms), terms)
            line[f"{name}, trees, µs"] = microseconds(*tree, 6 if quick else 24)
        if terms <= DENSE_UP_TO:
            dense = filled(KERNELS["exponential"][0], expansions.Window(terms=terms), terms)
            line["exponential, dense, µs"] = microseconds(*dense, 4)
        lines.append(line)
    return lines


def fitted(terms: np.ndarray, values: np.ndarray) -> Row:
    """Return the line in log2 m, how much of the variance it explains, and the power law."""
    slope, start = np.polyfit(np.log2(terms), values, 1)
    power = np.polyfit(np.log(terms), np.log(values), 1)[0]
    return {"a, µs": float(start), "b, µs per doubling": float(slope),
            "R²": _explained(np.log2(terms), values), "R² of √m": _explained(terms**0.5, values),
            "p of m^p": float(power)}  # fmt: skip


def _explained(x: np.ndarray, values: np.ndarray) -> float:
    """Return the share of the variance that a line in x explains."""
    return float(np.corrcoef(x, values)[0, 1] ** 2)


def fits(lines: list[Row]) -> list[Row]:
    """Return the fits of every column."""
    found = []
    for key in [k for k in lines[0] if k.endswith("µs")]:
        kept = [line for line in lines if line.get(key) is not None]
        m, t = np.array([k["terms"] for k in kept], float), np.array([k[key] for k in kept])
        found.append({"what": key.removesuffix(", µs")} | fitted(m, t))
    return found


def draw(lines: list[Row], found: list[Row]) -> Any:
    """Return the times with the fitted lines, and the dense ones as they leave the picture."""
    figure, panels = writing.canvas(1, height=3.4)
    axis, m = panels[0, 0], np.array([line["terms"] for line in lines], float)
    top = 0.0
    for name, (_, colour) in KERNELS.items():
        times = [line[f"{name}, trees, µs"] for line in lines]
        fit = next(f for f in found if f["what"] == f"{name}, trees")
        axis.plot(m, times, "o", ms=5, color=colour)
        text = f"{name}: {fit['a, µs']:.2f} + {fit['b, µs per doubling']:.2f} log₂ m µs"
        axis.plot(m, fit["a, µs"] + fit["b, µs per doubling"] * np.log2(m), color=colour, lw=1.4,
                  label=text)  # fmt: skip
        top = max(top, *times)
    dense = [
        (k["terms"], k["exponential, dense, µs"]) for k in lines if "exponential, dense, µs" in k
    ]
    axis.plot(*zip(*dense, strict=True), "s--", ms=4, color=writing.SOFT, lw=1.2,
              label="exponential, dense window")  # fmt: skip
    axis.set(title="One example: predicted, stored, the oldest dropped", xscale="log",
             xlabel="terms m", ylabel="µs", ylim=(0, 1.5 * top))  # fmt: skip
    axis.legend(loc="upper left", fontsize=9)
    return figure


def run(quick: bool, data: Path | None = None) -> Study:
    """Measure, fit, draw."""
    lines = measure(quick)
    found = fits(lines)
    trees = [f for f in found if "trees" in f["what"]]
    checks = [Check(f"{f['what']}: p of m^p", f["p of m^p"], high=0.2) for f in trees]
    tables = [("Time of one example", lines), ("a + b log2 m, and m^p", found)]
    caption = "Time of one example against the terms held; lines: a + b log₂ m."
    return Study(TITLE, writing.text_of(__doc__), tables, [(caption, draw(lines, found))], checks)


if __name__ == "__main__":
    raise SystemExit(writing.command("tree_growth", run, __doc__))
