"""What a bank costs: the self-tuning models beside the single defaults, whole streams in one call.

``python benchmarks/bank.py`` prints a table and writes reports/bank.json. Rows are float32 and
seeded; classes follow a wave through the features with one label in ten wrong, numbers the wave
itself with noise. Both models start from nothing and take turns; seconds are those of the
processor, one thread; the ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import common  # first: it sets the number of BLAS threads
import numpy as np

from onkel import Classifier, KernelClassifier, KernelRegressor, Regressor

FEATURES = (4, 16, 64, 256)
ROWS = 6000
PAIRS: dict[str, tuple[Any, Any]] = {
    "2 classes": (KernelClassifier, Classifier),
    "10 classes": (KernelClassifier, Classifier),
    "numbers": (KernelRegressor, Regressor),
}


def stream(kind: str, d: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return seeded rows and their targets."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(rows, d)).astype(np.float32)
    wave = np.sin(2 * X.sum(axis=1, dtype=float) / np.sqrt(d))
    if kind == "numbers":
        return X, wave + 0.1 * rng.normal(size=rows)
    classes = int(kind.partition(" ")[0])
    right = np.minimum((classes * (wave + 1) / 2).astype(int), classes - 1)
    return X, np.where(rng.random(rows) < 0.1, rng.integers(classes, size=rows), right)


def spent(make: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the seconds of one pass from nothing."""
    model = make(n_jobs=1)
    began = common.clock()
    model.predict_then_learn(X, y)
    return common.clock() - began


def measure(quick: bool) -> dict[str, Any]:
    """Return every round's seconds, and how many points each model held at the end."""
    rows, found = ROWS // 4 if quick else ROWS, []
    for kind, (one, many) in PAIRS.items():
        for d in FEATURES:
            X, y = stream(kind, d, rows)
            jobs: dict[str, common.Job] = {
                "one": partial(spent, one, X, y), "bank": partial(spent, many, X, y),
            }  # fmt: skip
            points = {"one": one().fit(X, y).n_terms_, "bank": many().fit(X, y).n_terms_}
            rounds = common.rounds(jobs, 2 if quick else 5)
            found.append({"kind": kind, "d": d, "rows": rows, "points": points, "rounds": rounds})
    return {"quick": quick, "streams": found}


def tables(report: dict[str, Any]) -> list[tuple[str, list[common.Row]]]:
    """Return microseconds for a row, and how many times the single model's the bank's are."""
    rows = [
        {
            "targets": one["kind"], "d": one["d"], "points": one["points"]["one"],
            "points, bank": one["points"]["bank"],
            "us/row": 1e6 * common.median(one["rounds"]["one"]) / one["rows"],
            "us/row, bank": 1e6 * common.median(one["rounds"]["bank"]) / one["rows"],
            "bank / one": common.ratio(one["rounds"]["bank"], one["rounds"]["one"]),
        }
        for one in report["streams"]
    ]  # fmt: skip
    return [("What a bank costs, rows in blocks", rows)]


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    report = measure(parser.parse_args(argv).quick)
    for title, rows in tables(report):
        print(f"{title}\n{common.table(rows)}")
    common.save("bank", report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
