"""onkel beside River on Elec2, in one run: rows per second and mistakes, predict then learn.

Needs River, and the data: ONKEL_DATA names the folder. Every model sees the rows in time order,
one pass, defaults; River's stand behind its StandardScaler and get rows as dictionaries that are
made beforehand. onkel is also run row by row (predict_one, learn_one), as River is. Takes about
two minutes, most of it River's nearest neighbours; --quick takes the first 5 000 rows.

River's RBFSampler (0.26) draws its cosines feature by feature, so that the model behind it is an
additive one: a sum of one-dimensional Gaussian kernels.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from run import save, table

from onkel import KernelClassifier, evaluate


def river_models() -> dict[str, Any]:
    """Return River's classifiers, each behind its StandardScaler."""
    from river import feature_extraction, linear_model, neighbors, preprocessing, tree

    def scaled() -> Any:
        return preprocessing.StandardScaler()

    return {
        "River logistic regression": scaled() | linear_model.LogisticRegression(),
        "River RBFSampler + logistic": scaled()
        | feature_extraction.RBFSampler(seed=0)
        | linear_model.LogisticRegression(),
        "River adaptive Hoeffding tree": scaled() | tree.HoeffdingAdaptiveTreeClassifier(seed=0),
        "River nearest neighbours": scaled() | neighbors.KNNClassifier(),
    }


def run_river(model: Any, rows: list[dict[int, float]], labels: list[bool]) -> tuple[int, float]:
    """Return mistakes and seconds."""
    mistakes, began = 0, time.perf_counter()
    for x, y in zip(rows, labels, strict=True):
        mistakes += model.predict_one(x) != y
        model.learn_one(x, y)
    return mistakes, time.perf_counter() - began


def run_single(X: np.ndarray, y: np.ndarray) -> tuple[int, float]:
    """Return mistakes and seconds of onkel, one row per call."""
    model, mistakes = KernelClassifier(), 0
    began = time.perf_counter()
    for row, label in zip(X, y, strict=True):
        mistakes += model.predict_one(row) != label
        model.learn_one(row, label)
    return mistakes, time.perf_counter() - began


def run_blocks(X: np.ndarray, y: np.ndarray) -> tuple[int, float]:
    """Return mistakes and seconds of onkel, 1000 rows per call: median of three passes."""
    results = [evaluate.progressive(KernelClassifier(), X, y) for _ in range(3)]
    return int(results[0].errors.sum()), float(np.median([r.seconds for r in results]))


def main(argv: list[str] | None = None) -> int:
    """Run, print, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the first 5 000 rows")
    args = parser.parse_args(argv)
    folder = os.environ.get("ONKEL_DATA")
    if not folder:
        print("ONKEL_DATA is not set: nothing to run on.")
        return 0
    with np.load(Path(folder) / "elec2.npz") as arrays:
        X, y = arrays["X"], arrays["y"]
    if args.quick:
        X, y = X[:5000], y[:5000]
    results = {
        "onkel, blocks": run_blocks(X, y),
        "onkel, blocks, float64": run_blocks(X.astype(float), y),
        "onkel, row by row": run_single(X, y),
    }
    try:
        peers = river_models()
    except ImportError:
        print("River is not installed: onkel alone.")
        peers = {}
    dicts, labels = [dict(enumerate(r)) for r in X.tolist()], (y > 0).tolist()
    results |= {name: run_river(model, dicts, labels) for name, model in peers.items()}
    rows = [
        {"model": name, "rows/s": round(len(y) / seconds), "error %": 100 * mistakes / len(y)}
        for name, (mistakes, seconds) in results.items()
    ]
    print(table(rows))
    save("peers", {"rows": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
