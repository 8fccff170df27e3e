"""Learning in the primal in plain NumPy: weights over features, and their p-norms.

As in ``numpy_core.py``, every function has a compiled twin (``src/primal.hpp``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import MOST_SHOWN, Field
from onkel.core.numpy_core import decide, is_finite, is_sound, limit_of, mean_limit
from onkel.core.records import PrimalInput

Array = NDArray[Any]


def norm_p(a: Array, p: float) -> float:
    """||a||_p, the largest component divided out first: large p neither overflows nor vanishes."""
    most = float(np.max(np.abs(a), initial=0.0))
    return most * float(np.sum(np.abs(a / most) ** p) ** (1 / p)) if most > 0 else 0.0


def link(theta: Array, p: float) -> Array:
    """w_i = sign(theta_i) |theta_i|^(p-1) / ||theta||_p^(p-2); 0 at theta = 0."""
    most = float(np.max(np.abs(theta), initial=0.0))
    if p == 2 or most == 0:
        return theta.copy()
    r = np.abs(theta) / most
    return np.copysign(most * r ** (p - 1) / np.sum(r**p) ** ((p - 2) / p), theta)


@np.errstate(over="ignore", invalid="ignore")  # what leaves the floating range is refused
def primal(task: PrimalInput) -> dict[str, Any]:
    """Learn rows in the primal: theta <- c (shrink theta + coef x), predict with link(theta).

    The last number of each row of `theta` is the sum of the coefficients (a feature that is
    always 1), which re-standardising needs; it takes no part in predictions.
    """
    state, theta, total = task.state.copy(), task.theta.copy(), task.total.copy()
    score, limit = np.zeros((2, *task.y.shape))
    mean_score = np.zeros(task.y.shape if task.average else (0, task.y.shape[1]))
    for t, x in enumerate(task.x):
        size = norm_p(x, task.p)
        kxx = size * size  # not a power: that raises where it overflows
        for c, s in enumerate(state):
            if np.isnan(task.y[t, c]):  # an output that is not there yet
                limit[t, c] = limit_of(task.loss, s)
                continue
            w = link(theta[c, :-1], task.p)
            f = float(w @ x)
            score[t, c], limit[t, c] = f + s[Field.OFFSET], limit_of(task.loss, s)
            if task.average:
                _average(task, s, total[c], w, theta[c, -1], (t, c), mean_score, limit)
            move = decide(task, s, f, t, c, kxx)
            theta[c] *= move.shrink
            theta[c, :-1] += move.coef * x
            theta[c, -1] += move.coef
            if task.needs_norm:
                norm = norm_p(theta[c, :-1], task.p)
                if norm > move.radius:
                    theta[c] *= move.radius / norm
                held = min(norm, move.radius)
                s[Field.NORM2] = held * held
            shown = mean_score[t, c] if task.average else score[t, c]
            if not (is_sound(s[None]) and abs(shown) < MOST_SHOWN):
                return _result(state, theta, total, score, mean_score, limit, t)
            if not is_finite(task.rule, s[None], score[t, c : c + 1], np.array([move.coef]), kxx):
                return _result(state, theta, total, score, mean_score, limit, t)
    return _result(state, theta, total, score, mean_score, limit, -1)


def _average(
    task: PrimalInput, s: Array, total: Array, w: Array, mass: float, at: tuple[int, int],
    mean_score: Array, limit: Array,
) -> None:  # fmt: skip
    if s[Field.TRIALS] > 1:
        sum_ = total[:-1] @ task.x[at[0]] + s[Field.OFFSET_SUM]
        mean_score[at] = sum_ / s[Field.TRIALS]
        limit[at] = mean_limit(task.loss, s, limit[at])
    total[:-1] += w
    total[-1] += mass


def _result(
    state: Array, theta: Array, total: Array, score: Array, mean_score: Array, limit: Array,
    bad_row: int,
) -> dict[str, Any]:  # fmt: skip
    return {
        "state": state, "theta": theta, "total": total, "score": score,
        "mean_score": mean_score, "limit": limit, "bad_row": bad_row,
    }  # fmt: skip
