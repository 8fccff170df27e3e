"""Which answered alerts the alerts of a key must be told with."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.precedents import Precedent
from onkel.estimators import inside

Array = NDArray[Any]


def precedents(model: Any, X: Array, weight: Array, at: Array) -> dict[int, Precedent]:
    """Return them of the alerts among a key's rows, by the number that each row has in its call.

    Parameters
    ----------
    model : Detector
        As it was before these rows, which it learns: a copy.
    X, weight : array
        The rows of the key.
    at : array
        Their numbers in the call.
    """
    found: dict[int, Precedent] = {}

    def hear(i: int, learner: Any) -> None:
        like = inside.precedent(inside.at_alert(model, learner, None, None), X[i])
        if like is not None:
            found[int(at[i])] = like

    inside.judgement(model, X, hear, sample_weight=weight)
    return found


def has_answers(model: Any) -> bool:
    """Whether some alert of a model was answered."""
    return model.task == "novelty" and inside.was_answered(model)


def of_loose(model: Any, X: Any, how: dict[str, Any], at: Array) -> dict[int, Precedent]:
    """Return the same by a model of a dict, which stays as it is."""
    if not (model.__sklearn_is_fitted__() and has_answers(model)):
        return {}
    weight = how.get("sample_weight")
    live = np.ones(len(at)) if weight is None else np.asarray(weight, float)
    return precedents(copy.copy(model), X, live, at)
