"""Every novelty detector of the comparison, behind one face.

As in adapters.py, but a step returns three columns: how unusual each row is by its score (the
higher, the more), how far that is beyond the threshold as it stood, and whether it is an alert (1
or 0). All are asked for alerts on a fraction NU of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from adapters import COMPONENTS, EVERY, FIRST, WINDOW, Method, Step
from feeds import Feed

from onkel import NoveltyDetector, kernels, rules

NU = 0.05
DEFAULT = "NoveltyDetector()"


def narrow(feed: Feed) -> NoveltyDetector:
    """Return a detector for features that move together: a narrower kernel, learning from more."""
    rule = rules.Norma(threshold_rate=3, support_rate=0.1)
    return NoveltyDetector(nu=NU, support=0.5, kernel=kernels.Gaussian(3 / feed.d), rule=rule)


def blocks(make: Callable[[Feed], NoveltyDetector], feed: Feed) -> Step:
    """Return onkel in blocks."""
    model = make(feed)

    def step(a: int, b: int) -> np.ndarray:
        scores, limits = model._learn(feed.X[a:b], None)  # both at once, from one pass
        beyond = (limits - scores)[:, 0]
        return np.column_stack([-scores[:, 0], beyond, beyond > 0])

    return step


def single(feed: Feed) -> Step:
    """Return onkel row by row."""
    model = NoveltyDetector(nu=NU)

    def judge(x: np.ndarray) -> tuple[float, float, bool]:
        if not model.__sklearn_is_fitted__():
            return 0.0, 0.0, False
        score, limit = model.score_one(x), model.threshold_
        return -score, limit - score, score < limit

    return one_by_one(judge, model.learn_one, list(feed.X))


def one_by_one(judge: Callable[[Any], Any], learn: Any, rows: list[Any]) -> Step:
    """Return a step for a pair of functions of one row."""

    def step(a: int, b: int) -> np.ndarray:
        found = []
        for x in rows[a:b]:
            found.append(judge(x))
            learn(x)
        return np.array(found, float)

    return step


def river(build: Callable[[Any, Feed], Any], feed: Feed) -> Step:
    """Return one of River's detectors behind its QuantileFilter, which makes alerts of scores."""
    from river import anomaly

    model = anomaly.QuantileFilter(build(anomaly, feed), q=1 - NU, protect_anomaly_detector=False)

    def judge(x: dict[int, float]) -> tuple[float, float, bool]:
        score, limit = model.score_one(x), model.quantile.get()
        return score, score - (limit or 0.0), model.classify(score)

    return one_by_one(judge, model.learn_one, feed.dicts)


def half_space(anomaly: Any, feed: Feed) -> Any:
    """Return half-space trees; they want to know the limits of each (standardised) feature."""
    limits = dict.fromkeys(range(feed.d), (-4.0, 4.0))
    return anomaly.HalfSpaceTrees(limits=limits, seed=0)


def sgd_nystroem(feed: Feed) -> Step:
    """Return SGDOneClassSVM on Nystroem, whose points come from the first rows."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDOneClassSVM

    features = Nystroem(gamma=1 / feed.d, n_components=COMPONENTS, random_state=0)
    model = SGDOneClassSVM(nu=NU, random_state=0)

    def step(a: int, b: int) -> np.ndarray:
        if a == FIRST:
            model.partial_fit(features.fit_transform(feed.Z[:FIRST]))
        found = np.zeros((b - a, 3))
        for t in range(max(a, FIRST), b):
            x = features.transform(feed.Z[t : t + 1])
            decision, limit = model.decision_function(x)[0], model.offset_[0]
            found[t - a] = -decision - limit, -decision, decision < 0
            model.partial_fit(x)
        return found

    return step


def one_class(feed: Feed) -> Step:
    """Return OneClassSVM, refitted on a sliding window."""
    from sklearn.svm import OneClassSVM

    model: Any = None

    def step(a: int, b: int) -> np.ndarray:
        nonlocal model
        found = np.zeros((b - a, 3))
        if model is not None:
            decision = model.decision_function(feed.Z[a:b])
            found = np.column_stack([-decision - model.offset_, -decision, decision < 0])
        model = OneClassSVM(nu=NU, gamma=1 / feed.d).fit(feed.Z[max(0, b - WINDOW) : b])
        return found

    return step


METHODS: list[Method] = [
    Method(DEFAULT, "onkel", partial(blocks, lambda feed: NoveltyDetector(nu=NU)), chunk=1000),
    Method("NoveltyDetector(support=0.5), gamma = 3/d", "onkel", partial(blocks, narrow),
           chunk=1000),
    Method("NoveltyDetector(), row by row", "onkel", single),
    Method("half-space trees", "River", partial(river, half_space), "river"),
    Method("one-class SVM (linear)", "River",
           partial(river, lambda anomaly, feed: anomaly.OneClassSVM(nu=NU)), "river"),
    Method("SGDOneClassSVM on Nystroem", "scikit-learn", sgd_nystroem, "sklearn", chunk=EVERY),
    Method("OneClassSVM, sliding window", "scikit-learn", one_class, "sklearn", chunk=EVERY),
]  # fmt: skip
