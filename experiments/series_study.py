"""Shapes and seasons: four faults that no value gives away, and what is found of them.

A load by the quarter of an hour over ten weeks: two peaks a day, less on weekends, noise that
wanders. In the second half, on four working days, are planted

- *a wrong hour*: from two to five at night the values of eight to eleven;
- *a missing peak*: from seven to eleven the values of the early afternoon;
- *a flat line*: from one to five in the afternoon the value at one;
- *a change of shape*: from noon to four a quick to and fro about the usual level.

The detector sees the value alone, or what onkel.series.Lags makes of it: as `onkel detect` has it
where there are times, which is Lags(season="day"), with less, and with more. Reported over the
seeds, from two fifths on: the AUC of the fault's rows among the usual ones; how many of the usual
rows were as strange as the strangest of the fault ("1 in"), in the mean and at worst; and, of the
Detector as it comes (nu = 0.01), at how many seeds a fault raised an alert.

With NAB's series (two files, ONKEL_DATA names their folder) the same features are compared on 19
of its 24 series, those with labels: AUC of the rows within its windows, from 15 % on. The defaults
of Lags were chosen by detectors that hold a density, on the first, third, ... of these, by name,
and so that all four faults are found; the other series are reported beside. --density asks a plain
density (of the last 1000 rows, Laplacian, standardised) instead of the Detector.

Expected: as the command has it, every fault at every seed is stranger than 97 % of the usual rows.
--quick runs two seeds instead of ten, and no NAB.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from onkel import Detector
from onkel.series import Lags

if __package__:
    from . import harness
    from .reproduce_docs import write
else:
    import harness
    from reproduce_docs import write

STEP, WEEKS = 900, 10
DAY = 86400 // STEP
MONDAY = 1_699_833_600
"""13 November 2023, midnight."""
FAULTS = ("a wrong hour", "a missing peak", "a flat line", "a change of shape")
FILES = ("nab_realKnownCause.csv.gz", "nab_ad_artificial.csv.gz")
WORST = 0.03
"""So many of the usual rows may be as strange as a fault, at most."""
FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "series.png"

COMMAND = "as onkel detect: the day"
Judge = Callable[[np.ndarray], np.ndarray]
SEEN: dict[str, Callable[[], Lags] | None] = {
    "the value alone": None,
    COMMAND: lambda: Lags(season="day"),
    "no season: Lags()": Lags,
    "a season that is found": lambda: Lags(season="auto"),
    "the day and the week": lambda: Lags(season="day,week"),
    "without the forecast": lambda: Lags(season="day", forecast=0),
    "without roughness": lambda: Lags(season="day", roughness=0),
    "with 3 lags": lambda: Lags(3, season="day"),
    "with a shape of 6": lambda: Lags(season="day", shape=6),
    "with differences": lambda: Lags(season="day", differences=True),
}
"""What the detector may be shown of a series."""


def strangeness(rows: np.ndarray) -> np.ndarray:
    """Return how unusual each row was before it was learned; the higher, the stranger."""
    return -np.asarray(Detector().predict_then_learn(rows, output="score"))


def density(rows: np.ndarray, recent: int = 1000, block: int = 64) -> np.ndarray:
    """Return -log of the mean Laplacian kernel to the last rows, standardised by all before."""
    strange = np.zeros(len(rows))
    for start in range(block, len(rows), block):
        known = rows[:start]
        spread = known.std(axis=0)
        unit = np.where(spread > 1e-9, spread, 1.0) * rows.shape[1] / 4
        here, there = rows[start : start + block] / unit, known[-recent:] / unit
        apart = np.abs(here[:, None] - there[None]).sum(axis=2)
        least = apart.min(axis=1)
        strange[start : start + block] = least - np.log(np.exp(least[:, None] - apart).mean(axis=1))
    return strange


def shown(seen: Callable[[], Lags] | None, values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return what the detector sees of a series."""
    rows = values[:, None]
    return rows if seen is None else seen().transform_then_learn(rows, time=times)


# -- the generated series --------------------------------------------------------------------------


