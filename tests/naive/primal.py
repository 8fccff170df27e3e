"""Weight vectors: over a feature map with a p-norm link, and over centres (A02 (1); CR (0.4))."""

import math

import numpy as np

from .state import State, as_row


def p_norm(v, p):
    """(sum_i |v_i|^p)^(1/p)."""
    top = max((abs(e) for e in v), default=0.0)
    return top * sum((abs(e) / top) ** p for e in v) ** (1 / p) if top > 0 else 0.0


def link(theta, p):
    """w_i = sign(theta_i) |theta_i|^(p-1) / ||theta||_p^(p-2), 0 at theta = 0."""
    size = p_norm(theta, p)
    if size == 0:
        return [0.0 for _ in theta]
    return [math.copysign(size * (abs(e) / size) ** (p - 1), e) for e in theta]


def over_centres(kernel, centres):
    """K_X(x) = (k(x, x_1), ..., k(x, x_m)) as a feature map."""
    return lambda x: [kernel(x, z) for z in centres]


def kappa(kernel, centres, rows):
    """The greatest ||K_X(x)||_2 over the rows given."""
    return max(p_norm(over_centres(kernel, centres)(x), 2.0) for x in rows)


def _inner(v, w):
    return sum(a * b for a, b in zip(v, w, strict=True))


class Primal(State):
    """theta <- c (s theta + a phi(x)), f(x) = w . phi(x), w = link(theta); a theta per output.

    kxx is ||phi(x)||_p^2 and ||f||^2 is ||theta||_p^2. ``scale`` standardises x before phi. The
    history of (raw x, [coefficient per output]) is kept whole: theta = sum_i a_i phi(x_i), and at
    every change of the frame theta is summed anew from it; so are all w_t of the average.
    """

    def __init__(self, *, loss, rule, start, outputs=1, p=2.0, phi=None, **state):
        super().__init__(loss=loss, rule=rule, start=start, outputs=outputs, **state)
        self.p, self.phi = p, phi
        self.history = []
        self.theta = self.sum_w = None  # a list per output, once the first row tells the size
        self.snapshots = []  # the coefficients of f_1, f_2, ... (needs average=True)

    def features(self, x):
        """phi of the row within the frame, as a list."""
        z = self._framed(as_row(x))
        return [float(v) for v in (z if self.phi is None else self.phi(z))]

    def _start(self, x):
        if self.theta is None:
            size = len(self.features(x))
            self.theta = [[0.0] * size for _ in range(self.outputs)]
            self.sum_w = [[0.0] * size for _ in range(self.outputs)]

    def weights(self):
        """w for each output."""
        return [link(theta, self.p) for theta in self.theta]

    def _values(self, x):
        self._start(x)
        features = self.features(x)
        return [_inner(w, features) for w in self.weights()]

    def _mean_values(self, x):
        self._start(x)
        features = self.features(x)
        return [_inner(w, features) for w in self.sum_w]

    def _kxx(self, x):
        return p_norm(self.features(x), self.p) ** 2

    def norm2(self):
        """||theta||_p^2 = ||w||_q^2 for each output."""
        return [p_norm(theta, self.p) ** 2 for theta in self.theta]

    def _advance(self, x, shrinks, coefs):
        self._multiply_all(shrinks)
        self.history.append((x, list(coefs)))
        features = self.features(x)
        for theta, a in zip(self.theta, coefs, strict=True):
            theta[:] = [e + a * v for e, v in zip(theta, features, strict=True)]

    def _multiply_all(self, factors):
        for theta, c in zip(self.theta, factors, strict=True):
            theta[:] = [c * e for e in theta]
        for _, coefs in self.history:
            coefs[:] = [c * a for a, c in zip(coefs, factors, strict=True)]

    def _accumulate(self):
        self.snapshots.append([list(coefs) for _, coefs in self.history])
        for total, w in zip(self.sum_w, self.weights(), strict=True):
            total[:] = [a + b for a, b in zip(total, w, strict=True)]

    def _multiply_sums(self, factors):
        for total, c in zip(self.sum_w, factors, strict=True):
            total[:] = [c * e for e in total]
        for snapshot in self.snapshots:
            for coefs in snapshot:
                coefs[:] = [c * a for a, c in zip(coefs, factors, strict=True)]

    def _reframed(self):
        """theta = sum_i a_i phi(x_i) in the new frame, and sum_w = sum_t link(theta_t) likewise."""
        rows = np.array([self.features(x) for x, _ in self.history])
        coefs = np.array([a for _, a in self.history])
        for o in range(self.outputs):
            self.theta[o] = (coefs[:, o] @ rows).tolist()
            total = np.zeros(rows.shape[1])
            for snapshot in self.snapshots:
                past = np.array(snapshot).reshape(len(snapshot), self.outputs)
                total += link((past[:, o] @ rows[: len(past)]).tolist(), self.p)
            self.sum_w[o] = total.tolist()


