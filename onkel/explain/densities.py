"""Why a row is rare: what its rarity would be, had one of its features agreed with the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density_table import Count, Level
from onkel.explain.effects import Effects, quantiles, sharpened
from onkel.explain.outcome import Term

Array = NDArray[Any]

MOST = 64
"""Of more features than this, only those farthest from their means are tried."""


def likeness(learner: Any, row: Array) -> tuple[Array, float]:
    """Return, of every term and feature, how far it is from the row in spreads; and the width."""
    n, state = learner.count(Count.SIZE), learner.state
    scale = np.where(state.scale[0] > 0, state.scale[0], 1.0)
    with np.errstate(over="ignore"):
        gaps = np.abs((state.raw[0, :n] - row) / scale)
    return np.minimum(gaps, 1e4), learner.level(Level.WIDTH)


def of_densities(learner: Any, row: Array) -> tuple[Effects, dict[int, tuple[float, float]]]:
    """Return the effects of features and the likeness of terms, and what is usual of features.

    A feature's effect is the score less what it would be with the feature's value as the terms
    have it that are like the row in all the others: their weighted median.
    """
    d = len(row)
    none = Effects("leave one out", np.zeros(0), np.zeros(d))
    gaps, width = likeness(learner, row)
    if not len(gaps) or not width > 0:
        return none, {}
    whole = gaps.sum(axis=1)
    tried = _tried(learner, row)
    usual, rows = {}, np.tile(row, (len(tried) + 1, 1))
    for i, j in enumerate(tried.tolist()):
        weight = _alike(whole - gaps[:, j], width)
        values = learner.state.raw[0, : len(gaps), j]
        low, middle, high = quantiles(values, weight, (0.05, 0.5, 0.95))
        usual[j], rows[i + 1, j] = (float(low), float(high)), middle
    scores = learner.scores(rows)[:, 0]
    effect = np.zeros(d)
    effect[tried] = scores[0] - scores[1:]
    near = np.exp(-width * (whole - whole.min()))
    return Effects("leave one out", near, effect), usual


def terms_of(learner: Any, found: Effects, top: int) -> tuple[Term, ...]:
    """Return the terms that are most like the row."""
    near = found.likeness
    if not len(near):
        return ()
    share = near / near.sum()
    return tuple(
        Term(age=None, share=float(share[i]), part=float(near[i]), likeness=float(near[i]),
             values=tuple(learner.state.raw[0, i].tolist()))
        for i in np.argsort(-near, kind="stable")[:top].tolist()
    )  # fmt: skip


def _alike(distance: Array, width: float) -> Array:
    """Weights of terms by their likeness: as sharp as leaves ten terms' worth."""
    return sharpened(np.exp(-width * (distance - distance.min())), np.ones(len(distance)))


def _tried(learner: Any, row: Array) -> Array:
    if len(row) <= MOST:
        return np.arange(len(row))
    state = learner.state
    far = np.abs(row - state.center[0]) / np.where(state.scale[0] > 0, state.scale[0], 1.0)
    return np.argsort(-far, kind="stable")[:MOST]
