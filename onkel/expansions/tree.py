"""Trees: additive kernels in O(log terms) per example (H01 section 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core import Queries
from onkel.core.forest import forest
from onkel.core.frame import Frame
from onkel.expansions.dense import DenseTerms
from onkel.expansions.window import Window
from onkel.kernels import Additive, Kernel
from onkel.rules.base import Rule
from onkel.saved import Saved

Array = NDArray[Any]


@dataclass(frozen=True)
class Tree(Window):
    """Terms of an additive kernel in balanced trees, one per feature.

    ``f(x) = sum_j w_j sum_i a_i K_j(x_j, x_ij)``, each inner sum in O(log terms)

    Predicting, storing and dropping a term cost O(features log terms), so that a million terms
    are no burden. Takes `terms`, `age`, `tolerance` and `growth` as :class:`Window` does, but
    keeps everything unless told otherwise.

    References
    ----------
    H01 section 2, with wide nodes, anchored sums, and deletion.

    Examples
    --------
    >>> from onkel import KernelRegressor, kernels
    >>> reg = KernelRegressor(kernel=kernels.Additive(kernels.Exponential()), expansion=Tree())
    >>> reg.partial_fit([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0]).n_terms_
    1
    """

    terms: int | str | None = None

    def check(self, kernel: Kernel, rule: Rule) -> None:
        if not isinstance(kernel, Additive) or kernel.splits() is None:
            raise ValueError(
                "Tree holds kernels.Additive(...) of Exponential, Spline, Laplacian or Matern (or "
                f"of a kernel of yours that has a split); got {kernel!r}. Use expansions.Window() "
                "for any other kernel."
            )
        if not self.policy.one_by_one:
            raise ValueError(
                f"Tree: terms go from the oldest on; got budget={self.budget!r}. Leave it out, or "
                "use expansions.Window()."
            )

    def open(self, kernel: Kernel, frame: Frame | None, limit: int = 0) -> TreeTerms:
        assert frame is not None  # rows of numbers
        return TreeTerms(kernel, frame, 0, limit)


class TreeTerms(DenseTerms):
    """The terms as a dense expansion stores them, and beside them the trees that sum them."""

    kernel: Additive
    has_lane: ClassVar[bool] = False

    def allocate(self, panels: int, columns: int) -> None:
        super().allocate(panels, columns)
        if not hasattr(self, "trees"):
            self.trees = self._empty(columns)

    def _empty(self, columns: int) -> Any:
        splits = self.kernel.splits()
        assert splits is not None
        return forest(splits, np.array(self.kernel.weights), columns) if columns else None

    def _rebuild(self, layout: Any = ()) -> None:
        """Make the trees anew from the stored terms."""
        n = self.count
        self.trees = self._empty(self.columns)
        if n:
            z, coef = self.frame.z(self.rows(0, n)), self.coefs(0, n)
            births = self.births_from(0, n)
            self.trees.build(*map(np.ascontiguousarray, (z, coef, births)), list(layout))

    def __getstate__(self) -> dict[str, Any]:
        """The trees are told by how they divide the terms; the rest can be summed again."""
        state = super().__getstate__()
        state["trees"] = None if self.trees is None else self.trees.layout()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        layout = state.pop("trees")
        self.__dict__.update(state)
        self._rebuild(layout or ())

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold: the terms, and how the trees divide them."""
        trees = self.trees.layout() if self.count else []
        levels = [len(level) for tree in trees for level in tree]
        pieces = [n for tree in trees for level in tree for n in level]
        layout = {"heights": [len(tree) for tree in trees], "levels": levels, "pieces": pieces}
        return {**super().dump(), **{k: np.array(v, np.int64) for k, v in layout.items()}}

    def restore(self, saved: Saved, columns: int, t: int) -> None:
        """Become the terms that a file holds; a layout of the other core is not used."""
        super().restore(saved, columns, t)
        heights = saved.array("heights", (None,), np.int64, low=1)
        levels = saved.array("levels", (None,), np.int64, low=0)
        pieces = saved.array("pieces", (None,), np.int64, low=1)
        if sum(heights.tolist()) != len(levels) or sum(levels.tolist()) != len(pieces):
            raise saved.refuse("levels", "do not fit the heights of the trees and their pieces")
        sizes = [part.tolist() for part in np.split(pieces, np.cumsum(levels)[:-1])]
        ends = np.cumsum(heights)
        self._rebuild([sizes[a:b] for a, b in zip(ends - heights, ends, strict=True)])

    @property
    def nbytes(self) -> int:
        """Memory of terms and trees."""
        return super().nbytes + (int(self.trees.nbytes) if self.columns else 0)

    def block_size(self) -> int:
        """Return how many rows are best taken at once: all pairs of them are evaluated."""
        return 128

    # -- evaluating ----------------------------------------------------------------------------

    def sums(self, queries: Queries, unit: Array, skip: int = 0, threads: int = 1) -> Array:
        """Sum over terms of unit * coef * k, by column; the oldest `skip` left out."""
        z = np.ascontiguousarray(self.frame.z(queries.v))
        out = np.zeros((len(queries), self.columns))
        if self.count:
            self.trees.query(z, out, threads)
        if skip:
            out -= self.kernel.values(z, self.frame.z(self.rows(0, skip))) @ self.coefs(0, skip)
        return out * unit

    # -- taking back ---------------------------------------------------------------------------

    def begin(self, origin: Self, rows: int) -> Callable[[], Self]:
        """Return a function that gives back `origin`, terms and trees, bit for bit."""
        undo, trees = super().begin(origin, rows), self.trees
        if trees is not origin.trees:  # made for a new frame: those of `origin` stay as they are
            return undo
        trees.begin()

        def undo_all() -> Any:
            trees.rollback()
            return undo()

        return undo_all

    def fragile(self, needs_norm: bool) -> bool:
        """Whether a change of the terms may call a user's code, which may fail."""
        return any(split.native() is None for split in self.kernel.splits() or [])

    def end(self) -> None:
        """What :meth:`begin` keeps is not needed any more."""
        if self.undo_log is not None and self.trees.in_transaction:
            self.trees.commit()
        super().end()

    # -- changing ------------------------------------------------------------------------------

    def drop(self, count: int) -> None:
        """Let the oldest terms go."""
        if count:
            z, births = self.frame.z(self.rows(0, count)), self.births_from(0, count)
            self.trees.erase(np.ascontiguousarray(z), births)
        super().drop(count)

    def append(self, queries: Queries, coef: Array, births: Array) -> None:
        """Store new terms."""
        if len(births):
            z = np.ascontiguousarray(self.frame.z(queries.v))
            self.trees.insert(z, np.ascontiguousarray(coef), births)
        super().append(queries, coef, births)

    def add_to(self, which: Array, coef: Array) -> None:
        """Add to the coefficients of some terms, counted from the oldest."""
        super().add_to(which, coef)
        panel_rows = np.concatenate([self.rows(i, i + 1) for i in which.tolist()])
        births = np.concatenate([self.births_from(i, i + 1) for i in which.tolist()])
        z = np.ascontiguousarray(self.frame.z(panel_rows))
        self.trees.add(z, births, np.ascontiguousarray(coef))

    def insert_columns(self, at: list[int]) -> None:
        """Insert coefficients of 0 before the columns `at`."""
        super().insert_columns(at)
        self._rebuild()

    def remix(self, mixing: Array) -> None:
        """Replace every term's coefficients a by a @ mixing (fold, wipe, add an output)."""
        super().remix(mixing)
        self._rebuild()  # from the very same coefficients, to the last bit

    def select(self, keep: Array) -> None:
        """Keep only some terms."""
        super().select(keep)
        self._rebuild()

    def reframed(self, frame: Frame) -> Self:
        """Return the same terms in a new frame, which asks for new trees."""
        other = super().reframed(frame)
        other._rebuild()
        return other

    def following(self, x: Any) -> Self:
        """Trees take differences to near anchors: their centre need not follow the data."""
        return self

    def copy(self) -> Self:
        """Return an independent copy."""
        other = super().copy()
        other.trees = self.trees.copy() if self.columns else None
        return other
