"""Series: rows made wider by shapes and seasons, before any estimator; and both in one model.

>>> import numpy as np
>>> from onkel import Detector, series
>>> load = np.sin(np.arange(2000) * 2 * np.pi / 24)[:, None]
>>> model = series.Series(Detector(), series.Lags(season="auto"))
>>> alerts = model.predict_then_learn(load) == -1
>>> model.lags.season_
'24 rows'
"""

from onkel.series.lags import Lags
from onkel.series.model import Series

__all__ = ["Lags", "Series"]
