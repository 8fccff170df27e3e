"""Ten million examples of a drifting stream: flat memory, constant speed, numbers in range.

A seeded two-dimensional stream whose centre goes round a circle once in a million examples runs
through ``NoveltyDetector(expansion=Window(age=1000))`` in blocks of 10 000. After each million:
examples per second of processor time (which a busy machine disturbs less than the clock), resident
memory (from /proc/self/statm, left out where there is none), smallest and largest global scale and
threshold, alert rate.

Expected: memory grows by at most 2 MB after the first tenth of the run; no stretch of a tenth
slower than half the median; every number finite; alert rate within
2 % of nu. --quick runs one million.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from onkel import NoveltyDetector
from onkel.core.layout import Field
from onkel.expansions import Window

if __package__:
    from . import harness
else:
    import harness

BLOCK = 10_000
TURN = 1_000_000
GROWTH_MB, SLOWEST, RATE_SLACK = 2.0, 0.5, 0.02


def block(number: int, seed: int = 0) -> np.ndarray:
    """Return the rows of one block: a unit Gaussian whose centre goes round a circle."""
    angle = 2 * np.pi * (number * BLOCK + np.arange(BLOCK)) / TURN
    centre = 3 * np.column_stack([np.cos(angle), np.sin(angle)])
    return centre + np.random.default_rng([seed, number]).normal(size=(BLOCK, 2))


def resident_mb() -> float | None:
    """Return the resident memory of this process; None where /proc does not tell."""
    path = Path("/proc/self/statm")
    if not path.exists():
        return None
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def stretch(model: NoveltyDetector, numbers: range) -> dict[str, Any]:
    """Run some blocks and return what was seen."""
    seconds, alerts, scales, thresholds, finite = 0.0, 0, [], [], True
    for number in numbers:
        rows = block(number)
        began = time.process_time()
        decisions = model.predict_then_learn(rows, output="decision")
        seconds += time.process_time() - began
        alerts += int(np.count_nonzero(decisions < 0))
        scales.append(float(model._learner.state[0, Field.SCALE]))
        thresholds.append(model.threshold_)
        finite &= bool(np.all(np.isfinite(decisions)) and np.all(np.isfinite(model._learner.state)))
    count = len(numbers) * BLOCK
    return {
        "examples": numbers.stop * BLOCK,
        "per second": round(count / seconds),
        "MB": resident_mb(),
        "terms": model.n_terms_,
        "scale min": min(scales),
        "scale max": max(scales),
        "threshold min": min(thresholds),
        "threshold max": max(thresholds),
        "alert rate": alerts / count,
        "finite": finite,
    }


def main(argv: list[str] | None = None) -> int:
    """Run, print, check, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one million examples")
    args = parser.parse_args(argv)
    blocks = 100 if args.quick else 1000
    model = NoveltyDetector(expansion=Window(age=1000))
    step = blocks // 10
    rows = [stretch(model, range(i, i + step)) for i in range(0, blocks, step)]
    print(harness.table(rows))
    rates = np.array([row["per second"] for row in rows], float)
    realised = float(np.mean([row["alert rate"] for row in rows])) / model.nu
    checks = [
        harness.Check("slowest stretch / median", float(rates.min() / np.median(rates)), SLOWEST),
        harness.Check("last stretch / first", float(rates[-1] / rates[0]), SLOWEST),
        harness.Check("finite throughout", float(all(row["finite"] for row in rows)), 1, 1),
        harness.Check("alert rate / nu", realised, 1 - RATE_SLACK, 1 + RATE_SLACK),
    ]
    if rows[0]["MB"] is None:
        print("No /proc/self/statm here: resident memory is left out.")
    else:
        grown = max(row["MB"] for row in rows) - rows[0]["MB"]
        checks.append(harness.Check("MB grown since the first tenth", grown, high=GROWTH_MB))
    return harness.finish("long_run", {"rows": rows}, checks)


if __name__ == "__main__":
    raise SystemExit(main())
