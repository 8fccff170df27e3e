"""Young keys whose alerts are answered, in plain loops over the formulas.

An alert of a young key is looked at by its row alone, in spreads from what is expected of the key
at the time of the answer (from its own moments when it is young no more), as naive/answers.py looks
at rows. While the key is young, log p of its age's band is changed by answers as a detector's own
is; a row that is no alert for an answer's sake does not move the band's level, and one of a fault's
kind is not remembered.
"""

from __future__ import annotations

import math

from naive.answers import Answering
from naive.sharing import Sharing


class Told(Answering):
    """What was answered of one key; nothing is learned here."""

    def answer_early(self, number, answer, frame, t, sample):
        """`frame`: means and spreads; `sample`: rows that the key's detector keeps, unmarked."""
        x, score = self.asked[number]
        self.t, before = t, self.answers.get(number)
        places, s = [self.placed(x, *frame), None, None], 1.0
        if answer == "fault":
            far = sorted(self.apart(places[:1], (r,)) for r in sample if list(r) != list(x))
            s = max(1.0, 0.84 / max(far[len(far) // 1000], 1e-9)) if far else 1.0
        strength = max(score, -math.log(self.plan.low) + 0.5)
        self.answers.pop(number, None)
        self.answers[number] = {
            "answer": answer, "places": places, "born": t, "strength": strength, "s": s,
        }  # fmt: skip
        self.count(before, answer)

    def placed(self, x, mean, spread):
        spread = [
            max(s, 1e-8 * abs(m), 1e-300, abs(v - m) / 1e6)
            for v, m, s in zip(x, mean, spread, strict=True)
        ]
        z = [(v - m) / s for v, m, s in zip(x, mean, spread, strict=True)]
        total = sum(v * v + 0.1 for v in z)
        w = [(v * v + 0.1) / total for v in z]
        return {
            "mean": list(mean), "spread": spread, "z": z, "w": w,
            "limit": [max(1.3 * abs(v), 3.0) for v in z],
            "radius": 0.5 + 0.3 * sum(a * abs(v) for a, v in zip(w, z, strict=True)),
        }  # fmt: skip

    def likest(self, x, t):
        """The most likely of each answer: likeness, strength and number."""
        self.t, best = t, {"usual": (0.0, 0.0, None), "fault": (0.0, 0.0, None)}
        for number, e in self.answers.items():
            k = self.likeness(e, (x, None, None))
            if k > best[e["answer"]][0]:
                best[e["answer"]] = k, e["strength"], number
        return best


class AnsweredSharing(Sharing):
    """Keys and bands; of each key somebody may have answered alerts."""

    def judge_told(self, told, x, age, fleet, own):
        """log p, the level and whether it is an alert, of a young key's row that is learned."""
        band = max(start for start in self.history if start <= age)
        g, latest, level = -self.joined(age, fleet, own), self.history[band], self.level[band]
        ready = len(latest) >= 200
        said = self.log_p(g, sorted(latest)) if ready else 0.0
        limit = level if told.promise is None else min(level, told.theta)
        score, best = -said, told.likest(x, age)
        (usual, _, _), (bad, strength, _) = best["usual"], best["fault"]
        fault = bad > usual and bad >= 0.5
        if bad > usual:
            score = max(score, bad * strength, 0.1 - limit if fault else 0.0)
        else:
            score *= 1 - usual
        alert = -score < limit
        if alert or (ready and not said < limit):
            moved = level + 0.01 * (self.nu - alert)
            low, high = self.nu / 2, min(4 * self.nu, (1 + self.nu) / 2)
            self.level[band] = max(math.log(low), min(moved, math.log(high)))
        if not fault:
            latest.append(g)
            del latest[:-2000]
        return -score, limit, alert
