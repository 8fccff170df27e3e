"""Ten million rows that teach little through recursive least squares: nothing explodes.

Forgetting where rows say nothing lets P grow, and rounding takes from it what was never there. Five
streams that are known for it go through ``rule="rls"``, over weights and over 16 centres beside
the rows' numbers, with ``memory`` None and 1000:

- constant: the same row for ever, the target noise
- collinear: four features that are multiples of one
- bursty: 20 000 silent rows, then 20 000 loud ones, some ten times as large
- repeated: twenty rows in turn
- noise-free: a smooth function of wandering rows, exactly

After each tenth of a run: the smallest eigenvalue of P in units of the prior (scaled to a unit
diagonal), the largest variance in units of the prior, the mean absolute error of predictions beside
that of the mean, and whether all is finite.

Expected: P positive definite and no variance above the prior's at every look, everything finite, no
worse than 1.1 times the mean. --quick: a tenth of a million each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from onkel import KernelRegressor, LinearRegressor, expansions, rules
from onkel.estimators.inside import learner_of

if __package__:
    from . import harness
else:
    import harness

BLOCK = 10_000
SLACK = 1e-9
Rows = tuple[np.ndarray, np.ndarray]


def _noise(number: int, columns: int) -> np.ndarray:
    return np.random.default_rng([7, number]).normal(size=(BLOCK, columns))


def constant(number: int) -> Rows:
    """Return the same row, and noise around 3."""
    return np.tile([1.0, -2.0, 0.5, 100.0], (BLOCK, 1)), 3 + _noise(number, 1)[:, 0]


def collinear(number: int) -> Rows:
    """Return rows along one direction."""
    drawn = _noise(number, 2)
    return drawn[:, :1] * [1.0, -2.0, 1e-3, 1e3], np.sin(drawn[:, 0]) + 0.1 * drawn[:, 1]


def bursty(number: int) -> Rows:
    """Return silence (the same zeros) and loud rows in turns."""
    drawn = _noise(number, 5)
    X = drawn[:, :4] * np.where(drawn[:, 4:] > 1.5, 10.0, 1.0)
    if number % 4 < 2:
        X = np.zeros_like(X)
    return X, np.tanh(X[:, 0]) - X[:, 1] + 0.1 * drawn[:, 4]


def repeated(number: int) -> Rows:
    """Return twenty rows again and again."""
    rows = np.random.default_rng(1).normal(size=(20, 4))
    X = rows[np.arange(BLOCK) % 20]
    return X, X[:, 0] * X[:, 1] + 0.1 * _noise(number, 1)[:, 0]


def noise_free(number: int) -> Rows:
    """Return a function of rows that wander round a circle."""
    angle = 2 * np.pi * (number * BLOCK + np.arange(BLOCK)) / 1e6
    X = _noise(number, 4) + 3 * np.column_stack([np.cos(angle), np.sin(angle), angle, -angle])
    return X, np.sin(X[:, 0]) + X[:, 1] - 0.5 * X[:, 3]


STREAMS: dict[str, Callable[[int], Rows]] = {
    "constant": constant, "collinear": collinear, "bursty": bursty, "repeated": repeated,
    "noise-free": noise_free,
}  # fmt: skip


def models(memory: int | None) -> dict[str, Any]:
    """Return what is tried."""
    rule = rules.RecursiveLeastSquares(memory=memory)
    centres = expansions.Centers(16, linear=True)
    return {
        "weights": LinearRegressor("squared", rule),
        "centres": KernelRegressor("gaussian", "squared", rule, centres),
    }


def look(model: Any) -> tuple[float, float, bool]:
    """Return the smallest eigenvalue of P as correlations, its largest variance, and its state."""
    learner = learner_of(model)
    size = np.sqrt(np.maximum(np.diagonal(learner.cov), 0.0))
    finite = bool(np.all(np.isfinite(learner.cov)) and np.all(np.isfinite(learner.theta)))
    if not (finite and np.all(size > 0)):
        return -1.0, np.inf, False
    smallest = np.linalg.eigvalsh(learner.cov / np.multiply.outer(size, size))[0]
    return float(smallest), float(size.max() ** 2 / learner.rule.most), finite


def run(name: str, model: Any, blocks: int) -> dict[str, Any]:
    """Learn a stream and return what was seen, the worst of ten looks."""
    smallest, largest, finite, error, plain, began = (
        np.inf,
        0.0,
        True,
        0.0,
        0.0,
        time.process_time(),
    )
    for number in range(blocks):
        X, y = STREAMS[name](number)
        shown = model.predict_then_learn(X, y)
        finite &= bool(np.all(np.isfinite(shown)))
        if number >= blocks // 10:
            error, plain = error + np.abs(shown - y).sum(), plain + np.abs(y - y.mean()).sum()
        if (number + 1) % max(blocks // 10, 1) == 0:
            low, high, sound = look(model)
            smallest, largest, finite = min(smallest, low), max(largest, high), finite & sound
    rows = blocks * BLOCK
    return {
        "stream": name, "rows": rows, "least eigenvalue": smallest, "largest / prior": largest,
        "error / mean's": error / plain, "finite": finite,
        "rows per second": round(rows / (time.process_time() - began)),
    }  # fmt: skip


def study(blocks: int) -> list[dict[str, Any]]:
    """Return one line for each stream, model and memory."""
    return [
        {"model": kind, "memory": memory, **run(name, model, blocks)}
        for name in STREAMS
        for memory in (None, 1000)
        for kind, model in models(memory).items()
    ]


def checks_of(found: list[dict[str, Any]]) -> list[harness.Check]:
    """Return what is expected of them."""
    return [
        harness.Check("least eigenvalue", min(r["least eigenvalue"] for r in found), 1e-300),
        harness.Check("largest / prior", max(r["largest / prior"] for r in found), high=1 + SLACK),
        harness.Check("finite throughout", float(all(r["finite"] for r in found)), 1, 1),
        harness.Check("error / mean's", max(r["error / mean's"] for r in found), high=1.1),
    ]


def main(argv: list[str] | None = None) -> int:
    """Run, print, check, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of a million rows each")
    args = parser.parse_args(argv)
    found = study(10 if args.quick else 1000)
    print(harness.table(found))
    return harness.finish("long_squares", {"rows": found}, checks_of(found))


if __name__ == "__main__":
    raise SystemExit(main())
