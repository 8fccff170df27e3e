"""Budgets: which term goes when a window is full."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from onkel.core.layout import BudgetCode


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
    """What the core knows it by: its scalar steps let terms go one by one."""

    def may_go(self, terms: Held, rows: int, cap: int, oldest: int) -> int:
        """Return how many stored terms the next rows may push out, at most.

        They stand first among the terms: those that go soonest. At most `cap` terms stay, and
        none that was born before trial `oldest`.
        """
        raise NotImplementedError

    def at_once(self, cap: int) -> int:
        """Return how many terms a full ring lets go where none may go inside a block."""
        raise NotImplementedError

    def let_go(self, terms: Any, count: int) -> None:
        """Let so many terms go."""
        raise NotImplementedError


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
    SHARE: ClassVar[int] = 16
    """A full ring lets this fraction (1/16) of its terms go at once."""

    def may_go(self, terms: Held, rows: int, cap: int, oldest: int) -> int:
        return min(max(terms.older_than(oldest), terms.count + rows - cap, 0), terms.count)

    def at_once(self, cap: int) -> int:
        return max(cap // self.SHARE, 1)

    def let_go(self, terms: Any, count: int) -> None:
        terms.drop(count)


OLDEST = Oldest()
