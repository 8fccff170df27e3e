"""Which answered alert a row is like, and what that answer made of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onkel.core.answers import ALIKE, KINDS, Answers


@dataclass(frozen=True)
class Precedent:
    """An answered alert that a row is like."""

    id: str | None
    """Of that alert; None where models were merged since, and nobody knows it by a number."""
    answer: str
    """"usual" or "fault"."""
    likeness: float
    """From 0 to 1: how like it the row is, less by how much the answer has faded."""
    score: float
    """log p of the row, had no alert been answered."""
    decided: bool
    """Whether the row is an alert, or none, for what was answered alone."""
    by_values: bool = False
    """Whether the row is like none as a whole, but what stands out of it was usual value by value;
    `id` is None then, since each value is known from two answers of its own."""

    def in_words(self) -> str:
        """The alert and its answer; or that it was several, each for some value.

        Examples
        --------
        >>> Precedent("2311", "fault", 0.9, -1.2, True).in_words()
        'like alert 2311, which was answered as a fault'
        """
        if self.by_values:
            return "since each value that stands out was part of two alerts answered as usual"
        which = f"like alert {self.id}, which" if self.id is not None else "like an alert that"
        return f"{which} was answered as {'a fault' if self.answer == 'fault' else 'usual'}"

    def brief(self, words: str | None) -> str:
        """Return what an alert is told by in a few words: this, and what else there is to say.

        Examples
        --------
        >>> print(Precedent("7", "fault", 0.9, -1.2, False).brief("a 9 is 9 spreads above."))
        a 9 is 9 spreads above. Like alert 7, which was answered as a fault.
        """
        own = self.in_words()
        own = own[:1].upper() + own[1:]
        if not self.decided:
            return f"{words} {own}." if words else f"{own}."
        return f"{own}; no alert without that." + (f" {words}" if words else "")


def precedent_of(
    answers: Answers, seen: NDArray[np.float64], t: int, before: float, score: float,
    level: float, alert: bool,
) -> Precedent | None:  # fmt: skip
    """Return the answered alert that a row must be told with; None if there is none.

    That is the one that made it an alert, or kept it from being one; of other alerts the fault of
    whose kind they are.

    Parameters
    ----------
    answers : Answers
    seen : array, [3][d]
        The row, its step, and the mean of the last rows with it.
    t : int
        Rows learned before it.
    before, score : float
        log p of the row without answers, and with them.
    level : float
        Below which it is an alert.
    alert : bool
        Whether it is shown as one.
    """
    like = answers.likeness(seen, t)
    bad = answers.strength > 0
    fault, usual = float(like[bad].max(initial=0.0)), float(like[~bad].max(initial=0.0))
    if before < level <= score and (fault > usual or before * (1 - usual) < level):
        return Precedent(None, KINDS[0], 1 - score / before, before, True, by_values=True)
    if (before < level) != (score < level):
        return _nearest(answers, like, bad == (score < level), before, True)
    if alert and fault >= ALIKE and fault > usual:
        return _nearest(answers, like, bad, before, False)
    return None


def _nearest(
    answers: Answers, like: NDArray[np.float64], among: NDArray[np.bool_], before: float,
    decided: bool,
) -> Precedent | None:  # fmt: skip
    """Return the answered alert that a row is most like, among some of them."""
    if not among.any():
        return None
    i = int(np.argmax(np.where(among, like, -1.0)))
    number, kind = int(answers.of[i]), KINDS[int(answers.strength[i] > 0)]
    known = number > 0 or answers.find(0) >= 0  # a young key's first row may be an alert, too
    return Precedent(str(number) if known else None, kind, float(like[i]), before, decided)
