"""One block and one model: what the command counts of it, and which columns it writes.

The rows are judged, and learned, at once; what is only for the reader (counts, ranks, sentences)
is left to a function that is returned: that can run while the next block is learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.run.counters import Counters, member
from onkel.app.run.precision import narrowed
from onkel.app.run.series import names_of, parted
from onkel.app.run.settings import RunSettings
from onkel.app.run.tables import plan_of
from onkel.columns import Encoded
from onkel.fleet.ranking import Ranking
from onkel.judge import Columns, Detect, Halted, Judge, Rows, judge_of
from onkel.streams.sources import Block, Schema

Array = NDArray[Any]
Finish = Callable[[], Columns]

FIRST_EXPLAINED, FIRST_OF_KEY = 200, 3
"""With ``--explain auto``: so many alerts of a model (of each key's) are explained, and then every
500th; of the others it is said in a few words what is far from its mean."""


class Counting:
    """What all tasks share; called with a model and a block it returns a function.

    That function counts, and returns columns: one list or array per field of the output, a value
    per good row.
    """

    def __init__(self, settings: RunSettings, schema: Schema, counters: Counters) -> None:
        self.settings, self.counters, self.names = settings, counters, schema.features
        self.plan = plan_of(settings, schema)
        """Of a table; None where all features are numbers."""
        brief, seen = settings.explain != "none", names_of(settings, schema.features)
        self.judge: Judge = judge_of(settings.estimator(), seen, brief=brief, rank_all=False)
        self._weights: dict[str, float] = {}
        """Of a self-tuning model's members, over the rows of this block."""
        self.ranking = Ranking()
        """How the keys are doing, where there are some."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of the output."""
        return tuple(self.judge.fields())

    def __call__(self, model: Any, block: Block) -> Finish:
        """Judge and learn; what is returned counts.

        A row that is refused raises :class:`~onkel.inputs.RefusedRow`. If rows before it were
        learned (:class:`~onkel.judge.Halted`), its ``found`` is what counts those.
        """
        estimator, lags = parted(model)
        ahead = None if lags is None else lags.copy()
        try:
            found = self.judged(estimator, self.seen(ahead, block), block)
        except Halted as error:
            before = block.part(slice(0, error.learned))
            self.seen(lags, before)
            error.found = self.finishing(estimator, error.found, before)
            raise
        if ahead is not None:
            model.lags = ahead
        return self.finishing(estimator, found, block)

    def seen(self, lags: Any | None, block: Block) -> Rows:
        """Return the rows that an estimator sees of a block, in the run's precision."""
        X: Any = block.X if lags is None else lags.transform_then_learn(block.X, time=block.time)
        if self.plan is not None:
            X = self.plan.encode(block.raw(self.names))
        if self.settings.precision == "single":
            X = replace(X, X=narrowed(X.X)) if isinstance(X, Encoded) else narrowed(X)
        return Rows(X, block.y, block.known, block.time)

    def judged(self, model: Any, rows: Rows, block: Block) -> Any:
        """Judge rows and learn them."""
        return self.judge(model, rows)

    def finishing(self, model: Any, found: Any, block: Block) -> Finish:
        """Return what counts; what depends on the model is taken of it now."""
        weights = self._weighed(model)

        def finish() -> Columns:
            self._weigh(weights, len(block.rows))
            return self.counted(found.columns(), block)

        return finish

    def _weighed(self, model: Any) -> list[float]:
        """Return the weights of a self-tuning model's members now; of others nothing."""
        if not (self.settings.tunes_itself and model.__sklearn_is_fitted__()):
            return []
        if not self.counters.members:
            self.counters.members = model.diagnostics_["names"]
        weights: list[float] = model.weights_.tolist()
        return weights

    def _weigh(self, weights: list[float], rows: int) -> None:
        """Add up weights over rows: those of several models, too, where there are keys."""
        self.counters.weighing = weights or self.counters.weighing
        for i, weight in enumerate(weights):
            name = member(i)
            self._weights[name] = round(self._weights.get(name, 0.0) + weight * rows, 3)

    def counted(self, columns: Columns, block: Block) -> Columns:
        """Count what came of a block, and add the columns that the history sums up."""
        raise NotImplementedError

    def rank(self, keys: list[str], columns: Columns) -> None:
        """Note how the keys of a block's rows are doing."""
        raise NotImplementedError

    def shown(self, columns: Columns) -> Array:
        """Return which rows go to the output."""
        return np.ones(len(next(iter(columns.values()))), bool)

    def sums(self, columns: Columns) -> dict[str, Any]:
        """Return what the history adds up, row by row."""
        raise NotImplementedError

    def weights(self) -> dict[str, float]:
        """Return the members' weights after the block, times its rows, as the history adds up."""
        found, self._weights = self._weights, {}
        return found


class Alerts(Counting):
    """Of a detector."""

    judge: Detect

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of the output."""
        return (
            *(("p",) if self.judge.rarity else ()),
            "score",
            "threshold",
            "alert",
            "alert_id",
            "rank",
            "incident",
            *(("held_back",) if self.settings.cool_down and self.settings.everything else ()),
            "why",
        )

    def judged(self, model: Any, rows: Rows, block: Block) -> Any:
        """Judge rows and learn them; alerts are explained by the model just before them."""
        return self.judge(model, rows, self._first(block))

    def finishing(self, model: Any, found: Any, block: Block) -> Finish:
        """Return what counts; which rows were of the warm-up is known now."""
        before = model.t_ - len(block.rows)
        warming = int(np.clip(model.warmup_ - before, 0, len(block.rows)))

        wider = block.keys is None and self.judge.names != self.names
        seen = {"seen": found.rows.X} if wider else {}  # incidents know a series as it is judged

        def finish() -> Columns:
            self.counters.warming += warming
            shown = np.arange(len(block.rows)) >= warming
            columns = self.counted(found.columns(), block)
            ages = before + np.arange(len(block.rows))
            return {**columns, "alert_id": alert_ids(columns["alert"], ages, block.keys),
                    "own": found.own, "shown": shown, **seen}  # fmt: skip

        return finish

    def counted(self, columns: Columns, block: Block) -> Columns:
        """Count alerts."""
        self.counters.alerts += int(np.count_nonzero(columns["alert"]))
        return {"why": [None] * len(block.rows), **columns}

    def rank(self, keys: list[str], columns: Columns) -> None:
        """Note how the keys of a block's rows are doing."""
        rare = columns["p"] if self.judge.rarity else np.full(len(keys), np.nan)
        self.ranking.update(keys, np.asarray(rare, float), np.asarray(columns["alert"], bool))

    def _first(self, block: Block) -> float:
        """Return how many of a model's alerts are explained: never a matter of blocks or time."""
        wanted = self.settings.explain
        if wanted in ("all", "none"):
            return float("inf") if wanted == "all" else 0.0
        return FIRST_EXPLAINED if block.keys is None else FIRST_OF_KEY

    def shown(self, columns: Columns) -> Array:
        """Return which rows go to the output: alerts, unless everything was asked for."""
        alert = np.asarray(columns["alert"], bool) & ~columns["held_back"]
        return np.ones(len(alert), bool) if self.settings.everything else alert

    def sums(self, columns: Columns) -> dict[str, Any]:
        """Return what the history adds up, row by row."""
        score = np.asarray(columns["score"], float)
        return {
            "rows": 1.0, "score": score, "threshold": columns["threshold"], "low": score,
            "high": score, "alerts": columns["alert"], "shown": columns["shown"],
        }  # fmt: skip


def alert_ids(alert: Array, ages: Array, keys: list[str] | None) -> list[str | None]:
    """Return the id of each alert: the rows that its model had learned before; of keys "KEY:n".

    Examples
    --------
    >>> alert_ids(np.array([True, False]), np.array([7, 8]), None)
    ['7', None]
    >>> alert_ids(np.array([True]), np.array([7]), ["pump"])
    ['pump:7']
    """
    found: list[str | None] = [None] * len(alert)
    for i in np.flatnonzero(alert).tolist():
        found[i] = str(int(ages[i])) if keys is None else f"{keys[i]}:{int(ages[i])}"
    return found


class Mistakes(Counting):
    """Of a classifier."""

    def counted(self, columns: Columns, block: Block) -> Columns:
        """Count mistakes; those of the last label repeated, too."""
        targets = columns["target"]
        pairs = zip(columns["prediction"], targets, strict=True)
        wrong = [p != y and y is not None for p, y in pairs]
        self.counters.mistakes += sum(wrong)
        if block.keys is None:
            self._repeat(targets)
        self.counters.labels.add(columns["prediction"], columns["probability"], targets)
        return {**columns, "wrong": wrong}

    def _repeat(self, targets: list[Any]) -> None:
        labels = [y for y in targets if y is not None]
        if labels:
            before = self.counters.last_label
            self.counters.unchanged += sum(a != b for a, b in pairwise([before, *labels]))
            self.counters.last_label = labels[-1]

    def sums(self, columns: Columns) -> dict[str, Any]:
        """Return what the history adds up, row by row."""
        known = [y is not None for y in columns["target"]]
        return {"rows": known, "mistakes": columns["wrong"]}

    def rank(self, keys: list[str], columns: Columns) -> None:
        """Note how the keys of a block's rows are doing; rows without a label do not count."""
        known = np.array([y is not None for y in columns["target"]], bool)
        wrong = np.array(columns["wrong"], bool)
        self.ranking.update(keys, np.full(len(keys), np.nan), wrong, counts=known)


class Errors(Counting):
    """Of a regressor."""

    def counted(self, columns: Columns, block: Block) -> Columns:
        """Count errors; of intervals, whether they held the target."""
        targets = columns["target"]
        pairs = zip(columns["prediction"], targets, strict=True)
        error = [None if y is None else abs((m or 0.0) - y) for m, y in pairs]
        self.counters.absolute_error += float(sum(e for e in error if e is not None))
        self.counters.squared_error += float(sum(e * e for e in error if e is not None))
        inside = [False] * len(targets)
        if "low" in columns:
            triples = zip(targets, columns["low"], columns["high"], strict=True)
            inside = [y is not None and lo is not None and lo <= y <= hi for y, lo, hi in triples]
        self.counters.covered += sum(inside)
        return {**columns, "error": error, "inside": inside}

    def sums(self, columns: Columns) -> dict[str, Any]:
        """Return what the history adds up, row by row."""
        known = [e is not None for e in columns["error"]]
        error = [e or 0.0 for e in columns["error"]]
        return {"rows": known, "error": error, "covered": columns["inside"]}

    def rank(self, keys: list[str], columns: Columns) -> None:
        """Note how the keys of a block's rows are doing; rows without a target do not count."""
        known = np.array([e is not None for e in columns["error"]], bool)
        error = np.array([e or 0.0 for e in columns["error"]], float)
        outside = known & ~np.array(columns["inside"], bool)
        nothing = np.full(len(keys), np.nan)
        self.ranking.update(keys, nothing, outside, error=error, counts=known)


COUNTINGS: dict[str, type[Counting]] = {"detect": Alerts, "classify": Mistakes, "regress": Errors}
