"""How alerts behave on streams of which all is known: faults, peace, a change that stays, youth.

Rows have eight features, standard normal where nothing else is said; nu = 0.01.

- *Bursts*: 5000 usual rows, then 40 or 400 faulty ones, then 6000 usual rows among which one in 200
  is odd. Faults are a *shift* (features moved by 4 spreads) or *wild* (features with 5 times their
  spread); odd rows have *one* feature at 5 spreads to either side, or *all*. Counted are the alerts
  in the burst, and the share of odd rows seen within 1000 rows of its end, and later.
- *Rate*: alerts from row 2000 on, as a multiple of nu, on streams whose law never changes: normal,
  heavy-tailed (Student's t of three degrees), uniform, a mixture of four clusters, and normal rows
  that depend on the row before (correlation 0.9); and the least and the most of 10 000 rows.
- *Shift*: 5000 usual rows, then all features move by 5 spreads, and stay there for 15 000 rows.
  Accepted is the shift from the first row on after which at most 10 of 500 rows alert.
- *Youth*: alerts among the first 500 rows of each law, means over seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

D, NU = 8, 0.01
BEFORE, AFTER, EVERY = 5000, 6000, 200
Judge = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
Row = dict[str, Any]
WATCHED = ("onkel: Detector", "onkel: NoveltyDetector", "z-score 1000", "neighbours 1000")


# -- laws ------------------------------------------------------------------------------------------


def clusters(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return rows of four clusters."""
    centres = rng.normal(0, 4, (4, D))
    return centres[rng.integers(4, size=n)] + rng.normal(size=(n, D))


def tied(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return normal rows that depend on the row before."""
    X = rng.normal(size=(n, D))
    for t in range(1, n):
        X[t] = 0.9 * X[t - 1] + np.sqrt(1 - 0.9**2) * X[t]
    return X


LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=(n, D)),
    "heavy-tailed": lambda rng, n: rng.standard_t(3, (n, D)),
    "uniform": lambda rng, n: rng.random((n, D)),
    "mixture": clusters,
    "autocorrelated": tied,
}


# -- what happens ----------------------------------------------------------------------------------


def burst(
    rng: np.random.Generator, length: int, fault: str, odd: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return a stream with a burst, and where the odd rows after it are."""
    X = rng.normal(size=(BEFORE + length + AFTER, D))
    faulty = X[BEFORE : BEFORE + length]
    faulty[:] = faulty + 4 if fault == "shift" else 5 * faulty
    starts = np.arange(BEFORE + length, len(X), EVERY)
    at = starts + rng.integers(20, EVERY, len(starts))
    sign = rng.choice([-1, 1], (len(at), D))
    if odd == "all":
        X[at] += 5 * sign
    else:
        X[at, rng.integers(D, size=len(at))] = 5 * sign[:, 0]
    return X, at


def bursts(judge: Judge, seeds: int) -> list[Row]:
    """Return what becomes of bursts, means over seeds."""
    rows = []
    for length, fault, odd in product((40, 400), ("shift", "wild"), ("one", "all")):
        found = [_one_burst(judge, seed, length, fault, odd) for seed in range(seeds)]
        inside, soon, late = np.mean(found, axis=0)
        rows.append({
            "burst": length, "fault": fault, "odd": odd, "alerts in it": float(inside),
            "seen within 1000 %": 100 * float(soon), "seen later %": 100 * float(late),
        })  # fmt: skip
    return rows


def _one_burst(
    judge: Judge, seed: int, length: int, fault: str, odd: str
) -> tuple[float, float, float]:
    X, at = burst(np.random.default_rng(seed), length, fault, odd)
    alerts = judge(X)[1]
    end = BEFORE + length
    soon = at < end + 1000
    return (
        float(alerts[BEFORE:end].sum()), float(alerts[at[soon]].mean()),
        float(alerts[at[~soon]].mean()),
    )  # fmt: skip


def rates(judge: Judge, n: int) -> list[Row]:
    """Return the realised rate over nu for each law."""
    rows = []
    for name, law in LAWS.items():
        late = judge(law(np.random.default_rng(7), n))[1][2000:]
        parts = late[: len(late) // 10_000 * 10_000].reshape(-1, 10_000).mean(axis=1) / NU
        rows.append({"law": name, "rows": n, "rate / nu": float(late.mean() / NU),
                     "least of 10 000": float(parts.min()),
                     "most of 10 000": float(parts.max())})  # fmt: skip
    return rows


def shift(judge: Judge, seeds: int) -> Row:
    """Return when a shift is accepted and how many alerts it has cost, medians over seeds."""
    found = []
    for seed in range(seeds):
        X = np.random.default_rng(seed).normal(size=(BEFORE + 15_000, D))
        X[BEFORE:] += 5
        alerts = judge(X)[1][BEFORE:]
        total = np.append(0, np.cumsum(alerts))
        calm = np.flatnonzero(total[500:] - total[:-500] <= 10)
        rows = int(calm[0]) if len(calm) else len(alerts)
        found.append((rows, total[rows]))
    rows, alerts_in = np.median(found, axis=0)
    return {"rows until accepted": float(rows), "alerts until then": float(alerts_in)}


def youth(judge: Judge, seeds: int) -> Row:
    """Return alerts among the first 500 rows, by law, means over seeds."""
    return {
        name: float(np.mean([judge(law(np.random.default_rng(seed), 500))[1].sum()
                             for seed in range(seeds)]))
        for name, law in LAWS.items()
    }  # fmt: skip


def tables(judges: dict[str, Judge], quick: bool, million: bool) -> list[tuple[str, list[Row]]]:
    """Return the tables for the contenders that are watched."""
    seeds, n = (3, 30_000) if quick else (20, 100_000)
    watched = {name: judges[name] for name in WATCHED if name in judges}
    made: dict[str, list[Row]] = {"Bursts": [], "Rate": [], "Shift": [], "Youth": []}
    for name, judge in watched.items():
        head = {"contender": name}
        made["Bursts"] += [head | row for row in bursts(judge, seeds)]
        long = 1_000_000 if million and name == "onkel: Detector" else n
        made["Rate"] += [head | row for row in rates(judge, long)]
        made["Shift"].append(head | shift(judge, seeds))
        made["Youth"].append(head | youth(judge, seeds))
    captions = {what: f"{what}, {seeds} seeds" for what in made} | {"Rate": "Rate, one stream each"}
    return [(captions[what], rows) for what, rows in made.items() if rows]
