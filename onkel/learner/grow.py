"""More features: a learner that goes on with rows that have become wider."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Frame
from onkel.expansions.centers import CenterMap
from onkel.learner.base import Learner
from onkel.learner.primal_learner import PrimalLearner
from onkel.learner.term_learner import TermLearner
from onkel.scaling import Moments

Array = NDArray[Any]
LearnerT = TypeVar("LearnerT", bound=Learner)


def with_features(learner: LearnerT, values: Array) -> LearnerT:
    """Return the learner with more features, which had these `values` in every row so far.

    ``k'((x_i, v), (x, u))`` takes the place of ``k(x_i, x)`` in every term

    What follows from the number of features (a kernel's "auto", a default learning rate) follows
    the new number. Where that changes nothing, and constant features would have added nothing
    (kernels of the distance; inner products of standardised rows, or with v = 0), the result is
    the learner that has seen those features from the start, to rounding. An additive kernel gets
    one constant more per feature. The learner that was given stays as it is.

    Examples
    --------
    >>> from onkel import KernelRegressor, kernels
    >>> reg = KernelRegressor(kernel=kernels.Gaussian(1.0), scale=False)
    >>> before = reg.partial_fit([[0.0], [1.0]], [1.0, 2.0]).predict([[0.5]])
    >>> wide = with_features(reg._learner, np.array([7.0]))
    >>> float(abs(wide.scores(np.array([[0.5, 7.0]]))[0, 0] - before[0])) < 1e-12
    True
    """
    if learner.on_strings:
        raise ValueError(f"{learner.kernel!r} takes texts, which have no features to add to.")
    values = np.asarray(values, np.float64)
    features = len(learner.frame.center) + len(values)
    wide = type(learner)(learner.settings, features, learner.columns, learner.dtype)
    wide.t, wide.mistakes, wide.merged = learner.t, learner.mistakes, learner.merged
    wide.state = learner.state.copy()
    wide.targets = learner.targets.copy()
    wide.targets.moments.horizon = wide.moments.horizon
    wide.clock, wide.refreshed = learner.clock, learner.refreshed
    wide.means = np.concatenate([learner.means, values])
    wide.known = np.concatenate([learner.known, np.zeros(len(values), bool)])
    _take_moments(wide.moments, learner.moments, values)
    _take_f(wide, learner, values)
    wide._settle()
    return wide


def _take_moments(wide: Moments, moments: Moments, values: Array) -> None:
    """A feature that was constant has that value as its mean, and no variance."""
    rows = float(moments.seen.max(initial=0.0))
    wide.seen[:] = np.concatenate([moments.seen, np.full(len(values), rows)])
    wide.mean[:] = np.concatenate([moments.mean, values if rows else np.zeros(len(values))])
    wide.variance[: len(moments.variance)] = moments.variance


def _wide_frame(learner: Learner, values: Array) -> Frame:
    """The frame as it would be: centred on a constant feature wherever it centres at all."""
    frame = learner.frame
    centred = learner.settings.scale or frame.invariant
    center = values if centred else np.zeros(len(values))
    ones, zeros = np.ones(len(values)), np.zeros(len(values))
    added: dict[str, Any] = {
        "center": center,
        "unit": ones,
        "width": ones,
        "shift": zeros,
        "mean": center,
    }
    joined: dict[str, Any] = {k: np.concatenate([getattr(frame, k), v]) for k, v in added.items()}
    return replace(frame, **joined)


def _take_f(wide: Learner, learner: Learner, values: Array) -> None:
    frame = _wide_frame(learner, values)
    stored = values - frame.center[len(learner.frame.center) :]
    if isinstance(wide, TermLearner) and isinstance(learner, TermLearner):
        _take_terms(wide, learner, frame, stored)
    elif isinstance(wide, PrimalLearner) and isinstance(learner, PrimalLearner):
        _take_weights(wide, learner, frame, values, stored)


def _take_terms(wide: TermLearner, learner: TermLearner, frame: Frame, stored: Array) -> None:
    terms, n = learner.terms, learner.terms.count
    rows = np.column_stack([terms.rows(0, n), np.tile(stored, (n, 1))])
    wide.terms = wide.terms.reframed(frame)
    wide.terms.append(frame.queries(rows), terms.coefs(0, n), terms.births_from(0, n))


def _take_weights(
    wide: PrimalLearner, learner: PrimalLearner, frame: Frame, values: Array, stored: Array
) -> None:
    """Weights over centres stay; the linear one of a constant feature is v times the sum of a_i.

    That sum stands last in `theta`. Under a p-norm link the average holds past weights, not
    sums: past hypotheses had no weight there.
    """
    wide._frame, wide.theta, wide.total = frame, learner.theta, learner.total
    if isinstance(learner.map, CenterMap):
        points = np.column_stack([learner.map.points, np.tile(values, (learner.map.count, 1))])
        wide.map = replace(learner.map, kernel=wide.kernel, points=points)
        return
    at = [learner.map.count] * len(values)
    wide.theta = np.insert(learner.theta, at, learner.theta[:, -1:] * stored, axis=1)
    past = stored if learner.p == 2 else np.zeros(len(stored))
    wide.total = np.insert(learner.total, at, learner.total[:, -1:] * past, axis=1)
