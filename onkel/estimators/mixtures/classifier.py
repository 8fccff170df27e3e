"""Classifier: many settings vote, the better ones more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel import losses
from onkel.estimators.base import Estimator
from onkel.estimators.classes import Classes
from onkel.estimators.classifier import BaseClassifier
from onkel.estimators.locks import locked
from onkel.estimators.mixtures import banks
from onkel.estimators.mixtures.base import Mixed
from onkel.learner import Mixture, Votes

Array = NDArray[Any]


class Classifier(Mixed, BaseClassifier):
    """Self-tuning classification: a bank of settings side by side, of which none need be chosen.

    ``w_i <- (1 - share) w_i exp(-rate l_i) / (sum of the same) + share / members``

    Every example is predicted by a vote of the members with their weights; then each member's
    mistake, 0 or 1, moves its weight, and a little is shared out evenly, so that the weights can
    follow when another member becomes the best one. Members with terms in a window store their
    points together and share distances and kernel values.

    Parameters
    ----------
    members : list of estimators, optional
        Settings, as classifiers of onkel; None is a default bank of nine.
    share : float in [0, 1)
        What each trial shares out evenly.
    rate : float, optional
        Rate of the weights; None is 0.25.
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
    >>> X = rng.normal(size=(1000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> clf = Classifier()
    >>> early = clf.predict_then_learn(X[:500], y[:500])
    >>> late = clf.predict_then_learn(X[500:], y[500:])
    >>> bool(np.mean(late == y[500:]) > 0.9)
    True
    >>> len(clf.weights_), round(float(clf.weights_.sum()), 6)
    (9, 1.0)
    """

    class_weight = None
    _kind: ClassVar[type[Mixture]] = Votes
    _default_rate: ClassVar[float] = 0.25

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
        return banks.classifiers(features)

    def _check_member(self, where: str, member: Any) -> None:
        super()._check_member(where, member)
        if member.class_weight is not None:
            raise ValueError(
                f"{type(self).__name__}: {where} has a class_weight; a mixture has none. Pass "
                "sample_weight= when learning."
            )

    def _check_proba(self) -> None:
        begun = hasattr(self, "_learner")
        found = self._learner.members if begun else [m._settings() for m in self._chosen(1)]
        if not all(isinstance(m.loss, losses.Logistic) for m in found):
            raise AttributeError(
                "predict_proba needs members that all have loss='logistic'; the scores of others "
                "are no probabilities."
            )

    @staticmethod
    def _probabilities(classes: Classes, scores: Array) -> Array:
        """Votes are twice a probability, less 1."""
        scores = 2.0 * np.arctanh(np.clip(scores, -1.0 + 1e-15, 1.0 - 1e-15))
        return BaseClassifier._probabilities(classes, scores)

    @property
    @locked
    def diagnostics_(self) -> dict[str, Any]:
        return {**super().diagnostics_, "mistakes": self._mixture().mistakes}
