"""Budgets: which term goes when a window is full."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from onkel.core.budgets import merges
from onkel.core.layout import BudgetCode
from onkel.kernels import Kernel

Array = NDArray[Any]


class Held(Protocol):
    """Terms in any storage, or outside of one, in the order of their births."""

    @property
    def count(self) -> int:
        """Number of terms."""

    def older_than(self, birth: int) -> int:
        """Return how many were born before this trial."""


class Budget:
    """Which term goes when there are more than a window holds.

    A budget is asked, and holds nothing itself. The bound on what was lost (``truncation_bound``)
    is kept by whoever lets a term go: it knows the coefficients as they are then.
    """

    code: ClassVar[BudgetCode]
    """What the core knows it by."""
    one_by_one: ClassVar[bool] = False
    """Whether terms go inside a block, as rows push them out. Else a block ends where the window
    is full, which is then condensed to fewer terms at once."""
    keeps_points: ClassVar[bool] = True
    """Whether a term stays at its row, so that a later pass finds it there."""
    SHARE: ClassVar[int] = 16
    """A full ring lets this fraction (1/16) of its terms go at once."""

    def may_go(self, terms: Held, rows: int, cap: int, oldest: int) -> int:
        """Return how many stored terms the next rows may push out, at most.

        They stand first among the terms: those that go soonest. At most `cap` terms stay, and
        none that was born before trial `oldest`.
        """
        return 0

    def at_once(self, cap: int) -> int:
        """Return how many terms a full ring lets go where none may go inside a block."""
        return max(cap // self.SHARE, 1)

    def let_go(self, terms: Any, count: int) -> None:
        """Let so many of the first terms go."""
        terms.drop(count)

    def first_to_go(self, sizes: Array, count: int) -> Array:
        """Return which of some terms go, oldest first, if so many must: the smallest ones."""
        going = np.zeros(len(sizes), bool)
        going[np.argsort(sizes, kind="stable")[:count]] = True
        return going

    def refusal(self, kernel: Kernel) -> str | None:
        """Return why terms of a kernel cannot go this way, and what to do; None: they can."""
        return None


class Oldest(Budget):
    """The oldest term goes first.

    Terms lie in a ring in the order of their births, so that those which go stand together: a
    block knows beforehand which they may be, and nothing is searched.

    Examples
    --------
    >>> Oldest().at_once(1000)
    62
    """

    code: ClassVar[BudgetCode] = BudgetCode.OLDEST
    one_by_one: ClassVar[bool] = True

    def may_go(self, terms: Held, rows: int, cap: int, oldest: int) -> int:
        return min(max(terms.older_than(oldest), terms.count + rows - cap, 0), terms.count)

    def first_to_go(self, sizes: Array, count: int) -> Array:
        return np.arange(len(sizes)) < count


class Smallest(Budget):
    """The smallest term is dropped: the least ``|a| sqrt(k(x, x))``."""

    code: ClassVar[BudgetCode] = BudgetCode.SMALLEST


class Merge(Budget):
    """The smallest term and the partner with which it loses least become one term."""

    code: ClassVar[BudgetCode] = BudgetCode.MERGE
    keeps_points: ClassVar[bool] = False

    def refusal(self, kernel: Kernel) -> str | None:
        if kernel.domain == "numbers" and merges(kernel.program()):
            return None
        return "merges terms of the Gaussian kernel alone"


class Project(Budget):
    """A small term that another can stand for is projected on those nearest to it.

    Of the quarter of the terms that are smallest, the one of which least would be left if another
    alone took it over.
    """

    code: ClassVar[BudgetCode] = BudgetCode.PROJECT

    def refusal(self, kernel: Kernel) -> str | None:
        return None if kernel.domain == "numbers" else "projects terms on rows of numbers alone"


OLDEST = Oldest()
BUDGETS: dict[str, Budget] = {
    "oldest": OLDEST, "smallest": Smallest(), "merge": Merge(), "project": Project(),
}  # fmt: skip
