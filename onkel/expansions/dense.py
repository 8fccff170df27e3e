"""Terms on rows of numbers, stored in panels [panel][feature][lane], a ring of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import Queries
from onkel.core.frame import Frame
from onkel.core.layout import LANES, BudgetCode
from onkel.expansions.condensing import condense
from onkel.expansions.lane_terms import LaneTerms
from onkel.expansions.loose_terms import LooseRows
from onkel.expansions.ring_files import dumped, restore
from onkel.expansions.undo_log import UndoLog
from onkel.kernels import Kernel
from onkel.kernels.base import diag_of_norms
from onkel.saved import Saved

Array = NDArray[Any]

AT_ONCE = 2**22
"""Kernel values that are held at once, where a kernel is not compiled."""


class DenseTerms(LaneTerms):
    """A dense expansion: rows, coefficients and births of the terms, oldest first.

    Coefficients are in stored units (actual = scale * stored), float64, one column per output
    (and one more each for the average hypothesis). Lanes that hold no term have coefficient 0.
    """

    def __init__(self, kernel: Kernel, frame: Frame, columns: int, limit: int) -> None:
        self.kernel = kernel
        self.frame = frame
        self.limit = limit
        self.head = 0
        self.count = 0
        self.undo_log: UndoLog | None = None
        self.weights: Array | None = None
        """The coefficients in the rows' own type, while the fast lane keeps them."""
        self.allocate(0, columns)

    def allocate(self, panels: int, columns: int) -> None:
        """Make empty room for so many panels of terms."""
        d, dtype = len(self.frame.center), self.frame.dtype
        self.weights = None
        self.panels = np.zeros((panels, d, LANES), dtype)
        self.norms = np.zeros((panels, LANES), dtype)
        self.coef = np.zeros((panels, columns, LANES))
        self.births = np.zeros(panels * LANES, np.int64)

    # -- reading -------------------------------------------------------------------------------

    @property
    def columns(self) -> int:
        """Coefficients per term."""
        return int(self.coef.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory of the stored terms."""
        arrays = (self.panels, self.norms, self.coef, self.births)
        return sum(a.nbytes for a in arrays) + (0 if self.weights is None else self.weights.nbytes)

    def slots(self, start: int, stop: int) -> tuple[Array, Array]:
        """Return panel and lane of the terms start ... stop - 1, oldest first."""
        at = (self.head + np.arange(start, stop)) % max(len(self.births), 1)
        return at // LANES, at % LANES

    def rows(self, start: int, stop: int) -> Array:
        """Return stored rows as a matrix."""
        panel, lane = self.slots(start, stop)
        return np.ascontiguousarray(self.panels[panel, :, lane])

    def coefs(self, start: int, stop: int) -> Array:
        """Return stored coefficients, one row per term."""
        panel, lane = self.slots(start, stop)
        return self.coef[panel, :, lane]

    def births_from(self, start: int, stop: int) -> Array:
        """Return the births of some terms."""
        panel, lane = self.slots(start, stop)
        return self.births[panel * LANES + lane]

    def raw_rows(self) -> Array:
        """Return all terms' inputs as they came."""
        return self.frame.raw(self.rows(0, self.count))

    def older_than(self, birth: int) -> int:
        """Return how many terms were born before this trial (births ascend)."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.births[(self.head + middle) % len(self.births)] < birth:
                low = middle + 1
            else:
                high = middle
        return low

    def block_size(self) -> int:
        """Return how many rows are best taken at once."""
        return 256 if self.count >= 2048 or len(self.frame.center) <= 64 else 64

    # -- evaluating ----------------------------------------------------------------------------

    def prepare(self, X: Array) -> Queries:
        """Return rows ready for :meth:`sums` and :meth:`kernel_matrix`."""
        return self.frame.prepare(X)

    def sums(self, queries: Queries, unit: Array, skip: int = 0, threads: int = 1) -> Array:
        """Sum over terms of unit * coef * k, by column; the oldest `skip` left out."""
        program = self.kernel.program()
        if program is None:
            return self._sums_by_function(queries, unit, skip)
        if self.count == skip:
            return np.zeros((len(queries), self.columns))
        weights = (self.coef * unit[None, :, None]).astype(self.frame.dtype)
        if skip:
            panel, lane = self.slots(0, skip)
            weights[panel, :, lane] = 0
        first, used = self.panel_range()
        return core.sums(program, queries, self.panels, self.norms, first, used, weights, threads)

    def _sums_by_function(self, queries: Queries, unit: Array, skip: int) -> Array:
        """A kernel that is a function of two matrices is asked for no more than AT_ONCE values."""
        z, total = self._z(queries.v), np.zeros((len(queries), self.columns))
        step = max(AT_ONCE // max(len(queries), 1), LANES)
        for start in range(skip, self.count, step):
            stop = min(start + step, self.count)
            K = self.kernel.values(z, self._z(self.rows(start, stop)))
            total += K @ (self.coefs(start, stop) * unit)
        return total

    def panel_range(self) -> tuple[int, int]:
        """Return the first panel that holds terms, and how many are to be looked at."""
        first = self.head // LANES
        used = (self.head % LANES + self.count + LANES - 1) // LANES
        return first, min(used, len(self.panels))

    def _z(self, v: Array) -> Array:
        return self.frame.z(v).astype(self.frame.dtype)

    def kernel_matrix(self, queries: Queries, others: Queries) -> Array:
        """Return k(query, other) for all pairs."""
        program = self.kernel.program()
        if program is None:
            return np.ascontiguousarray(
                self.kernel.values(self._z(queries.v), self._z(others.v)), np.float64
            )
        return core.matrix(program, queries, others.v, others.norm)

    def diag(self, queries: Queries) -> Array:
        """Return k(x, x) of each query."""
        program = self.kernel.program()
        if program is None:
            return np.asarray(self.kernel.diag_values(self._z(queries.v)), np.float64)
        with np.errstate(over="ignore"):
            return np.array(diag_of_norms(program, queries.norm.astype(np.float64)))

    def oldest(self, count: int) -> Queries:
        """Return the oldest terms as queries."""
        return self.frame.queries(self.rows(0, count))

    @staticmethod
    def join(first: Queries, second: Queries) -> Queries:
        """Return two sets of queries as one."""
        if not len(first):
            return second
        return first.followed_by(second)

    @staticmethod
    def chosen(queries: Queries, which: Array) -> Queries:
        """Return the queries with these numbers."""
        return queries.part(which)

    def loose(self, frame: Frame, coef: Array, births: Array) -> LooseRows:
        """Return these terms outside of any storage, as `frame` would store them.

        With other coefficients and births.
        """
        rows, way = self.rows(0, self.count), np.zeros(len(frame.center))
        if not frame.same_storage(self.frame):
            rows = frame.translate(rows, self.frame)
            way = np.abs(self.frame.center - frame.center) * frame.unit
        eps = max(np.finfo(f.dtype).eps for f in (frame, self.frame))
        doubt = 2.0 * float(eps) * (np.abs(rows.astype(np.float64)) + way)
        doubt[:, : len(frame.apart)] = 0.0
        return LooseRows(coef, births, frame, rows.astype(frame.dtype), doubt)

    # -- taking back ---------------------------------------------------------------------------

    def begin(self, origin: Self, rows: int) -> Callable[[], Self]:
        """Return a function that gives back `origin` bit for bit, whatever happens to these terms.

        `origin` is these terms as they were, perhaps in another frame; both share arrays. Until
        :meth:`end`, what is overwritten is noted; copying all terms would cost more than a short
        call.
        """
        log = self.undo_log = UndoLog(dict(origin.__dict__))

        def undo() -> Any:
            restored = object.__new__(type(origin))
            restored.__dict__.update(log.restored())
            return restored

        return undo

    def fragile(self, needs_norm: bool) -> bool:
        """Whether a change of the terms may call a user's code, which may fail."""
        return needs_norm and self.kernel.program() is None

    def end(self) -> None:
        """What :meth:`begin` keeps is not needed any more."""
        self.undo_log = None

    def _write(self, *changes: tuple[Array, Any, Any]) -> None:
        """Put values into places of arrays, and note what stood there."""
        self.weights = None
        if self.undo_log is not None:
            self.undo_log.note(*changes)
        for array, where, values in changes:
            array[where] = values

    # -- changing ------------------------------------------------------------------------------

    def drop(self, count: int) -> None:
        """Let the oldest terms go."""
        panel, lane = self.slots(0, count)
        self._write((self.coef, (panel, slice(None), lane), 0))
        self.head = (self.head + count) % max(len(self.births), 1)
        self.count -= count
        if self.count == 0:
            self.head = 0

    def append(self, queries: Queries, coef: Array, births: Array) -> None:
        """Store new terms."""
        if not len(births):
            return
        if self.count + len(births) > len(self.births):
            self._grow(self.count + len(births))
        panel, lane = self.slots(self.count, self.count + len(births))
        self._write(
            (self.panels, (panel, slice(None), lane), queries.v),
            (self.norms, (panel, lane), queries.norm),
            (self.coef, (panel, slice(None), lane), coef),
            (self.births, (panel * LANES + lane,), births),
        )
        self.count += len(births)

    def add_to(self, which: Array, coef: Array) -> None:
        """Add to the coefficients of some terms, counted from the oldest."""
        at = (self.head + which) % max(len(self.births), 1)
        where = (at // LANES, slice(None), at % LANES)
        self._write((self.coef, where, self.coef[where] + coef))

    def _grow(self, needed: int) -> None:
        enough = -(-needed // LANES)
        most = max(-(-min(self.limit, 2**40) // LANES), enough)
        panels = min(max(enough, int(1.5 * len(self.panels)) + 1), most)
        panel, lane = self.slots(0, self.count)
        self._refill(
            panels, self.panels[panel, :, lane], self.norms[panel, lane],
            self.coef[panel, :, lane], self.births[panel * LANES + lane],
        )  # fmt: skip

    def _refill(self, panels: int, rows: Array, norms: Array, coef: Array, births: Array) -> None:
        """Allocate anew and lay the given terms in order from the first lane."""
        self.allocate(panels, self.columns)
        self.head, self.count = 0, len(births)
        panel, lane = self.slots(0, self.count)
        self.panels[panel, :, lane], self.norms[panel, lane] = rows, norms
        self.coef[panel, :, lane], self.births[: self.count] = coef, births

    def refill(self, rows: Array, norms: Array, coef: Array, births: Array) -> None:
        """Hold the given terms instead, in arrays of their own."""
        self._refill(len(self.panels), rows, norms, coef, births)

    def insert_columns(self, at: list[int]) -> None:
        """Insert coefficients of 0 before the columns `at`."""
        self.weights = None
        panels, columns, lanes = self.coef.shape
        coef = np.zeros((panels, columns + len(at), lanes))
        for i, (start, stop) in enumerate(pairwise([0, *at, columns])):
            coef[:, start + i : stop + i] = self.coef[:, start:stop]
        self.coef = coef

    def remix(self, mixing: Array) -> None:
        """Replace every term's coefficients a by a @ mixing (fold, wipe, add an output)."""
        self.weights = None
        self.coef = np.ascontiguousarray(np.einsum("pwl,wv->pvl", self.coef, mixing))

    def select(self, keep: Array) -> None:
        """Keep only some terms."""
        rows, coef = self.rows(0, self.count)[keep], self.coefs(0, self.count)[keep]
        births = self.births_from(0, self.count)[keep]
        panel, lane = self.slots(0, self.count)
        norms = self.norms[panel, lane][keep]
        self.refill(rows, norms, coef, births)

    def condense(self, budget: BudgetCode, left: int, own: int) -> Array:
        """Let so many terms be left (:mod:`onkel.core.numpy_budgets`); return what was lost.

        Coefficients are in actual units; the first `own` say how large a term is.
        """
        return condense(self, budget, left, own)

    def reframed(self, frame: Frame) -> Self:
        """Return the same terms in a new frame; stored rows change only where they must."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.frame, other.weights = frame, None
        if self.count:
            rows = self.rows(0, self.count)
            panel, lane = self.slots(0, self.count)
            if not frame.same_storage(self.frame):
                rows = frame.translate(rows, self.frame)
                other.panels = self.panels.copy()
                other.panels[panel, :, lane] = rows
            other.norms = self.norms.copy()
            other.norms[panel, lane] = frame.norms(rows)
        return other

    def following(self, x: Any) -> Self:
        """Return the terms with their centre near the data (kernels of differences only)."""
        if not (self.frame.invariant and self.count):
            return self
        recent = self.rows(max(self.count - LANES, 0), self.count).astype(np.float64)
        frame = self.frame.left_behind(np.asarray(x, np.float64), recent)
        return self if frame is None else self.reframed(frame)

    def sound(self) -> bool:
        """Whether rows are numbers and coefficients finite, as a file must have them."""
        return bool(np.isfinite(self.coef.sum()) and not np.isnan(self.panels.min(initial=0.0)))

    def copy(self) -> Self:
        """Return an independent copy."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.weights = None
        for name in ("panels", "norms", "coef", "births"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def __getstate__(self) -> dict[str, Any]:
        """What the fast lane keeps beside the terms can be made again."""
        return {**self.__dict__, "weights": None, "undo_log": None}

    # -- files ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold: the whole ring, without what is left of dropped terms."""
        return dumped(self)

    def restore(self, saved: Saved, columns: int, t: int) -> None:
        """Become the terms that a file holds, after trial `t`."""
        restore(self, saved, columns, t)
