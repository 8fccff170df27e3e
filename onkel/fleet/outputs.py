"""What several models say of their rows, as one answer in the order of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.precedents import Precedent
from onkel.fleet.groups import Key

Array = NDArray[Any]
Found = list[tuple[Key, Array, Any]]
"""Of each key its rows, and what was said of them; None where nothing is known of the key."""

OUTPUTS = {
    "novelty": ("prediction", "decision", "score", "rank", "p", "judgement", "verdict"),
    "classification": ("prediction", "probability"),
    "regression": ("prediction", "interval", "judgement"),
}
"""By task; the first is what is answered unless something else is asked for."""
_METHODS = {
    "prediction": "predict", "decision": "decision_function", "score": "score_samples",
    "rank": "rank_samples", "p": "p_samples", "interval": "predict_interval",
}  # fmt: skip


def check_output(task: str, output: str) -> None:
    """Refuse what a fleet of this task does not offer."""
    if output in OUTPUTS[task]:
        return
    if task == "classification" and output == "decision":
        raise ValueError(
            "Fleet: the scores of different keys' classifiers have no common scale; ask one of "
            "them, fleet[key].decision_function(X), or give output='probability'."
        )
    raise ValueError(f"Fleet: output must be one of {list(OUTPUTS[task])}; got {output!r}.")


def said(model: Any, X: Any, output: str) -> Any:
    """Return what a model says of rows that it does not learn."""
    if output in ("judgement", "verdict") and model.task == "novelty":
        score, limit = model.score_samples(X), model.threshold_
        columns = [score, np.full(len(score), limit), model.predict(X) == -1]
        more = [model.recent_.ranks(score), np.full(len(score), model.t_)]
        return np.column_stack([*columns, *(more if output == "verdict" else [])])
    if output == "judgement":
        return np.stack([model.predict(X), *model.predict_interval(X)])
    return getattr(model, _METHODS[output])(X)


def joined(task: str, output: str, found: Found, rows: int) -> Any:
    """Return the answers in the order of the rows.

    Where nothing is known of a key: no alert, NaN for numbers, None for labels.
    """
    if task == "classification":
        return _labels(found, rows)
    if task == "novelty" and output == "prediction":
        return _scattered(found, np.ones(rows, np.int64))
    if task == "novelty":
        wide = {"judgement": (rows, 3), "verdict": (rows, 5)}.get(output, (rows,))
        out = np.full(wide, np.nan)
        if len(wide) > 1:
            out[:, 2] = 0.0
        if output == "verdict":
            out[:, 4] = 0.0
        return _scattered(found, out)
    if output == "prediction":
        width = {np.shape(v)[1:] for _, _, v in found if v is not None}
        return _scattered(found, np.full((rows, *(width.pop() if width else ())), np.nan))
    parts = 2 if output == "interval" else 3
    columns = []
    for i in range(parts):
        each = [(key, at, None if v is None else v[i]) for key, at, v in found]
        columns.append(joined("regression", "prediction", each, rows))
    return tuple(columns)


@dataclass(frozen=True)
class Verdicts:
    """What detectors said of rows: NaN, and no alert, where nothing is known of a key."""

    score: Array
    limit: Array
    """The threshold."""
    alert: Array
    rank: Array
    """NaN where it was not asked for."""
    age: Array
    """Rows that the key had learned before."""
    precedents: dict[int, Precedent] = field(default_factory=dict)
    """Of alerts by row, where it was asked: the answered alert that they must be told with."""

    def spread(self, at: Array, rows: int) -> Verdicts:
        """Return verdicts on so many rows, of which these are those `at`."""
        score, limit, rank = np.full((3, rows), np.nan)
        whole = Verdicts(score, limit, np.zeros(rows, bool), rank, np.zeros(rows))
        for name in ("score", "limit", "alert", "rank", "age"):
            getattr(whole, name)[at] = getattr(self, name)
        return whole

    def answer(self, output: str, tells_p: bool) -> Array:
        """Return what was asked for; `tells_p`: scores are log p."""
        if output == "prediction":
            return np.where(self.alert, -1, 1)
        if output == "p":
            return np.exp(self.score) if tells_p else self.rank
        if output in ("score", "rank"):
            return self.score if output == "score" else self.rank
        if output == "decision":
            return self.score - self.limit
        columns = [self.score, self.limit, self.alert]
        more = [self.rank, self.age] if output == "verdict" else []
        return np.column_stack([*columns, *more])


def _scattered(found: Found, out: Array) -> Array:
    for _, at, values in found:
        if values is not None:
            out[at] = values
    return out


def _labels(found: Found, rows: int) -> Array:
    out = np.empty(rows, object)
    for _, at, values in found:
        if values is not None:
            out[at] = values
    if any(values is None for _, _, values in found) or not rows:
        return out
    kinds = {np.asarray(values).dtype.kind for _, _, values in found}
    return np.array(out.tolist()) if len(kinds) == 1 and kinds != {"O"} else out


def chances(found: list[tuple[Array, Any, Array]], classes: Array, rows: int) -> Array:
    """Return probabilities with a column for each class of the fleet.

    `found`: of each key its rows, its own classes, and their probabilities.
    """
    out, column = np.zeros((rows, len(classes))), {c: j for j, c in enumerate(classes.tolist())}
    for at, own, values in found:
        if values is not None:
            where = np.array([column[c] for c in np.asarray(own).tolist()])
            out[np.ix_(at, where)] = values
    return out
