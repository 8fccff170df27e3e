"""What is usual for each key, and among keys: by this rows of different keys are made alike.

Of a feature a key is taken to have a mean of its own, drawn from N(center, between), and a variance
that is like that of other keys. After n rows with mean m and variance v a row is expected at

    mean  = (n m / s + center / between) / (n / s + 1 / between)
    s     = (n v + 8 within) / (n + 8)
    spread² = s + 1 / (n / s + 1 / between)

so that a key without any row is one of the fleet, and one with many is itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.saved import Saved

Array = NDArray[Any]

PERIOD = 256
"""Rows after which what is usual among keys is taken anew."""
FIRST = 32
"""A key tells of itself at so many rows, and whenever they have doubled."""
WITHIN = 8.0
"""As many rows as the variance of other keys counts for."""
KEYS = 500.0
"""Keys over which the past of the fleet fades."""
FEW = 5
"""So many keys must have told of themselves."""
CLIP = 5.0
"""A value moves a key's moments as if it were no further off, in spreads."""
FURTHEST = 1e3


class Usual:
    """Running means and variances of the features of each key, and of the keys.

    Parameters
    ----------
    features : int
    memory : float
        Rows over which a key's past fades.

    Examples
    --------
    >>> usual, rng = Usual(1, 1e4), np.random.default_rng(0)
    >>> numbers, level = np.arange(4000) % 40, np.arange(40.0)[:, None]
    >>> z, known = usual.followed(numbers, rng.normal(size=(4000, 1)) + level[numbers])
    >>> int(np.argmax(known))
    1280
    >>> bool(abs(z[2000:].std() - 1) < 0.1)
    True
    >>> usual.center.round(0), np.sqrt(usual.between).round(0)
    (array([20.]), array([12.]))
    """

    def __init__(self, features: int, memory: float) -> None:
        self.features, self.memory = features, memory
        self.count = np.zeros(0, np.int64)
        """Rows of each key, and their"""
        self.mean, self.variance = np.zeros((2, 0, features))
        self.told = 0.0
        """Keys that have told of themselves, at most `KEYS`."""
        self.center, self.between = np.zeros((2, features))
        self.within = np.zeros((2, features))
        """Mean logarithm of the variances of keys that have one, and how many have."""
        self.rows = 0
        """Since what is usual among keys was taken anew."""
        self.telling: list[tuple[int, Array, Array]] = []
        """Since then: at which row a key has told of itself, its mean and variance."""

    def make_room(self, count: int) -> None:
        """Let there be keys of numbers up to so many."""
        more = count - len(self.count)
        if more > 0:
            more = max(more, len(self.count), 64)
            self.count = np.pad(self.count, (0, more))
            self.mean = np.pad(self.mean, ((0, more), (0, 0)))
            self.variance = np.pad(self.variance, ((0, more), (0, 0)))

    # -- what is expected ------------------------------------------------------------------------

    def expected(self, numbers: Array) -> tuple[Array, Array]:
        """Return mean and spread at which the next row of each key is expected.

        A spread is infinite where nothing is known of it.
        """
        n, m, v = self.count[numbers, None], self.mean[numbers], self.variance[numbers]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            s = self._variance(n, v)
            own = np.where(n > 0, n / s, 0.0)
            prior = 1.0 / self.between if self.told >= FEW else np.zeros(self.features)
            prior = np.where(np.isfinite(prior), prior, 0.0)
            weight = own + prior
            known = np.isfinite(weight) & (weight > 0)
            mean = np.where(known, (own * m + prior * self.center) / weight, m)
            spread = np.sqrt(s + np.where(known, 1.0 / weight, np.where(n > 0, 0.0, np.inf)))
        return mean, np.where(np.isnan(spread), np.inf, spread)

    def _variance(self, n: Array, v: Array) -> Array:
        others = np.where(self.within[1] > 0, np.exp(self.within[0]), 0.0)
        if self.told >= FEW:
            return (n * v + WITHIN * others) / (n + WITHIN)
        return np.where(n > 1, v, np.inf)

    def seen(self, numbers: Array, X: Array) -> Array:
        """Return rows as their keys see them, in spreads from what was expected; 0 of a gap."""
        return _standardised(X, *self.expected(numbers))

    # -- following -------------------------------------------------------------------------------

    def followed(self, numbers: Array, X: Array, live: Array | None = None) -> tuple[Array, Array]:
        """Return the same, each row before it is taken in; those not `live` are not.

        Beside it, whether anything was known of keys by then. Before that a young key has but its
        first few rows, by which the next one may lie any number of spreads away.
        """
        self.make_room(int(numbers.max(initial=-1)) + 1)
        live = np.ones(len(numbers), bool) if live is None else live
        Z, known, at = np.zeros(X.shape), np.zeros(len(X), bool), 0
        ends = self.rows + np.cumsum(live)
        while at < len(numbers):
            stop = int(np.searchsorted(ends, PERIOD)) + 1
            part = slice(at, min(stop, len(numbers)))
            known[part] = self.told >= FEW
            Z[part] = self._piece(numbers[part], X[part], live[part])
            self.rows += int(np.count_nonzero(live[part]))
            at = part.stop
            if self.rows >= PERIOD:
                self._settle()
                ends -= PERIOD
        return Z, known

    def _piece(self, numbers: Array, X: Array, live: Array) -> Array:
        """Follow rows up to the end of a period: the first row of each key, then the second."""
        Z = np.zeros(X.shape)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        sizes = np.diff(np.append(starts, len(order)))
        turn = np.arange(len(order)) - np.repeat(starts, sizes)
        by_turn = order[np.argsort(turn, kind="stable")]
        places, at = self.rows + np.cumsum(live), 0
        for size in np.bincount(turn).tolist():
            rows = by_turn[at : at + size]
            Z[rows] = self._turn(numbers[rows], X[rows], live[rows], places[rows])
            at += size
        return Z

    def _turn(self, numbers: Array, X: Array, live: Array, places: Array) -> Array:
        """Follow one row of each of several keys; `places` are theirs in the period."""
        mean, spread = self.expected(numbers)
        Z = _standardised(X, mean, spread)
        numbers, x, places = numbers[live], X[live], places[live]
        reach = CLIP * np.where(spread[live] > 0, spread[live], np.inf)
        with np.errstate(invalid="ignore"):
            x = np.clip(x, mean[live] - reach, mean[live] + reach)
        share = 1.0 / np.minimum(self.count[numbers] + 1.0, self.memory)[:, None]
        step = np.where(np.isnan(x), 0.0, x - self.mean[numbers])
        self.mean[numbers] += share * step
        grown = (1.0 - share) * (self.variance[numbers] + share * step * step)
        self.variance[numbers] = np.where(np.isnan(x), self.variance[numbers], grown)
        self.count[numbers] += 1
        now = self.count[numbers]
        for i in np.flatnonzero((now >= FIRST) & ((now & (now - 1)) == 0)).tolist():
            told = self.mean[numbers[i]].copy(), self.variance[numbers[i]].copy()
            self.telling.append((int(places[i]), *told))
        return Z

    def _settle(self) -> None:
        """Take in what keys have told of themselves, in the order of the rows."""
        for _, mean, variance in sorted(self.telling, key=lambda told: told[0]):
            self.told = min(self.told + 1.0, KEYS)
            share, step = 1.0 / self.told, mean - self.center
            self.center = self.center + share * step
            self.between = (1.0 - share) * (self.between + share * step * step)
            self._take_variance(variance)
        self.telling, self.rows = [], 0

    def _take_variance(self, variance: Array) -> None:
        level, count = self.within
        some = variance > 0
        count[some] = np.minimum(count[some] + 1.0, KEYS)
        level[some] += (np.log(variance[some]) - level[some]) / count[some]

    # -- keys ------------------------------------------------------------------------------------

    def put(self, number: int, count: int, mean: Array, variance: Array) -> None:
        """Let this be known of a key."""
        self.make_room(number + 1)
        self.count[number], self.mean[number], self.variance[number] = count, mean, variance

    def forget(self, numbers: Array) -> None:
        """Forget keys."""
        self.make_room(int(numbers.max(initial=-1)) + 1)
        self.count[numbers], self.mean[numbers], self.variance[numbers] = 0, 0.0, 0.0

    def record(self, number: int) -> bytes:
        """Return what is known of one key."""
        self.make_room(number + 1)
        head = np.array([self.count[number]], np.float64)
        return np.concatenate([head, self.mean[number], self.variance[number]]).tobytes()

    @property
    def width(self) -> int:
        """Bytes of a record."""
        return 8 * (1 + 2 * self.features)

    def read(self, record: bytes) -> tuple[int, Array, Array]:
        """Return what a record holds; a ValueError if it is none."""
        values = np.frombuffer(record, np.float64)
        fine = len(record) == self.width and bool(np.all(np.isfinite(values)))
        if not fine or not 0 <= values[0] <= 2**53 or np.any(values[1 + self.features :] < 0):
            raise ValueError("a record of a key is damaged, or of another model.")
        return int(values[0]), values[1 : 1 + self.features], values[1 + self.features :]

    # -- files -----------------------------------------------------------------------------------

    def dump(self) -> dict[str, Array]:
        """Return what a file must hold of the fleet; keys have records of their own."""
        moments = [[mean, variance] for _, mean, variance in self.telling]
        return {
            "told": np.array([self.told, self.rows]),
            "places": np.array([place for place, _, _ in self.telling], np.int64),
            "telling": np.array(moments, np.float64).reshape(-1, 2, self.features),
            "center": self.center, "between": self.between, "within": self.within.copy(),
        }  # fmt: skip

    def restore(self, saved: Saved) -> None:
        """Be what a file holds."""
        d = self.features
        told, rows = saved.array("told", (2,), np.float64, low=0.0).tolist()
        if told > KEYS or rows != int(rows) or rows >= PERIOD:
            raise saved.refuse("told", "is out of range")
        places = saved.array("places", (None,), np.int64, low=0)
        telling = saved.array("telling", (len(places), 2, d), np.float64)
        if len(places) > PERIOD or np.any(telling[:, 1] < 0):
            raise saved.refuse("telling", "is out of range")
        self.center = saved.array("center", (d,), np.float64).copy()
        self.between = saved.array("between", (d,), np.float64, low=0.0).copy()
        self.within = saved.array("within", (2, d), np.float64).copy()
        if np.any(self.within[0] > 1400) or np.any((self.within[1] < 0) | (self.within[1] > KEYS)):
            raise saved.refuse("within", "is out of range")
        self.told, self.rows = told, int(rows)
        self.telling = [(int(p), t[0], t[1]) for p, t in zip(places, telling, strict=True)]


def _standardised(X: Array, mean: Array, spread: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = (X - mean) / spread
    return np.clip(np.nan_to_num(z, nan=0.0, posinf=FURTHEST, neginf=-FURTHEST),
                   -FURTHEST, FURTHEST)  # fmt: skip
