"""Scores made into probabilities, and mixed, in plain loops over one row at a time."""

import math

HORIZON, PRIOR, SLOPE, LAPSE = 1000, 4.0, 2.0, 0.02
LEAST_LAPSE, MOST_LAPSE, STEEPEST, FLATTEST, FLAT = 1e-6, 0.5, 50.0, 0.01, 1e-3
NEWTON_PRIOR, GRADIENT, REACH, FAINT = 3.0, 0.02, 8.0, 1e-3


def pressed(z):
    """Scores beyond 10 count by their logarithm."""
    return z if abs(z) <= 10 else math.copysign(10 * (1 + math.log(abs(z) / 10)), z)


def softmax(values):
    """e^v / sum of e^v."""
    top = max(values)
    parts = [math.exp(v - top) for v in values]
    return [p / sum(parts) for p in parts]


class Link:
    """p_c = e/C + (1 - e) softmax(slope z_c + offset_c), fitted by a step per row."""

    def __init__(self, classes, alone=False):
        self.alone = alone  # no offsets: the highest score stays the most likely class
        self.classes, self.slope, self.curve, self.lapse = classes, SLOPE, PRIOR, LAPSE
        self.offset, self.bend = [0.0] * classes, [PRIOR] * classes
        self.count = 0

    def inside(self, scores):
        """What softmax is taken of: one score z stands for -z/2 and z/2."""
        z = [pressed(v) for v in scores]
        return [-z[0] / 2, z[0] / 2] if len(z) == 1 else z

    def chances(self, scores):
        """The probability of each class."""
        z = self.inside(scores)
        q = softmax([self.slope * v + b for v, b in zip(z, self.offset, strict=True)])
        return [self.lapse / self.classes + (1 - self.lapse) * p for p in q]

    def learn(self, scores, y):
        """A Newton step with diagonal curvature, for the share of the row that is no lapse."""
        z, c, keep = self.inside(scores), self.classes, 1 - 1 / HORIZON
        q = softmax([self.slope * v + b for v, b in zip(z, self.offset, strict=True)])
        stray = self.lapse / c / (self.lapse / c + (1 - self.lapse) * q[y])
        mean = sum(p * v for p, v in zip(q, z, strict=True))
        slope = sum((p - (i == y)) * v for i, (p, v) in enumerate(zip(q, z, strict=True)))
        curve = sum(p * (v - mean) ** 2 for p, v in zip(q, z, strict=True))
        self.curve = keep * self.curve + max((1 - stray) * curve, FLAT) + (1 - keep) * PRIOR
        self.slope -= (1 - stray) * slope / self.curve
        self.slope = min(max(self.slope, FLATTEST), STEEPEST)
        for i, p in enumerate([] if self.alone else q):
            bend = (1 - stray) * max(p * (1 - p), FLAT / c)
            self.bend[i] = keep * self.bend[i] + bend + (1 - keep) * PRIOR
            self.offset[i] -= (1 - stray) * (p - (i == y)) / self.bend[i]
        self.count += 1
        self.lapse += (stray - self.lapse) / min(self.count + 99, HORIZON)
        self.lapse = min(max(self.lapse, LEAST_LAPSE), MOST_LAPSE)


class Joint:
    """softmax(sum of v_m f_m), f the members' centred logarithms; v by Newton or gradient."""

    def __init__(self, members, newton):
        self.v, self.newton = [1 / members] * members, newton
        self.bow = [[(i == j) * NEWTON_PRIOR for j in range(members)] for i in range(members)]

    def answer(self, f):
        """The probability of each class; f is [members][classes]."""
        return softmax([sum(v * row[c] for v, row in zip(self.v, f, strict=True))
                        for c in range(len(f[0]))])  # fmt: skip

    def learn(self, f, y):
        """One step on the log loss."""
        p = self.answer(f)
        slope = [sum((q - (c == y)) * row[c] for c, q in enumerate(p)) for row in f]
        if not self.newton:
            self.v = [v - GRADIENT * g for v, g in zip(self.v, slope, strict=True)]
            return
        mean = [sum(q * row[c] for c, q in enumerate(p)) for row in f]
        keep = 1 - 1 / HORIZON
        self.bow = [[keep * a + (1 - keep) * NEWTON_PRIOR * (i == j) for j, a in enumerate(row)]
                    for i, row in enumerate(self.bow)]  # fmt: skip
        for c, q in enumerate(p):
            if q >= FAINT or c == y:
                u = [row[c] - m for row, m in zip(f, mean, strict=True)]
                self.bow = [[a + max(q, FAINT) * u[i] * u[j] for j, a in enumerate(row)]
                            for i, row in enumerate(self.bow)]  # fmt: skip
        self.v = [v - step for v, step in zip(self.v, solved(self.bow, slope), strict=True)]


def solved(matrix, right):
    """Gauss: x of matrix x = right."""
    n, rows = len(right), [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for i in range(n):
        for j in range(n):
            if j != i:
                part = rows[j][i] / rows[i][i]
                rows[j] = [a - part * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


class Chances:
    """Members' probabilities and two joint ones, mixed under log loss with fixed share."""

    def __init__(self, members, outputs, share):
        self.classes = max(outputs, 2)
        self.links = [Link(self.classes, members == 1) for _ in range(members)]
        self.joint = [Joint(members, True), Joint(members, False)] if members > 1 else []
        self.share = share
        self.weights = [1 / (members + len(self.joint))] * (members + len(self.joint))
        self.losses, self.total = [0.0] * len(self.weights), 0.0
        self.said, self.count = [0.0] * members, 0

    def answers(self, scores):
        """Each expert's probabilities, and what the joint ones are made of."""
        own = [link.chances(z) for link, z in zip(self.links, scores, strict=True)]
        logs = [[math.log(p) for p in row] for row in own]
        f = [[min(max(v - sum(row) / len(row), -REACH), REACH) for v in row] for row in logs]
        least = LEAST_LAPSE
        more = [[least / self.classes + (1 - least) * p for p in j.answer(f)] for j in self.joint]
        return own + more, f

    def chances(self, scores):
        """The mixture's probabilities."""
        found, _ = self.answers(scores)
        return [sum(w * row[c] for w, row in zip(self.weights, found, strict=True))
                for c in range(self.classes)]  # fmt: skip

    def learn(self, scores, y):
        """Answer, then learn that the class was y."""
        found, f = self.answers(scores)
        mixed = [sum(w * row[c] for w, row in zip(self.weights, found, strict=True))
                 for c in range(self.classes)]  # fmt: skip
        n = len(found)
        self.losses = [a - math.log(row[y]) for a, row in zip(self.losses, found, strict=True)]
        self.total -= math.log(mixed[y])
        self.weights = [(1 - self.share) * w * row[y] / mixed[y] + self.share / n
                        for w, row in zip(self.weights, found, strict=True)]  # fmt: skip
        self.count += 1
        for i, row in enumerate(f if self.joint else []):
            size = sum(abs(v) for v in row) / len(row)
            self.said[i] += (size - self.said[i]) / min(self.count, HORIZON)
        for joint in self.joint:
            joint.learn(f, y)
        for link, z in zip(self.links, scores, strict=True):
            link.learn(z, y)
        return mixed
