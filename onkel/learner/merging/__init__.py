"""Adding learners of one kind: f = sum of w_j f_j, then shrunk to the window and into the ball.

The clocks interleave: t is the sum of the learners' t, and the trial of age g of one stands beside
the trials of age g of the others, as if the streams had come in turns and ended together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import Field
from onkel.learner.base import Learner
from onkel.learner.densities import Densities
from onkel.learner.merging.adding import Merged
from onkel.learner.merging.densities import merged_densities
from onkel.learner.merging.mixtures import merged_mixtures
from onkel.learner.relevance import mean_of
from onkel.scaling import Moments, Targets, pooled

__all__ = ["Merged", "merged"]

Array = NDArray[Any]


def merged(
    learners: Sequence[Any], weights: Array, refit: bool = True, start: Any = None
) -> Merged:
    """Return ``f = sum w_j f_j`` as a learner that can go on.

    All have the same settings and outputs; none is changed. Scores add with the weights, counts
    and moments add as they are. `refit` lets the terms that stay take over from those that go.
    `start` is the learner that all of them went on from: what it had counted counts once.
    """
    if isinstance(learners[0], Densities):
        return merged_densities(learners, weights, start)
    if hasattr(learners[0], "parts"):  # a mixture, whose module needs this one
        return merged_mixtures(
            learners, weights, start, lambda parts, begun: merged(parts, weights, refit, begun)
        )
    whole = _counted(learners, start)
    learners = [_at(a, whole.clock) for a in learners]
    start = None if start is None else _at(start, whole.clock)
    _pool(whole, learners, weights, start)
    units = [a.targets.raw_widths(np.ones(whole.columns)) for a in (whole, *learners)]
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        gains = [w * unit / units[0] for w, unit in zip(weights, units[1:], strict=True)]
        adding = whole.adding(whole, learners, weights, gains, refit, start)
        adding.scalars()
        return adding.functions()


def _counted(learners: Sequence[Learner], start: Learner | None) -> Learner:
    """Return a learner that holds nothing but the counts of all of them."""
    first = learners[0]
    dtype = np.result_type(*[a.dtype for a in learners])
    whole = first.blank(dtype)
    whole.t = sum(a.t for a in learners)
    whole.mistakes = sum(a.mistakes for a in learners)
    if start is not None:
        whole.t -= (len(learners) - 1) * start.t
        whole.mistakes -= (len(learners) - 1) * start.mistakes
    whole.merged = len(learners) > 1 or first.merged
    whole.clock = max((a.clock for a in learners if a.clock is not None), default=None)
    whole.refreshed = max((a.refreshed for a in learners if a.refreshed is not None), default=None)
    return whole


def _at(learner: Any, clock: float | None) -> Any:
    """Return a learner that forgets by the clock as it will be at a later time."""
    if clock is None or learner.clock is None or learner.clock == clock:
        return learner
    gap = np.array([clock - learner.clock])
    left = learner.rule.fades(gap)
    later = learner.copied()
    later.state, later.moments = learner.state.copy(), learner.moments.copy()
    later.targets = learner.targets.copy()
    for moments in (later.moments, later.targets.moments):
        moments.seen = moments.seen * left
    later.fade(_shrinks(later, gap))
    return later


def _shrinks(learner: Any, gap: Array) -> Array:
    """Return what is left of each output's f after a gap, of those whose rule goes by the clock."""
    found = np.ones(learner.columns)
    for _, rule, outputs in learner.by_rule():
        if np.isfinite(rule.duration):
            pull = np.array([rule.pull(n) for n in learner.state[outputs, Field.NORM2]])
            found[outputs] = np.maximum(1.0 - (1.0 - rule.fades(gap)) * pull, 0.0)
    return found


def _pool(
    whole: Learner, learners: Sequence[Learner], weights: Array, start: Learner | None
) -> None:
    """Pool the moments of rows and targets.

    Centres of targets add with the weights, as predictions do, until the pooled mean is taken
    over at the next refresh; so predictions add exactly, offset or not.
    """
    eps = whole.moments.eps
    whole.moments = pooled([a.moments for a in learners], None if start is None else start.moments)
    whole.moments.eps = eps
    means = np.array([a.means for a in learners])
    whole.means = means[0] if np.all(means == means[0]) else whole.moments.mean.copy()
    varied = np.any([a.known for a in learners], axis=0)
    whole.known = varied | (whole.moments.variance > 0)
    known = [(a.relevance, a.t) for a in learners if a.relevance is not None and a.t]
    if known:
        whole.relevance = mean_of(*zip(*known, strict=True))
    begun = [(a.targets, w) for a, w in zip(learners, weights, strict=True) if a.t]
    if begun and whole.targets.active:
        first = None if start is None else start.targets.moments
        parts = [part for part, _ in begun]
        whole.targets = _targets(parts, np.array([w for _, w in begun]), first)


def _targets(parts: list[Targets], weights: Array, start: Moments | None) -> Targets:
    whole = parts[0].copy()
    whole.moments = pooled([part.moments for part in parts], start)
    whole.known = np.any([part.known for part in parts], axis=0) | (whole.moments.variance > 0)
    whole.center = weights @ np.array([part.center for part in parts])
    spreads = np.array([part.spread for part in parts])
    same = np.all(spreads == spreads[0], axis=0)
    whole.spread = np.where(whole.known & ~same, whole.moments.spread(), spreads[0])
    return whole
