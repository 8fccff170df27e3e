"""From a learner and a row to what its terms and features did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.explain.densities import of_densities
from onkel.explain.densities import terms_of as density_terms
from onkel.explain.effects import Effects, effects, joined, of_columns
from onkel.explain.mixtures import of_mixture
from onkel.explain.replaced import asks_f, replaced
from onkel.explain.shown import (
    Details,
    Made,
    features_of,
    held_by,
    order_of,
    owners_of,
    terms_of,
    usual_values,
)
from onkel.explain.texts import of_text
from onkel.learner import Learner

Array = NDArray[Any]


def details(
    learner: Learner, row: Any, mix: Array, names: Any, top: int, lowest_first: bool,
    made: Made | None = None,
) -> Details:  # fmt: skip
    """Explain ``mix @ scores`` of one row.

    Features come by the size of their effects, or (`lowest_first`) those that lowered the score
    most before the others. `made`: of what, where they are a table's; then whole columns count.
    """
    return _OF[learner.form](learner, row, mix, names, top, lowest_first, made)


def _of_texts(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool, made: Any
) -> Details:
    a, base = learner.coefficients()
    return Details(*of_text(learner, row, a @ mix, float(base @ mix), top, lowest_first))


def _of_terms(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool, made: Any
) -> Details:
    held = held_by(learner, mix)
    row = np.asarray(row, np.float64)
    x, owners = learner.frame.z(learner.frame.store(row)), owners_of(made)
    found = effects(learner.kernel, x, held.z, held.a, held.apart, owners)
    found = found.with_more(joined(mix @ learner.beside_terms(row), owners))
    if asks_f(learner):
        found = replace(found, method="replaced", effect=mix @ replaced(learner, row, owners))
    order = order_of(found.effect, lowest_first, made)
    usual = usual_values(held, learner.kernel, x, order[:top])
    features = features_of(row, found, order, names, usual)
    return Details(held.base, found.method, features, terms_of(held, found, top), len(held.a))


# -- linear learners ---------------------------------------------------------------------------


def _of_weights(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool, made: Any
) -> Details:
    """The linear learner in the primal: each weight times its feature, and no terms."""
    part, effect, b = learner.effects(np.asarray(row, np.float64), made)
    found = of_columns(Effects("split", np.zeros(0), mix @ effect, mix @ part), owners_of(made))
    order = order_of(found.effect, lowest_first, made)
    usual = {}
    if learner.settings.scale and learner.t > 0:
        middle = learner.moments.mean
        reach = 1.6449 * np.sqrt(learner.moments.variance)  # 5 to 95 % of a bell curve
        numbers = [j for j in order if j >= len(learner.apart)]
        usual = {j: (float(middle[j] - reach[j]), float(middle[j] + reach[j])) for j in numbers}
    base = float(mix @ b)
    return Details(base, "split", features_of(row, found, order, names, usual), (), learner.size)


# -- densities ---------------------------------------------------------------------------------


def _of_densities(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool, made: Any
) -> Details:
    """What a row would be, had each of its features agreed with the others."""
    found, usual = of_densities(learner, np.asarray(row, np.float64))
    order = order_of(found.effect, lowest_first)
    shown = {j: usual[j] for j in order[:top].tolist() if j in usual}
    features = features_of(row, found, order, names, shown)
    terms = density_terms(learner, found, top)
    return Details(0.0, found.method, features, terms, learner.size)


_OF: dict[str, Any] = {
    "densities": _of_densities, "mixture": of_mixture, "terms": _of_terms, "texts": _of_texts,
    "weights": _of_weights,
}  # fmt: skip
"""By what f is made of."""
