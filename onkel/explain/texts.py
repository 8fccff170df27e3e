"""What the pieces of a text did: the spectrum kernel is a sum over substrings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.explain.outcome import Feature, Term

Array = NDArray[Any]


def of_text(
    learner: Any, text: str, a: Array, base: float, top: int, lowest_first: bool
) -> tuple[Any, ...]:
    """Return base, method, features, terms and their number, for one text.

    ``f(x) = sum over pieces p of amount(p) w(p)``, ``w(p) = sum_i a_i amount_i(p)``: exact. The
    effect of a piece is its part less that of an average stored piece, ``amount(p) mean(w)``.
    """
    terms = learner.terms
    query = terms.kernel.features(text)
    stored = terms.oldest(terms.count)
    weight = _weights(stored, a)
    uses = np.array([terms.uses[piece] for piece in weight], float)
    ordinary = float(uses @ np.array([*weight.values()]) / uses.sum()) if weight else 0.0
    features = [
        Feature(piece, None, amount * (weight.get(piece, 0.0) - ordinary),
                amount * weight.get(piece, 0.0))
        for piece, amount in query.items()
    ]  # fmt: skip
    features.sort(key=lambda f: f.effect if lowest_first else -abs(f.effect))
    found = _terms(learner, query, stored, a, top)
    return base, "split", tuple(features), found, len(stored)


def _weights(stored: list[dict[str, float]], a: Array) -> dict[str, float]:
    """Return sum_i a_i amount_i(p) for every stored piece."""
    weight: dict[str, float] = {}
    for pieces, coef in zip(stored, a.tolist(), strict=True):
        for piece, amount in pieces.items():
            weight[piece] = weight.get(piece, 0.0) + coef * amount
    return weight


def _terms(
    learner: Any, query: dict[str, float], stored: list[dict[str, float]], a: Array, top: int
) -> tuple[Term, ...]:
    likeness = learner.terms.kernel.between([query], stored)[0]
    part = a * likeness
    total = float(np.abs(part).sum())
    if not total > 0:
        return ()
    births = learner.terms.births_from(0, learner.terms.count)
    return tuple(
        Term(
            age=int(learner.t - births[i]),
            share=float(abs(part[i]) / total),
            part=float(part[i]),
            likeness=float(likeness[i]),
            values=None,
            pieces=tuple(p for p in query if p in stored[i]),
        )
        for i in np.argsort(-np.abs(part), kind="stable")[:top].tolist()
    )
