"""A detector whose alerts are answered, in plain loops.

An answered alert e is seen in the units of then, z = (value - mean) / spread, of its row, its step
and the mean of the last rows; it is 1e6 spreads out at most, a spread being as much then. A row x
is like it by k = exp(-D^2 - (age / memory - 1)+), where D is the largest over the three of

    s (sum_j w_j |z_j(x) - z_j(e)| / radius + sqrt(sum_j (|z_j(x)| - limit_j)+^2) / 3)

with w_j ~ z_j(e)^2 + 0.1, radius = 0.5 + 0.3 sum_j w_j |z_j(e)|, limit_j = max(1.3 |z_j(e)|, 3).
Of the three only those are compared in which e stands out (|z_j| >= 3 somewhere), all of them if it
does in none; where rows are not tied to those before, only rows are looked at.

A row is known, too, if each value that stands out of it (u >= 2 spreads from its mean of now, and
some 3 or more) is known from an answer of its own: with e = z(e)_j on the same side, 0 if on the
other, by

    k_j = exp(-(r c)^2 - (age / memory - 1)+), c = ((u - e)+ + (e - u)+ / sqrt(d)) / (0.5 + 0.3 e),
    r = min(u - 2, 1);

by the second best of the usual answers. The least of these counts. A row that is no alert for this
alone is learned as alerts are.

s is 1 of what is usual; of a fault it is such that no more than one in a thousand of the rows in
the sample that never raised an alert (and their steps) has D below 0.84.

    theta <- min(theta + rate (share - dismissed), high)
"""

import math

from naive.density import Detector

KINDS = ("row", "step", "late")


