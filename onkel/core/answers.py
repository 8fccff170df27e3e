"""Answers to alerts: places at which rows are usual, or faults, whatever has been learned there.

An alert is a row x, its step from the row before, and the mean of the last rows. When it is
answered, it becomes a place e, seen in the units of then: z = (value - center) / spread, of each of
the three. How like it another row is, after so many rows more,

    k = exp(-D^2 - (age / memory - 1)+),    D the largest of the three
    D = s (sum_j w_j |z_j(x) - z_j(e)| / radius + sqrt(sum_j (|z_j(x)| - limit_j)+^2) / 3),

counts what made the alert stand out: ``w ~ z(e)^2 + 0.1``, and the radius grows with how far that
was. Values that stand out where the alert's did not make a row another one (limit). s is 1; of a
fault it is as much as leaves hardly any of the rows that were learned as usual within k >= 1/2, so
that an answer given by mistake does not make alerts of them.

What stands out of a row may also be known from several places, each of its values from another. A
value u spreads from its mean (those of now) is known from a place whose own was e on that side by

    k_j = exp(-(r c)^2 - (age / memory - 1)+),  c = ((u - e)+ + (e - u)+ / sqrt d) / (1/2 + 0.3 e),

r from 0 to 1 as u goes from 2 to 3: to be less far out on the same side counts little, with many
features. The second best usual place counts, so that one answer given by mistake does not open a
value to all that comes. The row is known by its least known value; one in which nothing stands out
is not known so.

``-log p`` of a row becomes ``(1 - k) (-log p)`` by the usual place that is most like it, or by how
its values are known, or ``max(-log p, k strength)`` by a fault, whichever is more alike; a row with
k >= 1/2 of a fault is an alert, and is not learned. A row that is no alert only because its values
are known one by one is learned as if it were one: nobody has judged them together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core.answer_places import NEAR, STANDS_OUT, WIDER, beyond, place_of, sharpness

Array = NDArray[Any]

KINDS = ("usual", "fault")
ROOM = 1000
"""Alerts that can be answered, the last ones, unless something else is asked for."""
MOST = 128
"""Answers that are kept, of each kind; the oldest go."""
STRONGER = 0.5
"""A fault's kind is at least so far beyond the lowest level."""
SEEN = 1.0
"""A value begins to stand out so many spreads before it does."""
ALIKE = 0.5
"""A row as like an answered alert as this is one of its kind."""
EARLY = -1.0
"""In the place of the tie: an alert that its own detector did not raise, being too young."""


@dataclass(frozen=True)
class Promise:
    """A promised precision: theta moves against what was dismissed.

    ``theta <- theta + rate (share - dismissed)``, at most `high`

    Parameters
    ----------
    share : float
        Of the answered alerts that may be dismissed, 1 - precision.
    start, high : float
        Where theta begins, and its highest value; log p.
    rate : float
    alone : bool
        Whether it judges instead of the level of the alert rate, not beside it.
    """

    share: float
    start: float
    high: float
    rate: float = 0.25
    alone: bool = False


class Heard(NamedTuple):
    """What answers make of -log p."""

    score: float
    alone: float
    """The same if no values were known one by one."""
    fault: bool = False
    """Whether the row is of a fault's kind."""


