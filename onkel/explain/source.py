"""From a learner and a row to what its terms and features did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density_table import LARGEST
from onkel.explain.causes import Sample
from onkel.explain.densities import MOST, agreed, of_densities, pattern_of, sample_of
from onkel.explain.densities import terms_of as density_terms
from onkel.explain.effects import Effects, effects, joined, of_columns
from onkel.explain.mixtures import of_mixture
from onkel.explain.outcome import Pattern, is_outside
from onkel.explain.replaced import asks_f, replaced
from onkel.explain.shown import (
    Details,
    Held,
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
    made: Made | None = None, plain: Any = None,
) -> Details:  # fmt: skip
    """Explain ``mix @ scores`` of one row.

    Features come by the size of their effects, or (`lowest_first`, of detectors) those that lowered
    the score most before the others. `made`: of what, where they are a table's; then whole columns
    count. `plain`: those that are numbers of their own; None: all.
    """
    if learner.form == "densities":
        return _of_densities(learner, row, names, top, plain)
    if learner.form == "terms":
        return _of_terms(learner, row, mix, names, top, lowest_first, made, plain)
    return _OF[learner.form](learner, row, mix, names, top, lowest_first, made)


def _of_texts(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool, made: Any
) -> Details:
    a, base = learner.coefficients()
    return Details(*of_text(learner, row, a @ mix, float(base @ mix), top, lowest_first))


def _of_terms(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool, made: Any,
    plain: Any,
) -> Details:  # fmt: skip
    held = held_by(learner, mix)
    row = np.asarray(row, np.float64)
    x, owners = learner.frame.z(learner.frame.store(row)), owners_of(made)
    found = effects(learner.kernel, x, held.z, held.a, held.apart, owners)
    found = found.with_more(joined(mix @ learner.beside_terms(row), owners))
    if asks_f(learner):
        found = replace(found, method="replaced", effect=mix @ replaced(learner, row, owners))
    order = order_of(found.effect, lowest_first, made)
    tried = order[: MOST if lowest_first else top]
    usual = usual_values(held, learner.kernel, x, tried)
    outside, pattern = None, None
    if lowest_first:
        outside, pattern = _causes(learner, held, row, mix, found, usual, names, plain)
    features = features_of(row, found, order, names, usual, outside)
    terms = terms_of(held, found, top)
    return Details(held.base, found.method, features, terms, len(held.a), pattern=pattern)


def _causes(
    learner: Any, held: Held, row: Array, mix: Array, found: Effects, usual: Any, names: Any,
    plain: Any,
) -> tuple[set[int], Pattern | None]:  # fmt: skip
    """Return which features are outside of their ranges; where none of them explains, a pattern."""
    if not usual:
        return set(), None
    score, limit = float(mix @ learner.scores(row[None])[0]), float(mix @ learner.limits())
    sample = Sample(
        lambda j: held.raw(slice(None), j), np.abs(held.a), row, usual, found.effect, score, limit,
        plain,
    )  # fmt: skip
    outside = sample.outside()
    helped = score >= limit or (bool(outside) and sample.explains(outside[0]))
    return set(outside), None if helped else sample.gap(names) or sample.pair(names)


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
    outside = None
    if lowest_first:
        outside = {j for j, range_ in usual.items() if is_outside(float(row[j]), range_)}
    features = features_of(row, found, order, names, usual, outside)
    return Details(base, "split", features, (), learner.size)


# -- detectors ---------------------------------------------------------------------------------


def _of_densities(learner: Any, row: Any, names: Any, top: int, plain: Any) -> Details:
    """What a row would be, had each of its features agreed with the others.

    It is cut as the detector cuts it; values are told as they came, and no range that was cut is.
    """
    came = np.asarray(row, np.float64)
    row = np.clip(came, -LARGEST, LARGEST)
    found, usual = of_densities(learner, row)
    order = order_of(found.effect, lowest_first=True)
    terms = density_terms(learner, found, top)
    if not usual:
        features = features_of(came, found, order, names, {}, ())
        return Details(0.0, found.method, features, terms, learner.size)
    sample = sample_of(learner, row, found, usual, plain)
    outside = sample.outside()
    shown = {j: range_ for j, range_ in usual.items() if max(map(abs, range_)) < LARGEST}
    features = features_of(came, found, order, names, shown, set(outside))
    both, pattern = None, None
    if sample.score < sample.limit and not (outside and sample.explains(outside[0])):
        both, pattern = agreed(learner, row, outside), pattern_of(learner, row, sample, names)
    return Details(
        0.0, found.method, features, terms, learner.size, pattern=pattern, agreed=both
    )  # fmt: skip


_OF: dict[str, Any] = {
    "mixture": of_mixture, "texts": _of_texts,
    "weights": _of_weights,
}  # fmt: skip
"""By what f is made of."""
