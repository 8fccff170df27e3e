"""One block and one model: judge each row before it is learned, and say what came of it.

A judge learns at once, and leaves what is only for the reader (counts, ranks, sentences) to a
function that it returns: that can run while the next block is learned.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.alerting import RecentScores
from onkel.app.run.counters import Counters
from onkel.app.run.precision import narrowed
from onkel.app.run.reasons import briefly
from onkel.app.run.settings import RunSettings
from onkel.scaling import Moments
from onkel.streams.sources import Block

Array = NDArray[Any]
Finish = Callable[[], dict[str, Any]]

FIRST_EXPLAINED, ROWS_EACH = 200, 50_000
"""With ``--explain auto``: the first 200 alerts are explained, then one for every 50 000 rows; of
the others it is said which numbers are far from their means."""


AT_ONCE = 2**18
"""Scores that are compared at once, to bound the memory."""


class Frame:
    """Rows with the names of their columns, as the estimators read them off a data frame."""

    def __init__(self, X: Array, names: list[str]) -> None:
        self._X, self.columns, self.dtypes = X, names, [X.dtype] * X.shape[1]

    def to_numpy(self) -> Array:
        """Return the numbers."""
        return self._X


class Judge:
    """What all tasks share.

    A judge returns a function that returns columns: one list or array per field of the output, a
    value per good row.
    """

    fields: tuple[str, ...]

    def __init__(self, settings: RunSettings, names: list[str], counters: Counters) -> None:
        self.settings, self.names, self.counters = settings, names, counters

    def rows(self, model: Any, X: Array) -> Any:
        """Return rows as the model takes them: with names, the first time."""
        X = narrowed(X) if self.settings.precision == "single" else X
        return X if hasattr(model, "_learner") else Frame(X, self.names)

    def times(self, block: Block) -> dict[str, Any]:
        """Return the times as an argument, where forgetting goes by the clock."""
        return {"time": block.time} if self.settings.by_clock else {}

    def __call__(self, model: Any, block: Block) -> Finish:
        """Judge, learn, count."""
        raise NotImplementedError

    def shown(self, columns: dict[str, Any]) -> Array:
        """Return which rows go to the output."""
        return np.ones(len(next(iter(columns.values()))), bool)

    def sums(self, columns: dict[str, Any]) -> dict[str, float]:
        """Return what the history adds up."""
        raise NotImplementedError


class Detect(Judge):
    """Alerts, with scores, thresholds, ranks and explanations."""

    fields = ("score", "threshold", "alert", "rank", "why")

    def __call__(self, model: Any, block: Block) -> Finish:
        """Judge rows and learn them; alerts are explained by the model before the block."""
        fresh = not hasattr(model, "_learner")
        t = 0 if fresh else model.t_
        recent = RecentScores(self.settings.recent) if fresh else model.recent_.copy()
        before = None if fresh or self._budget(block) < 1 else copy.copy(model)
        usual = None if fresh or self.settings.explain == "none" else model._learner.moments.copy()
        score, limit, judged = model.predict_then_learn(
            self.rows(model, block.X), output="judgement", **self.times(block)
        ).T
        alert = judged > 0
        alerts = int(np.count_nonzero(alert))
        due = 0 if before is None else int(min(self._budget(block), alerts))
        self.counters.explained += due  # at once: the next block's share depends on it
        warming = int(np.clip(self.settings.warmup - t, 0, len(score)))

        def finish() -> dict[str, Any]:
            self.counters.alerts += alerts
            self.counters.warming += warming
            return self._told(before, usual, recent, block, (score, limit, alert), due)

        return finish

    def _told(
        self, before: Any, usual: Moments | None, recent: RecentScores, block: Block,
        judged: tuple[Array, Array, Array], due: int,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the columns, with the ranks of alerts, and reasons: whole for the worst `due`."""
        score, limit, alert = judged
        at = np.flatnonzero(alert)
        rank = np.full(len(score), np.nan)
        rank[at] = ranks_at(recent, score, at)
        why: list[str | None] = [None] * len(score)
        X = narrowed(block.X) if self.settings.precision == "single" else block.X
        if usual is not None and usual.seen.any():
            said = briefly(X[at], usual.mean, usual.spread(), self.names)
            for i, text in zip(at.tolist(), said, strict=True):
                why[i] = text
        worst = at[np.argsort((score - limit)[at], kind="stable")]
        for i in worst[:due].tolist():
            found = before.explain(X[i])
            found = replace(
                found, score=float(score[i]), threshold=float(limit[i]), alert=True,
                warming=False, rank=float(rank[i]),
            )  # fmt: skip
            why[i] = found.sentence
        return {"score": score, "threshold": limit, "alert": alert, "rank": rank, "why": why}

    def _budget(self, block: Block) -> float:
        """Return how many explanations are due: a matter of row numbers, never of time."""
        wanted = self.settings.explain
        if wanted in ("all", "none"):
            return float("inf") if wanted == "all" else 0.0
        due = FIRST_EXPLAINED + (block.first + block.count) // ROWS_EACH
        return due - self.counters.explained

    def shown(self, columns: dict[str, Any]) -> Array:
        """Return which rows go to the output: alerts, unless everything was asked for."""
        alert: Array = columns["alert"]
        return np.ones(len(alert), bool) if self.settings.everything else alert

    def sums(self, columns: dict[str, Any]) -> dict[str, float]:
        """Return what the history adds up."""
        score, limit = columns["score"], columns["threshold"]
        return {
            "rows": len(score), "score": float(np.sum(score)),
            "threshold": float(np.sum(limit)), "alerts": int(np.sum(columns["alert"])),
        }  # fmt: skip


