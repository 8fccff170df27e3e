"""How often each value came: what is rare, and what explanations say of it.

Counts are kept of the values of each category, of the words of each text, and of the hours of the
week; in bounded room, and halved from time to time, so that they follow the world.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns import weeks
from onkel.columns.codes import code_of
from onkel.columns.plan import Encoded, Plan
from onkel.columns.said import HALF, Codes, Said, Values, heard
from onkel.saved import Saved

Array = NDArray[Any]

HORIZON = 100_000
"""When so many rows count, all counts are halved."""
KEPT = 2000
"""Values of a column that are kept, the most frequent ones, where there are twice as many."""
RARE = 0.01
"""Of a text's words those that came in fewer of the rows are rare by themselves."""
SELDOM = 0.001
"""What came in no more of the rows may be called a fault: hardly any usual row has it."""
EVERY = 1024
"""Halving and leaving out happen when a multiple of so many rows has come."""


class Tally:
    """Counts of the values that came.

    Examples
    --------
    >>> from onkel.columns.plan import Typed
    >>> from onkel.columns.raw import Raw
    >>> plan = Plan((Typed("carrier", "category"),))
    >>> tally = Tally(plan)
    >>> tally.take(plan.encode(Raw(["carrier"], [["AA", "AA", "UA"]], 3)))
    >>> tally.seen("carrier", "AA"), tally.rows
    (2.0, 3.0)
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rows, self.came = 0.0, 0
        """Rows that count, and rows that came."""
        groups = [*plan.counted, *plan.texts]
        self.counts: dict[str, dict[int, float]] = {name: {} for name in groups}
        self.names: dict[str, dict[int, str]] = {name: {} for name in groups}
        self.weeks = {c.name: np.zeros(weeks.HOURS) for c in plan.of("time")}
        """Of each time: how often each hour of the week came."""
        self.said = Said(len(self.counts) + len(self.weeks))
        """What answers to alerts have said of values."""

    @property
    def rare_columns(self) -> list[str]:
        """The columns whose values may be rare, in the order of :meth:`rarity`."""
        return [*self.counts, *self.weeks]

    def _codes(self, X: Array) -> Iterator[tuple[str, list[list[int]]]]:
        """Yield for each column the codes of each row: a text's are those of its words."""
        counted = self.plan.counted
        columns = X[:, : len(counted)].astype(int).T.tolist()
        for name, codes in zip(counted, columns, strict=True):
            yield name, [[code] for code in codes]
        yield from self._words(X)

    def _words(self, X: Array) -> Iterator[tuple[str, list[list[int]]]]:
        plan = self.plan
        for i, name in enumerate(plan.texts):
            at = len(plan.categories) + i * plan.places
            rows = X[:, at : at + plan.places].astype(int).tolist()
            yield name, [[code for code in row if code] or [0] for row in rows]

    def _counted(self, X: Array) -> Iterator[tuple[str, dict[int, int]]]:
        """Yield for each column how often each code stands there."""
        plan = self.plan
        columns = X[:, : len(plan.counted)].T.astype(np.int64)
        for name, codes, runs in zip(plan.counted, columns, np.sort(columns), strict=True):
            found = _lengths(runs)
            # New ones are taken in the order in which they came, so that cuts do not matter.
            known = found.keys() <= self.counts[name].keys()
            yield name, found if known else Counter(codes.tolist())
        for name, words in self._words(X):
            yield name, Counter(chain.from_iterable(words))

    # -- counting ----------------------------------------------------------------------------------

    def take(self, rows: Encoded) -> None:
        """Take rows in."""
        if len(rows) == 1:
            self._take_one(rows)
            return
        start = 0
        while start < len(rows):
            stop = min(len(rows), start + EVERY - self.came % EVERY)
            for name, found in self._counted(rows.X[start:stop]):
                counts, names, texts = self.counts[name], self.names[name], rows.names[name]
                for code, count in found.items():
                    if code not in counts:
                        counts[code], names[code] = 0.0, texts.get(code, "")
                    counts[code] += count
            for name, hours in self._hours(rows.X[start:stop]):
                for hour, count in Counter(hours).items():
                    self.weeks[name][hour] += count * (hour >= 0)
            self._came(stop - start)
            start = stop

    def _take_one(self, row: Encoded) -> None:
        for name, (codes,) in self._codes(row.X):
            counts = self.counts[name]
            for code in codes:
                if code not in counts:
                    counts[code], self.names[name][code] = 0.0, row.names[name].get(code, "")
                counts[code] += 1.0
        for name, (hour,) in self._hours(row.X):
            self.weeks[name][hour] += hour >= 0
        self._came(1)

    def _hours(self, X: Array) -> Iterator[tuple[str, list[int]]]:
        """Yield for each time the hour of the week of each row, -1 where there is none."""
        for name, at in self.plan.weekdays.items():
            hours = weeks.hours_of(X[:, at], X[:, at + 1])
            yield name, np.nan_to_num(hours, nan=-1.0).astype(np.int64).tolist()

    def _came(self, rows: int) -> None:
        self.rows += rows
        self.came += rows
        if self.came % EVERY == 0:
            self._settle()

    def _settle(self) -> None:
        """Halve the counts at their time, and leave out what is rare where there is too much."""
        if self.rows >= HORIZON:
            self.rows /= 2
            for counts in self.counts.values():
                counts.update({code: n / 2 for code, n in counts.items()})
            self.weeks = {name: counts / 2 for name, counts in self.weeks.items()}
        self.said = self.said.since(self.came)
        for name, counts in self.counts.items():
            if len(counts) > 2 * KEPT:
                kept = sorted(counts, key=lambda code: (-counts[code], code))[:KEPT]
                self.counts[name] = {code: counts[code] for code in kept}
            self.names[name] = {c: t for c, t in self.names[name].items() if c in self.counts[name]}

    # -- what is rare ------------------------------------------------------------------------------

    def rarity(self, rows: Encoded) -> Array:
        """Return how rare each value is as things are, 0 for what is not.

        ``max(log((1 + rows) / (1 + times seen)) - log 2, 0)``

        What is more than half of all is exactly as rare as it ever was, so that one other value
        does not change what all rows look like. Of a text it is the mean over its words before it
        is cut; of a time the hours about it count, beside those of a week without usual hours.
        """
        return self._looked(rows, learning=False)

    def followed(self, rows: Encoded) -> Array:
        """Return how rare each value is when it comes, after the rows before it."""
        if len(rows) == 1:
            return self._looked_at(rows.X)
        found, start, tally = [np.empty((0, len(self.counts) + len(self.weeks)))], 0, self
        while start < len(rows):
            stop = min(len(rows), start + EVERY - tally.came % EVERY)
            part = rows[start:stop]
            found.append(tally._looked(part, learning=True))
            if stop < len(rows):
                tally = tally.copy() if tally is self else tally
                tally.take(part)
            start = stop
        return np.concatenate(found)

    def partly_followed(self, rows: Encoded, learned: Array) -> Array:
        """Return the same where some rows are only looked at."""
        tally, found = self.copy(), []
        edges = np.flatnonzero(np.diff(learned)) + 1
        for start, stop in pairwise([0, *edges.tolist(), len(rows)]):
            part = rows[start:stop]
            found.append(tally.followed(part) if learned[start] else tally.rarity(part))
            if learned[start]:
                tally.take(part)
        return np.concatenate(found)

    def _looked(self, rows: Encoded, learning: bool) -> Array:
        """Return the same of rows before which nothing is halved or left out."""
        if len(rows) == 1:
            return self._looked_at(rows.X)
        came = [self.rows + learning * i for i in range(len(rows))]
        first, said, found = self.came, iter(self.said.of_columns), []
        for name, codes in self._codes(rows.X):
            seen, own = _seen(self.counts[name], codes, learning), next(said)
            rare = [_rare(n, mean) for n, mean in zip(came, seen, strict=True)]
            if own:
                logs = _logs(self.counts[name], codes, learning)
                rare = [
                    heard(own, codes[i], each, came[i], first + learning * i, rare[i])
                    for i, each in enumerate(logs)
                ]
            found.append(rare)
        for name, hours in self._hours(rows.X):
            counts, rare, own = self.weeks[name].tolist(), [], next(said)
            for i, (hour, n) in enumerate(zip(hours, came, strict=True)):
                alone = _rare_hour(n, counts, hour)
                at = first + learning * i
                rare.append(heard(own, (hour,), (), n, at, alone) if own else alone)
                counts[hour] += learning and hour >= 0
            found.append(rare)
        return np.array(found, np.float64).reshape(len(found), len(rows)).T

    def _looked_at(self, X: Array) -> Array:
        """Return the same of one row, quicker."""
        said, found = iter(self.said.of_columns), []
        for name, codes in self._codes(X):
            own, counts = next(said), self.counts[name]
            rare = _rare(self.rows, *_seen(counts, codes, learning=False))
            if own:
                (logs,) = _logs(counts, codes, learning=False)
                rare = heard(own, codes[0], logs, self.rows, self.came, rare)
            found.append(rare)
        for name, (hour,) in self._hours(X):
            alone, own = _rare_hour(self.rows, self.weeks[name], hour), next(said)
            found.append(heard(own, (hour,), (), self.rows, self.came, alone) if own else alone)
        return np.array([found])

    def unsaid(self) -> Tally:
        """Return it as if nothing had been answered; the counts are the same ones."""
        other = object.__new__(Tally)
        other.__dict__.update(self.__dict__, said=Said(self.said.columns))
        return other

    # -- alerts --------------------------------------------------------------------------------

    def values(self, row: Encoded) -> list[Codes]:
        """Return the values of one row, of each of the columns that may be rare."""
        found = [tuple(codes) for _, (codes,) in self._codes(row.X)]
        return found + [(hour,) for _, (hour,) in self._hours(row.X)]

    def values_of_alerts(self, rows: Encoded, at: list[int]) -> list[Values]:
        """Return the values of some of the rows that are about to be taken, as they are then."""
        tally, start, found = self, 0, []
        for i in at:
            edge = i - (tally.came + i - start) % EVERY  # nothing is halved after it
            if edge > start:
                tally = tally.copy() if tally is self else tally
                tally.take(rows[start:edge])
                start = edge
            found.append(tally._values_of_alert(rows[i], rows[start:i]))
        return found

    def _values_of_alert(self, row: Encoded, before: Encoded) -> Values:
        """Return the values of an alert that comes after some rows; of a text its rare words."""
        first, came = len(self.plan.counted), self.rows + len(before)
        texts = range(first, first + len(self.plan.texts))
        pairs = list(zip(self.values(row), self._seen_of(row, before), strict=True))
        rare = [
            _below(codes, seen, RARE * came if j in texts else math.inf)
            for j, (codes, seen) in enumerate(pairs)
        ]
        return Values(rare, [_below(codes, seen, SELDOM * came) for codes, seen in pairs])

    def _seen_of(self, row: Encoded, before: Encoded) -> Iterator[list[float]]:
        """Yield of each column how often its values came; of a time, the hours about its own."""
        plan, X = self.plan, before.X
        for j, name in enumerate(plan.counted):
            code = int(row.X[0, j])
            yield [self.counts[name].get(code, 0.0) + np.count_nonzero(X[:, j] == code)]
        for i, (name, (codes,)) in enumerate(self._words(row.X)):
            at, counts = len(plan.categories) + i * plan.places, self.counts[name]
            words = X[:, at : at + plan.places]
            yield [
                counts.get(c, 0.0)
                + (np.count_nonzero(words == c) if c else np.count_nonzero(~words.any(axis=1)))
                for c in codes
            ]
        there = dict(self._hours(X))
        for name, (hour,) in self._hours(row.X):
            more = np.bincount(np.array(there[name], np.int64) + 1, minlength=weeks.HOURS + 1)
            near = weeks.near(self.weeks[name] + more[1:], hour)
            yield [near if hour >= 0 else self.rows + len(before)]

    # -- asking ------------------------------------------------------------------------------------

    def seen(self, column: str, text: str) -> float:
        """Return how often a value of a category was seen, of the last `rows`."""
        return self.counts[column].get(code_of(text), 0.0)

    def knows_all(self, column: str) -> bool:
        """Whether every value that came is counted: none can have been left out."""
        return len(self.counts[column]) < KEPT

    def usual(self, column: str, most: int = 3) -> list[tuple[str, float]]:
        """Return the most frequent values of a column and their shares."""
        counts, names = self.counts[column], self.names[column]
        found = sorted(counts, key=lambda code: (-counts[code], code))[:most]
        return [(names.get(code, ""), counts[code] / max(self.rows, 1.0)) for code in found]

    # -- copies and files --------------------------------------------------------------------------

    def copy(self) -> Tally:
        """Return an independent copy."""
        other = object.__new__(Tally)
        other.__dict__.update(self.__dict__)
        other.counts = {name: dict(counts) for name, counts in self.counts.items()}
        other.names = {name: dict(texts) for name, texts in self.names.items()}
        other.weeks = {name: counts.copy() for name, counts in self.weeks.items()}
        return other

    def grown(self, plan: Plan) -> Tally:
        """Return a copy for a plan that this one's has grown to: what is counted is the same."""
        other = self.copy()
        other.plan = plan
        return other

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold of the tally."""
        columns = {}
        for j, name in enumerate(self.counts):
            counts, texts = self.counts[name], self.names[name]
            columns[str(j)] = {
                "codes": np.array([*counts], np.int64),
                "counts": np.array([*counts.values()], np.float64),
                "named": np.array([*texts], np.int64),
                "names": [*texts.values()],
            }
        hours = np.array([*self.weeks.values()], np.float64).reshape(-1, weeks.HOURS)
        counted = {"rows": float(self.rows), "came": int(self.came), "weeks": hours}
        said = {} if self.said.blank else {"said": self.said.dump()}
        return {**counted, "columns": columns, **said}

    @classmethod
    def restored(cls, plan: Plan, saved: Saved) -> Tally:
        """Return the tally that a file holds."""
        tally = cls(plan)
        tally.rows, tally.came = saved.number("rows", low=0.0), saved.whole("came")
        hours = saved.array("weeks", (len(tally.weeks), weeks.HOURS), np.float64, low=0.0)
        tally.weeks = dict(zip(tally.weeks, hours.copy(), strict=True))
        columns = saved.inside("columns")
        for j, name in enumerate(tally.counts):
            held = columns.inside(str(j))
            codes = held.array("codes", (None,), np.int64, low=0).tolist()
            counts = held.array("counts", (len(codes),), np.float64, low=0.0).tolist()
            named = held.array("named", (None,), np.int64, low=0).tolist()
            texts = held.items("names", str)
            if len(texts) != len(named):
                raise held.refuse("names", "must be one for each code")
            held.finish()
            tally.counts[name] = dict(zip(codes, counts, strict=True))
            tally.names[name] = dict(zip(named, texts, strict=True))
        columns.finish()
        if saved.peek("said") is not None:
            tally.said = Said.restored(tally.said.columns, saved.inside("said"))
        saved.finish()
        return tally


def _lengths(runs: Array) -> dict[int, int]:
    """Return how often each number stands in a sorted array."""
    starts = np.flatnonzero(np.diff(runs, prepend=-1))
    lengths = np.diff(starts, append=len(runs))
    return dict(zip(runs[starts].tolist(), lengths.tolist(), strict=True))


def _seen(counts: dict[int, float], rows: list[list[int]], learning: bool) -> list[float]:
    """Return the mean over a row's codes of ``log(1 + times seen)``, the rows before it too."""
    return [
        sum(logs) / len(logs) if len(logs) > 1 else logs[0]
        for logs in _logs(counts, rows, learning)
    ]


