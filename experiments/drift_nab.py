"""NAB: the seven series of known cause, scored as the Numenta Anomaly Benchmark scores.

Every detector sees a series once, in order, and gives each row a score before it learns it. One
threshold for all seven series is the best there is, as in NAB, for each of the three profiles;
nab_score.py has the score. 0 is a detector that never alerts, 100 a perfect one.

What can be chosen is the same for all: what a row is (the value; the value with its time of day
and week; the last eight values), and how a score is read (as it comes, or as the normal tail
probability of its place among the last 1000: NAB's "likelihood" without its mean of the last ten).
Six settings each; detectors that predict the next value choose among three numbers of past values
instead. NAB's windowed Gaussian has its own window only.

- *standard*, *low FP*, *low FN*: NAB's profiles for a detector as it comes (its first setting),
  the threshold from the same series, as NAB does;
- *best*: the best of the six, on the same series: what NAB's own table reports of detectors tuned
  on it;
- *left out*: setting and threshold chosen on six series and scored on the seventh, in turn. This
  is nearer to what one may expect of a new series. One of the 19 windows, found or missed, is
  worth up to 5.3: smaller differences mean nothing.

Published: the raw scores of the same seven series that the NAB repository holds
(results/NAME/NAME_standard_scores.csv), with thresholds that were the best for all its 58 series.
NAB's windowed Gaussian, rerun here at its own threshold of 1 and rounded to the twelve digits of
NAB's files (its alerts lie there: 1 - 1e-13 is one), must give those scores to the digit.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import erfc, sqrt
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from . import nab_score
    from .harness import Check
    from .meeting import ACCENT, ALARM, INK, SOFT, Row, Study, absent, canvas, command, has
    from .nab_published import PUBLISHED
else:
    import nab_score
    from harness import Check
    from meeting import ACCENT, ALARM, INK, SOFT, Row, Study, absent, canvas, command, has
    from nab_published import PUBLISHED

from feeds import standardised

from onkel import KernelRegressor, losses
from onkel.river import NoveltyDetector

TITLE = "NAB: seven series of known cause"
FILE = "nab_realKnownCause.csv.gz"
LABELS = "nab_realKnownCause_labels.json"
RECENT = 1000
DIGITS = 12
"""Of the scores in NAB's files."""
QUICK = ("ec2_request_latency_system_failure", "rogue_agent_key_hold")
SHOWN = ("machine_temperature_system_failure", "nyc_taxi")


@dataclass(frozen=True)
class Series:
    """A series of NAB."""

    name: str
    times: np.ndarray
    values: np.ndarray
    windows: list[tuple[int, int]]
    """First and last row of each window of labels."""

    @property
    def marks(self) -> nab_score.Marks:
        """What an alert is worth at each row."""
        return nab_score.marks(len(self.values), self.windows)


