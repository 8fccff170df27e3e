"""Adding banks: one ring for all, in which each output has its member's kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.expansions.loose_terms import LooseTerms
from onkel.kernels.base import diag_of_norms
from onkel.learner.merging.adding_terms import AddingTerms

Array = NDArray[Any]


class AddingMembers(AddingTerms):
    """Points are put together, with the coefficients of all members."""

    def excess(self, joined: LooseTerms) -> int:
        """Return how many go: none goes inside a block of a bank."""
        return self.at_once(joined)

    def sums(self, terms: Any, queries: Any) -> Array:
        """Return the sums over stored points, for each member with its kernel."""
        found: Array = self.whole.sums(queries, self.whole.panels_of(terms))
        return found

    def lengths(self, terms: Any, queries: Any) -> Array:
        """Return sqrt(k(x, x)) of each row, for each member's outputs."""
        whole, norms = self.whole, queries.norm.astype(np.float64)
        each = np.array([np.maximum(diag_of_norms(p, norms), 0.0) for p in whole.programs])
        mine = np.repeat([m.kernel for m in whole.steppers], whole.outputs)
        return np.sqrt(each[mine]).T
