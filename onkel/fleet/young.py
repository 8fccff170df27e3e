"""Why alerts of young keys are such: what the fleet says of a row, and which answer it is like."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.precedents import Precedent
from onkel.estimators import inside
from onkel.explain import Feature
from onkel.explain.young import YoungExplanation
from onkel.fleet.calls import Call
from onkel.fleet.sharing import Shared
from onkel.judge import UNKNOWN, Usual, after_answers, in_brief
from onkel.judge.brief import name_of

Array = NDArray[Any]

KNOWN = 20
"""Rows of a key after which something is known of its single numbers."""
YOUNG = "The row as a whole is unusual beside those of other keys; its own key has few rows yet."
"""What is said before that."""
MOST = 64
"""Of more features than this only those farthest from what is expected are tried."""


def said_of(age: int, row: Array, usual: Array | None, names: Any, like: Precedent | None) -> str:
    """Return a few words on an alert of a key that had learned so many rows.

    `usual`: means and variances of the key's features before the row, [2][features].
    """
    if age < KNOWN:
        return after_answers(like, YOUNG, YOUNG)
    if usual is None:
        return after_answers(like, UNKNOWN, YOUNG)
    mean, variance = usual
    whole = np.where(np.isnan(row), mean, row)
    return after_answers(like, in_brief(whole, Usual(mean, variance), names), YOUNG)


def explained(
    store: Any, key: Any, number: int, model: Any, x: Any, top: int
) -> YoungExplanation | None:
    """Return why a fleet judges a row of a young key as it does; None of others.

    `model` is a copy of the key's own.
    """
    if not isinstance(store, Shared):
        return None
    row = np.asarray(inside.single_row(model, x, top), np.float64)
    tried, other = _others(store, number, row)
    rows = np.vstack([row, *other])
    call = Call([key] * len(rows), np.full(len(rows), number), rows, "verdict")
    score, limit, alert, rank, age = store.look(call).T
    if not store.judges_young(int(age[0])):
        return None
    effect = np.zeros(len(row))
    effect[tried] = score[0] - score[1:]
    names, moments = getattr(model, "feature_names_in_", None), model.moments_
    like = call.precedents.get(0)
    usual = np.array([moments.mean, moments.variance])
    said = said_of(int(age[0]), row, usual, names, like) if alert[0] else ""
    features = tuple(
        Feature(name_of(names, j), None if np.isnan(row[j]) else float(row[j]), float(effect[j]))
        for j in np.argsort(effect, kind="stable").tolist()
    )
    return YoungExplanation(
        score=float(score[0]), base=0.0, method="replaced", features=features, terms=(),
        terms_stored=int(model.n_terms_), threshold=float(limit[0]), alert=bool(alert[0]),
        rank=float(rank[0]), recent=model.recent_.count, precedent=like, age=int(age[0]), said=said,
    )  # fmt: skip


def _others(store: Any, number: int, row: Array) -> tuple[Array, Array]:
    """Return some features, and the row with each of them as it is expected of the key."""
    mean, _ = store.usual.expected(np.array([number]))
    far = np.abs(store.usual.seen(np.array([number]), row[None])[0])
    known = np.flatnonzero(np.isfinite(mean[0]) & ~np.isnan(row))
    tried = known[np.argsort(-far[known], kind="stable")[:MOST]]
    rows = np.tile(row, (len(tried), 1))
    rows[np.arange(len(tried)), tried] = mean[0, tried]
    return tried, rows
