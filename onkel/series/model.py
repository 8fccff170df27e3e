"""A series and its estimator as one model: values in, answers out, both in one file."""

from __future__ import annotations

import copy
import os
from typing import Any, Self

from onkel.estimators.locks import Locked, locked
from onkel.series.lags import Lags


class Series(Locked):
    """An estimator that is told of shapes and seasons: a :class:`Lags` before it.

    Rows are made wider, and the estimator sees those. A call is taken whole by both, or by neither
    if it is refused.

    Parameters
    ----------
    estimator : estimator
        Any of the package's; :attr:`estimator` has all that it offers, for wide rows.
    lags : Lags, optional
        What makes rows wider; ``Lags()`` unless told.

    Examples
    --------
    >>> import numpy as np
    >>> from onkel import Detector
    >>> values = np.random.default_rng(0).normal(size=(500, 1))
    >>> model = Series(Detector(), Lags())
    >>> model.predict_then_learn(values).shape, model.estimator.n_features_in_
    ((500,), 3)
    """

    def __init__(self, estimator: Any, lags: Lags | None = None) -> None:
        self.estimator = estimator
        self.lags = Lags() if lags is None else lags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return estimator and lags; if `deep`, with what is set inside them."""
        params: dict[str, Any] = {"estimator": self.estimator, "lags": self.lags}
        for name, part in list(params.items()) if deep else []:
            params |= {f"{name}__{n}": v for n, v in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``lags__season="day"`` reaches inside."""
        parts = self.get_params(deep=False)
        for name, value in params.items():
            part, _, inner = name.partition("__")
            if part not in parts:
                raise ValueError(
                    f"Invalid parameter {part!r} for Series. Valid parameters are: "
                    f"{sorted(parts)!r}."
                )
            if inner:
                getattr(self, part).set_params(**{inner: value})
            else:
                setattr(self, part, value)
        return self

    def __repr__(self) -> str:
        return f"Series({self.estimator!r}, {self.lags!r})"

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the series has begun."""
        return self.lags.__sklearn_is_fitted__()

    @locked
    def __copy__(self) -> Self:
        return type(self)(copy.copy(self.estimator), self.lags.copy())

    def _how(self, time: Any) -> dict[str, Any]:
        """Return what the estimator must be told of the time: nothing, unless it forgets by it."""
        return {"time": time} if self.estimator.forgets_by_clock() else {}

    @locked
    def predict_then_learn(self, X: Any, y: Any = None, time: Any = None, **how: Any) -> Any:
        """Judge each row before it is learned, as the estimator's ``predict_then_learn`` does.

        Parameters
        ----------
        X, y
            Rows of the series, in order, and targets where the estimator has such.
        time : array, optional
            One per row, for the day and the week, and for a memory by the clock.
        **how
            What the estimator takes beside: ``output=``, ``sample_weight=``.
        """
        lags = self.lags.copy()
        wide = lags.transform_then_learn(X, time=time)
        answers = self.estimator.predict_then_learn(wide, y, **self._how(time), **how)
        self.lags = lags
        return answers

    @locked
    def partial_fit(self, X: Any, y: Any = None, time: Any = None, **how: Any) -> Self:
        """Learn rows, in order."""
        lags = self.lags.copy()
        wide = lags.transform_then_learn(X, time=time)
        self.estimator.partial_fit(wide, y, **self._how(time), **how)
        self.lags = lags
        return self

    @locked
    def fit(self, X: Any, y: Any = None, time: Any = None, **how: Any) -> Self:
        """Forget everything, then learn the rows in order."""
        lags = self.lags.copy()
        wide = lags.fit_transform(X, time=time)
        self.estimator.fit(wide, y, **self._how(time), **how)
        self.lags = lags
        return self

    @locked
    def predict(self, X: Any, time: Any = None) -> Any:
        """Answer for rows as if they came next; nothing is learned."""
        return self.estimator.predict(self.lags.transform(X, time=time))

    @property
    def diagnostics_(self) -> dict[str, Any]:
        """The estimator's: what it promised, and what happened."""
        report: dict[str, Any] = self.estimator.diagnostics_
        return report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write both to a file; ``onkel.load(path)`` gives them back, and they go on from there."""
        from onkel import files

        files.save(self, path)
