"""LinearClassifier and LinearRegressor: every rule in the primal, with a p-norm link."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import expansions, kernels
from onkel.estimators.base import Estimator
from onkel.estimators.classifier import BaseClassifier
from onkel.estimators.locks import locked
from onkel.estimators.regressor import BaseRegressor
from onkel.learner import PrimalLearner
from onkel.saved import Saved

Array = NDArray[Any]


class _Linear(Estimator):
    """The linear kernel, held as weights."""

    kernel = kernels.Linear()
    p: float

    @property
    def expansion(self) -> expansions.Weights:
        """How f is stored: one weight per feature."""
        expansions.Weights.accepts("p").check(type(self).__name__, "p", self.p)
        return expansions.Weights(p=self.p)

    def _resume(self, settings: dict[str, Any], saved: Saved) -> None:
        super()._resume(settings, saved)
        if not isinstance(self._learner.settings.expansion, expansions.Weights):
            raise saved.refuse("learner", "must hold f as weights")

    def _raw_weights(self) -> tuple[Array, Array]:
        learner = self._fitted()
        assert isinstance(learner, PrimalLearner)
        return learner.raw_weights()


class LinearClassifier(_Linear, BaseClassifier):
    """Online linear classification: O(features) per example.

    ``theta <- (1 - eta lam) theta + eta sigma y x``, sigma = [y (w . x + b) <= margin],
    ``w_i = sign(theta_i) abs(theta_i)^(p-1) / ||theta||_p^(p-2)``

    Parameters
    ----------
    loss : str or object
        ``"soft_margin"`` or ``"logistic"``, or an object from :mod:`onkel.losses`.
    rule : str or object
        From :mod:`onkel.rules`.
    p : float
        Of the link, 2 or more. 2 is the kernel learner with the linear kernel; ``max(2, 2 ln d)``
        suits few relevant features among many. NORMA, ALMA and the perceptron only.
    scale : bool
        Standardise inputs by running moments.
    fit_intercept : bool or "auto"
        The offset b.
    passes : int
        Passes of :meth:`fit` over its rows.
    average : bool
        Predict with the average of all hypotheses so far (N04 Corollary 5).
    class_weight : dict, "balanced" or None
        Weight of each class's steps; "balanced" follows the class counts seen so far.
    missing : {"error", "mean"}
        What NaN in X means: an error, or the feature's running mean (as of the last refresh).
    columns : dict or Columns, optional
        What columns are that are no numbers ("category", "time", "text", ...), where the types of
        the first rows do not tell; see the guide's page on rows as they are.
    n_jobs : int, optional
        Accepted for likeness with the others; a row is too short to be split.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> clf = LinearClassifier()
    >>> right = clf.predict_then_learn(X, X[:, 0] > X[:, 1]) == (X[:, 0] > X[:, 1])
    >>> bool(right[500:].mean() > 0.95)
    True
    """

    def __init__(
        self,
        loss: Any = "soft_margin",
        rule: Any = "norma",
        *,
        p: float = 2.0,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        passes: int = 1,
        average: bool = False,
        class_weight: Any = None,
        missing: str = "error",
        columns: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.rule = rule
        self.p = p
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.passes = passes
        self.average = average
        self.class_weight = class_weight
        self.missing = missing
        self.columns = columns
        self.n_jobs = n_jobs

    def _shown(self) -> Array:
        """Return the weights behind decision_function, the offset last, one row per output."""
        w, b = self._raw_weights()
        shown = self._classes.decisions(np.column_stack([w, b]).T)
        return np.atleast_2d(shown.T)

    @property
    @locked
    def coef_(self) -> Array:
        """Weights for rows as they come: ``decision_function = X @ coef_.T + intercept_``.

        Of the numbers: categories and words have a weight for each value.
        """
        return self._shown()[:, :-1]

    @property
    @locked
    def intercept_(self) -> Array:
        """Offsets for rows as they come."""
        return self._shown()[:, -1]


class LinearRegressor(_Linear, BaseRegressor):
    """Online linear regression, of one or several targets: O(features) per example.

    ``theta <- (1 - eta lam) theta - eta l'(w . x + b, y) x``,
    ``w_i = sign(theta_i) abs(theta_i)^(p-1) / ||theta||_p^(p-2)``

    Parameters
    ----------
    loss : str or object
        ``"huber"``, ``"squared"``, ``"absolute"``, ``"epsilon_insensitive"``, or an object from
        :mod:`onkel.losses`; with ``nu=`` the last (and Huber) gives prediction intervals. The
        name "huber" means ``Huber(sigma=3)`` here, three spreads of the target.
    rule : str or object
        From :mod:`onkel.rules`; ``"rls"`` gives intervals and standard deviations, whatever the
        loss, at O(features^2) per example.
    p : float
        Of the link, 2 or more; NORMA only.
    scale : bool
        Standardise inputs and targets by running moments.
    fit_intercept : bool or "auto"
        The offset b; "auto" leaves it out where targets are standardised (they are centred).
    passes : int
        Passes of :meth:`fit` over its rows.
    average : bool
        Predict with the average of all hypotheses so far (N04 Corollary 5).
    missing : {"error", "mean"}
        What NaN in X means: an error, or the feature's running mean (as of the last refresh).
    columns : dict or Columns, optional
        What columns are that are no numbers ("category", "time", "text", ...), where the types of
        the first rows do not tell; see the guide's page on rows as they are.
    n_jobs : int, optional
        Accepted for likeness with the others; a row is too short to be split.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> reg = LinearRegressor().partial_fit(X, 3.0 * X[:, 0] - X[:, 1] + 10.0)
    >>> reg.coef_.round(2), round(float(reg.intercept_), 2)
    (array([ 3., -1.]), 10.0)
    """

    def __init__(
        self,
        loss: Any = "huber",
        rule: Any = "norma",
        *,
        p: float = 2.0,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        passes: int = 1,
        average: bool = False,
        missing: str = "error",
        columns: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.rule = rule
        self.p = p
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.passes = passes
        self.average = average
        self.missing = missing
        self.columns = columns
        self.n_jobs = n_jobs

    @property
    @locked
    def coef_(self) -> Array:
        """Weights for rows and targets as they come: ``predict = X @ coef_.T + intercept_``.

        Of the numbers: categories and words have a weight for each value.
        """
        w, _ = self._raw_weights()
        return w[0] if self._flat else w

    @property
    @locked
    def intercept_(self) -> Any:
        """Offsets for rows and targets as they come."""
        _, b = self._raw_weights()
        return b[0] if self._flat else b