def _logs(counts: dict[int, float], rows: list[list[int]], learning: bool) -> Iterator[list[float]]:
    """Yield of each row's codes ``log(1 + times seen)``, the rows before it too."""
    now = counts.copy() if learning else counts
    for row in rows:
        yield [math.log1p(now.get(code, 0.0)) for code in row]
        if learning:
            for code in row:
                now[code] = now.get(code, 0.0) + 1.0


def _rare(rows: float, seen: float) -> float:
    """Return how rare a value is, `seen` being the logarithm of 1 and the times that it came."""
    return max(math.log1p(rows) - seen - HALF, 0.0)


def _below(codes: Codes, seen: list[float], most: float) -> Codes:
    """Return the codes of values that came no more than so often."""
    return tuple(code for code, n in zip(codes, seen, strict=True) if n <= most)


def _rare_hour(rows: float, counts: Any, hour: int) -> float:
    """Return how rare an hour of the week is, beside a week without usual hours."""
    near = weeks.near(counts, hour) if hour >= 0 else rows
    return max(math.log1p(rows / weeks.HOURS) - math.log1p(near), 0.0)


def added(tallies: list[Tally], start: Tally | None = None) -> Tally:
    """Return the counts of all tallies; what they all began with counts once."""
    whole = tallies[0].copy()
    parts = [(t, 1.0) for t in tallies[1:]]
    parts += [] if start is None else [(start, 1.0 - len(tallies))]
    for other, sign in parts:
        whole.rows = max(whole.rows + sign * other.rows, 0.0)
        whole.came = max(whole.came + int(sign * other.came), 0)
        for name, counts in other.counts.items():
            mine = whole.counts[name]
            for code, n in counts.items():
                mine[code] = max(mine.get(code, 0.0) + sign * n, 0.0)
            whole.names[name] = {**other.names[name], **whole.names[name]}
        for name, hours in other.weeks.items():
            whole.weeks[name] = np.maximum(whole.weeks[name] + sign * hours, 0.0)
    later = [max(whole.came - t.came, 0) for t in tallies]
    whole.said = tallies[0].said.joined([t.said for t in tallies[1:]], later)
    return whole