class Answering(Detector):
    """`promise`: None, or share, start, high, rate, alone."""

    def __init__(self, d, plan, memory, promise=None):
        super().__init__(d, plan)
        self.memory, self.promise = memory, promise
        self.theta = promise["start"] if promise else None
        self.asked, self.answers = {}, {}
        self.answered = self.dismissed = 0
        self.cut_off = 0.0

    def alert_level(self):
        if self.promise is None:
            return self.level
        return self.theta if self.promise["alone"] else min(self.level, self.theta)

    def ask(self, seen, score, tied):
        self.asked[self.t] = ([list(part) for part in seen], score, tied)

    # -- likeness

    def likeness(self, e, seen):
        far = e["s"] * self.apart(e["places"], seen)
        return math.exp(-far * far - self.faded(e))

    def faded(self, e):
        return max((self.t - e["born"]) / self.memory - 1, 0)

    def apart(self, places, seen):
        far = 0.0
        for part, place in zip(seen, places, strict=True):
            if place is None:
                continue
            apart = more = 0.0
            for j, value in enumerate(part):
                z = (value - place["mean"][j]) / place["spread"][j]
                apart += place["w"][j] * abs(z - place["z"][j])
                more = math.hypot(more, max(abs(z) - place["limit"][j], 0))
            far = max(far, apart / place["radius"] + more / 3)
        return far

    def sharpened(self, places):
        rows = zip(self.raw["row"], self.raw["step"], self.marks, strict=True)
        far = sorted(self.apart(places[:2], (x, step)) for x, step, mark in rows if not mark)
        if not far:
            return 1.0
        return max(1.0, 0.84 / max(far[len(far) // 1000], 1e-9))

    def standing(self, seen, tied):
        """Values of row, step and mean that are 2 spreads or more from their means: part, j, z."""
        found = []
        for kind, part in zip(KINDS, seen, strict=True):
            if kind != "row" and not tied > 0:
                continue
            if kind == "late" and len(self.views["late"].z) < self.plan.young:
                continue
            moments = self.moments[kind]
            for j in range(self.d):
                z = (part[j] - moments.center[j]) / moments.scale[j]
                if abs(z) > 2:
                    found.append((KINDS.index(kind), j, max(-1e6, min(z, 1e6))))
        return found

    def known(self, seen, tied):
        standing = self.standing(seen, tied)
        if not any(abs(z) >= 3 for _, _, z in standing):
            return 0.0
        return min(self.value_known(part, j, z) for part, j, z in standing)

    def value_known(self, part, j, z):
        known = [0.0, 0.0]
        for e in self.answers.values():
            if e["answer"] != "usual":
                continue
            place = e["places"][part]
            own = 0.0 if place is None else place["z"][j]
            own = max(own if z > 0 else -own, 0.0)
            u = abs(z)
            c = u - own if u > own else (own - u) / math.sqrt(self.d)
            c *= min(u - 2, 1.0) / (0.5 + 0.3 * own)
            known.append(math.exp(-c * c - self.faded(e)))
        return sorted(known)[-2]

    def heard(self, seen, score, tied):
        usual, fault, strength = 0.0, 0.0, 0.0
        for e in self.answers.values():
            k = self.likeness(e, seen)
            if e["answer"] == "usual":
                usual = max(usual, k)
            elif k > fault:
                fault, strength = k, e["strength"]
        alone = self.weighed(score, usual, fault, strength)
        usual = max(usual, self.known(seen, tied))
        kind = fault > usual and fault >= 0.5
        return self.weighed(score, usual, fault, strength), alone, kind

    def weighed(self, score, usual, fault, strength):
        if fault <= usual:
            return score * (1 - usual)
        if fault >= 0.5:
            return max(score, fault * strength, 0.1 - self.alert_level())
        return max(score, fault * strength)

    # -- answers

    def place(self, kind, part, tied):
        if kind != "row" and not tied > 0:
            return None
        moments = self.moments[kind]
        if not moments.mass > 0:
            return None
        spread = [
            max(
                math.sqrt(moments.cov[j][j]), 1e-8 * self.size[j], 1e-300,
                abs(part[j] - moments.mean[j]) / 1e6,
            )
            for j in range(self.d)
        ]  # fmt: skip
        z = [(part[j] - moments.mean[j]) / spread[j] for j in range(self.d)]
        total = sum(v * v + 0.1 for v in z)
        w = [(v * v + 0.1) / total for v in z]
        return {
            "mean": list(moments.mean), "spread": spread, "z": z, "w": w,
            "limit": [max(1.3 * abs(v), 3.0) for v in z],
            "radius": 0.5 + 0.3 * sum(a * abs(v) for a, v in zip(w, z, strict=True)),
            "out": max(map(abs, z)) >= 3,
        }  # fmt: skip

    def answer(self, number, answer):
        seen, score, tied = self.asked[number]
        before = self.answers.get(number)
        places = [self.place(k, part, tied) for k, part in zip(KINDS, seen, strict=True)]
        if any(p and p["out"] for p in places):
            for p in places:
                if p and not p["out"]:
                    p["radius"] = math.inf
        strength = max(score, -math.log(self.plan.low) + 0.5)
        self.answers.pop(number, None)
        self.answers[number] = {
            "answer": answer, "places": places, "born": self.t, "strength": strength,
            "s": self.sharpened(places) if answer == "fault" else 1.0,
        }  # fmt: skip
        self.count(before, answer)
        if answer == "fault":
            self.unlearn(seen)

    def count(self, before, answer):
        if before is not None and before["answer"] == answer:
            return
        change = (answer == "usual") - (before is not None and before["answer"] == "usual")
        self.dismissed += change
        self.answered += before is None
        if self.promise is not None:
            share = self.promise["share"] if before is None else 0.0
            theta = self.theta + self.promise["rate"] * (share - change)
            self.cut_off += max(theta - self.promise["high"], 0.0)
            self.theta = min(theta, self.promise["high"])

    def unlearn(self, seen):
        x, step, _ = seen
        self.held = [h for h in self.held if not (h[1] == x and h[2] == step)]
        pairs = zip(self.raw["row"], self.raw["step"], strict=True)
        gone = [i for i, (a, b) in enumerate(pairs) if a == x and b == step]
        if not gone or len(self.marks) - len(gone) < self.plan.young or not self.ready:
            return
        for kind in ("row", "step"):
            self.raw[kind] = [v for i, v in enumerate(self.raw[kind]) if i not in gone]
        self.marks = [m for i, m in enumerate(self.marks) if i not in gone]
        self.next_refresh = 0
        self.refresh()


class Telling(Answering):
    """Notes of each row which answered alert it must be told with, by its number: `told`."""

    def __init__(self, d, plan, memory, promise=None):
        super().__init__(d, plan, memory, promise)
        self.told = {}

    def heard(self, seen, score, tied):
        after, alone, kind = super().heard(seen, score, tied)
        self.told[self.t] = self.precedent(seen, score, after, alone, self.known(seen, tied))
        return after, alone, kind

    def precedent(self, seen, before, after, alone, known):
        """Number, answer, likeness, log p without answers, and whether it decides; or None.

        Number None: what stands out is known value by value.
        """
        if self.t < self.plan.warmup:
            return None
        like = sorted((self.likeness(e, seen), n) for n, e in self.answers.items())
        of = {a: [(k, n) for k, n in like if self.answers[n]["answer"] == a] for a in
              ("usual", "fault")}  # fmt: skip
        was, now = -before < self.alert_level(), -after < self.alert_level()
        if was and not now and -alone < self.alert_level():
            return None, "usual", known, -before, True
        if was != now:
            k, number = of["fault" if now else "usual"][-1]
            return number, "fault" if now else "usual", k, -before, True
        if now and of["fault"] and of["fault"][-1][0] >= 0.5:
            k, number = of["fault"][-1]
            if not of["usual"] or k > of["usual"][-1][0]:
                return number, "fault", k, -before, False
        return None
