"""What the benchmark of fleets works on: rows by key, models, and others' models in dicts.

Frozen, like all workloads: rows of eight numbers, each key with labels of its own sign, a fifth of
them wrong, so that windows of 32 terms are full after 80 rows of a key. Keys come by turns, or by
a Zipf law (the k-th most frequent one 1/k as often as the first; which is which is drawn).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import common  # first: it sets the number of BLAS threads
import numpy as np
from common import clock

from onkel import Detector, Fleet, KernelClassifier, NoveltyDetector
from onkel.expansions import Window

FEATURES, TERMS, BLOCK = 8, 32, 10_000
FILLED = 80
"""Rows of each key after which windows are full."""
SETTLED = 260
"""Rows of each key that River's models learn first: half-space trees judge nothing before 250."""
POOL = 200_000
"""Different rows; a block begins at a random one."""

MODELS: dict[str, Callable[[], Any]] = {
    "NoveltyDetector": lambda: NoveltyDetector(
        support=0.5, recent=TERMS, expansion=Window(terms=TERMS)
    ),
    "KernelClassifier": lambda: KernelClassifier(expansion=Window(terms=TERMS)),
    "Detector": Detector,
}
"""The first learns from half of the rows, and ranks among as many scores as it has terms."""

Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None]
"""Keys, rows, labels (of classifiers)."""


class Feed:
    """Blocks of rows of so many keys."""

    def __init__(self, model: str, dtype: str, keys: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.keys, self.at = keys, 0
        self.X = self.rng.normal(size=(POOL + BLOCK, FEATURES)).astype(dtype)
        self.wrong = np.where(self.rng.random(POOL + BLOCK) < 0.2, -1, 1)
        self.labelled = model == "KernelClassifier"
        self.order = self.rng.permutation(keys)
        shares = np.cumsum(1.0 / np.arange(1, keys + 1))
        self.shares = shares / shares[-1]

    def turns(self, count: int = BLOCK) -> Rows:
        """Return a block in which keys come by turns."""
        keys = (self.at + np.arange(count)) % self.keys
        self.at = (self.at + count) % self.keys
        return self._rows(keys)

    def zipf(self, count: int = BLOCK) -> Rows:
        """Return a block of keys by a Zipf law."""
        return self._rows(self.order[np.searchsorted(self.shares, self.rng.random(count))])

    def _rows(self, keys: np.ndarray) -> Rows:
        start = int(self.rng.integers(POOL))
        part = (start + np.arange(len(keys))) % len(self.X)
        X = self.X[part]
        if not self.labelled:
            return keys, X, None
        side = np.where(X[:, 0] > 0, 1, -1) * np.where(keys % 2, 1, -1)
        return keys, X, side * self.wrong[part]


def learn(fleet: Fleet, rows: Rows, output: str = "prediction") -> tuple[float, Any]:
    """Learn a block; return the seconds of the processor, and what was said of it."""
    began = clock()
    found = fleet.predict_then_learn(*rows, output=output)
    return clock() - began, found


def fill(fleet: Fleet, feed: Feed, each: int = FILLED) -> list[float]:
    """Learn so many rows of each key by turns; return the microseconds of a row, by pass."""
    spent = []
    for _ in range(each):
        counts = [min(BLOCK, feed.keys - a) for a in range(0, feed.keys, BLOCK)]
        spent.append(1e6 * sum(learn(fleet, feed.turns(n))[0] for n in counts) / feed.keys)
    return spent


def filled(model: str, dtype: str, keys: int, each: int = FILLED, **how: Any) -> tuple[Fleet, Feed]:
    """Return a fleet that has learned so many rows of each key, and what goes on from there."""
    fleet, feed = Fleet(MODELS[model](), **how), Feed(model, dtype, keys)
    step = max(BLOCK, keys)  # small fleets are filled by blocks of whole passes
    for _ in range(-(-each * keys // step)):
        for a in range(0, step, BLOCK):
            learn(fleet, feed.turns(min(BLOCK, step - a)))
    return fleet, feed


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# -- others ------------------------------------------------------------------------------------


class Singles:
    """A dict of single models of onkel's, by key."""

    def __init__(self, model: str) -> None:
        self.make, self.models = MODELS[model], dict[int, Any]()

    def model(self, key: int) -> Any:
        """Return a key's model."""
        found = self.models.get(key)
        if found is None:
            found = self.models[key] = self.make()
        return found

    def block(self, rows: Rows) -> float:
        """Learn a block, a call for each key; return seconds."""
        began = clock()
        keys, X, y = rows
        order = np.argsort(keys, kind="stable")
        for at in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
            more = () if y is None else (y[at],)
            self.model(int(keys[at[0]])).predict_then_learn(X[at], *more)
        return clock() - began

    def single(self, rows: Rows) -> float:
        """Judge and learn rows one by one; return seconds."""
        keys, X, y = rows[0].tolist(), [*rows[1]], None if rows[2] is None else rows[2].tolist()
        began = clock()
        for i, key in enumerate(keys):
            model = self.model(key)
            if model.__sklearn_is_fitted__():
                model.predict_one(X[i])
            model.learn_one(X[i], *(() if y is None else (y[i],)))
        return clock() - began


class Rivers:
    """A dict of River's models by key: half-space trees, or a scaled logistic regression."""

    def __init__(self, model: str) -> None:
        self.labelled, self.models = model == "KernelClassifier", dict[int, Any]()

    @property
    def name(self) -> str:
        """What they are."""
        trees = "River's HalfSpaceTrees"
        return "River's StandardScaler | LogisticRegression" if self.labelled else trees

    def make(self) -> Any:
        """Return one of them."""
        from river import anomaly, linear_model, preprocessing

        if self.labelled:
            return preprocessing.StandardScaler() | linear_model.LogisticRegression()
        return anomaly.HalfSpaceTrees(limits=dict.fromkeys(range(FEATURES), (-4.0, 4.0)), seed=0)

    def model(self, key: int) -> Any:
        """Return a key's model."""
        found = self.models.get(key)
        if found is None:
            found = self.models[key] = self.make()
        return found

    def single(self, rows: Rows) -> float:
        """Judge and learn rows one by one; return seconds."""
        keys, y = rows[0].tolist(), None if rows[2] is None else (rows[2] > 0).tolist()
        dicts = [dict(enumerate(row)) for row in rows[1].tolist()]
        began = clock()
        for i, key in enumerate(keys):
            model = self.model(key)
            if y is None:
                model.score_one(dicts[i])
                model.learn_one(dicts[i])
            else:
                model.predict_one(dicts[i])
                model.learn_one(dicts[i], y[i])
        return clock() - began


def has_river() -> bool:
    """Whether River is installed."""
    try:
        import river  # noqa: F401
    except ImportError:
        return False
    return True


def blocks(feed: Feed, law: str, count: int) -> Iterator[Rows]:
    """Return blocks by one of the laws: "turns" or "zipf"."""
    return (getattr(feed, law)() for _ in range(count))


__all__ = [
    "BLOCK", "FEATURES", "FILLED", "MODELS", "SETTLED", "TERMS", "Feed", "Rivers", "Singles",
    "blocks", "common", "fill", "filled", "has_river", "learn", "resident",
]  # fmt: skip
