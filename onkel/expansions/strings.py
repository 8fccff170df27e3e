"""Terms on strings, held as the weights of their distinct substrings.

The prediction for a text costs its own length, whatever the number of stored texts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import BudgetCode
from onkel.expansions.loose_terms import LooseTexts
from onkel.kernels import Spectrum
from onkel.saved import Saved

Array = NDArray[Any]
Features = dict[str, float]


class StringTerms:
    """An expansion over texts: one weight vector per distinct substring, plus the terms.

    The terms themselves are needed to let the oldest go; a substring that no term holds any
    more is forgotten, so that no rounding dust stays behind.
    """

    has_lane: ClassVar[bool] = False
    """Whether the compiled core's fast lane can learn into such terms."""

    def __init__(self, kernel: Spectrum, columns: int) -> None:
        self.kernel = kernel
        self.columns = columns
        self.terms: deque[tuple[Features, Array, int]] = deque()
        self.weights: dict[str, Array] = {}
        self.uses: dict[str, int] = {}

    @property
    def count(self) -> int:
        """Number of stored texts."""
        return len(self.terms)

    @property
    def nbytes(self) -> int:
        """Rough memory of terms and weights."""
        pieces = sum(len(t[0]) for t in self.terms)
        return 100 * pieces + (200 + 8 * self.columns) * len(self.weights)

    # -- evaluating ----------------------------------------------------------------------------

    def prepare(self, texts: Any) -> list[Features]:
        """Return texts as substring counts."""
        return [self.kernel.features(s) for s in texts]

    def sums(self, queries: list[Features], unit: Array, skip: int = 0, threads: int = 1) -> Array:
        """Sum over terms of unit * coef * k; the oldest `skip` left out."""
        out = np.zeros((len(queries), self.columns))
        for row, features in zip(out, queries, strict=True):
            for piece, amount in features.items():
                weight = self.weights.get(piece)
                if weight is not None:
                    row += amount * weight
        if skip:
            old = self.kernel.between(queries, self.oldest(skip))
            out -= old @ self.coefs(0, skip)
        return out * unit

    def kernel_matrix(self, queries: list[Features], others: list[Features]) -> Array:
        """Return k(query, other) for all pairs."""
        return self.kernel.between(queries, others)

    def diag(self, queries: list[Features]) -> Array:
        """Return k(x, x): 1, or 0 for a text without substrings."""
        return np.array([float(bool(q)) for q in queries])

    def oldest(self, count: int) -> list[Features]:
        """Return the oldest terms as queries."""
        return [t[0] for t in islice(self.terms, count)]

    def coefs(self, start: int, stop: int) -> Array:
        """Return stored coefficients, one row per term."""
        rows = [t[1] for t in islice(self.terms, start, stop)]
        return np.array(rows).reshape(-1, self.columns)

    def births_from(self, start: int, stop: int) -> Array:
        """Return the births of some terms."""
        return np.array([t[2] for t in islice(self.terms, start, stop)], np.int64)

    def older_than(self, birth: int) -> int:
        """Return how many terms were born before this trial (births ascend)."""
        return next((i for i, t in enumerate(self.terms) if t[2] >= birth), self.count)

    def block_size(self) -> int:
        """Return how many texts are best taken at once."""
        return 1

    @staticmethod
    def join(first: list[Features], second: list[Features]) -> list[Features]:
        """Return two sets of queries as one."""
        return first + second

    @staticmethod
    def chosen(queries: list[Features], which: Array) -> list[Features]:
        """Return the queries with these numbers."""
        return [queries[i] for i in which]

    def following(self, x: Any) -> StringTerms:
        """Texts have no centre that could follow them."""
        return self

    def fragile(self, needs_norm: bool) -> bool:
        """Whether a change of the terms may call a user's code, which may fail."""
        return False

    def loose(self, frame: Any, coef: Array, births: Array) -> LooseTexts:
        """Return these terms outside of any storage, with other coefficients and births."""
        return LooseTexts(coef, births, None, np.array(self.oldest(self.count), object))

    # -- changing ------------------------------------------------------------------------------

    def drop(self, count: int) -> None:
        """Let the oldest terms go."""
        for _ in range(count):
            features, coef, _ = self.terms.popleft()
            for piece, amount in features.items():
                self.uses[piece] -= 1
                if self.uses[piece]:
                    self.weights[piece] = self.weights[piece] - amount * coef
                else:
                    del self.uses[piece], self.weights[piece]

    def append(self, queries: list[Features], coef: Array, births: Array) -> None:
        """Store new terms."""
        for features, a, birth in zip(queries, coef, births, strict=True):
            self.terms.append((features, a.copy(), int(birth)))
            self._add(features, a)

    def _add(self, features: Features, coef: Array) -> None:
        for piece, amount in features.items():
            self.uses[piece] = self.uses.get(piece, 0) + 1
            self.weights[piece] = self.weights.get(piece, 0.0) + amount * coef

    def add_to(self, which: Array, coef: Array) -> None:
        """Add to the coefficients of some terms, counted from the oldest."""
        for i, a in zip(which.tolist(), coef, strict=True):
            features, old, birth = self.terms[i]
            self.terms[i] = (features, old + a, birth)
            for piece, amount in features.items():
                self.weights[piece] = self.weights[piece] + amount * a

    def insert_columns(self, at: list[int]) -> None:
        """Insert coefficients of 0 before the columns `at`."""
        self.columns += len(at)
        self._refill([(f, np.insert(a, at, 0.0), birth) for f, a, birth in self.terms])

    def remix(self, mixing: Array) -> None:
        """Replace every term's coefficients a by a @ mixing, and sum the weights anew."""
        self.columns = mixing.shape[1]
        self._refill([(features, a @ mixing, birth) for features, a, birth in self.terms])

    def select(self, keep: Array) -> None:
        """Keep only some terms."""
        self._refill([term for term, stays in zip(self.terms, keep, strict=True) if stays])

    def condense(self, budget: BudgetCode, left: int, own: int) -> Array:
        """Let the smallest go until so many are left (the one budget for texts).

        The first `own` coefficients say how large a term is. Return the sums of what was lost.
        """
        assert budget == BudgetCode.SMALLEST
        coef, size = self.coefs(0, self.count), np.sqrt(self.diag(self.oldest(self.count)))
        sizes = np.square(coef[:, :own]).sum(axis=1) * size
        going = np.zeros(self.count, bool)
        going[np.argsort(sizes, kind="stable")[: self.count - left]] = True
        self.select(~going)
        return np.asarray((np.abs(coef) * size[:, None])[going].sum(axis=0))

    def _refill(self, terms: list[tuple[Features, Array, int]]) -> None:
        self.terms, self.weights, self.uses = deque(terms), {}, {}
        for features, a, _ in terms:
            self._add(features, a)

    def begin(self, origin: StringTerms, rows: int) -> Callable[[], StringTerms]:
        """Return a function that gives back `origin`, the terms as they were before this call."""
        saved = origin.copy()
        return lambda: saved

    def end(self) -> None:
        """What :meth:`begin` has saved is not needed any more."""

    def sound(self) -> bool:
        """Whether coefficients are finite, as a file must have them."""
        return bool(np.all(np.isfinite(self.coefs(0, self.count))))

    def copy(self) -> StringTerms:
        """Return an independent copy (the stored rows themselves never change)."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.terms = self.terms.copy()
        other.weights, other.uses = dict(self.weights), dict(self.uses)
        return other

    # -- files ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold: distinct substrings as code points, terms as numbers."""
        place = {piece: i for i, piece in enumerate(self.weights)}
        found = [(place[p], amount) for t in self.terms for p, amount in t[0].items()]
        letters = "".join(place).encode("utf-32-le", "surrogatepass")
        weights = np.array(list(self.weights.values())).reshape(len(place), self.columns)
        coef = np.array([t[1] for t in self.terms]).reshape(self.count, self.columns)
        return {
            "pieces": np.frombuffer(letters, "<u4").reshape(len(place), int(self.kernel.length)),
            "weights": weights,
            "lengths": np.array([len(t[0]) for t in self.terms], np.int64),
            "which": np.array([i for i, _ in found], np.int64),
            "amounts": np.array([amount for _, amount in found], np.float64),
            "coef": coef,
            "births": self.births_from(0, self.count),
        }

    def restore(self, saved: Saved, columns: int, t: int) -> None:
        """Become the terms that a file holds, after trial `t`."""
        length = int(self.kernel.length)
        letters = saved.array("pieces", (None, length), np.uint32)
        text = letters.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
        pieces = [text[i : i + length] for i in range(0, len(text), length)]
        weights = saved.array("weights", (len(pieces), columns), np.float64)
        lengths = saved.array("lengths", (None,), np.int64, low=0)
        which = saved.array("which", (None,), np.int64, low=0)
        amounts = saved.array("amounts", (len(which),), np.float64, low=0.0)
        coef = saved.array("coef", (len(lengths), columns), np.float64)
        births = saved.array("births", (len(lengths),), np.int64, low=1)
        if np.any(np.diff(births) <= 0) or np.any(births > t):
            raise saved.refuse("births", f"must increase, from 1 to {t} at most")
        if sum(lengths.tolist()) != len(which) or np.any(which >= len(pieces)):
            raise saved.refuse("which", "does not fit the pieces and the lengths of the terms")
        self.columns, self.weights = columns, dict(zip(pieces, weights, strict=True))
        uses = np.bincount(which, minlength=len(pieces))
        self.uses = dict(zip(pieces, uses.tolist(), strict=True))
        if len(self.uses) < len(pieces) or not np.all(uses):
            raise saved.refuse("pieces", "must be distinct, and each in some term")
        found = [(pieces[i], amount) for i, amount in zip(which, amounts.tolist(), strict=True)]
        ends = np.cumsum(lengths)
        for start, stop, a, birth in zip(ends - lengths, ends, coef, births.tolist(), strict=True):
            self.terms.append((dict(found[start:stop]), a, birth))
        if sum(len(features) for features, _, _ in self.terms) < len(found):
            raise saved.refuse("which", "must name a piece once for each term")
