"""Recursive least squares over centres that follow, beside one gradient step for each row.

``KernelRegressor()`` and ``Regressor()`` as they come, and least squares over CENTRES centres with
the raw numbers beside, a Gaussian of width 1/d and a Laplacian of 0.5/d; predict then learn, mean
absolute error from row 1000 on (a short stream: from its first fifth on). "mixture / best" is
Regressor's over the least of all columns.

In dB, the three series of the Kernel Adaptive Filtering Toolbox in its own protocol; MIMO is no one
world for long, so that least squares has a line there with few centres and a short memory.

*Chosen after a look.* Forgetting, ridge, exchange of centres, units and widths were chosen on
kin8nm, cpusmall, bike_hour, Lorenz and made inputs that wander, elec2's price showed how units must
be carried over, and MIMO's own line is the best of 36 settings tried on MIMO: these figures
flatter. mg30, the other lines of MIMO and the streams of HELD played no part.

Expected: the mixture within 3 % of the best on each of the five; at most -45 dB on Lorenz, -46 on
mg30 and -8.58 on MIMO; no other mixture worse than KernelRegressor. --quick takes the first 3000
rows of each and expects nothing; --streams names some alone.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads
os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onkel import KernelRegressor, Regressor
from onkel.expansions import Centers
from onkel.kernels import Gaussian, Laplacian
from onkel.rules import RecursiveLeastSquares

if __package__:
    from . import front_door_streams, harness, published_kafbox, relevance
else:
    import front_door_streams
    import harness
    import published_kafbox
    import relevance

FEW = 3000
"""Rows of a quick run."""
CENTRES = 200
FIRST = 1000
"""Rows that do not count."""
FIVE = ("lorenz", "mg30", "cpusmall", "kin8nm", "bike_hour")
HELD = (
    "laser", "tank level", "River: Friedman", "River: TrumpApproval",
    "an arm's 8 joints of 32", "Friedman's 5 of 30", "all 12 alike",
)  # fmt: skip
SEEN = ("elec2's price",)
SERIES = {"kafbox_lorenz": -45.0, "kafbox_mg30": -46.0, "kafbox_mimo": -8.58}
"""In dB, at most, of the best line."""
WITHIN = 1.03
Pair = tuple[np.ndarray, np.ndarray]


# -- models ----------------------------------------------------------------------------------------


def squares(kernel: Any, centres: int = CENTRES, memory: float = 10_000) -> KernelRegressor:
    """Return least squares over centres, the raw numbers beside them."""
    rule = RecursiveLeastSquares(memory=memory)
    return KernelRegressor(kernel, "squared", rule, expansion=Centers(centres, linear=True))


MODELS: dict[str, Callable[[int], Any]] = {
    "KernelRegressor()": lambda d: KernelRegressor(n_jobs=1),
    "least squares, Gaussian": lambda d: squares(Gaussian(1.0 / d)),
    "least squares, Laplacian": lambda d: squares(Laplacian(0.5 / d)),
    "mixture": lambda d: Regressor(n_jobs=1),
}
BRIEF: dict[str, Callable[[int], Any]] = {
    "least squares, 50 centres, memory 100": lambda d: squares(Laplacian(0.5 / d), 50, 100),
}


def errors(make: Callable[[int], Any], X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Return what was wrong before each row was learned, and microseconds for each row."""
    began = time.process_time()
    found = np.ravel(make(X.shape[1]).predict_then_learn(X, y)) - y
    return found, 1e6 * (time.process_time() - began) / len(y)


# -- streams ---------------------------------------------------------------------------------------


def stream(name: str, data: Path | None) -> Pair | None:
    """Return rows and targets; None where there is no file."""
    if name in relevance.MADE:
        return relevance.MADE[name][1]()
    found = front_door_streams.make(name, data)
    return None if found is None else (np.asarray(found.X, float), found.y)


def compare(name: str, pair: Pair) -> dict[str, Any]:
    """Return one row of the table: mean absolute errors."""
    X, y = pair
    counted = slice(min(FIRST, len(y) // 5), None)
    row: dict[str, Any] = {"stream": name, "rows": len(y)}
    for model, make in MODELS.items():
        found, row["us, " + model] = errors(make, X, y)
        row[model] = float(np.mean(np.abs(found[counted])))
    times = {key: row.pop(key) for key in [k for k in row if k.startswith("us, ")]}
    row["mixture / best"] = row["mixture"] / min(row[model] for model in MODELS)
    return row | times


def series(file: str, pair: Pair) -> dict[str, Any]:
    """Return one row of the toolbox's table, in dB."""
    X, y = pair
    known = published_kafbox.SERIES[file]
    row: dict[str, Any] = {"series": known["name"], "NORMA, printed": known["NORMA"]}
    row |= {f"{k}, printed": v for k, v in known["others"].items() if k.startswith("KRLS")}
    many = {"least squares, 500 centres": lambda d: squares(Gaussian(1.0 / d), 500)}
    for model, make in {**MODELS, **(BRIEF if file == "kafbox_mimo" else many)}.items():
        found = errors(make, X, y)[0]
        row[model] = published_kafbox.decibels(found[published_kafbox.WARMUP :])
    return row


# -- running ---------------------------------------------------------------------------------------


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return rows as a table of a page.

    >>> print(markdown([{"stream": "kin8nm", "error": 0.08437}, {"stream": "laser"}]))
    | stream | error |
    | --- | --- |
    | kin8nm | 0.08437 |
    | laser | - |
    """
    heads = list(dict.fromkeys(key for row in rows for key in row))
    lines = [heads, ["---"] * len(heads)]
    lines += [[harness.cell(row.get(h)) for h in heads] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def check(rows: list[dict[str, Any]], known: list[dict[str, Any]]) -> list[harness.Check]:
    """Return what is expected of a whole run."""
    found = []
    for row in rows:
        name = row["stream"]
        if name in FIVE:
            high, value = WITHIN, row["mixture / best"]
            found.append(harness.Check(f"{name}: mixture over the best of all", value, high=high))
        else:
            value = row["mixture"] / row["KernelRegressor()"]
            found.append(harness.Check(f"{name}: mixture over KernelRegressor", value, high=1.0))
    bars = {published_kafbox.SERIES[file]["name"]: bar for file, bar in SERIES.items()}
    for row in known:
        best = min(row[m] for m in (*MODELS, *BRIEF) if m in row)
        name = f"{row['series']}: the best line, dB"
        found.append(harness.Check(name, best, high=bars[row["series"]]))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Print each stream as it ends, then the tables; return whether all is as expected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"the first {FEW} rows of each")
    parser.add_argument("--streams", default="", help="names, by semicolon")
    args = parser.parse_args(argv)
    folder, few = harness.data_folder(), FEW if args.quick else None
    wanted = args.streams.split(";") if args.streams else [*FIVE, *SEEN, *HELD, *SERIES]
    rows: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    for name in wanted:
        if name in SERIES:
            pair = None if folder is None else published_kafbox.embedded(folder, name)
        else:
            pair = stream(name, folder)
        if pair is None:
            continue
        X, y = (part[:few] for part in pair)
        into, row = (
            (known, series(name, (X, y))) if name in SERIES else (rows, compare(name, (X, y)))
        )
        into.append(row)
        print(markdown([row]).splitlines()[-1], flush=True)
    for part in filter(None, (rows, known)):
        print("\n" + markdown(part))
    checks = [] if args.quick else check(rows, known)
    name = "second_order_quick" if args.quick else "second_order"
    return harness.finish(name, {"rows": rows, "series": known}, checks)


if __name__ == "__main__":
    raise SystemExit(main())
