"""An engine: one way to learn rows. The loop that drives it is :meth:`Learner.learn`.

The loop cuts a call where the frame is taken anew, offers the rows of each piece to the learner's
engines in their order, and moves clock and moments on by what was learned. An engine holds nothing
itself: all that changes is the learner's.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

from numpy.typing import NDArray

from onkel.learner.batch import Batch
from onkel.learner.transaction import Transaction

Array = NDArray[Any]
LearnerT = TypeVar("LearnerT", contravariant=True)


class Learned(NamedTuple):
    """What came of the first rows of a batch: as many as there are scores."""

    scores: Array
    """Before each row, one column per output, in the units of targets that the learner has."""
    limits: Array
    """The thresholds beside them."""
    X: Any = None
    """The rows where the engine has brought them, for the moments; None: as they came."""


class Engine(Protocol[LearnerT]):
    """One way to learn rows."""

    def reach(self, learner: LearnerT, batch: Batch, /) -> int:
        """Return how many rows it may take now; 0: none, the next engine is asked."""

    def learn(self, learner: LearnerT, batch: Batch, call: Transaction, /) -> Learned | None:
        """Learn the first rows, at least one; None: nothing has changed, the next one is asked.

        `call.protect` is asked before anything is changed in place.
        """
