"""The naive twin: NORMA in plain loops over the formulas, the truth that tests compare with.

f <- shrink f + coef k(x, .): every coefficient is multiplied at every shrink, every kernel value
is one call on two rows, every norm is a'Ka over all pairs. Imports nothing of the package.
In order: kernels (functions of two single rows), losses, window sizes, moments, the learner.
N04 is Kivinen, Smola, Williamson (2004); the formulas are those of SPEC.md, sections 1 and 2.
"""

import math

import numpy as np

TINY = 1e-300  # floor of Huber's sigma, only where it divides
COMPARING = ("soft_margin", "novelty", "epsilon_insensitive", "huber")  # with the threshold


def _dot(x, z):
    """x . z = sum_j x_j z_j."""
    return float(np.sum(np.multiply(x, z, dtype=float)))


def _square_distance(x, z):
    """||x - z||_2^2 = sum_j (x_j - z_j)^2."""
    return float(np.sum(np.subtract(x, z, dtype=float) ** 2))


def gaussian(gamma):
    """k(x, z) = exp(-gamma ||x - z||_2^2)."""
    return lambda x, z: math.exp(-gamma * _square_distance(x, z))


def laplacian(gamma):
    """k(x, z) = exp(-gamma ||x - z||_1)."""
    return lambda x, z: math.exp(-gamma * float(np.sum(np.abs(np.subtract(x, z, dtype=float)))))


def matern(nu, length):
    """k = (1 + s) e^-s for nu = 3/2, (1 + s + s^2/3) e^-s for 5/2; s = sqrt(2 nu) r / length."""
    if nu not in (1.5, 2.5):
        raise ValueError(f"nu is 1.5 or 2.5, not {nu}")

    def k(x, z):
        s = math.sqrt(2 * nu * _square_distance(x, z)) / length
        return (1 + s + (s * s / 3 if nu == 2.5 else 0.0)) * math.exp(-s)

    return k


def linear():
    """k(x, z) = x . z."""
    return _dot


def polynomial(degree, gamma, offset):
    """k(x, z) = (gamma x . z + offset)^degree."""
    return lambda x, z: (gamma * _dot(x, z) + offset) ** degree


def add(k1, k2):
    """k(x, z) = k1(x, z) + k2(x, z)."""
    return lambda x, z: k1(x, z) + k2(x, z)


def multiply(k1, k2):
    """k(x, z) = k1(x, z) k2(x, z)."""
    return lambda x, z: k1(x, z) * k2(x, z)


def scaled(c, k):
    """c k(x, z)."""
    return lambda x, z: c * k(x, z)


def spectrum(length):
    """k(s, z) = n(s) . n(z) / (|n(s)| |n(z)|), n counts substrings of that length; 0 if none."""

    def product(s, z):  # n(s) . n(z): the pairs of equal substrings
        pieces = [z[j : j + length] for j in range(len(z) - length + 1)]
        return sum(pieces.count(s[i : i + length]) for i in range(len(s) - length + 1))

    def k(s, z):
        size = product(s, s) * product(z, z)
        return product(s, z) / math.sqrt(size) if size else 0.0

    return k


def judge(loss, nu, z, y, threshold, support=None, *, outside=None):
    """(-l'(z, y), outside 0/1, l(z, y), direction of the adaptive number), SPEC's table row by row.

    ``outside`` given: that decision is taken over instead of the comparison made here.
    """
    if loss == "logistic":  # l = log(1 + e^-m), -l' = y / (1 + e^m), m = y z, without overflow
        m, e = y * z, math.exp(-abs(y * z))
        slope = y * e / (1 + e) if m >= 0 else y / (1 + e)
        return slope, int(m <= 0), max(0.0, -m) + math.log1p(e), 0.0
    if loss == "soft_margin":  # max(0, rho - y z) - nu rho
        if outside is None:
            outside = y * z <= threshold
        value = max(0.0, threshold - y * z) - (0.0 if nu is None else nu * threshold)
        return y * int(outside), int(outside), value, 0.0 if nu is None else nu - int(outside)
    if loss == "novelty":  # max(0, rho - f) - q rho, q the fraction that f learns from
        if outside is None:
            outside = z < threshold
        q = nu if support is None else support
        value = max(0.0, threshold - z) - (0.0 if q is None else q * threshold)
        return float(outside), int(outside), value, 0.0 if q is None else q - int(outside)
    d = y - z
    sign = float(d > 0) - float(d < 0)
    if loss == "squared":
        return d, 0, d * d / 2, 0.0
    if loss == "absolute":
        return sign, 0, abs(d), 0.0
    if outside is None:
        outside = abs(d) > threshold
    direction = 0.0 if nu is None else int(outside) - nu
    if loss == "epsilon_insensitive":  # max(0, |d| - eps) + nu eps
        value = max(0.0, abs(d) - threshold) + (0.0 if nu is None else nu * threshold)
        return sign * int(outside), int(outside), value, direction
    if loss == "huber":  # |d| - sigma/2 outside, d^2 / (2 sigma) inside (equal at |d| = sigma)
        if outside:
            return sign, 1, abs(d) - threshold / 2, direction
        sigma = max(threshold, TINY)
        return d / sigma, 0, d * d / (2 * sigma), direction
    raise ValueError(f"unknown loss {loss!r}")


