"""Lags as one of River's transformers: dicts of a series made wider, before any model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base

from onkel import series
from onkel.river.places import Name, number


class Lags(base.Transformer):
    """Wider examples for any of River's models: what a series is known by beside its values.

    In a pipeline an example is transformed for the prediction, then learned, then transformed
    again for the model to learn: both times it comes out the same.

    Parameters
    ----------
    lags, shape, differences, roughness, season, forecast
        As in :class:`onkel.series.Lags`.
    time : str, optional
        The name of the time in an example: seconds or a date. It is taken out.

    Notes
    -----
    The first example tells the features. One that is absent later has the last value that it had;
    others are left out.

    Examples
    --------
    >>> maker = Lags(lags=1, roughness=0, forecast=0)
    >>> for value in (3.0, 5.0):
    ...     print(maker.transform_one({"load": value}))
    ...     maker.learn_one({"load": value})
    {'load': 3.0, 'load lag 1': 3.0}
    {'load': 5.0, 'load lag 1': 3.0}
    """

    def __init__(
        self,
        lags: int = 0,
        *,
        shape: int = 0,
        differences: bool = False,
        roughness: int = 8,
        season: Any = None,
        forecast: int = 24,
        time: str | None = None,
    ) -> None:
        self.lags = lags
        self.shape = shape
        self.differences = differences
        self.roughness = roughness
        self.season = season
        self.forecast = forecast
        self.time = time
        self._made = series.Lags(
            lags, shape=shape, differences=differences, roughness=roughness, season=season,
            forecast=forecast, missing="last",
        )  # fmt: skip
        self._made.check_params()
        self._names: list[Name] = []
        self._last: tuple[Any, dict[Name, Any], dict[Name, float]] | None = None
        """The example that was learned last, what it held, and what came of it."""

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"lags": 2}

    @property
    def season_(self) -> str | None:
        """The season that was found, in words; None while none is clear."""
        return self._made.season_ if self._names else None

    def _row(self, x: dict[Name, Any]) -> tuple[list[Name], list[list[float]], list[Any] | None]:
        """Return the names, the row and its time."""
        if self.time is not None and self.time not in x:
            raise ValueError(f"Lags: an example must hold its time, {self.time!r}; got {list(x)}.")
        names = self._names or [name for name in x if name != self.time]
        if not names:
            raise ValueError("Lags: the first example holds no feature; there is nothing to learn.")
        found = [number(name, x.get(name)) for name in names]
        row = [[np.nan if value is None else value for value in found]]
        return names, row, None if self.time is None else [x[self.time]]

    def _wide(self, names: list[Name], row: Any) -> dict[Name, float]:
        named = self._made.get_feature_names_out([str(name) for name in names])
        return dict(zip([*names, *named[len(names) :]], row.tolist(), strict=True))

    def learn_one(self, x: dict[Name, Any]) -> None:
        """Go on by one example."""
        names, row, time = self._row(x)
        wide = self._made.transform_then_learn(row, time=time)
        self._names = names
        self._last = x, dict(x), self._wide(names, wide[0])

    def transform_one(self, x: dict[Name, Any]) -> dict[Name, float]:
        """Return an example, wider: as the next one, or as it was if it has just been learned."""
        last, self._last = self._last, None
        if last is not None and last[0] is x and last[1] == x:
            return last[2]
        names, row, time = self._row(x)
        made = self._made.copy()
        return self._wide(names, made.transform_then_learn(row, time=time)[0])
