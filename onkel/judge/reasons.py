"""Reasons for alerts: explanations of the worst, a few words on the others.

An explanation asks the model and costs some hundred rows; the few words only compare a row with
the means of its features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onkel.columns import Encoded, Tally
    from onkel.explain import AlertExplanation
    from onkel.scaling import Moments

Array = NDArray[Any]

FAR = 2.0
"""A second feature is named if it is so many spreads from its mean."""


def worst(score: Array, limit: Array, alert: Array, most: int) -> list[int]:
    """Return the places of the alerts farthest below their thresholds, the farthest first.

    Examples
    --------
    >>> score, alert = np.array([0.3, 0.1, 0.9, 0.2]), np.array([True, True, False, True])
    >>> worst(score, np.full(4, 0.5), alert, 2)
    [1, 3]
    """
    at = np.flatnonzero(alert)
    found: list[int] = at[np.argsort((score - limit)[at], kind="stable")][:most].tolist()
    return found


def reason_of(model: Any, row: Any, **seen: float) -> AlertExplanation:
    """Return why a row was an alert, by a model as it was before it learned the row.

    `seen` is what was found then (``score``, ``threshold``, ``rank``): rows of the same block that
    came earlier may have moved it.
    """
    found = model.explain(row)
    if model.tells_p:
        found = _stretched(found, seen["score"])
    return replace(found, **seen, alert=True, warming=False)


def _stretched(found: AlertExplanation, score: float) -> AlertExplanation:
    """Return effects for another score, so that without the first one the row is as it was told.

    How rare a row is depends on the rows just before it; what it would be, had its first feature
    agreed, is what the model says.
    """
    first = found.features[0].effect if found.features else 0.0
    factor = (score - found.score + first) / first if first else 0.0
    if not factor > 0:
        return found
    features = tuple(replace(f, effect=factor * f.effect) for f in found.features)
    return replace(found, features=features)


def briefly(X: Array, mean: Array, spread: Array, names: list[str]) -> list[str]:
    """Return, for each row, which features are farthest from their means.

    Unlike an explanation it does not ask the model: a row can be unusual as a whole although each
    of its numbers is near its mean.

    Examples
    --------
    >>> briefly(np.array([[5.0, 1.0], [0.1, -8.0]]), np.zeros(2), np.ones(2), ["a", "b"])
    ['a 5.00 is 5.0 spreads above its mean.', 'b -8.00 is 8.0 spreads below its mean.']
    """
    z = _spreads(X, mean, spread)
    first = np.argsort(-np.abs(z), axis=1, kind="stable")[:, :2]
    far = np.take_along_axis(z, first, axis=1).tolist()
    rows = zip(first.tolist(), far, X.tolist(), strict=True)
    digits = [_digits(s) for s in spread.tolist()]
    return [_sentence(at, zs, row, names, digits) for at, zs, row in rows]


def _spreads(X: Array, mean: Array, spread: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num((X - mean) / spread)


def table_briefly(X: Encoded, usual: Moments, tally: Tally | None) -> list[str]:
    """Return the same for rows of a table: its rarest value, or the numbers, if those are rarer.

    A number that is z spreads away is as rare as a value with a rarity of z^2/2.
    """
    from onkel.explain import tables  # when asked for: a start does without

    plan = X.plan
    names = [c.name for c in plan.of("number")]
    # A detector of densities sees rarities and then the numbers, one of kernels a whole row.
    width = len(usual.mean)
    at = plan.plain if width == len(plan.outputs) else [*range(width - len(names), width)]
    numbers, mean, spread = X.X[:, plan.plain], usual.mean[at], usual.spread()[at]
    said = briefly(numbers, mean, spread, names) if names else [""] * len(X)
    if tally is None:
        return said
    rarity, columns = tally.rarity(X), tables.rare_columns(plan)
    far = np.abs(_spreads(numbers, mean, spread)).max(axis=1, initial=0.0)
    for i in np.flatnonzero(rarity.max(axis=1, initial=0.0) > far**2 / 2).tolist():
        said[i] = tables.rare_words(X[i], tally, columns[int(rarity[i].argmax())]) + "."
    return said


def _sentence(
    at: list[int], far: list[float], row: list[float], names: list[str], digits: list[int]
) -> str:
    said: list[str] = []
    for j, z in zip(at, far, strict=True):
        if said and abs(z) < FAR:
            break
        side = "above" if z > 0 else "below"
        value = f"{row[j]:.{digits[j]}f}" if abs(row[j]) < 1e9 else f"{row[j]:.4g}"
        said.append(f"{names[j]} {value} is {abs(z):.1f} spreads {side} its mean")
    return ", ".join(said) + "."


def _digits(spread: float) -> int:
    """Return how many decimals show a hundredth of a spread."""
    return int(np.clip(2 - np.floor(np.log10(spread)), 0, 9)) if spread > 0 else 2
