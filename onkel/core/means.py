"""Members' answers averaged row by row, by weights that follow their errors.

Of each target are kept u, the mixture's own error, and the members' median error, the usual one,
means over the last 1000 rows or so; and of each expert its squared error, over the last 100. No row
counts for more than 1000 times such a mean. An expert counts for its part of
``w_i / (squared error)``, none as more than 64 times better than the mixture. The centre is the
members' median, moved to within u of their mean by these parts; in that mean, what is further than
64 usual errors from the median counts as being there: a member that goes wild, whatever its part,
takes the centre no further. Two joint experts answer

    ``center + unit (sum of v_m f_m)``,  ``f_m = (p_m - center) / unit``,

the unit u, but no less than 1/64 of the usual error; v by Newton steps on the squared error with
the curvature of all members together, and by plain steps; errors beyond 3 units count less. The
answer is the mean of members and joint experts by their parts. In it and in f, what is further from
the centre than 8 times the larger of u and the usual error counts as being there. Each one's loss,
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
"""Errors that count as the largest."""
HORIZON = 1000.0
"""Rows that errors, and the joint expert's curvature, look back over."""
RECENT = 100.0
"""Rows that squared errors look back over."""
ROW = 1000.0
"""What one row counts for at most, in what is usual."""
WIDE = 64.0
"""Usual errors that a member draws the centre from the members' median."""
BETTER = 64.0
"""How many times better than the mixture an expert, or than its members the mixture, counts."""
PRIOR = 1.0
"""Curvature of the joint expert before the first row."""
STEP = 0.1
"""Rate of the other one."""
FAR = 3.0
"""Units beyond which a row moves the joint experts no further."""
FARTHEST = 1e100
"""Units that count as the farthest, so that no difference is infinite."""
LARGEST = 1e150
"""The largest error that is squared, so that no square is infinite."""
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

    averaged = ("usual", "own", "squares", "joint", "bow")
    added = ("losses", "totals")
    low = MappingProxyType(dict.fromkeys(("weights", "losses", "usual", "own", "squares"), 0.0))

    rate: float
    share: float
    weights: Array
    """[experts]: members, then joint ones."""
    losses: Array
    """[experts]: their cumulative losses."""
    usual: Array
    """[outputs]: the members' median error, the usual one."""
    own: Array
    """[outputs]: the mixture's error, u."""
    squares: Array
    """[outputs][experts]: their squared errors of late."""
    joint: Array
    """[outputs][2][members]: v, by Newton and by plain steps."""
    bow: Array
    """[outputs][members][members]: curvature of the first v; the lower half."""
    totals: Array
    """Cumulative mean of the losses by weight, what exceeds the mixed loss of it, and the rows."""

    @classmethod
    def empty(cls, members: int, outputs: int, rate: float, share: float) -> Self:
        """Return the state before the first row."""
        experts = members + (JOINT if members > 1 else 0)
        return cls(
            rate, share, np.full(experts, 1.0 / experts), np.zeros(experts), np.zeros(outputs),
            np.zeros(outputs), np.zeros((outputs, experts)),
            np.full((outputs, JOINT, members), 1.0 / members),
            np.tile(np.eye(members) * PRIOR, (outputs, 1, 1)), np.zeros(3),
        )  # fmt: skip

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """How many targets there are."""
        return len(self.usual)

    @property
    def members(self) -> int:
        """How many members there are."""
        return int(self.joint.shape[-1])

    @property
    def influence(self) -> Array:
        """What each member counts for now, the mean over the targets: 1 in all.

        A joint expert's answer is a sum of the members' with factors that add up to 1, the centre
        taken as their mean by parts; its own part goes to the members by the size of these factors.

        Examples
        --------
        >>> state = Standing.empty(members=2, outputs=1, rate=4.0, share=0.0)
        >>> state.joint[0, 0], state.weights[:] = [1.5, -0.5], [0.3, 0.3, 0.4, 0.0]
        >>> state.influence
        array([0.6, 0.4])
        """
        parts = parts_of(self.weights, self.squares, self.own)
        own, joint = parts[:, : self.members], parts[:, self.members :]
        mass = own.sum(axis=1, keepdims=True)
        center = np.divide(own, mass, out=np.full(own.shape, 1 / self.members), where=mass > 0)
        factors = np.abs(self.joint + (1 - self.joint.sum(axis=2, keepdims=True)) * center[:, None])
        factors = (factors / factors.sum(axis=2, keepdims=True))[:, : joint.shape[1]]
        return np.asarray((own + np.einsum("oj,ojm->om", joint, factors)).mean(axis=0))

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
            self.rate, self.share, self.weights, self.losses, self.usual, self.own, self.squares,
            self.joint, self.bow, self.totals,
        )  # fmt: skip


