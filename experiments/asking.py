"""What labels teach that were asked for, beside as many at random, and all of them.

Rows come in blocks; each is predicted, then the labels of some rows are given: those that
``Late(ask=...)`` asked for, as many drawn at random, or all. Mistakes (or errors) are counted over
all rows, whether their labels were given or not.

    ONKEL_DATA=... python experiments/asking.py [--rows N] [--share 0.02 ...]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from onkel import Classifier, Late, Regressor, streams
from onkel.late import asking

if __package__:
    from . import harness
else:
    import harness

BLOCK = 25
CLASSES = ("elec2", "ijcnn1", "cod_rna", "a9a", "usps", "sea")
NUMBERS = ("bike_hour", "kin8nm", "cpusmall")
SHUFFLED = ("cod_rna", "a9a", "usps", "kin8nm", "cpusmall")
"""Streams that have no order of their own."""
SEEDS = 3


def played(
    make: Any, X: Any, y: Any, share: float, chosen: str, seed: int = 0
) -> tuple[float, float]:
    """Return the mean error over all rows, and the share of the labels that were given."""
    late = Late(make(), keep=10 * BLOCK, ask=share if chosen == "asked" else None)
    rng, errors, given = np.random.default_rng(seed), 0.0, 0
    for start in range(0, len(y), BLOCK):
        rows = slice(start, start + BLOCK)
        said, target = late.predict(X[rows]), y[rows]
        errors += error(late.task, said.prediction, target)
        which = said.ask if chosen == "asked" else rng.uniform(size=len(target)) < share
        at = np.flatnonzero(which) if chosen != "all" else np.arange(len(target))
        late.learn([said.ids[i] for i in at], target[at])
        given += len(at)
    return errors / len(y), given / len(y)


def error(task: str, said: Any, target: Any) -> float:
    """Return mistakes, or absolute errors; where nothing was known: a mistake, or that of 0."""
    if task == "classification":
        return float(sum(a != b for a, b in zip(said.tolist(), target.tolist(), strict=True)))
    return float(np.abs(np.nan_to_num(said) - target).sum())


def compared(make: Any, X: Any, y: Any, shares: list[float]) -> list[dict[str, Any]]:
    """Return one line per share: asked, without lots, at random (mean of seeds), all labels."""
    whole, _ = played(make, X, y, 1.0, "all")
    found = []
    for share in shares:
        asked, given = played(make, X, y, share, "asked")
        lot, asking.LOT = asking.LOT, 0.0
        sure, _ = played(make, X, y, share, "asked")
        asking.LOT = lot
        random = [played(make, X, y, share, "random", seed)[0] for seed in range(SEEDS)]
        found.append(
            {
                "share": share, "given": given, "asked": asked, "asked, no lots": sure,
                "random": float(np.mean(random)), "random worst": max(random),
                "random best": min(random), "all": whole,
            }
        )  # fmt: skip
    return found


def plant(rows: int) -> tuple[Any, Any]:
    """Return readings of the simulated plant, and whether its product was within tolerance."""
    found = streams.sensors(rows, seed=0)
    return found.X, found.y


def main() -> int:
    """Run the comparison, stream by stream, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--share", type=float, nargs="+", default=[0.02, 0.05])
    given, folder = parser.parse_args(), harness.data_folder()
    cases: list[tuple[str, Any, Any, Any]] = [("plant", Classifier, *plant(given.rows))]
    for name in (*CLASSES, *NUMBERS) if folder is not None else ():
        X, y = harness.load(folder, name, shuffle=name in SHUFFLED)
        make = Classifier if name in CLASSES else Regressor
        cases.append((name, make, X[: given.rows], y[: given.rows]))
    rows: list[dict[str, Any]] = []
    for name, make, X, y in cases:
        found = compared(make, np.asarray(X, float), y, given.share)
        rows += [{"stream": name, "rows": len(y), **line} for line in found]
        print(harness.table(rows[-len(found) :]), flush=True)
    checks = [
        harness.Check(
            f"{r['stream']} at {r['share']}: given", r["given"], high=r["share"] + 3 / r["rows"]
        )
        for r in rows
    ]
    return harness.finish("asking", {"streams": rows}, checks)


if __name__ == "__main__":
    sys.exit(main())
