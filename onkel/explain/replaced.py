"""Features replaced by their usual values: for f whose terms cancel each other.

Least squares over centres gives neighbours large coefficients of opposite signs. Their sum is f; to
leave a feature out of each of them would leave next to nothing of that. So f itself is asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.explain.effects import method_of

Array = NDArray[Any]


def asks_f(learner: Any) -> bool:
    """Whether the effects of features on a learner with terms are found so."""
    return bool(learner.settings.rule.second_order) and method_of(learner.kernel) != "split"


def method_for(learner: Any, kernel: Any) -> str:
    """Return how effects are found, of a learner with terms."""
    return "replaced" if asks_f(learner) else method_of(kernel)


def replaced(learner: Any, row: Array, owners: Array | None) -> Array:
    """Return scores, less those with each feature as it usually is: [outputs][features].

    Features of one owner are replaced together.
    """
    points: Array = learner.map.points
    if not len(points):
        return np.zeros((learner.columns, len(row)))
    owners = np.arange(len(row)) if owners is None else owners
    rows = np.where(owners[:, None] == owners, _usual(learner, points), row)
    found: Array = (learner.scores(row[None]) - learner.scores(rows)).T
    return found


def _usual(learner: Any, points: Array) -> Array:
    """Return the mean of numbers (as far as it is known: of all rows), the commonest codes."""
    codes, known = len(learner.apart), learner.settings.scale and learner.t > 0
    usual: Array = (learner.moments.mean if known else points.mean(axis=0)).copy()
    for j in range(codes):
        values, counts = np.unique(points[:, j], return_counts=True)
        usual[j] = values[np.argmax(counts)]
    return usual
