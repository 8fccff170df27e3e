"""Hedged: a bank of settings side by side, so that none need be chosen beforehand."""

from __future__ import annotations

import inspect
import os
from typing import Any, Self

from numpy.typing import NDArray

from onkel import inputs
from onkel.estimators.base import Estimator
from onkel.estimators.faces import FACES
from onkel.estimators.guard import Guarded, guarded
from onkel.saved import Saved

Array = NDArray[Any]


class Hedged(Guarded):
    """A bank of settings side by side, mixed so that the best of them need not be known.

    ``w_i <- (1 - share) w_i exp(-rate l_i) / (sum of the same) + share / members``

    Every example is predicted by the weighted mean of the members' answers; then each member's
    loss, a number from 0 to 1, moves its weight, and a little is shared out evenly, so that the
    weights can follow when another member becomes the best one. Members with terms in a window
    store their points together and share distances and kernel values.

    Parameters
    ----------
    task : "classification", "regression" or "novelty"
        What it is. Classification: the loss is a mistake, the answer a vote. Regression: the error
        in units of what is usual, clipped; a mean. Novelty: the share of made-up rows let pass; a
        mean margin, whose threshold keeps the rate nu.
    members : list of estimators, optional
        Settings, as estimators of onkel for that task; None is a default bank of about nine.
    share : float in [0, 1)
        What each trial shares out evenly.
    rate : float, optional
        Rate of the weights; None is 0.25 for classification, else 16.
    nu : float in (0, 1)
        The promised alert rate (novelty only).
    n_jobs : int, optional
        Threads; -1 for all cores.

    Notes
    -----
    By task it also has what its estimators have: ``decision_function`` (classification, novelty),
    ``classes_`` and, where all members are logistic, ``predict_proba``; ``score_samples``,
    ``rank_samples``, ``score_one``, ``threshold_``, ``offset_``, ``fit_predict`` (novelty);
    ``score``.

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
    >>> clf = Hedged()
    >>> early = clf.predict_then_learn(X[:500], y[:500])
    >>> late = clf.predict_then_learn(X[500:], y[500:])
    >>> bool(np.mean(late == y[500:]) > 0.9)
    True
    >>> len(clf.weights_), round(float(clf.weights_.sum()), 6)
    (9, 1.0)
    """

    _model: Any

    def __init__(
        self,
        task: str = "classification",
        members: Any = None,
        *,
        share: float = 0.001,
        rate: float | None = None,
        nu: float = 0.05,
        n_jobs: int | None = None,
    ) -> None:
        self.task = task
        self.members = members
        self.share = share
        self.rate = rate
        self.nu = nu
        self.n_jobs = n_jobs

    # -- parameters ----------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters."""
        return {n: getattr(self, n) for n in inspect.signature(Hedged.__init__).parameters
                if n != "self"}  # fmt: skip

    def set_params(self, **params: Any) -> Self:
        """Set parameters; what has been learned keeps those it was begun with."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self!r}. "
                    f"Valid parameters are: {sorted(known)!r}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(Hedged.__init__).parameters
        changed = [f"{n}={v!r}" for n, v in self.get_params().items() if v != defaults[n].default]
        return f"Hedged({', '.join(changed)})"

    def _fresh(self) -> Any:
        if not isinstance(self.task, str) or self.task not in FACES:
            raise ValueError(f"Hedged: task must be one of {list(FACES)}; got {self.task!r}.")
        return FACES[self.task](**self.get_params())

    def _face(self) -> Any:
        """Return what has learned, or one that has not."""
        model = self.__dict__.get("_model")
        if model is None:
            return self._fresh()
        if model.task != self.task:
            raise ValueError(
                f"Hedged: task was changed to {self.task!r} after {model.task} had been learned. "
                "Call fit, or make a new Hedged."
            )
        return model

    def __getattr__(self, name: str) -> Any:
        """What the task brings beside the methods below."""
        if name in ("weights_", "members_"):  # a property that found nothing learned
            raise inputs.not_fitted(type(self).__name__)
        task = self.__dict__.get("task")
        if not isinstance(task, str) or name not in _OF_TASK.get(task, ()):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._face(), name)

    # -- learning ------------------------------------------------------------------------------

    @guarded
    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Forget everything, then pass over the rows once, in order."""
        self._model = self._fresh().fit(X, y, **params)
        return self

    @guarded
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn rows, in order; classes may be named beforehand or appear on the way."""
        face = self._face()
        face.partial_fit(X, y, sample_weight=sample_weight, **self._named(classes))
        self._model = face
        return self

    @guarded
    def predict_then_learn(
        self, X: Any, y: Any = None, output: str = "prediction", classes: Any = None,
        sample_weight: Any = None,
    ) -> Array:  # fmt: skip
        """Predict each row *before* it is learned: the online protocol.

        ``output="decision"`` gives scores (classification, novelty).
        """
        face = self._face()
        found: Array = face.predict_then_learn(
            X, y, output=output, sample_weight=sample_weight, **self._named(classes)
        )
        self._model = face
        return found

    def _named(self, classes: Any) -> dict[str, Any]:
        if classes is not None and self.task != "classification":
            raise ValueError(f"classes= is for classification; this task is {self.task!r}.")
        return {"classes": classes} if self.task == "classification" else {}

    @guarded
    def learn_one(self, row: Any, y: Any = None) -> Self:
        """Learn one row."""
        face = self._face()
        face.learn_one(row, y)
        self._model = face
        return self

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, all of it or (should that fail) nothing.

        ``onkel.load(path)`` gives it back, and it goes on learning with the very same bits.

        Parameters
        ----------
        path : str or path
            A file that is there already is replaced, in one instant.
        """
        from onkel import files

        files.save(self, path)

    def _begun(self) -> Any:
        """Return what holds the learner, None before anything is learned."""
        return self.__dict__.get("_model")

    def _resume(self, settings: dict[str, Any], saved: Saved) -> None:
        """Become the fitted model that a file holds."""
        task = Saved(settings, "settings.").word("task", [*FACES])
        face = FACES[task](**{**self.get_params(), "task": task})
        face._resume(settings, saved)
        self._model = face

    # -- predicting and reporting ----------------------------------------------------------------

    @guarded
    def predict(self, X: Any) -> Array:
        """Return the label, the value, or -1 (an alert) and +1 for each row."""
        found: Array = self._face().predict(X)
        return found

    @guarded
    def predict_one(self, row: Any) -> Any:
        """Predict one row."""
        return self._face().predict_one(row)

    @property
    @guarded
    def weights_(self) -> Array:
        """The weight of each member now."""
        found: Array = self._face()._fitted().weights.copy()
        return found

    @property
    def members_(self) -> list[Estimator]:
        """The settings side by side, in the order of the weights; none of them has learned."""
        return list(self._face()._fitted().names)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the model has begun to learn."""
        return hasattr(self.__dict__.get("_model"), "_learner")

    def __sklearn_tags__(self) -> Any:
        """Describe this estimator to scikit-learn."""
        return self._face().__sklearn_tags__()


_COMMON = ("t_", "n_terms_", "diagnostics_", "n_features_in_", "feature_names_in_",
           "moments_", "check_params")  # fmt: skip
_OF_TASK = {
    "classification": (*_COMMON, "score", "classes_", "class_count_", "decision_function",
                       "predict_proba"),
    "regression": (*_COMMON, "score", "n_outputs_"),
    "novelty": (*_COMMON, "decision_function", "score_samples", "rank_samples", "score_one",
                "fit_predict", "threshold_", "offset_", "recent_"),
}  # fmt: skip
