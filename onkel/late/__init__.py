"""Late labels: a row is predicted now, and learned when its label comes, perhaps weeks later.

>>> import numpy as np
>>> from onkel import Classifier, Late
>>> X = np.random.default_rng(0).normal(size=(300, 2))
>>> late = Late(Classifier(), keep=1000, ask=0.1)
>>> said = late.predict(X)
>>> answered = late.learn(said.ids[:200], X[:200, 0] > 0)
>>> late.diagnostics_["answered"], late.diagnostics_["waiting"]
(200, 100)
"""

from onkel.late.asking import Asking
from onkel.late.looking import Answered, Said
from onkel.late.model import Late

__all__ = ["Answered", "Asking", "Late", "Said"]
