"""KernelClassifier and LinearClassifier as River's classifiers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from river import base

from onkel import estimators
from onkel.estimators import inside
from onkel.estimators.base import Estimator
from onkel.river import frames
from onkel.river.base import Face, alone


class Labels(Face, base.MiniBatchClassifier):
    """What River's faces of classifiers share: labels of any kind, classes that may appear late."""

    _name: Any = None
    """Of the labels, as the last series of labels had it."""

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one example, its step multiplied by the weight w; t: when it came."""
        self._learn_one(x, y, w, t)

    def predict_one(self, x: Any) -> Any:
        """Predict the label of one example; None before any class is known."""
        label = self._ask(x, _label)
        return label.item() if isinstance(label, np.generic) else label

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return the probability of each class known so far."""
        return self._ask(x, inside.chances_of)

    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn the rows of a data frame (or the texts of a series), in order."""
        self._learn_many(X, frames.values(y), w, t)
        self._name = frames.name_of(y)

    @alone
    def predict_many(self, X: Any) -> Any:
        """Predict the label of each row."""
        rows = self._rows(X)
        found = self.estimator.predict(rows) if self._ready else [None] * len(rows)
        return frames.series(found, self._name, like=X)

    @alone
    def predict_proba_many(self, X: Any) -> Any:
        """Return the probability of each class for each row."""
        rows = self._rows(X)
        if not self._ready:
            return frames.frame({}, like=X)
        chances = self.estimator.predict_proba(rows)
        labels = self.estimator.classes_.tolist()
        return frames.frame(dict(zip(labels, chances.T, strict=True)), like=X)


def _label(model: Any, row: Any) -> Any:
    return model.predict_one(row)


class KernelClassifier(Labels):
    """Online kernel classification for River, of any labels; classes may appear late.

    ``f <- (1 - eta lam) f + eta sigma y k(x, .)``, sigma = [y (f(x) + b) <= margin]

    Parameters
    ----------
    kernel, loss, rule, expansion, scale, fit_intercept, average, class_weight, n_jobs
        As in :class:`onkel.KernelClassifier`.
    absent : "mean" or "zero"
        What a known feature is taken for where an example lacks it: its running mean, or 0.
    columns : dict or Columns, optional
        What features are ("number", "category", "boolean", "time", "text", "ignore"), where the
        first example does not tell; it may name some that come later.
    on : str, optional
        With a string kernel: the name of the text in an example.

    Examples
    --------
    >>> from river import evaluate, metrics
    >>> from river.datasets import synth
    >>> stream = synth.Friedman(seed=1).take(2000)
    >>> stream = ((x, "high" if y > 14 else "low") for x, y in stream)
    >>> metric = evaluate.progressive_val_score(stream, KernelClassifier(), metrics.Accuracy())
    >>> round(metric.get(), 1)
    0.8
    """

    _wrapped: ClassVar[type[Estimator]] = estimators.KernelClassifier

    def __init__(
        self,
        kernel: Any = "gaussian",
        loss: Any = "soft_margin",
        rule: Any = "norma",
        expansion: Any = "window",
        *,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        average: bool = False,
        class_weight: Any = None,
        n_jobs: int | None = None,
        absent: str = "mean",
        columns: Any = None,
        on: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.rule = rule
        self.expansion = expansion
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.average = average
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.absent = absent
        self.columns = columns
        self.on = on
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"loss": "logistic", "absent": "zero"}


class LinearClassifier(Labels):
    """Online linear classification for River: O(features) per example.

    ``theta <- (1 - eta lam) theta + eta sigma y x``, sigma = [y (w . x + b) <= margin]

    Parameters
    ----------
    loss, rule, p, scale, fit_intercept, average, class_weight, n_jobs
        As in :class:`onkel.LinearClassifier`.
    absent : "mean" or "zero"
        What a known feature is taken for where an example lacks it: its running mean, or 0.
    columns : dict or Columns, optional
        What features are ("number", "category", "boolean", "time", "text", "ignore"), where the
        first example does not tell; it may name some that come later.

    Examples
    --------
    >>> model = LinearClassifier(loss="logistic")
    >>> for t in range(1000):
    ...     model.learn_one({"a": t % 7, "b": t % 5}, t % 7 > t % 5)
    >>> model.predict_one({"a": 6, "b": 1}), model.predict_proba_one({"a": 1, "b": 4})[True] < 0.1
    (True, True)
    """

    _wrapped: ClassVar[type[Estimator]] = estimators.LinearClassifier
    on = None

    def __init__(
        self,
        loss: Any = "soft_margin",
        rule: Any = "norma",
        *,
        p: float = 2.0,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        average: bool = False,
        class_weight: Any = None,
        n_jobs: int | None = None,
        absent: str = "mean",
        columns: Any = None,
    ) -> None:
        self.loss = loss
        self.rule = rule
        self.p = p
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.average = average
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.absent = absent
        self.columns = columns
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"loss": "logistic", "absent": "zero"}
