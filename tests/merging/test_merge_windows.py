"""Merging: terms at the same point, what the window keeps, what takes over."""

from __future__ import annotations

import math
import pickle

import naive
import numpy as np
import pytest
from helpers.merge_models import fitted, labels, rows, two

from onkel import (
    KernelClassifier,
    KernelRegressor,
    expansions,
    kernels,
    losses,
    merge,
    rules,
    schedules,
)
from onkel.core.layout import Field

# -- the same point twice ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [False, True])
def test_terms_at_the_same_point_add(scale, dtype, rng):
    X = (rows(rng, 40) + 7.3).astype(dtype)
    y = labels(X - 7.3)
    X[:, 2] = 0.1  # the same in all rows: nothing but rounding tells them apart there
    kwargs = {
        "rule": rules.Norma(learning_rate=0.3, memory=1e6),
        "loss": losses.SoftMargin(margin=9),
    }
    a = KernelClassifier(scale=scale, **kwargs).partial_fit(X, y)
    b = KernelClassifier(scale=scale, **kwargs).partial_fit(X[::-1], y[::-1])
    whole = merge([a, b])
    assert a.n_terms_ == b.n_terms_ == whole.n_terms_ == 40
    assert whole.merge_report_.terms_joined == 40
    if not scale:
        mean = (a.decision_function(X) + b.decision_function(X)) / 2
        assert np.allclose(
            whole.decision_function(X), mean, atol=1e-5 if dtype == "float32" else 1e-12
        )
    births = whole._learner.terms.births_from(0, 40)
    clock = naive.interleaved([40, 40])
    newest = [max(clock[0, i], clock[1, 41 - i]) for i in range(1, 41)]
    assert births.tolist() == sorted(newest)


def test_a_model_added_to_itself_is_itself(rng):
    model, X = fitted(KernelClassifier(), rng, 200), rows(rng)
    whole = merge([model, model, pickle.loads(pickle.dumps(model))])
    assert whole.n_terms_ == model.n_terms_ and whole.t_ == 600
    assert np.allclose(whole.decision_function(X), model.decision_function(X), atol=1e-12)


def test_texts_add_too():
    def model(texts, y):
        return KernelClassifier(kernels.Spectrum(2), scale=False).partial_fit(texts, y)

    a = model(["abab", "xyxy", "abba"], [1, 0, 1])
    b = model(["xyxy", "abab", "cdcd"], [1, 0, 1])
    whole = merge([a, b], weights=[0.3, 0.7])
    probe = ["abab", "xyxy", "abxy", "cd", ""]
    mean = 0.3 * a.decision_function(probe) + 0.7 * b.decision_function(probe)
    assert np.allclose(whole.decision_function(probe), mean, atol=1e-14)
    assert whole.merge_report_.terms_before == 6 and whole.n_terms_ == 4
    whole.partial_fit(["abab"], [0])
    assert whole.t_ == 7


# -- the window --------------------------------------------------------------------------------


def test_the_bound_is_met_where_one_term_goes():
    """One term is dropped: at its own place the error is its coefficient, which is the bound."""

    def model(x, y, n=1):
        rule = rules.Norma(learning_rate=0.5, regularization=0.0)
        window = expansions.Window(terms=2)
        clf = KernelClassifier(kernels.Gaussian(1.0), rule=rule, expansion=window, scale=False,
                               fit_intercept=False)  # fmt: skip
        return clf.partial_fit([[x], [x + 50.0]][:n], [y, y][:n], classes=[0, 1])

    a, b = model(0.0, 1), model(100.0, 1, n=2)  # three terms, far apart; two may stay
    whole = merge([a, b], weights=[0.8, 0.2])
    report = whole.merge_report_
    # On the common clock: b's first (age 1), then a's and b's of age 0.
    assert report.terms_dropped == 1 and whole.n_terms_ == 2
    place = np.array([[100.0]])
    gap = 0.8 * a.decision_function(place) + 0.2 * b.decision_function(place)
    gap = np.abs(whole.decision_function(place) - gap)
    assert np.allclose(report.bound, 0.2 * 0.5) and np.allclose(gap, report.bound)
    assert np.isclose(whole.diagnostics_["truncation_bound"], report.bound[0])


