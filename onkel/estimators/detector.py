"""NoveltyDetector: alerts at a promised rate."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import inputs, losses, rules
from onkel.estimators.base import Estimator
from onkel.params import Part

Array = NDArray[Any]

LEARNED_FRACTION = 0.1
"""What f learns from by default; experiments/novelty_defaults.py has the study."""


class NoveltyDetector(Estimator):
    """Online novelty detection: alerts on a fraction nu of the stream, and on what is new.

    ``f <- (1 - eta lam) f + eta sigma k(x, .)``, ``rho <- rho + r eta (nu - sigma)``,
    sigma = [f(x) < rho]

    Parameters
    ----------
    nu : float in (0, 1)
        The promised alert rate.
    support : float in (0, 1), optional
        Fraction of the stream that f learns from. None means nu, as in the paper, with a rule of
        your own; with the default rule it means 0.1 (or nu, if larger), which gives a small nu
        enough terms to score well. Narrow kernels gain from more, up to 0.5.
    kernel : str, object or function
        From :mod:`onkel.kernels`, or a function of two matrices.
    rule, expansion : str or object
        From :mod:`onkel.rules` and :mod:`onkel.expansions`. The default rule is
        ``Norma(threshold_rate=3, support_rate=0.1)``: alerts follow nu quickly, f slowly.
        ``rules.Norma()`` is the paper's.
    scale : bool
        Standardise inputs by running moments.
    fit_intercept : bool or "auto"
        A detector has no offset; True is an error.
    passes : int
        Passes of :meth:`fit` over its rows.
    average : bool
        Score with the average of all hypotheses so far (N04 Corollary 5).
    missing : {"error", "mean"}
        What NaN in X means: an error, or the feature's running mean (as of the last refresh).
    n_jobs : int, optional
        Threads; -1 for all cores.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> det = NoveltyDetector(nu=0.05)
    >>> alerts = det.predict_then_learn(rng.normal(size=(5000, 2))) == -1
    >>> bool(abs(alerts.mean() - 0.05) < 0.005)
    True
    >>> det.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    task: ClassVar[str] = "novelty"
    outputs: ClassVar[tuple[str, ...]] = ("prediction", "decision", "score")
    _own_parts: ClassVar[dict[tuple[str, str], Part]] = {
        ("rule", "norma"): rules.Norma(threshold_rate=3.0, support_rate=0.1)
    }

    def __init__(
        self,
        nu: float = 0.05,
        support: float | None = None,
        kernel: Any = "gaussian",
        rule: Any = "norma",
        expansion: Any = "window",
        *,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        passes: int = 1,
        average: bool = False,
        missing: str = "error",
        n_jobs: int | None = None,
    ) -> None:
        self.nu = nu
        self.support = support
        self.kernel = kernel
        self.rule = rule
        self.expansion = expansion
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.passes = passes
        self.average = average
        self.missing = missing
        self.n_jobs = n_jobs

    def _loss(self) -> losses.Loss:
        loss = losses.Novelty(nu=self.nu, support=self.support)
        rule = self._part("rule", self.rule)
        if self.support is None and getattr(rule, "support_rate", None) is not None:
            return losses.Novelty(nu=self.nu, support=max(self.nu, LEARNED_FRACTION))
        return loss

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Forget everything, then pass over the rows once (or `passes` times), in order.

        `y` is ignored. ``sample_weight=`` is accepted and scales a row's step.
        """
        return self._fit(X, y, params)

    def _pass(self, X: Any, y: Any, weight: Array, time: Any) -> None:
        self.partial_fit(X, sample_weight=weight, time=time)

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, time: Any = None
    ) -> Self:
        """Learn rows, in order; `y` is ignored."""
        lone = self._lone(X) if sample_weight is None and time is None else None
        if lone is None or self._quick(lone[0], 0.0) is None:
            self._learn(X, sample_weight, time)
        return self

    def predict_then_learn(
        self, X: Any, y: Any = None, output: str = "prediction", sample_weight: Any = None,
        time: Any = None,
    ) -> Array:  # fmt: skip
        """Judge each row *before* it is learned: -1 is an alert, +1 is not.

        ``output="decision"`` gives score minus threshold as it stood, ``"score"`` the score.
        """
        self._check_output(output)
        scores, limits = self._learn(X, sample_weight, time)
        if output == "score":
            return scores[:, 0]
        decision = scores[:, 0] - limits[:, 0]
        return decision if output == "decision" else np.where(decision < 0, -1, 1)

    def learn_one(self, row: Any, y: Any = None, time: Any = None) -> Self:
        """Learn one row."""
        if self._quick(row, 0.0, time) is not None:
            return self
        return self.partial_fit([row], time=None if time is None else [time])

    def predict_one(self, row: Any) -> int:
        """Judge one row; +1 before anything is known."""
        return -1 if hasattr(self, "_learner") and self.score_one(row) < self.threshold_ else 1

    def score_one(self, row: Any) -> float:
        """Return the score of one row; 0 before anything is known."""
        if not hasattr(self, "_learner"):
            return 0.0
        scores = self._look(row)
        return float(self.score_samples([row])[0]) if scores is None else scores.item()

    def fit_predict(self, X: Any, y: Any = None, **params: Any) -> Array:
        """Fit, then judge the same rows with the model that came out."""
        return self.fit(X, y, **params).predict(X)

    def _learn(self, X: Any, sample_weight: Any, time: Any = None) -> tuple[Array, Array]:
        fresh = not hasattr(self, "_learner")
        settings = self._settings() if fresh else None
        rows = self._rows(X, settings)
        weight = inputs.weights_of(sample_weight, len(rows))
        if fresh:
            assert settings is not None
            learner = self._begin(X, settings, rows, 1)
        else:
            learner = self._safe(weight)
        times = self._times(time, len(rows), learner)
        result = self._learn_rows(learner, rows, np.zeros((len(rows), 1)), weight, times=times)
        self._keep(learner, X)
        return result

    # -- predicting ----------------------------------------------------------------------------

    @property
    def threshold_(self) -> float:
        """Rows that score below it are alerts."""
        return float(self._fitted().limits()[0])

    @property
    def offset_(self) -> float:
        """The threshold: ``decision_function = score_samples - offset_``."""
        return self.threshold_

    def score_samples(self, X: Any) -> Array:
        """Return f(x): the higher, the more usual."""
        return self._fitted().scores(self._rows(X))[:, 0]

    def decision_function(self, X: Any) -> Array:
        """Return score minus threshold: negative means an alert."""
        return self.score_samples(X) - self.threshold_

    def predict(self, X: Any) -> Array:
        """Return -1 for alerts, +1 for the rest."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "outlier_detector"
        return tags