def age(tau):
    """s_t = tau: f_t holds the terms born at t - s_t, ..., t - 1 (N04 Fig. 1)."""
    return lambda t: tau


def tolerance_age(tol, eta, lam, c, x2):
    """Least tau >= 1 with (1 - eta lam)^tau c sqrt(x2) / lam <= tol (N04 Prop. 1)."""
    if not (tol > 0 and 0 < eta * lam <= 1):
        raise ValueError("a tolerance needs tol > 0 and 0 < eta lam <= 1")
    tau = 1
    while (1 - eta * lam) ** tau * c * math.sqrt(x2) / lam > tol:
        tau += 1
    return tau


def growth_t0_by_scan(eta_lam, eps, limit):
    """1 + the last t <= limit where a condition of Theorem 6 fails; limit + 1 says: or later."""
    t0 = 1
    for t in range(1, limit + 1):
        small = eta_lam * t**-0.5 <= 1
        decayed = math.exp(-eta_lam * t**eps) <= eta_lam * t**-0.5
        if not (small and decayed and math.ceil(t ** (0.5 + eps)) <= 3 * t / 4):
            t0 = t + 1
    return t0


def growth(eta_lam, eps):
    """s_t = t for t <= t0, then max(ceil(t^(1/2+eps)), 2 t0 - t) (N04 Th. 6), for t <= 10^5.

    A scan suffices: the second condition fails on one interval of t (it is convex in log t), and
    with eta lam <= 1, as the theorem has it, no such interval begins beyond 10^5.
    """
    if not (0 < eta_lam <= 1 and 0 < eps < 0.5):
        raise ValueError("growth needs 0 < eta lam <= 1 and 0 < eps < 1/2")
    t0 = growth_t0_by_scan(eta_lam, eps, 10**5)
    return lambda t: t if t <= t0 else max(math.ceil(t ** (0.5 + eps)), 2 * t0 - t)


def is_refresh(t, memory):
    """t = 2^k while 2^k <= memory/4, then the multiples of int(memory/4), at least 1."""
    doubling = (t & (t - 1)) == 0 and t <= memory / 4
    return doubling or (memory < math.inf and t % max(1, int(memory / 4)) == 0)


class Moments:
    """share = 1/min(t, memory): mean += share d, var = (1-share)(var + share d^2), d = x - mean."""

    def __init__(self, memory, eps):
        self.memory, self.eps, self.t = memory, eps, 0

    def update(self, x):
        """Enter one more row; the first one is the mean."""
        self.t, x = self.t + 1, np.array(x, float)
        if self.t == 1:
            self.mean, self.var = x, np.zeros_like(x)
            return
        share, delta = 1 / min(self.t, self.memory), x - self.mean
        self.mean = self.mean + share * delta
        self.var = (1 - share) * (self.var + share * delta * delta)

    def spread(self):
        """sqrt(var), but 1 where that is <= max(8 eps |mean|, 1e-290)."""
        s = np.sqrt(self.var)
        return np.where(s <= np.maximum(8 * self.eps * np.abs(self.mean), 1e-290), 1.0, s)


def _row(x):
    """A float64 copy of a numeric row; a string as it is."""
    return x if isinstance(x, str) else np.array(x, float)


