"""A few words on an alert: what of its row is far from what was usual just before it.

Nothing is named that is not: a number more than 2 spreads from its mean, else two numbers that do
not go together, a step or a short mean more than 3 spreads from theirs, else the row as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.density_table import LARGEST, LEAST_SPREAD, Level

Array = NDArray[Any]
Found = tuple[float, Callable[[], str]]
"""How many spreads, and what makes the words, which few are asked for."""

FAR = 2.0
"""A number is named by itself if it is more than so many spreads from its mean."""
FARTHER = 3.0
"""Pairs, steps and means are named if they are more than this: there are more of them."""
AHEAD = 1.0
"""What those must be ahead by, where a number could be named by itself."""
WHOLE = "The row as a whole is unusual; no single number is more than 2 spreads from its mean."
"""What is said where nothing can be named."""
UNKNOWN = "The row as a whole is unusual; what is usual of single numbers is not known."

TOLD = 1e70
"""What was usual beyond is not told: a detector of densities cuts numbers at 1e75."""


@dataclass(frozen=True)
class Usual:
    """What was usual of rows just before one of them.

    Parameters
    ----------
    mean, variance : array
        Of each feature.
    covariance : array, optional
        Between features.
    step, late : tuple of three arrays, optional
        The row's step from the one before, and the mean of the last ten rows or so with it: its
        value, means and variances.
    """

    mean: Array
    variance: Array
    covariance: Array | None = None
    step: tuple[Array, Array, Array] | None = None
    late: tuple[Array, Array, Array] | None = None

    @classmethod
    def of_densities(cls, learner: Any, row: Array) -> Usual:
        """Return it of a learner of densities that is about to learn a row: copies."""
        state, tied = learner.state, learner.tied > 0
        steps = late = None
        if tied:
            bounded = np.clip(row, -LARGEST, LARGEST)
            fade = 1 - 2 / (learner.plan.span + 1)
            mean = (fade * state.smooth + bounded) / (fade * learner.level(Level.SMOOTH_MASS) + 1)
            steps = bounded - state.last, state.mean[1].copy(), _seen_as(learner, 1)
            late = mean, state.mean[2].copy(), _seen_as(learner, 2)
        whole = len(state.cov[0]) == learner.features > 1
        cov = state.cov[0].copy() if whole else None
        return cls(state.mean[0].copy(), learner.variance(0).copy(), cov, steps, late)


def _seen_as(learner: Any, kind: int) -> Array:
    """Return the variances of steps (1) or late means (2), those of rounding as the detector's.

    What never changed has late means that differ in their last digits.
    """
    variance, least = learner.variance(kind), np.square(LEAST_SPREAD * learner.state.size)
    return np.where(variance > 0, np.maximum(variance, least), 0.0)


def briefly(X: Array, mean: Array, spread: Array, names: Sequence[str] | None) -> list[str]:
    """Return, for each row, which features are far from their means.

    Unlike an explanation it does not ask the model: a row can be unusual as a whole although each
    of its numbers is near its mean, and then it is said so. A spread of 0 is that of a feature that
    has not changed.

    Examples
    --------
    >>> X = np.array([[5.0, 1.0], [0.1, -8.0], [1.0, 1.9]])
    >>> for words in briefly(X, np.zeros(2), np.ones(2), ["a", "b"]):
    ...     print(words)
    a 5.00 is 5.0 spreads above its mean.
    b -8.00 is 8.0 spreads below its mean.
    The row as a whole is unusual; no single number is more than 2 spreads from its mean.
    """
    usual = Usual(np.asarray(mean, float), np.square(np.asarray(spread, float)))
    return [in_brief(row, usual, names) for row in X]


def in_brief(row: Array, usual: Usual, names: Sequence[str] | None) -> str:
    """Return a few words on why a row is unusual."""
    row = np.asarray(row, np.float64)
    if not np.all(np.isfinite(usual.mean)):
        return UNKNOWN
    known = _known(usual.mean, usual.variance)
    z = np.where(known, spreads(row, usual.mean, usual.variance), 0.0)
    first = float(np.abs(z).max(initial=0.0))
    others = [*_pairs(row, z, usual, names), *_moves(usual, names)]
    far, words = max(others, default=(0.0, str), key=lambda pair: pair[0])
    if is_far(far, FARTHER) and (far > first + AHEAD or not is_far(first)):
        return words()
    if is_far(first):
        return _numbers(row, z, usual, names)
    return WHOLE if known.all() else UNKNOWN


def _known(mean: Array, variance: Array) -> Array:
    """Return of which features it is known what was usual: not where numbers were cut."""
    known: Array = (np.abs(mean) < TOLD) & (variance < TOLD**2)
    return known


def spreads(row: Array, mean: Array, variance: Array) -> Array:
    """Return how many spreads numbers are from their means; infinity where they never changed."""
    known = variance > 0
    with np.errstate(over="ignore", invalid="ignore"):
        if known.all():
            z = (row - mean) / np.sqrt(variance)
            if np.isfinite(z).all():  # as nearly always
                return np.asarray(z)
        z = (row - mean) / np.sqrt(np.where(known, variance, 1.0))
        fixed = np.abs(row - mean) > 1e-9 * np.maximum(np.abs(mean), 1e-300)
        z = np.where(known, z, np.where(fixed, np.copysign(np.inf, z), 0.0))
    found: Array = np.nan_to_num(z, nan=0.0, posinf=np.inf, neginf=-np.inf)
    return found


def is_far(z: float, far: float = FAR) -> bool:
    """Whether so many spreads are more than `far`, on the digits that are shown, too."""
    return z > far and (np.isinf(z) or float(f"{z:.1f}") > far)


def _numbers(row: Array, z: Array, usual: Usual, names: Sequence[str] | None) -> str:
    """Return the one or two numbers that are farthest from their means."""
    first = [j for j in np.argsort(-np.abs(z), kind="stable")[:2].tolist() if is_far(abs(z[j]))]
    return ", ".join(_number(j, row, z, usual, names) for j in first) + "."


def _number(j: int, row: Array, z: Array, usual: Usual, names: Sequence[str] | None) -> str:
    name, value = name_of(names, j), float(row[j])
    if np.isinf(z[j]):
        shown, mean = apart(value, float(usual.mean[j]))
        return f"{name} {shown} where {mean} was usual"
    shown = written(as_read(value), float(np.sqrt(usual.variance[j])))
    return f"{name} {shown} is {_side(z[j])} its mean"


def _pairs(row: Array, z: Array, usual: Usual, names: Sequence[str] | None) -> list[Found]:
    """Return the two numbers, each near its mean, that go together least."""
    if usual.covariance is None:
        return []
    spread = np.sqrt(np.where(usual.variance > 0, usual.variance, 1.0))
    r = usual.covariance / spread[:, None] / spread
    near = np.array([not is_far(abs(v)) for v in z.tolist()]) & (usual.variance > 0)
    with np.errstate(invalid="ignore", over="ignore"):
        left = (z[:, None] - r * z) / np.sqrt(np.maximum(1 - r * r, 1e-6))
    left[~near], left[:, ~near] = 0.0, 0.0
    np.fill_diagonal(left, 0.0)
    size = np.abs(left)
    i, j = divmod(int(size.argmax()), len(z))
    return [(float(size[i, j]), partial(_pair, row, usual, names, i, j, float(left[i, j])))]


def _pair(
    row: Array, usual: Usual, names: Sequence[str] | None, i: int, j: int, left: float
) -> str:
    a, b = (
        f"{name_of(names, k)} {written(as_read(float(row[k])), float(np.sqrt(usual.variance[k])))}"
        for k in (i, j)
    )
    return (
        f"{a} and {b} are each within 2 spreads of their means, but not together: with this "
        f"{name_of(names, j)}, {name_of(names, i)} is {_side(left)} what is usual."
    )


_STEP = "{} changed by {} from one row to the next, {} the mean of its steps."
_MEAN = "The mean of {} over the last ten rows or so, {}, is {} its own mean."


def _moves(usual: Usual, names: Sequence[str] | None) -> list[Found]:
    """Return the step, and the mean of late, that are farthest from their means."""
    found: list[Found] = []
    for moved, words in ((usual.step, _STEP), (usual.late, _MEAN)):
        if moved is None:
            continue
        value, mean, variance = moved
        known = (variance > 0) & _known(mean, variance) & (np.abs(value) < TOLD)
        if known.any():
            z = np.where(known, spreads(value, mean, variance), 0.0)
            size = np.abs(z)
            j = int(size.argmax())
            said = partial(_move, words, names, moved, j, float(z[j]))
            found.append((float(size[j]), said))
    return found


def _move(
    words: str, names: Sequence[str] | None, moved: tuple[Array, Array, Array], j: int, z: float
) -> str:
    shown = written(float(moved[0][j]), float(np.sqrt(moved[2][j])))
    return words.format(name_of(names, j), shown, _side(z))


def _side(z: float) -> str:
    return f"{abs(z):.1f} spreads {'above' if z > 0 else 'below'}"


def name_of(names: Sequence[str] | None, j: int) -> str:
    """Return what a feature is called."""
    return f"feature {j}" if names is None else str(names[j])


def as_read(value: float) -> float:
    """Return a number of single precision by the fewest digits that give it; others as they are.

    Rows are doubles here, and what was read as 0.071429 would be told as 0.0714289993.

    Examples
    --------
    >>> as_read(float(np.float32(0.071429))), as_read(1 / 3), as_read(123456792.0)
    (0.071429, 0.3333333333333333, 123456792.0)
    """
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if float(single) != value or float(f"{value:.9g}") == value or value == int(value):
        return value
    return float(str(single))


def apart(value: float, other: float) -> tuple[str, str]:
    """Return two numbers that differ with as many digits as tell them apart, nine at least.

    Examples
    --------
    >>> apart(5.0, 2.0), apart(1.000000002, 1.0), apart(float(np.float32(0.1)), 0.1)
    (('5', '2'), ('1.000000002', '1'), ('0.100000001', '0.1'))
    """
    pair = as_read(value), as_read(other)
    if pair[0] == pair[1]:  # of which one is single precision, and not the other
        pair = value, other
    for digits in range(9, 18):
        first, second = (f"{v:.{digits}g}" for v in pair)
        if float(first) != float(second):
            break
    return first, second


def written(value: float, spread: float) -> str:
    """Return a number with as many decimals as show a hundredth of a spread."""
    digits = int(min(max(2 - np.floor(np.log10(spread)), 0), 9)) if spread > 0 else 2
    return f"{value:.{digits}f}" if abs(value) < 1e9 else f"{value:.4g}"
