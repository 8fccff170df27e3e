"""Answers of several members and of two joint experts, averaged, in plain loops."""

import math

from .chances import solved

REACH, HORIZON, PRIOR, STEP, FAR = 8.0, 1000, 1.0, 0.1, 3.0


def middle(values):
    """The median."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def clipped(value, most):
    """Moved to within `most` of 0."""
    return min(max(value, -most), most)


class Joint:
    """median + u (sum of v_m f_m), f the members' answers around their median in usual errors."""

    def __init__(self, members, newton):
        self.v, self.newton = [1 / members] * members, newton
        self.bow = [[(i == j) * PRIOR for j in range(members)] for i in range(members)]

    def answer(self, f):
        """In usual errors, from the median."""
        return sum(v * a for v, a in zip(self.v, f, strict=True))

    def learn(self, f, target):
        """One step on the squared error, far ones counting less."""
        error = target - self.answer(f)
        size = min(1.0, FAR / max(abs(error), 1e-300))
        if not self.newton:
            step = STEP * size * error / (1 + sum(a * a for a in f))
            self.v = [v + step * a for v, a in zip(self.v, f, strict=True)]
            return
        keep = 1 - 1 / HORIZON
        self.bow = [[keep * a + (1 - keep) * PRIOR * (i == j) + size * f[i] * f[j]
                     for j, a in enumerate(row)] for i, row in enumerate(self.bow)]  # fmt: skip
        step = solved(self.bow, [size * error * a for a in f])
        self.v = [v + a for v, a in zip(self.v, step, strict=True)]


class Means:
    """Members and joint experts, averaged by weights that follow their losses; fixed share."""

    def __init__(self, members, outputs, rate, share):
        self.rate, self.share, self.count = rate, share, 0
        kinds = (True, False) if members > 1 else ()
        self.joint = [[Joint(members, kind) for kind in kinds] for _ in range(outputs)]
        experts = members + len(kinds)
        self.weights, self.losses = [1 / experts] * experts, [0.0] * experts
        self.usual, self.total = [0.0] * outputs, 0.0
        self.said = [0.0] * members

    def experts(self, scores, o):
        """All answers to one target; the median, the unit and f."""
        own = [row[o] for row in scores]
        center, unit = middle(own), self.usual[o] or 1.0
        f = [clipped((a - center) / unit, REACH) for a in own]
        return own + [center + unit * j.answer(f) for j in self.joint[o]], center, unit, f

    def answer(self, scores, o):
        """The weighted mean; what is far counts as 8 usual errors from the members' median."""
        found, center, _, _ = self.experts(scores, o)
        far = REACH * self.usual[o]
        return center + sum(w * clipped(a - center, far)
                            for w, a in zip(self.weights, found, strict=True))  # fmt: skip

    def learn(self, scores, y):
        """Answer each target, then learn what came."""
        told = [self.answer(scores, o) for o in range(len(y))]
        self.count += 1
        losses, sizes = [0.0] * len(self.weights), [0.0] * len(self.said)
        for o, wanted in enumerate(y):
            found, center, unit, f = self.experts(scores, o)
            error = middle([abs(row[o] - wanted) for row in scores])
            if self.usual[o] > 0:
                error = min(error, HORIZON * self.usual[o])  # no row rules the rest
            self.usual[o] += (error - self.usual[o]) / min(self.count, HORIZON)
            scale = REACH * self.usual[o]
            if scale > 0:
                for i, a in enumerate(found):
                    losses[i] += min(abs(a - wanted) / scale, 1.0) ** 2 / len(y)
            sizes = [a + abs(b) / len(y) for a, b in zip(sizes, f, strict=True)]
            for joint in self.joint[o]:
                joint.learn(f, (wanted - center) / unit)
        self.said = [a + (b - a) / min(self.count, HORIZON)
                     for a, b in zip(self.said, sizes, strict=True)]  # fmt: skip
        self.total += sum(w * loss for w, loss in zip(self.weights, losses, strict=True))
        self.losses = [a + b for a, b in zip(self.losses, losses, strict=True)]
        moved = [w * math.exp(-self.rate * loss)
                 for w, loss in zip(self.weights, losses, strict=True)]  # fmt: skip
        n = len(moved)
        self.weights = [(1 - self.share) * a / sum(moved) + self.share / n for a in moved]
        return told
