"""Why a row is rare: what its rarity would be, had one of its features agreed with the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density_table import LARGEST, Count, Level
from onkel.explain.causes import Sample, moved
from onkel.explain.effects import Effects, quantiles, sharpened
from onkel.explain.outcome import Pattern, Term

Array = NDArray[Any]

MOST = 64
"""Of more features than this, only those farthest from their means are tried."""


FEWEST = 10
"""Terms that tell what is usual."""


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
    have it that are like the row in all the others: their weighted median. Terms that once raised
    an alert do not tell what is usual.
    """
    d = len(row)
    none = Effects("leave one out", np.zeros(0), np.zeros(d))
    gaps, width = likeness(learner, row)
    if not len(gaps) or not width > 0:
        return none, {}
    whole, calm = gaps.sum(axis=1), calm_of(learner)
    tried = _tried(learner, row)
    usual, rows = {}, np.tile(row, (len(tried) + 1, 1))
    for i, j in enumerate(tried.tolist()):
        weight = _alike(whole - gaps[:, j], width, calm)
        values = learner.state.raw[0, : len(gaps), j]
        low, middle, high = quantiles(values, weight, (0.05, 0.5, 0.95))
        usual[j], rows[i + 1, j] = (float(low), float(high)), middle
    scores = learner.scores(rows)[:, 0]
    effect = np.zeros(d)
    effect[tried] = scores[0] - scores[1:]
    near = np.exp(-width * (whole - whole.min()))
    return Effects("leave one out", near, effect), usual


def sample_of(
    learner: Any, row: Array, found: Effects, usual: dict[int, tuple[float, float]], plain: Any
) -> Sample:
    """Return the stored rows, and the row beside them."""
    n, raw = learner.count(Count.SIZE), learner.state.raw[0]
    score = float(learner.scores(row[None])[0, 0])
    limit = float(learner.limits()[0])
    return Sample(
        lambda j: raw[:n, j], calm_of(learner), row, usual, found.effect, score, limit, plain
    )  # fmt: skip


def agreed(learner: Any, row: Array, outside: list[int]) -> float | None:
    """Return the score, had all of these features agreed with the others; None of fewer than two.

    They are what they are in the middle of the terms that are like the row in the others.
    """
    gaps, width = likeness(learner, row)
    if len(outside) < 2:
        return None
    far = gaps.sum(axis=1) - gaps[:, outside].sum(axis=1)
    weight, other = _alike(far, width, calm_of(learner)), row.copy()
    for j in outside:
        other[j] = quantiles(learner.state.raw[0, : len(gaps), j], weight, (0.5,))[0]
    return float(learner.scores(other[None])[0, 0])


def pattern_of(learner: Any, row: Array, sample: Sample, names: Any) -> Pattern | None:
    """Return what is unusual of a row though no single number explains it."""
    found = sample.gap(names) or sample.pair(names)
    if found is not None:
        return found
    _, (views,) = learner.judged(row[None], members=True)
    if not views[8] > 0:  # rows are not tied to those before
        return None
    state, numbers = learner.state, sample.numbers()
    bounded = np.clip(row, -LARGEST, LARGEST)
    calm = calm_of(learner) > 0
    step = state.raw[1, : len(calm)][calm], bounded - state.last
    late = state.late_raw[: learner.count(Count.LATE_SIZE)], _mean(learner, bounded)
    kinds = {"step": (step, max(views[3], views[7])), "mean": (late, views[4])}
    for kind in sorted(kinds, key=lambda k: -kinds[k][1]):
        stored, value = kinds[kind][0]
        if len(stored) >= learner.plan.young and kinds[kind][1] > 0:
            found = found or moved(kind, value, stored, numbers, names)
    return found


def _mean(learner: Any, row: Array) -> Array:
    """Return the short running mean with the row."""
    fade = 1 - 2 / (learner.plan.span + 1)
    found: Array = fade * learner.state.smooth + row
    return found / (fade * learner.level(Level.SMOOTH_MASS) + 1)


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


def _alike(distance: Array, width: float, calm: Array) -> Array:
    """Weights of terms by their likeness: as sharp as leaves ten terms' worth."""
    beyond = np.maximum(distance - distance[calm > 0].min(), 0.0)
    return sharpened(np.exp(-width * beyond), calm)


def calm_of(learner: Any) -> Array:
    """Return 1 for each term that raised no alert, else 0; 1 for all where there are too few."""
    calm: Array = (learner.state.marks[: learner.count(Count.SIZE)] == 0).astype(float)
    return calm if calm.sum() >= FEWEST else np.ones(len(calm))


def _tried(learner: Any, row: Array) -> Array:
    if len(row) <= MOST:
        return np.arange(len(row))
    state = learner.state
    far = np.abs(row - state.center[0]) / np.where(state.scale[0] > 0, state.scale[0], 1.0)
    return np.argsort(-far, kind="stable")[:MOST]
