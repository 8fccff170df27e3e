"""Keys of one structure that begin one by one, and what a fleet that shares says of them."""

from __future__ import annotations

import numpy as np

from onkel import Detector

ESTIMATOR = Detector(nu=0.05, terms=60, warmup=90, recent=30)


def plants(rng, keys, rows, d=3, faults=0.0):
    """Keys of one structure, each with means and spreads of its own, that begin one by one."""
    mix = np.eye(d) + 0.5 * rng.normal(size=(d, d))
    middle, spread = 5 * rng.normal(size=(keys, d)), np.exp(0.5 * rng.normal(size=(keys, d)))
    began = np.concatenate([np.zeros(keys // 10), rng.uniform(0, 3 * rows, keys - keys // 10)])
    when = (began[:, None] + np.arange(rows) + rng.random((keys, rows))).ravel()
    X = rng.standard_t(8, size=(keys, rows, d)) @ mix
    fault = rng.random((keys, rows)) < faults
    X[fault] += (
        8 * rng.choice([-1, 1], size=(fault.sum(), d)) * np.eye(d)[rng.integers(0, d, fault.sum())]
    )
    X = X * spread[:, None] + middle[:, None]
    order = np.argsort(when)
    number, age = np.divmod(np.arange(keys * rows), rows)
    return number[order], age[order], X.reshape(-1, d)[order], fault.ravel()[order]


def judged(fleet, keys, X, sizes, **how):
    """All verdicts, of calls of these sizes by turns."""
    found, at, turn = [], 0, 0
    while at < len(X):
        stop = at + sizes[turn % len(sizes)]
        given = {name: v[at:stop] for name, v in how.items()}
        asked = {"output": "verdict", **given}
        found.append(fleet.predict_then_learn(keys[at:stop], X[at:stop], **asked))
        at, turn = stop, turn + 1
    return np.concatenate(found)
