"""Some rows and their model: judge each row before it is learned, and say what came of it.

A judge learns at once, and leaves what is only for the reader (ranks, reasons, lists) to
``columns()`` of what it returns: that can run while the next rows are learned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.estimators import inside
from onkel.estimators.regressor import BaseRegressor
from onkel.inputs import RefusedRow
from onkel.judge.marks import own_scores
from onkel.judge.ranks import ranks_at
from onkel.judge.reasons import Asked, Heard
from onkel.judge.rows import Halted, Rows, named

Array = NDArray[Any]
Columns = dict[str, Any]
"""By field: a list or an array with one value per row."""


@dataclass(frozen=True)
class Judge:
    """What a task's rows are asked.

    Parameters
    ----------
    names : list of str, optional
        Of the features; the model is told them with its first rows.
    by_clock : bool
        Whether the model forgets by the clock, so that it must be told the times.
    """

    names: list[str] | None = None
    by_clock: bool = False

    def fields(self) -> dict[str, str]:
        """Return the columns and their types; "target" is the type of the target."""
        raise NotImplementedError

    def __call__(self, model: Any, rows: Rows) -> Detected | Predicted:
        """Judge and learn rows, stretch by stretch; a refusal leaves its stretch unlearned."""
        raise NotImplementedError

    def learned(self, rows: Rows) -> int:
        """Return how many of these rows are learned."""
        return len(rows) if rows.known is None else int(np.count_nonzero(rows.known))

    def _how(self, rows: Rows) -> dict[str, Any]:
        return {"time": rows.time} if self.by_clock else {}


# -- alerts ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Detect(Judge):
    """Alerts, with scores, thresholds, ranks and reasons.

    Parameters
    ----------
    explain : float
        So many of a model's alerts are explained, and then every 500th; a call may be given another
        number. 0: none.
    brief : bool
        Whether alerts have reasons though none is explained. Those that are not explained are told
        in a few words what is far from its mean.
    rank_all : bool
        Whether all rows are ranked, or alerts alone.
    rarity : bool
        Whether scores are log p, so that p is told, too.

    Examples
    --------
    >>> from onkel import NoveltyDetector
    >>> model, rng = NoveltyDetector(nu=0.1), np.random.default_rng(0)
    >>> judge = judge_of(model, ["level", "flow"], explain=100)
    >>> before = judge(model, Rows(rng.normal(size=(500, 2))))
    >>> found = judge(model, Rows(np.array([[4.0, 0.0]]))).columns()
    >>> found["alert"].tolist(), "mostly through level 4.0" in found["why"][0]
    ([True], True)
    """

    explain: float = 0
    brief: bool = False
    rank_all: bool = True
    rarity: bool = False

    def fields(self) -> dict[str, str]:
        """Return the columns and their types."""
        rare = ("p",) if self.rarity else ()
        numbers = dict.fromkeys((*rare, "score", "threshold", "rank"), "double")
        reasons = {"why": "string"} if self.explain or self.brief else {}
        return {**numbers, "alert": "boolean", **reasons}

    def learned(self, rows: Rows) -> int:
        """Return how many of these rows are learned: all."""
        return len(rows)

    def __call__(self, model: Any, rows: Rows, explain: float | None = None) -> Detected:
        """Judge and learn; each alert's reason is the model's just before it learned the row."""
        first, how = self.explain if explain is None else explain, self._how(rows)
        timed = rows if how else replace(rows, time=None)
        wanted = first if first or self.brief else None
        asked = Asked.begin(model, timed, self.names, wanted)
        X = named(model, rows.whole(), self.names)
        score, limit, alert = judgement(model, X, asked.heard, **how)
        return Detected(self, rows, score, limit, alert, asked)


@dataclass
class Detected:
    """What a detector said of rows before it learned them."""

    judge: Detect
    rows: Rows
    score: Array
    limit: Array
    """The thresholds."""
    alert: Array
    asked: Asked
    """The detector as it was before these rows, and why they raised alerts."""

    def columns(self) -> Columns:
        """Return one column per field."""
        found = {"score": self.score, "threshold": self.limit, "alert": self.alert}
        found["rank"] = rank = self._ranks()
        if self.judge.rarity:
            found["p"] = np.exp(self.score)
        return found | ({"why": self._why(rank)} if "why" in self.judge.fields() else {})

    @property
    def own(self) -> Array:
        """Of alerts that are such for an answer alone: log p had nothing been answered, or NaN."""
        return own_scores(len(self.score), self.asked.by_answer)

    def _ranks(self) -> Array:
        recent = self.asked.recent
        if self.judge.rank_all:
            return ranks_at(recent, self.score, np.arange(len(self.score)))
        rank, at = np.full(len(self.score), np.nan), np.flatnonzero(self.alert)
        rank[at] = ranks_at(recent, self.score, at)
        return rank

    def _why(self, rank: Array) -> list[str | None]:
        """Return why each alert was one, in words; None of other rows."""
        why: list[str | None] = [None] * len(self.score)
        if not self.asked.tells:
            return why
        for i, reason in self.asked.found(self.score, self.limit, self.alert, rank).items():
            why[i] = reason if isinstance(reason, str) else reason.sentence
        return why


def judgement(
    model: Any, X: Any, heard: Heard | None = None, **how: Any
) -> tuple[Array, Array, Array]:
    """Let a detector judge rows and learn them; return scores, thresholds, and which are alerts."""
    score, limit, alert = inside.judgement(model, X, heard, **how).T
    return score, limit, alert > 0


# -- targets ---------------------------------------------------------------------------------------


class Supervised(Judge):
    """Targets: rows without one are predicted, not learned."""

    def __call__(self, model: Any, rows: Rows) -> Predicted:
        """Judge stretch by stretch; a model that knows nothing yet predicts None."""
        places, found = [*rows.stretches()], []
        for place in places:
            try:
                part = rows if len(places) == 1 else rows.part(place)
                found.append(self._stretch(model, part))
            except RefusedRow as error:
                before = Predicted(self, rows.part(slice(0, place.start)), found)
                raise Halted(error, place.start, before) from None
        return Predicted(self, rows, found)

    def _stretch(self, model: Any, rows: Rows) -> list[Any]:
        """Return, of rows that all have a target or all have none, one column per prediction."""
        X = rows.whole()
        if rows.known is None or rows.known[0]:
            return self._learn(model, named(model, X, self.names), rows.y, self._how(rows))
        if model.__sklearn_is_fitted__():
            return self._look(model, X)
        return [np.full(len(rows), None)] * (len(self.fields()) - 1)

    def _learn(self, model: Any, X: Any, y: Any, how: dict[str, Any]) -> list[Any]:
        return [model.predict_then_learn(X, y, **how)]

    def _look(self, model: Any, X: Any) -> list[Any]:
        return [model.predict(X)]


class Classify(Supervised):
    """Labels, each with its probability."""

    def fields(self) -> dict[str, str]:
        """Return the columns and their types."""
        return {"prediction": "target", "probability": "double", "target": "target"}

    def _learn(self, model: Any, X: Any, y: Any, how: dict[str, Any]) -> list[Any]:
        return labelled(model, X, y, **how)

    def _look(self, model: Any, X: Any) -> list[Any]:
        return likeliest(model.classes_, model.predict_proba(X))


def labelled(model: Any, X: Any, y: Any, **how: Any) -> list[Array]:
    """Let a classifier judge rows and learn them; return labels, and their probabilities.

    A class counts from the row after its first: that row was judged without it.
    """
    known = model.classes_.tolist() if model.__sklearn_is_fitted__() else []
    chances = model.predict_then_learn(X, y, output="probability", **how)
    known += how.get("classes") or []
    found = likeliest(model.classes_, chances)
    if known:
        return found
    came = _first_rows(model.classes_.tolist(), known, y, how.get("sample_weight"))
    nothing = np.arange(len(chances)) <= min(came.values(), default=len(chances))
    return [_none_where(nothing, column) for column in found]


def _none_where(gaps: Array, column: Array) -> Array:
    """Return a column with None where nothing was known."""
    column = column.astype(object)
    column[gaps] = None
    return column


def _first_rows(classes: list[Any], known: list[Any], y: Any, weight: Any) -> dict[int, int]:
    """Return the number of each class that was not known, with the row that brought it."""
    new = {label: j for j, label in enumerate(classes) if label not in known}
    rows: dict[int, int] = {}
    for i, label in enumerate(np.asarray(y).tolist() if new else []):
        if label in new and (weight is None or weight[i] > 0):
            rows.setdefault(new[label], i)
    return rows


def likeliest(classes: Array, chances: Array) -> list[Array]:
    """Return the label of each row with the highest probability, and that probability.

    Examples
    --------
    >>> likeliest(np.array(["a", "b"]), np.array([[0.9, 0.1], [0.5, 0.5]]))
    [array(['a', 'b'], dtype='<U1'), array([0.9, 0.5])]
    """
    if not len(classes):  # rows without weight alone have come
        return [np.full(len(chances), None, object), np.full(len(chances), np.nan)]
    two = chances.shape[1] == 2
    at = (chances[:, 1] >= chances[:, 0]).astype(int) if two else chances.argmax(axis=1)
    return [classes[at], np.take_along_axis(chances, at[:, None], axis=1)[:, 0]]


class Regress(Supervised):
    """Numbers."""

    def fields(self) -> dict[str, str]:
        """Return the columns and their types."""
        return {"prediction": "double", "target": "target"}


class Intervals(Supervised):
    """Numbers, with intervals."""

    def fields(self) -> dict[str, str]:
        """Return the columns and their types."""
        return {**dict.fromkeys(("prediction", "low", "high"), "double"), "target": "target"}

    def _learn(self, model: Any, X: Any, y: Any, how: dict[str, Any]) -> list[Any]:
        return [*model.predict_then_learn(X, y, output="judgement", **how)]

    def _look(self, model: Any, X: Any) -> list[Any]:
        return [*inside.outlook(model, X)]


@dataclass
class Predicted:
    """What a model said of rows before it learned those that have a target."""

    judge: Supervised
    rows: Rows
    parts: list[list[Any]]
    """Stretch by stretch, an array per prediction."""

    def columns(self) -> Columns:
        """Return one list per field; None where there is no target, or nothing was known."""
        fields = self.judge.fields()
        lists = [[part[i].tolist() for part in self.parts] for i in range(len(fields) - 1)]
        whole = [c[0] if len(c) == 1 else list(chain.from_iterable(c)) for c in lists]
        return dict(zip(fields, [*whole, self._targets()], strict=True))

    def _targets(self) -> list[Any]:
        assert self.rows.y is not None
        y: list[Any] = self.rows.y.tolist()
        known = self.rows.known
        if known is None or (len(self.parts) == 1 and known[0]):
            return y
        return [v if there else None for v, there in zip(y, known.tolist(), strict=True)]


def forgets_by_clock(model: Any) -> bool:
    """Whether a model's memory is a duration, so that it must be told the times.

    Examples
    --------
    >>> from onkel import KernelClassifier, rules
    >>> forgets_by_clock(KernelClassifier(rule=rules.Norma(memory="12h")))
    True
    """
    asked = getattr(model, "forgets_by_clock", None)
    return asked is not None and bool(asked())


def judge_of(
    model: Any, names: list[str] | None = None, explain: float = 0, brief: bool = False,
    rank_all: bool = True,
) -> Judge:  # fmt: skip
    """Return what judges rows for a model: by its task, its memory and its loss.

    Parameters
    ----------
    model : estimator
        Any of onkel's.
    names, explain, brief, rank_all
        As :class:`Judge` and :class:`Detect` have them.

    Examples
    --------
    >>> from onkel import KernelRegressor, losses
    >>> list(judge_of(KernelRegressor(loss=losses.Huber(nu=0.1))).fields())
    ['prediction', 'low', 'high', 'target']
    """
    by_clock = forgets_by_clock(model)
    if model.task == "novelty":
        return Detect(names, by_clock, explain, brief, rank_all, model.tells_p)
    if model.task == "classification":
        return Classify(names, by_clock)
    return (Intervals if tells_interval(model) else Regress)(names, by_clock)


def tells_interval(model: Any) -> bool:
    """Whether a model is a regressor that has intervals."""
    return isinstance(model, BaseRegressor) and inside.has_interval(model)
