"""Does the explanation of an alert name the sensor that failed?

A plant of ten sensors follows three hidden quantities that wander and drift; the sensors are
correlated, each with its own noise. After 3000 rows ten faults come, one in each sensor, each of
another size: a single reading off by so many spreads of its sensor. A NoveltyDetector at its
defaults sees the rows as they come; each faulty row is explained before it is learned, and the
explanation's first feature is compared with the sensor that failed.

Reported, over the seeds: how often the right sensor is named, by the size of the fault, whether or
not the row was an alert; how often the faulty row was an alert; and of the named ones, how often
the true (undisturbed) reading lies within what the explanation calls usual.

Expected: with faults of 3 to 8 spreads, all ten named at seed 0, and at least 95 % over all seeds.
--quick runs three seeds instead of twenty.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

from onkel import NoveltyDetector

if __package__:
    from . import harness
else:
    import harness

SENSORS = 10
FIRST, EVERY = 3000, 150
SIZES = np.linspace(3.0, 8.0, SENSORS)


@dataclass(frozen=True)
class Broken:
    """A stream with its faults: in row `rows[i]` the sensor `sensors[i]` should show `true[i]`."""

    X: np.ndarray
    rows: np.ndarray
    sensors: np.ndarray
    sizes: np.ndarray
    true: np.ndarray


def wander(rng: np.random.Generator, n: int, tau: float) -> np.ndarray:
    """Return a path with spread 1 that forgets within about `tau` rows."""
    keep = np.exp(-1.0 / tau)
    path, level = np.empty(n), rng.normal()
    for i, shock in enumerate(rng.normal(size=n) * np.sqrt(1 - keep**2)):
        level = path[i] = keep * level + shock
    return path


def plant(seed: int, sizes: np.ndarray = SIZES) -> Broken:
    """Return ten correlated, drifting sensors, and one fault in each."""
    rng = np.random.default_rng(seed)
    n = FIRST + EVERY * len(sizes)
    hidden = np.column_stack([wander(rng, n, tau) for tau in (30, 60, 120)])
    gains = rng.normal(size=(3, SENSORS))
    units, levels = 10.0 ** rng.uniform(-2, 4, SENSORS), rng.normal(size=SENSORS)
    drift = np.linspace(0, 1, n)[:, None] * rng.normal(size=SENSORS)
    clean = units * (levels + hidden @ gains + drift + 0.3 * rng.normal(size=(n, SENSORS)))
    rows = FIRST + EVERY * np.arange(len(sizes)) + rng.integers(0, EVERY, len(sizes))
    sensors = rng.permutation(SENSORS)[: len(sizes)]
    sizes = rng.permutation(sizes) * rng.choice([-1.0, 1.0], len(sizes))
    X = clean.copy()
    X[rows, sensors] += sizes * clean.std(axis=0)[sensors]
    return Broken(X, rows, sensors, np.abs(sizes), clean[rows, sensors])


def explained(broken: Broken, **settings: Any) -> list[dict[str, Any]]:
    """Return for each fault: its size, whether it was named, an alert, and known to be unusual."""
    model, found, start = NoveltyDetector(**settings), [], 0
    faults = zip(broken.rows, broken.sensors, broken.sizes, broken.true, strict=True)
    for row, sensor, size, true in faults:
        model.partial_fit(broken.X[start:row])
        why = model.explain(broken.X[row])
        first, start = why.features[0], row
        low, high = first.usual
        named = first.name == f"feature {sensor}"
        found.append({"size": size, "named": named, "alert": why.alert,
                      "range": bool(low <= true <= high) if named else None,
                      "width": (high - low) / broken.X[:, sensor].std() if named else None,
                      "sentence": why.sentence})  # fmt: skip
    return found


def summary(found: list[dict[str, Any]]) -> dict[str, float]:
    """Return shares over some faults."""
    inside = [f["range"] for f in found if f["range"] is not None]
    return {
        "faults": len(found),
        "named": float(np.mean([f["named"] for f in found])),
        "alerts": float(np.mean([f["alert"] for f in found])),
        "true value usual": float(np.mean(inside)) if inside else float("nan"),
    }


def main(argv: list[str] | None = None) -> int:
    """Run, print, check, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three seeds instead of twenty")
    args = parser.parse_args(argv)
    seeds = range(3 if args.quick else 20)
    mixed = [explained(plant(seed)) for seed in seeds]
    rows = [{"spreads": "3 to 8"} | summary([f for found in mixed for f in found])]
    for size in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 1e6):
        found = [f for s in seeds for f in explained(plant(s, np.full(SENSORS, size)))]
        rows.append({"spreads": f"{size:g}"} | summary(found))
    print(harness.table(rows))
    for fault in mixed[0][:3]:
        print(f"{fault['size']:.1f} spreads: {fault['sentence']}")
    checks = [
        harness.Check("seed 0, named", float(np.mean([f["named"] for f in mixed[0]])), low=1.0),
        harness.Check("all seeds, named", rows[0]["named"], low=0.95),
    ]
    return harness.finish("explained_faults", {"rows": rows}, checks)


if __name__ == "__main__":
    raise SystemExit(main())
