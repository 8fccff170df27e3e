"""A ring of terms brought down to fewer, by the compiled core or in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from onkel import core
from onkel.core import budgets
from onkel.core.layout import BudgetCode

if TYPE_CHECKING:
    from onkel.expansions.dense import DenseTerms

Array = NDArray[Any]


def condense(terms: DenseTerms, budget: BudgetCode, left: int, own: int) -> Array:
    """Let so many terms be left, in arrays of their own; return the norms of what was lost."""
    program = terms.kernel.program()
    if program is None or not core.has_lane():
        return _in_numpy(terms, budget, left, own)
    ring = core.ring_of(terms.head, terms.count, max(terms.count, 1), budget)
    made = budgets.Laid.like(terms.panels, terms.coef)
    lost = budgets.condense(program, terms.bound(), ring, made, left, own)
    terms.panels, terms.norms, terms.coef, terms.weights, terms.births = made
    terms.head, terms.count = 0, left
    return lost


def _in_numpy(terms: DenseTerms, budget: BudgetCode, left: int, own: int) -> Array:
    n, frame = terms.count, terms.frame
    task = budgets.Condensing(
        budget, terms.rows(0, n), terms.coefs(0, n), own, terms.diag(terms.oldest(n)),
        _values(terms), budgets.gauss_of(terms.kernel.program(), frame),
    )  # fmt: skip
    task.down_to(left)
    stay, births = task.alive, terms.births_from(0, n)
    rows = task.rows[stay].astype(frame.dtype)
    terms.refill(rows, frame.norms(rows), task.coef[stay], births[stay])
    return task.lost


def _values(terms: DenseTerms) -> Any:
    """Return a function from two matrices of stored rows to their kernel values."""
    program, frame = terms.kernel.program(), terms.frame.in_double()
    if program is not None:
        return lambda v, w: budgets.values(program, frame, v, w)
    return lambda v, w: terms.kernel.values(frame.z(v), frame.z(w))
