"""One way of looking at rows, in plain NumPy: what a row meets, as a tail probability.

A view sees its n terms as points z_i. With c the width and |.| a distance, the sum of absolute
differences or (where rows were turned, which must not matter) that as the crow flies,

    ``k(x, z) = exp(-c |x - z|)``,  ``s_i = sum of k(z_i, z_l) over l != i``

and a view with two widths looks through k^4, four times narrower, too. The functions have the names
of their compiled twins in ``src/view.hpp``; what is float32 there is float32 here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.density_table import TAIL_LEAST, TAIL_SHARE, TIED

Array = NDArray[Any]

FAR = np.float32(3e38)
"""Of a term from itself, where only others count."""
NEAR = 1e-25
"""The least distance that a width is made of."""
LOG2 = math.log(2)


@dataclass
class View:
    """The terms as one view sees them; the arrays are parts of a state, changed in place."""

    z: Array
    """[d][places]."""
    sums: Array
    """[widths][places] each term's kernel sum over the others."""
    reach: Array
    """[places] the largest coordinate, before it was turned."""
    marks: Array | None
    """[places] whether a term once raised an alert."""
    width: Array
    """[1] c, or 0 as long as nothing is judged."""
    edge: Array
    slope: Array
    """[widths] of the tail: where it begins, how fast it falls."""
    reach_edge: Array
    reach_slope: Array
    """[1] the same of the largest coordinates."""
    count: int
    crow: bool
    """Whether distances are as the crow flies."""


class Met(NamedTuple):
    """What a row meets in one view."""

    values: Array
    """exp(-c (distance - least)) for all terms."""
    least: float
    """c times the least distance."""

    def factor(self, w: int) -> float:
        """exp(-c least), to the fourth power where the width is narrow."""
        return math.exp(-self.least * (4 if w else 1))


def reach_of(q: Array) -> Any:
    """The largest coordinate of each row of [...][d]."""
    return np.abs(q).max(axis=-1)


def distances(v: View, q: Array) -> Array:
    """``|q - z_i|`` for all terms."""
    gap = v.z[:, : v.count] - q[:, None]
    return np.sqrt(np.square(gap).sum(axis=0)) if v.crow else np.abs(gap).sum(axis=0)


def raised(e: Array, w: int) -> Array:
    """``e``, or e^4 where the width is narrow."""
    return np.square(np.square(e)) if w else e


def vexp(x: Array) -> Array:
    """``exp(x)``; 0 where the result would be denormal."""
    return np.where(x > -87, np.exp(x), np.float32(0))


def meet(v: View, q: Array) -> Met:
    """Compare a row with all terms."""
    found = distances(v, q)
    least, c = found.min(), np.float32(v.width[0])
    return Met(vexp((found - least) * -c), float(c) * float(least))


def total(met: Met, w: int) -> float:
    """The sum of what was met, without its factor."""
    return float(raised(met.values, w).sum())


# -- judging -----------------------------------------------------------------------------------


