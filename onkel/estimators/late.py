"""Many classes that appear late, in one call: outputs are added some hundred rows at a time.

To add an output costs as much as all that is stored. So a chunk of rows gets the outputs of all its
new classes at once; until the row that brings its class an output has no target (NaN), which leaves
it untouched. What comes of it is what one output at a time would have given.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.chances import Chances
from onkel.estimators.chances import Piece
from onkel.estimators.classes import Classes

Array = NDArray[Any]

MANY = 8
"""So many new classes in a call are worth it."""
NUMBERS, MOST = 2**22, 1024
"""Scores that are held at once, and rows."""


class Came(NamedTuple):
    """Rows of a call, from the one at which this begins."""

    rows: Any
    y: Array
    weight: Array
    times: Array | None
    first: int
    """The number of the first in messages."""

    def part(self, start: int, stop: int) -> Came:
        """Return some of them."""
        cut = slice(start, stop)
        times = None if self.times is None else self.times[cut]
        return Came(self.rows[cut], self.y[cut], self.weight[cut], times, self.first + start)


def worthwhile(learner: Any, state: Classes, new: int, weight: Array) -> bool:
    """Whether so many new classes, in rows of these weights, can be taken in together."""
    plain = not state.binary and len(state.labels) > 1 and learner.settings.device == "cpu"
    return plain and new >= MANY and bool(np.all(weight > 0))


def pieces(
    learner: Any, link: Chances | None, state: Classes, came: Came, firsts: dict[int, Any]
) -> Iterator[Piece]:
    """Learn rows; yield what was told of them, cut where a class appears.

    `firsts` are new labels by the row that brings them. Classes and link change on the way.
    """
    start, count = 0, len(came.y)
    while start < count:
        stop = min(start + _chunk(learner, state), count)
        new = {i - start: label for i, label in firsts.items() if start <= i < stop}
        yield from _learn_chunk(learner, link, state, came.part(start, stop), new)
        start = stop


def _chunk(learner: Any, state: Classes) -> int:
    """Return how many rows are taken together; each may bring a class."""
    members = len(getattr(learner, "members", [None]))
    return int(np.clip(NUMBERS // (members * (len(state.labels) + MOST // 4)), 32, MOST))


def _learn_chunk(
    learner: Any, link: Chances | None, state: Classes, came: Came, new: dict[int, Any]
) -> Iterator[Piece]:
    learner.add_outputs(len(new))
    whole = Classes([*state.labels, *(new[i] for i in sorted(new))], False)
    targets = whole.targets(came.y)
    for column, row in enumerate(sorted(new), start=len(state.labels)):
        targets[:row, column] = np.nan
    scores = learner.member_scores(came.rows, targets, came.weight, came.first, came.times)
    blend = getattr(learner, "blend", link)
    for start, stop in pairwise(sorted({0, *new, len(came.y)})):
        if start in new:
            yield _told(learner, blend, state, scores[start : start + 1])
            state.labels.append(new[start])
            if blend is not None:
                blend.add_column()
        known = len(state.labels)
        yield from _learned(
            learner, blend, state, scores[start:stop, :, :known], targets[start:stop, :known],
            int(start in new), came.y[start:stop],
        )  # fmt: skip


def _told(learner: Any, blend: Chances | None, state: Classes, scores: Array) -> Piece:
    """Return what is said of a row whose class is not known yet."""
    scores = scores[:, :, : len(state.labels)]
    told = scores[:, 0] if blend is None else blend.look(scores)
    return Piece(state.copy(), _shown(learner, scores, told), told)


def _learned(
    learner: Any, blend: Chances | None, state: Classes, scores: Array, targets: Array, new: int,
    y: Array,
) -> Iterator[Piece]:  # fmt: skip
    """Let rows move the blend, and count mistakes; the first row of a new class is one."""
    told = scores[:, 0] if blend is None else blend.learn(scores, targets)
    if hasattr(learner, "blend"):
        learner.judged += len(y)
    shown = _shown(learner, scores, told)
    learner.mistakes += new + state.mistakes(shown[new:], y[new:])
    yield Piece(state.copy(), shown[new:], told[new:])


def _shown(learner: Any, scores: Array, told: Array) -> Array:
    """Return the scores: a mixture's are what it tells."""
    return told if hasattr(learner, "blend") else scores[:, 0]
