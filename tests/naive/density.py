"""The detector in plain loops: every kernel sum over all pairs, every rank by counting.

Four views look at a row: the row in units of its spreads (plain), row and step turned so that
correlations vanish (white, steps), and a short running mean (late). A view has terms z_1 ... z_n;
with k(x, z) = exp(-c |x - z|), |.| the sum of absolute differences (plain) or the distance as the
crow flies (where rows were turned),

    s_i = sum over l != i of k(z_i, z_l),    s(x) = sum over l of k(x, z_l).

The tail probability of a row is (1 + #{i: s_i + k(x, z_i) <= s(x)}) / (n + 1), and beyond the edge
of the k least dense terms an exponential tail of -log(s(x) / n). Views are joined, the joined score
is ranked among those remembered, and an alert is what lies below the level a:

    log a <- log a + rate (nu - alert), within [log low, log high].
"""

import math

TIED, REACH, LARGEST = 1 + 1e-5, 1e4, 1e75
VIEWS = ("plain", "white", "steps", "late")
KIND = {"plain": "row", "white": "row", "steps": "step", "late": "late"}


def uniform(seed, counter):
    """Splitmix64 of a counter."""
    z = (seed * 0xD1B54A32D192ED03 + (counter + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return ((z ^ (z >> 31)) >> 11) / 2**53


def held(x, most):
    return max(-most, min(x, most))


def tail_of(n, share=0.05, least=10):
    return max(min(least, n // 4), int(share * n))


def middle(values):
    return sorted(values)[len(values) // 2]


class Moments:
    """Running mean and covariances of weighted rows that fade."""

    def __init__(self, d, memory, whole):
        self.memory, self.whole, self.mass = memory, whole, 0.0
        self.mean, self.cov = [0.0] * d, [[0.0] * d for _ in range(d)]
        self.center, self.scale, self.turn = None, None, None

    def enter(self, x, weight, clipped):
        d = len(x)
        self.mass = self.mass * (1 - weight / self.memory) + weight
        a = weight / self.mass
        e = [x[j] - self.mean[j] for j in range(d)]
        for j in range(d):
            most = 3 * math.sqrt(self.cov[j][j])
            if clipped and most > 0:
                e[j] = held(e[j], most)
            self.mean[j] += a * e[j]
        for i in range(d):
            for j in range(d):
                self.cov[i][j] = (1 - a) * (self.cov[i][j] + a * e[i] * e[j])

    def take_metric(self, size, rows):
        """The inverse of L, where L L' are the correlations, shrunken."""
        d = len(size)
        self.center = list(self.mean)
        self.scale = [max(math.sqrt(self.cov[j][j]), 1e-8 * size[j], 1e-300) for j in range(d)]
        keep = 1 - max(0.05, d / (d + 500), d / (d + rows))
        R = [
            [keep * (self.cov[i][j] / self.scale[i] / self.scale[j]) for j in range(d)]
            for i in range(d)
        ]
        L = [[0.0] * d for _ in range(d)]
        for i in range(d):
            R[i][i] = 1 + 1e-9
            for j in range(i + 1):
                left = R[i][j] - sum(L[i][k] * L[j][k] for k in range(j))
                L[i][j] = math.sqrt(max(left, 1e-12)) if i == j else left / L[j][j]
        self.turn = L

    def straight(self, x):
        return [
            held((v - c) / s, REACH) for v, c, s in zip(x, self.center, self.scale, strict=True)
        ]

    def turned(self, x):
        """Solve L u = z from the top."""
        z = self.straight(x)
        if not self.whole:
            return z
        u = []
        for i, row in enumerate(self.turn):
            u.append((z[i] - sum(row[k] * u[k] for k in range(i))) / row[i])
        return [held(v, REACH) for v in u]


class View:
    """Terms, each a point; sums are taken anew whenever one is asked for after a change."""

    def __init__(self, name):
        self.widths, self.crow = (2 if name == "white" else 1), name != "plain"
        self.c, self.z, self.reach, widths = 0.0, [], [], self.widths
        self.edge, self.slope = [0.0] * widths, [0.0] * widths
        self.reach_edge = self.reach_slope = 0.0
        self.sums = None

    def distance(self, x, z):
        if self.crow:
            return math.sqrt(sum((a - b) ** 2 for a, b in zip(x, z, strict=True)))
        return sum(abs(a - b) for a, b in zip(x, z, strict=True))

    def kernel(self, x, z, w):
        return math.exp(-self.c * self.distance(x, z) * (4 if w else 1))

    def own_sums(self):
        if self.sums is None:
            n = len(self.z)
            self.sums = [[0.0] * n for _ in range(self.widths)]
            for i in range(n):
                for j in range(i):
                    for w in range(self.widths):
                        value = self.kernel(self.z[i], self.z[j], w)
                        self.sums[w][i] += value
                        self.sums[w][j] += value
        return self.sums

    def tune(self):
        n = len(self.z)
        some = range(0, n, max(1, n // 40))
        far = {
            i: [self.distance(self.z[i], z) for j, z in enumerate(self.z) if j != i] for i in some
        }
        positive = [r for row in far.values() for r in row if r > 0]
        if not positive:
            self.c = 4 / len(self.z[0])
            return
        median = max(middle(positive), 1e-25)
        wanted = min(max(5, 0.02 * n), n / 4)
        low, high = math.log(1e-3 / median), math.log(1e4 / median)
        for _ in range(14):
            c = (low + high) / 2
            seen = middle([sum(math.exp(-math.exp(c) * r) for r in row) for row in far.values()])
            low, high = (c, high) if seen > wanted else (low, c)
        self.c = math.exp((low + high) / 2)

    def fit(self, marks):
        n = len(self.z)
        calm = [i for i in range(n) if not marks[i]]
        calm = calm if 2 * len(calm) > n else range(n)
        k = tail_of(len(calm))
        for w, sums in enumerate(self.own_sums()):
            scores = sorted((-math.log(max(sums[i], 1e-37) / (n - 1)) for i in calm), reverse=True)
            self.edge[w] = scores[k]
            self.slope[w] = max((scores[k // 2] - scores[k]) / math.log(2), 0.3)
        reach = sorted((self.reach[i] for i in calm), reverse=True)
        self.reach_edge = reach[k]
        self.reach_slope = max((reach[k // 2] - reach[k]) / math.log(2), 0.1)

    def put(self, place, x, reach):
        self.z[place : place + 1], self.reach[place : place + 1] = [x], [reach]
        self.sums = None

    def tail_score(self, x, w):
        n, met = len(self.z), [self.kernel(x, z, w) for z in self.z]
        nearest = min(self.distance(x, z) for z in self.z) * self.c * (4 if w else 1)
        shifted = [self.c * self.distance(x, z) * (4 if w else 1) - nearest for z in self.z]
        score = nearest - math.log(sum(math.exp(-s) for s in shifted) / n)
        if score > self.edge[w]:
            return math.log(n / tail_of(n)) + (score - self.edge[w]) / self.slope[w]
        sums, own = self.own_sums()[w], sum(met) * TIED
        return -math.log((1 + sum(s + m <= own for s, m in zip(sums, met, strict=True))) / (n + 1))

    def reach_score(self, own):
        n = len(self.z)
        if own > self.reach_edge:
            return math.log(n / tail_of(n)) + (own - self.reach_edge) / self.reach_slope
        return -math.log((1 + sum(r >= own for r in self.reach)) / (n + 1))


def loud(score):
    return score if score < 40 else 40 + math.log1p(score - 40)


def largest(x):
    return max(map(abs, x))


class Detector:
    """Rows one after another; `plan` has the numbers that the detector was asked for."""

    def __init__(self, d, plan, whole=True):
        self.d, self.plan, self.t, self.draws = d, plan, 0, 0
        self.moments = {kind: Moments(d, plan.memory, whole) for kind in ("row", "step", "late")}
        self.views = {name: View(name) for name in VIEWS}
        self.raw = {"row": [], "step": [], "late": []}
        self.marks = []
        self.seen, self.late_seen, self.fresh, self.late_fresh = 0.0, 0, 0, 0
        self.last, self.size = [0.0] * d, [0.0] * d
        self.smooth, self.mass = [0.0] * d, 0.0
        self.calm = [[0.0, 0.0, 0.0, 0.0] for _ in range(d)]
        self.calm_rows, self.alarmed = 0, False
        self.means, self.held, self.history, self.at = [], [], [], 0
        self.next_refresh, self.ready = 0, False
        self.level, self.recent = math.log(plan.nu), plan.nu
        self.judged = self.alerts = 0
        self.forgiven = self.unspent = 0.0
        self.hushed = 0

    def draw(self):
        self.draws += 1
        return uniform(self.plan.seed, self.draws - 1)

    # -- judging

    def tie(self):
        rows = min(self.calm_rows, self.plan.memory)
        if rows < 2:
            return 0.0
        noise, most = (3 + math.sqrt(2 * math.log(self.d))) / math.sqrt(rows), 0.0
        for (_, v, w, fourth), size in zip(self.calm, self.size, strict=True):
            if math.sqrt(v) > 1e-8 * size and v * v > 0:
                heavy = math.sqrt(max(fourth / (v * v) / 3, 1.0))
                most = max(most, 1 - w / (2 * v) - noise * heavy)
        return max(0.0, min((most - 0.1) / 0.2, 1.0))

    def members(self, x, step, mean):
        view, tied = self.views, self.tie()
        parts = [0.0] * 8 + [tied]
        row, turned = self.moments["row"].straight(x), self.moments["row"].turned(x)
        moved, far = self.moments["step"].turned(step), largest(row)
        parts[1] = view["white"].tail_score(turned, 0)
        if tied < 1:
            parts[0], parts[5] = view["plain"].tail_score(row, 0), view["plain"].reach_score(far)
        if tied > 0:
            parts[2], parts[6] = view["white"].tail_score(turned, 1), view["white"].reach_score(far)
            parts[3] = view["steps"].tail_score(moved, 0)
            parts[7] = view["steps"].reach_score(largest(self.moments["step"].straight(step)))
            if len(view["late"].z) >= self.plan.young:
                parts[4] = view["late"].tail_score(self.moments["late"].turned(mean), 0)
        return parts

    def joined(self, parts):
        alone = loud(max(parts[0], parts[5] - 2.5, parts[1] - 3))
        turned = loud(max((parts[1] + parts[2]) / 2, parts[6] - 2.5))
        step, tied = loud(max(parts[3], parts[7] - 2.5)), parts[8]
        return (1 - tied) * alone + tied * (turned + step / 2 + loud(parts[4]))

    def rank_score(self, g, tied):
        n, guess = len(self.history), g / (1 + 1.5 * tied)
        if n < self.plan.young:
            return guess
        k, ranked = tail_of(n, 0.02, 20), sorted(self.history, reverse=True)
        if g > ranked[k]:
            slope = max((ranked[k // 2] - ranked[k]) / math.log(2), 0.5)
            found = math.log(n / k) + (g - ranked[k]) / slope
        else:
            found = -math.log((1 + sum(h >= g for h in self.history)) / (n + 1))
        known = min(1.0, n / 200)
        return known * found + (1 - known) * guess

    def see(self, x, weight=1.0):
        """Judge a row, learn it if it has weight: (log p, level, alert, joined), members."""
        usual, weight = self.moments["row"].mean, min(weight, self.plan.memory)
        x = [m if math.isnan(v) else held(v, LARGEST) for v, m in zip(x, usual, strict=True)]
        fade = 1 - 2 / (self.plan.span + 1)
        step = [a - b for a, b in zip(x, self.last, strict=True)] if self.t else [0.0] * self.d
        mean = [
            (fade * s + v) / (fade * self.mass + 1) for s, v in zip(self.smooth, x, strict=True)
        ]
        parts = self.members(x, step, mean) if self.ready else [0.0] * 9
        g = self.joined(parts)
        score = self.rank_score(g, parts[8]) if self.ready else 0.0
        fault, before, alone = False, score, score
        if self.ready:
            score, alone, fault = self.heard((x, step, mean), score, parts[8])
        level = self.alert_level()
        alert = self.t >= self.plan.warmup and -score < level
        if weight > 0:
            if alert:
                self.ask((x, step, mean), score, parts[8])
            hushed = not alert and -before < level
            late = not alert and self.t >= self.plan.warmup and -alone < level
            kept = alone if late else score
            self.learn(x, step, mean, weight, g, kept, alert or late, fault, alert, hushed)
        return (-score, level, float(alert), g), parts

    # -- what answers have a say in (naive/answers.py)

    def heard(self, seen, score, tied):
        """-log p, the same by places alone, whether it is of a fault's kind."""
        return score, score, False

    def alert_level(self):
        return self.level

    def ask(self, seen, score, tied):
        pass

    # -- learning

    def learn(self, x, step, mean, weight, g, score, alert, fault, shown, hushed):
        gross = alert and -score < self.alert_level() - 2.3
        if self.ready and not gross and not fault:
            self.remember(g)
        if self.t >= self.plan.warmup:
            self.settle_level(shown, hushed)
        if fault:
            pass
        elif alert:
            due = self.t + 1 + min(self.plan.hold, self.t // 2)
            self.held.append((due, x, step, weight, g if gross else None))
        else:
            self.admit(x, step, weight, False)
            if not self.alarmed:
                self.take_calm(x, step)
        self.alarmed = alert or fault
        self.advance(x, mean)
        self.release()
        self.refresh()

    def advance(self, x, mean):
        fade = 1 - 2 / (self.plan.span + 1)
        self.mass = fade * self.mass + 1
        for j in range(self.d):
            self.size[j] += (abs(x[j]) - self.size[j]) / min(self.t + 1, self.plan.memory)
            self.smooth[j] = fade * self.smooth[j] + x[j]
        self.last = x
        self.means.append(mean)
        self.t += 1
        while self.late_seen < self.t - min(self.plan.delay, self.t // 2):
            self.late_seen += 1
            self.admit_late(self.means[self.late_seen - 1])

    def release(self):
        while self.held and self.held[0][0] <= self.t:
            _, x, step, weight, g = self.held.pop(0)
            self.admit(x, step, weight, True)
            if g is not None and self.draw() < 0.5 * self.plan.nu / self.recent:
                self.remember(g)

    def chosen(self, seen, weight, count, most):
        if count < most:
            return count
        if not self.draw() < weight * most / min(seen, self.plan.memory):
            return None
        return min(int(self.draw() * most), most - 1)

    def admit(self, x, step, weight, clipped):
        self.moments["row"].enter(x, weight, clipped)
        self.moments["step"].enter(step, weight, clipped)
        self.seen += weight
        at = self.chosen(self.seen, weight, len(self.marks), self.plan.terms)
        if at is None:
            return
        self.marks[at : at + 1] = [clipped]
        self.raw["row"][at : at + 1], self.raw["step"][at : at + 1] = [x], [step]
        if self.ready:
            row, moved = self.moments["row"].straight(x), self.moments["step"].straight(step)
            self.views["plain"].put(at, row, largest(row))
            self.views["white"].put(at, self.moments["row"].turned(x), largest(row))
            self.views["steps"].put(at, self.moments["step"].turned(step), largest(moved))
            self.fresh += 1
            if self.fresh * 50 > len(self.marks):
                self.fresh = 0
                for name in ("plain", "white", "steps"):
                    self.views[name].fit(self.marks)

    def admit_late(self, mean):
        self.moments["late"].enter(mean, 1.0, False)
        raw = self.raw["late"]
        at = self.chosen(self.late_seen, 1.0, len(raw), self.plan.late_terms)
        if at is None:
            return
        raw[at : at + 1] = [mean]
        if self.ready:
            self.views["late"].put(at, self.moments["late"].turned(mean), 0.0)
            self.late_fresh += 1
            if self.late_fresh * 50 > len(raw):
                self.late_fresh = 0
                self.views["late"].fit([False] * len(raw))

    def refresh(self):
        if self.t < self.plan.young or self.t < self.next_refresh:
            return
        self.next_refresh = self.t + max(5, min(self.t // 8, int(self.plan.memory / 4)))
        for moments in self.moments.values():
            moments.take_metric(self.size, self.t)
        for name, view in self.views.items():
            moments, rows = self.moments[KIND[name]], self.raw[KIND[name]]
            seen = moments.straight if name == "plain" else moments.turned
            view.z, view.sums = [seen(x) for x in rows], None
            view.reach = [0.0 if name == "late" else largest(moments.straight(x)) for x in rows]
            view.tune()
            view.fit([False] * len(rows) if name == "late" else self.marks)
        self.ready, self.fresh, self.late_fresh = True, 0, 0

    def take_calm(self, x, step):
        self.calm_rows += 1
        a = 1 / min(self.calm_rows, self.plan.memory)
        for j, (m, v, w, fourth) in enumerate(self.calm):
            e = x[j] - m
            self.calm[j] = [m + a * e, (1 - a) * (v + a * e**2), w + a * (step[j] ** 2 - w),
                            (1 - a) * (fourth + a * e**4)]  # fmt: skip

    def remember(self, g):
        n = len(self.history)
        if n < self.plan.history:
            self.history.append(g)
        elif self.draw() < n / min(self.t / 4, 0.4 * self.plan.memory):
            self.history[min(int(self.draw() * n), n - 1)] = g

    def settle_level(self, alert, hushed):
        plan = self.plan
        self.judged += 1
        self.alerts += alert
        self.hushed += hushed
        wanted = self.level + plan.rate * (plan.nu - (alert or hushed))
        self.level = max(math.log(plan.low), min(wanted, math.log(plan.high)))
        self.forgiven += max(self.level - wanted, 0)
        self.unspent += max(wanted - self.level, 0)
        self.recent += (alert - self.recent) / 1000
