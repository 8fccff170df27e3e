"""Merging: models that learned apart become one, which goes on learning.

>>> import numpy as np
>>> from onkel import KernelClassifier, merge
>>> X = np.random.default_rng(0).normal(size=(2000, 2))
>>> parts = [KernelClassifier(scale=False).fit(X[i::4], X[i::4, 0] > 0) for i in range(4)]
>>> whole = merge(parts)
>>> whole.t_, whole.merge_report_.models
(2000, 4)
>>> mean = sum(part.decision_function(X) for part in parts) / 4
>>> bool(np.allclose(whole.decision_function(X), mean))
True
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onkel import columns
from onkel.estimators import inside
from onkel.estimators.base import Estimator
from onkel.estimators.classes import Classes, common
from onkel.estimators.mixtures import Mixed
from onkel.learner import Learner, Merged, Settings, merged
from onkel.params import NON_NEGATIVE, Part

__all__ = ["MergeReport", "merge"]

Array = NDArray[Any]
Model = TypeVar("Model", bound=Estimator)


@dataclass(frozen=True)
class MergeReport:
    """What merging came to.

    ``abs(f(x) - sum w_j f_j(x)) <= bound * sqrt(k(x, x))`` for every x, once the coordinates are
    the same (fixed centres and weights: the length of the features takes the place of the root)
    """

    models: int
    """How many were merged."""
    weights: tuple[float, ...]
    """Of each."""
    terms_before: int
    """Terms (weights, centres) of all of them together."""
    terms_joined: int
    """How many were added to another one at the same point."""
    terms_dropped: int
    """How many the window could not hold."""
    terms: int
    """What is left."""
    bound: tuple[float, ...]
    """For each output, in the units of predictions: what dropping terms, scaling into a ball and
    a p-norm link may have changed; 0 if none of that happened."""
    change: tuple[float, ...] | None
    """Running scales: for each output the largest change of a score by pooling the moments, as
    measured at stored points (linear models: around the mean). None where nothing changed."""


def merge(
    models: Sequence[Model],
    weights: Sequence[float] | None = None,
    *,
    refit: bool = True,
    start: Model | None = None,
) -> Model:
    """Add models of the same kind and settings, and shrink the sum to their window.

    ``f = sum of w_j f_j``

    The models stay as they are. Decisions, scores and predictions add with the weights, and with
    them offsets and thresholds; regression's widths (epsilon, sigma) are averaged. Counts add, so
    that learning goes on as after that many examples. Mixtures add member by member, and the
    logarithms of their weights are averaged. The guide's page on merging has the rest.

    Parameters
    ----------
    models : sequence of estimators
        One or more, fitted, of one class and equal settings. float32 beside float64 gives float64.
        Of fleets, a key's models are merged, and keys that only one has are taken over.
    weights : sequence of float, optional
        Not negative, not all 0; used as they are. ``1/len(models)`` each if None.
    refit : bool
        Where the window cannot hold all terms: whether those that stay take over what the
        dropped ones gave, as far as they can. If not, that is lost, as when a window moves on.
    start : estimator, optional
        The model that all of them went on from, as it was then: what it had counted (examples,
        moments, classes) counts once, not once for each. None: each began alone.

    Returns
    -------
    estimator
        A new one, with the :class:`MergeReport` as its ``merge_report_``.

    Examples
    --------
    >>> from onkel import LinearRegressor
    >>> low = LinearRegressor(scale=False).fit([[1.0]], [1.0])
    >>> high = LinearRegressor(scale=False).fit([[1.0]], [3.0])
    >>> both = merge([low, high], weights=[0.25, 0.75])
    >>> mean = 0.25 * low.predict([[1.0]]) + 0.75 * high.predict([[1.0]])
    >>> bool(abs(both.predict([[1.0]]) - mean)[0] < 1e-12)
    True
    """
    if isinstance(models, (list, tuple)) and models and hasattr(models[0], "merged_with"):
        return models[0].merged_with(models[1:], weights, refit=refit, start=start)
    models = _checked(models)
    shares = _shares(weights, len(models))
    if not isinstance(refit, (bool, np.bool_)):
        raise ValueError(f"merge: refit must be True or False; got {refit!r}.")
    first = [] if start is None else _checked([start])
    with inside.held([*models, *first]):
        for j, model in enumerate(models):
            _check_alike(models[0], model, j)
        _check_start(models, first)
        learners, links, classes = _with_common_outputs([*models, *first])
        found = merged(learners[: len(models)], shares, bool(refit), *learners[len(models) :])
        whole = _whole(models, found, classes, _report(found, shares), first)
        return inside.with_link(whole, links, shares)


def _report(found: Merged, shares: Array) -> MergeReport:
    return MergeReport(
        models=len(shares),
        weights=tuple(shares.tolist()),
        terms_before=found.before,
        terms_joined=found.joined,
        terms_dropped=found.dropped,
        terms=found.learner.size,
        bound=tuple(found.bound.tolist()),
        change=None if found.change is None else tuple(found.change.tolist()),
    )


def _whole(
    models: list[Any], found: Merged, classes: Classes | None, report: MergeReport,
    start: list[Any],
) -> Any:  # fmt: skip
    """Return a model around the merged learner; all else is the first one's."""
    learned = {"merge_report_": report, **inside.counts_of_all(models, start)}
    names = [m.feature_names_in_ for m in models if hasattr(m, "feature_names_in_")]
    if names:
        learned["feature_names_in_"] = names[0].copy()
    tallies = [m.tally_ for m in models]
    if tallies[0] is not None:
        learned["_tally"] = columns.added(tallies, start[0].tally_ if start else None)
    return inside.around(models[0], found.learner, classes, **learned)


