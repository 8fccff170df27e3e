"""The streams on which detectors are studied: rows in order, which are anomalies, what is measured.

Every row is judged before it is learned; a stream is measured from its row `start` on. Means are
over groups, so that three labellings of the same images count as one. The groups of a set, sorted
by name, go in turn to two halves: settings may be chosen on the first ("choose"), and are shown on
the second ("shown"). `batadal`, one stream alone, and `generated` are
shown only.

- `tables`: ADBench's, shuffled by seed 0, at most 3000 rows each, measured from a fifth on; those
  with fewer than five anomalies there, and InternetAds (1555 columns), are left out.
- `smd`, `asd`, `smap`: servers and a satellite; a channel's training part, then its test part, as
  one stream, measured on the test part.
- `batadal`: a water network under attack; the three parts as one stream, the first not measured.
- `skab`: 16 experiments in which a valve is closed, each a stream, measured from row 200 on.
- `nab`: 24 series of one value, measured after NAB's probation (15 % of the rows, of 5000 at most).
  Five hold no anomaly: they count for alerts and NAB's score, not for AUC.
- `digits`: USPS, one digit the usual one, 3 % of the rows others, measured from a fifth on.
- `faults`: onkel.streams.sensors, 20 000 rows with 12 faults each, measured from a twentieth on.
- `generated`: see detection_generated.py, measured from a fifth on.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np

from onkel import streams

if __package__:
    from . import detection_generated, nab_score
else:
    import detection_generated
    import nab_score

ROWS = 3000
"""Of a table, at most."""
FEWEST = 5
"""Anomalies, where a table is measured."""
COLUMNS = 200
"""Of a table, at most."""
SAME = {"landsat": "statlog", "satellite": "statlog", "satimage_2": "statlog"}
"""Tables that are the same rows."""
NAB_FILES = ("nab_realKnownCause", "nab_ad_artificial")
CHOOSE, SHOWN = "choose", "shown"


@dataclass(frozen=True)
class Stream:
    """Rows in time order."""

    name: str
    X: np.ndarray
    y: np.ndarray
    """1: an anomaly."""
    start: int
    """The first row that is measured."""
    group: str = ""
    """Streams of one group count as one; without a name, a group of its own."""
    half: str = SHOWN
    windows: tuple[tuple[int, int], ...] = ()
    """NAB's, as first and last rows."""
    time: np.ndarray | None = None
    """In seconds, where rows have times."""

    @property
    def both(self) -> bool:
        """Whether there are usual rows and anomalies where it is measured."""
        return 0 < int(self.y[self.start :].sum()) < len(self.y) - self.start


def stream(name: str, X: np.ndarray, y: np.ndarray, start: int, group: str = "") -> Stream:
    """Return a stream of float64 rows."""
    X = np.ascontiguousarray(X, np.float64)
    return Stream(name, X.reshape(len(X), -1), np.asarray(y).astype(np.int64), start, group or name)


def halved(found: list[Stream]) -> list[Stream]:
    """Return the streams with their halves: groups by name, in turn."""
    groups = sorted({s.group for s in found})
    halves = {group: (CHOOSE, SHOWN)[i % 2] for i, group in enumerate(groups)}
    return [replace(s, half=halves[s.group]) for s in found]


# -- files -----------------------------------------------------------------------------------------


