"""What onkel's other packages ask of an estimator beside its public methods, all in one place.

Nobody else need know it, and it may change with any version.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onkel.alerting import RecentScores
from onkel.columns import Encoded, Plan, Tally
from onkel.core.answers import Answers
from onkel.core.chances import Chances
from onkel.core.density_table import Count
from onkel.core.frame import effective
from onkel.core.precedents import Precedent
from onkel.estimators.base import Estimator
from onkel.estimators.chances import Outputs
from onkel.estimators.classes import Classes
from onkel.estimators.classifier import BaseClassifier
from onkel.estimators.density_detector import Detector
from onkel.estimators.detector import BaseDetector, so_far
from onkel.estimators.mixtures.base import Mixed
from onkel.estimators.mixtures.words import short_names
from onkel.estimators.regressor import BaseRegressor
from onkel.learner import Learner, Settings

Array = NDArray[Any]
Model = TypeVar("Model", bound=Estimator)


def learner_of(model: Estimator) -> Learner:
    """Return the learner of a model that has begun, else raise what scikit-learn knows."""
    return model._fitted()


def takes_texts(model: Estimator) -> bool:
    """Whether a model's rows are texts."""
    return model._takes()[0]


def settings_of(model: Estimator) -> list[Settings]:
    """Return what the parameters make a model of, all of them checked: of each member, if many."""
    return model._all_settings()


def classes_of(model: Estimator) -> Classes | None:
    """Return the classes of a classifier that has begun; None of other models."""
    return model._classes if isinstance(model, BaseClassifier) else None


def link_of(model: Estimator) -> Chances | None:
    """Return a copy of what makes odds of a classifier's scores; None of other models."""
    link = model._link if isinstance(model, BaseClassifier) else None
    return None if link is None else link.copy()


def outputs_of(learner: Learner, link: Chances | None) -> Outputs:
    """Return a learner and its link as one thing that outputs are added to."""
    return Outputs(learner, link)


def with_link(model: Model, links: list[Any], shares: Array) -> Model:
    """Give a merged model the mean of the models' links; a link more is that of their start."""
    if isinstance(model, BaseClassifier) and model._link is not None:
        count = len(shares)
        model._link = Chances.empty(1, links[0].outputs)
        start = links[count] if len(links) > count else None
        model._link.take_sum(links[:count], shares / shares.sum(), start)
    return model


@contextmanager
def held(models: Iterable[Estimator]) -> Iterator[None]:
    """Let no other call come to any of these models."""
    with ExitStack() as stack:  # in one order everywhere: no two calls wait for each other
        for lock in sorted({model._lock for model in models}, key=id):
            stack.enter_context(lock)
        yield


def around(first: Model, learner: Learner, classes: Classes | None = None, **learned: Any) -> Model:
    """Return a new model around a learner; all that is not given is the first one's."""
    whole = type(first)(**first.get_params(deep=False))
    own = {*first.get_params(deep=False), "_learner"}
    rest = {name: value for name, value in first.__getstate__().items() if name not in own}
    vars(whole).update(copy.deepcopy(rest))
    vars(whole).update(learned)
    whole._learner = learner
    if isinstance(whole, BaseClassifier) and classes is not None:
        whole._classes = classes
    return whole


def widened(model: Model, values: Array) -> Model:
    """Return the model for rows with more features, which had these values until now."""
    other = copy.copy(model)
    other._learner = model._wider(values)
    learned = {k: v for k, v in vars(other).items() if k.endswith("_")}
    vars(other).update(copy.deepcopy(learned))  # a single row changes some of them in place
    return other


def grown(model: Model, plan: Plan, values: Array) -> Model:
    """Return the model for rows of a plan that its own has grown to; as `widened`."""
    other = widened(model, values) if len(values) else copy.copy(model)
    assert model._tally is not None
    other._tally = model._tally.grown(plan)
    other.feature_names_in_ = np.array(plan.names, object)
    return other


def features_of(model: Estimator, plan: Plan) -> float:
    """Return how many features the rows of a table count as for a model."""
    if isinstance(model, Detector):
        return model._width_of(plan)
    return effective(len(plan.outputs), plan.apart)


def member_names(model: Mixed, features: float) -> list[str]:
    """Return a few words for each member that a mixture has for rows of so many features."""
    return short_names(model._chosen(features), features)


def counts_of_all(models: list[Model], start: list[Model]) -> dict[str, Any]:
    """Return what models have counted together, by the names of their attributes.

    `start` holds the model that all of them went on from, if there is one: it counts once.
    """
    return models[0]._counts_of_all(models, start)


def alert_counts(model: BaseDetector) -> tuple[float, float]:
    """Return the alerts of a detector since its warm-up, and the weight of the rows since then."""
    if isinstance(model, Detector):
        learner: Any = model._learner
        return learner.count(Count.ALERTS), learner.count(Count.JUDGED)
    since = so_far(model._learner) - model._counted_from()
    return float(since[1]), float(since[0])


def tells_alerts(model: BaseDetector) -> bool:
    """Whether a detector learns one row after another, and tells of an alert before that row."""
    return isinstance(model, Detector)


def judgement(
    model: BaseDetector, X: Any, heard: Callable[[int, Any], None] | None = None, **how: Any
) -> Array:
    """Let a detector judge rows and learn them: scores, thresholds, and 1 for an alert.

    `heard` is called with the number of each alert, and with the learner as it is just before it
    learns that row (of detectors that tell).
    """
    with model._lock:
        model._heard = heard
        try:
            return model.predict_then_learn(X, output="judgement", **how)
        finally:
            del model._heard


