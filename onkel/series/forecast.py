"""A forecast of each row by those before it, and what the row had that was not foreseen."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.estimators import LinearRegressor
from onkel.saved import Saved

Array = NDArray[Any]

MOST = 1e100
"""What is beyond is foreseen as if it were this: a regressor's steps have a floating range."""


def regressor() -> LinearRegressor:
    """Return what forecasts: linear in the last values and the seasons, without a learning rate."""
    return LinearRegressor(loss="epsilon_insensitive", rule="projection")


class Forecast:
    """Rows forecast, then learned.

    Examples
    --------
    >>> import numpy as np
    >>> forecast, x = Forecast(), np.sin(np.arange(400.0) / 5)[:, None]
    >>> left = forecast.residuals(np.hstack([np.roll(x, 1, 0), np.roll(x, 2, 0)]), x)
    >>> bool(np.abs(left[200:]).mean() < 0.1 < np.abs(x).mean())
    True
    """

    def __init__(self) -> None:
        self.model = regressor()

    def residuals(self, inputs: Array, rows: Array) -> Array:
        """Return rows less their forecasts, and learn them; of the very first row nothing."""
        fresh = not self.model.__sklearn_is_fitted__()
        known, wanted = (np.clip(values, -MOST, MOST) for values in (inputs, rows))
        left = rows - self.model.predict_then_learn(known, wanted)
        if fresh:
            left[0] = 0.0  # there was nothing to forecast it from
        return left

    def copy(self) -> Forecast:
        """Return an independent copy."""
        other = Forecast()
        other.model = copy.copy(self.model)
        return other

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold."""
        _, settings, state = self.model.dump()
        return {"settings": settings, "state": state}

    def restore(self, saved: Saved, inputs: int, outputs: int) -> None:
        """Become what a file holds."""
        settings, known = saved.value("settings"), self.model.get_params(deep=False)
        state = saved.inside("state")
        self.model = LinearRegressor.restored(known, settings, state)
        state.finish()
        saved.finish()
        if (self.model.n_features_in_, self.model.n_outputs_) != (inputs, outputs):
            raise saved.refuse("state", f"must forecast {outputs} numbers from {inputs}")
