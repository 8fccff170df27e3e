"""The streams of the front-door study: what each is, in which order, and who chose by it.

All are run from their first row on, predict then learn. Files lie in the folder that ONKEL_DATA
names; River's own sets and generators need River alone.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from . import drift_classes, drift_texts, harness
    from .self_tuning import embedded
else:
    import drift_classes
    import drift_texts
    import harness
    from self_tuning import embedded

from feeds import standardised

CLASSES, NUMBERS, TEXTS = "classes", "numbers", "texts"
_CLASS_SETS = (
    "elec2", "spambase", "svmguide3", "ijcnn1", "cod_rna", "a9a", "usps", "airlines",
    "moving_squares", "sea", "souza_2cdt", "outdoor", "luxembourg", "phishing", "adult",
    "mushroom", "River: Bananas", "River: Phishing", "River: Agrawal", "River: hyperplane",
    "River: moving bases", "River: LED",
)  # fmt: skip
_NUMBER_SETS = (
    "kin8nm", "kin8nm, 24 idle", "cpusmall", "bike_hour", "lorenz", "mg30", "laser",
    "River: ChickWeights", "River: TrumpApproval",
)  # fmt: skip
CHOSEN_ON: dict[str, str] = {
    **dict.fromkeys((*_CLASS_SETS, *_NUMBER_SETS), "yes"),
    "River: Friedman": "another seed", "River: SEA": "as sea",
}  # fmt: skip
"""Streams that had a part in choosing defaults or banks, or are made of one that had; edit here."""
FIRST = 60_000
"""At most so many rows of a long stream."""


@dataclass
class Stream:
    """Rows in order, each with a label 0, 1, ... or a number; rows may be texts."""

    name: str
    task: str
    X: Any
    y: np.ndarray
    about: str = ""
    classes: int = field(init=False)

    def __post_init__(self) -> None:
        self.classes = 0
        if self.task != NUMBERS:
            self.y = np.unique(self.y, return_inverse=True)[1].astype(np.int64)
            self.classes = int(self.y.max()) + 1
        else:
            self.y = np.asarray(self.y, float)

    @property
    def d(self) -> int | None:
        """Number of features; None for texts."""
        return None if self.task == TEXTS else int(self.X.shape[1])

    @property
    def chosen(self) -> str:
        """Whether defaults were chosen by it: "yes", "no", or by what it is made of."""
        return CHOSEN_ON.get(self.name, "no")

    @cached_property
    def Z(self) -> np.ndarray:
        """The rows standardised by running moments, exactly as River's StandardScaler does."""
        return standardised(self.X)

    def head(self, rows: int) -> Stream:
        """Return the first rows."""
        return Stream(self.name, self.task, self.X[:rows], self.y[:rows], self.about)


# -- from files ------------------------------------------------------------------------------------


def _file(data: Path, name: str, shuffle: bool = False) -> tuple[np.ndarray, np.ndarray]:
    X, y = harness.load(data, name, shuffle)
    return X[:FIRST].astype(np.float32), y[:FIRST]


