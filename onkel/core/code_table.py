"""Weights of codes: hashed one-hot coding, one weight for each bucket of (column, code)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import LARGEST, Field
from onkel.saved import Saved

Array = NDArray[Any]


@dataclass(frozen=True)
class CodeTable:
    """Weights of the codes that are the first columns of a row; the core changes them in place.

    An output's weights are ``SCALE * weights``, the sum of its past ones is
    ``SCALE_SUM * weights + past``, both scalars being fields of its state: so a row touches no
    weights but those of its own codes. Two codes in one bucket share a weight, and in one row
    they add up.
    """

    count: int
    """Codes of a row: each is a feature of value 1, but for what is missing, which is none."""
    weights: Array
    """[buckets][columns]: what a row touches of one code stands together."""
    past: Array
    """[buckets][columns] (average), else [buckets][0]."""
    marks: Array
    """[columns][2]: the sum of the squared `weights`, steps since that was added up anew."""

    @classmethod
    def opened(cls, count: int, buckets: int) -> CodeTable:
        """Return tables for no outputs yet."""
        none = np.zeros((buckets, 0))
        return cls(count, none, none, np.zeros((0, 2)))

    @property
    def buckets(self) -> int:
        """Weights of one output."""
        return len(self.weights)

    @property
    def used(self) -> int:
        """Buckets that hold a weight, of any output."""
        return int(np.count_nonzero(np.any(self.weights != 0, axis=1)))

    @property
    def nbytes(self) -> int:
        """Memory of the tables."""
        return int(self.weights.nbytes + self.past.nbytes + self.marks.nbytes)

    def copy(self) -> CodeTable:
        """Return an independent copy."""
        return CodeTable(self.count, self.weights.copy(), self.past.copy(), self.marks.copy())

    def with_outputs(self, count: int, average: bool) -> CodeTable:
        """Return the tables with more outputs, which start at 0."""
        more = np.zeros((self.buckets, count))
        weights = np.concatenate([self.weights, more], axis=1)
        past = np.concatenate([self.past, more], axis=1) if average else self.past
        marks = np.concatenate([self.marks, np.zeros((count, 2))])
        return CodeTable(self.count, weights, past, marks)

    def holding(self, weights: Array, past: Array) -> CodeTable:
        """Return tables of these actual numbers, for a state whose scales are 1 and sums 0."""
        marks = np.zeros((len(weights), 2))
        marks[:, 0] = np.einsum("ij,ij->i", weights, weights)
        weights, past = (np.ascontiguousarray(a.T) for a in (weights, past))
        return CodeTable(self.count, weights, past, marks)

    # -- actual numbers ----------------------------------------------------------------------------

    def actual(self, state: Array) -> Array:
        """Return the weights [columns][buckets]."""
        return state[:, Field.SCALE, None] * self.weights.T

    def summed(self, state: Array) -> Array:
        """Return the sums of all past weights [columns][buckets]; no rows where none are kept."""
        if not self.past.size:
            return self.past.T
        return state[:, Field.SCALE_SUM, None] * self.weights.T + self.past.T

    def norms(self, state: Array) -> Array:
        """Return the length of each output's weights."""
        squares = np.maximum(self.marks[:, 0], 0.0)
        return np.asarray(np.abs(state[:, Field.SCALE]) * np.sqrt(squares))

    def factors(self, state: Array) -> tuple[Array, Array]:
        """Return what `weights` and `past` are multiplied by to give what is shown of each output.

        That is the average hypothesis, where past weights are kept.
        """
        if not self.past.size:
            return np.ascontiguousarray(state[:, Field.SCALE]), np.zeros(len(state))
        trials = np.maximum(state[:, Field.TRIALS], 1)
        return state[:, Field.SCALE_SUM] / trials, 1 / trials

    def shares(self, at: Array, state: Array) -> Array:
        """Return what each code adds to what is shown, [codes][outputs], for one row's buckets."""
        now, then = self.factors(state)
        found = now * self.weights[at]
        if self.past.size:
            found += then * self.past[at]
        return np.where(at[:, None] < 0, 0.0, found)

    # -- files -----------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold: the buckets in use, and what stands in them."""
        used = np.any(self.weights != 0, axis=1) | np.any(self.past != 0, axis=1)
        at = np.flatnonzero(used)
        return {
            "at": at, "weights": self.weights[at], "past": self.past[at],
            "marks": self.marks.copy(),
        }  # fmt: skip

    def restored(self, saved: Saved, columns: int, average: bool) -> CodeTable:
        """Return the tables that a file holds."""
        at = saved.array("at", (None,), np.int64, low=0)
        if np.any(at >= self.buckets) or np.any(np.diff(at) <= 0):
            raise saved.refuse("at", f"must be increasing, and below {self.buckets}")
        held = {}
        for name, count in (("weights", columns), ("past", columns if average else 0)):
            found = saved.array(name, (len(at), count), np.float64)
            held[name] = np.zeros((self.buckets, count))  # no memory before something is in it
            held[name][at] = found
        marks = saved.array("marks", (columns, 2), np.float64)
        if np.any(marks[:, 1] < 0) or np.any(np.abs(held["weights"][at]) > LARGEST):
            raise saved.refuse("marks", "and weights must be those of a table of codes")
        saved.finish()
        return CodeTable(self.count, held["weights"], held["past"], marks.copy())
