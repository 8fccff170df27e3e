"""What the core made of the rows of a call, and what that answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.estimators.chances import led, of_logits, of_odds, spread
from onkel.estimators.classes import Classes, label_array, side_of
from onkel.fleet.calls import Call
from onkel.fleet.outputs import Found, Verdicts

Array = NDArray[Any]


@dataclass
class Targets:
    """Targets as the core takes them."""

    y: Array
    """Numbers, [rows][outputs]; nothing where there are none."""
    places: Array
    """Of labels among those of the fleet."""
    flat: bool = True
    """Whether numbers came one per row."""
    distinct: int = 0
    """Different labels."""

    def part(self, at: Array) -> tuple[Array, Array]:
        """Return numbers and places of some rows."""
        return (
            np.ascontiguousarray(self.y[at]) if len(self.y) else self.y,
            np.ascontiguousarray(self.places[at]) if len(self.places) else self.places,
        )


@dataclass
class Went:
    """Of each row that the core was given: scores, and what goes with them."""

    task: str
    at: Array
    """Which rows of the call they are."""
    score: Array
    limit: Array
    """Thresholds; of classifiers the odds."""
    more: Array
    """Of detectors: alert, rank, rows learned before."""
    kind: Array
    """Of classifiers: which of `kinds` its numbers belong to, and which there are at the end."""
    left: list[int] = field(default_factory=list)
    """Keys whose rows the core has left, by number."""
    kinds: list[list[int]] = field(default_factory=list)

    @classmethod
    def empty(cls, task: str, at: Array, wide: int) -> Went:
        """Return room for these rows, with so many numbers each."""
        n = len(at)
        detects, classifies = n * (task == "novelty"), n * (task == "classification")
        score, limit = np.zeros((2, n, wide))
        return cls(
            task, at, score, limit, np.zeros((detects, 3)), np.zeros((classifies, 2), np.int32)
        )

    def only(self, kept: Array) -> None:
        """Keep some of the rows."""
        self.at, self.score, self.limit = self.at[kept], self.score[kept], self.limit[kept]
        self.more = self.more[kept] if len(self.more) else self.more
        self.kind = self.kind[kept] if len(self.kind) else self.kind

    def answers(self, call: Call, packed: Any) -> Found:
        """Return what was asked for of these rows."""
        if not len(self.at):
            return []
        if self.task == "novelty":
            alert, rank, age = self.more.T
            found = Verdicts(self.score[:, 0], self.limit[:, 0], alert > 0, rank, age)
            return [("", self.at, found.answer(call.output, tells_p=False))]
        if self.task == "regression":
            return [("", self.at, self._numbers(call.output, packed.flat))]
        return [
            ("", self.at[rows], self._labels(packed.classes(kind), rows, call))
            for kind, rows in self._by_kind()
        ]

    def _numbers(self, output: str, flat: bool) -> Any:
        width = np.maximum(self.limit, 0.0)
        found = self.score, self.score - width, self.score + width
        shaped = tuple(v[:, 0] if flat else v for v in found)
        if output == "prediction":
            return shaped[0]
        return shaped if output == "judgement" else shaped[1:]

    # -- classes ---------------------------------------------------------------------------------

    def _by_kind(self) -> list[tuple[list[int], Array]]:
        numbers = self.kind[:, 0]
        return [(self.kinds[k], np.flatnonzero(numbers == k)) for k in np.unique(numbers).tolist()]

    def _labels(self, classes: Classes, rows: Array, call: Call) -> Array:
        if classes.labels or call.y is None:
            return classes.predictions(self.score[rows, : classes.outputs])
        y = call.y[self.at[rows]]  # before any class is known: 1 for -1/1 and 0/1, else None
        sided = [y.dtype.kind in "biuf" and side_of(v) is not None for v in y.tolist()]
        if all(sided):
            return np.ones(len(y), y.dtype)
        return np.array([1 if known else None for known in sided], object)

    def chances(self, packed: Any) -> list[tuple[Array, Array, Array]]:
        """Return rows, the classes that their key knows at the end, and their probabilities."""
        found = []
        for then, now in np.unique(self.kind, axis=0).tolist():
            rows = np.flatnonzero((self.kind == (then, now)).all(axis=1))
            classes, last = packed.classes(self.kinds[then]), packed.classes(self.kinds[now])
            scores = self.score[rows, : classes.outputs]
            told = self.limit[rows, : classes.outputs]
            chances = (of_odds if packed.link else of_logits)(classes, told)
            if classes.known:
                chances = led(chances, classes.winners(scores))
            wide = spread(classes, chances, last)
            found.append((self.at[rows], label_array(last.known), wide))
        return found
