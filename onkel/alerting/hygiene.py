"""Cool-down, episodes and ranks: fewer, better alerts out of a detector's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.params import Accept
from onkel.saved import Saved

Array = NDArray[Any]

__all__ = ["CoolDown", "Episode", "Episodes", "RecentScores", "cool_down", "episodes", "ranks"]

_ROWS = Accept(low=0, high=2**62, whole=True)
_SIZE = Accept(low=1, high=2**31, whole=True)


def flags_of(owner: str, alerts: Any, name: str = "alerts") -> Array:
    """Return alerts as booleans; -1 and +1, as a detector predicts, are refused."""
    flags = _array_of(alerts)
    if not _are_flags(flags):
        hint = " (a detector's predictions == -1)" if name == "alerts" else ""
        raise ValueError(
            f"{owner}: {name} must be a list of True and False, one per row{hint}; got "
            f"{np.array2string(flags, threshold=6)}."
        )
    return flags.astype(bool)


def _are_flags(flags: Array) -> bool:
    if flags.ndim != 1 or not len(flags) or flags.dtype == bool:
        return flags.ndim == 1
    try:
        return bool(np.isin(flags, (0, 1)).all())
    except TypeError:  # what is neither the same as 0 or 1 nor another, such as pandas.NA
        return False


def _array_of(values: Any) -> Array:
    """Return values as an array; of objects where they are none."""
    try:
        return np.asarray(values)
    except ValueError:  # lists of several lengths
        return np.asarray(values, object)


def values_of(owner: str, values: Any) -> Array:
    """Return finite numbers."""
    found = _array_of(values)
    try:
        numbers = found.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.full(found.shape, np.nan)
    if numbers.ndim != 1 or not np.all(np.isfinite(numbers)):
        raise ValueError(
            f"{owner}: values must be a list of finite numbers, one per row; got "
            f"{np.array2string(found, threshold=6)}."
        )
    return numbers


# -- cool-down ---------------------------------------------------------------------------------


@dataclass
class CoolDown:
    """After an alert that is shown, the next `rows` rows show none.

    Alerts that are held back do not lengthen the pause: a fault that lasts is shown again every
    ``rows + 1`` rows.

    Parameters
    ----------
    rows : int
        Length of the pause; 0 shows every alert.

    Examples
    --------
    >>> pause = CoolDown(rows=2)
    >>> pause.update([True, True]), pause.update([True, True])
    (array([ True, False]), array([False,  True]))
    """

    rows: int
    left: int = 0
    """Rows of the present pause that are still to come."""
    paused: dict[str | int, int] = field(default_factory=dict)
    """The same of each key that has a pause now."""

    def __post_init__(self) -> None:
        self.rows = _ROWS.check("CoolDown", "rows", self.rows)

    def update(self, alerts: Any, keys: Any = None) -> Array:
        """Return which of the next rows' alerts are shown.

        With `keys`, one of each row, each key has pauses of its own, by its own rows.
        """
        flags = flags_of("CoolDown", alerts)
        if keys is not None:
            return self._by_key(flags, keys)
        where, shown, start = np.flatnonzero(flags), np.zeros(len(flags), bool), self.left
        at = int(np.searchsorted(where, start))
        while at < len(where):
            shown[where[at]] = True
            start = int(where[at]) + 1 + self.rows
            at = int(np.searchsorted(where, start))
        self.left = max(start - len(flags), 0)
        return shown

    def _by_key(self, flags: Array, keys: Any) -> Array:
        if len(keys) != len(flags):
            raise ValueError(
                f"CoolDown: alerts and keys must be as many; got {len(flags)} and {len(keys)}."
            )
        shown, paused = flags.copy(), self.paused
        for i, key in enumerate(keys):
            left = paused.get(key)
            if left is not None:
                shown[i] = False
                paused[key] = left - 1
                if left == 1:
                    del paused[key]
            elif flags[i] and self.rows:
                paused[key] = self.rows
        return shown


def cool_down(alerts: Any, rows: int) -> Array:
    """Return which alerts are shown, if none may follow another within `rows` rows."""
    return CoolDown(rows).update(alerts)


# -- episodes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Episode:
    """Alerts that belong together; rows are counted from the start of the stream."""

    start: int
    """Row of its first alert."""
    end: int
    """Row of its last alert."""
    peak: float
    """The lowest value (score, decision or rank) of its alerts: how unusual it became."""
    peak_at: int
    """Row of that (the first, if several)."""
    count: int
    """Number of its alerts."""

    def joined(self, row: int, value: float) -> Episode:
        """Return the episode with one alert more."""
        lower = value < self.peak
        peak, at = (value, row) if lower else (self.peak, self.peak_at)
        return Episode(self.start, row, peak, at, self.count + 1)


@dataclass
class Episodes:
    """Groups alerts: those at most `gap` rows apart are one episode.

    Parameters
    ----------
    gap : int
        Rows from one alert to the next, at most; 1 joins neighbours only, 0 nothing.

    Examples
    --------
    >>> groups = Episodes(gap=2)
    >>> groups.update([True, False, True, False], [-1.0, 0.0, -3.0, 0.0])
    []
    >>> [episode.peak for episode in groups.update([False], [0.0])]
    [-3.0]
    """

    gap: int
    seen: int = 0
    """Rows so far."""
    current: Episode | None = None
    """The episode that may still go on."""

    def __post_init__(self) -> None:
        self.gap = _ROWS.check("Episodes", "gap", self.gap)

    def update(self, alerts: Any, values: Any) -> list[Episode]:
        """Take the next rows; return the episodes that ended, as soon as that is certain."""
        flags, numbers = flags_of("Episodes", alerts), values_of("Episodes", values)
        if len(flags) != len(numbers):
            raise ValueError(
                f"Episodes: alerts and values must be as many; got {len(flags)} and {len(numbers)}."
            )
        ended = list(self._ended(np.flatnonzero(flags).tolist(), numbers))
        self.seen += len(flags)
        if self.current is not None and self.seen - 1 - self.current.end >= self.gap:
            ended += self.close()
        return ended

    def _ended(self, where: list[int], values: Array) -> Iterator[Episode]:
        for i in where:
            row, value, old = self.seen + i, float(values[i]), self.current
            if old is not None and row - old.end <= self.gap:
                self.current = old.joined(row, value)
                continue
            if old is not None:
                yield old
            self.current = Episode(row, row, value, row, 1)

    def close(self) -> list[Episode]:
        """End the present episode, if there is one, and return it."""
        ended = [] if self.current is None else [self.current]
        self.current = None
        return ended


def episodes(alerts: Any, values: Any, gap: int) -> list[Episode]:
    """Return the episodes of a whole stream; see :class:`Episodes`."""
    groups = Episodes(gap)
    return groups.update(alerts, values) + groups.close()


# -- ranks -------------------------------------------------------------------------------------


@dataclass
class RecentScores:
    """The last scores, and where a score stands among them: a calibrated score.

    ``rank(s) = (1 + number of recent scores <= s) / (1 + number of recent scores)``

    It lies in (0, 1]; the lower, the more unusual. The score itself is counted, and one that is
    as low as others counts as no more unusual than they: if rows come in an order that does not
    matter (exchangeable), a rank of at most p has a chance of at most p.

    Parameters
    ----------
    size : int
        How many scores are remembered.

    Examples
    --------
    >>> recent = RecentScores(4)
    >>> recent.update([3.0, 1.0, 2.0, 2.0]).round(2)
    array([1.  , 0.5 , 0.67, 0.75])
    >>> recent.ranks([0.0, 9.0])
    array([0.2, 1. ])
    """

    size: int
    values: Array = field(default_factory=lambda: np.zeros(0))
    """A ring of `size` places; of as many as are needed, before there are so many scores."""
    at: int = 0
    """Where the next score goes."""
    count: int = 0
    """Places that are taken."""

    def __post_init__(self) -> None:
        self.size = _SIZE.check("RecentScores", "size", self.size)

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold of the scores: those that there are."""
        return {"size": self.size, "values": self.values[: self.count].copy(), "at": self.at}

    @classmethod
    def restored(cls, saved: Saved) -> RecentScores:
        """Return the scores that a file holds."""
        size, values = saved.whole("size", low=1, high=2**31), saved.array("values", (None,), float)
        count = len(values)
        at = saved.whole("at", high=size - 1)
        if count > size or (count < size and at != count):
            raise saved.refuse("at", f"does not fit {count} of {size} scores")
        saved.finish()
        return cls(size, values, at, count)

    def _make_room(self, count: int) -> None:
        """Let the ring grow so that it holds so many scores, or all that it ever will."""
        wanted = min(count, self.size)
        if wanted > len(self.values):
            more = min(max(wanted, 2 * len(self.values), 16), self.size) - len(self.values)
            self.values = np.concatenate([self.values, np.zeros(more)])

    def in_order(self) -> Array:
        """Return the remembered scores, oldest first."""
        if self.count < self.size:
            return self.values[: self.count].copy()
        return np.concatenate([self.values[self.at :], self.values[: self.at]])

    def ranks(self, scores: Any) -> Array:
        """Return the rank of each score among the remembered ones; nothing changes."""
        scores = values_of("RecentScores", scores)
        known = np.sort(self.values[: self.count])
        return (1.0 + np.searchsorted(known, scores, side="right")) / (1.0 + len(known))

    def add(self, score: float) -> None:
        """Remember one score."""
        at = self.at
        if at >= len(self.values):
            self._make_room(at + 1)
        self.values[at] = score
        self.at = at + 1 if at + 1 < self.size else 0
        if self.count < self.size:
            self.count += 1

    def extend(self, scores: Any) -> None:
        """Remember scores, in order."""
        came = np.asarray(scores, np.float64)
        last = came[-self.size :]
        end = self.at + len(came)  # where single ones would have led to
        self._make_room(self.count + len(last))
        self.values[(end - len(last) + np.arange(len(last))) % self.size] = last
        self.at = int(end % self.size)
        self.count = int(min(self.count + len(last), self.size))

    def update(self, scores: Any) -> Array:
        """Return the rank of each score among those before it, and remember all of them."""
        scores = values_of("RecentScores", scores)
        line = np.concatenate([self.in_order(), scores])
        found, before = np.empty(len(scores)), len(line) - len(scores)
        for i, score in enumerate(scores):
            window = line[max(before + i - self.size, 0) : before + i]
            found[i] = (1.0 + np.count_nonzero(window <= score)) / (1.0 + len(window))
        self.extend(scores)
        return found

    def copy(self) -> RecentScores:
        """Return an independent copy."""
        return replace(self, values=self.values.copy())


def ranks(scores: Any, size: int = 1000) -> Array:
    """Return the rank of each score among the `size` before it; see :class:`RecentScores`."""
    return RecentScores(size).update(scores)
