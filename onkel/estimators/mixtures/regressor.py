"""Regressor: the mean of many settings, the better ones counting for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from onkel.diagnostics import rates_of
from onkel.estimators.base import Estimator
from onkel.estimators.locks import locked
from onkel.estimators.mixtures import banks
from onkel.estimators.mixtures.base import Mixed
from onkel.estimators.regressor import BaseRegressor
from onkel.learner import Means, Mixture, Settings
from onkel.params import Accept
from onkel.saved import Saved

NU = Accept(
    low=0, low_open=True, high=1, high_open=True,
    hint="It is the share of targets outside the intervals, for example 0.1.",
)  # fmt: skip

RATE = Accept(low=0, low_open=True, high_open=True, none=True, hint="None is the default.")
LEAST_RATE, MOST_RATE = 1e-100, 1e100
"""What is beyond counts as this: the bounds on the loss stay finite."""
DEFAULT_RATE = 4.0
"""What ``rate=None`` means; experiments/self_tuning.py has the study."""


class Regressor(Mixed, BaseRegressor):
    """Self-tuning regression: a bank of settings side by side, of which none need be chosen.

    ``w_i <- (1 - share) w_i exp(-rate l_i) / (sum of the same) + share / experts``

    Every example is predicted by the mean of the members' answers and of two experts that join all
    of them, each counting by its weight over its squared error of late; then each one's error, in
    units of the mixture's own and clipped, moves its weight, and a little is shared out evenly, so
    that the weights can follow when another one becomes the best. Members with terms in a window
    store their points together and share distances and kernel values.

    Parameters
    ----------
    members : list of estimators, optional
        Settings, as regressors of onkel; None is a default bank of eleven.
    nu : float in (0, 1)
        Share of the targets that lies outside of the intervals in the long run, whatever the
        stream; of each, where there are several.
    share : float in [0, 1)
        What each trial shares out evenly.
    rate : float, optional
        Rate of the weights; None is 4.
    memory : float or duration, optional
        Forgetting horizon of every member whose rule has one, in examples, or as a duration
        (``"12h"``): then forgetting goes by the clock, with ``time=`` beside X and y. None leaves
        the members' own.
    missing : {"error", "mean"}
        What NaN in X means to the default bank: an error, or the feature's running mean. Members of
        one's own say it themselves.
    relevance : bool
        Whether the members with terms of the default bank learn how much each column matters
        (:attr:`relevance_`), and see rows by that. Members of one's own see all columns alike.
    columns : dict or Columns, optional
        What columns are that are no numbers ("category", "time", "text", ...), where the types of
        the first rows do not tell; see the guide's page on rows as they are.
    n_jobs : int, optional
        Threads; -1 for all cores.
    device : str
        Where members with terms live: "cpu", "cuda" for a GPU (extra ``gpu``), or "auto".

    References
    ----------
    Herbster & Warmuth, "Tracking the best expert", Machine Learning 32 (1998). The bound is
    :func:`onkel.bounds.fixed_share`; that of intervals :func:`onkel.bounds.interval_misses`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(2000, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=2000)
    >>> guess = Regressor().predict_then_learn(X, y)
    >>> bool(np.abs(guess - y)[1000:].mean() < 0.1)
    True
    >>> low, high = Regressor(nu=0.2).predict_then_learn(X, y, output="interval")
    >>> bool(abs(np.mean((low <= y) & (y <= high)) - 0.8) < 0.02)
    True
    """

    _kind: ClassVar[type[Mixture]] = Means

    def __init__(
        self,
        members: Any = None,
        *,
        nu: float = 0.1,
        share: float = 0.005,
        rate: float | None = None,
        memory: Any = None,
        missing: str = "error",
        relevance: bool = True,
        columns: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.members = members
        self.nu = nu
        self.share = share
        self.rate = rate
        self.memory = memory
        self.missing = missing
        self.relevance = relevance
        self.columns = columns
        self.n_jobs = n_jobs
        self.device = device

    def _default_members(self, features: float) -> Sequence[Estimator]:
        return banks.regressors(features)

    def _settings(self) -> Settings:
        NU.check(type(self).__name__, "nu", self.nu)
        RATE.check(type(self).__name__, "rate", self.rate)
        return super()._settings()

    def _numbers(self) -> dict[str, float]:
        rate = DEFAULT_RATE if self.rate is None else float(self.rate)
        rate = min(max(rate, LEAST_RATE), MOST_RATE)
        return {"rate": rate, **super()._numbers(), "nu": float(self.nu)}

    def _resumed_numbers(self, held: Saved) -> dict[str, float]:
        nu = held.number("nu", low=0.0)
        if not 0 < nu < 1:
            raise held.refuse("nu", f"must lie between 0 and 1; got {nu}")
        rate = held.number("rate", low=0.0)
        if not LEAST_RATE <= rate <= MOST_RATE:
            raise held.refuse("rate", f"must be above 0, and no extreme; got {rate}")
        return {"rate": rate, **super()._resumed_numbers(held), "nu": nu}

    def _has_interval(self) -> bool:
        return True

    def _nu(self) -> float:
        return float(self._mixture().widths.nu)

    @property
    @locked
    def diagnostics_(self) -> dict[str, Any]:
        mixture = self._mixture()
        return {**super().diagnostics_, "rate": mixture.rate, **rates_of(mixture.widths)}