def tables(data: Path) -> list[Stream]:
    """Return the tables of anomalies."""
    found = []
    with np.load(data / "adbench_dev.npz") as files:
        for name in sorted(map(str, files["names"])):
            y = files[f"{name}_y"]
            order = np.random.default_rng(0).permutation(len(y))[:ROWS]
            X, y = files[f"{name}_X"][order], y[order]
            made = stream(name, X, y, len(y) // 5, SAME.get(name, name))
            if made.y[made.start :].sum() >= FEWEST and made.X.shape[1] <= COLUMNS:
                found.append(made)
    return found


def channels(data: Path, file: str) -> list[Stream]:
    """Return channels that have a training and a test part."""
    found = []
    with np.load(data / f"{file}.npz") as files:
        for name in sorted(map(str, files["names"])):
            train, test, y = (files[f"{name}_{part}"] for part in ("train", "test", "y"))
            truth = np.append(np.zeros(len(train), int), y)
            found.append(stream(name, np.concatenate([train, test]), truth, len(train)))
    return found


def batadal(data: Path) -> list[Stream]:
    """Return the water network as one stream."""
    with np.load(data / "batadal.npz") as files:
        parts = [files[f"X_{part}"] for part in ("train1", "train2", "test")]
        quiet = np.zeros(len(parts[0]), int)
        y = np.concatenate([quiet, files["y_train2"], files["y_test"]])
    return [stream("batadal", np.concatenate(parts), y, len(quiet))]


def skab(data: Path) -> list[Stream]:
    """Return the experiments with the valve."""
    found = []
    for name, part in _groups(data / "skab_valve1.csv.gz", 0):
        rows = np.array([row[2:11] for row in part], float)
        found.append(stream(name.replace("/", "-"), rows[:, :8], rows[:, 8], 200))
    return found


def _groups(path: Path, key: int) -> list[tuple[str, list[list[str]]]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    return [(name, list(part)) for name, part in groupby(rows, key=lambda row: row[key])]


def nab(data: Path) -> list[Stream]:
    """Return the series of NAB."""
    found = []
    for file in NAB_FILES:
        limits = json.loads((data / f"{file}_labels.json").read_text())["windows"]
        for path, part in _groups(data / f"{file}.csv.gz", 0):
            times = np.array([row[1] for row in part], "datetime64[s]")
            values = np.array([row[2] for row in part], float)
            windows = tuple(_inside(times, *pair) for pair in limits[f"{path}.csv"])
            y = np.zeros(len(values), int)
            for first, last in windows:
                y[first : last + 1] = 1
            made = stream(path.rpartition("/")[2], values, y, nab_score.probation(len(y)))
            seconds = times.astype(np.float64)
            found.append(replace(made, windows=windows, time=seconds))
    return found


def _inside(times: np.ndarray, first: str, last: str) -> tuple[int, int]:
    limits = np.datetime64(first, "s"), np.datetime64(last, "s")
    rows = np.flatnonzero((times >= limits[0]) & (times <= limits[1]))
    return int(rows[0]), int(rows[-1])


def digits(data: Path) -> list[Stream]:
    """Return a stream for each digit: it, and a few of the others."""
    with np.load(data / "usps.npz") as files:
        X = np.concatenate([files["X_train"], files["X_test"]])
        label = np.append(files["y_train"], files["y_test"])
    found = []
    for digit in range(10):
        rng = np.random.default_rng(digit)
        usual, rest = np.flatnonzero(label == digit), np.flatnonzero(label != digit)
        odd = rng.choice(rest, round(0.03 / 0.97 * len(usual)), replace=False)
        rows = rng.permutation(np.append(usual, odd))
        found.append(stream(f"digit-{digit}", X[rows], label[rows] != digit, len(rows) // 5))
    return found


def faults(data: Path | None = None) -> list[Stream]:
    """Return plants whose sensors fail."""
    found = []
    for seed in range(100, 106):
        plant = streams.sensors(20_000, seed=seed, faults=12)
        found.append(stream(f"plant-{seed}", plant.X, plant.faulty, 1000))
    return found


def generated(data: Path | None = None) -> list[Stream]:
    """Return what is drawn from known laws."""
    return [
        stream(f"{kind}-{seed}", X, y, len(y) // 5, kind)
        for kind, make in sorted(detection_generated.KINDS.items())
        for seed in range(2)
        for X, y in [make(np.random.default_rng(seed))]
    ]


SETS: dict[str, tuple[Callable[[Path], list[Stream]], tuple[str, ...]]] = {
    "tables": (tables, ("adbench_dev.npz",)),
    "skab": (skab, ("skab_valve1.csv.gz",)),
    "asd": (lambda data: channels(data, "asd_dev"), ("asd_dev.npz",)),
    "batadal": (batadal, ("batadal.npz",)),
    "digits": (digits, ("usps.npz",)),
    "nab": (nab, tuple(f"{f}{e}" for f in NAB_FILES for e in (".csv.gz", "_labels.json"))),
    "faults": (faults, ()),
    "generated": (generated, ()),
    "smap": (lambda data: channels(data, "smap"), ("smap.npz",)),
    "smd": (lambda data: channels(data, "smd_dev"), ("smd_dev.npz",)),
}
"""What makes a set, and the files that it needs."""
UNORDERED = ("tables", "digits")
"""Sets whose rows are shuffled: measures over ranges of rows mean nothing there."""
ALL_SHOWN = ("batadal", "generated")


def load(name: str, data: Path | None, quick: bool = False) -> list[Stream]:
    """Return the streams of a set (in a quick run every fifth); none where a file is missing."""
    make, files = SETS[name]
    if files and (data is None or not all((data / file).exists() for file in files)):
        print(f"{name}: left out, ONKEL_DATA has no {' and '.join(files)}")
        return []
    found = make(data or Path())
    found = found if name in ALL_SHOWN else halved(found)
    return found[::5] if quick else found
