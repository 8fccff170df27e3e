"""What a dict costs: the River face beside the estimator inside it, and River's own.

``python benchmarks/face.py``: medians of single calls and of their ratios, all in turn in one
process, 300 terms, float64. "lacking one" is a dict without one of the known features.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import common  # first: it sets the number of BLAS threads
import one
import workloads
from common import median, ratio

from onkel.river import KernelRegressor

ROUNDS, FEW = 9, 20


def face(d: int) -> KernelRegressor:
    """Return the River face with the settings of the workload, its window full."""
    params = workloads.regressor(one.TERMS).get_params(deep=False)
    params = {k: v for k, v in params.items() if k not in ("passes", "missing")}
    model = KernelRegressor(**params)
    X, y = workloads.regression(d, "float64", one.TERMS)
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(enumerate(row)), target)
    return model


def line(d: int) -> dict[str, Any]:
    """Return the costs for so many features."""
    X, y = workloads.regression(d, "float64", one.CALLS)
    rows, targets = list(X), y.tolist()
    dicts = [dict(enumerate(row)) for row in X.tolist()]
    lacking = [{k: v for k, v in x.items() if k != 1} for x in dicts]
    plain, model, rivers = (
        workloads.full_regressor(d, "float64", one.TERMS),
        face(d),
        one.river_calls(),
    )
    found = common.rounds({
        "learn": partial(one.latency, plain.learn_one, rows, targets),
        "dict": partial(one.latency, model.learn_one, dicts, targets),
        "lacking": partial(one.latency, model.learn_one, lacking, targets),
        "predict": partial(one.latency, lambda x, y: plain.predict_one(x), rows, targets),
        "ask": partial(one.latency, lambda x, y: model.predict_one(x), dicts, targets),
        "River": partial(one.latency, rivers["River learn"], dicts[:FEW], targets[:FEW]),
    }, ROUNDS)  # fmt: skip
    return {
        "d": d, "learn a row, us": median(found["learn"]),
        "a dict / a row": ratio(found["dict"], found["learn"]),
        "lacking one / a row": ratio(found["lacking"], found["learn"]),
        "River's / a dict": ratio(found["River"], found["dict"]),
        "predict a row, us": median(found["predict"]),
        "predict a dict / a row": ratio(found["ask"], found["predict"]),
    }  # fmt: skip


if __name__ == "__main__":
    print(common.table([line(d) for d in (2, 8, 50)]))
