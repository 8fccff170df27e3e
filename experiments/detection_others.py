"""Streaming detectors of other packages, as they come: River, PySAD, rrcf, stumpy, CapyMOA.

Packages are looked for when asked for; which are absent is said. Rows are standardised by running
moments, each by those of the rows before it (its block of 64 rows by those before the block), where
a detector has a scale; River's half-space trees get River's MinMaxScaler, as its pages advise. They
have their own defaults and seed 0, save that exact STORM looks at the last 1000 rows, not 10 000.
KitNET says nothing of the first 1100 rows: short streams do it no justice. rrcf's score of a row
is what it displaces once inserted, so that it has learned the row, the only contender that has.
What learns row by row in Python is slow: see `SLOW` for what is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

if __package__:
    from .detection_peers import Detect, moments
else:
    from detection_peers import Detect, moments

SHINGLE = 16
"""Values of a series of one value that rrcf sees at a time, as its pages do."""
SUBSEQUENCE = 48


def standardised(X: np.ndarray) -> np.ndarray:
    """Return rows by the moments of those before; the first 16, as there are none, as zeros."""
    Z = np.zeros_like(X)
    for a, b, mean, spread in moments(X):
        Z[a:b] = np.clip((X[a:b] - mean) / spread, -1e3, 1e3)
    return Z


# -- row by row ------------------------------------------------------------------------------------


def river_trees(X: np.ndarray) -> np.ndarray:
    """River's half-space trees behind its MinMaxScaler."""
    from river import anomaly, preprocessing

    model = preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=0)
    found = []
    for row in X.tolist():
        x = dict(enumerate(row))
        found.append(model.score_one(x))
        model.learn_one(x)
    return np.array(found, float)


def pysad(make: Callable[[Any, int], Any]) -> Detect:
    """Return one of PySAD's models; score_partial, then fit_partial."""

    def detect(X: np.ndarray) -> np.ndarray:
        from pysad import models

        Z = standardised(X)
        model, found = make(models, X.shape[1]), np.zeros(len(X))
        for t, z in enumerate(Z):
            found[t] = np.ravel(model.score_partial(z))[0] if t > 1 else 0.0
            model.fit_partial(z)
        return found

    return detect


def _rs_hash(models: Any, d: int) -> Any:
    return models.RSHash(np.full(d, -4.0), np.full(d, 4.0), random_state=0)


def cut_forest(X: np.ndarray, trees: int = 40, size: int = 256) -> np.ndarray:
    """Rrcf: 40 trees over the last 256 rows, codisplacement; one value becomes 16 in a row."""
    import rrcf

    Z = standardised(X)
    if Z.shape[1] == 1:
        Z = np.column_stack([np.roll(Z[:, 0], lag) for lag in range(SHINGLE)])
        Z[:SHINGLE] = 0.0
    forest = [rrcf.RCTree(random_state=i) for i in range(trees)]
    found = np.zeros(len(Z))
    for t, z in enumerate(Z):
        for tree in forest:
            if t >= size:
                tree.forget_point(t - size)
            tree.insert_point(z, index=t)
            found[t] += tree.codisp(t) / trees
    return found


# -- in blocks -------------------------------------------------------------------------------------


def online_forest(X: np.ndarray, block: int = 64) -> np.ndarray:
    """Online Isolation Forest (CapyMOA's, by its authors), 64 rows at a time."""
    from capymoa.anomaly import OnlineIsolationForest

    model, found = OnlineIsolationForest(random_seed=0), np.zeros(len(X))
    for a in range(0, len(X), block):
        rows = X[a : a + block]
        found[a : a + block] = model._score_batch(rows) if a else 0.0
        model._learn_batch(rows)
    return found


def profile(X: np.ndarray) -> np.ndarray:
    """Stumpy's online matrix profile: distance of the last 48 values to their nearest before."""
    import stumpy

    values = X[:, 0] + 1e-9 * np.random.default_rng(0).normal(size=len(X))
    first = 2 * SUBSEQUENCE
    stream = stumpy.stumpi(values[:first], SUBSEQUENCE, egress=False)
    found = np.zeros(len(X))
    for t in range(first, len(X)):
        stream.update(values[t])
        found[t] = stream.left_P_[-1]
    return found


OTHERS: dict[str, tuple[str, Detect]] = {
    "River: half-space trees": ("river", river_trees),
    "PySAD: LODA": ("pysad", pysad(lambda m, d: m.LODA(random_state=0))),
    "PySAD: xStream": ("pysad", pysad(lambda m, d: m.xStream(random_state=0))),
    "PySAD: RS-Hash": ("pysad", pysad(_rs_hash)),
    "PySAD: exact STORM": ("pysad", pysad(lambda m, d: m.ExactStorm(window_size=1000))),
    "PySAD: KitNET": ("pysad", pysad(lambda m, d: m.KitNet(random_state=0))),
    "CapyMOA: Online Isolation Forest": ("capymoa", online_forest),
    "rrcf": ("rrcf", cut_forest),
    "stumpy: stumpi": ("stumpy", profile),
}

SLOW = {
    "PySAD: xStream": ("asd", "nab", "faults", "generated", "smap", "smd"),
    "PySAD: RS-Hash": ("smap", "smd"),
    "PySAD: exact STORM": ("smap", "smd"),
    "rrcf": ("tables", "asd", "batadal", "digits", "nab", "faults", "generated", "smap", "smd"),
}
"""Contenders, and the sets they are left out of: up to ten milliseconds for every row."""
ONE_VALUE = (
    "onkel detect", "stumpy: stumpi", "lagged neighbours 20000", "lagged Mahalanobis 20000",
)  # fmt: skip
"""Contenders for series of one value only."""


def left_out(contender: str, name: str) -> bool:
    """Whether a contender is left out of a set."""
    return name in SLOW.get(contender, ()) or (contender in ONE_VALUE and name != "nab")


def absent(contender: str) -> bool:
    """Whether a contender's package is not there."""
    return contender in OTHERS and find_spec(OTHERS[contender][0]) is None
