"""Young keys judged with the whole fleet's knowledge, in plain loops over the formulas."""

from __future__ import annotations

import math


class Sharing:
    """What is usual for each key and among keys, and ranks among rows of the same age."""

    def __init__(self, nu, memory, grown):
        self.nu, self.memory, self.grown = nu, memory, grown
        self.keys = {}  # key: [rows, means, variances]
        self.told, self.center, self.between = 0, None, None
        self.logs, self.has = None, None
        self.rows, self.telling = 0, []
        self.history = {start: [] for start in (0, 4, 16, 64)}
        self.level = dict.fromkeys(self.history, math.log(nu))

    # -- what is expected of a key

    def z(self, key, x):
        n, means, variances = self.keys.get(key, (0, [0.0] * len(x), [0.0] * len(x)))
        found = []
        for j, value in enumerate(x):
            mean, spread = self.expected(j, n, means[j], variances[j])
            if spread == math.inf or math.isnan(value):
                found.append(0.0)
            elif spread == 0:
                found.append(0.0 if value == mean else math.copysign(1e3, value - mean))
            else:
                found.append(max(-1e3, min((value - mean) / spread, 1e3)))
        return found

    def expected(self, j, n, m, v):
        if self.told < 5:
            if n < 2:
                return m, math.inf
            return m, math.sqrt(v * (1 + 1 / n))
        within = math.exp(self.logs[j]) if self.has[j] else 0.0
        s = (n * v + 8 * within) / (n + 8)
        prior = 1 / self.between[j] if self.between[j] > 0 else 0.0
        if s == 0:
            return m, 0.0 if n else math.inf
        weight = n / s + prior
        if weight == 0:
            return m, math.inf
        return (n / s * m + prior * self.center[j]) / weight, math.sqrt(s + 1 / weight)

    # -- learning

    def learn(self, key, x):
        n, means, variances = self.keys.get(key, (0, [0.0] * len(x), [0.0] * len(x)))
        share = 1 / min(n + 1, self.memory)
        means, variances = list(means), list(variances)
        for j, value in enumerate(x):
            if math.isnan(value):
                continue
            mean, spread = self.expected(j, n, means[j], variances[j])
            if 0 < spread < math.inf:
                value = max(mean - 5 * spread, min(value, mean + 5 * spread))
            step = value - means[j]
            means[j] += share * step
            variances[j] = (1 - share) * (variances[j] + share * step * step)
        self.keys[key] = (n + 1, means, variances)
        if n + 1 in (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
            self.telling.append((means, variances))
        self.rows += 1
        if self.rows == 256:
            self.settle(len(x))

    def settle(self, d):
        if self.center is None:
            self.center, self.between, self.logs, self.has = ([0.0] * d for _ in range(4))
        for means, variances in self.telling:
            self.told = min(self.told + 1, 500)
            for j in range(d):
                step, share = means[j] - self.center[j], 1 / self.told
                self.center[j] += share * step
                self.between[j] = (1 - share) * (self.between[j] + share * step * step)
                if variances[j] > 0:
                    self.has[j] = min(self.has[j] + 1, 500)
                    self.logs[j] += (math.log(variances[j]) - self.logs[j]) / self.has[j]
        self.rows, self.telling = 0, []

    # -- judging

    def joined(self, age, fleet, own):
        return (100 * fleet + age * own) / (age + 100)

    def judge(self, age, fleet, own):
        """log p, the level and whether it is an alert, of a young key's row that is learned."""
        band = max(start for start in self.history if start <= age)
        g, latest, level = -self.joined(age, fleet, own), self.history[band], self.level[band]
        if len(latest) < 200:
            latest.append(g)
            return 0.0, level, False
        said = self.log_p(g, sorted(latest))
        alert = said < level
        moved = level + 0.01 * (self.nu - alert)
        low, high = self.nu / 2, min(4 * self.nu, (1 + self.nu) / 2)
        self.level[band] = max(math.log(low), min(moved, math.log(high)))
        latest.append(g)
        del latest[:-2000]
        return said, level, alert

    def log_p(self, g, ranked):
        n = len(ranked)
        k = max(int(0.02 * n), 20)
        edge = ranked[n - k - 1]
        if g > edge:
            slope = max((ranked[n - k // 2 - 1] - edge) / math.log(2), 0.25)
            return math.log(k / n) - (g - edge) / slope
        return math.log((sum(v >= g for v in ranked) + 1) / (n + 1))
