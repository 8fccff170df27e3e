"""Late labels in plain loops: a list of rows that wait, and one row learned at a time."""

from __future__ import annotations

import math


class NaiveLate:
    """Rows that wait, with what was said of them.

    `look(row)` says what a model thinks now; `learn(row, y)` lets it learn one row.
    """

    def __init__(self, look, learn, keep=100_000, within=math.inf):
        self.look, self.learn_one, self.keep, self.within = look, learn, keep, within
        self.waiting = []  # [id, row, number, time, said]
        self.count = self.expired = 0
        self.answers = []  # (id, said, y, rows between, seconds)

    def expire(self, now):
        while self.waiting and now - self.waiting[0][3] > self.within:
            self.waiting.pop(0)
            self.expired += 1

    def predict(self, id, row, time=0.0):
        self.expire(time)
        if any(w[0] == id for w in self.waiting):
            raise KeyError(id)
        said = self.look(row)
        self.waiting.append([id, row, self.count, time, said])
        self.count += 1
        if len(self.waiting) > self.keep:
            self.waiting.pop(0)
            self.expired += 1
        return said

    def learn(self, id, y, time=0.0):
        self.expire(time)
        at = [i for i, w in enumerate(self.waiting) if w[0] == id]
        if not at:
            raise KeyError(id)
        _, row, number, came, said = self.waiting.pop(at[0])
        self.learn_one(row, y)
        self.answers.append((id, said, y, self.count - 1 - number, time - came))


class NaiveAsking:
    """theta <- theta + rate (asked - share), added up one row after another."""

    def __init__(self, share, rate):
        self.share, self.rate, self.level = share, rate, 1.0 - share
        self.recent, self.flags = [], []

    def row(self, doubt, drawn=None, size=1000):
        """Take one row; `drawn`: a number in [0, 1] that stands in for its rank."""
        rank = 1.0
        if doubt is not None:
            window = self.recent[-size:]
            rank = (1 + sum(d <= doubt for d in window)) / (1 + len(window))
            self.recent.append(doubt)
        rank = rank if drawn is None else drawn
        self.flags.append(bool(rank >= self.level - 1e-12))
        self.level += self.rate * (self.flags[-1] - self.share)
