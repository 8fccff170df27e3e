"""The first rows, and centres that follow the world, under recursive least squares.

The first rows are kept. After 1, 2, 4, ... of them, up to some hundreds, centres are chosen among
all so far, units taken from all so far, and the rows learned anew: nothing of the first, poor units
is left. Then, every so many rows, the centres that are worth least give their places to the rows
that are least like any centre. Over the inputs themselves, or over points that were given, there
are only the first rows and their units.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel.bounds import NEVER
from onkel.core import covariance
from onkel.learner.batch import Batch
from onkel.saved import Saved

if TYPE_CHECKING:
    from onkel.learner.second_order import SecondOrderLearner

Array = NDArray[Any]

LEAST = 256
"""Rows that are kept at first, at least."""
EVERY = 256
"""Rows between two exchanges of centres."""
PART = 8
"""One in so many centres is exchanged, at most."""
YOUNG = 512
"""Rows for which a centre has its place for certain."""
ALIKE = 0.99
"""A row is no centre whose kernel value with one exceeds this, in units of its own."""


@dataclass
class Following:
    """What is kept of the rows, and since when each centre has its place."""

    most: int
    """Centres, at most; 0: none are to be chosen."""
    rows: Array
    """[rows][features], as they came: the first ones, later those since the last exchange."""
    targets: Array
    """[rows][outputs] of the first rows; later none are kept."""
    more: Array
    """[rows][2] of the first rows: the weight, and the seconds since the row before."""
    born: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """[centres] the trial at which each got its place."""
    cost: float = 0.0
    """What exchanges have added to the sums of squares, in all."""
    exchanged: int = 0
    """Centres that have given their places to others, in all."""

    @classmethod
    def empty(cls, most: int, width: int, outputs: int) -> Self:
        """Return it before the first row."""
        return cls(most, np.zeros((0, width)), np.zeros((0, outputs)), np.zeros((0, 2)))

    def copy(self) -> Self:
        """Return an independent copy; its arrays are never changed in place."""
        return replace(self)

    @property
    def nbytes(self) -> int:
        """Memory of the rows that are kept."""
        return sum(a.nbytes for a in (self.rows, self.targets, self.more, self.born))

    @property
    def start(self) -> int:
        """Number of the first rows that are kept: twice as many as there are centres, or more."""
        return max(1 << (2 * self.most - 1).bit_length(), LEAST)

    def next_look(self, t: int) -> int:
        """Return the first trial after `t` behind which centres are chosen or exchanged."""
        if t < self.start:
            return 1 << t.bit_length()
        return (t // EVERY + 1) * EVERY if self.most else NEVER

    def remixed(self, mixing: Array) -> Self:
        """Return it for outputs that are combinations of those so far; NaN is none of them."""
        made = np.zeros((len(self.targets), mixing.shape[1]))
        for i, j in np.argwhere(mixing):
            made[:, j] += mixing[i, j] * self.targets[:, i]
        return replace(self, targets=made)

    def look(self, learner: SecondOrderLearner, batch: Batch, gaps: Array | None) -> None:
        """Keep rows that were learned; choose or exchange centres, if it is time."""
        t = learner.t
        self.keep(t, batch.X, batch.Y, batch.weight, gaps)
        if t <= self.start:
            if t & (t - 1) == 0:
                self._choose(learner)
            if t == self.start:
                self._forget()
        elif self.most and t % EVERY == 0:
            self._exchange(learner)
        if t >= self.start and t % EVERY == 0:
            self.rows = self.rows[:0]

    def keep(
        self, t: int, X: Array, Y: Array, weight: Any = 1.0, gaps: Array | None = None
    ) -> None:
        """Keep rows that were learned, the last of them as trial t."""
        if t > self.start:
            self._forget()
        if t <= self.start or self.most:
            self.rows = np.concatenate([self.rows, np.asarray(X, np.float64) + 0.0])
        if t > self.start:
            return
        more = np.zeros((len(Y), 2))
        more[:, 0], more[:, 1] = weight, 0.0 if gaps is None else gaps
        self.targets = np.concatenate([self.targets, Y])
        self.more = np.concatenate([self.more, more])

    def _forget(self) -> None:
        """The first rows have told what they had to."""
        self.targets, self.more = self.targets[:0], self.more[:0]

    # -- several learners together -----------------------------------------------------------------

    @classmethod
    def joined(cls, parts: list[tuple[Self, float, int]]) -> Self:
        """Return the first rows of several: what each counts for, and which were met before."""
        rows = [one.rows[known:] for one, _, known in parts]
        targets = [one.targets[known:] for one, _, known in parts]
        more = [one.more[known:] * [count, 1.0] for one, count, known in parts]
        join = np.concatenate
        return replace(parts[0][0], rows=join(rows), targets=join(targets), more=join(more))

    def begin(self, learner: SecondOrderLearner) -> None:
        """Choose from all rows of several learners, and learn them."""
        self._choose(learner)
        if learner.t >= self.start:
            self._forget()
            self.rows = self.rows[:0]

    def continued(self, parts: list[Self], start: Self | None, t: int) -> Self:
        """Return it for several that have the same centres, after trial t in all."""
        more = 0 if start is None else len(parts) - 1
        once = (0.0, 0) if start is None else (start.cost, start.exchanged)
        return replace(
            self,
            rows=np.concatenate([one.rows for one in parts if not len(one.targets)])[
                -(EVERY - 1) :
            ],
            born=parts[0].born,
            cost=max(sum(one.cost for one in parts) - more * once[0], 0.0),
            exchanged=sum(one.exchanged for one in parts) - more * once[1],
        )

    # -- the first rows --------------------------------------------------------------------------

    def _choose(self, learner: SecondOrderLearner) -> None:
        """Take units and centres from all rows so far, and learn them anew."""
        learner.take_units(self.rows[-1])
        rows = learner.filled(self.rows)
        if self.most:
            _, first = np.unique(rows, axis=0, return_index=True)
            first = np.sort(first)
            if len(first) > self.most:
                first = first[np.linspace(0, len(first) - 1, self.most).round().astype(int)]
            learner.map = replace(learner.map, points=rows[first])
            self.born = np.zeros(len(first), np.int64)
        learner.begin_weights()
        learner.learn_again(rows, self.targets, *self.more.T)

    # -- exchange --------------------------------------------------------------------------------

    def _exchange(self, learner: SecondOrderLearner) -> None:
        """Let the rows that are least like any centre take the places of those worth least."""
        points, rows = learner.map.points, learner.filled(self.rows)
        count = min(max(self.most // PART, 1), EVERY)
        at, values = (learner.kernel_values(points, other) for other in (points, rows))
        came = novel(learner.kernel_values(rows, rows), np.diagonal(at), values, count)
        fresh = rows[came]
        free = self.most - len(points)
        old = np.flatnonzero(learner.t - self.born >= YOUNG)
        worth = covariance.costs(learner.theta, learner.cov)[: len(points)]
        going = np.sort(old[np.argsort(worth[old], kind="stable")][: max(len(fresh) - free, 0)])
        fresh = fresh[: free + len(going)]
        if not len(fresh):
            return
        staying = np.setdiff1d(np.arange(len(points)), going)
        vague = learner.vagueness(len(points))
        learner.theta, learner.cov, cost = covariance.without(learner.theta, learner.cov, going)
        own = at[np.ix_(staying, staying)]
        held = covariance.solved(own, values[np.ix_(staying, came[: len(fresh)])])
        learner.theta, learner.cov = covariance.with_like(
            learner.theta, learner.cov, held, vague, learner.rule.most
        )
        learner.map = replace(learner.map, points=np.concatenate([points[staying], fresh]))
        born = np.full(len(fresh), learner.t, np.int64)
        self.born, self.cost = np.concatenate([self.born[staying], born]), self.cost + cost
        self.exchanged += len(going)

    # -- files ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold."""
        kept = {name: getattr(self, name) for name in ("rows", "targets", "more", "born")}
        return {**kept, "cost": self.cost, "exchanged": self.exchanged}

    def restored(self, saved: Saved, t: int, centres: int) -> Self:
        """Return what a file holds, after trial t and with so many centres chosen."""
        early = t < self.start
        rows = t if early else None
        made = replace(
            self,
            rows=saved.array("rows", (rows, self.rows.shape[1]), np.float64, finite=False),
            targets=saved.array("targets", (rows, self.targets.shape[1]), np.float64, finite=False),
            more=saved.array("more", (rows, 2), np.float64, low=0.0),
            born=saved.array("born", (None,), np.int64, low=0),
            cost=saved.number("cost", low=0.0),
            exchanged=saved.whole("exchanged", high=t),
        )
        if len(made.rows) >= self.start or not len(made.targets) == len(made.more) <= len(
            made.rows
        ):
            raise saved.refuse(
                "rows", f"must be fewer than {self.start}, targets of the first ones"
            )
        if np.any(made.born > t) or len(made.born) != centres:
            raise saved.refuse("born", "must tell a trial so far for each centre")
        saved.finish()
        return made


def novel(own: Array, sizes: Array, values: Array, count: int) -> Array:
    """Return rows that are like no centre, and not like each other, the least like first.

    `own` are the rows' kernel values at each other, `sizes` the centres' at themselves, `values`
    [centres][rows] those of rows at centres.
    """
    size = np.sqrt(np.maximum(np.diagonal(own), 1e-300))
    length = np.sqrt(np.maximum(sizes, 1e-300))
    near = np.abs(values / (length[:, None] * size)).max(axis=0, initial=0.0)
    near[size <= 1e-150] = 1.0  # no kernel sees anything of it
    found: list[int] = []
    while len(found) < count:
        i = int(np.argmin(near))
        if not near[i] < ALIKE:
            break
        found.append(i)
        near = np.maximum(near, np.abs(own[:, i] / (size * size[i])))
        near[i] = 1.0
    return np.array(found, np.int64)
