"""Merging: pooled scales, clocks, floats."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.merge_models import fitted, labels, rows, two

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    expansions,
    kernels,
    merge,
    rules,
)

# -- scales ------------------------------------------------------------------------------------


def test_pooled_moments_are_those_of_all_rows(rng):
    parts = [rows(rng, n) + shift for n, shift in ((30, 0.0), (50, 3.0), (7, -20.0))]
    for part in parts:
        part[:, 2] = 4.25  # constant everywhere
    targets = [X[:, 0] ** 2 for X in parts]
    rule = rules.Norma(learning_rate=0.2, memory=math.inf)
    models = [
        KernelRegressor(rule=rule).partial_fit(X, y) for X, y in zip(parts, targets, strict=True)
    ]
    learner = merge(models)._learner
    everything, y = np.concatenate(parts), np.concatenate(targets)
    for moments, truth in ((learner.moments, everything), (learner.targets.moments, y[:, None])):
        assert np.allclose(moments.mean, truth.mean(axis=0), rtol=1e-12)
        assert np.allclose(moments.variance, truth.var(axis=0), rtol=1e-12, atol=1e-20)
        assert (moments.seen == 87).all()
    spreads = np.where(everything.std(axis=0) > 1e-9, everything.std(axis=0), 1.0)
    assert np.allclose(learner.frame.mean, everything.mean(axis=0))
    assert np.allclose(1 / (learner.frame.width * learner.frame.unit), spreads)
    assert np.allclose(learner.targets.spread, y.std())


def test_moments_that_forget_are_pooled_by_what_they_remember(rng):
    rule = rules.Norma(learning_rate=0.4, memory=40)
    models = [fitted(KernelClassifier(rule=rule), rng, n) for n in (200, 10)]
    moments = [m._learner.moments for m in models]
    share = np.array([40, 10]) / 50
    mean = share[0] * moments[0].mean + share[1] * moments[1].mean
    variance = sum(
        s * (m.variance + (m.mean - mean) ** 2) for s, m in zip(share, moments, strict=True)
    )
    whole = merge(models)._learner.moments
    assert np.allclose(whole.mean, mean) and np.allclose(whole.variance, variance)
    assert (whole.seen == 210).all()


def test_the_change_by_pooling_is_what_it_says(rng):
    a = fitted(KernelClassifier(), rng, 200)
    X = 3 * rows(rng, 300) + 1
    b = KernelClassifier().partial_fit(X, labels(X - 1))
    whole = merge([a, b])
    stored = np.concatenate([m._learner.terms.raw_rows() for m in (a, b)])
    mean = (a.decision_function(stored) + b.decision_function(stored)) / 2
    change = np.abs(whole.decision_function(stored) - mean).max()
    assert 0.01 < change < 10 and np.allclose(whole.merge_report_.change, change)


@pytest.mark.parametrize("make", [
    lambda: LinearClassifier(),
    lambda: KernelClassifier(expansion=expansions.Centers(np.eye(3))),
])  # fmt: skip
def test_the_change_is_measured_without_terms_too(make, rng):
    whole = merge([fitted(make(), rng, n) for n in (64, 100)])
    assert 0 < whole.merge_report_.change[0] < 2
    assert whole.merge_report_.bound == (0.0,)


def test_models_in_the_same_coordinates_keep_them(rng):
    X = rows(rng, 90)
    a = KernelRegressor().partial_fit(X, X[:, 0])
    b = KernelRegressor().partial_fit(X, 5 - 100 * X[:, 1])
    whole = merge([a, b], weights=[0.75, 0.25])
    assert whole.merge_report_.change is None
    mean = 0.75 * a.predict(X) + 0.25 * b.predict(X)
    assert np.allclose(whole.predict(X), mean, rtol=1e-9, atol=1e-9)


# -- clocks and gaps ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [KernelClassifier, LinearClassifier])
@pytest.mark.parametrize("average", [False, True])
def test_by_the_clock_all_are_brought_to_the_latest_time(make, average, rng):
    def model(last):
        clf = make(rule=rules.Norma(memory="1h"), scale=False, fit_intercept=False, average=average)
        X = rows(rng, 50)
        return clf.partial_fit(X, labels(X), time=np.linspace(last - 600, last, 50))

    early, late, X = model(1800.0), model(5400.0), rows(rng)
    whole = merge([early, late])
    left = 1.0 if average else math.exp(-1.0)  # what was is not forgotten, what is fades
    mean = 0.5 * left * early.decision_function(X) + 0.5 * late.decision_function(X)
    assert np.allclose(whole.decision_function(X), mean, atol=1e-12)
    with pytest.raises(ValueError, match="time runs backwards"):
        whole.partial_fit(X[:1], [1], time=[5000.0])
    whole.partial_fit(X, labels(X), time=np.full(len(X), 5401.0))
    assert whole.t_ == 160


def test_by_the_clock_moments_fade_before_they_are_pooled(rng):
    def model(last):
        clf = KernelClassifier(rule=rules.Norma(memory="1h"))
        X = rows(rng, 50) + last
        return clf.partial_fit(X, labels(X - last), time=np.full(50, last))

    models = [model(0.0), model(3600.0)]
    share = np.array([math.exp(-1.0), 1.0])
    share /= share.sum()
    means = [m._learner.moments.mean for m in models]
    assert np.allclose(merge(models)._learner.moments.mean, share @ np.array(means))


# -- floats ------------------------------------------------------------------------------------


def test_float32_beside_float64_gives_float64(rng):
    X = rows(rng, 80)
    a = KernelClassifier(scale=False).partial_fit(X[:40].astype(np.float32), labels(X[:40]))
    b = KernelClassifier(scale=False).partial_fit(X[40:], labels(X[40:]))
    for models in ([a, b], [b, a]):
        whole = merge(models)
        assert whole._learner.dtype == whole._learner.frame.dtype == np.float64
        mean = (a.decision_function(X) + b.decision_function(X)) / 2
        assert np.allclose(whole.decision_function(X), mean, atol=1e-5)
        fitted(whole, rng)
    assert merge([a, a])._learner.dtype == np.float32


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_far_from_the_first_models_centre_keep_their_digits(dtype, rng):
    far = np.array([1e5, -1e5, 3e4])
    clf = KernelClassifier(kernels.Gaussian(0.5), scale=False)
    near = clf.partial_fit(rows(rng, 5).astype(dtype), [1, -1, 1, -1, 1])
    X = (rows(rng, 90) + far).astype(dtype)
    away = KernelClassifier(kernels.Gaussian(0.5), scale=False).partial_fit(X, labels(X - far))
    whole = merge([near, away])
    mean = (near.decision_function(X) + away.decision_function(X)) / 2
    assert np.allclose(whole.decision_function(X), mean, atol=2e-5 if dtype == "float32" else 1e-11)


def test_weights_that_leave_the_floating_range_are_refused(rng):
    models = two(rng)
    for weight in (1e300, 1.7e308):
        with pytest.raises(ValueError, match="floating range"):
            merge(models, weights=[weight, 1.0])
