"""Detector: alerts at a promised rate, from many settings together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from onkel.estimators.base import Estimator
from onkel.estimators.detector import BaseDetector
from onkel.estimators.locks import locked
from onkel.estimators.mixtures import banks
from onkel.estimators.mixtures.base import ACCEPTS, Mixed
from onkel.learner import Alerts, Mixture, Settings
from onkel.params import Accept


class Detector(Mixed, BaseDetector):
    """Self-tuning novelty detection: a bank of settings side by side, of which none need be chosen.

    ``w_i <- (1 - share) w_i exp(-rate l_i) / (sum of the same) + share / members``

    Every example is judged by the weighted mean of the members' margins, against a threshold that
    keeps the rate nu. Now and then the members judge rows that were made up; the share of those
    that a member lets pass is its loss and moves its weight, and a little is shared out evenly.
    Members with terms in a window store their points together and share distances and kernel
    values.

    Parameters
    ----------
    nu : float in (0, 1)
        The promised alert rate.
    members : list of estimators, optional
        Settings, as detectors of onkel with the same nu; None is a default bank of six.
    share : float in [0, 1)
        What each trial shares out evenly.
    rate : float, optional
        Rate of the weights; None is 16.
    n_jobs : int, optional
        Threads; -1 for all cores.

    References
    ----------
    Herbster & Warmuth, "Tracking the best expert", Machine Learning 32 (1998). The bound is
    :func:`onkel.bounds.fixed_share`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> det = Detector(nu=0.05)
    >>> alerts = det.predict_then_learn(rng.normal(size=(2000, 2))) == -1
    >>> bool(abs(alerts.mean() - 0.05) < 0.01)
    True
    >>> det.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    warmup = 0
    recent = 1000
    _accepts: ClassVar[dict[str, Accept]] = {
        "nu": Accept(low=0, low_open=True, high=1, high_open=True), **ACCEPTS
    }  # fmt: skip
    _kind: ClassVar[type[Mixture]] = Alerts
    _default_rate: ClassVar[float] = 16.0

    def __init__(
        self,
        nu: float = 0.05,
        members: Any = None,
        *,
        share: float = 0.001,
        rate: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.nu = nu
        self.members = members
        self.share = share
        self.rate = rate
        self.n_jobs = n_jobs

    def _default_members(self, features: int) -> Sequence[Estimator]:
        return banks.detectors(features, self.nu)

    def _check_member(self, where: str, member: Any) -> None:
        super()._check_member(where, member)
        owner = type(self).__name__
        if member.warmup:
            raise ValueError(f"{owner}: {where} has a warmup; a mixture shows alerts at once.")
        if member.nu != self.nu:
            raise ValueError(
                f"{owner}: {where} promises nu={member.nu!r}, the mixture nu={self.nu!r}: they "
                "must agree. Give nu= to both."
            )

    def _check_alike(self, bank: list[Settings]) -> None:
        super()._check_alike(bank)
        if bank[0].kernel.domain == "strings":
            raise ValueError(
                f"{type(self).__name__}: novelty is judged on rows made up from numbers, which "
                "strings have not. Use NoveltyDetector."
            )

    def _check_resumed(self, bank: list[Settings]) -> None:
        super()._check_resumed(bank)
        if len({s.loss.nu for s in bank}) > 1:
            raise ValueError("settings.loss must have one nu for all members.")

    @property
    @locked
    def diagnostics_(self) -> dict[str, Any]:
        mixture = self._mixture()
        weight = max(mixture.weight, 1e-300)
        return {
            **super().diagnostics_,
            "threshold": mixture.theta,
            "rate_promised": mixture.nu,
            "rate_realised": mixture.alerts / weight,
            "rate_error_term": -mixture.theta / (mixture.STEP * weight),
        }
