"""Detectors as River's anomaly detectors: the higher a score, the stranger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from river import base

from onkel import estimators
from onkel.core.layout import Field
from onkel.estimators import inside
from onkel.estimators.base import Estimator
from onkel.river import frames
from onkel.river.base import Face, Rest, alone


class Anomalies(Face, base.AnomalyDetector):
    """What River's faces of detectors share."""

    def learn_one(self, x: Any, t: Any = None) -> None:
        """Learn one example; t: when it came."""
        self._learn_one(x, None, t=t)

    def learn_many(self, X: Any, t: Any = None) -> None:
        """Learn the rows of a data frame (or the texts of a series), in order."""
        self._learn_many(X, [None] * len(X), t=t)

    @alone
    def score_one(self, x: Any) -> float:
        """Return the anomaly score of one example, between 0 and 1; the higher, the stranger."""
        f = self._ask(x, _f)
        return _score(f, self._middle()) if self._warm else 0.0

    def alert_one(self, x: Any) -> bool:
        """Return whether one example is an alert: true for the fraction nu of a stream."""
        return self._ask(x, _alert)

    @property
    def _warm(self) -> bool:
        """Whether any example can be strange yet."""
        raise NotImplementedError

    def _middle(self) -> float:
        """Return c, where the score is 1/2."""
        raise NotImplementedError

    @alone
    def score_many(self, X: Any) -> Any:
        """Return the anomaly score of each row."""
        rows = self._rows(X)
        if not self._warm:
            return frames.series([0.0] * len(rows), None, like=X)
        f, c = self.estimator.score_samples(rows), self._middle()
        return frames.series([_score(v, c) for v in f.tolist()], None, like=X)

    def _fit_rows(self, model: Any, rows: Any, rest: Rest) -> None:
        model.partial_fit(rows, sample_weight=rest.weight, time=rest.time)


class Detector(Anomalies):
    """Self-tuning novelty detection for River: how rare an example is, and alerts on the rarest.

    ``score = log p / (log p + log level)``: 1/2 at the level of an alert, near 1 for the rarest

    Parameters
    ----------
    nu, precision, memory_of_feedback, alerts_kept, memory, terms, warmup, recent, seed
        As in :class:`onkel.Detector`.
    absent : "mean" or "zero"
        What a known feature is taken for where an example lacks it: its running mean, or 0.
    columns : dict or Columns, optional
        What features are ("number", "category", "boolean", "time", "text", "ignore"), where the
        first example does not tell; it may name some that come later.

    Examples
    --------
    >>> import random
    >>> rng = random.Random(0)
    >>> model = Detector(nu=0.01)
    >>> for _ in range(1000):
    ...     model.learn_one({"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)})
    >>> model.score_one({"a": 0, "b": 0}) < 0.5 < model.score_one({"a": 6, "b": 6})
    True
    >>> model.p_one({"a": 6, "b": 6}) < 1e-3
    True
    """

    _wrapped: ClassVar[type[Estimator]] = estimators.Detector
    on = None

    def __init__(
        self,
        nu: float | None = 0.01,
        *,
        precision: float | None = None,
        memory_of_feedback: float = 100_000,
        alerts_kept: int = 1000,
        memory: float = 10_000,
        terms: int = 1000,
        warmup: int | None = None,
        recent: int = 1000,
        seed: int = 0,
        absent: str = "mean",
        columns: Any = None,
    ) -> None:
        self.nu = nu
        self.precision = precision
        self.memory_of_feedback = memory_of_feedback
        self.alerts_kept = alerts_kept
        self.memory = memory
        self.terms = terms
        self.warmup = warmup
        self.recent = recent
        self.seed = seed
        self.absent = absent
        self.columns = columns
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"nu": 0.2, "absent": "zero"}

    def p_one(self, x: Any) -> float:
        """Return how rare one example is: usual ones as unusual come once in 1/p."""
        return float(np.exp(self._ask(x, _f)))

    @alone
    def feedback(self, id: Any, answer: str) -> None:
        """Say what an alert was, "usual" or "fault": see :meth:`onkel.Detector.feedback`.

        Its id is the number of examples that had been learned before it; ``estimator.alerts_``
        lists those that can be answered.
        """
        self.estimator.feedback(id, answer)

    @property
    def _warm(self) -> bool:
        return self._ready

    def _middle(self) -> float:
        return float(self.estimator.threshold_)