@dataclass
class Answers:
    """What was answered, what waits, and the level that follows the answers."""

    d: int
    memory: float
    promise: Promise | None = None
    room: int = ROOM
    """Alerts that can be answered: the last ones."""
    places: Array = field(default_factory=lambda: np.zeros((0, 5, 3, 1)))
    """Center, spread, place, weight, limit of row, step and mean: [answers][5][3][d]."""
    radius: Array = field(default_factory=lambda: np.zeros((0, 4)))
    """Of row, step and mean; and s."""
    strength: Array = field(default_factory=lambda: np.zeros(0))
    """-log p of a fault's kind; 0 of what is usual."""
    born: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """Rows learned when the answer came."""
    of: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """Which alert it was."""
    asked: Array = field(default_factory=lambda: np.zeros((0, 2)))
    """A ring of alerts: row, step, mean, log p, tie (or `EARLY`)."""
    asked_at: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """Rows learned before each: its number."""
    said: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    """0 while it waits, then 1 + the place of its answer in `KINDS`."""
    asked_count: Array = field(default_factory=lambda: np.zeros(2, np.int64))
    """All alerts so far, and rows that would have been alerts but for an answer."""
    answered: int = 0
    """Alerts that were answered, ..."""
    dismissed: int = 0
    """... those of them that were usual, ..."""
    theta: float = 0.0
    """... where that has led (log p), ..."""
    unspent: float = 0.0
    """... and what its upper limit cut off."""
    bound: Any = None
    """The same as the compiled core takes it."""

    def __post_init__(self) -> None:
        if not len(self.born):
            self.places = np.zeros((0, 5, 3, self.d))
        if not len(self.asked_at):
            self.asked = np.zeros((0, 3 * self.d + 2))

    @classmethod
    def none(cls, d: int, memory: float, promise: Promise | None = None, room: int = ROOM) -> Self:
        """Return what there is before the first row."""
        return cls(d, memory, promise, room, theta=0.0 if promise is None else promise.start)

    def copy(self) -> Self:
        """Return an independent copy; answers are never changed in place, the ring is."""
        rings = {name: getattr(self, name).copy() for name in _RING}
        return replace(self, **rings, bound=None)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs: not what is bound to these very arrays."""
        return {**self.__dict__, "bound": None}

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return sum(getattr(self, name).nbytes for name in (*_RING, *_GIVEN))

    @property
    def blank(self) -> bool:
        """Whether nothing was ever asked, and nothing answered."""
        return not self.asked_count.any() and not len(self.born)

    def native(self, made: Any) -> Any:
        """Return the same as the compiled core takes it, which writes to the ring."""
        if self.bound is None:
            promise = self.promise
            self.bound = made(
                self.places, self.radius, self.strength, self.born, self.memory, self.theta,
                promise is not None, promise is not None and promise.alone, self.asked,
                self.asked_at, self.said, self.asked_count,
            )  # fmt: skip
        return self.bound

    def make_room(self, rows: int) -> None:
        """Let the ring hold what so many more rows may bring."""
        there = len(self.asked_at)
        wanted = min(int(self.asked_count[0]) + rows, self.room)
        if wanted > there:
            self.bound = None
            more = min(max(wanted, 2 * there, 16), self.room) - there
            self.asked = np.pad(self.asked, ((0, more), (0, 0)))
            self.asked_at, self.said = (
                np.pad(self.asked_at, (0, more)),
                np.pad(self.said, (0, more)),
            )

    # -- judging (the compiled core has the same) ------------------------------------------------

    def level(self, rate: float) -> float:
        """Return the level below which log p is an alert; `rate` is that of the alert rate."""
        if self.promise is None:
            return rate
        return self.theta if self.promise.alone else min(rate, self.theta)

    def likeness(self, seen: Array, t: int) -> Array:
        """Return how like each answered alert a row is; `seen` holds row, step and mean."""
        center, spread, place, weight, limit = np.moveaxis(self.places, 1, 0)
        z = (seen - center) / spread
        apart = (weight * np.abs(z - place)).sum(axis=2) / self.radius[:, :3]
        more = beyond(z, limit)
        far = self.radius[:, 3] * (apart + more).max(axis=1)
        with np.errstate(over="ignore"):  # what is so far away is not alike
            found: Array = np.exp(-(far**2) - self._faded(t))
        return found

    def _faded(self, t: int) -> Array:
        """Return by how much each answer has faded: not at all while its memory lasts."""
        return np.maximum((t - self.born) / self.memory - 1.0, 0.0)

    def known(self, z: Array, t: int) -> float:
        """Return how a row is known by what stands out of it, each value from a place of its own.

        `z` holds row, step and mean in spreads from their means of now; 0 where none is looked at.
        """
        u, usual = np.abs(z), self.strength == 0
        out = u > STANDS_OUT - SEEN
        if not (u >= STANDS_OUT).any() or np.count_nonzero(usual) < 2:
            return 0.0
        r = np.minimum(u[out] - (STANDS_OUT - SEEN), 1.0)
        e = np.maximum(self.places[usual, 2][:, out] * np.sign(z[out]), 0.0)
        apart = np.maximum(u[out] - e, 0.0) + np.maximum(e - u[out], 0.0) / np.sqrt(self.d)
        faded = self._faded(t)[usual, None]
        like = np.exp(-((r * apart / (NEAR + WIDER * e)) ** 2) - faded)
        return float(np.sort(like, axis=0)[-2].min())

    def heard(self, seen: Array, z: Array, t: int, score: float, level: float) -> Heard:
        """Return what answers make of -log p."""
        like, bad = self.likeness(seen, t), self.strength > 0
        usual, fault = float(like[~bad].max(initial=0.0)), float(like[bad].max(initial=0.0))
        both, raised, kind = max(usual, self.known(z, t)), score, fault >= ALIKE
        if fault > 0:
            strength = float(self.strength[bad][np.argmax(like[bad])])
            raised = max(score, fault * strength, 0.1 - level if kind else 0.0)
        return Heard(
            raised if fault > both else score * (1 - both),
            raised if fault > usual else score * (1 - usual), kind and fault > both,
        )  # fmt: skip

    def ask(self, seen: Array, t: int, score: float, tied: float) -> None:
        """Keep a row that raised an alert, until others have taken its place."""
        if not len(self.asked_at):
            return
        at = int(self.asked_count[0]) % len(self.asked_at)
        self.asked_count[0] += 1
        self.asked[at] = np.concatenate([seen.ravel(), [0.0 - score, tied]])
        self.asked_at[at], self.said[at] = t, 0

    def with_early(self, numbers: Array, rows: Array, scores: Array) -> Self:
        """Return the same with alerts that others have raised, which may come late.

        Of these the row alone is known, not its step: their tie is `EARLY`.
        """
        other = self.copy()
        if not self.room:
            return other
        own, held = np.zeros((len(rows), 3 * self.d + 2)), self.kept()
        own[:, : self.d], own[:, -2], own[:, -1] = rows, scores, EARLY
        at = np.concatenate([self.asked_at[held], numbers])
        last = np.argsort(at, kind="stable")[-self.room :]
        other.asked_count[0] += len(rows)
        turn = int(other.asked_count[0]) % self.room if len(last) == self.room else 0
        order = np.roll(last, turn)
        other.asked = np.concatenate([self.asked[held], own])[order]
        other.asked_at = at[order]
        other.said = np.concatenate([self.said[held], np.zeros(len(rows), np.uint8)])[order]
        return other

    def is_early(self, at: int) -> bool:
        """Whether others have raised an alert, of which the row alone is known."""
        return bool(self.asked[at, -1] < 0)

    # -- answering -------------------------------------------------------------------------------

    def kept(self) -> Array:
        """Return the alerts that are kept, the oldest first: places in the ring."""
        count, room = int(self.asked_count[0]), len(self.asked_at)
        if count <= room:
            return np.arange(count)
        return (count + np.arange(room)) % room

    def find(self, number: int) -> int:
        """Return where an alert is kept; -1 if it is not."""
        held = self.kept()
        at = held[self.asked_at[held] == number]
        return int(at[0]) if len(at) else -1

    def row_of(self, at: int) -> Array:
        """Return row, step and mean of an alert, [3][d]."""
        found: Array = self.asked[at, : 3 * self.d].reshape(3, self.d)
        return found

    def answer(self, at: int, kind: int, t: int, frame: Array, least: float, usual: Array) -> Self:
        """Return all of it with one more answer; of one alert the last one counts, once.

        The same answer given again is not counted, but begins to hold anew.

        Parameters
        ----------
        at : int
            The alert's place in the ring.
        kind : int
            0 for usual, 1 for a fault.
        t : int
            Rows learned so far.
        frame : array, [2][3][d]
            Means and spreads of rows, steps and late means; a spread of 0 is not compared.
        least : float
            -log p that a fault has, at least.
        usual : array, [rows][2][d]
            Rows that were learned as usual, and their steps.
        """
        other, before = self.copy(), int(self.said[at])
        other.said[at] = kind + 1
        if before != kind + 1:
            other._count(before - 1 if before else None, kind)
        number, tied = int(self.asked_at[at]), bool(self.asked[at, -1] > 0)
        place, radius = place_of(self.row_of(at), frame, tied)
        if kind:
            radius[3] = sharpness(place, radius, usual)
        strength = max(-float(self.asked[at, -2]), least) if kind else 0.0
        stay = self._staying(number, kind)
        other.places = np.concatenate([self.places[stay], place[None]])
        other.radius = np.concatenate([self.radius[stay], radius[None]])
        other.strength = np.append(self.strength[stay], strength)
        other.born, other.of = np.append(self.born[stay], t), np.append(self.of[stay], number)
        return other

    def _staying(self, number: int, kind: int) -> Array:
        """Return which answers stay: not that of the same alert, nor the oldest of too many."""
        stay = self.of != number
        same = np.flatnonzero(stay & ((self.strength > 0) == bool(kind)))
        stay[same[: max(len(same) - MOST + 1, 0)]] = False
        return stay

    def _count(self, before: int | None, kind: int) -> None:
        """Count an answer, and let theta follow it; `before`: what it was till now."""
        was, now = before == 0, kind == 0
        self.dismissed += now - was
        self.answered += before is None
        if self.promise is None:
            return
        share = self.promise.share if before is None else 0.0
        theta = self.theta + self.promise.rate * (share - (now - was))
        self.unspent += max(theta - self.promise.high, 0.0)
        self.theta = min(theta, self.promise.high)

    # -- more features, other models -------------------------------------------------------------

    def widened(self, values: Array) -> Self:
        """Return the same for rows with more features, in which answered alerts are not seen.

        `values` is what they were in every row so far.
        """
        other, n, more = self.copy(), len(self.born), len(values)
        new = np.zeros((n, 5, 3, more))
        new[:, 1], new[:, 4] = np.inf, np.inf
        other.places = np.concatenate([self.places, new], axis=3)
        asked = self.asked[:, : 3 * self.d].reshape(-1, 3, self.d)
        past = np.stack([values, np.zeros(more), values])
        asked = np.concatenate([asked, np.repeat(past[None], len(asked), axis=0)], axis=2)
        other.asked = np.concatenate([asked.reshape(len(asked), -1), self.asked[:, -2:]], axis=1)
        other.d = self.d + more
        return other

    def joined(self, others: list[Answers], later: list[int], hushed: int) -> Self:
        """Return the answers of several, each once, and no alerts that wait.

        The promise begins anew. `later`: by how many rows each is behind the whole. Answers of
        several models are of alert 0 from then on, since no row of the whole has their numbers.
        """
        whole = type(self).none(self.d, self.memory, self.promise, self.room)
        parts: list[Answers] = [self, *others]
        held = {n: np.concatenate([getattr(p, n) for p in parts]) for n in _GIVEN}
        shift = np.repeat(np.array(later, np.int64), [len(p.born) for p in parts])
        held["born"] = held["born"] + shift
        held["of"] = held["of"] * (not others)
        order = np.argsort(held["born"], kind="stable")
        same = {held["places"][i].tobytes(): i for i in order.tolist()}
        kept = np.array([i for i in order.tolist() if same[held["places"][i].tobytes()] == i], int)
        bad = held["strength"][kept] > 0
        late = np.concatenate([kept[~bad][-MOST:], kept[bad][-MOST:]])
        late = late[np.argsort(held["born"][late], kind="stable")]
        for name in _GIVEN:
            setattr(whole, name, held[name][late])
        whole.asked_count[1] = hushed
        return whole

    # -- files -----------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold: the ring from its oldest alert on."""
        order = self.kept()
        rings = {"asked": self.asked[order], "asked_at": self.asked_at[order]}
        return {
            **{name: getattr(self, name) for name in _GIVEN}, **rings, "said": self.said[order],
            "counts": np.array([*self.asked_count, self.answered, self.dismissed]),
            "theta": np.array([self.theta, self.unspent]),
        }  # fmt: skip


_RING = ("asked", "asked_at", "said", "asked_count")
_GIVEN = ("places", "radius", "strength", "born", "of")
