"""What every twin shares: one trial from end to end, the adaptive numbers, the frames."""

import math

import numpy as np

from .losses import COMPARING, judge
from .rules import Descent
from .windows import Moments, is_refresh


def as_row(x):
    """A float64 copy of a numeric row; a string as it is."""
    return x if isinstance(x, str) else np.array(x, float)


class State:
    """One trial: predict, pick (s, a, c) for each output from scalars, f <- c (s f + a k_x).

    ``rule`` is a Rule or a Descent (NORMA's step); only the latter moves b and the numbers.
    How f is held is the affair of the classes derived from this one:
    ``_values(x)`` f(x) for each output; ``_kxx(x)``; ``norm2()``; ``_advance(x, shrinks, coefs)``
    f <- s f + a k_x; ``_multiply_all(factors)``; ``_accumulate()`` adds f to the sum of all f_t;
    ``_multiply_sums(factors)``; ``_mean_values(x)`` the sum of all f_t at x; and where they apply,
    ``_admit(x)``, ``_truncate()``, ``_reframed()``.
    """

    def __init__(self, *, loss, rule, start, outputs=1, power=1.0, intercept=True, average=False,
                 scale=False, memory=math.inf, targets_scaled=False,
                 moments_eps=2.2e-16):  # fmt: skip
        self.loss, self.rule, self.outputs, self.power = loss, rule, outputs, power
        self.descent = isinstance(rule, Descent)
        self.nu = rule.nu if self.descent else None
        self.lam = rule.lam if self.descent else 0.0
        self.intercept = intercept and self.descent and loss != "novelty"  # no b for novelty
        self.average = average
        self.scale, self.memory, self.targets_scaled = scale, memory, targets_scaled
        self.t, self.updates = 0, [0] * outputs
        self.b, self.sum_b = [0.0] * outputs, [0.0] * outputs  # b and b_1 + ... + b_t
        self.threshold, self.alert = [float(start)] * outputs, [float(start)] * outputs
        self.sum_outside, self.sum_alerts = np.zeros(outputs, int), np.zeros(outputs, int)
        self.cumulative_loss, self.cumulative_risk = np.zeros(outputs), np.zeros(outputs)
        self.near, self.near_by_trial = math.inf, []
        self.row_moments = Moments(memory, moments_eps)
        self.target_moments = Moments(memory, 2.2e-16)
        self.center, self.spread = 0.0, 1.0
        self.target_center, self.target_spread = np.zeros(outputs), np.ones(outputs)
        self.target_known = [False] * outputs
        self.known = False  # features that have been seen to vary

    def _admit(self, x):
        """Whether the row changed the hypothesis between its prediction and its step."""
        return False

    def _truncate(self):
        """Drop terms; by itself, none."""

    def _reframed(self):
        """The frame of the rows has changed."""

    def _framed(self, x):
        """A raw row, standardised by (x - center) / spread of the last refresh."""
        return (x - self.center) / self.spread if self.scale else x

    def _raw(self, f, b):
        """target_center + target_spread (f + b) for each output."""
        z = np.array(f, float) + np.array(b, float)
        return (self.target_center + self.target_spread * z).tolist()

    def _mean(self, totals):
        """(1/m) sum_{t=1..m} (f_t(x) + b_t) from the sums of f_t(x), in raw target units."""
        m = max(1, self.t)
        return self._raw([f / m for f in totals], [b / m for b in self.sum_b])

    def score(self, x):
        """f(x) + b for each output, in the units of the raw target."""
        return self._raw(self._values(as_row(x)), self.b)

    def mean_score(self, x):
        """f-bar_m(x) + mean b, every term that was ever alive included (needs average=True)."""
        return self._mean(self._mean_values(as_row(x)))

    def learn_one(self, x, y=None, weight=1.0, decisions=None):
        """Predict the row, then learn it; the scores before learning, in raw target units.

        A target of None leaves that output alone (a class that is not known yet).
        """
        x, y = as_row(x), [0.0] * self.outputs if self.loss == "novelty" else list(y)
        self.t += 1
        f = self._values(x)
        scores = self._raw(f, self.b)
        if self.t == 1 and self.scale:
            self.center = x
        if self.t == 1 and self.targets_scaled:
            self.target_center = np.array(y, float)
        if self.average:
            self._accumulate()
            self.sum_b = [total + b for total, b in zip(self.sum_b, self.b, strict=True)]
        changed = self._first_units(x)
        if self._admit(x) or changed:
            f = self._values(x)
        targets = y
        if self.targets_scaled:
            self._first_differences(y)
            targets = ((np.array(y, float) - self.target_center) / self.target_spread).tolist()
        decisions = [None] * self.outputs if decisions is None else decisions
        self._learn(x, targets, f, weight, decisions)
        self._truncate()
        self._into_ball()
        self._refresh(x, y)
        self._into_ball()
        return scores

    def _into_ball(self):
        """Dropping terms or a new frame can make f longer than the rule's radius."""
        radius = math.inf if self.descent else self.rule.radius
        if radius < math.inf:
            sizes = [math.sqrt(v) for v in self.norm2()]
            self._multiply_all([radius / size if size > radius else 1.0 for size in sizes])

    def _first_units(self, x):
        """Rules that divide by k(x, x): a feature's first difference is its unit, at once."""
        if not self.scale or self.descent or not self.rule.divides or self.t == 1:
            return False
        mean = self.row_moments.mean
        gap, noise = np.abs(x - mean), np.maximum(8 * self.row_moments.eps * np.abs(mean), 1e-290)
        new = ~self.known & (gap > noise)
        self.known = self.known | new
        if not new.any():
            return False
        self.spread = np.where(new, gap, self.spread)
        self._reframed()
        return True

    def _learn(self, x, y, f, weight, decisions):
        """f <- c (s f + a k_x), all judged under the hypothesis before the step."""
        norm2, kxx, moves = self.norm2(), self._kxx(x), []
        self.near_by_trial.append(math.inf)
        for o in range(self.outputs):
            moves.append(self._move(o, f[o], y[o], kxx, norm2[o], weight, decisions[o]))
        shrinks, coefs, radii = (list(column) for column in zip(*moves, strict=True))
        self._advance(x, shrinks, coefs)
        if min(radii) < math.inf:
            sizes = [math.sqrt(v) for v in self.norm2()]
            balls = zip(radii, sizes, strict=True)
            self._multiply_all([r / size if size > r else 1.0 for r, size in balls])

    def _move(self, o, f, y, kxx, norm2, weight, decision):
        """(s, a, radius) for output o; the measures and the adaptive numbers move."""
        shrink = self.rule.shrink(self.t, norm2) if self.descent else 1.0
        if y is None:
            return shrink, 0.0, math.inf
        if self.descent:
            radius = math.inf
            coef, value, outside, distance = self._descend(o, f + self.b[o], y, weight, decision)
        else:
            rho, k = self.threshold[o], self.updates[o]
            distance = abs(self.rule.gap(f, y, kxx, k, rho))
            value = judge(self.loss, None, f, y, rho, power=self.power)[2]
            shrink, coef, radius, outside = self.rule(f, y, kxx, norm2, k, weight, rho, decision)
        self.updates[o] += int(coef != 0)
        self.sum_outside[o] += outside
        self.cumulative_loss[o] += value
        plain = not self.descent or self.rule.omega_prime is None
        self.cumulative_risk[o] += value + self.lam / 2 * norm2 if plain else math.nan
        self.near_by_trial[-1] = min(self.near_by_trial[-1], distance)
        self.near = min(self.near, distance)
        return shrink, coef, radius

    def _descend(self, o, z, y, weight, decision):
        """NORMA at output o: move b, rho, eps, sigma and the alert threshold.

        Returns the coefficient eta w (-l'), l, outside and the distance to the nearest threshold.
        """
        rule, step, rho = self.rule, self.rule.rate(self.t) * weight, self.threshold[o]
        slope, outside, value, direction = judge(
            self.loss, rule.nu, z, y, rho, rule.support, power=self.power, outside=decision
        )
        compared = {"soft_margin": y * z, "novelty": z}.get(self.loss, abs(y - z))
        distance = abs(compared - rho) if self.loss in COMPARING else math.inf
        pace = rule.threshold_rate
        if self.loss == "novelty":
            alert = int(z < self.alert[o])
            distance = min(distance, abs(z - self.alert[o]))
            self.sum_alerts[o] += alert
            if rule.nu is not None:
                self.alert[o] += rule.threshold_rate * step * (rule.nu - alert)
            if rule.support_rate is not None:
                pace = rule.support_rate
            if alert and not rule.learn_alerts:
                slope = 0.0  # all but the new term as ever
        if rule.nu is not None:
            self.threshold[o] += pace * step * direction
        if self.intercept:
            self.b[o] += step * slope
        return step * slope, value, outside, distance

    def _first_differences(self, y):
        """The first target that differs from all before it is the unit, at once (f = 0 there)."""
        for o in range(self.outputs):
            gap = abs(y[o] - self.target_center[o])
            if not self.target_known[o] and gap > 8 * 2.2e-16 * abs(self.target_center[o]):
                self.target_known[o] = True
                self.target_spread = self.target_spread.copy()
                self.target_spread[o] = gap

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
            self.known = self.known | (self.row_moments.var > 0)
            self._reframed()
        if self.targets_scaled:
            spread = np.where(self.target_known, self.target_moments.spread(), self.target_spread)
            self._reexpress(self.target_moments.mean, spread)

    def _reexpress(self, center, spread):
        """c + s (f + b) = c' + s' (f' + b'): f' = f s/s', b' = (s b + c - c')/s'."""
        ratio = (self.target_spread / spread).tolist()
        shift = ((self.target_center - center) / spread).tolist()
        self._multiply_all(ratio)
        self._multiply_sums(ratio)
        for o in range(self.outputs):
            if self.intercept:
                self.b[o] = ratio[o] * self.b[o] + shift[o]
                self.sum_b[o] = ratio[o] * self.sum_b[o] + self.t * shift[o]
            if self.nu is not None:
                self.threshold[o] *= ratio[o]
        self.target_center, self.target_spread = center, spread
