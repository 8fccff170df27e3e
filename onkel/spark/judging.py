"""Some rows of one key and its model: judge each before it is learned, and say what came of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.alerting import RecentScores
from onkel.clock import is_duration

Array = NDArray[Any]
Columns = dict[str, Any]


@dataclass
class Rows:
    """Rows of one key, in the order in which they are learned."""

    X: Array
    """Features: numbers, or (where rows differ in length) an array of arrays."""
    y: Array | None
    """Targets."""
    known: Array
    """Which rows have a target."""
    time: Array
    """Seconds."""

    def part(self, which: Any) -> Rows:
        """Return some of them."""
        y = None if self.y is None else self.y[which]
        return Rows(self.X[which], y, self.known[which], self.time[which])

    def stretches(self) -> Iterator[slice]:
        """Yield runs of rows with, and without, a target: what a model takes in one call."""
        edges = (np.flatnonzero(np.diff(self.known)) + 1).tolist()
        for start, stop in pairwise([0, *edges, len(self)]):
            if stop > start:
                yield slice(start, stop)

    def numbers(self) -> Array:
        """Return the features as numbers; rows of different lengths are an error."""
        return self.X if self.X.ndim == 2 else np.stack(list(self.X))

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class Judge:
    """What a task's rows are asked.

    Parameters
    ----------
    names : list of str, optional
        Of the features, for explanations.
    by_clock : bool
        Whether the model forgets by the clock, so that it must be told the times.
    explain : int
        How many alerts of a key and batch are explained, the worst first.
    """

    names: list[str] | None = None
    by_clock: bool = False
    explain: int = 0

    def fields(self) -> dict[str, str]:
        """Return the output's columns and their types; "target" is the type of the target."""
        raise NotImplementedError

    def __call__(self, model: Any, rows: Rows) -> Columns:
        """Judge and learn."""
        raise NotImplementedError

    def learned(self, rows: Rows) -> int:
        """Return how many of these rows are learned."""
        return int(np.count_nonzero(rows.known))

    def _given(self, model: Any, rows: Rows) -> Any:
        """Return features as a model takes them: with names, the first time."""
        X = rows.numbers()
        if self.names is None or model.__sklearn_is_fitted__():
            return X
        import pandas as pd

        return pd.DataFrame(X, columns=self.names)

    def _when(self, rows: Rows) -> dict[str, Any]:
        return {"time": rows.time} if self.by_clock else {}


class Detect(Judge):
    """Alerts, with scores, thresholds, ranks and explanations."""

    def fields(self) -> dict[str, str]:
        """Return the output's columns and their types."""
        numbers = dict.fromkeys(("score", "threshold", "rank"), "double")
        return {**numbers, "alert": "boolean"} | ({"why": "string"} if self.explain else {})

    def learned(self, rows: Rows) -> int:
        """Return how many of these rows are learned: all."""
        return len(rows)

    def __call__(self, model: Any, rows: Rows) -> Columns:
        """Judge and learn; alerts are explained by the model before these rows."""
        begun = model.__sklearn_is_fitted__()
        recent = model._begun().recent_.copy() if begun else None
        before = copy.copy(model) if begun and self.explain else None
        X = self._given(model, rows)
        judged = model.predict_then_learn(X, output="judgement", **self._when(rows))
        try:
            return self._told(before, recent or _no_scores(model), rows, judged)
        except ValueError as error:  # the rows are learned: it must not pass for a refusal of them
            raise RuntimeError(f"rows were learned, but not told of: {error}") from error

    def _told(self, before: Any, recent: RecentScores, rows: Rows, judged: Array) -> Columns:
        score, limit, alert = judged.T
        columns: Columns = {"score": score, "threshold": limit, "rank": recent.update(score)}
        columns["alert"] = alert > 0
        return columns | ({"why": self._why(before, rows, columns)} if self.explain else {})

    def _why(self, before: Any, rows: Rows, found: Columns) -> list[str | None]:
        why: list[str | None] = [None] * len(rows)
        at = np.flatnonzero(found["alert"])
        worst = at[np.argsort((found["score"] - found["threshold"])[at], kind="stable")]
        for i in worst[: self.explain].tolist() if before is not None else []:
            seen = {n: float(found[n][i]) for n in ("score", "threshold", "rank")}
            told = before.explain(rows.X[i])
            why[i] = replace(told, **seen, alert=True, warming=False).sentence
        return why


def _no_scores(model: Any) -> RecentScores:
    return RecentScores(model._begun().recent_.size)


class Supervised(Judge):
    """Targets: rows without one are predicted, not learned."""

    def __call__(self, model: Any, rows: Rows) -> Columns:
        """Judge rows that all have a target, or all have none; a new model says nothing."""
        assert rows.y is not None
        if rows.known[0]:
            return {**self._columns(self._learn(model, rows)), "target": rows.y.tolist()}
        begun = model.__sklearn_is_fitted__()
        found = self._look(model, rows) if begun else [None] * len(rows)
        return self._columns(found)

    def _learn(self, model: Any, rows: Rows) -> list[Any]:
        return model.predict_then_learn(
            self._given(model, rows), rows.y, **self._when(rows)
        ).tolist()

    def _look(self, model: Any, rows: Rows) -> list[Any]:
        return model.predict(rows.numbers()).tolist()

    def _columns(self, found: list[Any]) -> Columns:
        return {"prediction": found}


class Classify(Supervised):
    """Labels."""

    def fields(self) -> dict[str, str]:
        """Return the output's columns and their types."""
        return {"prediction": "target", "target": "target"}


class Regress(Supervised):
    """Numbers."""

    def fields(self) -> dict[str, str]:
        """Return the output's columns and their types."""
        return {"prediction": "double", "target": "target"}


class Intervals(Regress):
    """Numbers, with intervals."""

    def fields(self) -> dict[str, str]:
        """Return the output's columns and their types."""
        return {**dict.fromkeys(("prediction", "low", "high"), "double"), "target": "target"}

    def _learn(self, model: Any, rows: Rows) -> list[Any]:
        X = self._given(model, rows)
        return _with_middle(
            *model.predict_then_learn(X, rows.y, output="interval", **self._when(rows))
        )

    def _look(self, model: Any, rows: Rows) -> list[Any]:
        return _with_middle(*model.predict_interval(rows.numbers()))

    def _columns(self, found: list[Any]) -> Columns:
        whole = [(None, None, None) if v is None else v for v in found]
        return dict(zip(("prediction", "low", "high"), map(list, zip(*whole, strict=True)),
                        strict=True))  # fmt: skip


def _with_middle(low: Array, high: Array) -> list[tuple[float, float, float]]:
    """Return prediction, low and high: intervals lie evenly around predictions."""
    middle = low + (high - low) / 2
    return list(zip(middle.tolist(), low.tolist(), high.tolist(), strict=True))


def judge_of(model: Any, names: list[str] | None, explain: int) -> Judge:
    """Return what judges rows for a model."""
    settings = None if type(model).__name__ == "Hedged" else model._settings()
    by_clock = is_duration(getattr(getattr(settings, "rule", None), "memory", None))
    kinds: dict[str, type[Judge]] = {
        "novelty": Detect, "classification": Classify, "regression": Regress,
    }  # fmt: skip
    kind = kinds[model.task]
    if kind is Regress and getattr(getattr(settings, "loss", None), "nu", None) is not None:
        kind = Intervals
    return kind(names if explain else None, by_clock, explain)