class NoveltyDetector(Anomalies):
    """Online novelty detection for River: scores near 1 for what is like nothing before.

    ``score = c / (c + f(x))``, c the number below which f learns from an example

    Usual examples score about 1/2 and less. Scores rank; alerts at the promised rate nu are
    another matter: :meth:`alert_one`.

    Parameters
    ----------
    nu, support, kernel, rule, expansion, scale, fit_intercept, average, learn_alerts, recent
        As in :class:`onkel.NoveltyDetector`.
    warmup : int
        No example is strange (a score of 0, no alert) before so many have been learned.
    absent : "mean" or "zero"
        What a known feature is taken for where an example lacks it: its running mean, or 0.
    columns : dict or Columns, optional
        What features are ("number", "category", "boolean", "time", "text", "ignore"), where the
        first example does not tell; it may name some that come later.
    on : str, optional
        With a string kernel: the name of the text in an example.
    n_jobs : int, optional
        Threads; -1 for all cores.

    Examples
    --------
    >>> import random
    >>> rng = random.Random(0)
    >>> model = NoveltyDetector(nu=0.05)
    >>> for _ in range(1000):
    ...     model.learn_one({"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)})
    >>> round(model.score_one({"a": 0, "b": 0}), 1), round(model.score_one({"a": 6, "b": 6}), 1)
    (0.5, 1.0)
    """

    _wrapped: ClassVar[type[Estimator]] = estimators.NoveltyDetector

    def __init__(
        self,
        nu: float = 0.05,
        support: float | None = None,
        kernel: Any = "gaussian",
        rule: Any = "norma",
        expansion: Any = "window",
        *,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        average: bool = False,
        learn_alerts: bool = True,
        warmup: int = 100,
        recent: int = 1000,
        n_jobs: int | None = None,
        absent: str = "mean",
        columns: Any = None,
        on: str | None = None,
    ) -> None:
        self.nu = nu
        self.support = support
        self.kernel = kernel
        self.rule = rule
        self.expansion = expansion
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.average = average
        self.learn_alerts = learn_alerts
        self.warmup = warmup
        self.recent = recent
        self.n_jobs = n_jobs
        self.absent = absent
        self.columns = columns
        self.on = on
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"nu": 0.2, "absent": "zero"}

    @property
    def _warm(self) -> bool:
        return self._ready and self.estimator.t_ >= self.warmup

    def _middle(self) -> float:
        """Return c, where the score is 1/2."""
        learner = inside.learner_of(self.estimator)
        if learner.settings.average:  # of f's own number there is no average
            return float(self.estimator.threshold_)
        return float(learner.state[0, Field.THRESHOLD])


def _f(model: Any, row: Any) -> float:
    f: float = model.score_one(row)
    return f


def _alert(model: Any, row: Any) -> bool:
    return bool(model.predict_one(row) == -1)


def _score(f: float, c: float) -> float:
    """Return c / (c + f); 1 below and 0 above where only one is positive (f may be negative).

    Examples
    --------
    >>> _score(0.0, 2.0), _score(2.0, 2.0), _score(6.0, 2.0), _score(-1.0, 2.0), _score(0.0, 0.0)
    (1.0, 0.5, 0.25, 1.0, 0.0)
    """
    if f >= 0.0:
        return c / (c + f) if c > 0.0 else 0.0
    return 1.0 if c > 0.0 else f / (f + c)