def usual(times: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the load at some times, with noise that wanders."""
    hour, working = times / 3600 % 24, (times - MONDAY) // 86400 % 7 < 5
    morning = np.exp(-0.5 * ((hour - 9) / 1.6) ** 2)
    evening = 0.75 * np.exp(-0.5 * ((hour - 18.5) / 2) ** 2)
    night = 0.35 + 0.15 * np.sin(2 * np.pi * hour / 24)
    return np.where(working, 1.0, 0.55) * (night + morning + evening) + wandering(len(times), rng)


def wandering(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return noise of which a part stays from row to row."""
    shock, level, found = 0.08 * rng.normal(size=rows), 0.0, np.empty(rows)
    for i in range(rows):
        level = 0.7 * level + 0.7 * shock[i]
        found[i] = level + 0.3 * shock[i]
    return found


def faulty(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, values, and which fault each row belongs to (0: none)."""
    rng = np.random.default_rng(seed)
    times = MONDAY + STEP * np.arange(7 * DAY * WEEKS)
    values, fault = usual(times, rng), np.zeros(len(times), int)
    days = [d for d in range(7 * WEEKS // 2, 7 * WEEKS - 1) if d % 7 < 5]
    hours = ((2, 5), (7, 11), (13, 17), (12, 16))
    for kind, day in enumerate(rng.choice(days[::2], 4, replace=False), 1):
        first, last = hours[kind - 1]
        part = slice(day * DAY + first * DAY // 24, day * DAY + last * DAY // 24)
        values[part] = planted(kind, times[part], values[part], rng)
        fault[part] = kind
    return times, values, fault


def planted(
    kind: int, times: np.ndarray, values: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the values of a fault in the place of the usual ones."""
    if kind == 1:
        return usual(times + 6 * 3600, rng)
    if kind == 2:
        return usual(np.full(len(times), times[0] + 7 * 3600), rng)
    if kind == 3:
        return np.full(len(times), values[0])
    swing = 0.25 * np.where(np.arange(len(times)) % 4 < 2, 1.0, -1.0)
    return values.mean() + swing + 0.03 * rng.normal(size=len(times))


def found(strange: np.ndarray, fault: np.ndarray) -> list[tuple[float, float]]:
    """Return, for each fault, its AUC and the share of usual rows as strange as its strangest."""
    late = np.arange(len(fault)) >= 2 * len(fault) // 5
    plain, results = strange[late & (fault == 0)], []
    for kind in range(1, 5):
        inside = strange[fault == kind]
        truth = np.r_[np.zeros(len(plain)), np.ones(len(inside))]
        auc = float(roc_auc_score(truth, np.r_[plain, inside]))
        results.append((auc, float(np.mean(plain >= inside.max()))))
    return results


def table(results: dict[str, np.ndarray]) -> str:
    """Return AUC and rarity of each fault, by what was seen, as a table in Markdown."""
    lines = [f"| seen | {' | '.join(FAULTS)} |", "| --- |" + " --- |" * 4]
    for name, values in results.items():  # seeds, faults, (auc, share)
        auc, share, worst = values.mean(axis=0)[:, 0], values.mean(axis=0)[:, 1], values.max(axis=0)
        cells = [f"{auc[k]:.2f}; {_rarity(share[k])} ({_rarity(worst[k, 1])})" for k in range(4)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def alerts_table(seeds: int) -> str:
    """Return at how many seeds each fault raises an alert, and what part of the usual rows does."""
    lines = [f"| seen | {' | '.join(FAULTS)} | usual rows |", "| --- |" + " --- |" * 5]
    for name in ("the value alone", COMMAND):
        found = np.mean([_alerted(SEEN[name], seed) for seed in range(seeds)], axis=0)
        cells = [f"{seeds * share:.0f} of {seeds}" for share in found[:4]]
        lines.append(f"| {name} | {' | '.join(cells)} | {found[4]:.2%} |")
    return "\n".join(lines)


def _alerted(seen: Callable[[], Lags] | None, seed: int) -> list[float]:
    times, values, fault = faulty(seed)
    alerts = Detector().predict_then_learn(shown(seen, values, times)) == -1
    late = 2 * len(fault) // 5
    usual_rows = alerts[late:][fault[late:] == 0]
    return [float(alerts[fault == kind].any()) for kind in range(1, 5)] + [usual_rows.mean()]


def _rarity(share: float) -> str:
    return "none" if share == 0 else f"1 in {1 / share:.0f}" if share < 0.5 else f"{share:.0%}"


# -- NAB -------------------------------------------------------------------------------------------


def nab(folder: Path) -> dict[str, np.ndarray]:
    """Return NAB's series by name: times, values, and whether a row lies in a window."""
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for name in FILES:
        with gzip.open(folder / name, "rt") as file:
            for row in csv.DictReader(file):
                time = datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp()
                entry = time, float(row["value"]), float(row["anomaly"])
                rows.setdefault(row["series"], []).append(entry)
    series = {name: np.array(entries) for name, entries in sorted(rows.items())}
    return {name: s for name, s in series.items() if s[int(0.15 * len(s)) :, 2].any()}


def nab_auc(series: np.ndarray, seen: Callable[[], Lags] | None, judge: Judge) -> float:
    """Return the AUC of one series, from 15 % on."""
    times, values, inside = series.T
    start = int(0.15 * len(series))
    strange = judge(shown(seen, values, times))
    return float(roc_auc_score(inside[start:], strange[start:]))


def nab_table(folder: Path, judge: Judge) -> str:
    """Return mean AUCs on the half that the defaults were chosen on, and on the other."""
    series = list(nab(folder).values())
    lines = ["| seen | chosen on | the others | all 19 |", "| --- | --- | --- | --- |"]
    for name, seen in SEEN.items():
        auc = np.array([nab_auc(s, seen, judge) for s in series])
        halves = f"{auc[::2].mean():.3f} | {auc[1::2].mean():.3f} | {auc.mean():.3f}"
        lines.append(f"| {name} | {halves} |")
    return "\n".join(lines)


# -- the picture -----------------------------------------------------------------------------------


def draw(path: Path, seed: int = 0) -> None:
    """Draw the four faults of one seed, with how strange they are by either way of seeing."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    times, values, fault = faulty(seed)
    ways = {name: strangeness(shown(SEEN[name], values, times)) for name in list(SEEN)[:2]}
    figure, panels = plt.subplots(
        3, 4, figsize=(10, 4.8), sharex="col", sharey="row", layout="constrained",
        height_ratios=(2, 1, 1),
    )  # fmt: skip
    for kind, column in enumerate(panels.T, 1):
        _panel(column, kind, times, values, fault, ways)
    panels[0, 0].set_ylabel("load")
    panels[0, 2].legend(loc="upper right", fontsize=7, handlelength=1, frameon=False)
    for panel, name in zip(panels[1:, 0], ("value\nalone", "as a\nseries"), strict=True):
        panel.set_ylabel(f"1 in …,\n{name}")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _panel(
    column: Any, kind: int, times: np.ndarray, values: np.ndarray, fault: np.ndarray,
    ways: dict[str, np.ndarray],
) -> None:  # fmt: skip
    ink, soft, accent, alarm = "#22303c", "#9fb3c1", "#2a6f97", "#d1495b"
    at = np.flatnonzero(fault == kind)
    start = at[0] // DAY * DAY - DAY // 2
    part = slice(start, start + 2 * DAY)
    hours = (times[part] - times[start + DAY // 2]) / 3600
    before = values[part.start - 7 * DAY : part.stop - 7 * DAY]
    column[0].plot(hours, before, color=soft, lw=1, label="a week before")
    column[0].plot(hours, values[part], color=ink, lw=1, label="the load")
    column[0].set_title(FAULTS[kind - 1], fontsize=10, loc="left", color=ink)
    for panel, strange in zip(column[1:], ways.values(), strict=True):
        inside = fault[part] == kind
        rarity = np.exp(strange[part])
        panel.vlines(hours[~inside], 1, rarity[~inside], color=soft, lw=0.8)
        panel.vlines(hours[inside], 1, rarity[inside], color=accent, lw=1)
        panel.axhline(100, color=ink, lw=0.8, ls=":")
        panel.set(yscale="log", ylim=(1, 2000))
    for panel in column:
        panel.axvspan(hours[at[0] - start], hours[at[-1] - start], color=alarm, alpha=0.12, lw=0)
        panel.spines[["top", "right"]].set_visible(False)
    column[2].set(xlabel="hour of the day", xticks=(-12, 0, 12, 24, 36))


def studied(seeds: int, judge: Judge) -> dict[str, np.ndarray]:
    """Return AUC and share for every way of seeing, seed and fault."""
    series = [faulty(seed) for seed in range(seeds)]
    return {
        name: np.array([found(judge(shown(seen, v, t)), fault) for t, v, fault in series])
        for name, seen in SEEN.items()
    }


def main(argv: list[str] | None = None) -> int:
    """Run, print, check, report; draw if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds, and no NAB")
    parser.add_argument("--figure", action="store_true", help="draw docs/figures/series.png")
    parser.add_argument("--page", action="store_true", help="write the tables to docs/series.md")
    parser.add_argument("--density", action="store_true", help="a plain density, not Detector")
    args = parser.parse_args(argv)
    judge = density if args.density else strangeness
    folder = None if args.quick else harness.data_folder()
    if args.figure:
        draw(FIGURE)
    seeds = 2 if args.quick else 10
    results = studied(seeds, judge)
    tables = {"faults": table(results)}
    if not args.density:
        tables["alerts"] = alerts_table(seeds)
    if folder is not None:
        tables["nab"] = nab_table(folder, judge)
    print("\n\n".join(tables.values()))
    for name, text in tables.items() if args.page else ():
        write(FIGURE.parent.parent / "series.md", name, text)
    worst = float(results[COMMAND][:, :, 1].max())
    checks = [harness.Check("usual rows as strange as a fault, at worst", worst, high=WORST)]
    return harness.finish(
        "series_study", {"faults": {n: r.tolist() for n, r in results.items()}}, checks
    )


if __name__ == "__main__":
    raise SystemExit(main())
