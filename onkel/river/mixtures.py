"""The self-tuning estimators as River's: Classifier and Regressor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from onkel import estimators
from onkel.estimators.base import Estimator
from onkel.river.classifiers import Labels
from onkel.river.regressors import Numbers


class Classifier(Labels):
    """Self-tuning classification for River: a bank of settings, of which none need be chosen.

    ``p(y | x) = sum of w_i p_i(y | x)``, the weights moved by how well each member has predicted

    Parameters
    ----------
    members, share, memory, relevance, n_jobs
        As in :class:`onkel.Classifier`. The widths of the default bank follow the number of
        features, also while that grows.
    absent : "mean" or "zero"
        What a known feature is taken for where an example lacks it: its running mean, or 0.
    columns : dict or Columns, optional
        What features are ("number", "category", "boolean", "time", "text", "ignore"), where the
        first example does not tell; it may name some that come later.
    on : str, optional
        With members that take texts: the name of the text in an example.

    Examples
    --------
    >>> from river import evaluate, metrics
    >>> from river.datasets import synth
    >>> stream = synth.Friedman(seed=1).take(1000)
    >>> stream = ((x, "high" if y > 14 else "low") for x, y in stream)
    >>> metric = evaluate.progressive_val_score(stream, Classifier(), metrics.Accuracy())
    >>> metric.get() > 0.8
    True
    """

    _wrapped: ClassVar[type[Estimator]] = estimators.Classifier

    def __init__(
        self,
        members: Any = None,
        *,
        share: float = 0.001,
        memory: float | str | None = None,
        relevance: bool = True,
        n_jobs: int | None = None,
        absent: str = "mean",
        columns: Any = None,
        on: str | None = None,
    ) -> None:
        self.members = members
        self.share = share
        self.memory = memory
        self.relevance = relevance
        self.n_jobs = n_jobs
        self.absent = absent
        self.columns = columns
        self.on = on
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"memory": 500, "absent": "zero"}


class Regressor(Numbers):
    """Self-tuning regression for River: a bank of settings, of which none need be chosen.

    ``prediction = sum of w_i prediction_i``, the weights moved by how far off each member was

    Parameters
    ----------
    members, nu, share, rate, memory, relevance, n_jobs
        As in :class:`onkel.Regressor`: ``predict_one(x, with_interval=True)`` gives an interval
        that holds the share 1 - nu of the targets.
    absent : "mean" or "zero"
        What a known feature is taken for where an example lacks it: its running mean, or 0.
    columns : dict or Columns, optional
        What features are ("number", "category", "boolean", "time", "text", "ignore"), where the
        first example does not tell; it may name some that come later.
    on : str, optional
        With members that take texts: the name of the text in an example.

    Examples
    --------
    >>> import math
    >>> model = Regressor()
    >>> for t in range(1000):
    ...     model.learn_one({"phase": t % 7.0}, 10.0 + math.sin(t % 7.0))
    >>> abs(model.predict_one({"phase": 2.0}) - (10.0 + math.sin(2.0))) < 0.05
    True
    """

    _wrapped: ClassVar[type[Estimator]] = estimators.Regressor

    def __init__(
        self,
        members: Any = None,
        *,
        nu: float = 0.1,
        share: float = 0.005,
        rate: float | None = None,
        memory: float | str | None = None,
        relevance: bool = True,
        n_jobs: int | None = None,
        absent: str = "mean",
        columns: Any = None,
        on: str | None = None,
    ) -> None:
        self.members = members
        self.nu = nu
        self.share = share
        self.rate = rate
        self.memory = memory
        self.relevance = relevance
        self.n_jobs = n_jobs
        self.absent = absent
        self.columns = columns
        self.on = on
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"memory": 500, "absent": "zero"}
