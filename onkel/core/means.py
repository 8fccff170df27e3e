"""Members' answers averaged row by row, by weights that follow their errors.

With u the usual error of a target (the members' median error, averaged over the last 1000 rows or
so, where no row counts for more than 1000u), two joint experts answer

    ``median + u (sum of v_m f_m)``,  ``f_m = (p_m - median) / u``, clipped to 8,

v by Newton steps on the squared error with the curvature of all members together, and by plain
steps; errors beyond 3u count less. The answer is the weighted mean of members and joint experts,
where what is further than 8u from the members' median counts as being there (a member that goes
wild, whatever its weight, is never that median). Each one's loss,
``min(1, ((y - p) / (8 u))^2)``, moves its weight, with fixed share:

    ``w_i <- (1 - share) w_i exp(-rate l_i) / (sum of the same) + share / experts``

Compiled (``src/means.hpp``), or in NumPy below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core.bindable import Bindable, whole
from onkel.saved import Saved

Array = NDArray[Any]

REACH = 8.0
"""Usual errors that count as the largest."""
HORIZON = 1000.0
"""Rows that the usual error, and the joint expert's curvature, look back over."""
PRIOR = 1.0
"""Curvature of the joint expert before the first row."""
STEP = 0.1
"""Rate of the other one."""
FAR = 3.0
"""Usual errors beyond which a row moves the joint experts no further."""
FARTHEST = 1e100
"""Usual errors that count as the farthest, so that no difference is infinite."""
JOINT = 2
"""Joint experts, where there are members to join."""


@dataclass
class Standing(Bindable):
    """What a mixture of means has come to.

    Examples
    --------
    >>> state = Standing.empty(members=2, outputs=1, rate=8.0, share=0.0)
    >>> scores, y = np.array([[[1.0], [3.0]]]), np.array([[1.5]])
    >>> state.learn(scores, y)  # the mean, before anything is known
    array([[1.]])
    >>> state.usual
    array([1.])
    """

    averaged = ("usual", "joint", "bow", "said")
    added = ("losses", "totals")
    low = MappingProxyType({"weights": 0.0, "losses": 0.0, "usual": 0.0, "said": 0.0})

    rate: float
    share: float
    weights: Array
    """[experts]: members, then joint ones."""
    losses: Array
    """[experts]: their cumulative losses."""
    usual: Array
    """[outputs]: the usual error."""
    joint: Array
    """[outputs][2][members]: v, by Newton and by plain steps."""
    bow: Array
    """[outputs][members][members]: curvature of the first v; the lower half."""
    said: Array
    """[members]: how far each is from the median of late, in usual errors."""
    totals: Array
    """Cumulative loss of the mixture, what that exceeds the mixed loss by, and the rows."""

    @classmethod
    def empty(cls, members: int, outputs: int, rate: float, share: float) -> Self:
        """Return the state before the first row."""
        experts = members + (JOINT if members > 1 else 0)
        return cls(
            rate, share, np.full(experts, 1.0 / experts), np.zeros(experts), np.zeros(outputs),
            np.full((outputs, JOINT, members), 1.0 / members),
            np.tile(np.eye(members) * PRIOR, (outputs, 1, 1)), np.zeros(members), np.zeros(3),
        )  # fmt: skip

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """How many targets there are."""
        return len(self.usual)

    @property
    def members(self) -> int:
        """How many members there are."""
        return len(self.said)

    # -- files ---------------------------------------------------------------------------------

    @classmethod
    def restored(cls, saved: Saved, members: int, outputs: int, rate: float, share: float) -> Self:
        """Return what a file holds, of so many members and targets."""
        made = cls.empty(members, outputs, rate, share)
        made.load(saved)
        if made.totals[0] < 0 or made.totals[2] < 0:
            raise saved.refuse("totals", "must not be negative")
        saved.finish()
        return made

    # -- rows ----------------------------------------------------------------------------------

    def _writable(self) -> bool:
        return bool(self.weights.flags.writeable)

    def bound(self) -> Any:
        """Return what learns and looks at rows in these arrays."""
        made = core.compiled.Means if core.has_lane() else Plain
        return made(
            self.rate, self.share, self.weights, self.losses, self.usual, self.joint, self.bow,
            self.said, self.totals,
        )  # fmt: skip


