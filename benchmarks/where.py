"""Where the time goes: a row of predict_then_learn, split into terms, the row itself, the call.

``python benchmarks/where.py``: seconds of the processor, one thread, float32, Gaussian kernel,
every example stored. A straight line through calls of many and few rows, at many and few terms,
gives the cost of one term, of one row beside its terms (making it ready, its pairs, the scalar
step, storing it) and of one call (checks, Python, a copy to come back to).
"""

from __future__ import annotations

import time

import numpy as np
from common import table

from onkel import KernelRegressor, expansions, kernels, rules

FEW, MANY = 500, 4000
SHORT, LONG = 200, 8000


def model(d: int, terms: int, X: np.ndarray, y: np.ndarray) -> KernelRegressor:
    """A regressor whose window is full."""
    rule = rules.Norma(learning_rate=0.1, memory=1e5)
    return KernelRegressor(
        kernel=kernels.Gaussian(1.0 / d), loss="squared", rule=rule, scale=False,
        fit_intercept=False, expansion=expansions.Window(terms=terms),
    ).partial_fit(X[: terms + 8], y[: terms + 8])  # fmt: skip


def seconds(learner: KernelRegressor, X: np.ndarray, y: np.ndarray, repeats: int) -> float:
    """Median time of one call."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        learner.predict_then_learn(X, y)
        found.append(time.process_time() - start)
    return float(np.median(found))


def split(d: int) -> dict[str, float | str]:
    """Return nanoseconds for each part, and their shares in a call of 8000 rows on 1000 terms."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(LONG, d)).astype(np.float32), rng.normal(size=LONG)
    few, many = model(d, FEW, X, y), model(d, MANY, X, y)
    long_few, long_many = seconds(few, X, y, 5), seconds(many, X, y, 5)
    short = seconds(few, X[:SHORT], y[:SHORT], 51)
    term = (long_many - long_few) / (LONG * (MANY - FEW))
    each = (long_few - short) / (LONG - SHORT)
    row, call = each - term * FEW, short - each * SHORT
    whole = 1000 * term + row + call / LONG
    return {
        "d": d, "ns per term": 1e9 * term, "ns per row": 1e9 * row, "us per call": 1e6 * call,
        "terms": f"{1000 * term / whole:.0%}", "row": f"{row / whole:.0%}",
        "call": f"{call / LONG / whole:.0%}",
    }  # fmt: skip


if __name__ == "__main__":
    print("parts of predict_then_learn; shares for 8000 rows in one call, 1000 terms")
    print(table([split(d) for d in (2, 16, 256)]))
