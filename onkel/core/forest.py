"""Sums over the terms of an additive kernel, stored by sorted coordinates.

``forest`` gives the compiled trees where they can be had, else :class:`PlainForest`, which holds
any :class:`~onkel.core.split.Split` and is the place to read the idea: points are kept in sorted
chunks, and a chunk that lies on one side of x is summed from a few stored numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core.split import Split

Array = NDArray[Any]
Layout = list[list[int]]

CHUNK = 512
"""Points that a chunk aims at; it is split at twice as many."""

__all__ = ["PlainForest", "additive_matrix", "forest"]


def forest(splits: Sequence[Split], weights: Array, columns: int) -> Any:
    """Return an empty forest for the kernel ``sum_j weights[j] * splits[j]``."""
    native = _native_splits(splits)
    weights = np.ascontiguousarray(weights, float)
    if native is None:
        return PlainForest(splits, weights, columns)
    return core.compiled.Forest(native, weights, columns)


def additive_matrix(splits: Sequence[Split], weights: Array, X: Array, Z: Array) -> Array:
    """Return the matrix of ``sum_j weights[j] * splits[j](x_j, z_j)``, from the formula itself."""
    out = np.zeros((len(X), len(Z)))
    native = _native_splits(splits)
    if native is not None:
        weights, X, Z = (np.ascontiguousarray(a, float) for a in (weights, X, Z))
        core.compiled.additive_matrix(native, weights, X, Z, out)
        return out
    for j, (split, weight) in enumerate(zip(splits, weights, strict=True)):
        out += weight * _all_pairs(split, X[:, j], Z[:, j])
    return out


def _native_splits(splits: Sequence[Split]) -> list[Any] | None:
    """The splits as the compiled core takes them, or None where it does not know them all."""
    found = [native for split in splits if (native := split.native()) is not None]
    if not core.has_lane() or len(found) < len(splits):
        return None
    return [core.compiled.Split(*native) for native in found]


def _all_pairs(split: Split, x: Array, z: Array) -> Array:
    return split.values(np.repeat(x, len(z)), np.tile(z, len(x))).reshape(len(x), len(z))


@dataclass(frozen=True)
class _Chunk:
    """Points in order of (x, id), and what they amount to for an x beyond either end. Constant."""

    x: Array
    ids: Array
    coef: Array  # [points][columns]
    below: Array  # [rank][columns], for x >= all points; anchored at the last
    above: Array  # [rank][columns], for x <= all points; anchored at the first


def _chunk(split: Split, x: Array, ids: Array, coef: Array) -> _Chunk:
    below = split.lower(x, np.full_like(x, x[-1])) @ coef
    above = split.upper(x, np.full_like(x, x[0])) @ coef
    return _Chunk(x, ids, coef, below, above)


def _chunks(
    split: Split, x: Array, ids: Array, coef: Array, most: int = CHUNK, sizes: Sequence[int] = ()
) -> list[_Chunk]:
    """Points in any order, as chunks of these sizes, or of about equal size."""
    order = np.lexsort((ids, x))
    x, ids, coef = x[order], ids[order], coef[order]
    if np.any((x[1:] == x[:-1]) & (ids[1:] == ids[:-1])):
        raise ValueError("onkel core: this id is already there")
    if len(x) and min(sizes, default=0) > 0 and sum(sizes) == len(x):
        pieces = np.split(np.arange(len(x)), np.cumsum(sizes)[:-1])
    else:
        pieces = np.array_split(np.arange(len(x)), -(-len(x) // most)) if len(x) else []
    return [_chunk(split, x[p], ids[p], coef[p]) for p in pieces]


class _Row:
    """One coordinate: its chunks from left to right."""

    def __init__(self, split: Split, chunks: Sequence[_Chunk] = ()) -> None:
        self.split = split
        self.chunks = list(chunks)

    def _place(self, x: Array, ids: Array) -> Array:
        """Return the chunk that each (x, id) belongs to: the last that does not start after it."""
        first = np.array([c.x[0] for c in self.chunks])
        first_id = np.array([c.ids[0] for c in self.chunks], np.int64)
        order = np.lexsort((np.concatenate([first_id, ids]), np.concatenate([first, x])))
        starts = np.empty(len(order), np.int64)
        starts[order] = np.cumsum(order < len(first))
        return np.maximum(starts[len(first) :] - 1, 0)

    def _touched(self, x: Array, ids: Array) -> Iterator[tuple[int, Array]]:
        """Yield each chunk that some points belong to, and which; the last chunk first."""
        place = self._place(x, ids)
        for i in np.unique(place)[::-1]:  # from the right: the numbers of the others stay
            yield int(i), np.flatnonzero(place == i)

    def insert(self, x: Array, ids: Array, coef: Array) -> None:
        if not self.chunks:
            self.chunks = _chunks(self.split, x, ids, coef)
            return
        for i, new in self._touched(x, ids):
            old = self.chunks[i]
            points = (
                np.concatenate([old.x, x[new]]),
                np.concatenate([old.ids, ids[new]]),
                np.concatenate([old.coef, coef[new]]),
            )
            self._replace(i, *points)

    def _replace(self, i: int, x: Array, ids: Array, coef: Array) -> None:
        most = CHUNK if len(x) > 2 * CHUNK else 2 * CHUNK
        self.chunks[i : i + 1] = _chunks(self.split, x, ids, coef, most)

    def _find(self, chunk: _Chunk, x: Array, ids: Array) -> Array:
        order = np.argsort(chunk.ids)
        at = np.minimum(np.searchsorted(chunk.ids[order], ids), len(order) - 1)
        found = order[at]
        if np.any(chunk.ids[found] != ids) or np.any(chunk.x[found] != x):
            raise ValueError("onkel core: no point with this value and id is there")
        return found

    def erase(self, x: Array, ids: Array) -> None:
        if len(np.unique(ids)) < len(ids) or (len(ids) and not self.chunks):
            raise ValueError("onkel core: no point with this value and id is there")
        for i, gone in self._touched(x, ids) if len(ids) else ():
            old = self.chunks[i]
            stay = np.ones(len(old.x), bool)
            stay[self._find(old, x[gone], ids[gone])] = False
            self._replace(i, old.x[stay], old.ids[stay], old.coef[stay])
        for i in reversed(range(len(self.chunks))):  # only now: it may split the neighbour anew
            if len(self.chunks[i].x) < CHUNK // 4 and len(self.chunks) > 1:
                self._join(max(i - 1, 0))

    def _join(self, i: int) -> None:
        a, b = self.chunks[i : i + 2]
        del self.chunks[i + 1]
        joined = (np.concatenate(pair) for pair in ((a.x, b.x), (a.ids, b.ids), (a.coef, b.coef)))
        self._replace(i, *joined)

    def add(self, x: Array, ids: Array, delta: Array) -> None:
        if len(ids) and not self.chunks:
            raise ValueError("onkel core: no point with this value and id is there")
        for i, which in self._touched(x, ids) if len(ids) else ():
            old = self.chunks[i]
            coef = old.coef.copy()
            np.add.at(coef, self._find(old, x[which], ids[which]), delta[which])
            self._replace(i, old.x, old.ids, coef)

    def query(self, x: Array, columns: int) -> Array:
        """Sum over the points at each x, [n][columns]."""
        total = np.zeros((len(x), columns))
        if not self.chunks:
            return total
        first = np.array([c.x[0] for c in self.chunks])
        last = np.array([c.x[-1] for c in self.chunks])
        left, right = x[:, None] >= last, x[:, None] < first
        self._add_side(total, x, left, last, self.split.upper, [c.below for c in self.chunks])
        self._add_side(total, x, right, first, self.split.lower, [c.above for c in self.chunks])
        for i, inside in enumerate((~left & ~right).T):
            if np.any(inside):
                values = _all_pairs(self.split, x[inside], self.chunks[i].x)
                total[inside] += values @ self.chunks[i].coef
        return total

    @staticmethod
    def _add_side(
        total: Array, x: Array, side: Array, anchors: Array, factors: Any, sums: list[Array]
    ) -> None:
        """Add the chunks on one side of each x; only those pairs may be looked at."""
        row, chunk = np.nonzero(side)
        if len(row):
            parts = np.einsum("rn,nrc->cn", factors(x[row], anchors[chunk]), np.stack(sums)[chunk])
            for c, part in enumerate(parts):
                total[:, c] += np.bincount(row, part, len(total))


class PlainForest:
    """The compiled core's ``Forest`` in plain NumPy, for any kernel that splits."""

    def __init__(self, splits: Sequence[Split], weights: Array, columns: int) -> None:
        if not splits or len(weights) != len(splits) or columns < 1:
            raise ValueError("onkel core: one split and weight per coordinate, one column at least")
        self.weights = np.array(weights, float)
        self.columns = columns
        self.count = 0
        self._rows = [_Row(split) for split in splits]
        self._before: Any = None
        self._broken = False

    @property
    def nbytes(self) -> int:
        """Memory of the stored points and sums."""
        parts = ("x", "ids", "coef", "below", "above")
        return sum(getattr(c, p).nbytes for row in self._rows for c in row.chunks for p in parts)

    @property
    def in_transaction(self) -> bool:
        """Whether ``begin`` waits for ``commit`` or ``rollback``."""
        return self._before is not None

    def insert(self, X: Array, coef: Array, ids: Array) -> None:
        """Store points with coefficients [n][columns]; ids are new integers."""
        self._check(X, ids, coef)
        with self._change():
            for row, x in zip(self._rows, X.T, strict=True):
                row.insert(x, ids, coef)
            self.count += len(X)

    def erase(self, X: Array, ids: Array) -> None:
        """Remove points, found by their values and ids."""
        self._check(X, ids)
        with self._change():
            for row, x in zip(self._rows, X.T, strict=True):
                row.erase(x, ids)
            self.count -= len(X)

    def add(self, X: Array, ids: Array, delta: Array) -> None:
        """Add to the coefficients of stored points."""
        self._check(X, ids, delta)
        with self._change():
            for row, x in zip(self._rows, X.T, strict=True):
                row.add(x, ids, delta)

    def query(self, X: Array, out: Array, threads: int = 1) -> None:
        """Write the sums at the rows of `X` to `out` [n][columns]."""
        self._check(X, X)
        if out.shape != (len(X), self.columns):
            raise ValueError("onkel core: out must be [rows][columns]")
        self._refuse_broken()
        out[:] = 0.0
        for start in range(0, len(X), 1024):  # rows x chunks numbers at a time
            part = slice(start, start + 1024)
            for row, x, weight in zip(self._rows, X[part].T, self.weights, strict=True):
                out[part] += weight * row.query(x, self.columns)

    def remix(self, M: Array) -> None:
        """Replace every point's coefficients a by ``a @ M``."""
        if M.ndim != 2 or M.shape[0] != self.columns or M.shape[1] < 1:
            raise ValueError("onkel core: a mixing matrix has one row per column")
        with self._change():
            for row in self._rows:
                row.chunks = [_chunk(row.split, c.x, c.ids, c.coef @ M) for c in row.chunks]
            self.columns = M.shape[1]

    def clear(self) -> None:
        """Remove all points."""
        with self._change():
            for row in self._rows:
                row.chunks = []
            self.count = 0

    def build(self, X: Array, coef: Array, ids: Array, layout: Sequence[Layout] = ()) -> None:
        """Replace all points by these; with the `layout` of a forest of the same points, exactly.

        A layout that does not fit is ignored.
        """
        self._check(X, ids, coef)
        with self._change():
            for j, (row, x) in enumerate(zip(self._rows, X.T, strict=True)):
                sizes = layout[j][0] if j < len(layout) and len(layout[j]) == 1 else []
                row.chunks = _chunks(row.split, x, ids, coef, sizes=sizes)
            self.count = len(X)

    def layout(self) -> list[Layout]:
        """Return how the points are divided, coordinate by coordinate: what their sums depend on.

        Levels from the points up, of which there is one here.
        """
        return [[[len(c.x) for c in row.chunks]] for row in self._rows]

    def copy(self) -> PlainForest:
        """Return a forest of its own with the same points."""
        if self.in_transaction:
            raise ValueError("onkel core: a forest is not copied in the middle of a transaction")
        twin = PlainForest([row.split for row in self._rows], self.weights, self.columns)
        twin._restore(self._state())
        return twin

    # -- transactions: chunks never change, so the lists of them are all that is to be kept --------

    def begin(self) -> None:
        """Open a transaction."""
        if self.in_transaction:
            raise ValueError("onkel core: a transaction is already open")
        self._before = self._state()

    def commit(self) -> None:
        """Keep what has changed since ``begin``."""
        self._refuse_broken()
        self._end()

    def rollback(self) -> None:
        """Undo what has changed since ``begin``, bit for bit."""
        self._restore(self._end())
        self._broken = False

    def _end(self) -> Any:
        if not self.in_transaction:
            raise ValueError("onkel core: no transaction is open")
        before, self._before = self._before, None
        return before

    def _state(self) -> Any:
        return [list(row.chunks) for row in self._rows], self.columns, self.count

    def _restore(self, state: Any) -> None:
        chunks, self.columns, self.count = state
        for row, kept in zip(self._rows, chunks, strict=True):
            row.chunks = list(kept)

    def _refuse_broken(self) -> None:
        if self._broken:
            raise ValueError("onkel core: a call has failed in this transaction: roll it back")

    @contextmanager
    def _change(self) -> Iterator[None]:
        """A call that fails changes nothing, or it breaks the open transaction."""
        self._refuse_broken()
        before = None if self.in_transaction else self._state()
        try:
            yield
        except BaseException:
            if before is None:
                self._broken = True
            else:
                self._restore(before)
            raise

    def _check(self, X: Array, ids: Array, coef: Array | None = None) -> None:
        if X.ndim != 2 or X.shape[1] != len(self._rows) or len(ids) != len(X):
            raise ValueError("onkel core: rows must be [n][coordinates], with one id each")
        if coef is not None and coef.shape != (len(X), self.columns):
            raise ValueError("onkel core: coefficients must be [n][columns]")
        if coef is not None and not np.all(np.isfinite(X)):
            raise ValueError("onkel core: points must be finite")