def load(data: Path, quick: bool = False) -> list[Series]:
    """Return the series, by name."""
    limits = json.loads((data / LABELS).read_text())["windows"]
    with gzip.open(data / FILE, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    found = []
    for path, group in groupby(rows, key=lambda row: row["series"]):
        part, name = list(group), path.rpartition("/")[2]
        times = np.array([row["timestamp"] for row in part], "datetime64[s]")
        pairs = [np.array(pair, "datetime64[s]") for pair in limits[f"{path}.csv"]]
        windows = [_inside(times, first, last) for first, last in pairs]
        if not quick or name in QUICK:
            found.append(
                Series(name, times, np.array([row["value"] for row in part], float), windows)
            )
    return found


def _inside(times: np.ndarray, first: Any, last: Any) -> tuple[int, int]:
    rows = np.flatnonzero((times >= first) & (times <= last))
    return int(rows[0]), int(rows[-1])


# -- rows --------------------------------------------------------------------------------------


def lagged(values: np.ndarray, past: int) -> np.ndarray:
    """Return the last `past` values at each row, the newest first; the first value before it.

    >>> lagged(np.array([1.0, 2.0, 3.0]), 2).tolist()
    [[1.0, 1.0], [2.0, 1.0], [3.0, 2.0]]
    """
    padded = np.concatenate([np.full(past - 1, values[0]), values])
    return np.column_stack([padded[past - 1 - j : len(padded) - j] for j in range(past)])


def timed(series: Series) -> np.ndarray:
    """Return the value with its time of day on a circle, and whether it is a weekend."""
    seconds = series.times.astype(np.int64)
    angle = 2 * np.pi * (seconds % 86_400) / 86_400
    weekend = (seconds // 86_400 + 3) % 7 >= 5  # day 0 was a Thursday
    return np.column_stack([series.values, np.sin(angle), np.cos(angle), weekend])


ROWS: dict[str, Callable[[Series], np.ndarray]] = {
    "value": lambda s: s.values[:, None],
    "value and time": timed,
    "last 8 values": lambda s: lagged(s.values, 8),
}
PAST = {"from 8 values": 8, "from 3 values": 3, "from 24 values": 24}


# -- detectors: the higher, the stranger -------------------------------------------------------


def each(model: Any, rows: Iterator[dict[int, float]]) -> np.ndarray:
    """Return the scores of one of River's detectors, or of onkel's as River's."""
    found = []
    for x in rows:
        found.append(model.score_one(x))
        model.learn_one(x)
    return np.array(found, float)


def dicts(X: np.ndarray) -> Iterator[dict[int, float]]:
    """Yield rows as River takes them."""
    return (dict(enumerate(row)) for row in X.tolist())


def ours(X: np.ndarray) -> np.ndarray:
    """Return the scores of onkel's detector; it standardises by itself."""
    return each(NoveltyDetector(), dicts(X))


def half_space(X: np.ndarray) -> np.ndarray:
    """Return the scores of River's half-space trees on standardised rows."""
    from river import anomaly

    limits = dict.fromkeys(range(X.shape[1]), (-4.0, 4.0))
    return each(anomaly.HalfSpaceTrees(limits=limits, seed=0), dicts(standardised(X)))


def linear(X: np.ndarray) -> np.ndarray:
    """Return the scores of River's (linear) one-class SVM on standardised rows."""
    from river import anomaly

    return each(anomaly.OneClassSVM(), dicts(standardised(X)))


def forecast(values: np.ndarray, past: int) -> np.ndarray:
    """Return how far the next value lies outside, in half-widths of its interval: onkel."""
    X = lagged(values, past)[:-1]
    model = KernelRegressor(loss=losses.Huber(nu=0.05), n_jobs=1)
    low, high = model.predict_then_learn(X, values[1:], output="interval")
    half = np.maximum((high - low) / 2, 1e-12 + 1e-6 * np.abs(values[1:]).mean())
    return np.append(0.0, np.abs(values[1:] - (low + high) / 2) / half)


def river_forecast(values: np.ndarray, past: int) -> np.ndarray:
    """Return the same with River's linear regression, the error over its usual size."""
    from river import linear_model

    X, y = standardised(lagged(values, past)[:-1]), standardised(values[:, None])[1:, 0]
    model, usual, found = linear_model.LinearRegression(), 1e-6, [0.0]
    for x, target in zip(dicts(X), y.tolist(), strict=True):
        error = abs(target - model.predict_one(x))
        found.append(error / usual)
        usual += 0.01 * (error - usual)
        model.learn_one(x, target)
    return np.minimum(found, 1e6)


def tails(values: np.ndarray, window: int, step: int = 1) -> np.ndarray:
    """Return 1 - Q(|z|) of each value among the `window` before it, which move on by `step`.

    With 6400 and 100 it is NAB's windowedGaussian; mean and spread are of the rows before.
    """
    shift = values[0]
    sums = np.concatenate([[0.0], np.cumsum(values - shift)])
    squares = np.concatenate([[0.0], np.cumsum((values - shift) ** 2)])
    t = np.arange(len(values))
    stop = np.where(t <= window, t, window + (t - window) // step * step)
    start = np.maximum(stop - window, 0)
    n = np.maximum(stop - start, 1)
    mean = (sums[stop] - sums[start]) / n
    variance = np.maximum((squares[stop] - squares[start]) / n - mean**2, 0)
    spread = np.sqrt(np.where(variance > 1e-12 * (1 + mean**2), variance, 1e-12))
    z = np.abs(values - shift - mean) / spread
    found = np.array([1 - 0.5 * erfc(v / sqrt(2)) for v in z.tolist()])
    found[0] = 0.0
    return found


def likelihood(scores: np.ndarray) -> np.ndarray:
    """Return how unusually high each score is among the last 1000, from 0 to 1."""
    low = np.where(scores >= _means(scores), 1.0, -1.0)
    return (1 + low * (2 * tails(scores, RECENT) - 1)) / 2


def _means(values: np.ndarray) -> np.ndarray:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    t = np.arange(len(values))
    start = np.maximum(t - RECENT, 0)
    return (sums[t] - sums[start]) / np.maximum(t - start, 1)


Scores = list[np.ndarray]
READINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as it comes": lambda scores: scores,
    "likelihood": likelihood,
}


def by_rows(detect: Callable[[np.ndarray], np.ndarray], series: list[Series]) -> dict[str, Scores]:
    """Return the scores of all series for the six settings."""
    plain = {name: [detect(make(s)) for s in series] for name, make in ROWS.items()}
    return {
        f"{rows}, {reading}": [read(s) for s in scores]
        for reading, read in READINGS.items()
        for rows, scores in plain.items()
    }


def by_past(
    predict: Callable[[np.ndarray, int], np.ndarray], series: list[Series]
) -> dict[str, Scores]:
    """Return the scores of all series for three pasts and two readings."""
    plain = {name: [predict(s.values, past) for s in series] for name, past in PAST.items()}
    return {
        f"{name}, {reading}": [read(s) for s in scores]
        for reading, read in READINGS.items()
        for name, scores in plain.items()
    }


def gaussian(series: list[Series]) -> dict[str, Scores]:
    """Return NAB's windowed Gaussian, whose window was tuned on NAB."""
    return {"window 6400": [tails(s.values, 6400, 100) for s in series]}


def chance(series: list[Series]) -> dict[str, Scores]:
    """Return random scores, NAB's baseline."""
    rng = np.random.default_rng(42)
    return {"seed 42": [rng.random(len(s.values)) for s in series]}


DETECTORS: dict[str, Callable[[list[Series]], dict[str, Scores]]] = {
    "onkel: NoveltyDetector": lambda s: by_rows(ours, s),
    "onkel: KernelRegressor, next value": lambda s: by_past(forecast, s),
    "River: half-space trees": lambda s: by_rows(half_space, s),
    "River: one-class SVM (linear)": lambda s: by_rows(linear, s),
    "River: linear regression, next value": lambda s: by_past(river_forecast, s),
    "NAB: windowed Gaussian": gaussian,
    "random": chance,
    "null": lambda series: {"": [np.zeros(len(s.values)) for s in series]},
}


# -- scoring -----------------------------------------------------------------------------------


def nab(scores: Scores, marks: list[nab_score.Marks], profile: nab_score.Profile) -> float:
    """Return the score at the best threshold for all series."""
    return nab_score.normalised(nab_score.best_threshold(scores, marks, profile)[1], marks, profile)


def left_out(settings: dict[str, Scores], marks: list[nab_score.Marks]) -> float:
    """Return the standard score if setting and threshold come from the other series."""
    profile, total = nab_score.PROFILES["standard"], 0.0
    for i in range(len(marks)):
        rest = [m for j, m in enumerate(marks) if j != i]
        found = {}
        for name, scores in settings.items():
            others = [s for j, s in enumerate(scores) if j != i]
            found[name] = nab_score.best_threshold(others, rest, profile)
        best = max(found, key=lambda name: found[name][1])
        total += nab_score.raw_score(settings[best][i], found[best][0], marks[i], profile)
    return nab_score.normalised(total, marks, profile)


def line(name: str, settings: dict[str, Scores], marks: list[nab_score.Marks]) -> tuple[Row, str]:
    """Return a detector's line, and its best setting."""
    first, standard = next(iter(settings)), nab_score.PROFILES["standard"]
    best = max(settings, key=lambda key: nab(settings[key], marks, standard))
    row: Row = {"detector": name}
    row |= {key: nab(settings[first], marks, p) for key, p in nab_score.PROFILES.items()}
    row |= {"best": nab(settings[best], marks, standard), "setting": best}
    row |= {"left out": left_out(settings, marks), "settings": len(settings)}
    return row, best


def check(series: list[Series], marks: list[nab_score.Marks]) -> list[Row]:
    """Return the windowed Gaussian's raw scores at NAB's threshold beside those that NAB holds."""
    profile, rows = nab_score.PROFILES["standard"], []
    for s, mark, scores in zip(series, marks, gaussian(series)["window 6400"], strict=True):
        raw = nab_score.raw_score(np.round(scores, DIGITS), 1.0, mark, profile)
        there = PUBLISHED["windowedGaussian"][s.name]
        rows.append({"series": short(s.name), "here": f"{raw:.8f}", "published": f"{there:.8f}"})
        rows[-1]["difference"] = round(raw - there, DIGITS - 2) + 0.0  # no -0
    return rows


def short(name: str) -> str:
    """Return a series' name as tables show it."""
    return name.removesuffix("_system_failure").removesuffix("_misconfiguration").replace("_", " ")


def published(marks: list[nab_score.Marks]) -> list[Row]:
    """Return the scores that NAB holds of its own detectors, on the same scale."""
    profile, rows = nab_score.PROFILES["standard"], []
    for name, scores in PUBLISHED.items():
        score = nab_score.normalised(sum(scores.values()), marks, profile)
        rows.append({"detector": name, "standard": score})
        rows[-1] |= {short(series): raw for series, raw in scores.items()}
    return sorted(rows, key=lambda row: -row["standard"])


def draw(series: list[Series], scores: dict[str, Scores], limits: dict[str, float]) -> Any:
    """Draw two series, their windows, and where each detector alerts."""
    shown = [s for s in series if s.name in SHOWN] or series[:2]
    fig, axes = canvas(len(shown), 1, (10, 2.5 * len(shown)))
    for axis, s in zip(axes, shown, strict=False):
        at, i = np.arange(len(s.values)), series.index(s)
        axis.plot(at, s.values, color=SOFT, lw=0.5)
        for first, last in s.windows:
            axis.axvspan(first, last, color=ACCENT, alpha=0.15, lw=0)
        axis.axvspan(0, nab_score.probation(len(at)), color=INK, alpha=0.06, lw=0)
        low, high = s.values.min(), s.values.max()
        for k, (name, all_scores) in enumerate(scores.items()):
            rows = np.flatnonzero(all_scores[i] >= limits[name])
            rows = rows[rows >= nab_score.probation(len(at))]
            height = low - (0.1 + 0.12 * k) * (high - low)
            axis.plot(rows, np.full(len(rows), height), "|", ms=7,
                      color=ACCENT if name.startswith("onkel") else ALARM)  # fmt: skip
            axis.text(-0.005 * len(at), height, name, ha="right", va="center", fontsize=6)
        axis.set(title=s.name.replace("_", " "), xlabel="row", xlim=(0, len(at)), yticks=[])
    return fig


def run(quick: bool, data: Path | None) -> Study:
    """Run every detector on every series."""
    if data is None or not (has(data, FILE) and has(data, LABELS)):
        return absent(TITLE, FILE)
    series = load(data, quick)
    marks = [s.marks for s in series]
    lines, shown, limits = [], {}, {}
    for name, make in DETECTORS.items():
        settings = make(series)
        row, best = line(name, settings, marks)
        lines.append(row)
        if name not in ("random", "null"):
            shown[name] = settings[best]
            found = nab_score.best_threshold(settings[best], marks, nab_score.PROFILES["standard"])
            limits[name] = found[0]
    text = (__doc__ or "").split("\n\n", 1)[1].strip()
    tables = [("Rerun here", sorted(lines, key=lambda row: -row["left out"]))]
    if not quick:
        caption = "Published: NAB's own detectors on the same series, standard profile, raw scores"
        tables.append((caption, published(marks)))
    tables.append(("The windowed Gaussian at NAB's threshold, raw scores", check(series, marks)))
    caption = "Alerts at the best setting and threshold; blue: windows of labels, grey: probation."
    worst = max(abs(row["difference"]) for row in tables[-1][1])
    checks = [Check("windowed Gaussian, largest difference from NAB's files", worst, high=1e-10)]
    return Study(TITLE, text, tables, [(caption, draw(series, shown, limits))], checks)


if __name__ == "__main__":
    raise SystemExit(command("drift_nab", run, __doc__ or ""))
