"""Answers about rare values: places that stand for these values alone, and for none as rare.

Of a table a detector sees how rare each value is, and two values that never came are alike in that.
Whoever counts values is told which of them are rare no more, or stay rare; here the place of the
answer is made so that it fits. Of what was usual it is that of the row with values as rare as is
typical, and a row whose values stand out there is another one. Of a fault it is one for each such
value, known by a number that no other value has, whatever else is in the row; and one of what else
stood out, if anything did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.answer_places import STANDS_OUT
from onkel.core.answers import MOST, Answers

Array = NDArray[Any]

APART = 0.1
"""The radius of a fault's value: others are further than 1 from its number."""
STEEP = 4.0
"""So much faster a row becomes another one by a value that stands out where others were rare."""
NARROW = 0.1
"""The least spread of how rare values are."""


@dataclass(frozen=True)
class RareValues:
    """The rare values of an alert that is answered.

    Parameters
    ----------
    at : list of int
        The features that say how rare they are.
    typical : array
        What these are mostly.
    stay : list of int
        Those of them that are rare for good, of a fault.
    condemned : array
        What these are from now on.
    share : float
        What a row counts for in the mean of the last rows.
    whole : bool
        Whether what was usual has a place at all: if the row would be an alert without them, too.
    """

    at: list[int]
    typical: Array
    stay: list[int]
    condemned: Array
    share: float
    whole: bool = True


def answered(
    answers: Answers, at: int, kind: int, t: int, frame: Array, least: float, usual: Array,
    rare: RareValues,
) -> Answers:  # fmt: skip
    """Return all of it with one more answer to an alert of rare values: `Answers.answer`."""
    asked = answers.asked.copy()
    asked[at, : 3 * answers.d] = typical_row(answers.row_of(at), rare).ravel()
    found = replace(answers, asked=asked).answer(at, kind, t, frame, least, usual)
    found.asked[at] = answers.asked[at]
    if kind:
        return _with_values(found, rare)
    if not rare.whole:
        return without(found, len(found.born) - 1)
    place, spread = found.places[-1], np.maximum(frame[1, 0, rare.at], NARROW) / STEEP
    place[0, 0, rare.at], place[1, 0, rare.at] = frame[0, 0, rare.at], spread
    place[2, 0, rare.at], place[3, 0, rare.at] = 0.0, 0.0
    place[4, 0, rare.at] = STANDS_OUT * STEEP
    return found


def typical_row(seen: Array, rare: RareValues) -> Array:
    """Return row, step and mean of an alert as they would be, were its values no longer rare."""
    found = seen.copy()
    gone = seen[0, rare.at] - rare.typical
    found[:, rare.at] -= np.outer([1.0, 1.0, rare.share], gone)
    return found


def without(answers: Answers, places: Any) -> Answers:
    """Return answers without some of their places."""
    kept = {name: np.delete(getattr(answers, name), places, axis=0) for name in _OF_EACH}
    return replace(answers, **kept, bound=None)


def _with_values(found: Answers, rare: RareValues) -> Answers:
    """Return a fault that was just answered with a place for each value.

    The place of the row without them stays if something else stands out of it.
    """
    others = bool((np.abs(found.places[-1, 2]) >= STANDS_OUT).any())
    places = np.zeros((len(rare.stay), 5, 3, found.d))
    places[:, 1] = places[:, 4] = np.inf
    for i, (j, value) in enumerate(zip(rare.stay, rare.condemned.tolist(), strict=True)):
        places[i, 0, 0, j], places[i, 1, 0, j], places[i, 3, 0, j] = value, 1.0, 1.0
    radius = np.tile([APART, np.inf, np.inf, 1.0], (len(places), 1))
    last, more = len(found.born) - 1, len(places)
    order = np.concatenate([np.arange(last), np.full(more, last), [last] * others]).astype(int)
    made = {name: getattr(found, name)[order] for name in _OF_EACH}
    made["places"][last : last + more], made["radius"][last : last + more] = places, radius
    bad = np.flatnonzero(made["strength"] > 0)
    return without(replace(found, **made), bad[: max(len(bad) - MOST, 0)])


_OF_EACH = ("places", "radius", "strength", "born", "of")
