"""A call is learned whole or refused whole."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from onkel.learner.base import Learner


class Transaction:
    """One call to a learner, which is put back bit for bit if the call fails.

    What a failure needs is noted only where one can come after the first change in place: a call
    whose rows are learned at once costs nothing. Ctrl-C in the midst of such a call is not undone.

    Parameters
    ----------
    learner : Learner
        What learns.
    rows : int
        How many are to be learned.
    with_others : bool
        Whether something else of the same call may fail after all of them are.
    """

    def __init__(self, learner: Learner, rows: int, with_others: bool = False) -> None:
        self.learner = learner
        self.left = rows
        """Rows that are still to be learned."""
        self.with_others = with_others
        self.before: Learner = learner.copied()
        self.restore: Callable[[], Learner] | None = None

    def protect(self, rows: int, fragile: bool = False) -> None:
        """Note what a failure needs, if one may come after the change that is about to be made.

        `rows` are done with that change; `fragile`: it may itself fail half way.
        """
        if self.restore is None and (rows < self.left or fragile or self.with_others):
            self.restore = self.learner.guard(self.before, self.left)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if kind is not None:
            found = self.before if self.restore is None else self.restore()
            self.learner.__dict__.update(found.__dict__)
        elif self.restore is not None:
            self.learner.release()