def _with_common_outputs(
    models: list[Any],
) -> tuple[list[Learner], list[Any], Classes | None]:
    """Return the learners with the same outputs, and their links; copies of what had others."""
    learners, links = [inside.learner_of(m) for m in models], [inside.link_of(m) for m in models]
    known = [c for c in map(inside.classes_of, models) if c is not None]
    if not known:
        return learners, links, None
    whole = common(known)
    for i, classes in enumerate(known):
        own = classes.copy()
        if (own.labels, own.binary) != (whole.labels, whole.binary):
            learners[i] = learners[i].copy()
            own.join(whole, inside.outputs_of(learners[i], links[i]))
    return learners, links, whole


# -- what can be merged ------------------------------------------------------------------------


def _checked(models: Any) -> list[Any]:
    """Return the models as a list, or say what is wrong with them."""
    if isinstance(models, Estimator) or not isinstance(models, Iterable):
        raise TypeError(
            f"merge: models must be a sequence of models; got {models!r}. Write merge([a, b])."
        )
    models = list(models)
    if not models:
        raise ValueError("merge: models must hold at least one model; got none.")
    for j, model in enumerate(models):
        if not isinstance(model, Estimator):
            raise TypeError(f"merge: model {j} must be an estimator of onkel; got {model!r}.")
        if type(model) is not type(models[0]):
            raise TypeError(
                f"merge: all models must be of one class; model 0 is a {type(models[0]).__name__}, "
                f"model {j} a {type(model).__name__}."
            )
        if not model.__sklearn_is_fitted__():
            raise ValueError(
                f"merge: model {j} ({model!r}) has not learned anything yet. Leave it out, or fit "
                "it first."
            )
        device = inside.learner_of(model).settings.device
        if device != "cpu":
            raise ValueError(
                f"merge: model {j} is on {device}; models are added on the CPU. Give copies that "
                "were moved there with to('cpu')."
            )
    return models


def _check_start(models: list[Any], start: list[Any]) -> None:
    """Refuse a start that the models cannot have gone on from."""
    for model in start:
        if type(model) is not type(models[0]):
            raise TypeError(
                f"merge: start must be a {type(models[0]).__name__} like the models; got {model!r}."
            )
        _check_alike(models[0], model, "start")
        behind = [j for j, other in enumerate(models) if other.t_ < model.t_]
        if behind:
            raise ValueError(
                f"merge: start has learned {model.t_} examples, model {behind[0]} only "
                f"{models[behind[0]].t_}. It must be the model that all of them went on from, "
                "as it was then."
            )


