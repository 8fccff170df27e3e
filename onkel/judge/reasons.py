"""Reasons for alerts: each by the model as it was just before it learned the row.

So a reason is a matter of the rows before it, never of how these were cut into calls. Some alerts
are explained, which asks the model and costs some hundred rows: which of them is a matter of how
many alerts the model has raised. Of the others it is said in a few words what is far from its mean.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onkel.alerting import RecentScores
from onkel.columns import Encoded, Tally
from onkel.core.density_table import Count
from onkel.core.precedents import Precedent
from onkel.estimators import inside
from onkel.judge.brief import UNKNOWN, WHOLE, Usual, in_brief, is_far, spreads
from onkel.judge.rows import Rows, named

if TYPE_CHECKING:
    from onkel.explain import AlertExplanation
    from onkel.scaling import Moments

Array = NDArray[Any]
Names = Sequence[str] | None

EACH = 500
"""After the first ones every alert whose number is a multiple of this is explained."""


NARROW = 32
"""Of rows no wider than this the words are left to whoever reads them."""


def is_explained(number: int, first: float) -> bool:
    """Whether a model's alert is explained, by how many it had raised before: `first` and more.

    Examples
    --------
    >>> [n for n in range(1200) if is_explained(n, 3)], is_explained(0, 0)
    ([0, 1, 2, 500, 1000], False)
    """
    return first > 0 and (number < first or number % EACH == 0)


def is_due(number: int, rows: int, first: float) -> bool:
    """Whether one of so many rows may raise an alert that is explained."""
    return first > 0 and (number < first or -number % EACH < rows)


def reason_of(model: Any, row: Any, **seen: Any) -> AlertExplanation:
    """Return why a row was an alert, by a model as it was before it learned the row.

    `seen` is what was found then (``score``, ``threshold``, ``rank``, ``recent``), of which the
    model knows all but its rounding.
    """
    return replace(model.explain(row), **seen, alert=True, warming=False)


# -- by detectors that tell of an alert before they learn it ---------------------------------------


class Heard:
    """Notes why, whenever a detector is about to learn a row that raises an alert.

    Parameters
    ----------
    model : Detector
    X : array or Encoded
        The rows of the call.
    names : sequence of str, optional
        Of the features.
    first : float, optional
        So many alerts of the model are explained, and then every 500th; None: no reasons.
    """

    def __init__(self, model: Any, X: Any, names: Names, first: float | None) -> None:
        self.model, self.X, self.names, self.first = model, X, names, first
        self.by_answer: dict[int, float] = {}
        """Of alerts that are such for an answer alone: log p had nothing been answered."""
        self.told: dict[int, str | AlertExplanation | partial[str]] = {}
        """Of each alert a reason, or what makes words of it when they are asked for."""
        self._tally = _tally_of(model, X)
        self._counted = 0

    def __call__(self, i: int, learner: Any) -> None:
        """Note why row i raises an alert."""
        tally = self._counted_to(i)
        if self.first is not None and is_explained(learner.count(Count.ALERTS), self.first):
            model = inside.at_alert(self.model, learner, tally, self.names)
            self.told[i] = found = reason_of(model, self.X[i])
            like = found.precedent
        else:
            like = self._like(i, learner, tally)
            if self.first is not None:
                words = self._briefly(i, learner, tally)
                self.told[i] = words if like is None else after_answers(like, _said(words))
        if like is not None and like.decided:
            self.by_answer[i] = like.score

    def _like(self, i: int, learner: Any, tally: Tally | None) -> Precedent | None:
        """Return the answered alert that a row is like, if there is one."""
        if not len(learner.answers.born):
            return None
        return inside.precedent(inside.at_alert(self.model, learner, tally, self.names), self.X[i])

    def _briefly(self, i: int, learner: Any, tally: Tally | None) -> str | partial[str]:
        """Return a few words on the row itself, or what makes them when they are asked for."""
        if tally is not None:
            return table_in_brief(self.X[i], learner.moments, tally)
        row = learner.filled(self.X[i : i + 1])[0]
        said = partial(in_brief, row, Usual.of_densities(learner, row), self.names)
        return said if len(row) <= NARROW else said()

    def reason(self, i: int) -> str | AlertExplanation:
        """Return why row i raised an alert."""
        return _said(self.told.get(i, UNKNOWN))

    def _counted_to(self, i: int) -> Tally | None:
        """Return how often values had come before row i."""
        if self._tally is not None and i > self._counted:
            self._tally.take(self.X[self._counted : i])
            self._counted = i
        return self._tally


def _tally_of(model: Any, X: Any) -> Tally | None:
    """Return how often values have come before these rows; None where all are numbers."""
    if not isinstance(X, Encoded):
        return None
    return model.tally_ or Tally(X.plan)


def _said(words: Any) -> Any:
    """Return a reason that may have to be made yet."""
    return words() if isinstance(words, partial) else words


def after_answers(found: Precedent | None, words: str, *nothing: str) -> str:
    """Return a few words on an alert, with the answered alert that it is like, if there is one.

    `nothing`: what is said where nothing can be named, beside what is said here.
    """
    if found is None:
        return words
    return found.brief(None if words in (*NOTHING, *nothing) else words)


# -- by others: a copy learns the rows once more, up to each alert ---------------------------------


@dataclass
class Followed:
    """Why rows raised alerts, by a detector as it was before them, which is taken up to each.

    Parameters
    ----------
    rows : Rows
    names : list of str, optional
        Of the features.
    first : float
        So many alerts of the model are explained, and then every 500th.
    alerts : int
        It has raised before these rows.
    model : detector, optional
        A copy; None where none of the rows can be explained.
    usual : Moments, optional
        Its moments, a copy; None where it keeps none, or they are known only by learning.
    tally : Tally, optional
        Of a table: how often values had come.
    weight : array, optional
        Of the rows.
    """

    rows: Rows
    names: Names
    first: float
    alerts: int
    model: Any = None
    usual: Moments | None = None
    tally: Tally | None = None
    weight: Array | None = None

    @classmethod
    def begin(
        cls, model: Any, rows: Rows, names: Names, first: float, weight: Array | None = None
    ) -> Followed:
        """Return it for a model that is about to learn rows."""
        known, plain = model.__sklearn_is_fitted__(), rows.time is None and weight is None
        number = round(inside.alert_counts(model)[0]) if known else 0
        usual = model.moments_ if known and plain else None
        if usual is not None and not usual.seen.any():
            usual = None  # it does not standardise
        due = usual is None or is_due(number, len(rows), first)
        kept = copy.copy(model) if due else None
        tally = _tally_of(model, rows.X)
        return cls(rows, names, first, number, kept, usual, tally, weight)

    def reasons(self, at: Array, seen: list[dict[str, Any]]) -> list[str | AlertExplanation]:
        """Return why each of these rows was an alert; of each, what was found then."""
        known, learned, found = 0, 0, []
        for number, (i, own) in enumerate(zip(at.tolist(), seen, strict=True), self.alerts):
            whole = is_explained(number, self.first)
            if self.model is not None and (whole or self.usual is None):
                self._learn(slice(learned, i))  # seldom, and then many rows at once
                learned = i
            self._follow(slice(known, i))
            known = i
            found.append(self._reason(i, whole, own))
        return found

    def _learn(self, part: slice) -> None:
        """Let the copy learn rows."""
        if part.start == part.stop:
            return
        rows = self.rows.part(part)
        time = {} if rows.time is None else {"time": rows.time}
        weight = {} if self.weight is None else {"sample_weight": self.weight[part]}
        names = None if self.names is None else [*self.names]
        self.model.partial_fit(named(self.model, rows.whole(), names), **time, **weight)

    def _follow(self, part: slice) -> None:
        """Let moments and counts follow rows: all that a few words need."""
        if part.start == part.stop or self.usual is None:
            return
        X = self.rows.part(part).whole()
        self.usual.update(X.X if isinstance(X, Encoded) else X)
        if self.tally is not None:
            self.tally.take(X)

    def _reason(self, i: int, whole: bool, seen: dict[str, Any]) -> str | AlertExplanation:
        model, usual, tally = self.model, self.usual, self.tally
        if model is not None and (whole or usual is None):
            if not model.__sklearn_is_fitted__():
                return UNKNOWN
            usual, tally = model.moments_, model.tally_
            if whole or not usual.seen.any():
                return reason_of(model, self.rows.X[i], **seen)
        assert usual is not None
        row = self.rows.X[i]
        if isinstance(row, Encoded):
            return table_in_brief(row, usual, tally)
        row = np.where(np.isnan(row), usual.mean, row)
        return in_brief(row, Usual(usual.mean, _variance(usual)), self.names)


def _variance(usual: Moments) -> Array:
    """Return variances, 0 where a column has been constant but for its rounding."""
    noise = 8 * usual.eps * np.abs(usual.mean)
    return np.where(usual.variance > noise**2, usual.variance, 0.0)


# -- whichever of the two it is --------------------------------------------------------------------


@dataclass
class Asked:
    """Why the rows of one call raise alerts, of any detector."""

    heard: Heard | None
    """Who notes it on the way, of a detector that tells; where no reasons are asked for, which of
    its alerts are such for an answer alone."""
    followed: Followed | None
    """Who finds it afterwards, of others."""
    recent: RecentScores
    """As they were before these rows."""

    @classmethod
    def begin(
        cls, model: Any, rows: Rows, names: Names, first: float | None,
        weight: Array | None = None,
    ) -> Asked:  # fmt: skip
        """Return it for a model that is about to learn rows; `first` is None: no reasons."""
        known = model.__sklearn_is_fitted__()
        recent = model.recent_.copy() if known else RecentScores(model.recent)
        if inside.tells_alerts(model) and (
            first is not None or (known and inside.was_answered(model))
        ):
            return cls(Heard(model, rows.whole(), names, first), None, recent)
        if first is None:
            return cls(None, None, recent)
        return cls(None, Followed.begin(model, rows, names, first, weight), recent)

    @property
    def tells(self) -> bool:
        """Whether there are reasons."""
        return self.followed is not None or (
            self.heard is not None and self.heard.first is not None
        )

    @property
    def by_answer(self) -> dict[int, float]:
        """Of alerts that are such for an answer alone: log p had nothing been answered."""
        return {} if self.heard is None else self.heard.by_answer

    def found(self, score: Array, limit: Array, alert: Array, rank: Array) -> dict[int, Any]:
        """Return the reasons of alerts by row, in words or as explanations."""
        at = np.flatnonzero(alert)
        seen: list[dict[str, Any]] = [
            {"score": float(score[i]), "threshold": float(limit[i]), "rank": float(rank[i]),
             "recent": min(self.recent.count + i, self.recent.size)}
            for i in at.tolist()
        ]  # fmt: skip
        if self.followed is not None:
            return dict(zip(at.tolist(), self.followed.reasons(at, seen), strict=True))
        assert self.heard is not None
        told = [self.heard.reason(i) for i in at.tolist()]
        pairs = zip(told, seen, strict=True)
        whole = [t if isinstance(t, str) else replace(t, **own) for t, own in pairs]
        return dict(zip(at.tolist(), whole, strict=True))


# -- tables ----------------------------------------------------------------------------------------


def table_in_brief(row: Encoded, usual: Moments, tally: Tally | None) -> str:
    """Return a few words on a row of a table: its rarest value, or the numbers, if those are rarer.

    A number that is z spreads away is as rare as a value with a rarity of z^2/2.
    """
    from onkel.explain import tables  # when asked for: a start does without

    plan = row.plan
    names = [c.name for c in plan.of("number")]
    # A detector of densities sees rarities and then the numbers, one of kernels a whole row.
    width = len(usual.mean)
    at = plan.plain if width == len(plan.outputs) else [*range(width - len(names), width)]
    own = Usual(usual.mean[at], _variance(usual)[at])
    numbers = np.where(np.isnan(row.X[0, plan.plain]), own.mean, row.X[0, plan.plain])
    z = np.abs(spreads(numbers, own.mean, own.variance)).max(initial=0.0)
    rare = None if tally is None else tables.rarest(row, tally, float(z) ** 2 / 2)
    if rare is not None:
        return rare + "."
    said = in_brief(numbers, own, names) if is_far(float(z)) else WHOLE
    return said if said != WHOLE else TABLE_WHOLE


TABLE_WHOLE = (
    "The row as a whole is unusual; no value of it is rare, and no number is more than 2 spreads "
    "from its mean."
)
NOTHING = (WHOLE, UNKNOWN, TABLE_WHOLE)
"""What is said where nothing can be named."""
