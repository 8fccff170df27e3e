"""Budgets: what a window of few terms keeps, by what becomes of the terms that are too many.

``python experiments/budgets.py [--data FOLDER]`` prints three tables in Markdown.

1. IJCNN (ijcnn1), test accuracy after one pass, mean and standard deviation over five random
   orders: Gaussian kernel on the rows as they are, no offset. Width and rule (projection; NORMA at
   a constant rate of 0.2 or 1 with the hinge, of 0.25 with its square) are chosen for each line on
   a fifth of the training rows after one pass over the rest, in one order.
2. a9a, cod_rna and elec2, mistakes of predict-then-learn in per cent: KernelClassifier as it comes,
   and with the projection. elec2 in its own order, the others in a random one.
3. Rows per second of the processor, on made-up rows of 16 features, float32, 500 terms.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from onkel import KernelClassifier, KernelRegressor, expansions, kernels, losses, rules

Array = np.ndarray
BUDGETS = ("oldest", "smallest", "merge", "project")
STEPS: dict[str, tuple[Callable[[], Any], Any]] = {
    "projection": (rules.Projection, losses.SoftMargin()),
    "hinge, rate 0.2": (lambda: rules.Norma(0.2, memory=np.inf), losses.SoftMargin()),
    "hinge, rate 1": (lambda: rules.Norma(1.0, memory=np.inf), losses.SoftMargin()),
    "squared hinge, rate 0.25": (
        lambda: rules.Norma(0.25, memory=np.inf), losses.SoftMargin(power=2),
    ),
}  # fmt: skip
WIDTHS = (1.0, 2.0, 4.0, 8.0)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return rows in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def classifier(width: float, step: str, terms: int, budget: str) -> KernelClassifier:
    """Return a model on rows as they are."""
    rule, loss = STEPS[step]
    return KernelClassifier(
        kernel=kernels.Gaussian(width), rule=rule(), loss=loss, scale=False, fit_intercept=False,
        expansion=expansions.Window(terms=terms, budget=budget),
    )  # fmt: skip


def accuracy(model: Any, X: Array, y: Array) -> float:
    """Return the share of right labels in per cent."""
    return 100 * float(np.mean(model.predict(X) == y))


def chosen(X: Array, y: Array, terms: int, budget: str) -> tuple[float, str]:
    """Return width and step that are best on a fifth of the rows."""
    order = np.random.default_rng(1000).permutation(len(y))
    first, last = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]

    def score(setting: tuple[float, str]) -> float:
        model = classifier(*setting, terms, budget)
        return accuracy(model.partial_fit(X[first], y[first], np.unique(y)), X[last], y[last])

    return max(product(WIDTHS, STEPS), key=score)


def ijcnn(data: Path, orders: int = 5) -> str:
    """Return the first table."""
    with np.load(data / "ijcnn1.npz") as f:
        X, y, test, labels = (f[n] for n in ("X_train", "y_train", "X_test", "y_test"))
    rows = []
    for terms, budget in product((100, 500, 2000), BUDGETS):
        setting, found = chosen(X, y, terms, budget), []
        for seed in range(orders):
            order = np.random.default_rng(seed).permutation(len(y))
            model = classifier(*setting, terms, budget)
            found.append(accuracy(model.partial_fit(X[order], y[order]), test, labels))
        words = f"γ {setting[0]:g}, {setting[1]}"
        rows.append([str(terms), budget, f"{np.mean(found):.2f} ± {np.std(found):.2f}", words])
    return table(["terms", "budget", "test accuracy %", "chosen"], rows)


def mistakes(X: Array, y: Array, terms: int, budget: str, rule: str) -> float:
    """Return the share of wrong labels before learning, in per cent."""
    window = expansions.Window(terms=terms, budget=budget)
    model = KernelClassifier(expansion=window, rule=rule).partial_fit(X[:1], y[:1], np.unique(y))
    return 100 * float(np.mean(model.predict_then_learn(X[1:], y[1:]) != y[1:]))


def streams(data: Path) -> str:
    """Return the second table."""
    rows = []
    for name, rule in product(("a9a", "cod_rna", "elec2"), ("norma", "projection")):
        with np.load(data / f"{name}.npz") as f:
            X, y = (f["X"], f["y"]) if "X" in f else (f["X_train"], f["y_train"])
        if name != "elec2":
            order = np.random.default_rng(0).permutation(len(y))
            X, y = X[order], y[order]
        X = X.astype(np.float32)
        few = [mistakes(X, y, 200, budget, rule) for budget in BUDGETS]
        many = mistakes(X, y, 10_000, "oldest", rule)
        rows.append([name, rule, f"{many:.2f}", *(f"{v:.2f}" for v in few)])
    return table(["stream", "rule", "10 000, oldest", *(f"200, {b}" for b in BUDGETS)], rows)


def speed(rows: int = 40_000) -> str:
    """Return the third table: every row stored (regression), or some (classification)."""
    rng, found = np.random.default_rng(0), []
    X = rng.normal(size=(rows, 16)).astype(np.float32)
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    labels = np.where(f + 0.3 * rng.normal(size=rows) > 0, 1, -1)
    for words, kind, y in (("numbers", KernelRegressor, f), ("classes", KernelClassifier, labels)):
        first = 0.0
        for budget in BUDGETS:
            window = expansions.Window(terms=500, budget=budget)
            loss = "squared" if kind is KernelRegressor else "soft_margin"
            model = kind(kernel="gaussian", loss=loss, expansion=window, n_jobs=1)
            model.partial_fit(X[:2000], y[:2000])
            spent = min(_seconds(model, X[2000:], y[2000:]) for _ in range(3))
            first = first or spent
            each = (rows - 2000) / spent
            found.append([words, budget, f"{each:,.0f}", f"{spent / first:.1f}"])
    return table(["targets", "budget", "rows per second", "time, oldest = 1"], found)


def _seconds(model: Any, X: Array, y: Array) -> float:
    start = time.process_time()
    model.partial_fit(X, y)
    return time.process_time() - start


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("ONKEL_DATA"))
    data = parser.parse_args().data
    parts = [] if data is None else [ijcnn(Path(data)), streams(Path(data))]
    print("\n\n".join([*parts, speed()]))


if __name__ == "__main__":
    main()
