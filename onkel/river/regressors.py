"""KernelRegressor and LinearRegressor as River's regressors."""

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


class Numbers(Face, base.MiniBatchRegressor):
    """What River's faces of regressors share."""

    _name: Any = None
    """Of the target, as the last series of targets had it."""

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one example, its step multiplied by the weight w; t: when it came."""
        self._learn_one(x, y if y.__class__ is float else _target(y), w, t)

    def predict_one(self, x: Any, with_interval: bool = False) -> Any:
        """Predict one example; 0 before any.

        ``with_interval=True`` gives a ``river.conf.Interval``, with a model that has ``nu`` or
        ``rule="rls"``.
        """
        return self._ask(x, _interval) if with_interval else float(self._ask(x, _predict))

    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn the rows of a data frame (or the texts of a series), in order."""
        self._learn_many(X, [_target(v) for v in frames.values(y)], w, t)
        self._name = frames.name_of(y)

    @alone
    def predict_many(self, X: Any) -> Any:
        """Predict each row."""
        rows = self._rows(X)
        found = self.estimator.predict(rows) if self._ready else np.zeros(len(rows))
        return frames.series(found, self._name, like=X)


def _target(y: Any) -> float:
    try:
        return float(y)
    except (TypeError, ValueError):
        raise ValueError(
            f"y must be a number; got {y!r:.40} ({type(y).__name__}). The model was not changed."
        ) from None


def _predict(model: Any, row: Any) -> Any:
    return model.predict_one(row)


def _interval(model: Any, row: Any) -> Any:
    from river.conf.interval import Interval

    inside.check_interval(model)
    if not model.__sklearn_is_fitted__():
        return Interval(0.0, 0.0)
    low, high = model.predict_interval([row])
    return Interval(float(low[0]), float(high[0]))


class KernelRegressor(Numbers):
    """Online kernel regression for River.

    ``f <- (1 - eta lam) f - eta l'(f(x) + b, y) k(x, .)``

    Parameters
    ----------
    kernel, loss, rule, expansion, scale, fit_intercept, average, n_jobs
        As in :class:`onkel.KernelRegressor`.
    absent : "mean" or "zero"
        What a known feature is taken for where an example lacks it: its running mean, or 0.
    columns : dict or Columns, optional
        What features are ("number", "category", "boolean", "time", "text", "ignore"), where the
        first example does not tell; it may name some that come later.
    on : str, optional
        With a string kernel: the name of the text in an example.

    Examples
    --------
    >>> import math
    >>> model = KernelRegressor()
    >>> for t in range(2000):
    ...     model.learn_one({"phase": t % 7.0}, 10.0 + math.sin(t % 7.0))
    >>> abs(model.predict_one({"phase": 2.0}) - (10.0 + math.sin(2.0))) < 0.01
    True
    """

    _wrapped: ClassVar[type[Estimator]] = estimators.KernelRegressor

    def __init__(
        self,
        kernel: Any = "laplacian",
        loss: Any = "huber",
        rule: Any = "norma",
        expansion: Any = "window",
        *,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        average: bool = False,
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
        self.n_jobs = n_jobs
        self.absent = absent
        self.columns = columns
        self.on = on
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"kernel": "gaussian", "absent": "zero"}


class LinearRegressor(Numbers):
    """Online linear regression for River: O(features) per example.

    ``theta <- (1 - eta lam) theta - eta l'(w . x + b, y) x``

    Parameters
    ----------
    loss, rule, p, scale, fit_intercept, average, n_jobs
        As in :class:`onkel.LinearRegressor`.
    absent : "mean" or "zero"
        What a known feature is taken for where an example lacks it: its running mean, or 0.
    columns : dict or Columns, optional
        What features are ("number", "category", "boolean", "time", "text", "ignore"), where the
        first example does not tell; it may name some that come later.

    Examples
    --------
    >>> model = LinearRegressor()
    >>> for t in range(2000):
    ...     model.learn_one({"a": t % 7.0, "b": t % 5.0}, 3.0 * (t % 7.0) - t % 5.0)
    >>> round(model.predict_one({"a": 1.0, "b": 1.0}), 1)
    2.0
    """

    _wrapped: ClassVar[type[Estimator]] = estimators.LinearRegressor
    on = None

    def __init__(
        self,
        loss: Any = "huber",
        rule: Any = "norma",
        *,
        p: float = 2.0,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        average: bool = False,
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
        self.n_jobs = n_jobs
        self.absent = absent
        self.columns = columns
        self._begin()
