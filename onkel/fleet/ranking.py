"""Keys ranked by how unusual they are now, or how wrong their models were: what a page shows.

Of each key: rows, alerts, when it was heard last, how unusual its latest rows are, and how far its
inputs have drifted (of a key with few rows that is not told). Of a classifier the alerts are its
mistakes, of a regressor targets outside their intervals, with the size of the errors beside. Some
numbers each, whatever the models hold.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.fleet.groups import Key
from onkel.fleet.keys import Keys

Array = NDArray[Any]

LATE = 10
"""Rows over which "now" is taken."""
LATEST = 64
"""Rows of a key in one call that are looked at: what came before them has faded."""
MOST_FEATURES = 64
"""Drift is followed of the first so many."""
PART = 64
"""So many keys are saved together, if one of them was heard."""


class Ranking:
    """How all keys are doing; several threads may ask and tell.

    Examples
    --------
    >>> ranking = Ranking()
    >>> X = np.zeros((3, 1))
    >>> ranking.update(["a", "b", "a"], np.array([0.5, 0.001, 0.5]), np.array([0, 1, 0], bool))
    >>> [row["key"] for row in ranking.top(2)]
    ['b', 'a']
    >>> ranking.top(1)[0]["alerts"], len(ranking)
    (1, 2)
    """

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._keys = Keys()
        self._counts = np.zeros((0, 4), np.int64)
        """Rows, alerts, the last row and the last alert (numbers of all rows)."""
        self._levels = np.zeros((0, 3))
        """Mean -log p of late, the largest drift of a feature, in spreads, and the sum of errors.
        """
        self._late = np.zeros((0, 0), np.float32)
        """Means of the features of late, less their usual ones, in spreads."""
        self.rows = 0
        self._heard: set[int] = set()
        """Parts of which a key was heard since they were saved."""

    def __len__(self) -> int:
        return len(self._keys)

    # -- following -------------------------------------------------------------------------------

    def update(
        self, keys: Any, p: Array, alert: Array, X: Array | None = None,
        usual: Array | None = None, error: Array | None = None, counts: Array | None = None,
    ) -> None:  # fmt: skip
        """Take in what was said of rows.

        Parameters
        ----------
        keys : list or array
            Of each row.
        p : array
            How rare each row is, or its rank; NaN where that is not known.
        alert : array of bool
        X : array, optional
            The rows, and
        usual : array, optional
            the means and variances of their keys before each, [rows][2][features].
        error : array, optional
            How far predictions were off.
        counts : array of bool, optional
            Of labels and numbers: which rows are judged; of the others it is only noted that their
            keys were heard. How unusual rows are is not followed then.
        """
        with self._guard:
            with self._keys.entering(keys) as numbers:
                self._make_room()
            self._count(numbers, np.asarray(alert, bool), 1 if counts is None else counts)
            if error is not None:
                np.add.at(self._levels[:, 2], numbers, np.asarray(error, np.float64))
            if counts is None:
                self._follow(numbers, _surprise(p), _drifts(X, usual))

    def _count(self, numbers: Array, alert: Array, counts: Any) -> None:
        at = self.rows + np.arange(len(numbers))
        rows, alerts, last, alerted = self._counts.T
        np.add.at(rows, numbers, counts)
        np.add.at(alerts, numbers, alert)
        np.maximum.at(last, numbers, at + 1)
        np.maximum.at(alerted, numbers[alert], at[alert] + 1)
        self.rows += len(numbers)
        self._heard.update(np.unique(numbers // PART).tolist())

    def drop(self, keys: Iterable[Key]) -> None:
        """Forget keys; what is not known is left out."""
        with self._guard:
            for number in {self._keys.number(key) for key in keys} - {-1}:
                self._keys.remove(number)
                self._counts[number], self._levels[number], self._late[number] = 0, 0.0, 0.0

    def _make_room(self) -> None:
        more = self._keys.room - len(self._counts)
        if more > 0:
            more = max(more, len(self._counts), 64)
            self._counts = np.pad(self._counts, ((0, more), (0, 0)))
            self._levels = np.pad(self._levels, ((0, more), (0, 0)))
            self._late = np.pad(self._late, ((0, more), (0, 0)))

    def _follow(self, numbers: Array, surprise: Array, drifts: Array | None) -> None:
        """Move the levels of late, round by round: the first row of each key, then the second."""
        order = np.argsort(numbers, kind="stable")
        sorted_ = numbers[order]
        starts = np.flatnonzero(np.diff(sorted_, prepend=-1))
        sizes = np.diff(np.append(starts, len(order)))
        turn = np.arange(len(order)) - np.repeat(starts, sizes)
        ages = self._counts[sorted_, 0] - np.repeat(sizes, sizes) + turn + 1
        rounds = turn - np.repeat(np.maximum(sizes - LATEST, 0), sizes)  # below 0: has faded
        if drifts is not None and self._late.shape[1] != drifts.shape[1]:
            self._late = np.zeros((len(self._counts), drifts.shape[1]), np.float32)
            self._heard.update(range(-(-self._keys.room // PART)))
        for k in range(int(min(sizes.max(initial=0), LATEST))):
            at = rounds == k
            rows, share = order[at], 1.0 / np.minimum(ages[at], LATE)
            some = None if drifts is None else drifts[rows]
            self._step(numbers[rows], share, surprise[rows], some)

    def _step(self, numbers: Array, share: Array, surprise: Array, drifts: Array | None) -> None:
        known = ~np.isnan(surprise)
        level = self._levels[numbers, 0]
        self._levels[numbers, 0] = np.where(known, level + share * (surprise - level), level)
        if drifts is not None:
            late = self._late[numbers]
            late += share[:, None].astype(np.float32) * (drifts - late)
            self._late[numbers] = late
            self._levels[numbers, 1] = np.abs(late).max(axis=1, initial=0.0)

    # -- telling ---------------------------------------------------------------------------------

    def top(
        self, count: int = 50, by: str = "unusual", search: str = "", start: int = 0
    ) -> list[dict[str, Any]]:
        """Return what is known of some keys, those first that are highest.

        Parameters
        ----------
        count, start : int
            So many, after so many.
        by : {"unusual", "alerts", "share", "error", "drift", "rows", "latest"}
            What they are sorted by. Drift, share and error of keys with few rows come last.
        search : str
            Only keys that contain this text, whatever its case.
        """
        with self._guard:
            numbers = self._found(search)
            order = np.argsort(-self._values(by)[numbers], kind="stable")
            return [self._told(int(n)) for n in numbers[order][start : start + count]]

    def found(self, search: str = "") -> int:
        """Return how many keys contain a text."""
        with self._guard:
            return len(self._found(search))

    def _found(self, search: str) -> Array:
        taken = np.array(self._keys.taken(), np.int64)
        if not search:
            return taken
        wanted = search.casefold()
        return np.array([n for n in taken if wanted in str(self._keys.key(n)).casefold()], np.int64)

    def _values(self, by: str) -> Array:
        grown = self._counts[:, 0] >= GROWN
        rows = np.maximum(self._counts[:, 0], 1)
        share, error = self._counts[:, 1] / rows, self._levels[:, 2] / rows
        columns = {"unusual": self._levels[:, 0],
                   "drift": np.where(grown, self._levels[:, 1], -1.0),
                   "share": np.where(grown, share, share - 2.0),
                   "error": np.where(grown, error, -1.0 / (1.0 + error)),
                   "rows": self._counts[:, 0], "alerts": self._counts[:, 1],
                   "latest": self._counts[:, 2]}  # fmt: skip
        if by not in columns:
            raise ValueError(f"by must be one of {list(columns)}; got {by!r}.")
        return columns[by].astype(np.float64)

    def _told(self, number: int) -> dict[str, Any]:
        rows, alerts, last, alerted = self._counts[number].tolist()
        surprise, drift, error = self._levels[number].tolist()
        return {
            "key": self._keys.key(number), "rows": rows, "alerts": alerts,
            "last": last - 1, "last_alert": alerted - 1 if alerted else None,
            "unusual": math.exp(-surprise), "drift": drift if rows >= GROWN else None,
            "share": alerts / rows if rows else None, "error": error / rows if rows else None,
        }  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """Return the numbers of all keys together."""
        with self._guard:
            return self._summary()

    def _summary(self) -> dict[str, Any]:
        taken = np.array(self._keys.taken(), np.int64)
        counts, levels = self._counts[taken], self._levels[taken]
        return {
            "keys": len(taken), "rows": int(counts[:, 0].sum()),
            "alerts": int(counts[:, 1].sum()), "keys_with_alerts": int((counts[:, 1] > 0).sum()),
            "keys_unusual": int(((levels[:, 0] > UNUSUAL) & (counts[:, 0] >= LATE)).sum()),
            "keys_drifting": int(((levels[:, 1] > DRIFTING) & (counts[:, 0] >= GROWN)).sum()),
        }  # fmt: skip

    def key(self, key: Key) -> dict[str, Any] | None:
        """Return what is known of one key; None if nothing is."""
        with self._guard:
            number = self._keys.number(key)
            return None if number < 0 else self._told(number)

    # -- files -----------------------------------------------------------------------------------

    def heard(self) -> list[int]:
        """Return the numbers of the parts that changed since this was asked."""
        with self._guard:
            found, self._heard = sorted(self._heard), set()
            return found

    def dump(self, part: int) -> bytes:
        """Return all that is known of the keys of a part; none of any part was dropped."""
        with self._guard:
            first = part * PART
            stop = min(first + PART, self._keys.room)
            at, wide = slice(first, stop), self._late.shape[1]
            head = {"keys": [self._keys.key(n) for n in range(first, stop)], "features": wide}
            numbers = [a[at].tobytes() for a in (self._counts, self._levels, self._late)]
            return json.dumps(head).encode() + b"\n" + b"".join(numbers)

    def restore(self, parts: Iterable[bytes]) -> None:
        """Become what `dump` has given, of a ranking that knows no key yet; parts in order."""
        with self._guard:
            for data in parts:
                self._restore(*data.split(b"\n", 1))
            self.rows, self._heard = int(self._counts[:, 2].max(initial=0)), set()

    def _restore(self, head: bytes, rest: bytes) -> None:
        told = json.loads(head)
        count, wide = len(told["keys"]), told["features"]
        with self._keys.entering(told["keys"]) as numbers:
            self._make_room()
        if wide != self._late.shape[1]:
            self._late = np.zeros((len(self._counts), wide), np.float32)
        start = 0
        for held in (self._counts, self._levels, self._late):
            size = count * held.shape[1]
            held[numbers] = np.frombuffer(rest, held.dtype, size, start).reshape(count, -1)
            start += size * held.itemsize


UNUSUAL = -math.log(0.1)
"""A key is unusual whose latest rows have a mean p (its logarithm's) below a tenth."""
DRIFTING, GROWN = 1.5, 50
"""And drifts, if a feature of its latest rows is so many spreads from its mean; one with fewer rows
is not asked."""


def _surprise(p: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.minimum(-np.log(np.asarray(p, np.float64)), 40.0)


def _drifts(X: Array | None, usual: Array | None) -> Array | None:
    """Return how far rows are from the usual means of their keys, in spreads."""
    if X is None or usual is None or not len(usual):
        return None
    mean, variance = usual[:, 0, :MOST_FEATURES], usual[:, 1, :MOST_FEATURES]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = (X[:, :MOST_FEATURES] - mean) / np.sqrt(variance)
    return np.clip(np.nan_to_num(z, nan=0.0), -20.0, 20.0).astype(np.float32)