def _check_alike(first: Any, other: Any, j: int | str) -> None:
    """Refuse models that differ in anything but what they have learned."""
    if first.plan_ != other.plan_:
        raise ValueError(
            f"merge: the first rows of model 0 and of model {j} told other types of columns. Say "
            "what they are before learning: columns=Columns({name: type, ...})."
        )
    mine, theirs = _facts(first), _facts(other)
    for name in mine:
        found = _difference(name, mine[name], theirs.get(name))
        if found is not None:
            where, a, b = found
            part, _, inner = where.partition("__")
            names = first.get_params(deep=False)
            if part not in names and inner in names and not isinstance(first, Mixed):
                where = inner  # the detector's nu, the linear learners' p
            raise ValueError(
                f"merge: the models differ in {where}: model 0 has {a!r}, model {j} has {b!r}. "
                "Only models that agree in it can be added."
            )
    names, others = (getattr(m, "feature_names_in_", None) for m in (first, other))
    if names is not None and others is not None and not np.array_equal(names, others):
        raise ValueError(
            f"merge: the models differ in their feature names: model 0 has {list(names)}, model "
            f"{j} has {list(others)}. Only models of the same columns can be added."
        )


_OWN = {"class_weight": "class_weight", "warmup": "warmup", "recent": "recent",
        "n_outputs_": "the number of targets"}  # fmt: skip
"""What estimators have beside their learner's settings, and its name in messages."""


def _facts(model: Any) -> dict[str, Any]:
    """Return what models must agree in, by its name; parts as the learner has them."""
    learner: Any = inside.learner_of(model)
    found = {"the number of features": model.n_features_in_}
    if isinstance(model, Mixed):
        bank = learner.settled()
        found |= {"the number of members": len(bank), **learner.numbers()}
        for i, settings in enumerate(bank):
            parts = _parts(settings, settings.kernel.resolve(model.n_features_in_))
            found |= {f"members[{i}].{name}": part for name, part in parts.items()}
    else:
        found |= _parts(learner.settings, learner.kernel)
    return found | {word: getattr(model, name, None) for name, word in _OWN.items()}


def _parts(s: Settings, kernel: Any) -> dict[str, Any]:
    return {
        "kernel": kernel, "loss": s.loss, "rule": s.rule, "expansion": s.expansion,
        "scale": s.scale, "fit_intercept": s.intercept, "average": s.average, "missing": s.missing,
    }  # fmt: skip


def _difference(name: str, a: Any, b: Any) -> tuple[str, Any, Any] | None:
    """Return where two parameters differ, with both values; None if they are the same."""
    if isinstance(a, Part) and type(a) is type(b):
        mine, theirs = a.get_params(deep=False), b.get_params(deep=False)
        inner = (_difference(f"{name}__{n}", mine[n], theirs[n]) for n in mine)
        return next((found for found in inner if found is not None), None)
    same = a is b or ((type(a) is type(b) or _numbers(a, b)) and np.all(a == b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        same = np.array_equal(a, b)
    return None if same else (name, a, b)


def _numbers(a: Any, b: Any) -> bool:
    """Whether both are numbers, of whatever type."""
    kinds = (int, float, np.number)
    return isinstance(a, kinds) and isinstance(b, kinds)


def _shares(weights: Any, count: int) -> Array:
    """Return the weights as numbers, or say what is wrong with them."""
    if weights is None:
        return np.full(count, 1.0 / count)
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Iterable):
        raise ValueError(f"merge: weights must be {count} numbers or None; got {weights!r}.")
    weights = list(weights)
    if len(weights) != count:
        raise ValueError(f"merge: weights must be one for each of {count} models; got {weights!r}.")
    for j, weight in enumerate(weights):
        NON_NEGATIVE.check("merge", f"weights[{j}]", weight)
    shares = np.array(weights, np.float64)
    if not shares.sum() > 0:
        raise ValueError(f"merge: weights must not all be 0; got {weights!r}.")
    return shares
