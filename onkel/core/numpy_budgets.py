"""Budgets in plain NumPy: a full window is brought down to fewer terms.

One after another the smallest term leaves, by ``|a| sqrt(k(x, x))`` over the outputs, and what it
gave is dropped, merged with a partner's, or projected on its nearest neighbours; before projecting,
one of the smallest quarter leaves, which another term can stand for. Compiled in
``src/condense.hpp``, with the same results to rounding; this is also what runs a user's own kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import BudgetCode, known

Array = NDArray[Any]

NEAREST = 16
"""Neighbours that a term is projected on."""
JITTER = 1e-6
"""Of their kernel matrix' diagonal, in units of itself."""
SMALL = 4
"""A term to be projected is one of this fraction (1/4) of all, the smallest."""
SAMPLES = 8
"""Places on the way from one point to the other that are tried at first."""
GOLDEN, NEWTON = 6, 5
"""Steps of the golden section between two of them, and of Newton from there."""
RATIO = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Gauss:
    """What merging must know of a Gaussian kernel: ``exp(-gamma |width (v - v')|^2)``.

    The first columns may be codes: those of `apart` add that much to the squared distance where
    they differ, and cannot be averaged.
    """

    gamma: float
    width: Array
    apart: tuple[float, ...] = ()

    def exponents(self, v: Array, rows: Array) -> Array:
        """Return -log k of a row and others."""
        codes = len(self.apart)
        gap = self.width[codes:] * (rows[:, codes:] - v[codes:])
        differ = (rows[:, :codes] != v[:codes]) @ np.array(self.apart)
        return self.gamma * (np.einsum("ij,ij->i", gap, gap) + differ)

    def same_codes(self, v: Array, rows: Array) -> Array:
        """Return which of the rows could be averaged with this one."""
        codes = len(self.apart)
        return np.asarray(np.all(rows[:, :codes] == v[:codes], axis=1))


