"""A detector whose alerts are answered for their rare values, in plain loops.

Some features say how rare values are. An answer is told which of them made the alert (`at`), and
what these are mostly (`typical`): its place is that of the row with them, its step and its mean
being less by as much, the mean by 2 / (span + 1) of it.

What was usual has a place if that is asked for (`whole`): these features weigh nothing in it, but a
row is another one by (4 |x_j - mean_j| / max(spread_j, 0.1) - 12)+ / 3 of them, as by others that
stand out.

A fault: some of them (`stay`) are known by one number each (`condemned`) from then on, and a row is
like it by exp(-(10 |x_j - number|)^2 - (age / memory - 1)+), whatever else it holds. The place of
the rest counts beside that if something stands out of it (|z| >= 3).
"""

import math

from naive.answers import KINDS, Answering


class Valued(Answering):
    """Answers come with `at`, `typical`, `stay`, `condemned` and `whole`."""

    own = None

    def answer_values(self, number, answer, at, typical, stay, condemned, whole):
        seen, score, tied = self.asked[number]
        self.own, less = seen, [list(part) for part in seen]
        for j, usual in zip(at, typical, strict=True):
            gone = seen[0][j] - usual
            for part, share in enumerate((1.0, 1.0, 2 / (self.plan.span + 1))):
                less[part][j] -= share * gone
        self.asked[number] = less, score, tied
        super().answer(number, answer)
        self.asked[number], self.own = (seen, score, tied), None
        found = self.answers[number]
        if answer == "usual":
            found["rest"] = whole
            self.set_apart(found["places"][0], at)
            return
        places = [p for p in found["places"] if p is not None]
        found["rest"] = any(p["out"] for p in places)
        found["values"] = list(zip(stay, condemned, strict=True))

    def set_apart(self, place, at):
        for j in at:
            place["spread"][j] = max(place["spread"][j], 0.1) / 4
            place["w"][j], place["z"][j], place["limit"][j] = 0.0, 0.0, 12.0

    def unlearn(self, seen):
        super().unlearn(seen if self.own is None else self.own)

    def likeness(self, e, seen):
        found = [super().likeness(e, seen)] if e.get("rest", True) else []
        row = seen[KINDS.index("row")]
        for j, number in e.get("values", []):
            far = 10 * abs(row[j] - number)
            found.append(math.exp(-far * far - self.faded(e)))
        return max(found, default=0.0)

    def value_known(self, part, j, z):
        every = self.answers
        self.answers = {n: e for n, e in every.items() if e.get("rest", True)}
        found = super().value_known(part, j, z)
        self.answers = every
        return found
