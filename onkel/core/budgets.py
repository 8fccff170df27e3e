"""A full window brought down to fewer terms: compiled (``src/condense.hpp``), or in NumPy.

:mod:`onkel.core.numpy_budgets` has the algorithm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import numpy_core
from onkel.core.layout import LANES, Op, Program
from onkel.core.numpy_budgets import Condensing, Gauss

__all__ = ["Condensing", "Gauss", "Laid", "condense", "gauss_of", "merges", "values"]

Array = NDArray[Any]


class Laid(NamedTuple):
    """Arrays of a ring, for terms that are laid out anew."""

    panels: Array
    norms: Array
    coef: Array
    weights: Array
    births: Array

    @classmethod
    def like(cls, panels: Array, coef: Array) -> Laid:
        """Return empty ones of the same size."""
        n, dtype = len(panels), panels.dtype
        return cls(
            np.zeros_like(panels), np.zeros((n, LANES), dtype), np.zeros_like(coef),
            np.zeros(coef.shape, dtype), np.zeros(n * LANES, np.int64),
        )  # fmt: skip


def condense(
    program: Program, bound: tuple[Any, Any], ring: Any, into: Laid, left: int, own: int
) -> Array:
    """Lay `left` of a ring's terms out anew (compiled core only); return what was lost.

    `bound` is frame and terms, with coefficients in actual units, of which the first `own` say how
    large a term is; `ring` names the budget. What was lost is the sum of the norms of what each
    leaving term took along, one number per column of coefficients.
    """
    lost = np.zeros(into.coef.shape[1])
    made = core.terms_of(into.panels, into.norms, into.coef, into.weights, into.births)
    core.compiled.condense(core.program_of(program), *bound, ring, made, left, own, lost)
    return lost


def merges(program: Program | None) -> bool:
    """Whether two terms of such a kernel can become one: it is a Gaussian."""
    return program is not None and [node[0] for node in program] == [Op.GAUSSIAN]


def gauss_of(program: Program | None, frame: Any) -> Gauss | None:
    """Return what merging must know of a kernel in its frame; None: it cannot merge."""
    if program is None or not merges(program):
        return None
    return Gauss(float(program[0][1]), frame.width, frame.apart)


def values(program: Program, frame: Any, v: Array, w: Array) -> Array:
    """Return kernel values of stored rows; the frame is in double precision."""
    others = frame.queries(w)
    return numpy_core.matrix(program, frame.queries(v), others.v, others.norm)
