"""Adding mixtures: part by part, members' weights by the mean of their logarithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.learner.merging.adding import Merged

Array = NDArray[Any]


def merged_mixtures(
    mixtures: Sequence[Any], weights: Array, start: Any, merge: Callable[..., Merged]
) -> Merged:
    """Return a mixture of the members' sums; `merge` adds the learners of one part.

    What is told of it counts points, where a part has such; bound and change are those of the
    member that was changed most.
    """
    first = mixtures[0]
    begun = [None] * len(first.parts) if start is None else [part for part, _ in start.parts]
    found = [merge([m.parts[k][0] for m in mixtures], begun[k]) for k in range(len(first.parts))]
    parts = [(f.learner, held) for f, (_, held) in zip(found, first.parts, strict=True)]
    whole = type(first)(first.members, parts, **first.numbers())
    whole.names = list(first.names)
    whole.take_sum(mixtures, weights / weights.sum(), start)
    stored = [f for f in found if not f.learner.settings.expansion.primal] or found
    c, changes = whole.columns, [f.change for f in found if f.change is not None]
    return Merged(
        learner=whole,
        before=sum(f.before for f in stored),
        joined=sum(f.joined for f in stored),
        dropped=sum(f.dropped for f in stored),
        bound=_largest([f.bound for f in found], c),
        change=_largest(changes, c) if changes else None,
    )


def _largest(each: list[Array], columns: int) -> Array:
    """Return for each output the most of any member; a part has its members side by side."""
    return np.concatenate([a.reshape(-1, columns) for a in each]).max(axis=0, initial=0.0)


def mean_weights(each: Array, shares: Array) -> Array:
    """Return weights whose logarithms are the mean of these, but for a constant.

    A member that one of the mixtures has given up altogether has none.

    Examples
    --------
    >>> mean_weights(np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([0.5, 0.5])).round(3)
    array([0.75, 0.25])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(shares[:, None] > 0, shares[:, None] * np.log(each), 0.0).sum(axis=0)
    if not np.isfinite(logs).any():
        return shares @ each
    found: Array = np.exp(logs - logs.max())
    return found / found.sum()
