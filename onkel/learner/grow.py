"""More features: a learner that goes on with rows that have become wider."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Frame
from onkel.learner.base import Learner
from onkel.scaling import Moments

Array = NDArray[Any]
LearnerT = TypeVar("LearnerT", bound=Learner)


def with_features(
    learner: LearnerT, values: Array, wide: LearnerT | None = None
) -> LearnerT:  # fmt: skip
    """Return the learner with more features, which had these `values` in every row so far.

    ``k'((x_i, v), (x, u))`` takes the place of ``k(x_i, x)`` in every term

    `wide` is a new learner for so many features; one of the same settings, unless it is given.

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
    if wide is None:
        made = type(learner)
        wide = made(learner.settings, features, learner.columns, learner.dtype, learner.apart)
    wide.t, wide.mistakes, wide.merged = learner.t, learner.mistakes, learner.merged
    wide.state = learner.state.copy()
    wide.targets = learner.targets.copy()
    wide.targets.moments.horizon = wide.moments.horizon
    wide.clock, wide.refreshed = learner.clock, learner.refreshed
    wide.means = np.concatenate([learner.means, values])
    wide.known = np.concatenate([learner.known, np.zeros(len(values), bool)])
    _take_moments(wide.moments, learner.moments, values)
    frame = _wide_frame(learner, values)
    if learner.relevance is not None:
        if wide.relevance is not None:  # not too many columns now
            wide.relevance = wide.relevance.take_narrow(learner.relevance)
        before = np.concatenate([learner.relevance.width, np.ones(len(values))])
        frame = wide.weighed(frame.weighed(1.0 / before, wide.apart))
    wide.take_f(learner, frame, values)
    wide.settle()
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
