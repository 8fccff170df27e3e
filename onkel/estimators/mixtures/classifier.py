"""Classifier: many settings side by side, their chances mixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from onkel.estimators.base import Estimator
from onkel.estimators.classifier import BaseClassifier
from onkel.estimators.locks import locked
from onkel.estimators.mixtures import banks
from onkel.estimators.mixtures.base import Mixed
from onkel.learner import Mixture, Odds

if TYPE_CHECKING:
    from onkel.explain import ClassExplanation


class Classifier(Mixed, BaseClassifier):
    """Self-tuning classification: a bank of settings side by side, of which none need be chosen.

    ``w_i <- (1 - share) w_i p_i(y) / (sum of the same) + share / experts``

    Each member's scores are made into probabilities by a link that is fitted as rows come. Members,
    and two experts that join all of them, are mixed under log loss: an expert's weight grows with
    the probability that it gave to what came, and a little is shared out evenly, so that weights
    can follow when another one becomes the best. Members with terms in a window store their points
    together and share distances and kernel values.

    Parameters
    ----------
    members : list of estimators, optional
        Settings, as classifiers of onkel; None is a default bank of ten.
    share : float in [0, 1)
        What each trial shares out evenly.
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
    :func:`onkel.bounds.log_loss`.

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
    >>> clf.predict_proba([[1.0, 1.0]]).round(1)
    array([[0., 1.]])
    >>> len(clf.weights_), round(float(clf.weights_.sum()), 6)
    (10, 1.0)
    """

    class_weight = None
    _tells_odds: ClassVar[bool] = True
    _kind: ClassVar[type[Mixture]] = Odds

    def __init__(
        self,
        members: Any = None,
        *,
        share: float = 0.001,
        memory: Any = None,
        missing: str = "error",
        relevance: bool = True,
        columns: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.members = members
        self.share = share
        self.memory = memory
        self.missing = missing
        self.relevance = relevance
        self.columns = columns
        self.n_jobs = n_jobs
        self.device = device

    def _default_members(self, features: float) -> Sequence[Estimator]:
        return banks.classifiers(features)

    def _check_member(self, where: str, member: Any) -> None:
        super()._check_member(where, member)
        if member.class_weight is not None:
            raise ValueError(
                f"{type(self).__name__}: {where} has a class_weight; a mixture has none. Pass "
                "sample_weight= when learning."
            )

    def _needs_link(self, learner: Any) -> bool:
        """A mixture's scores are odds."""
        return False

    @locked
    def explain(self, x: Any, top: int = 5) -> ClassExplanation:
        """Say why one row gets its class, and which members say so.

        See :class:`~onkel.explain.ClassExplanation`; its ``members`` are in the order of
        :attr:`weights_`. What is explained is the margin of the mixture's own decision. `top` is
        the number of terms, and of features with their usual values, that are shown.
        """
        found = super().explain(x, top)
        rows = self._rows(self._as_rows(x, self._mixture().on_strings))
        labels = self._classes.predictions(self._mixture().answers(rows)[0]).tolist()
        each = zip(found.members, labels, strict=True)
        return replace(found, members=tuple(replace(voice, says=v) for voice, v in each))

    @property
    @locked
    def diagnostics_(self) -> dict[str, Any]:
        return {**super().diagnostics_, "mistakes": self._mixture().mistakes}
