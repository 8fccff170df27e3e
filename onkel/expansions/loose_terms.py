"""Terms outside of any storage: rows (or texts), coefficients and births, to be added up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Frame

Array = NDArray[Any]

TELLS = 1e4
"""A feature tells rows apart if it varies by so many times its rounding."""


@dataclass(frozen=True)
class LooseTerms:
    """Terms outside of any storage."""

    coef: Array
    """One row per term, in actual units (scale 1)."""
    births: Array
    frame: Frame | None
    """That rows of numbers are stored in; None: these are texts."""
    listed: ClassVar[tuple[str, ...]] = ("coef", "births")
    """Fields that have one entry per term."""

    @property
    def count(self) -> int:
        """Number of terms."""
        return len(self.births)

    def older_than(self, birth: int) -> int:
        """Return how many were born before this trial (births ascend)."""
        return int(np.searchsorted(self.births, birth))

    def followed_by(self, others: list[Any]) -> Self:
        """Return these terms with others behind them."""
        parts = [self, *others]
        lists: dict[str, Any] = {
            n: np.concatenate([getattr(p, n) for p in parts]) for n in self.listed
        }
        return replace(self, **lists)

    def taken(self, which: Any) -> Self:
        """Return the terms with these numbers."""
        return replace(self, **{n: getattr(self, n)[which] for n in self.listed})

    def joined(self, by_birth: bool = True) -> Self:
        """Return the terms oldest first; those at the same point add, and count as the newest.

        Terms that come to nothing are left out. Those of one birth are one term of the model
        that all went on from: known for sure, where rounding may have moved their points apart
        (`by_birth`; not so where terms have been merged since).
        """
        found = self.taken(np.argsort(self.births, kind="stable"))
        if by_birth and found.count and not np.all(np.diff(found.births) > 0):
            found = found.added(np.unique(found.births, return_inverse=True)[1])
        found = found.added(found.groups())
        return found.taken(np.any(found.coef != 0, axis=1))

    def added(self, groups: Array) -> Self:
        """Return the last term of each group, with the coefficients of all of it."""
        last = np.full(groups.max(initial=-1) + 1, -1)
        np.maximum.at(last, groups, np.arange(self.count))
        coef = np.zeros_like(self.coef)
        np.add.at(coef, last[groups], self.coef)
        return replace(self, coef=coef).taken(np.sort(last))

    def in_double(self) -> Self:
        """Return the same terms in double precision."""
        return self

    def groups(self) -> Array:
        """Return a number for each term, the same for those at the same point."""
        raise NotImplementedError

    def queries(self) -> Any:
        """Return the terms as their storage takes them."""
        raise NotImplementedError


@dataclass(frozen=True)
class LooseTexts(LooseTerms):
    """Terms on strings, held as substring counts."""

    texts: Array
    listed: ClassVar[tuple[str, ...]] = (*LooseTerms.listed, "texts")

    def queries(self) -> Any:
        return list(self.texts)

    def groups(self) -> Array:
        numbers: dict[Any, int] = {}
        keys = [frozenset(text.items()) for text in self.texts]
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


@dataclass(frozen=True)
class LooseRows(LooseTerms):
    """Terms on rows of numbers."""

    frame: Frame
    rows: Array
    """As the frame stores them."""
    doubt: Array
    """For each row and feature, what rounding may have made of it on its way here."""
    listed: ClassVar[tuple[str, ...]] = (*LooseTerms.listed, "rows", "doubt")

    def queries(self) -> Any:
        return self.frame.queries(self.rows)

    def in_double(self) -> Self:
        double = np.dtype(np.float64)
        return replace(self, rows=self.rows.astype(double), frame=replace(self.frame, dtype=double))

    def groups(self) -> Array:
        """Rows are the same if they differ by no more than rounding.

        Such rows are neighbours along a direction that has nothing to do with the data.
        """
        rows = self.rows.astype(np.float64)
        if not len(rows):
            return np.zeros(0, np.int64)
        spread, way = rows.std(axis=0), np.random.default_rng(0).normal(size=rows.shape[1])
        tells = spread > TELLS * self.doubt.max(axis=0)
        order = np.argsort(rows @ np.where(tells, way / np.where(tells, spread, 1.0), 0.0))
        gap, doubt = np.abs(np.diff(rows[order], axis=0)), self.doubt[order]
        numbers = np.zeros(len(rows), np.int64)
        numbers[order[1:]] = np.cumsum(np.any(gap > doubt[1:] + doubt[:-1], axis=1))
        return numbers
