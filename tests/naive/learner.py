"""The kernel learner: f as a plain list of terms; every norm is a'Ka over all pairs."""

import math

from .rules import Descent
from .state import State, as_row


class Learner(State):
    """f = sum_i a_i k(x_i, .), moved by any rule, with truncation and the average of all f_t."""

    def __init__(self, *, kernel, loss, rule, start, outputs=1, max_terms=None, age=None, **state):
        super().__init__(loss=loss, rule=rule, start=start, outputs=outputs, **state)
        self.kernel, self.max_terms, self.age = kernel, max_terms, age
        self.terms, self.dropped = [], []  # a term: (birth, raw x, [coefficient per output])
        self.sum_terms = {}  # f_1 + ... + f_t by birth
        self.pairs = {}  # kernel values of stored rows under the current frame

    def _k(self, x, z):
        """k of two raw rows, standardised by the frame of the last refresh."""
        return self.kernel(self._framed(x), self._framed(z))

    def _kxx(self, x):
        return self._k(x, x)

    def _values(self, x):
        return self._expand(self.terms, x)

    def _expand(self, terms, x):
        """sum_i a_i k(x_i, x) for each output."""
        pairs = [(coef, self._k(x_i, x)) for _, x_i, coef in terms]
        return [sum(coef[o] * k for coef, k in pairs) for o in range(self.outputs)]

    def _norm2(self, terms):
        """a'Ka = sum_ij a_i a_j k(x_i, x_j) for each output."""
        total = [0.0] * self.outputs
        for i, x, p in terms:
            for j, z, q in terms:
                if (i, j) not in self.pairs:
                    self.pairs[i, j] = self._k(x, z)
                for o in range(self.outputs):
                    total[o] += p[o] * q[o] * self.pairs[i, j]
        return [max(0.0, v) for v in total]

    def norm2(self):
        """||f||^2 = a'Ka for each output."""
        return self._norm2(self.terms)

    def dropped_part_norm(self):
        """||sum of all dropped terms||, their coefficients as they would be now."""
        return [math.sqrt(v) for v in self._norm2(self.dropped)]

    def _mean_values(self, x):
        return self._expand(self.sum_terms.values(), x)

    def mean_score_kept(self, x):
        """The average without the terms that are no longer in the window."""
        births = [birth for birth, _, _ in self.terms if birth in self.sum_terms]
        return self._mean(self._expand([self.sum_terms[birth] for birth in births], as_row(x)))

    def _multiply(self, terms, factors):
        """a_i <- factor a_i in place; a factor of 0 removes the terms that it empties."""
        for _, _, coef in terms:
            coef[:] = [a * s for a, s in zip(coef, factors, strict=True)]
        if 0.0 in factors:
            terms[:] = [term for term in terms if any(term[2])]

    def _multiply_all(self, factors):
        self._multiply(self.terms, factors)
        self._multiply(self.dropped, factors)

    def _multiply_sums(self, factors):
        self._multiply(list(self.sum_terms.values()), factors)

    def _advance(self, x, shrinks, coefs):
        self._multiply_all(shrinks)
        if any(coefs):
            self.terms.append((self.t, x, coefs))

    def _accumulate(self):
        """sum_t f_t: the live coefficients go into a dictionary never pruned."""
        for birth, x, coef in self.terms:
            total = self.sum_terms.setdefault(birth, (birth, x, [0.0] * self.outputs))[2]
            for o in range(self.outputs):
                total[o] += coef[o]

    def _truncate(self):
        """Drop what was born before t + 1 - s_{t+1}, then the oldest beyond max_terms."""
        oldest = -math.inf if self.age is None else self.t + 1 - self.age(self.t + 1)
        while self.terms and self.terms[0][0] < oldest:
            self.dropped.append(self.terms.pop(0))
        while self.max_terms is not None and len(self.terms) > self.max_terms:
            self.dropped.append(self.terms.pop(0))

    def _reframed(self):
        self.pairs = {}


class Norma(Learner):
    """f <- shrink f + eta w (-l') k(x, .), b <- b + eta w (-l'), a number by nu, truncation."""

    def __init__(self, *, rate, lam, nu=None, support=None, threshold_rate=1.0, support_rate=None,
                 omega_prime=None, learn_alerts=True, **learner):  # fmt: skip
        rule = Descent(
            rate, lam, nu, support, threshold_rate, support_rate, omega_prime, learn_alerts
        )
        super().__init__(rule=rule, **learner)
