"""Mixtures that learn which columns matter, beside the same with all columns alike.

``Classifier(relevance=False)`` or ``Regressor(relevance=False)``, and the same as it comes, predict
then learn over all rows: mistakes in per cent, or the mean absolute error in standard deviations of
the target. "time" is the second's processor time over the first's, each the least of TURNS runs
that take turns. Files are in their own order, but cod_rna, ijcnn1 and a9a in that of seed 0; adult,
airlines and mushroom are tables whose words are categories. Streams made here have one seed each.
The constants of relevance were chosen on streams such as these, so that the figures flatter.

Expected: GAIN where few columns matter, HARM at most elsewhere, LOSS at most where all matter
alike. --quick takes the first 3000 rows of each and expects nothing; --streams names some alone.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads
os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from onkel import Classifier, Regressor

if __package__:
    from . import front_door_streams, harness, rows_tables
    from .front_door_streams import CLASSES, NUMBERS
else:
    import front_door_streams
    import harness
    import rows_tables
    from front_door_streams import CLASSES, NUMBERS

FEW = 3000
"""Rows of a quick run."""
TURNS = 3
"""Runs of each for its time; in a quick run one."""
GAIN, HARM, LOSS = 0.9, 1.03, 1.25
"""The second's error over the first's, at most."""
Pair = tuple[np.ndarray, np.ndarray]


# -- made here -------------------------------------------------------------------------------------


def arm(rows: int = 20_000, seed: int = 0) -> Pair:
    """Return 32 inputs, the first 8 the joints of a planar arm, and its hand's way to a point."""
    X = np.random.default_rng(seed).uniform(-np.pi / 2, np.pi / 2, size=(rows, 32))
    turned = np.cumsum(X[:, :8], axis=1)
    hand = np.array([np.cos(turned).mean(axis=1), np.sin(turned).mean(axis=1)])
    return X, np.hypot(*(hand - 0.1))


def friedman(rows: int = 20_000, seed: int = 0) -> Pair:
    """Return 30 inputs and Friedman's function of the first five, with noise of spread 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 30))
    a, b, c, d, e = X[:, :5].T
    truth = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    return X, truth + rng.normal(size=rows)


def alike(rows: int, seed: int = 0) -> Pair:
    """Return 12 inputs and a sum of tanh along 20 random directions: all matter alike."""
    rng = np.random.default_rng(seed)
    directions, sizes = rng.normal(size=(12, 20)) / np.sqrt(12), rng.normal(size=20)
    X = rng.normal(size=(rows, 12))
    return X, np.tanh(2 * X @ directions) @ sizes


MADE: dict[str, tuple[float, Callable[[], Pair]]] = {
    "an arm's 8 joints of 32": (GAIN, arm),
    "Friedman's 5 of 30": (GAIN, friedman),
    "all 12 alike": (LOSS, lambda: alike(15_000)),
    "all 12 alike, longer": (LOSS, lambda: alike(40_000)),
}
FROM_FILES = {
    "kin8nm": HARM, "kin8nm, 24 idle": GAIN, "bike_hour": HARM, "cpusmall": HARM, "elec2": HARM,
    "moving_squares": HARM, "cod_rna": HARM, "ijcnn1": HARM, "a9a": HARM, "adult": HARM,
    "airlines": HARM, "mushroom": HARM,
}  # fmt: skip
TABLES = ("adult", "airlines", "mushroom")
Found = tuple[str, Any, np.ndarray, dict[str, str]]


def stream(name: str, data: Path | None) -> Found | None:
    """Return task, rows, targets and what columns are said to be; None where there is no file."""
    if name in MADE:
        return NUMBERS, *MADE[name][1](), {}
    if name in TABLES:
        table = rows_tables.make(name, data)
        return table and (table.task, table.X, table.y, table.types)
    found = front_door_streams.make(name, data)
    return found and (found.task, found.X, found.y, {})


# -- running ---------------------------------------------------------------------------------------


def tried(model: Any, X: Any, y: np.ndarray) -> tuple[float, float]:
    """Return the error, in per cent or in the target's spread, and seconds of the processor."""
    began = time.process_time()
    found = model.predict_then_learn(X, y)
    seconds = time.process_time() - began
    if isinstance(model, Classifier):
        return float(100 * np.mean(found != y)), seconds
    return float(np.mean(np.abs(found - y)) / np.std(y)), seconds


def measure(name: str, found: Found, quick: bool) -> dict[str, Any]:
    """Return one row of the table."""
    task, X, y, types = found
    X, y = (X[:FEW], y[:FEW]) if quick else (X, y)
    make = partial(Classifier if task == CLASSES else Regressor, columns=types or None, n_jobs=1)
    turns = [(tried(make(relevance=False), X, y), tried(make(), X, y))
             for _ in range(1 if quick else TURNS)]  # fmt: skip
    (without, first), (error, second) = np.min(turns, axis=0).tolist()
    return {
        "stream": name, "rows": len(y), "columns": X.shape[1],
        "unit": "%" if task == CLASSES else "spread", "without": without, "with": error,
        "change %": 100 * (error / without - 1), "time": second / first,
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Print each stream as it ends, then the table; return whether all is as expected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"the first {FEW} rows of each")
    parser.add_argument("--streams", default="", help="names, by semicolon")
    args = parser.parse_args(argv)
    folder, rows, checks = harness.data_folder(), [], []
    most = {name: limit for name, (limit, _) in MADE.items()} | FROM_FILES
    for name in filter(None, args.streams.split(";")) if args.streams else most:
        found = stream(name, folder)
        if found is None:
            continue
        rows.append(measure(name, found, args.quick))
        print(harness.table(rows[-1:]).splitlines()[-1], flush=True)
        if not args.quick:
            ratio = rows[-1]["with"] / rows[-1]["without"]
            checks.append(harness.Check(f"{name}: error over that without", ratio, high=most[name]))
    print("\n" + harness.table(rows))
    return harness.finish("relevance_quick" if args.quick else "relevance", {"rows": rows}, checks)


if __name__ == "__main__":
    raise SystemExit(main())
