"""Answers of several members and of two joint experts, averaged, in plain loops."""

import math

from .chances import solved

REACH, HORIZON, PRIOR, STEP, FAR = 8.0, 1000, 1.0, 0.1, 3.0
RECENT, WIDE, BETTER = 100, 64.0, 64.0


def middle(values):
    """The median."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def clipped(value, most):
    """Moved to within `most` of 0."""
    return min(max(value, -most), most)


class Joint:
    """center + unit (sum of v_m f_m), f the members' answers around the centre in units."""

    def __init__(self, members, newton):
        self.v, self.newton = [1 / members] * members, newton
        self.bow = [[(i == j) * PRIOR for j in range(members)] for i in range(members)]

    def answer(self, f):
        """In units, from the centre."""
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
    """Members and joint experts, averaged by weights over squared errors; fixed share."""

    def __init__(self, members, outputs, rate, share):
        self.rate, self.share, self.count = rate, share, 0
        kinds = (True, False) if members > 1 else ()
        self.joint = [[Joint(members, kind) for kind in kinds] for _ in range(outputs)]
        experts = members + len(kinds)
        self.weights, self.losses = [1 / experts] * experts, [0.0] * experts
        self.usual, self.own, self.total = [0.0] * outputs, [0.0] * outputs, 0.0
        self.squares = [[0.0] * experts for _ in range(outputs)]

    def sure(self, o):
        """Squared errors; nobody counts as more than 64 times better than the mixture."""
        return [max(s, (self.own[o] / BETTER) ** 2) for s in self.squares[o]]

    def parts(self, o):
        """What each expert counts for: weights over squared errors; who never errs has it all."""
        sure = self.sure(o)
        if any(w > 0 and s == 0 for w, s in zip(self.weights, sure, strict=True)):
            found = [w * (s == 0) for w, s in zip(self.weights, sure, strict=True)]
        else:
            found = [w and w / s for w, s in zip(self.weights, sure, strict=True)]
        return [a / sum(found) for a in found]

    def center(self, own, o):
        """The members' median, moved to within u of their mean by parts.

        In that mean none is further than 64 usual errors from the median.
        """
        parts, plain = self.parts(o)[: len(own)], middle(own)
        if sum(parts) == 0:
            return plain
        moved = [plain + clipped(a - plain, WIDE * self.usual[o]) for a in own]
        mean = sum(q * a for q, a in zip(parts, moved, strict=True)) / sum(parts)
        return mean + clipped(plain - mean, self.own[o])

    def reach(self, o):
        """How far from the centre an answer counts as being."""
        return REACH * max(self.own[o], self.usual[o])

    def experts(self, scores, o):
        """All answers to one target; the centre, the unit and f."""
        own = [row[o] for row in scores]
        center, unit = self.center(own, o), max(self.own[o], self.usual[o] / BETTER) or 1.0
        f = [clipped(a - center, self.reach(o)) / unit for a in own]
        return own + [center + unit * j.answer(f) for j in self.joint[o]], center, unit, f

    def answer(self, scores, o):
        """The mean by parts; what is far counts as 8 errors from the centre."""
        found, center, _, _ = self.experts(scores, o)
        far = self.reach(o)
        return center + sum(q * clipped(a - center, far)
                            for q, a in zip(self.parts(o), found, strict=True))  # fmt: skip

    def influence(self, members):
        """What each member counts for, and has of the joint experts; the mean over targets."""
        found, outputs = [0.0] * members, len(self.own)
        for o in range(outputs):
            parts = self.parts(o)
            own = parts[:members]
            center = [a / sum(own) for a in own]  # as if it were the mean
            for part, joint in zip(parts[members:], self.joint[o], strict=True):
                rest = 1 - sum(joint.v)
                size = [abs(v + rest * c) for v, c in zip(joint.v, center, strict=True)]
                own = [a + part * s / sum(size) for a, s in zip(own, size, strict=True)]
            found = [a + b / outputs for a, b in zip(found, own, strict=True)]
        return found

    def followed(self, mean, value, least, rows):
        """A mean over the last rows; none counts for more than 1000 of what is usual."""
        value = min(value, 1000 * least) if least > 0 else value
        return mean + (value - mean) / min(self.count, rows)

    def learn(self, scores, y):
        """Answer each target, then learn what came."""
        told = [self.answer(scores, o) for o in range(len(y))]
        self.count += 1
        losses = [0.0] * len(self.weights)
        for o, wanted in enumerate(y):
            found, center, unit, f = self.experts(scores, o)
            errors, sure = [abs(a - wanted) for a in found], self.sure(o)
            each = zip(self.squares[o], errors, sure, strict=True)
            self.squares[o] = [self.followed(s, e * e, k, RECENT) for s, e, k in each]
            among = middle(errors[: len(scores)])
            self.usual[o] = self.followed(self.usual[o], among, self.usual[o], HORIZON)
            self.own[o] = self.followed(self.own[o], abs(told[o] - wanted), self.own[o], HORIZON)
            scale = REACH * self.own[o]
            if scale > 0:
                for i, a in enumerate(found):
                    losses[i] += min(abs(a - wanted) / scale, 1.0) ** 2 / len(y)
            for joint in self.joint[o]:
                joint.learn(f, (wanted - center) / unit)
        self.total += sum(w * loss for w, loss in zip(self.weights, losses, strict=True))
        self.losses = [a + b for a, b in zip(self.losses, losses, strict=True)]
        moved = [w * math.exp(-self.rate * loss)
                 for w, loss in zip(self.weights, losses, strict=True)]  # fmt: skip
        n = len(moved)
        self.weights = [(1 - self.share) * a / sum(moved) + self.share / n for a in moved]
        return told
