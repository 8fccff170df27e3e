"""Learning in the primal in plain NumPy: weights over features, and their p-norms.

As in ``numpy_core.py``, every function has a compiled twin (``src/primal.hpp``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core import numpy_hashed
from onkel.core.code_table import CodeTable
from onkel.core.layout import LARGEST, MOST_SHOWN, Field
from onkel.core.numpy_core import decide, is_finite, is_sound, limit_of, mean_limit
from onkel.core.numpy_hashed import Hot
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
    always 1), which re-standardising needs; it takes no part in predictions. Weights of codes
    are changed in place, all or none.
    """
    rows = _Rows(task)
    bad = next((t for t in range(len(task.y)) if not rows.learn(t)), -1)
    if task.codes is not None and bad < 0 and not np.all(np.abs(rows.theta) < LARGEST):
        bad = len(task.y) - 1
    if task.codes is not None and rows.codes is not None and bad < 0:
        for name in ("weights", "past", "marks"):
            getattr(task.codes, name)[:] = getattr(rows.codes, name)
    return {
        "state": rows.state, "theta": rows.theta, "total": rows.total, "score": rows.score,
        "mean_score": rows.mean_score, "limit": rows.limit, "bad_row": bad,
    }  # fmt: skip


class _Rows:
    """Rows learned one after another, on copies."""

    def __init__(self, task: PrimalInput) -> None:
        self.task, self.x = task, task.x
        self.state, self.theta, self.total = task.state.copy(), task.theta.copy(), task.total.copy()
        self.score, self.limit = np.zeros((2, *task.y.shape))
        self.mean_score = np.zeros(task.y.shape if task.average else (0, task.y.shape[1]))
        self.codes: CodeTable | None = None
        if task.codes is not None:
            self.codes, k = task.codes.copy(), task.codes.count
            self.at = numpy_hashed.buckets(task.x[:, :k], task.codes.buckets)
            self.x = task.x[:, k:]

    def learn(self, t: int) -> bool:
        """Learn row t; False if it is bad."""
        task, x, hot = self.task, self.x[t], None
        size = norm_p(x, task.p)
        kxx = size * size  # not a power: that raises where it overflows
        if self.codes is not None:
            hot = Hot(self.at[t], self.codes)
            kxx += hot.length2
        return all(self._output(t, c, hot, kxx) for c in range(len(self.state)))

    def _output(self, t: int, c: int, hot: Hot | None, kxx: float) -> bool:
        """Learn one output of a row; False if it is bad."""
        task, s, x, theta = self.task, self.state[c], self.x[t], self.theta[c]
        if np.isnan(task.y[t, c]):  # an output that is not there yet
            self.limit[t, c] = limit_of(task.loss, s)
            return True
        w = link(theta[:-1], task.p)
        f = float(w @ x)
        if hot is not None:
            f += hot.score(c, s)
        self.score[t, c], self.limit[t, c] = f + s[Field.OFFSET], limit_of(task.loss, s)
        if task.average:
            self._average(t, c, w, hot)
        move = decide(task, s, f, t, c, kxx)
        theta *= move.shrink
        theta[:-1] += move.coef * x
        theta[-1] += move.coef
        fine = hot is None or hot.move(c, move, s)
        if task.needs_norm:
            self._into_ball(c, move.radius)
        if self.codes is not None and numpy_hashed.folds_now(self.codes, c, s):
            numpy_hashed.fold(self.codes, c, s)
        shown = self.mean_score[t, c] if task.average else self.score[t, c]
        fine = fine and is_sound(s[None]) and abs(shown) < MOST_SHOWN
        score, coef = self.score[t, c : c + 1], np.array([move.coef])
        return bool(fine and is_finite(task.rule, s[None], score, coef, kxx))

    def _average(self, t: int, c: int, w: Array, hot: Hot | None) -> None:
        """Answer with the average of all hypotheses so far, and take this one into it."""
        s, total = self.state[c], self.total[c]
        if s[Field.TRIALS] > 1:
            sum_ = total[:-1] @ self.x[t] + s[Field.OFFSET_SUM]
            if hot is not None:
                sum_ += hot.past_score(c, s)
            self.mean_score[t, c] = sum_ / s[Field.TRIALS]
            self.limit[t, c] = mean_limit(self.task.loss, s, self.limit[t, c])
        total[:-1] += w
        total[-1] += self.theta[c, -1]
        if hot is not None:
            s[Field.SCALE_SUM] += s[Field.SCALE]

    def _into_ball(self, c: int, radius: float) -> None:
        """Take the norm, and scale f into the ball of this radius."""
        s, theta = self.state[c], self.theta[c]
        norm = norm_p(theta[:-1], self.task.p)
        if self.codes is not None:
            norm = numpy_hashed.norm(self.codes, c, s, norm)
        if norm > radius:
            theta *= radius / norm
            if self.codes is not None:
                s[Field.SCALE] *= radius / norm
        held = min(norm, radius)
        s[Field.NORM2] = held * held
