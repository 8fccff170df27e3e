"""What every explanation shows, whatever is explained: features with their effects, terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.explain.effects import Effects, alike, method_of, quantiles, sharpened
from onkel.explain.outcome import Feature, Pattern, Term, Voice
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
    members: tuple[Voice, ...] = ()
    """Of a mixture: what each member says."""
    pattern: Pattern | None = None
    agreed: float | None = None


@dataclass(frozen=True)
class Made:
    """What the features of a row of a table were made of."""

    owners: Array
    """Of each feature the number of its column."""
    codes: Array
    """The most frequent codes of each column of codes, [values][columns]."""
    shares: Array
    """In which share of the rows each of them stood."""


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
    apart: tuple[float, ...] = ()
    """Of the codes, which are the first columns."""


def held_by(learner: Learner, mix: Array) -> Held:
    """Return what makes ``mix @ scores`` of a learner with terms."""
    (a, base), stored = learner.coefficients(), learner.stored()
    return Held(stored.z, a @ mix, float(base @ mix), stored.raw, stored.ages, learner.frame.apart)


# -- features and terms ------------------------------------------------------------------------


def owners_of(made: Made | None) -> Array | None:
    """Return the column of each feature, where several may be of one."""
    return None if made is None else made.owners


def order_of(effect: Array, lowest_first: bool, made: Made | None = None) -> Array:
    """Return the features' numbers: the largest effects first, or those that lowered most.

    Of the features that were made of one column there is the first.
    """
    order = np.argsort(effect if lowest_first else -np.abs(effect), kind="stable")
    if made is None:
        return order
    return order[np.sort(np.unique(made.owners[order], return_index=True)[1])]


def features_of(
    row: Array, found: Effects, order: Array, names: Any, usual: dict[int, Any],
    outside: Any = None,
) -> tuple[Feature, ...]:  # fmt: skip
    """Return the features in this order, as they are shown.

    `outside` has the numbers of those outside of their ranges, where that was asked.
    """
    return tuple(
        Feature(
            name=name_of(names, j),
            value=float(row[j]),
            effect=float(found.effect[j]),
            part=None if found.part is None else float(found.part[j]),
            usual=usual.get(j),
            outside=None if outside is None else j in outside,
        )
        for j in order.tolist()
    )


def name_of(names: Any, j: int) -> str:
    """Return what a feature is called."""
    return str(names[j]) if names is not None else f"feature {j}"


def terms_of(held: Held, found: Effects, top: int) -> tuple[Term, ...]:
    """Return the terms that mattered most."""
    part = held.a * found.likeness
    size = np.abs(part)
    total = float(size.sum())
    if not total > 0:
        return ()
    first = largest(size, top)
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


def largest(size: Array, top: int) -> Array:
    """Return where the largest are, the first of equals first."""
    if len(size) > top > 0:
        near = np.flatnonzero(size >= np.partition(size, len(size) - top)[len(size) - top])
        return near[np.argsort(-size[near], kind="stable")][:top]
    return np.argsort(-size, kind="stable")[:top]


def usual_values(
    held: Held, kernel: Kernel, x: Array, which: Array
) -> dict[int, tuple[float, float]]:
    """Return the quantiles of some features among the stored terms that are alike in the others.

    The weight of a term is abs(a) times a power of k without the feature: the highest that leaves
    ten terms' worth. Kernels that cannot leave a feature out take abs(a) alone. Codes have none.
    """
    weight, which = np.abs(held.a), which[which >= len(held.apart)]
    if not weight.sum() > 0:
        return {}
    weights = [weight] * len(which)
    if method_of(kernel) == "leave one out":
        weights = [sharpened(k, weight) for k in alike(kernel, x, held.z, which, held.apart).T]
    found = {}
    for j, w in zip(which.tolist(), weights, strict=True):
        low, high = quantiles(held.raw(slice(None), j), w, USUAL)
        found[j] = (low, high)
    return found
