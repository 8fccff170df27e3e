"""Regressor: the mean of many settings, the better ones counting for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from onkel.estimators.base import Estimator
from onkel.estimators.mixtures import banks
from onkel.estimators.mixtures.base import Mixed
from onkel.estimators.regressor import BaseRegressor
from onkel.learner import Means, Mixture


class Regressor(Mixed, BaseRegressor):
    """Self-tuning regression: a bank of settings side by side, of which none need be chosen.

    ``w_i <- (1 - share) w_i exp(-rate l_i) / (sum of the same) + share / members``

    Every example is predicted by the weighted mean of the members' answers; then each member's
    error, in units of what is usual and clipped to at most 1, moves its weight, and a little is
    shared out evenly, so that the weights can follow when another member becomes the best one.
    Members with terms in a window store their points together and share distances and kernel
    values.

    Parameters
    ----------
    members : list of estimators, optional
        Settings, as regressors of onkel; None is a default bank of nine.
    share : float in [0, 1)
        What each trial shares out evenly.
    rate : float, optional
        Rate of the weights; None is 16.
    n_jobs : int, optional
        Threads; -1 for all cores.
    device : str
        Where members with terms live: "cpu", "cuda" for a GPU (extra ``gpu``), or "auto".

    References
    ----------
    Herbster & Warmuth, "Tracking the best expert", Machine Learning 32 (1998). The bound is
    :func:`onkel.bounds.fixed_share`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(2000, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=2000)
    >>> guess = Regressor().predict_then_learn(X, y)
    >>> bool(np.abs(guess - y)[1000:].mean() < 0.1)
    True
    """

    outputs: ClassVar[tuple[str, ...]] = ("prediction",)
    _kind: ClassVar[type[Mixture]] = Means
    _default_rate: ClassVar[float] = 16.0

    def __init__(
        self,
        members: Any = None,
        *,
        share: float = 0.001,
        rate: float | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.members = members
        self.share = share
        self.rate = rate
        self.n_jobs = n_jobs
        self.device = device

    def _default_members(self, features: int) -> Sequence[Estimator]:
        return banks.regressors(features)

    @property
    def predict_interval(self) -> Any:
        """A mixture has none, and ``hasattr`` says so."""
        raise AttributeError(
            f"{type(self).__name__} gives no intervals; use KernelRegressor with a loss that has "
            "nu."
        )