@dataclass
class Condensing:
    """Terms in the making: rows as they are stored, coefficients in actual units."""

    budget: BudgetCode
    rows: Array
    coef: Array
    own: int
    """The first so many coefficients say how large a term is; the others go with them."""
    diag: Array
    """k(x, x) of each."""
    values: Callable[[Array, Array], Array]
    """From two matrices of stored rows to their kernel values, in double precision."""
    gauss: Gauss | None = None
    """Of what is merged."""

    def __post_init__(self) -> None:
        self.dtype = self.rows.dtype
        self.rows, self.coef = self.rows.astype(np.float64), self.coef.copy()
        self.diag = self.diag.copy()
        self.alive = np.ones(len(self.rows), bool)
        self.lost = np.zeros(self.coef.shape[1])
        """The norms of what each coefficient's sum has lost, added up."""

    def k(self, v: Array, rows: Array) -> Array:
        """Return kernel values of one row with others."""
        return np.asarray(self.values(v[None], rows)[0], np.float64)

    def sizes(self) -> Array:
        """Return the squared size of each term, over the outputs."""
        square = np.square(self.coef[:, : self.own]).sum(axis=1)
        return np.asarray(np.where(self.diag > 0, square * self.diag, 0.0))

    def down_to(self, left: int) -> None:
        """Let one after another leave until so many are left."""
        if self.budget == BudgetCode.PROJECT:
            return self.project_down_to(left)
        while np.count_nonzero(self.alive) > left:
            i = int(np.argmin(np.where(self.alive, self.sizes(), np.inf)))
            self.alive[i] = False
            self.leave(i)
        return None

    def leave(self, i: int) -> None:
        """Give what a term gave to others, as far as the budget has it."""
        if self.budget == BudgetCode.SMALLEST:
            self.drop(i)
        elif self.budget == BudgetCode.MERGE:
            self.merge(i)
        elif self.budget == BudgetCode.PROJECT:
            self.project(i)
        else:
            raise ValueError(f"onkel core: {known('budget', BudgetCode, self.budget)}.")

    def lose(self, square: Array) -> None:
        """Take the squared norm of what each sum has lost into account."""
        self.lost += np.sqrt(np.maximum(square, 0.0))

    def drop(self, i: int) -> None:
        """Nobody takes it over."""
        self.lose(self.coef[i] ** 2 * max(self.diag[i], 0.0))

    # -- merging -----------------------------------------------------------------------------------

    def merge(self, i: int) -> None:
        """Merge with the partner that loses least, about: see :meth:`costs`."""
        stay = np.flatnonzero(self.alive)
        if not len(stay):
            return self.drop(i)
        return self.merge_into(i, int(stay[np.argmin(self.costs(i, stay))]))

    def costs(self, i: int, stay: Array) -> Array:
        """Return what merging with each would cost about.

        At the mean of both points weighed by their sizes, or where the partner stands, whichever
        is less; where codes differ only the latter is possible.
        """
        assert self.gauss is not None
        own2, all2 = self.sizes()[i], self.sizes()[stay]
        product = self.coef[stay, : self.own] @ self.coef[i, : self.own]
        apart = self.gauss.exponents(self.rows[i], self.rows[stay])
        share = math.sqrt(own2) / np.maximum(math.sqrt(own2) + np.sqrt(all2), 1e-300)
        k, first, second = (np.exp(-apart * s**2) for s in (1.0, 1.0 - share, share))
        mean = own2 * (1 - first**2) + all2 * (1 - second**2) + 2 * product * (k - first * second)
        there = own2 * (1 - k**2)
        joint = self.gauss.same_codes(self.rows[i], self.rows[stay])
        return np.maximum(np.where(joint & (mean < there), mean, there), 0.0)

    def merge_into(self, i: int, o: int) -> None:
        """Put term `o` where both lose least, with what both give there."""
        gauss, v, w = self.gauss, self.rows[i], self.rows[o].copy()
        assert gauss is not None
        apart = float(gauss.exponents(v, w[None])[0])
        h = 0.0
        if gauss.same_codes(v, w[None])[0]:
            product = float(self.coef[i, : self.own] @ self.coef[o, : self.own])
            own2, other2 = self.sizes()[[i, o]].tolist()
            h = best_way(Way(apart, own2, other2, product))
        codes = len(gauss.apart)
        self.rows[o, codes:] = self.rounded(w[codes:] + h * (v[codes:] - w[codes:]))
        to_i, to_o = gauss.exponents(self.rows[o], np.array([v, w]))
        first, second, a, b = math.exp(-to_i), math.exp(-to_o), self.coef[i], self.coef[o]
        beside = first * second * math.expm1(to_i + to_o - apart)
        square = -(a**2) * math.expm1(-2 * to_i) - b**2 * math.expm1(-2 * to_o) + 2 * a * b * beside
        self.lose(square)
        self.coef[o] = first * a + second * b
        self.diag[o] = 1.0

    def rounded(self, v: Array) -> Array:
        """Return numbers as they will be stored."""
        return v.astype(self.dtype).astype(np.float64)

    # -- projecting --------------------------------------------------------------------------------

    def project_down_to(self, left: int) -> None:
        """Let those leave of which least would be left if one other term took them over.

        They are looked for among the quarter that is smallest at first: a large term that has a
        neighbour is left in peace.
        """
        n = len(self.rows)
        going = max(n - left, 0)
        small = np.sort(np.argsort(self.sizes(), kind="stable")[: max(n // SMALL, going)])
        best = [self.substitute(int(i)) for i in small] if going else []
        for _ in range(going):
            kept = np.array([share for _, share in best])
            over = self.sizes()[small] * np.maximum(1.0 - kept, JITTER)
            still = np.flatnonzero(self.alive[small])
            i = int(small[still[np.argmin(over[still])]])
            self.alive[i] = False
            self.leave(i)
            for place, (by, _) in enumerate(best):
                if by == i and self.alive[small[place]]:
                    best[place] = self.substitute(int(small[place]))

    def substitute(self, i: int) -> tuple[int, float]:
        """Return which other term alone would replace it best, and the share of it that is kept."""
        stay, gain = self.others(i)
        if not len(stay) or self.diag[i] <= 0:
            return -1, 0.0
        best = int(np.argmax(gain))
        return int(stay[best]), float(gain[best] / self.diag[i])

    def others(self, i: int) -> tuple[Array, Array]:
        """Return who may stand for a term, and how much of it each alone would keep, squared."""
        may = self.alive & (self.diag > 0)
        may[i] = False
        stay = np.flatnonzero(may)
        if not len(stay):
            return stay, np.zeros(0)
        with np.errstate(over="ignore"):
            gain = np.asarray(self.k(self.rows[i], self.rows[stay]) ** 2 / self.diag[stay])
        return stay[np.isfinite(gain)], gain[np.isfinite(gain)]

    def project(self, i: int) -> None:
        """Move the nearest terms' coefficients so that they come as near to it as they can."""
        near = self.nearest(i)
        b = self.k(self.rows[i], self.rows[near]) if len(near) else np.zeros(0)
        gram = np.asarray(self.values(self.rows[near], self.rows[near]), np.float64)
        x = solved(gram, b)
        if x is None:
            return self.drop(i)
        left = float(self.diag[i] + x @ gram @ x - 2 * x @ b)
        if not math.isfinite(left):
            return self.drop(i)
        self.lose(self.coef[i] ** 2 * left)
        self.coef[near] += np.outer(x, self.coef[i])
        return None

    def nearest(self, i: int) -> Array:
        """Return the terms each of which alone would replace it best."""
        stay, gain = self.others(i)
        return np.sort(stay[np.argsort(-gain, kind="stable")[:NEAREST]])


class Way(NamedTuple):
    """What a merged term keeps of both: ``|own exp(-apart (1-h)^2) + other exp(-apart h^2)|^2``.

    On the way from the partner (h = 0) to the leaver (h = 1).
    """

    apart: float
    own2: float
    other2: float
    product: float

    def parts(self, h: float) -> tuple[float, float, float]:
        """Return what comes of either square, and of the product."""
        first, second = math.exp(-self.apart * (1 - h) ** 2), math.exp(-self.apart * h**2)
        return self.own2 * first**2, self.other2 * second**2, self.product * first * second

    def gain(self, h: float) -> float:
        """Return how much is kept."""
        a, b, c = self.parts(h)
        return a + b + 2 * c

    def step(self, h: float) -> float:
        """Return where Newton's step towards the top leads; h where the way bends upwards."""
        a, b, c = self.parts(h)
        u, v = 2 * self.apart * (1 - h), -2 * self.apart * h
        slope = a * u + b * v + c * (u + v)
        bend = 2 * a * (u * u - self.apart) + 2 * b * (v * v - self.apart)
        bend += c * ((u + v) ** 2 - 4 * self.apart)
        return min(max(h - slope / bend, 0.0), 1.0) if bend < 0 else h


def best_way(way: Way) -> float:
    """Return where that is most.

    It may have two tops: some places are tried, then the golden section and Newton's steps find
    the top that is near the best of them.

    Examples
    --------
    >>> round(best_way(Way(0.1, 1.0, 1.0, 1.0)), 6), round(best_way(Way(8.0, 1.0, 4.0, 2.0)), 3)
    (0.5, 0.0)
    """
    best = max(range(SAMPLES + 1), key=lambda s: way.gain(s / SAMPLES))
    low, high = max(best - 1, 0) / SAMPLES, min(best + 1, SAMPLES) / SAMPLES
    for _ in range(GOLDEN):
        left, right = high - RATIO * (high - low), low + RATIO * (high - low)
        low, high = (low, right) if way.gain(left) > way.gain(right) else (left, high)
    h = (low + high) / 2
    for _ in range(NEWTON):
        h = way.step(h)
    return h if way.gain(h) > way.gain(best / SAMPLES) else best / SAMPLES


def solved(gram: Array, b: Array) -> Array | None:
    """Return the x with (G + jitter) x = b; None where there is none."""
    if not len(b):
        return None
    try:
        root = np.linalg.cholesky(gram + JITTER * np.diag(np.diag(gram)))
    except np.linalg.LinAlgError:
        return None
    x = np.linalg.solve(root.T, np.linalg.solve(root, b))
    return x if np.isfinite(x).all() else None