class Plain:
    """The same in NumPy."""

    def __init__(
        self, rate: float, share: float, weights: Array, losses: Array, usual: Array,
        joint: Array, bow: Array, said: Array, totals: Array,
    ) -> None:  # fmt: skip
        self.rate, self.share, self.weights, self.losses = rate, share, weights, losses
        self.usual, self.joint, self.bow = usual, joint, bow
        self.said, self.totals = said, totals

    def learn(self, scores: Array, y: Array, out: Array) -> None:
        """Answer rows and learn them."""
        shape = (-1, len(self.said), len(self.usual))
        wanted, into = y.reshape(-1, len(self.usual)), out.reshape(-1, len(self.usual))
        for row, target, told in zip(scores.reshape(shape), wanted, into, strict=True):
            self._learn(row, target, told)

    def look(self, scores: Array, out: Array) -> None:
        """Answer rows."""
        into = out.reshape(-1, len(self.usual))
        for i, row in enumerate(scores.reshape(-1, len(self.said), len(self.usual))):
            into[i] = self._mean(*self._answers(row)[:2])

    def _answers(self, scores: Array) -> tuple[Array, Array, Array, Array]:
        """Return all answers [outputs][experts], medians, units and f [outputs][members]."""
        own = scores.T
        center, unit = np.median(own, axis=1), np.where(self.usual > 0, self.usual, 1.0)
        f = np.clip((own - center[:, None]) / unit[:, None], -REACH, REACH)
        if len(self.said) == 1:
            return own, center, unit, f
        more = center[:, None] + unit[:, None] * np.einsum("ojm,om->oj", self.joint, f)
        return np.hstack([own, more]), center, unit, f

    def _mean(self, found: Array, center: Array) -> Array:
        """Return weighted means, far answers moved to within reach of the members' median."""
        far = REACH * self.usual[:, None]
        return np.asarray(center + np.clip(found - center[:, None], -far, far) @ self.weights)

    def _learn(self, scores: Array, y: Array, out: Array) -> None:
        found, center, unit, f = self._answers(scores)
        out[:] = self._mean(found, center)
        trial = min(self.totals[2] + 1, HORIZON)
        error = np.median(np.abs(scores.T - y[:, None]), axis=1)
        most = np.where(self.usual > 0, HORIZON * self.usual, np.inf)  # no row rules the rest
        self.usual += (np.minimum(error, most) - self.usual) / trial
        scale = REACH * self.usual[:, None]
        with np.errstate(over="ignore"):
            part = np.minimum(np.abs(found - y[:, None]) / np.where(scale > 0, scale, 1.0), 1.0)
        loss = np.where(scale > 0, part**2, 0.0).mean(axis=0)
        self.said += (np.abs(f).mean(axis=0) - self.said) / trial
        self.totals += [*share_step(loss, self.rate, self.share, self.weights), 1.0]
        self.losses += loss
        if len(self.said) > 1:
            far = np.clip((y - center) / unit, -FARTHEST, FARTHEST)
            for o, target in enumerate(far.tolist()):
                self._learn_joint(o, f[o], target)

    def _learn_joint(self, o: int, f: Array, target: float) -> None:
        (newton, plain), bow = self.joint[o], self.bow[o]
        gap, error = target - float(plain @ f), target - float(newton @ f)
        plain += STEP * _size(gap) * gap / (1 + float(f @ f)) * f
        keep, size = 1 - 1 / HORIZON, _size(error)
        bow[:] = keep * bow + (1 - keep) * PRIOR * np.eye(len(f)) + np.tril(size * np.outer(f, f))
        newton += np.linalg.solve(whole(bow), size * error * f)


def _size(error: float) -> float:
    """Return what an error counts for: less, where it is far."""
    return min(1.0, FAR / max(abs(error), 1e-300))


def share_step(loss: Array, rate: float, share: float, weights: Array) -> tuple[float, float]:
    """Move exponential weights with fixed share by one trial's losses; `weights` change in place.

    Returns the trial's mean loss, and by how much that exceeds its mixed loss
    ``-log(sum of w_i exp(-rate l_i)) / rate``.

    Examples
    --------
    >>> weights = np.array([0.5, 0.5])
    >>> mean, gap = share_step(np.array([0.0, 1.0]), 1.0, 0.0, weights)
    >>> mean, weights.round(3)
    (0.5, array([0.731, 0.269]))
    """
    mean, counts = float(weights @ loss), weights > 0
    least = float(loss[counts].min())  # of those that count: nothing overflows
    weights[counts] *= np.exp(-rate * (loss[counts] - least))
    total = float(weights.sum())
    weights[:] = (1 - share) * (weights / total) + share / len(weights)
    return mean, mean - least + math.log(total) / rate
