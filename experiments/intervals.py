"""How good the self-tuning regressor's intervals are, and whether their unit pays.

Each stream is predicted, then learned, by ``Regressor()`` and by a single ``Huber(nu=0.1)``;
10 % of the targets should lie outside. Shown of the last nine tenths: that share, and the interval
score (width, and what lies outside counted 2/nu times; Gneiting and Raftery 2007) in units of what
the same answers would have with one width at a time: q times the usual error, whatever the members'
disagreement and the answers' level. Constants were chosen on these very streams.

Expected: every share within half a point of 10; on real data scores below 1; on noise that no unit
can foresee at most two hundredths above 1.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onkel import KernelRegressor, Regressor, losses
from onkel.core import widths

if __package__:
    from . import harness
else:
    import harness

NU = 0.1
REAL = ("bike_hour", "cpusmall", "kin8nm", "elec2")


def generated(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A sine and a slope, with noise: heavy-tailed, skewed, larger at the sides, now and then."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, size=(n, 3))
    noise = {
        "heavy tails": 0.3 * rng.standard_t(2, size=n),
        "skewed": 0.4 * rng.exponential(size=n),
        "at the sides": (0.05 + 0.4 * np.abs(X[:, 0])) * rng.normal(size=n),
        "now and then": np.where(np.arange(n) // 2000 % 2, 1.0, 0.1) * rng.normal(size=n),
    }
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + noise[name]


def real(name: str, data: Any) -> tuple[np.ndarray, np.ndarray]:
    """A table in random order, bike_hour and elec2 (its price from the rest) in their own."""
    with np.load(data / f"{name}.npz") as arrays:
        X, y = arrays["X"].astype(float), arrays["y"].astype(float)
    if name == "elec2":
        return np.delete(X, 1, axis=1)[:25_000], X[:25_000, 1]
    if name == "bike_hour":
        return X, y
    order = np.random.default_rng(1).permutation(len(y))
    return X[order], y[order]


def plain(answers: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return half-widths of q times the usual error, and no more."""
    first = math.log(widths.first_width(NU))
    one, found = widths.Width(first, first), []
    for t, (p, error) in enumerate(
        zip(answers.tolist(), np.abs(y - answers).tolist(), strict=True)
    ):
        one.base, one.by_apart, one.by_answer = 1.0, 0.0, 0.0
        found.append(one.follow(p, 0.0, error, NU, t))
    return np.array(found)


def judged(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the interval score and the share that missed, less the first tenth."""
    low, high, y = (a[len(y) // 10 :] for a in (low, high, y))
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / NU * outside)), float(np.mean(outside > 0))


def measure(X: np.ndarray, y: np.ndarray) -> dict[str, tuple[float, float]]:
    """Return score and share for one width, for ours, and for one setting's."""
    low, high = Regressor(nu=NU).predict_then_learn(X, y, output="interval")
    middle = (low + high) / 2
    width = plain(middle, y)
    huber = KernelRegressor(loss=losses.Huber(nu=NU)).predict_then_learn(X, y, output="interval")
    return {
        "one width": judged(middle - width, middle + width, y),
        "Regressor()": judged(low, high, y),
        "Huber(nu=0.1)": judged(*huber, y),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table; return whether all is as expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=12_000, help="of each generated stream")
    args = parser.parse_args(argv)
    kinds = ("heavy tails", "skewed", "at the sides", "now and then")
    streams = {name: generated(name, args.rows) for name in kinds}
    folder = harness.data_folder()
    streams |= {} if folder is None else {name: real(name, folder) for name in REAL}
    rows, checks = [], []
    for name, (X, y) in streams.items():
        found = measure(X, y)
        unit, (score, missed) = found["one width"][0], found["Regressor()"]
        shares = {f"% out, {k}": 100 * share for k, (_, share) in found.items()}
        rows.append({"stream": name, **{k: s / unit for k, (s, _) in found.items()}, **shares})
        most = 0.99 if name in REAL else 1.02
        checks.append(harness.Check(f"{name}: score beside one width", score / unit, high=most))
        checks.append(harness.Check(f"{name}: % outside", 100 * missed, 9.5, 10.5))
    print(harness.table(rows))
    return harness.finish("intervals", {"streams": rows}, checks)


if __name__ == "__main__":
    raise SystemExit(main())