def at_alert(model: Model, learner: Any, tally: Tally | None, names: Any) -> Model:
    """Return a detector that is about to learn a row, as a model to ask; nothing is copied."""
    other = type(model).__new__(type(model))
    vars(other).update({k: v for k, v in vars(model).items() if k not in ("_one", "_heard")})
    vars(other).update(_learner=learner, _tally=tally)
    if names is not None and not hasattr(other, "feature_names_in_"):
        vars(other)["feature_names_in_"] = np.array(names, object)
    if not hasattr(other, "recent_"):
        vars(other)["recent_"] = RecentScores(1)
    return other


def precedent(model: BaseDetector, x: Any) -> Precedent | None:
    """Return the answered alert that decides of a row, were it the next one; None if none does."""
    return model._precedent(x, model._one_row(x, 1)[0])


def single_row(model: BaseDetector, x: Any, top: int) -> Any:
    """Return the row that is to be explained, checked, with its gaps."""
    model._one_row(x, top)
    return model._rows(model._as_rows(x, learner_of(model).on_strings))[0]


def was_answered(model: BaseDetector) -> bool:
    """Whether some alert of a detector was answered."""
    return isinstance(model, Detector) and len(model._learner.answers.born) > 0


def promised_by(model: Detector, features: int) -> Answers | None:
    """Return what a detector with a promised precision begins with; None of others."""
    promise = model._promise()
    if promise is None:
        return None
    return Answers.none(features, float(model.memory_of_feedback), promise, int(model.alerts_kept))


def answer(model: Detector, id: Any, answer: str, frame: Any = None) -> None:
    """Answer an alert as ``feedback`` does; `frame`: means and spreads in which it is looked at."""
    model._answer(id, answer, frame)


def ask_about(model: Detector, numbers: Array, rows: Array, scores: Array) -> None:
    """Let alerts be answered that others have raised on rows that a detector has learned.

    `numbers`: how many rows it had learned before each; `scores` are log p.
    """
    learner: Any = model._fitted()
    learner.answers = learner.answers.with_early(numbers, rows, scores)


def targets_of(model: BaseRegressor, y: Any) -> tuple[Array, bool]:
    """Return checked targets as a matrix, and whether they came as one number per row."""
    return model._targets(y)


def is_flat(model: BaseRegressor) -> bool:
    """Whether targets came as one number per row, not as rows of them."""
    return bool(model._flat)


def labels_of(model: BaseClassifier, y: Any) -> Array:
    """Return checked labels."""
    return model._labels(y, warn=False)


def has_interval(model: BaseRegressor) -> bool:
    """Return whether a model gives intervals."""
    return model._has_interval()


def outlook(model: BaseRegressor, X: Any) -> tuple[Array, Array, Array]:
    """Return predictions, and low and high of their intervals, of a model that has them."""
    with model._lock:
        return model._outlook(X)


def disagreement(model: BaseRegressor, X: Any) -> Array | None:
    """Return how far apart the members of a self-tuning regressor are, each by what it counts for.

    Their standard deviation, the mean over targets; None of a model of one setting.
    """
    if not isinstance(model, Mixed):
        return None
    with model._lock:
        mixture: Any = model._fitted()
        scores, weights = mixture.answers(model._rows(X)), mixture.influence.reshape(-1)
    weights = weights / weights.sum()
    mean = np.einsum("rmo,m->ro", scores, weights)[:, None]
    square = np.einsum("rmo,m->ro", (scores - mean) ** 2, weights)
    return np.asarray(np.sqrt(np.maximum(square, 0.0)).mean(axis=1))


def check_interval(model: BaseRegressor) -> None:
    """Raise what ``predict_interval`` would raise, were the model fitted."""
    model._check_interval()


def chances_of(model: BaseClassifier, row: Any) -> dict[Any, float]:
    """Return the probability of each class for one row; nothing before the first example."""
    lone = model._by_ones()
    if lone is None:
        return {}
    scores = model._look(row) if lone.targets else None
    if scores is not None:
        p = model._chances(model._classes, scores[None], model._told(scores[None]))[0].tolist()
        return dict(zip(lone.labels.tolist(), p, strict=True))
    labels = model.classes_.tolist()
    return dict(zip(labels, model.predict_proba([row])[0].tolist(), strict=True))


def rows_to_learn(model: Estimator, X: Any, plan: Plan | None = None) -> Any:
    """Return rows as a model would learn them, checked: a table's, a matrix, or texts.

    `plan` is what earlier rows have told of the columns, of a model that has not begun.
    """
    fresh = not hasattr(model, "_learner")
    settings = model._settings() if fresh else None
    if fresh and plan is not None:
        shown = copy.copy(model)
        shown._tally = Tally(plan)
        X = X if isinstance(X, Encoded) else shown._plan(X)
    X = model._encoded(X, fresh)
    rows = model._rows(X, settings)
    return X if isinstance(X, Encoded) else rows


def example_rows(model: Estimator) -> Any:
    """Return a row as those that a model has learned: so wide, of this type, with these names."""
    learner, plan = learner_of(model), model.plan_
    if learner.on_strings:
        return [""]
    if plan is not None:
        return [dict.fromkeys(plan.names, "")]
    rows = np.zeros((1, len(learner.moments.mean)), learner.dtype)
    names = getattr(model, "feature_names_in_", None)
    return rows if names is None else Named(rows, [*names])


class Named:
    """Rows with the names of their columns, as estimators read them off a frame."""

    def __init__(self, X: Array, columns: list[str]) -> None:
        self.X, self.columns, self.dtypes = X, columns, [X.dtype]

    def __len__(self) -> int:
        return len(self.X)

    def to_numpy(self) -> Array:
        """Return the rows alone."""
        return self.X
