"""From a learner and a row to what its terms and features did."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.explain.densities import of_densities
from onkel.explain.densities import terms_of as density_terms
from onkel.explain.effects import Effects, effects
from onkel.explain.mixtures import of_mixture
from onkel.explain.shown import Details, features_of, held_by, order_of, terms_of, usual_values
from onkel.explain.texts import of_text
from onkel.learner import Learner

Array = NDArray[Any]


def details(
    learner: Learner, row: Any, mix: Array, names: Any, top: int, lowest_first: bool
) -> Details:
    """Explain ``mix @ scores`` of one row.

    Features come by the size of their effects, or (`lowest_first`) those that lowered the score
    most before the others.
    """
    return _OF[learner.form](learner, row, mix, names, top, lowest_first)


def _of_texts(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool
) -> Details:
    a, base = learner.coefficients()
    return Details(*of_text(learner, row, a @ mix, float(base @ mix), top, lowest_first))


def _of_terms(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool
) -> Details:
    held = held_by(learner, mix)
    x = learner.frame.z(learner.frame.store(np.asarray(row, np.float64)))
    found = effects(learner.kernel, x, held.z, held.a)
    order = order_of(found.effect, lowest_first)
    usual = usual_values(held, learner.kernel, x, order[:top])
    features = features_of(row, found, order, names, usual)
    return Details(held.base, found.method, features, terms_of(held, found, top), len(held.a))


# -- linear learners ---------------------------------------------------------------------------


def _of_weights(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool
) -> Details:
    """The linear learner in the primal: each weight times its feature, and no terms."""
    w, b = learner.raw_weights()
    weight, base = mix @ w, float(mix @ b)
    part = weight * row
    moments = learner.moments
    known = learner.settings.scale and learner.t > 0
    middle = moments.mean if known else np.zeros(len(row))
    found = Effects("split", np.zeros(0), part - weight * middle, part)
    order = order_of(found.effect, lowest_first)
    usual = {}
    if known:
        reach = 1.6449 * np.sqrt(moments.variance)  # 5 to 95 % of a bell curve
        usual = {j: (float(middle[j] - reach[j]), float(middle[j] + reach[j])) for j in order}
    return Details(base, "split", features_of(row, found, order, names, usual), (), learner.size)


# -- densities ---------------------------------------------------------------------------------


def _of_densities(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool
) -> Details:
    """What a row would be, had each of its features agreed with the others."""
    found, usual = of_densities(learner, np.asarray(row, np.float64))
    order = order_of(found.effect, lowest_first)
    shown = {j: usual[j] for j in order[:top].tolist() if j in usual}
    features = features_of(row, found, order, names, shown)
    terms = density_terms(learner, found, top)
    return Details(0.0, found.method, features, terms, learner.size)


_OF = {
    "densities": _of_densities, "mixture": of_mixture, "terms": _of_terms, "texts": _of_texts,
    "weights": _of_weights,
}  # fmt: skip
"""By what f is made of."""