def test_the_oldest_of_all_go_first(rng):
    def model(n, **window):
        clf = KernelClassifier(
            loss=losses.SoftMargin(margin=1e6), expansion=expansions.Window(**window), scale=False
        )
        return fitted(clf, rng, n)

    for window, left in (({"terms": 15}, 15), ({"age": 12}, 12), ({"age": 12, "terms": 5}, 5)):
        models = [model(n, **window) for n in (40, 25, 30)]
        whole = merge(models)
        clock = naive.interleaved([40, 25, 30])
        births = whole._learner.terms.births_from(0, whole.n_terms_)
        assert births.tolist() == list(range(95 - left + 1, 96))
        newest = sorted(clock, key=clock.get)[-left:]
        stored = whole._learner.terms.raw_rows()
        for row, (j, trial) in zip(stored, newest, strict=True):
            own = models[j]._learner.terms
            at = own.births_from(0, own.count).tolist().index(trial)
            assert np.allclose(row, own.raw_rows()[at])


def test_the_growing_window_holds_what_its_theorem_says(rng):
    rule = rules.Norma(learning_rate=schedules.InverseSqrt(0.9), regularization=1.0)
    params = {"rule": rule, "expansion": expansions.Window(growth=0.4), "scale": False,
              "loss": losses.SoftMargin(margin=100.0)}  # fmt: skip
    models = [fitted(KernelClassifier(**params), rng, n) for n in (100, 120)]
    whole = merge(models)
    window = whole._learner.window
    assert whole.n_terms_ == int(window.ages(np.array([221]))[0])
    fitted(whole, rng)
    assert whole.n_terms_ <= int(window.ages(np.array([281]))[0])


def rkhs_gap(models, weights, whole):
    """The norm of f - sum w_j f_j over all pairs of terms, by plain loops."""
    terms = []
    for model, weight in zip([*models, whole], [*weights, -1.0], strict=True):
        held = model._learner.terms
        coef = held.coefs(0, held.count)[:, 0] * model._learner.state[0, Field.SCALE] * weight
        terms += list(zip(held.raw_rows(), coef, strict=True))
    k = naive.gaussian(1 / 3)
    return math.sqrt(max(0.0, sum(a * b * k(x, z) for x, a in terms for z, b in terms)))


def test_terms_that_stay_take_over_from_those_that_go(rng):
    models = two(rng, n=40, expansion=expansions.Window(terms=15))
    dropped, refit = (merge(models, refit=on) for on in (False, True))
    X, mean = rows(rng), [0.5, 0.5]
    assert dropped.n_terms_ == refit.n_terms_ == 15
    gaps = [rkhs_gap(models, mean, m) for m in (dropped, refit)]
    assert gaps[1] < 0.97 * gaps[0]  # 0.73 to 0.94, by the seed
    assert np.isclose(refit.merge_report_.bound[0], gaps[1], rtol=1e-6)
    assert dropped.merge_report_.bound[0] >= gaps[0]
    # The nearest f of all that these points can make, by solving for it.
    held = refit._learner.terms
    points = held.raw_rows()
    asked = np.mean([m.decision_function(points) for m in models], axis=0)
    asked = asked - np.mean([m.diagnostics_["offset"] for m in models])
    best = np.linalg.solve(kernels.Gaussian(1 / 3)(points), asked)
    assert np.allclose(held.coefs(0, 15)[:, 0], best, rtol=1e-5, atol=1e-7)
    assert held.births_from(0, 15).tolist() == dropped._learner.terms.births_from(0, 15).tolist()
    fitted(refit, rng)
    assert np.all(np.isfinite(refit.decision_function(X)))


