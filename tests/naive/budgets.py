"""A window on a budget, in plain loops: who leaves, and how.

Merging is Wang, Crammer and Vucetic's (2012), for any number of outputs; projecting is Orabona,
Keshet and Caputo's step (2009) on the nearest terms alone. A window of `cap` terms is brought down
by a sixteenth when it is full. The smallest leaves; of terms to be projected, the one among the
smallest quarter of which least would be left if one other term took it over.
"""

import math

from .learner import Learner

NEAREST, JITTER = 16, 1e-6


class Budgeted(Learner):
    """The kernel learner whose full window is condensed; sums of all f_t go with their terms."""

    def __init__(self, *, budget, cap, **learner):
        super().__init__(**learner)
        self.budget, self.cap = budget, cap
        self.lost = [0.0] * self.outputs  # the sum of the norms of what was lost, fading with f
        self.lost_sums = [0.0] * self.outputs
        self.moments_of_truth = []  # of each time: the true norm of what was lost, beside the sum

    def _multiply_all(self, factors):
        super()._multiply_all(factors)
        self.lost = [v * s for v, s in zip(self.lost, factors, strict=True)]

    def _truncate(self):
        if len(self.terms) < self.cap:
            return
        before, said = [(b, x, list(a)) for b, x, a in self.terms], list(self.lost)
        leaving = max(self.cap // 16, 1)
        small = sorted(self.terms, key=self._size2)[: max(len(self.terms) // 4, leaving)]
        births = [term[0] for term in small]
        for _ in range(leaving):
            self._leave(births)
        after = [(-b, x, [-v for v in a]) for b, x, a in self.terms]
        self.pairs = {}
        true = [math.sqrt(v) for v in self._norm2(before + after)]
        said = [now - then for now, then in zip(self.lost, said, strict=True)]
        self.moments_of_truth.append((true, said))
        self.pairs = {}

    def _leave(self, small):
        """`small`: the births of those that are the smallest at first."""
        if self.budget == "project":
            those = [j for j in range(len(self.terms)) if self.terms[j][0] in small]
            i = min(those, key=lambda j: self._left_over(j))
        else:
            i = min(range(len(self.terms)), key=lambda j: self._size2(self.terms[j]))
        term = self.terms.pop(i)
        sums = self.sum_terms.pop(term[0], (0, 0, [0.0] * self.outputs))[2]
        getattr(self, "_" + self.budget)(term, sums)

    def _size2(self, term):
        return sum(a * a for a in term[2]) * self._kxx(term[1])

    def _left_over(self, i):
        """What one other term, the best for it, would leave of a term."""
        term, others = self.terms[i], self.terms[:i] + self.terms[i + 1 :]
        kept = max((self._alike(term, other) for other in others), default=0.0)
        kxx = self._kxx(term[1])
        return sum(a * a for a in term[2]) * max(kxx - kept, JITTER * kxx)

    def _lose(self, parts, squares):
        """parts: of f and of the sums, how much of each point is lost, [output][point]."""
        for which, total in zip(parts, (self.lost, self.lost_sums), strict=True):
            for o, a in enumerate(which):
                n = range(len(a))
                square = sum(a[i] * a[j] * squares[i][j] for i in n for j in n)
                total[o] += math.sqrt(max(square, 0.0))

    def _smallest(self, term, sums):
        self._lose([[[a] for a in term[2]], [[a] for a in sums]], [[self._kxx(term[1])]])

    def _sums_of(self, term):
        found = self.sum_terms.get(term[0])
        return [0.0] * self.outputs if found is None else found[2]

    def _merge(self, term, sums):
        j = min(range(len(self.terms)), key=lambda j: self._cost(term, self.terms[j]))
        birth, x, coef = self.terms[j]
        place = self._place(term, self.terms[j])
        z = x + place * (term[1] - x)
        near, far = self._k(term[1], z), self._k(x, z)
        both = (term[2], coef), (sums, self._sums_of(self.terms[j]))
        merged = [[near * a + far * b for a, b in zip(*two, strict=True)] for two in both]
        gram = [[self._k(p, q) for q in (term[1], x, z)] for p in (term[1], x, z)]
        self._lose(
            [[[*ab, -c] for *ab, c in zip(*two, new, strict=True)]
             for two, new in zip(both, merged, strict=True)], gram)  # fmt: skip
        self.terms[j] = (birth, z, merged[0])
        self.sum_terms[birth] = (birth, z, merged[1])

    def _kept(self, one, other, h):
        """|a_i k(x_i, z) + a_j k(x_j, z)|^2 where z divides the way from j to i by h."""
        apart = -math.log(max(self._k(one[1], other[1]), 1e-300))
        near, far = math.exp(-apart * (1 - h) ** 2), math.exp(-apart * h * h)
        return sum((a * near + b * far) ** 2 for a, b in zip(one[2], other[2], strict=True))

    def _cost(self, one, other):
        """What merging would cost about: at the mean of both by size, or at the other's place."""
        p, q = math.sqrt(self._size2(one)), math.sqrt(self._size2(other))
        k = self._k(one[1], other[1])
        both = sum((a * a + b * b + 2 * a * b * k) for a, b in zip(one[2], other[2], strict=True))
        share = p / max(p + q, 1e-300)
        return max(min(both - self._kept(one, other, share), p * p * (1 - k * k)), 0.0)

    def _place(self, one, other):
        """The best place between the two, by looking closer and closer."""
        low, high = 0.0, 1.0
        for _ in range(12):
            tried = [low + (high - low) * s / 20 for s in range(21)]
            best = max(tried, key=lambda h: self._kept(one, other, h))
            low, high = max(best - (high - low) / 20, 0.0), min(best + (high - low) / 20, 1.0)
        return (low + high) / 2 if 0 < best < 1 else best

    def _project(self, term, sums):
        order = sorted(range(len(self.terms)), key=lambda j: -self._alike(term, self.terms[j]))
        near = sorted(order[:NEAREST])
        points = [term[1], *(self.terms[j][1] for j in near)]
        gram = [[self._k(p, q) for q in points] for p in points]
        share = solved([row[1:] for row in gram[1:]], gram[0][1:])
        own = [[[a] + [-a * s for s in share] for a in some] for some in (term[2], sums)]
        self._lose(own, gram)
        for s, j in zip(share, near, strict=True):
            birth, x, coef = self.terms[j]
            total = self._sums_of(self.terms[j])
            self.terms[j] = (birth, x, [b + s * a for a, b in zip(term[2], coef, strict=True)])
            summed = [b + s * a for a, b in zip(sums, total, strict=True)]
            self.sum_terms[birth] = (birth, x, summed)

    def _alike(self, one, other):
        return self._k(one[1], other[1]) ** 2 / self._kxx(other[1])


def solved(matrix, right):
    """x of (matrix + jitter) x = right, by Gauss's elimination."""
    n = len(right)
    rows = [[*matrix[i], right[i]] for i in range(n)]
    for i in range(n):
        rows[i][i] *= 1 + JITTER
    for i in range(n):
        for j in range(i + 1, n):
            share = rows[j][i] / rows[i][i]
            rows[j] = [b - share * a for a, b in zip(rows[i], rows[j], strict=True)]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][j] * x[j] for j in range(i + 1, n))) / rows[i][i]
    return x
