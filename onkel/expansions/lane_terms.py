"""The fast lane's side of a ring of terms: what the compiled core is given to learn into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from numpy.typing import NDArray

from onkel import core
from onkel.core.frame import Frame
from onkel.core.layout import LANES, Program
from onkel.expansions.undo_log import UndoLog
from onkel.kernels import Kernel

if TYPE_CHECKING:
    from onkel.expansions.window import BoundWindow

Array = NDArray[Any]


class LaneTerms:
    """A ring of terms that the compiled core learns into; :class:`DenseTerms` has the rest."""

    has_lane: ClassVar[bool] = True
    """Whether the compiled core's fast lane can learn into such terms."""
    kernel: Kernel
    frame: Frame
    head: int
    count: int
    panels: Array
    norms: Array
    coef: Array
    births: Array
    undo_log: UndoLog | None
    weights: Array | None
    """The coefficients in the rows' own type, while the fast lane keeps them."""

    def slots(self, start: int, stop: int) -> tuple[Array, Array]:
        """Return panel and lane of the terms start ... stop - 1, oldest first."""
        raise NotImplementedError

    def older_than(self, birth: int) -> int:
        """Return how many terms were born before this trial (births ascend)."""
        raise NotImplementedError

    def _grow(self, needed: int) -> None:
        raise NotImplementedError

    def learn(
        self, window: BoundWindow, state: Array, stepper: core.Stepper, block: core.Block,
        out: core.BlockOutput, threads: int = 1,
    ) -> int:  # fmt: skip
        """Learn rows in place, as many as go without anything unusual; return how many."""
        ring = self.ring_for(window, len(block.x), int(block.oldest[-1]))
        done = core.lane(self._program(), *self.bound(), ring, state, stepper, block, out, threads)
        self.head, self.count = ring.head, ring.count
        return done

    def with_room(self, window: BoundWindow, rows: int) -> Self:
        """Return the terms with room for so many more; these stay, if a call is refused."""
        needed = min(self.count + rows, window.cap)
        if needed <= len(self.births):
            return self
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._grow(needed)
        return other

    def ring_for(self, window: BoundWindow, rows: int, oldest: int, more: int = 0) -> Any:
        """Note what so many rows may overwrite, for which there is room; return the core's ring.

        `more` terms may go beyond those that they push out.
        """
        if self.undo_log is not None:
            going = window.budget.may_go(self, rows, window.cap, oldest) + more
            self._note_ring(min(going, self.count), rows)
        return core.ring_of(self.head, self.count, window.cap, window.budget.code)

    def _note_ring(self, going: int, coming: int) -> None:
        """Note what the next rows may overwrite: so many of the oldest, so many behind the last."""
        assert self.undo_log is not None
        if 2 * (going + coming) > len(self.births):  # places one by one would cost more than all
            self.undo_log.copy_now()
            return
        first, second = self.slots(0, going)
        panel, lane = self.slots(self.count, self.count + coming)
        self.undo_log.note(
            (self.coef, (first, slice(None), second)), (self.panels, (panel, slice(None), lane)),
            (self.norms, (panel, lane)), (self.coef, (panel, slice(None), lane)),
            (self.births, (panel * LANES + lane,)),
        )  # fmt: skip

    def _program(self) -> Program:
        program = self.kernel.program()
        assert program is not None  # or there is no lane
        return program

    def bound(self) -> tuple[Any, Any]:
        """Frame and arrays, as the compiled core takes them."""
        if self.weights is None:
            self.weights = self.coef.astype(self.frame.dtype)
        terms = core.terms_of(self.panels, self.norms, self.coef, self.weights, self.births)
        return core.frame_of(self.frame), terms

    def one(
        self, window: BoundWindow, state: Array, stepper: core.Stepper, targets: core.Targets,
        rows: core.Running | None, wanted: core.Running | None, scores: Array, limits: Array,
    ) -> Any:  # fmt: skip
        """Return what learns single rows into these terms, in place."""
        ring = core.ring_of(self.head, self.count, window.cap, window.budget.code)
        bound = (self._program(), *self.bound(), ring)
        return core.one(*bound, state, stepper, targets, rows, wanted, scores, limits)