class Norma:
    """f <- shrink f + eta w (-l') k(x, .), b <- b + eta w (-l'), a number by nu, truncation."""

    def __init__(self, *, kernel, loss, rate, lam, start, outputs=1, nu=None, support=None,
                 threshold_rate=1.0, support_rate=None, intercept=True, max_terms=None, age=None,
                 average=False,
                 omega_prime=None, scale=False, memory=math.inf, targets_scaled=False,
                 moments_eps=2.2e-16):  # fmt: skip
        self.kernel, self.loss, self.outputs, self.rate, self.lam = kernel, loss, outputs, rate, lam
        self.nu, self.support, self.threshold_rate = nu, support, threshold_rate
        self.support_rate = threshold_rate if support_rate is None else support_rate
        self.intercept = intercept and loss != "novelty"  # no b for novelty
        self.max_terms, self.age, self.average = max_terms, age, average
        self.omega_prime = omega_prime
        self.scale, self.memory, self.targets_scaled = scale, memory, targets_scaled
        self.t, self.b = 0, [0.0] * outputs
        self.threshold, self.alert = [float(start)] * outputs, [float(start)] * outputs
        self.terms, self.dropped = [], []  # a term: (birth, raw x, [coefficient per output])
        self.sum_terms, self.sum_b = {}, [0.0] * outputs  # f_1 + ... + f_t by birth; b likewise
        self.sum_outside, self.sum_alerts = np.zeros(outputs, int), np.zeros(outputs, int)
        self.cumulative_loss, self.cumulative_risk = np.zeros(outputs), np.zeros(outputs)
        self.near, self.near_by_trial = math.inf, []
        self.row_moments = Moments(memory, moments_eps)
        self.target_moments = Moments(memory, 2.2e-16)
        self.center, self.spread = 0.0, 1.0
        self.target_center, self.target_spread = np.zeros(outputs), np.ones(outputs)
        self.target_known = [False] * outputs
        self.pairs = {}  # kernel values of stored rows under the current frame

    def _k(self, x, z):
        """k of two raw rows, standardised by (x - center) / spread of the last refresh."""
        if self.scale:
            x, z = (x - self.center) / self.spread, (z - self.center) / self.spread
        return self.kernel(x, z)

    def _expand(self, terms, x):
        """sum_i a_i k(x_i, x) for each output."""
        pairs = [(coef, self._k(x_i, x)) for _, x_i, coef in terms]
        return [sum(coef[o] * k for coef, k in pairs) for o in range(self.outputs)]

    def _raw(self, f, b):
        """target_center + target_spread (f + b) for each output."""
        z = np.array(f, float) + np.array(b, float)
        return (self.target_center + self.target_spread * z).tolist()

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

    def score(self, x):
        """f(x) + b for each output, in the units of the raw target."""
        return self._raw(self._expand(self.terms, _row(x)), self.b)

    def _mean(self, x, terms):
        """(1/m) sum_{t=1..m} (f_t(x) + b_t) over the terms given, in raw target units."""
        m = max(1, self.t)
        return self._raw([f / m for f in self._expand(terms, _row(x))], [b / m for b in self.sum_b])

    def mean_score(self, x):
        """f-bar_m(x) + mean b, every term that was ever alive included (needs average=True)."""
        return self._mean(x, self.sum_terms.values())

    def mean_score_kept(self, x):
        """The same without the terms that are no longer in the window."""
        births = [birth for birth, _, _ in self.terms if birth in self.sum_terms]
        return self._mean(x, [self.sum_terms[birth] for birth in births])

    def _shrinks(self, eta, norm2):
        """1 - eta lam omega'(||f||)/||f|| within [0, 1]; 1 at f = 0 unless omega = r^2/2."""
        if self.omega_prime is None:
            return [min(1.0, max(0.0, 1 - eta * self.lam))] * self.outputs
        ratio = [self.omega_prime(math.sqrt(v)) / math.sqrt(v) if v > 0 else 0.0 for v in norm2]
        return [min(1.0, max(0.0, 1 - eta * self.lam * r)) for r in ratio]

    def _multiply(self, terms, factors):
        """a_i <- factor a_i in place; a factor of 0 removes the terms that it empties."""
        for _, _, coef in terms:
            coef[:] = [a * s for a, s in zip(coef, factors, strict=True)]
        if 0.0 in factors:
            terms[:] = [term for term in terms if any(term[2])]

    def _step(self, o, z, y, step, decision):
        """Judge output o, move b, rho, eps, sigma and the alert threshold; return (-l', l)."""
        slope, outside, value, direction = judge(
            self.loss, self.nu, z, y, self.threshold[o], self.support, outside=decision
        )
        compared = {"soft_margin": y * z, "novelty": z}.get(self.loss, abs(y - z))
        distance = abs(compared - self.threshold[o]) if self.loss in COMPARING else math.inf
        self.sum_outside[o] += outside
        if self.loss == "novelty":
            alert = int(z < self.alert[o])
            distance = min(distance, abs(z - self.alert[o]))
            self.sum_alerts[o] += alert
            if self.nu is not None:
                self.alert[o] += self.threshold_rate * step * (self.nu - alert)
        if self.nu is not None:
            rate = self.support_rate if self.loss == "novelty" else self.threshold_rate
            self.threshold[o] += rate * step * direction
        if self.intercept:
            self.b[o] += step * slope
        self.near_by_trial[-1] = min(self.near_by_trial[-1], distance)
        self.near = min(self.near, distance)
        return slope, value

    def learn_one(self, x, y=None, weight=1.0, decisions=None):
        """Predict the row, then learn it; the scores before learning, in raw target units.

        A target of None leaves that output alone (a class that is not known yet).
        """
        x, y = _row(x), [0.0] * self.outputs if self.loss == "novelty" else list(y)
        self.t += 1
        f = self._expand(self.terms, x)
        scores = self._raw(f, self.b)
        if self.t == 1 and self.scale:
            self.center = x
        if self.t == 1 and self.targets_scaled:
            self.target_center = np.array(y, float)
        if self.average:
            self._accumulate()
        z, targets = [f[o] + self.b[o] for o in range(self.outputs)], y
        if self.targets_scaled:
            self._first_differences(y)
            targets = ((np.array(y, float) - self.target_center) / self.target_spread).tolist()
        decisions = [None] * self.outputs if decisions is None else decisions
        self._learn(x, targets, z, weight, decisions)
        self._truncate()
        self._refresh(x, y)
        return scores

    def _learn(self, x, y, z, weight, decisions):
        """f <- shrink f + eta w (-l') k(x, .), all judged under the hypothesis before the step."""
        eta, norm2, coef = self.rate(self.t), self.norm2(), [0.0] * self.outputs
        self.near_by_trial.append(math.inf)
        for o in range(self.outputs):
            if y[o] is None:
                continue
            slope, value = self._step(o, z[o], y[o], eta * weight, decisions[o])
            coef[o] = eta * weight * slope
            self.cumulative_loss[o] += value
            risk = value + self.lam / 2 * norm2[o] if self.omega_prime is None else math.nan
            self.cumulative_risk[o] += risk
        shrinks = self._shrinks(eta, norm2)
        self._multiply(self.terms, shrinks)
        self._multiply(self.dropped, shrinks)
        if any(coef):
            self.terms.append((self.t, x, coef))

    def _first_differences(self, y):
        """The first target that differs from all before it is the unit, at once (f = 0 there)."""
        for o in range(self.outputs):
            gap = abs(y[o] - self.target_center[o])
            if not self.target_known[o] and gap > 8 * 2.2e-16 * abs(self.target_center[o]):
                self.target_known[o] = True
                self.target_spread = self.target_spread.copy()
                self.target_spread[o] = gap

    def _accumulate(self):
        """sum_t f_t and sum_t b_t: the live coefficients go into a dictionary never pruned."""
        for birth, x, coef in self.terms:
            total = self.sum_terms.setdefault(birth, (birth, x, [0.0] * self.outputs))[2]
            for o in range(self.outputs):
                total[o] += coef[o]
        for o in range(self.outputs):
            self.sum_b[o] += self.b[o]

    def _truncate(self):
        """Drop what was born before t + 1 - s_{t+1}, then the oldest beyond max_terms."""
        oldest = -math.inf if self.age is None else self.t + 1 - self.age(self.t + 1)
        while self.terms and self.terms[0][0] < oldest:
            self.dropped.append(self.terms.pop(0))
        while self.max_terms is not None and len(self.terms) > self.max_terms:
            self.dropped.append(self.terms.pop(0))

    def _refresh(self, x, y):
        """The moments take the row and the target; at a refresh the frame takes the moments."""
        if self.scale:
            self.row_moments.update(x)
        if self.targets_scaled:
            self.target_moments.update(y)
        if not is_refresh(self.t, self.memory):
            return
        if self.scale:
            self.center, self.spread = self.row_moments.mean, self.row_moments.spread()
            self.pairs = {}
        if self.targets_scaled:
            spread = np.where(self.target_known, self.target_moments.spread(), self.target_spread)
            self._reexpress(self.target_moments.mean, spread)

    def _reexpress(self, center, spread):
        """c + s (f + b) = c' + s' (f' + b'): f' = f s/s', b' = (s b + c - c')/s'."""
        ratio = (self.target_spread / spread).tolist()
        shift = ((self.target_center - center) / spread).tolist()
        for terms in (self.terms, self.dropped, list(self.sum_terms.values())):
            self._multiply(terms, ratio)
        for o in range(self.outputs):
            if self.intercept:
                self.b[o] = ratio[o] * self.b[o] + shift[o]
                self.sum_b[o] = ratio[o] * self.sum_b[o] + self.t * shift[o]
            if self.nu is not None:
                self.threshold[o] *= ratio[o]
        self.target_center, self.target_spread = center, spread