def in_tail(n: int, share: float, least: int) -> int:
    """How many of n scores make the tail: a share of them, but at least so many (or a quarter)."""
    return max(min(least, n // 4), int(share * n))


def tail_of(n: int) -> int:
    """How many of n terms make the tail."""
    return in_tail(n, TAIL_SHARE, TAIL_LEAST)


def at_most(v: View, met: Met, w: int, sum_: float) -> int:
    """How many terms lie in a density at most as high as the row's, the row among their own.

    ``s_i + k(x, z_i) <= s(x)``. Row and terms are so compared as if the row had always been one of
    them: when order does not matter, each is the lowest with the same chance.
    """
    factor = np.float32(met.factor(w))
    own = np.float32(sum_ * float(factor) * TIED)
    theirs = v.sums[w, : v.count] + raised(met.values, w) * factor
    return int(np.count_nonzero(theirs <= own))


def tail_score(v: View, met: Met, w: int) -> float:
    """-log of the tail probability of a row's density, among the terms' own.

    ``-log((1 + terms at most as dense) / (n + 1))``, and beyond the edge of the k least dense terms
    an exponential tail of the score g = -log(s(x) / n): ``log(n / k) + (g - edge) / slope``.
    """
    n, sum_ = v.count, total(met, w)
    score = met.least * (4 if w else 1) - math.log(sum_ / n) if sum_ > 0 else math.inf
    if score > v.edge[w]:
        return math.log(n / tail_of(n)) + (score - float(v.edge[w])) / float(v.slope[w])
    return -math.log((1 + at_most(v, met, w, sum_)) / (n + 1))


def reach_score(v: View, own: Any) -> float:
    """The same of a row's largest coordinate, among the terms' largest ones."""
    n = v.count
    if own > v.reach_edge[0]:
        over = (float(own) - float(v.reach_edge[0])) / float(v.reach_slope[0])
        return math.log(n / tail_of(n)) + over
    return -math.log((1 + int(np.count_nonzero(v.reach[:n] >= own))) / (n + 1))


# -- terms -------------------------------------------------------------------------------------


def usual(v: View, values: Array) -> Array:
    """Leave out terms that once raised an alert, unless most have."""
    values = values[: v.count]
    if v.marks is None:
        return values
    calm = values[v.marks[: v.count] == 0]
    return calm if 2 * len(calm) > v.count else values


def fit_tails(v: View) -> None:
    """Find where the tails begin and how fast they fall, from the terms' own sums.

    The edge is the score of the (k + 1)-th least dense term; an exponential tail falls by half
    between the k-th and the (k / 2)-th.
    """
    for w in range(len(v.sums)):
        sums = np.sort(usual(v, v.sums[w]))
        k = tail_of(len(sums))
        edge, half = (-math.log(max(float(sums[at]), 1e-37) / (v.count - 1)) for at in (k, k // 2))
        v.edge[w], v.slope[w] = edge, max((half - edge) / LOG2, 0.3)
    reach = np.sort(usual(v, v.reach))[::-1]
    k = tail_of(len(reach))
    v.reach_edge[0] = reach[k]
    v.reach_slope[0] = max((float(reach[k // 2]) - float(reach[k])) / LOG2, 0.1)


def sum_but(met: Met, but: int, w: int) -> float:
    """A term's kernel sum over the others: itself, or whose place it takes, is left out first.

    Of a sum that holds a 1, float32 keeps nothing that is smaller than 1e-7.
    """
    if but < len(met.values):
        met.values[but] = 0
    return total(met, w) * met.factor(w)


def put(v: View, place: int, q: Array, reach: Any, met: Met) -> None:
    """Put a row in a place, new (place == count) or another term's, and keep the sums right."""
    n = v.count
    if place < n:
        gone = meet(v, v.z[:, place].copy())
        for w, sums in enumerate(v.sums):
            left = sums[:n] - raised(gone.values, w) * np.float32(gone.factor(w))
            sums[:n] = np.maximum(left, 0)
    for w, sums in enumerate(v.sums):
        sums[:n] += raised(met.values, w) * np.float32(met.factor(w))
        sums[place] = sum_but(met, place, w)
    v.z[:, place] = q
    v.reach[place] = reach
    v.count = max(n, place + 1)


# -- everything anew ---------------------------------------------------------------------------


def tuned_width(v: View) -> float:
    """Return the c at which half of the terms see so many others: 2 % of them, 5 at least.

    ``median over i of s_i(c) = min(max(5, n / 50), n / 4)``, by bisection of log c, over every
    (n / 40)-th term.
    """
    d, n = len(v.z), v.count
    some = range(0, n, max(1, n // 40))
    seen = np.stack([distances(v, v.z[:, i]) for i in some])
    seen[np.arange(len(seen)), some] = FAR
    positive = seen[(seen > 0) & (seen < FAR)]
    if not len(positive):
        return 4.0 / d
    median = max(float(np.sort(positive)[len(positive) // 2]), NEAR)
    wanted = min(max(5.0, 0.02 * n), n / 4)
    low, high = math.log(1e-3 / median), math.log(1e4 / median)
    for _ in range(14):
        c = (low + high) / 2
        sums = vexp(seen * np.float32(-math.exp(c))).sum(axis=1)
        low, high = (c, high) if np.sort(sums)[len(sums) // 2] > wanted else (low, c)
    return math.exp((low + high) / 2)


def settle(v: View) -> None:
    """Find width, sums and tails of a view anew, from its coordinates."""
    if v.count < 2:
        return
    v.width[0] = tuned_width(v)
    for i in range(v.count):
        met = meet(v, v.z[:, i])
        for w, sums in enumerate(v.sums):
            sums[i] = sum_but(met, i, w)
    fit_tails(v)
