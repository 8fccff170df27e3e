"""What a mixture's loss is and how answers are blended: votes, means, alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.learner.mixture import Mixture, Part, resumed_parts, running_sums
from onkel.learner.settings import Settings
from onkel.saved import Saved
from onkel.scaling import SMALLEST_SPREAD, Moments, next_refresh

Array = NDArray[Any]


class Votes(Mixture):
    """Classification: the loss is a mistake (0 or 1), the answer a vote.

    A member votes its score, clipped at its margin to [-1, 1]; ``tanh(z / 2)`` (twice the
    probability, less 1) under the logistic loss; the sign where there is no fixed margin.
    """

    def _mix(self, scores: Array, Y: Array) -> Array:
        return self._vote(scores, self._judge(mistakes(scores, Y)))

    def scores(self, X: Any, first: int = 0) -> Array:
        scores, _ = self.answers(X, first)
        return self._vote(scores, np.broadcast_to(self.weights, scores.shape[:2]))

    def _vote(self, scores: Array, weights: Array) -> Array:
        votes = votes_of([m.loss for m in self.members], scores)
        return np.einsum("tm,tmc->tc", weights, votes)


def mistakes(scores: Array, Y: Array) -> Array:
    """Return 1 where a member's scores do not put the right class strictly above the others.

    ``y z <= 0`` for one output; `scores` are [rows][members][outputs], `Y` is +1 or -1.
    """
    if Y.shape[1] <= 1:
        return np.asarray((scores * Y[:, None, :] <= 0).any(axis=2), float)
    mine = Y[:, None, :] > 0
    own = np.where(mine, scores, -np.inf).max(axis=2)
    others = np.where(mine, -np.inf, scores).max(axis=2)
    return np.asarray(own <= others, float)


def votes_of(losses: Sequence[Any], scores: Array) -> Array:
    """Return the members' votes, from -1 to 1, for scores [rows][members][outputs]."""
    votes = np.empty(scores.shape)
    for i, loss in enumerate(losses):
        votes[:, i] = loss.votes(scores[:, i])
    return votes


class Means(Mixture):
    """Regression: the loss is the error in units of what is usual, the answer a mean.

    ``l_i = min(1, ((y - p_i) / (8 u))^2)``, u the running mean of the members' median error (the
    present trial with it, the last 1000 trials or so), averaged over several targets. A prediction
    further than 8 u from the members' weighted median counts as being there.
    """

    REACH = 8.0
    HORIZON = 1000

    def __init__(
        self, members: Sequence[Settings], parts: list[Part], rate: float, share: float
    ) -> None:
        super().__init__(members, parts, rate, share)
        self.usual = np.zeros(self.columns)

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "usual": self.usual.copy()}

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        self.usual = saved.array("usual", (self.columns,), np.float64, low=0.0)

    def _mix(self, scores: Array, Y: Array) -> Array:
        errors = np.abs(scores - Y[:, None, :])
        usual = self._follow(np.median(errors, axis=1))
        scale = self.REACH * usual[1:, None, :]
        with np.errstate(over="ignore"):
            losses = np.minimum(errors / np.where(scale > 0, scale, 1.0), 1.0) ** 2
        before = self._judge(np.where(scale > 0, losses, 0.0).mean(axis=2))
        self.usual = usual[-1].copy()
        return self._mean(scores, before, self.REACH * usual[:-1])

    def _follow(self, errors: Array) -> Array:
        """Return the usual error before the first row and after each."""
        found = np.empty((len(errors) + 1, len(self.usual)))
        found[0] = self.usual
        for c, now in enumerate(self.usual.tolist()):
            for t, error in enumerate(errors[:, c].tolist()):
                now += (error - now) / min(self.judged + t + 1, self.HORIZON)
                found[t + 1, c] = now
        return found

    def scores(self, X: Any, first: int = 0) -> Array:
        scores, _ = self.answers(X, first)
        weights = np.broadcast_to(self.weights, scores.shape[:2])
        return self._mean(scores, weights, self.REACH * self.usual)

    @staticmethod
    def _mean(scores: Array, weights: Array, reach: Array) -> Array:
        """Return weighted means, far answers moved to within `reach` of the weighted median."""
        order = np.argsort(scores, axis=1, kind="stable")
        total = np.cumsum(np.take_along_axis(weights[:, :, None], order, axis=1), axis=1)
        middle = np.argmax(total >= 0.5 * total[:, -1:], axis=1)[:, None]
        at = np.take_along_axis(order, middle, axis=1)
        median = np.take_along_axis(scores, at, axis=1)
        near = np.broadcast_to(reach, median[:, 0].shape)[:, None]
        gap = np.clip(scores - median, -near, near)
        return median[:, 0] + np.einsum("tm,tmc->tc", weights, gap)