def bucket(column, code, count):
    """Where the weight of a column's code stands among `count` (a power of two), by a hash.

    A value that is missing has none: -1.
    """
    if code == 0:
        return -1
    whole = 2**64
    key = (column * 2**24 + code + 1) * 0x9E3779B97F4A7C15 % whole
    key = (key ^ key >> 32) * 0xD6E8FEB86659FD93 % whole
    return (key ^ key >> 32) % count


class Hashed(Primal):
    """Rows [codes | numbers]: 1 at the bucket of (j, code_j), unless that is 0; then the numbers.

    Those that share a bucket add up. ``scale`` standardises the numbers alone.
    """

    def __init__(self, *, apart, buckets, **primal):
        super().__init__(**primal)
        self.apart, self.buckets = apart, buckets

    def features(self, x):
        """One feature per bucket, and the numbers within the frame."""
        hot = [0.0] * self.buckets
        for j in range(len(self.apart)):
            if x[j] > 0:
                hot[bucket(j, int(x[j]), self.buckets)] += 1.0
        return hot + [float(v) for v in self._framed(as_row(x))[len(self.apart) :]]


class Coefficient(State):
    """f = sum_j alpha_j k(x_j, .), alpha <- s alpha + a K_X(x): section 7 over m centres.

    NORMA's step, alpha <- alpha - eta (lam alpha + phi'_-(y f) y K_X(x)), is the rule ``Descent``.
    The size of f is ||alpha||, and kxx is ||K_X(x)||^2.

    choose=None: ``centres`` as given. "first": a row that equals no centre joins while there are
    fewer than m. "reservoir": so it does, but at full m row t replaces centre draws[t-1] if that
    is below m, for t = 1..sample. Each between the row's prediction and its step, with weight 0.
    Where ``scale`` changes the frame of rows and centres, alpha stays.
    """

    def __init__(self, *, kernel, loss, rule, start, outputs=1, centres=(), choose=None, m=None,
                 draws=(), sample=None, **state):  # fmt: skip
        super().__init__(loss=loss, rule=rule, start=start, outputs=outputs, **state)
        self.kernel, self.choose, self.m, self.draws = kernel, choose, m, list(draws)
        self.sample = len(self.draws) if sample is None else sample
        self.centres = [as_row(x) for x in centres]
        self.alpha = [[0.0] * outputs for _ in self.centres]  # per centre, per output
        self.sum_alpha = [[0.0] * outputs for _ in self.centres]  # of f_1 + ... + f_t
        self.gone = []  # (centre, its sum) of those replaced

    def features(self, x):
        """K_X(x), rows and centres within the frame."""
        x = self._framed(as_row(x))
        return [self.kernel(x, self._framed(z)) for z in self.centres]

    def _expand(self, coefs, features):
        total = [0.0] * self.outputs
        for alpha, k in zip(coefs, features, strict=True):
            for o in range(self.outputs):
                total[o] += alpha[o] * k
        return total

    def _values(self, x):
        return self._expand(self.alpha, self.features(x))

    def _kxx(self, x):
        return sum(k * k for k in self.features(x))

    def norm2(self):
        """||alpha||^2 for each output."""
        return [sum(alpha[o] ** 2 for alpha in self.alpha) for o in range(self.outputs)]

    def _admit(self, x):
        if self.choose is None or any(np.array_equal(x, z) for z in self.centres):
            return False
        if self.choose == "reservoir" and self.t > self.sample:
            return False
        zero = [0.0] * self.outputs
        if len(self.centres) < self.m:
            self.centres.append(x)
            self.alpha.append(list(zero))
            self.sum_alpha.append(list(zero))
            return True
        if self.choose == "first" or self.draws[self.t - 1] >= self.m:
            return False
        j = self.draws[self.t - 1]
        self.gone.append((self.centres[j], self.sum_alpha[j]))
        self.centres[j], self.alpha[j], self.sum_alpha[j] = x, list(zero), list(zero)
        return True

    def _advance(self, x, shrinks, coefs):
        for alpha, k in zip(self.alpha, self.features(x), strict=True):
            for o in range(self.outputs):
                alpha[o] = shrinks[o] * alpha[o] + coefs[o] * k

    def _multiply_all(self, factors):
        for alpha in self.alpha:
            alpha[:] = [a * c for a, c in zip(alpha, factors, strict=True)]

    def _accumulate(self):
        for total, alpha in zip(self.sum_alpha, self.alpha, strict=True):
            total[:] = [s + a for s, a in zip(total, alpha, strict=True)]

    def _multiply_sums(self, factors):
        for total in self.sum_alpha + [total for _, total in self.gone]:
            total[:] = [a * c for a, c in zip(total, factors, strict=True)]

    def _mean_values(self, x):
        kept = self._expand(self.sum_alpha, self.features(x))
        x = self._framed(x)
        k_gone = [self.kernel(x, self._framed(z)) for z, _ in self.gone]
        gone = self._expand([total for _, total in self.gone], k_gone)
        return [a + b for a, b in zip(kept, gone, strict=True)]

    def mean_score_kept(self, x):
        """The average without the centres that were replaced."""
        return self._mean(self._expand(self.sum_alpha, self.features(x)))
