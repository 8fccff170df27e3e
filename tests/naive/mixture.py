"""Mixing in plain loops: exponential weights with fixed share, and a bank over one ring."""

import math


def fixed_share(losses, rate, share):
    """w_i <- (1 - share) v_i + share / N, v_i = w_i e^(-rate l_i) / sum; all w_t, and the last."""
    n = len(losses[0])
    w, found = [1.0 / n] * n, []
    for row in losses:
        found.append(list(w))
        v = [a * math.exp(-rate * loss) for a, loss in zip(w, row, strict=True)]
        w = [(1 - share) * a / sum(v) + share / n for a in v]
    return found, w


def best_path(losses, switches):
    """Least loss of any sequence of members that changes at most so many times."""
    n = len(losses[0])
    least = [[0.0] * n] + [[math.inf] * n for _ in range(switches)]
    for t, row in enumerate(losses):
        new = []
        for s in range(switches + 1):
            arrive = min(least[s - 1]) if s and t else math.inf
            stay = least[s]
            new.append([min(stay[i], arrive) + row[i] for i in range(n)])
        least = new
    return min(min(row) for row in least)


class Bank:
    """Members over one list of points; a full list loses its oldest sixteenth at once.

    A member is (kernel, step): step(f, y, kxx) is (shrink, coefficient).
    """

    def __init__(self, members, cap):
        self.members, self.cap = members, cap
        self.points = []  # (x, [coefficient of each member])
        self.dropped = [0.0] * len(members)

    def scores(self, x):
        """sum_i a_i k(x_i, x) for each member."""
        return [
            sum(coef[m] * kernel(z, x) for z, coef in self.points)
            for m, (kernel, _) in enumerate(self.members)
        ]

    def learn(self, x, y):
        """Predict, then let each member move; returns the scores before."""
        found = self.scores(x)
        moves = [
            step(f, y, kernel(x, x)) for f, (kernel, step) in zip(found, self.members, strict=True)
        ]
        for _, coef in self.points:
            coef[:] = [a * s for a, (s, _) in zip(coef, moves, strict=True)]
        self.dropped = [a * s for a, (s, _) in zip(self.dropped, moves, strict=True)]
        if any(a for _, a in moves):
            self.points.append((x, [a for _, a in moves]))
        if len(self.points) >= self.cap:
            for _ in range(max(self.cap // 16, 1)):
                z, coef = self.points.pop(0)
                for m, (kernel, _) in enumerate(self.members):
                    self.dropped[m] += abs(coef[m]) * math.sqrt(kernel(z, z))
        return found