def ranks_at(recent: RecentScores, scores: Array, at: Array) -> Array:
    """Return the ranks of some of the scores among those before them.

    Examples
    --------
    >>> ranks_at(RecentScores(3), np.array([3.0, 1.0, 2.0]), np.array([2]))
    array([0.67])
    """
    known = recent.in_order()[-recent.size :]
    line = np.concatenate([np.full(recent.size - len(known), np.inf), known, scores])
    before = np.lib.stride_tricks.sliding_window_view(line, recent.size)
    step = max(AT_ONCE // recent.size, 1)
    parts = [at[i : i + step] for i in range(0, len(at), step)]
    lower = [np.count_nonzero(before[p] <= scores[p, None], axis=1) for p in parts]
    return (1.0 + np.concatenate([[], *lower])) / (1.0 + np.minimum(len(known) + at, recent.size))


class Supervised(Judge):
    """Targets: rows without one are predicted, not learned."""

    def runs(self, block: Block) -> list[tuple[slice, bool]]:
        """Return stretches of rows with, and without, a target."""
        edges = np.flatnonzero(np.diff(block.known)) + 1
        cuts = pairwise([0, *edges.tolist(), len(block.rows)])
        return [(slice(a, b), bool(block.known[a])) for a, b in cuts if b > a]

    def one_by_one(self, model: Any, block: Block, learn: Any, look: Any) -> list[Any]:
        """Judge stretch by stretch; a model that knows nothing yet says None."""
        found: list[Any] = []
        for part, known in self.runs(block):
            piece = block.part(part)
            if known:
                found += learn(self.rows(model, piece.X), piece.y, self.times(piece))
            elif hasattr(model, "_learner"):
                found += look(self.rows(model, piece.X))
            else:
                found += [None] * len(piece.rows)
        return found

    def targets(self, block: Block) -> list[Any]:
        """Return the targets, None where there is none."""
        assert block.y is not None
        pairs = zip(block.y.tolist(), block.known.tolist(), strict=True)
        return [y if known else None for y, known in pairs]


class Classify(Supervised):
    """Labels."""

    fields = ("prediction", "target")

    def __call__(self, model: Any, block: Block) -> Finish:
        """Predict and learn, and count mistakes; those of the last label repeated too."""
        found = self.one_by_one(
            model, block,
            lambda X, y, time: model.predict_then_learn(X, y, **time).tolist(),
            lambda X: model.predict(X).tolist(),
        )  # fmt: skip
        return lambda: self._counted(found, block)

    def _counted(self, found: list[Any], block: Block) -> dict[str, Any]:
        targets = self.targets(block)
        wrong = [p != y and y is not None for p, y in zip(found, targets, strict=True)]
        self.counters.mistakes += sum(wrong)
        if block.keys is None:
            self._repeat(targets)
        return {"prediction": found, "target": targets, "_wrong": wrong}

    def _repeat(self, targets: list[Any]) -> None:
        labels = [y for y in targets if y is not None]
        if labels:
            before = self.counters.last_label
            self.counters.unchanged += sum(a != b for a, b in pairwise([before, *labels]))
            self.counters.last_label = labels[-1]

    def sums(self, columns: dict[str, Any]) -> dict[str, float]:
        """Return what the history adds up."""
        known = sum(y is not None for y in columns["target"])
        return {"rows": known, "mistakes": sum(columns["_wrong"])}


class Regress(Supervised):
    """Numbers, with intervals where nu was given."""

    @property
    def fields(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of the output."""
        return ("prediction", "target") if self.settings.nu is None else (
            "prediction", "low", "high", "target",
        )  # fmt: skip

    def __call__(self, model: Any, block: Block) -> Finish:
        """Predict and learn, and count errors; with nu whether intervals held the target."""
        found = self.one_by_one(
            model, block,
            lambda X, y, time: self._learn(model, X, y, time), lambda X: self._look(model, X),
        )  # fmt: skip
        return lambda: self._counted(found, block)

    def _counted(self, found: list[Any], block: Block) -> dict[str, Any]:
        targets = self.targets(block)
        triples = [(None, None, None) if v is None else v for v in found]
        middle, low, high = (list(c) for c in zip(*triples, strict=True)) if triples else ([],) * 3
        pairs = zip(middle, targets, strict=True)
        error = [None if y is None else abs((m or 0.0) - y) for m, y in pairs]
        self.counters.absolute_error += float(sum(e for e in error if e is not None))
        self.counters.squared_error += float(sum(e * e for e in error if e is not None))
        inside = [
            y is not None and lo is not None and lo <= y <= hi
            for y, lo, hi in zip(targets, low, high, strict=True)
        ]
        self.counters.covered += sum(inside)
        columns = {"prediction": middle, "low": low, "high": high, "target": targets}
        return {n: columns[n] for n in self.fields} | {"_error": error, "_inside": inside}

    def _learn(self, model: Any, X: Any, y: Any, time: dict[str, Any]) -> list[Any]:
        if self.settings.nu is None:
            found = model.predict_then_learn(X, y, **time)
            return [(v, None, None) for v in found.tolist()]
        return _with_middle(*model.predict_then_learn(X, y, output="interval", **time))

    def _look(self, model: Any, X: Any) -> list[Any]:
        if self.settings.nu is None:
            return [(v, None, None) for v in model.predict(X).tolist()]
        return _with_middle(*model.predict_interval(X))

    def sums(self, columns: dict[str, Any]) -> dict[str, float]:
        """Return what the history adds up."""
        error = [e for e in columns["_error"] if e is not None]
        return {
            "rows": len(error), "error": float(sum(error)), "covered": sum(columns["_inside"]),
        }  # fmt: skip


def _with_middle(low: Array, high: Array) -> list[tuple[float, float, float]]:
    """Return prediction, low and high: intervals lie evenly around predictions."""
    middle = low + (high - low) / 2
    return list(zip(middle.tolist(), low.tolist(), high.tolist(), strict=True))


JUDGES: dict[str, type[Judge]] = {"detect": Detect, "classify": Classify, "regress": Regress}
