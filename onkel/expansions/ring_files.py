"""A ring of terms to and from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onkel.core.layout import LANES
from onkel.core.numpy_core import are_codes
from onkel.saved import Saved

if TYPE_CHECKING:
    from onkel.expansions.dense import DenseTerms


def dumped(terms: DenseTerms) -> dict[str, Any]:
    """Return what a file must hold: the whole ring, without what is left of dropped terms."""
    panel, lane = terms.slots(terms.count, len(terms.births))
    panels, norms, births = terms.panels.copy(), terms.norms.copy(), terms.births.copy()
    panels[panel, :, lane], norms[panel, lane], births[panel * LANES + lane] = 0, 0, 0
    ring = {"head": terms.head, "count": terms.count}
    coef = terms.coef.copy()
    return {**ring, "panels": panels, "norms": norms, "coef": coef, "births": births}


def restore(terms: DenseTerms, saved: Saved, columns: int, t: int) -> None:
    """Become the terms that a file holds, after trial `t`."""
    d, dtype = len(terms.frame.center), terms.frame.dtype
    panels = saved.array("panels", (None, d, LANES), dtype, finite=False)
    n = len(panels)
    terms.panels, terms.weights = panels, None
    terms.norms = saved.array("norms", (n, LANES), dtype, finite=False, low=0.0)
    terms.coef = saved.array("coef", (n, columns, LANES), np.float64)
    terms.births = saved.array("births", (n * LANES,), np.int64, low=0)
    terms.head = saved.whole("head", high=max(n * LANES - 1, 0))
    terms.count = saved.whole("count", high=min(n * LANES, terms.limit))
    _check(terms, saved, t)


def _check(terms: DenseTerms, saved: Saved, t: int) -> None:
    """Refuse a ring that no run can have left."""
    if np.isnan(terms.panels).any():
        raise saved.refuse("panels", "must not hold NaN")
    if not are_codes(terms.panels[:, : len(terms.frame.apart)]).all():
        raise saved.refuse("panels", "must hold codes where columns are codes")
    panel, lane = terms.slots(terms.count, len(terms.births))
    held = {"panels": terms.panels[panel, :, lane], "coef": terms.coef[panel, :, lane]}
    held |= {"norms": terms.norms[panel, lane], "births": terms.births[panel * LANES + lane]}
    for name, nothing in held.items():
        if np.any(np.ascontiguousarray(nothing).view(np.uint8)):  # -0.0 is something
            raise saved.refuse(name, "must be 0 where there is no term")
    births = terms.births_from(0, terms.count)
    if np.any(np.diff(births) <= 0) or np.any(births < 1) or np.any(births > t):
        raise saved.refuse("births", f"must increase, from 1 to {t} at most")
