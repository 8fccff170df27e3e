"""Many models of one setting, by key: one for each device, merchant, user or metric.

>>> import numpy as np
>>> from onkel import Detector, Fleet
>>> rng = np.random.default_rng(0)
>>> keys = rng.choice(["pump", "fan"], size=4000)
>>> X = rng.normal(size=(4000, 2)) + np.where(keys == "pump", 50.0, 0.0)[:, None]
>>> fleet = Fleet(Detector(nu=0.01))
>>> alerts = fleet.predict_then_learn(keys, X) == -1
>>> fleet.predict(["pump", "fan"], [[50.0, 50.0], [50.0, 50.0]])
array([ 1, -1])
"""

from onkel.fleet.fleet import Fleet

__all__ = ["Fleet"]