class Plain:
    """The same in NumPy."""

    def __init__(
        self, rate: float, share: float, weights: Array, losses: Array, usual: Array,
        own: Array, squares: Array, joint: Array, bow: Array, totals: Array,
    ) -> None:  # fmt: skip
        self.rate, self.share, self.weights, self.losses = rate, share, weights, losses
        self.usual, self.own, self.squares, self.joint, self.bow = usual, own, squares, joint, bow
        self.totals, self.members = totals, joint.shape[-1]

    def learn(self, scores: Array, y: Array, out: Array) -> None:
        """Answer rows and learn them."""
        shape = (-1, self.members, len(self.usual))
        wanted, into = y.reshape(-1, len(self.usual)), out.reshape(-1, len(self.usual))
        for row, target, told in zip(scores.reshape(shape), wanted, into, strict=True):
            self._learn(row, target, told)

    def look(self, scores: Array, out: Array) -> None:
        """Answer rows."""
        into = out.reshape(-1, len(self.usual))
        for i, row in enumerate(scores.reshape(-1, self.members, len(self.usual))):
            into[i] = self._answers(row)[0]

    def _answers(self, scores: Array) -> tuple[Array, Array, Array, Array]:
        """Return the mixture's answers, the experts' [outputs][experts], the centres and f."""
        parts = parts_of(self.weights, self.squares, self.own)
        center = self._center(scores.T, parts)
        found, f = self._experts(scores.T, center)
        far = self._reach()
        mean = (parts * np.clip(found - center[:, None], -far, far)).sum(axis=1)
        return center + mean, found, center, f

    def _center(self, own: Array, parts: Array) -> Array:
        """Return the members' medians, moved to within u of their means by parts."""
        plain, far, q = np.median(own, axis=1), WIDE * self.usual[:, None], parts[:, : own.shape[1]]
        moved, mass = (q * np.clip(own - plain[:, None], -far, far)).sum(axis=1), q.sum(axis=1)
        mean = np.divide(moved, mass, out=np.zeros_like(mass), where=mass > 0)
        return np.asarray(plain + mean + np.clip(-mean, -self.own, self.own))

    def _reach(self) -> Array:
        """Return how far from the centres an answer counts as being."""
        return REACH * np.maximum(self.own, self.usual)[:, None]

    def _unit(self) -> Array:
        """Return what the joint experts measure in."""
        found = np.maximum(self.own, self.usual / BETTER)
        return np.where(found > 0, found, 1.0)

    def _experts(self, own: Array, center: Array) -> tuple[Array, Array]:
        """Return all answers [outputs][experts], and f [outputs][members]."""
        unit, far = self._unit(), self._reach()
        f = np.clip(own - center[:, None], -far, far) / unit[:, None]
        if self.members == 1:
            return own, f
        more = center[:, None] + unit[:, None] * np.einsum("ojm,om->oj", self.joint, f)
        return np.hstack([own, more]), f

    def _learn(self, scores: Array, y: Array, out: Array) -> None:
        out[:], found, center, f = self._answers(scores)
        unit, errors = self._unit(), np.abs(found - y[:, None])
        self._follow(errors, np.abs(out - y))
        scale = REACH * self.own[:, None]
        with np.errstate(over="ignore"):
            part = np.minimum(errors / np.where(scale > 0, scale, 1.0), 1.0)
        loss = np.where(scale > 0, part**2, 0.0).mean(axis=0)
        self.totals += [*share_step(loss, self.rate, self.share, self.weights), 1.0]
        self.losses += loss
        if self.members > 1:
            far = np.clip((y - center) / unit, -FARTHEST, FARTHEST)
            for o, target in enumerate(far.tolist()):
                self._learn_joint(o, f[o], target)

    def _follow(self, errors: Array, own: Array) -> None:
        """Move what is usual by one row's errors, of the experts and of the mixture."""
        rows, sure = self.totals[2] + 1, sure_of(self.squares, self.own)
        among = np.median(errors[:, : self.members], axis=1)
        _move(self.squares, np.minimum(errors, LARGEST) ** 2, sure, min(rows, RECENT))
        _move(self.usual, among, self.usual, min(rows, HORIZON))
        _move(self.own, own, self.own, min(rows, HORIZON))

    def _learn_joint(self, o: int, f: Array, target: float) -> None:
        (newton, plain), bow = self.joint[o], self.bow[o]
        gap, error = target - float(plain @ f), target - float(newton @ f)
        plain += STEP * _size(gap) * gap / (1 + float(f @ f)) * f
        keep, size = 1 - 1 / HORIZON, _size(error)
        bow[:] = keep * bow + (1 - keep) * PRIOR * np.eye(len(f)) + np.tril(size * np.outer(f, f))
        newton += np.linalg.solve(whole(bow), size * error * f)


def sure_of(squares: Array, own: Array) -> Array:
    """Return squared errors, of nobody below what is 64 times better than the mixture."""
    least: Array = (np.minimum(own, LARGEST) / BETTER) ** 2
    return np.maximum(squares, least[:, None])


def parts_of(weights: Array, squares: Array, own: Array) -> Array:
    """Return what each expert counts for [outputs][experts]: weights over squared errors.

    Who never errs, where the mixture never does, has it all.

    Examples
    --------
    >>> parts_of(np.full(3, 1 / 3), np.array([[1.0, 3.0, 3.0], [0.0, 0.0, 1.0]]), np.zeros(2))
    array([[0.6, 0.2, 0.2],
           [0.5, 0.5, 0. ]])
    """
    sure = sure_of(squares, own)
    least = sure[:, weights > 0].min(axis=1, keepdims=True)  # of those that count
    found = weights * np.where(sure > least, least / np.where(sure > 0, sure, 1.0), 1.0)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _move(mean: Array, value: Array, usual: Array, rows: float) -> None:
    """Move a mean over so many rows, where none counts for more than 1000 of what is usual."""
    most = np.where(usual > 0, ROW * usual, np.inf)
    mean += (np.minimum(value, most) - mean) / rows


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