class Alerts(Mixture):
    """Novelty: the loss is the share of made-up rows that pass as normal, the answer a mean margin.

    A member's margin is score minus threshold, in units of its usual size. The mixture's threshold
    follows nu on its own, ``theta <- theta + 0.1 (nu - alert)``, so that the realised rate is
    ``nu - (theta - theta_1) / (0.1 trials)`` exactly, whatever the weights do.

    Labels there are none. At the same alert rate a detector is the better the less it lets pass of
    what is not there (the least volume): every 256 trials (at first at powers of two) each member
    judges 64 rows made from recent ones: each feature stays with probability 1/2, else its value
    comes from another recent row or, as often, is drawn evenly from within three spreads of its
    mean. Its loss is the share that it lets pass.
    """

    STEP = 0.1
    PROBES = 64
    EVERY = 256
    FIRST = 16
    """Before so many trials there are no looks: too little is known to make rows up."""

    def __init__(
        self, members: Sequence[Settings], parts: list[Part], rate: float, share: float
    ) -> None:
        super().__init__(members, parts, rate, share)
        features = len(self.moments.mean)
        self.nu = float(members[0].loss.nu)  # type: ignore[arg-type]
        self.theta = 0.0
        self.alerts = 0.0
        self.weight = 0.0
        self.size_of = np.ones(len(members))
        """The usual size of each member's margin."""
        self.sizes = np.zeros(len(members))
        """Sum of the sizes since the last look."""
        self.recent = np.zeros((self.PROBES, features))
        self.ranges = Moments(features, float(4 * self.EVERY), float(np.finfo(self.dtype).eps))

    def dump(self) -> dict[str, Any]:
        rows = {"recent": self.recent.copy(), "ranges": self.ranges.dump()}
        sizes = {"size_of": self.size_of.copy(), "sizes": self.sizes.copy()}
        counts = {"theta": self.theta, "alerts": self.alerts, "weight": self.weight}
        return {**super().dump(), **counts, **sizes, **rows}

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        self.theta = saved.number("theta")
        self.alerts = saved.number("alerts", low=0.0)
        self.weight = saved.number("weight", low=0.0)
        count, features = len(self.members), len(self.moments.mean)
        self.size_of = saved.array("size_of", (count,), np.float64, low=SMALLEST_SPREAD)
        self.sizes = saved.array("sizes", (count,), np.float64, low=0.0)
        self.recent = saved.array("recent", (self.PROBES, features), np.float64)
        if np.any(self.recent[self.t :]):
            raise saved.refuse("recent", "must be 0 where there is no row")
        self.ranges.restore(saved.inside("ranges"), features)

    def learn(
        self, X: Any, Y: Array, weight: Array, own: Array | None = None, first: int = 0,
        times: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn rows in order, stopping where the members are to be looked at."""
        if self.t + len(Y) < self._next_look():
            return self._learn_piece(X, Y, weight, first)
        ours, start, found = self.copy(), 0, []
        while start < len(Y):
            part = slice(start, start + ours._next_look() - ours.t)
            found.append(ours._learn_piece(X[part], Y[part], weight[part], first + start))
            start += len(found[-1][0])
            if ours.t == next_refresh(ours.t - 1, 4.0 * self.EVERY):
                ours._look()
        self.__dict__.update(ours.__dict__)
        scores, limits = (np.concatenate(part) for part in zip(*found, strict=True))
        return scores, limits

    def _next_look(self) -> int:
        return next_refresh(self.t, 4.0 * self.EVERY)

    def _learn_piece(self, X: Any, Y: Array, weight: Array, first: int) -> tuple[Array, Array]:
        at = self.t + np.arange(len(Y))[-self.PROBES :]
        rows = np.asarray(self.main.filled(X[: len(Y)]), np.float64)
        scores, limits = self._learn_parts(X, Y, weight, first)
        self.recent[at % self.PROBES] = rows[-self.PROBES :]
        self.ranges.update(rows)
        margins = scores[:, :, 0] - limits[:, :, 0]
        self.sizes = running_sums(self.sizes, np.abs(margins))
        shown = np.einsum("tm,m->t", margins / self.size_of, self.weights)
        return shown[:, None], self._follow(shown, weight)[:, None]

    def _follow(self, shown: Array, weight: Array) -> Array:
        """Return the threshold before each row; steer it towards a rate of nu."""
        before, theta = [], self.theta
        for z, w in zip(shown.tolist(), weight.tolist(), strict=True):
            before.append(theta)
            alert = z < theta
            theta += self.STEP * w * (self.nu - alert)
            self.alerts += w * alert
            self.weight += w
        self.theta = theta
        return np.array(before)

    def _look(self) -> None:
        """Take the margins' sizes over, and judge the members by what they let pass."""
        rows = self.t - (0 if self.t <= 1 else last_look(self.t, 4 * self.EVERY))
        usual = self.sizes / max(rows, 1)
        self.size_of = np.where(usual > SMALLEST_SPREAD, usual, self.size_of)
        self.sizes = np.zeros(len(self.members))
        if self.t >= self.FIRST:
            scores, limits = self.answers(self._made_up())
            passed = scores[:, :, 0] >= limits[:, :, 0]
            self._judge(passed.mean(axis=0)[None])

    def _made_up(self) -> Array:
        """Return rows that are not there, from recent ones; the same for the same trial."""
        rng = np.random.default_rng(self.t)
        rows = self.recent[: min(self.t, self.PROBES)]
        drawn = self.ranges.mean + self.ranges.spread() * rng.uniform(-3.0, 3.0, rows.shape)
        other = np.where(rng.random(rows.shape) < 0.5, drawn, rows[rng.permutation(len(rows))])
        return np.where(rng.random(rows.shape) < 0.5, rows, other).astype(self.dtype)

    def scores(self, X: Any, first: int = 0) -> Array:
        scores, limits = self.answers(X, first)
        margins = scores[:, :, 0] - limits[:, :, 0]
        return np.einsum("tm,m->t", margins / self.size_of, self.weights)[:, None]

    def limits(self) -> Array:
        return np.array([self.theta])


def last_look(t: int, memory: int) -> int:
    """Return the look before the one at trial t."""
    return max((t >> 1) if t <= memory // 4 else t - memory // 4, 0)


def resumed_mixture(
    kind: type[Mixture], members: Sequence[Settings], rate: float, share: float, saved: Saved
) -> Mixture:
    """Return the mixture that a file holds."""
    mixture = kind(members, resumed_parts(members, saved.inside("parts")), rate, share)
    mixture.restore(saved)
    saved.finish()
    return mixture
