"""The detector in plain NumPy: fallback, oracle, and the place to read the algorithm.

Four views look at a row (``numpy_views.py``): the row in units of its spreads, row and step turned
so that their correlations vanish, and a short running mean whose terms were let in late. Each says
a tail probability; they are joined, the joined score is ranked among those remembered, and the rank
is judged against a level that remembers its debt:

    ``log a <- log a + rate (nu - alert)``, held within [log low, log high].

Rows that raise no alert are learned at once; those that do are held back for a while, bounded, and
marked. Twin of ``src/density.hpp``, with the same names and the same results to rounding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density_table import (
    FURTHEST,
    GROSS,
    KNOWN,
    LARGEST,
    LAST_LEAST,
    LAST_SHARE,
    LOUD,
    REACH_COST,
    TURN_COST,
    Count,
    Level,
)
from onkel.core.numpy_metric import LATE, ROWS, STEPS, Metric, bounded
from onkel.core.numpy_views import (
    LOG2,
    Met,
    View,
    fit_tails,
    in_tail,
    meet,
    put,
    reach_of,
    reach_score,
    settle,
    tail_score,
)

if TYPE_CHECKING:
    from onkel.core.answers import Answers
    from onkel.core.density import DensityState, Plan

Array = NDArray[Any]

Levels = tuple[Array, Array, Array, Array, Array]
_WORD = 2**64 - 1


def uniform(seed: int, counter: int) -> float:
    """A number in [0, 1) from a counter (splitmix64)."""
    z = (seed * 0xD1B54A32D192ED03 + (counter + 1) * 0x9E3779B97F4A7C15) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return float(((z ^ (z >> 31)) >> 11) * 2.0**-53)


def loud(score: float) -> float:
    """No view drowns the others: beyond LOUD a score counts by its logarithm."""
    return score if score < LOUD else LOUD + math.log1p(score - LOUD)


class Machine(Metric):
    """A state at work: judges rows, learns them."""

    def __init__(self, plan: Plan, state: DensityState, answers: Answers | None = None) -> None:
        super().__init__(plan, state)
        self.answers = answers
        self.plain = self._view(0, 0, 1)
        self.white = self._view(1, 1, 2)
        self.steps = self._view(2, 3, 1)
        self.late = View(
            state.late_z, state.late_sums[:1], state.late_sums[1], None,
            *self._levels(3, 4, 1, 8), int(self.whole[Count.LATE_SIZE]), True,
        )  # fmt: skip
        self.q: list[Array] = []
        self.reach: list[Any] = []
        self.met: list[Met | None] = []

    def _view(self, k: int, first: int, widths: int) -> View:
        s = self.s
        return View(
            s.z[k], s.sums[first : first + widths], s.sums[4 + k], s.marks,
            *self._levels(k, first, widths, 5 + k), int(self.whole[Count.SIZE]), k > 0,
        )  # fmt: skip

    def _levels(self, k: int, first: int, widths: int, reach: int) -> Levels:
        edge, slope = self.real[Level.EDGE : Level.SLOPE], self.real[Level.SLOPE :]
        at, far = slice(first, first + widths), slice(reach, reach + 1)
        width = self.real[Level.WIDTH + k : Level.WIDTH + k + 1]
        return width, edge[at], slope[at], edge[far], slope[far]

    @property
    def ready(self) -> bool:
        """Whether enough is known to judge."""
        return self.plain.count >= self.plan.young and self.real[Level.WIDTH] != 0

    def refresh(self) -> None:
        """See all terms through the moments of now, and settle all views, every t / 8 rows."""
        t, s = int(self.whole[Count.T]), self.s
        if t < self.plan.young or t < self.whole[Count.REFRESH]:
            return
        self.whole[Count.REFRESH] = t + max(5, min(t // 8, int(self.plan.memory / 4)))
        for kind in (ROWS, STEPS, LATE):
            self.take_metric(kind, t)
        n, late = self.plain.count, self.late.count
        straight, turned = self.seen_as(ROWS, s.raw[0, :n])
        self.plain.z[:, :n], self.white.z[:, :n] = straight.T, turned.T
        self.plain.reach[:n] = self.white.reach[:n] = reach_of(straight)
        straight, turned = self.seen_as(STEPS, s.raw[1, :n])
        self.steps.z[:, :n], self.steps.reach[:n] = turned.T, reach_of(straight)
        self.late.z[:, :late] = self.seen_as(LATE, s.late_raw[:late])[1].T
        self.late.reach[:late] = 0
        for view in (self.plain, self.white, self.steps, self.late):
            settle(view)
        self.whole[Count.FRESH] = self.whole[Count.LATE_FRESH] = 0

    # -- judging -------------------------------------------------------------------------------

    def rank_score(self, g: float, tied: float) -> float:
        """-log p of a joined score among those remembered; while they are few, of itself."""
        n = int(self.whole[Count.HISTORY])
        guess = g / (1 + 1.5 * tied)
        if n < self.plan.young:
            return guess
        known = min(1.0, n / KNOWN)
        return known * self.among(g, n) + (1 - known) * guess

    def among(self, g: float, n: int) -> float:
        """-log of the share that lies as high; beyond the k highest, an exponential tail."""
        ranked, k = self.s.ranked, in_tail(n, LAST_SHARE, LAST_LEAST)
        edge = float(ranked[n - k - 1])
        if g > edge:
            slope = max((float(ranked[n - k // 2 - 1]) - edge) / LOG2, 0.5)
            return math.log(n / k) + (g - edge) / slope
        below = int(np.searchsorted(ranked[:n], g))
        return -math.log((n - below + 1) / (n + 1))

    def look(self, x: Array, step: Array) -> None:
        """See a row and its step in the views of the sample; what they meet is found on demand."""
        row, turned = self.seen_as(ROWS, x)
        step, turned_step = self.seen_as(STEPS, step)
        self.q = [row, turned, turned_step]
        self.reach = [reach_of(row), reach_of(row), reach_of(step)]
        self.met = [None, None, None]

    def meet_once(self, k: int) -> Met:
        """What the row of the last `look` meets in view k."""
        met = self.met[k]
        if met is None:
            met = self.met[k] = meet((self.plain, self.white, self.steps)[k], self.q[k])
        return met

    def moved(self, x: Array) -> tuple[Array, Array]:
        """A row's step, and the running mean with it."""
        fade, first = 1 - 2 / (self.plan.span + 1), self.whole[Count.T] == 0
        step = np.zeros(self.d) if first else x - self.s.last
        return step, (fade * self.s.smooth + x) / (fade * self.real[Level.SMOOTH_MASS] + 1)

    def judge(self, x: Array, step: Array, mean: Array) -> tuple[float, float, Array]:
        """Judge a row as the next one: the joined score, -log p, and what each view says."""
        part = np.zeros(9)
        if not self.ready:
            return 0.0, 0.0, part
        part[8] = tied = self.tie()
        self.look(x, step)
        part[1] = tail_score(self.white, self.meet_once(1), 0)
        if tied < 1:
            part[0] = tail_score(self.plain, self.meet_once(0), 0)
            part[5] = reach_score(self.plain, self.reach[0])
        if tied > 0:
            self.look_closer(mean, part)
        g = self.joined(part)
        return g, self.rank_score(g, tied), part

    def look_closer(self, mean: Array, part: Array) -> None:
        """What is looked at where rows are tied to those before."""
        white, steps = self.meet_once(1), self.meet_once(2)
        part[2] = tail_score(self.white, white, 1)
        part[3] = tail_score(self.steps, steps, 0)
        part[6] = reach_score(self.white, self.reach[1])
        part[7] = reach_score(self.steps, self.reach[2])
        if self.late.count >= self.plan.young and self.late.width[0]:
            part[4] = tail_score(self.late, meet(self.late, self.seen_as(LATE, mean)[1]), 0)

    def joined(self, part: Array) -> float:
        """Join what the views say; a view is its density, or its largest coordinate if far ahead.

        ``(1 - tie) max(plain, white - 3) + tie (white + steps / 2 + late)``
        """
        plain, broad, narrow, steps, late, *reach, tied = part.tolist()
        far = [r - REACH_COST for r in reach]
        alone = loud(max(plain, far[0], broad - TURN_COST))
        turned, step = max((broad + narrow) / 2, far[1]), max(steps, far[2])
        return (1 - tied) * alone + tied * (loud(turned) + loud(step) / 2 + loud(late))

    def level(self) -> float:
        """The level below which log p is an alert."""
        rate = float(self.real[Level.LOG_ALPHA])
        return rate if self.answers is None else self.answers.level(rate)

    def heard(self, seen: Array, score: float, tied: float) -> tuple[float, float, bool]:
        """What answers make of -log p; the same by places alone; whether it is a fault's kind."""
        if self.answers is None or not len(self.answers.born) or not self.ready:
            return score, score, False
        z, t = self.standing(seen, tied), int(self.whole[Count.T])
        return self.answers.heard(seen, z, t, score, self.level())

    def standing(self, seen: Array, tied: float) -> Array:
        """Row, step and mean in spreads from their means; 0 where they are not looked at."""
        late = self.late.count >= self.plan.young and bool(self.late.width[0])
        looked = np.array([True, tied > 0, tied > 0 and late])
        z = bounded((seen - self.s.center) / self.s.scale, FURTHEST)
        return np.where(looked[:, None], z, 0.0)

    # -- learning ------------------------------------------------------------------------------

    def draw(self) -> float:
        """The next random number of the state's own."""
        self.whole[Count.DRAWS] += 1
        return uniform(self.plan.seed, int(self.whole[Count.DRAWS]) - 1)

    def remember(self, g: float) -> None:
        """A joined score into the history; once that is full, by chance and in another's place.

        The chance n / min(t / 4, 0.4 memory) keeps a sample of the last rows, not of all. There is
        one zero, so that equal scores are the same bits in whatever order they are ranked.
        """
        g += 0.0
        whole, s = self.whole, self.s
        n, at = int(whole[Count.HISTORY]), int(whole[Count.HISTORY_AT])
        if n == self.plan.history:
            if not self.draw() < n / min(float(whole[Count.T]) / 4, 0.4 * self.plan.memory):
                return
            at, n = min(int(self.draw() * n), n - 1), n - 1
            old = min(int(np.searchsorted(s.ranked[: n + 1], s.history[at])), n)
            s.ranked[old:n] = s.ranked[old + 1 : n + 1].copy()
        place = int(np.searchsorted(s.ranked[:n], g, "right"))
        s.ranked[place + 1 : n + 1] = s.ranked[place:n].copy()
        s.ranked[place] = s.history[at] = g
        whole[Count.HISTORY] = n + 1
        whole[Count.HISTORY_AT] = 0 if at + 1 == self.plan.history else at + 1

    def chosen(self, seen: float, weight: float, count: int, most: int) -> int:
        """The place that a row gets in a sample of `most`, -1 for none; the past fades."""
        if count < most:
            return count
        if not self.draw() < weight * most / min(seen, self.plan.memory):
            return -1
        return min(int(self.draw() * most), most - 1)

    def admit(self, x: Array, step: Array, weight: float, known: bool, clipped: bool) -> None:
        """Let a row and its step in; `known`: what they met is at hand."""
        self.enter(ROWS, Level.ROW_MASS, x, weight, clipped)
        self.enter(STEPS, Level.STEP_MASS, step, weight, clipped)
        self.real[Level.SEEN] += weight
        at = self.chosen(float(self.real[Level.SEEN]), weight, self.plain.count, self.plan.terms)
        if at < 0:
            return
        s, views = self.s, (self.plain, self.white, self.steps)
        s.marks[at], s.raw[0, at], s.raw[1, at] = clipped, x, step
        if self.real[Level.WIDTH] == 0:  # nothing is judged yet: the refresh will see to it
            for view in views:
                view.count = max(view.count, at + 1)
        else:
            if not known:
                self.look(x, step)
            for k, view in enumerate(views):
                put(view, at, self.q[k], self.reach[k], self.meet_once(k))
            self.fit_anew(Count.FRESH, *views)
        self.whole[Count.SIZE] = self.plain.count

    def fit_anew(self, fresh: Count, *views: View) -> None:
        """Fit the tails where one term in fifty is new."""
        self.whole[fresh] += 1
        if self.whole[fresh] * 50 > views[0].count:
            for view in views:
                fit_tails(view)
            self.whole[fresh] = 0

    def learn_late(self) -> None:
        """Let in the means that have waited min(delay, t / 2) rows."""
        t, next_ = int(self.whole[Count.T]), int(self.whole[Count.LATE_SEEN])
        for at in range(next_, max(next_, t - min(self.plan.delay, t // 2))):
            self.admit_late(self.s.waiting[at % len(self.s.waiting)])
            self.whole[Count.LATE_SEEN] = at + 1

    def admit_late(self, x: Array) -> None:
        """Let a mean in."""
        self.enter(LATE, Level.LATE_MASS, x, 1.0, False)
        self.real[Level.LATE_WEIGHT] += 1
        late, seen = self.late, float(self.real[Level.LATE_WEIGHT])
        at = self.chosen(seen, 1.0, late.count, self.plan.late_terms)
        if at < 0:
            return
        self.s.late_raw[at] = x
        if late.width[0] == 0:
            late.count = max(late.count, at + 1)
        else:
            q = self.seen_as(LATE, x)[1]
            put(late, at, q, 0, meet(late, q))
            self.fit_anew(Count.LATE_FRESH, late)
        self.whole[Count.LATE_SIZE] = late.count

    def settle_level(self, alert: bool, hushed: bool) -> None:
        """Move the level by a small step against its debt, and forget what lies beyond its limits.

        A row that is no alert for an answer's sake counts as one: others must not take its place.
        FORGIVEN and UNSPENT sum up what that was (:func:`onkel.bounds.alert_budget`).
        """
        real, plan = self.real, self.plan
        self.whole[Count.JUDGED] += 1
        self.whole[Count.ALERTS] += alert
        if hushed and self.answers is not None:
            self.answers.asked_count[1] += 1
        level = real[Level.LOG_ALPHA] + plan.rate * (plan.nu - (alert or hushed))
        low, high = math.log(plan.low), math.log(plan.high)
        real[Level.FORGIVEN] += max(low - level, 0.0)
        real[Level.UNSPENT] += max(level - high, 0.0)
        real[Level.LOG_ALPHA] = max(low, min(level, high))
        real[Level.RECENT] += (alert - real[Level.RECENT]) / 1000

    def hold(self, x: Array, step: Array, weight: float, remembered: float) -> None:
        """Keep a row that raised an alert until it is due, min(hold, t / 2) rows from now."""
        t, holds = int(self.whole[Count.T]), len(self.s.due)
        at = int(self.whole[Count.HELD_FIRST] + self.whole[Count.HELD]) % holds
        self.whole[Count.HELD] += 1
        self.s.held[at] = np.concatenate([x, step, [weight, remembered]])
        self.s.due[at] = t + 1 + min(self.plan.hold, t // 2)

    def release(self) -> None:
        """Let in the rows that are due, bounded and marked.

        The score of a gross one is remembered with chance nu / (2 x the recent alert rate): half
        as many as were promised.
        """
        whole, s, d = self.whole, self.s, self.d
        while whole[Count.HELD] > 0 and s.due[whole[Count.HELD_FIRST]] <= whole[Count.T]:
            row = s.held[whole[Count.HELD_FIRST]]
            weight, g = row[2 * d :].tolist()
            self.admit(row[:d], row[d : 2 * d], weight, False, True)
            if not math.isnan(g) and self.draw() < 0.5 * self.plan.nu / self.real[Level.RECENT]:
                self.remember(g)
            whole[Count.HELD_FIRST] = (whole[Count.HELD_FIRST] + 1) % len(s.due)
            whole[Count.HELD] -= 1

    def learn(
        self, x: Array, step: Array, weight: float, g: float, score: float, alert: bool,
        fault: bool, shown: bool, hushed: bool,
    ) -> None:  # fmt: skip
        """Learn a row that has just been judged; what is like a `fault` stays unknown.

        `shown`: the alert was one, or nobody was told because the row's values are known one by
        one.
        """
        ready = self.ready
        gross = alert and -score < self.level() - GROSS
        if ready and not gross and not fault:
            self.remember(g)
        if self.whole[Count.T] >= self.plan.warmup:
            self.settle_level(shown, hushed)
        if fault:
            pass
        elif alert:
            self.hold(x, step, weight, g if gross else math.nan)
        else:
            self.admit(x, step, weight, ready, False)
            if not self.whole[Count.ALARMED]:
                self.take_calm(x, step)
        self.whole[Count.ALARMED] = alert or fault  # in a warm-up a fault raises no alert
        self.advance(x)
        self.learn_late()
        self.release()
        self.refresh()

    def advance(self, x: Array) -> None:
        """Take a row as the last one: sizes, running mean, and the mean's place in the queue."""
        s, t = self.s, int(self.whole[Count.T])
        fade = 1 - 2 / (self.plan.span + 1)
        self.real[Level.SMOOTH_MASS] = fade * self.real[Level.SMOOTH_MASS] + 1
        s.size += (np.abs(x) - s.size) / min(t + 1.0, self.plan.memory)
        s.smooth[:] = fade * s.smooth + x
        s.last[:] = x
        s.waiting[t % len(s.waiting)] = s.smooth / self.real[Level.SMOOTH_MASS]
        self.whole[Count.T] = t + 1


def density(
    plan: Plan, state: DensityState, answers: Answers | None, x: Array, weight: Array, out: Array,
    members: Array, stop_from: int = -1,
) -> int:  # fmt: skip
    """Judge each row, and learn it if it has a weight above 0 (no weights: none is).

    From row `stop_from` on (-1: never) it stops before an alert is learned. Returns the rows done.
    """
    machine = Machine(plan, state, answers)
    weight = np.minimum(weight, plan.memory)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if len(weight) or not len(x):
            machine.refresh()  # due only in a state that was put together by hand
        for i, came in enumerate(x):
            row = bounded(np.where(np.isnan(came), state.mean[0], came), LARGEST)
            step, mean = machine.moved(row)
            g, score, parts = machine.judge(row, step, mean)
            before = score
            seen = np.stack([row, step, mean])
            score, alone, fault = machine.heard(seen, score, float(parts[8]))
            level = machine.level()
            alert = bool(state.whole[Count.T] >= plan.warmup and -score < level)
            out[i] = 0.0 - score, level, alert, g
            if len(members):
                members[i] = parts
            if len(weight) and weight[i] > 0:
                if alert and 0 <= stop_from <= i:
                    return i
                if alert and answers is not None:
                    answers.ask(seen, int(state.whole[Count.T]), score, float(parts[8]))
                # A row whose values are known one by one is no alert, but nobody has judged them
                # together: it is learned as if it were one.
                late = not alert and state.whole[Count.T] >= plan.warmup and -alone < level
                machine.learn(
                    row, step, float(weight[i]), g, alone if late else score, alert or late, fault,
                    alert, not alert and -before < level,
                )  # fmt: skip
    return len(x)
