"""What was answered of a young key's alerts has a say in what is said of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.answers import Answers
from onkel.core.density_table import LARGEST
from onkel.core.precedents import Precedent, precedent_of

Array = NDArray[Any]


@dataclass(frozen=True)
class Heard:
    """What is said of a row."""

    score: float
    """log p."""
    level: float
    alert: bool
    fault: bool = False
    """Whether it is of a fault's kind."""
    hushed: bool = False
    """Whether it is no alert for an answer's sake."""


@dataclass
class Ear:
    """Hears the answers of one key for one of its rows.

    Parameters
    ----------
    answers : Answers
        Of the key.
    row : array
        Without gaps.
    age : int
        Rows that the key had learned before it.
    """

    answers: Answers
    row: Array
    age: int
    precedent: Precedent | None = None
    """The answered alert that the row must be told with, once it was heard."""

    def __call__(self, said: float, level: float) -> Heard:
        """Return what answers make of log p and the level."""
        level, answers = self.answers.level(level), self.answers
        if not len(answers.born):
            return Heard(said, level, said < level)
        seen = np.zeros((3, len(self.row)))  # neither its step nor the mean is looked at
        seen[0] = np.clip(self.row, -LARGEST, LARGEST)
        heard = answers.heard(seen, np.zeros_like(seen), self.age, -said, level)
        rare, fault = heard.score, heard.fault
        alert = -rare < level
        self.precedent = precedent_of(answers, seen, self.age, said, -rare, level, alert)
        return Heard(-rare, level, alert, fault, said < level and not alert)
