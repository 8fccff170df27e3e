"""From a learner and a row to what its terms and features did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.explain.densities import of_densities, terms_of
from onkel.explain.effects import Effects, alike, effects, method_of, quantiles, sharpened
from onkel.explain.outcome import Feature, Term
from onkel.explain.texts import of_text
from onkel.kernels import Kernel
from onkel.learner import Learner

Array = NDArray[Any]

USUAL = (0.05, 0.95)
"""A usual value lies between these quantiles of the stored ones."""


@dataclass(frozen=True)
class Details:
    """What every explanation holds, whatever the task."""

    base: float
    method: str
    features: tuple[Feature, ...]
    terms: tuple[Term, ...]
    terms_stored: int


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
    held = _held(learner, mix)
    x = learner.frame.z(learner.frame.store(np.asarray(row, np.float64)))
    found = effects(learner.kernel, x, held.z, held.a)
    order = _order(found.effect, lowest_first)
    usual = _usual(held, learner.kernel, x, order[:top])
    features = _features(row, found, order, names, usual)
    return Details(held.base, found.method, features, _terms(held, found, top), len(held.a))


# -- what is stored ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """base + sum_i a_i k(x, z_i), the z_i as the kernel sees them."""

    z: Array
    a: Array
    base: float
    raw: Any
    """From numbers of terms and of features to values as they came."""
    ages: Array | None


def _held(learner: Learner, mix: Array) -> Held:
    (a, base), stored = learner.coefficients(), learner.stored()
    return Held(stored.z, a @ mix, float(base @ mix), stored.raw, stored.ages)


# -- features and terms ------------------------------------------------------------------------


def _order(effect: Array, lowest_first: bool) -> Array:
    return np.argsort(effect if lowest_first else -np.abs(effect), kind="stable")


def _features(
    row: Array, found: Effects, order: Array, names: Any, usual: dict[int, Any]
) -> tuple[Feature, ...]:
    return tuple(
        Feature(
            name=str(names[j]) if names is not None else f"feature {j}",
            value=float(row[j]),
            effect=float(found.effect[j]),
            part=None if found.part is None else float(found.part[j]),
            usual=usual.get(j),
        )
        for j in order.tolist()
    )


def _terms(held: Held, found: Effects, top: int) -> tuple[Term, ...]:
    part = held.a * found.likeness
    size = np.abs(part)
    total = float(size.sum())
    if not total > 0:
        return ()
    first = _largest(size, top)
    return tuple(
        Term(
            age=None if held.ages is None else int(held.ages[i]),
            share=float(size[i] / total),
            part=float(part[i]),
            likeness=float(found.likeness[i]),
            values=tuple(held.raw(i, slice(None)).tolist()),
        )
        for i in first.tolist()
    )


def _largest(size: Array, top: int) -> Array:
    """Return where the largest are, the first of equals first."""
    if len(size) > top > 0:
        near = np.flatnonzero(size >= np.partition(size, len(size) - top)[len(size) - top])
        return near[np.argsort(-size[near], kind="stable")][:top]
    return np.argsort(-size, kind="stable")[:top]


def _usual(held: Held, kernel: Kernel, x: Array, which: Array) -> dict[int, tuple[float, float]]:
    """Return the quantiles of some features among the stored terms that are alike in the others.

    The weight of a term is abs(a) times a power of k without the feature: the highest that leaves
    ten terms' worth. Kernels that cannot leave a feature out take abs(a) alone.
    """
    weight = np.abs(held.a)
    if not weight.sum() > 0:
        return {}
    weights = [weight] * len(which)
    if method_of(kernel) == "leave one out":
        weights = [sharpened(k, weight) for k in alike(kernel, x, held.z, which).T]
    found = {}
    for j, w in zip(which.tolist(), weights, strict=True):
        low, high = quantiles(held.raw(slice(None), j), w, USUAL)
        found[j] = (low, high)
    return found


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
    order = _order(found.effect, lowest_first)
    usual = {}
    if known:
        reach = 1.6449 * np.sqrt(moments.variance)  # 5 to 95 % of a bell curve
        usual = {j: (float(middle[j] - reach[j]), float(middle[j] + reach[j])) for j in order}
    return Details(base, "split", _features(row, found, order, names, usual), (), learner.size)


# -- densities ---------------------------------------------------------------------------------


def _of_densities(
    learner: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool
) -> Details:
    """What a row would be, had each of its features agreed with the others."""
    found, usual = of_densities(learner, np.asarray(row, np.float64))
    order = _order(found.effect, lowest_first)
    shown = {j: usual[j] for j in order[:top].tolist() if j in usual}
    features = _features(row, found, order, names, shown)
    terms = terms_of(learner, found, top)
    return Details(0.0, found.method, features, terms, learner.size)


_OF = {"densities": _of_densities, "terms": _of_terms, "texts": _of_texts, "weights": _of_weights}
"""By what f is made of."""
