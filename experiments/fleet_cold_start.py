"""What a key's first rows are worth: a fleet with share=True beside one without.

Keys begin one by one, each with means and spreads of its own. One row in a hundred is a fault: one
of its numbers is off by 8 of its spreads (by 5 in the lines "small"). Four sets of keys:

- *alike*: the numbers of all keys depend on each other in one way;
- *unlike*: in each key in a way of its own, so that there is less to share;
- *small*: as alike, with the smaller faults;
- *at once*: as alike, but half of the keys begin together, before there is anything to share.

Of the first 100 and the first 500 rows of each key are told the share of the faults that raised an
alert, and the share of the usual rows that did. The first fifth of all rows is left out: before it
there is no fleet from which a key could start. Both fleets are given the same rows in blocks of
4096. nu is 0.01. --quick takes fewer keys.

Expected: with share=True the usual rows among a key's first 100 alert no more often than nu, and
more than half of the faults among them are found where keys are alike; without it none is, since a
detector is silent during its warm-up. Later the two are the same detectors.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

from onkel import Detector, Fleet

if __package__:
    from . import harness
else:
    import harness

NU, FAULTS, ROWS, FEATURES, BLOCK = 0.01, 0.01, 600, 3, 4096
AGES = (100, 500)
SETS = {
    "alike": (False, 8.0, 0.1), "unlike": (True, 8.0, 0.1), "small": (False, 5.0, 0.1),
    "at once": (False, 8.0, 0.5),
}  # fmt: skip
"""Whether each key has a structure of its own, how large faults are in spreads, and which share of
the keys begins at once."""


@dataclass(frozen=True)
class Rows:
    """Rows of all keys in the order of their times."""

    keys: np.ndarray
    age: np.ndarray
    """Rows of the same key before each."""
    X: np.ndarray
    fault: np.ndarray


def made(rng: np.random.Generator, keys: int, unlike: bool, size: float, first: float) -> Rows:
    """Return rows of keys that begin one by one, this share of them at once."""
    d, shape = FEATURES, (keys, ROWS)
    mix = np.eye(d) + 0.5 * rng.normal(size=(keys if unlike else 1, d, d))
    middle, spread = 5 * rng.normal(size=(keys, 1, d)), np.exp(0.5 * rng.normal(size=(keys, 1, d)))
    began = np.where(np.arange(keys) < first * keys, 0.0, rng.uniform(0, 3 * ROWS, keys))
    when = (began[:, None] + np.arange(ROWS) + rng.random(shape)).ravel()
    X = rng.standard_t(8, size=(*shape, d)) @ mix
    fault = rng.random(shape) < FAULTS
    side = rng.choice([-1, 1], size=fault.sum()) * size
    where = np.eye(d)[rng.integers(0, d, fault.sum())]
    X[fault] += side[:, None] * where * X.std(axis=1, keepdims=True).repeat(ROWS, axis=1)[fault]
    order = np.argsort(when)
    number, age = np.divmod(np.arange(keys * ROWS), ROWS)
    rows = (X * spread + middle).reshape(-1, d)
    return Rows(number[order], age[order], rows[order], fault.ravel()[order])


def alerts(fleet: Fleet, rows: Rows) -> np.ndarray:
    """Return which rows raised an alert."""
    parts = [slice(at, at + BLOCK) for at in range(0, len(rows.X), BLOCK)]
    found = [fleet.predict_then_learn(rows.keys[p], rows.X[p]) for p in parts]
    return np.concatenate(found) == -1


def shares(rows: Rows, alert: np.ndarray) -> dict[str, float]:
    """Return the shares of faults found and of usual rows with an alert, by age."""
    late, told = np.arange(len(rows.X)) >= len(rows.X) // 5, {}
    for age in AGES:
        young = late & (rows.age < age)
        told[f"found in {age}"] = float(alert[young & rows.fault].mean())
        told[f"usual in {age}"] = float(alert[young & ~rows.fault].mean())
    return told


def study(name: str, rng: np.random.Generator, keys: int) -> list[dict[str, Any]]:
    """Return a line for each fleet."""
    rows = made(rng, keys, *SETS[name])
    return [
        {"keys are": name, "share": share, "rows": len(rows.X),
         **shares(rows, alerts(Fleet(Detector(nu=NU), share=share), rows))}
        for share in (False, True)
    ]  # fmt: skip


def expected(lines: list[dict[str, Any]]) -> list[harness.Check]:
    """Return what must hold with share=True."""
    shared = [line for line in lines if line["share"]]
    checks = [harness.Check(f"{line['keys are']}: usual rows with an alert in a key's first 100",
                            line["usual in 100"], high=NU) for line in shared]  # fmt: skip
    found = next(line["found in 100"] for line in shared if line["keys are"] == "alike")
    return [*checks, harness.Check("alike: faults found in a key's first 100 rows", found, low=0.5)]


def main(argv: list[str] | None = None) -> int:
    """Run, print, check, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="150 keys in place of 400")
    quick = parser.parse_args(argv).quick
    print(f"warm-up of a detector: {Detector(nu=NU).warmup_of(FEATURES)} rows")
    lines: list[dict[str, Any]] = []
    for number, name in enumerate(SETS):
        lines += study(name, np.random.default_rng(number), 150 if quick else 400)
    print(harness.table(lines))
    return harness.finish("fleet_cold_start", {"quick": quick, "lines": lines}, expected(lines))


if __name__ == "__main__":
    raise SystemExit(main())