@pytest.mark.parametrize("params", [
    {"average": True}, {"loss": "logistic"},
    {"kernel": kernels.Additive(kernels.Exponential()), "expansion": expansions.Tree(terms=200)},
])  # fmt: skip
def test_full_windows_merge_into_one_without_losing_what_they_know(params, rng):
    params = {"expansion": expansions.Window(terms=200), **params}

    def model(n):
        X = rng.normal(size=(n, 2))
        return KernelClassifier(scale=False, **params).partial_fit(X, labels(X))

    parts, X = [model(1500) for _ in range(4)], rng.normal(size=(1000, 2))
    mean = np.mean([m.decision_function(X) for m in parts], axis=0)
    whole = merge(parts)
    assert whole.n_terms_ == 200 and whole.merge_report_.terms_dropped > 200
    gap = np.abs(whole.decision_function(X) - mean)
    size = 1.0 if "kernel" not in params else math.sqrt(2.0)
    assert np.all(gap <= whole.merge_report_.bound[0] * size + 1e-9)
    assert gap.max() < 0.2 * np.abs(mean).max()
    plain = np.abs(merge(parts, refit=False).decision_function(X) - mean)
    assert gap.mean() < 0.3 * plain.mean()


def test_texts_take_over_too(rng):
    def model(texts, y):
        clf = KernelClassifier(
            kernels.Spectrum(2), scale=False, expansion=expansions.Window(terms=4)
        )
        return clf.partial_fit(texts, y)

    a = model(["abab", "xyxy", "abba", "xxyy"], [1, 0, 1, 0])
    b = model(["babb", "yxyx", "aabb", "yyxx"], [1, 0, 1, 0])
    probe = ["abab", "xyxy", "abxy"]
    mean = (a.decision_function(probe) + b.decision_function(probe)) / 2
    gaps = [
        np.abs(merge([a, b], refit=on).decision_function(probe) - mean).max()
        for on in (False, True)
    ]
    assert gaps[1] < gaps[0]


def test_refit_is_checked(rng):
    with pytest.raises(ValueError, match="refit must be True or False; got 'yes'"):
        merge(two(rng), refit="yes")


def test_truncation_bounds_add(rng):
    models = two(rng, n=100, expansion=expansions.Window(terms=20))
    bounds = [m.diagnostics_["truncation_bound"] for m in models]
    whole = merge(models, weights=[0.3, 0.4])
    assert min(bounds) > 0
    lost = whole.merge_report_.bound[0]
    expected = 0.3 * bounds[0] + 0.4 * bounds[1] + lost
    assert np.isclose(whole.diagnostics_["truncation_bound"], expected)
    assert whole.n_terms_ == 20 and whole.merge_report_.terms_dropped == 20


def test_f_stays_in_its_ball(rng):
    rule, loss = rules.Alma(learning_rate=0.5, radius=1.0), losses.SoftMargin(margin=0.5)
    models, X = two(rng, rule=rule, loss=loss), rows(rng)
    for weights in ([0.5, 0.5], [3.0, 2.0]):
        whole = merge(models, weights=weights)
        learner = whole._learner
        assert np.isclose(learner.norm2()[0], learner.state[0, Field.NORM2], rtol=1e-9)
        assert whole.diagnostics_["norm"] <= 1 + 1e-12
        asked = sum(w * m.decision_function(X) for w, m in zip(weights, models, strict=True))
        gap = np.abs(whole.decision_function(X) - asked).max()
        assert gap <= whole.merge_report_.bound[0] + 1e-12
        assert (gap > 0.1) == (sum(weights) > 1)


def test_trees_and_windows_merge_alike(rng):
    kernel = kernels.Additive(kernels.Exponential())
    X = np.round(rows(rng, 80), 1)  # many equal values: births must tell them apart
    found = []
    for expansion in (expansions.Window(terms=30), expansions.Tree(terms=30)):
        parts = [
            KernelRegressor(kernel, expansion=expansion).partial_fit(X[i::2], X[i::2, 0] ** 2)
            for i in range(2)
        ]
        whole = merge(parts)
        assert whole.n_terms_ == 30
        found.append([whole.predict(X), whole.predict_then_learn(X, X[:, 1])])
    assert np.allclose(*found, atol=1e-9)


def test_splines_in_trees_add(rng):
    def model(X):
        reg = KernelRegressor(
            kernels.Additive(kernels.Spline(1)), losses.EpsilonInsensitive(0.1), "projection",
            expansions.Tree(), scale=False,
        )  # fmt: skip
        return reg.partial_fit(X, X.sum(axis=1))

    X = rng.uniform(0, 2, size=(60, 2))
    models = [model(X[:30]), model(X[30:])]
    mean = (models[0].predict(X) + models[1].predict(X)) / 2
    assert np.allclose(merge(models).predict(X), mean, atol=1e-10)
