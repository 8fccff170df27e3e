"""What a row of recursive least squares costs, beside m^2 multiplications and additions.

``python benchmarks/second_order.py`` prints tables and writes reports/second_order.json. The unit
is one product of an m by m matrix of float64 with a vector by NumPy, one thread: m^2
multiplications and additions as fast as this machine reads a matrix. Beside it: the compiled core
alone, 1024 rows at once and single rows; a model over m centres with all that goes with it
(features, intervals, exchange of centres); KernelRegressor() as it comes, and a full window of m
terms. All take turns in one process; ratios are medians over rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import common  # first: it sets the number of BLAS threads
import numpy as np
from common import median, ratio

from onkel import KernelRegressor, core
from onkel.core import covariance
from onkel.core.layout import Field
from onkel.estimators.inside import learner_of
from onkel.expansions import Centers, Window
from onkel.kernels import Gaussian

SIZES = (100, 300, 1000)
ROWS, CALLS, FEATURES = 1024, 200, 8
MOST = 1e6

Job = Callable[[], float]


def stream(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of numbers, and a smooth target with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, FEATURES))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=rows)


def product(m: int) -> Job:
    """Return the unit: microseconds of a matrix times a vector."""
    S, x = np.eye(m) + 0.5, np.ones(m)

    def job() -> float:
        began = common.clock()
        for _ in range(CALLS):
            S @ x
        return 1e6 * (common.clock() - began) / CALLS

    return job


def alone(m: int, rows: int) -> Job:
    """Return the microseconds of a row in the core, so many in a call."""
    X, y = stream(ROWS)
    points = stream(ROWS + m - 1)[0][ROWS:]
    values = np.exp(-np.square(X[:, None] - points).sum(axis=2) / FEATURES)
    phi = np.column_stack([values, np.ones(ROWS)])
    state, theta = np.zeros((1, len(Field))), np.zeros((1, m))
    cov, calls = covariance.prior(m, MOST), ROWS // rows if rows > 1 else CALLS

    def task(first: int) -> core.SquaresInput:
        part, ones = slice(first, first + rows), np.ones(rows)
        return core.SquaresInput(
            phi[part], y[part, None], ones, 0.999 * ones, np.inf, MOST, 1e3, 1e100
        )

    tasks = [task(i * rows) for i in range(calls)]

    def job() -> float:
        began = common.clock()
        for one in tasks:
            core.least_squares(one, state, theta, cov)
        return 1e6 * (common.clock() - began) / (rows * calls)

    return job


def squares(m: int) -> KernelRegressor:
    """Return least squares over m centres and the numbers themselves."""
    return KernelRegressor(Gaussian(1 / FEATURES), "huber", "rls", Centers(m, linear=True))


def models(m: int) -> dict[str, KernelRegressor]:
    """Return models that have seen enough rows to be full."""
    first = max(4 * m, 2048)
    made = {
        "centres": squares(m),
        "default": KernelRegressor(n_jobs=1),
        "window": KernelRegressor(loss="squared", expansion=Window(terms=m), n_jobs=1),
    }
    for model in made.values():
        model.partial_fit(*stream(first))
    return made


def block(model: KernelRegressor) -> float:
    """Return the microseconds of a row, in one call for all."""
    X, y = stream(ROWS)
    began = common.clock()
    model.predict_then_learn(X, y)
    return 1e6 * (common.clock() - began) / ROWS


def single(model: KernelRegressor) -> float:
    """Return the microseconds of a call for one row, of those between two exchanges of centres."""
    X, y = stream(CALLS)
    taken = []
    for row, target in zip(X, y.tolist(), strict=True):
        began = common.clock()
        model.learn_one(row, target)
        taken.append(common.clock() - began)
    return 1e6 * median(taken)


def line(m: int, rounds: int) -> dict[str, Any]:
    """Return the rounds for one number of features."""
    made = models(m)
    jobs: dict[str, Job] = {
        "unit": product(m), "core": alone(m, ROWS), "core, one": alone(m, 1),
        **{f"{name}, block": partial(block, model) for name, model in made.items()},
        **{f"{name}, one": partial(single, model) for name, model in made.items()},
    }  # fmt: skip
    found = common.rounds(jobs, rounds)
    memory = {name: learner_of(model).nbytes for name, model in made.items()}
    return {"m": m, "rounds": found, "bytes": memory}


def measure(quick: bool) -> dict[str, Any]:
    """Return every size."""
    sizes, rounds = (SIZES[:1], 2) if quick else (SIZES, 5)
    return {"quick": quick, "lines": [line(m, rounds) for m in sizes]}


def tables(report: dict[str, Any]) -> list[tuple[str, list[common.Row]]]:
    """Return ratios to the unit, times beside other models, and memory."""
    units: list[common.Row] = []
    beside: list[common.Row] = []
    for one in report["lines"]:
        found, unit, held = one["rounds"], one["rounds"]["unit"], one["bytes"]
        units.append({
            "m": one["m"], "m^2 multiply-adds, us": median(unit),
            **{f"{name} / these": ratio(found[key], unit) for name, key in (
                ("core, 1024 rows", "core"), ("core, a row", "core, one"),
                ("model, 1024 rows", "centres, block"), ("learn_one", "centres, one"),
            )},
        })  # fmt: skip
        for name in ("centres", "default", "window"):
            beside.append({
                "m": one["m"], "model": name, "a block's row, us": median(found[f"{name}, block"]),
                "learn_one, us": median(found[f"{name}, one"]), "kB": held[name] / 1e3,
            })  # fmt: skip
    return [("Beside m^2 multiply-adds", units), ("Beside other models", beside)]


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one size, fewer rounds")
    report = measure(parser.parse_args(argv).quick)
    for title, rows in tables(report):
        print(f"{title}\n{common.markdown(rows)}")
    common.save("second_order", report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