def in_order(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a file's rows as they stand."""
    return _file(data, name)


def shuffled(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a file's rows in the order of seed 0: they are sorted by label, or nearly."""
    return _file(data, name, True)


def coded(rows: list[list[str]]) -> np.ndarray:
    """Return a table with every column of words as one column of 0 and 1 for each of its words.

    >>> coded([["3", "b"], ["4", "a"]]).tolist()
    [[3.0, 0.0, 1.0], [4.0, 1.0, 0.0]]
    """
    parts: list[np.ndarray] = []
    for column in zip(*rows, strict=True):
        try:
            parts.append(np.array(column, float)[:, None])
        except ValueError:
            words = np.unique(column)
            parts.append((np.array(column)[:, None] == words).astype(float))
    return np.concatenate(parts, axis=1).astype(np.float32)


def _table(data: Path, name: str) -> tuple[list[str], list[list[str]]]:
    text = gzip.decompress((data / f"{name}.csv.gz").read_bytes()).decode()
    head, *rows = csv.reader(text.splitlines())
    return head, rows


def adult(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return ages, jobs and the like, and the income; without the part and the survey's weight."""
    head, rows = _table(data, name)
    kept = [i for i, word in enumerate(head) if word not in ("part", "fnlwgt", "income")]
    return coded([[row[i] for i in kept] for row in rows]), np.array([row[-1] for row in rows])


def mushroom(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return 22 columns of letters, and whether the mushroom can be eaten."""
    _, rows = _table(data, name)
    return coded([row[1:] for row in rows]), np.array([row[0] for row in rows])


def delayed(length: int, key: str = "x", target: str = "") -> Callable[..., Any]:
    """Return a series as rows of its last values, the next one (or another series) as target."""

    def load(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
        with np.load(data / f"{FILES.get(name, name)}.npz") as arrays:
            X, y = embedded(arrays[key], length)
            return (X, arrays[target].astype(float).ravel()[:-1]) if target else (X, y)

    return load


FILES = {
    "lorenz": "kafbox_lorenz", "mg30": "kafbox_mg30", "mimo": "kafbox_mimo",
    "laser": "santafe_laser", "kin8nm, 24 idle": "kin8nm",
}  # fmt: skip


def idle(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return kin8nm with 24 columns of noise beside its 8."""
    X, y = _file(data, FILES[name])
    noise = np.random.default_rng(0).normal(size=(len(X), 24))
    return np.column_stack([X, noise]).astype(np.float32), y


def anomalies(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a table of ADBench, shuffled, with its two labels."""
    with np.load(data / "adbench_dev.npz") as arrays:
        key = name.removeprefix("ADBench: ")
        X, y = arrays[f"{key}_X"], arrays[f"{key}_y"]
    order = np.random.default_rng(0).permutation(len(X))[:20_000]
    return X[order].astype(np.float32), y[order]


def price(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return elec2's price of New South Wales, from the other columns but that of the class."""
    with np.load(data / "elec2.npz") as arrays:
        names, X = arrays["feature_names"].tolist(), arrays["X"][:FIRST]
    at = names.index("nswprice")
    return np.delete(X, at, axis=1).astype(np.float32), X[:, at].astype(float)


def tank(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the first level of a water network's tanks, from all other readings of the hour."""
    with np.load(data / "batadal.npz") as arrays:
        X = arrays["X_train1"]
    return X[:, 1:].astype(np.float32), X[:, 0].astype(float)


# -- made here, and River's ------------------------------------------------------------------------


def terrain(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a forest in seven kinds, region by region: ten numbers, 4 + 40 columns of 0 and 1.

    Made here, after the shape of the well-known covertype: height, slope, distances and shades; in
    which of four regions, on which of forty soils. Regions come one after another, in patches in
    which height and soil wander; the kind follows from height, soil and region, not surely.
    """
    rng = np.random.default_rng(seed)
    likes = rng.normal(size=(40, 7)) * 1.5
    best = np.linspace(-1.8, 1.8, 7)[rng.permutation(7)]
    common = np.array([2.2, 2.6, 0.8, -0.6, -0.2, 0.2, 0.4])
    shift = rng.normal(size=(4, 7)) * 0.7
    X, y = np.zeros((rows, 54), np.float32), np.zeros(rows, int)
    height, soil = 0.0, 0
    for t in range(rows):
        region = (16 * t // rows) % 4
        if rng.random() < 0.005:  # another patch
            height, soil = rng.normal(), 10 * region + int(rng.integers(10))
        height = 0.98 * height + 0.12 * rng.normal()
        score = common + likes[soil] + shift[region] - 1.5 * (height - best) ** 2
        y[t] = int(np.argmax(score + rng.gumbel(size=7)))
        slope = abs(rng.normal())
        numbers = [2800 + 300 * height, 180 + 100 * rng.normal(), 8 * slope]
        numbers += list(100 * rng.gamma(2, size=3)) + list(220 + 20 * rng.normal(size=3) - slope)
        X[t, :9], X[t, 9] = numbers, 1500 * rng.gamma(1.5)
        X[t, 10 + region] = X[t, 14 + soil] = 1
    return X, y


def _river(name: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def load() -> tuple[np.ndarray, np.ndarray]:
        from river import datasets

        return _arrays(getattr(datasets, name)())

    return load


def _arrays(pairs: Iterable[tuple[dict[Any, Any], Any]]) -> tuple[np.ndarray, np.ndarray]:
    rows = list(pairs)
    names = list(rows[0][0])
    X = np.array([[float(x[name]) for name in names] for x, _ in rows])
    return X, np.array([y for _, y in rows])


def friedman() -> tuple[np.ndarray, np.ndarray]:
    """Return Friedman's function of five of ten inputs, exchanged at two places for ever more."""
    from river.datasets import synth

    made = synth.FriedmanDrift(drift_type="gra", position=(4000, 8000), seed=0)
    return _arrays(islice(made, 12_000))


def _generated(name: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def load() -> tuple[np.ndarray, np.ndarray]:
        feed = drift_classes.GENERATORS[name](drift_classes.ROWS[False])
        return feed.X, feed.y

    return load


# -- all of them -----------------------------------------------------------------------------------

Loader = Callable[..., tuple[Any, Any]]
FROM_FILES: dict[str, tuple[str, Loader, str]] = {
    "elec2": (CLASSES, in_order, "electricity prices, up or down"),
    "airlines": (CLASSES, in_order, "flights, late or not, codes as numbers; the first 60,000"),
    "moving_squares": (CLASSES, in_order, "four squares that move; the first 60,000"),
    "sea": (CLASSES, in_order, "a limit that jumps three times, 9.5 % wrong labels"),
    "souza_2cdt": (CLASSES, in_order, "two classes that move along the diagonal"),
    "outdoor": (CLASSES, in_order, "objects in a garden, runs of ten of the same"),
    "luxembourg": (CLASSES, in_order, "answers to a survey, over years"),
    "phishing": (CLASSES, in_order, "web sites, 46 columns of 0 and 1"),
    "adult": (CLASSES, adult, "incomes, words as columns of 0 and 1"),
    "mushroom": (CLASSES, mushroom, "letters as columns of 0 and 1"),
    "usps": (CLASSES, in_order, "handwritten digits"),
    "a9a": (CLASSES, shuffled, "incomes, all columns 0 and 1; shuffled"),
    "cod_rna": (CLASSES, shuffled, "pairs of sequences; shuffled"),
    "ijcnn1": (CLASSES, shuffled, "engine misfires; shuffled"),
    "spambase": (CLASSES, shuffled, "e-mail; shuffled"),
    "svmguide3": (CLASSES, shuffled, "vehicles; shuffled"),
    **{f"ADBench: {key}": (CLASSES, anomalies, "odd rows or usual ones; shuffled")
       for key in ("PageBlocks", "mammography", "satellite", "Waveform", "yeast", "skin", "musk",
                   "Pima", "ALOI", "donors")},
    "elec2's price": (NUMBERS, price, "a price, from demand, transfers and another price"),
    "tank level": (NUMBERS, tank, "a tank of a water network, from its other readings"),
    "bike_hour": (NUMBERS, in_order, "bicycles rented in an hour"),
    "cpusmall": (NUMBERS, in_order, "per cent of a processor's time"),
    "kin8nm": (NUMBERS, in_order, "a robot arm's distance from a target"),
    "kin8nm, 24 idle": (NUMBERS, idle, "the same, and 24 inputs of noise"),
    "laser": (NUMBERS, delayed(8, "y"), "Santa Fe laser, from its last 8 values"),
    "lorenz": (NUMBERS, delayed(6), "Lorenz, from its last 6 values"),
    "mg30": (NUMBERS, delayed(11), "Mackey-Glass 30, from its last 11 values"),
    "mimo": (NUMBERS, delayed(4, "x", "y"), "a test bed's output, from its last 4 inputs"),
}  # fmt: skip
MADE: dict[str, tuple[str, Loader, str]] = {
    **{f"River: {name}": (CLASSES, _generated(name), f"generator: {make.__doc__}")
       for name, make in drift_classes.GENERATORS.items()},
    "River: Bananas": (CLASSES, _river("Bananas"), "a data set that comes with River"),
    "River: Phishing": (CLASSES, _river("Phishing"), "a data set that comes with River"),
    "River: ImageSegments": (CLASSES, _river("ImageSegments"), "a data set that comes with River"),
    "terrain": (CLASSES, lambda: terrain(30_000), "made here: forests region by region"),
    "River: ChickWeights": (NUMBERS, _river("ChickWeights"), "a data set that comes with River"),
    "River: TrumpApproval": (NUMBERS, _river("TrumpApproval"), "a data set that comes with River"),
    "River: Friedman": (NUMBERS, friedman, "generator: five of ten inputs, exchanged twice"),
}  # fmt: skip
TEXT = "sms_spam"


def names() -> list[str]:
    """Return every stream's name."""
    return [*FROM_FILES, TEXT, *MADE]


def make(name: str, data: Path | None) -> Stream | None:
    """Return a stream; None where its file is not there."""
    if name in MADE:
        task, load, about = MADE[name]
        return Stream(name, task, *load(), about)
    if data is None:
        return None
    if name == TEXT:
        texts, spam = drift_texts.load(data)
        return Stream(name, TEXTS, texts, spam, "short messages, spam or not, as texts")
    task, load, about = FROM_FILES[name]
    return Stream(name, task, *load(data, name), about)
