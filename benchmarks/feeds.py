"""The streams on which onkel and its peers meet: some made by onkel.streams, the rest from files.

Files are looked for in the folder that ONKEL_DATA names; what is not there is left out. Peers get
rows standardised by running mean and spread, each row by those up to and including it, exactly as
River's StandardScaler does; that is done beforehand and costs them nothing. onkel gets raw rows,
in float32, and standardises them itself.
"""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from onkel import streams


@dataclass
class Feed:
    """Rows in time order, with labels 0, 1, ... (a detector's: 1 is an anomaly)."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray = field(init=False)
    """The rows, standardised."""

    def __post_init__(self) -> None:
        self.X, self.y = self.X.astype(np.float32), self.y.astype(np.int64)
        self.Z = standardised(self.X)

    def head(self, rows: int | None) -> Feed:
        """Return the first rows; None: all."""
        return Feed(self.X[:rows], self.y[:rows])

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.y.max()) + 1

    @property
    def d(self) -> int:
        """Number of features."""
        return self.X.shape[1]

    @cached_property
    def dicts(self) -> list[dict[int, float]]:
        """The standardised rows as River takes them."""
        return [dict(enumerate(row)) for row in self.Z.tolist()]

    @cached_property
    def texts(self) -> list[str]:
        """The standardised rows as Vowpal Wabbit takes them."""
        return [" ".join(f"f{j}:{v:.6g}" for j, v in enumerate(row)) for row in self.Z.tolist()]

    @cached_property
    def labels(self) -> list[int]:
        """The labels as plain numbers."""
        return self.y.tolist()


def standardised(X: np.ndarray) -> np.ndarray:
    """Return each row less the mean so far, over the spread so far; 0 where there is none."""
    shifted = X.astype(float) - X[0]
    n = np.arange(1, len(X) + 1)[:, None]
    mean = np.cumsum(shifted, axis=0) / n
    variance = np.maximum(np.cumsum(shifted**2, axis=0) / n - mean**2, 0)
    spread = np.sqrt(np.where(variance > 1e-12 * (1 + mean**2), variance, np.inf))
    return (shifted - mean) / spread


# -- classification ----------------------------------------------------------------------------


def drift() -> Feed:
    """Two classes, each four Gaussians in the plane that move a little every ten rows."""
    made = streams.drifting_classes(20_000, seed=0, components=4, gap=0.5)
    return Feed(made.X, made.y > 0)


def switch() -> Feed:
    """Two classes, each two Gaussians in the plane that are drawn anew every 1000 rows."""
    made = streams.switching_classes(20_000, seed=0)
    return Feed(made.X, made.y > 0)


def plant() -> Feed:
    """Six sensors, and whether the product is within a tolerance that moves and jumps."""
    made = streams.sensors(20_000, seed=0)
    return Feed(made.X, made.y > 0)


def elec2() -> Feed:
    """Electricity prices, up or down."""
    return Feed(*_arrays("elec2.npz", "X", "y"))


def ijcnn1() -> Feed:
    """Engine misfires, one in ten."""
    return Feed(*_arrays("ijcnn1.npz", "X_train", "y_train"))


def usps() -> Feed:
    """Handwritten digits, ten classes, 256 features."""
    return Feed(*_arrays("usps.npz", "X_train", "y_train"))


def _folder() -> Path:
    return Path(os.environ.get("ONKEL_DATA", ""))


def _arrays(file: str, rows: str, labels: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(_folder() / file) as arrays:
        X, y = arrays[rows], arrays[labels]
    return X, np.unique(y, return_inverse=True)[1]


CLASSES: dict[str, tuple[Any, str]] = {
    "drift": (drift, ""),
    "switch": (switch, ""),
    "plant": (plant, ""),
    "elec2": (elec2, "elec2.npz"),
    "ijcnn1": (ijcnn1, "ijcnn1.npz"),
    "usps": (usps, "usps.npz"),
}
"""Name of a stream: how it is made, and the file that it needs."""


# -- novelty -----------------------------------------------------------------------------------


def faults() -> list[Feed]:
    """Six sensors and twelve faults."""
    made = streams.sensors(20_000, seed=0)
    return [Feed(made.X, made.faulty)]


def skab(folder: Path | None = None) -> list[Feed]:
    """Water circulation: 16 experiments in which a valve is closed, each a stream of its own."""
    path = (folder or _folder()) / "skab_valve1.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    parts = [list(group) for _, group in groupby(rows, key=lambda row: row[0])]
    arrays = [np.array([row[2:11] for row in part], float) for part in parts]
    return [Feed(part[:, :8], part[:, 8]) for part in arrays]


NOVELTY: dict[str, tuple[Any, str]] = {
    "faults": (faults, ""),
    "skab": (skab, "skab_valve1.csv.gz"),
}


def available(known: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    """Return the streams whose files are there, and say which are not."""
    found = {}
    for name, (make, file) in known.items():
        if file and not (os.environ.get("ONKEL_DATA") and (_folder() / file).exists()):
            print(f"{name}: left out, ONKEL_DATA has no {file}")
        else:
            found[name] = make
    return found
