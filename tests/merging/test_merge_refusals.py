"""Merging: what is refused, and in which words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.merge_models import fitted, rows, two

import onkel
from onkel import (
    KernelClassifier,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    expansions,
    kernels,
    losses,
    merge,
    rules,
    schedules,
)

# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "words"), [
    ({"kernel": kernels.Gaussian(0.5)}, r"kernel__gamma: model 0 has 0\.3333\S*, model 1 has 0\.5"),
    ({"kernel": "laplacian"}, r"kernel: model 0 has Gaussian.*model 1 has Laplacian"),
    ({"loss": losses.SoftMargin(margin=0.5)}, r"loss__margin: model 0 has None, model 1 has 0\.5"),
    ({"loss": "logistic"}, "loss: model 0 has SoftMargin"),
    ({"rule": rules.Norma(memory=1000)}, "rule__memory: model 0 has None, model 1 has 1000"),
    ({"rule": rules.Norma(learning_rate=schedules.InverseSqrt(1))}, "rule__learning_rate"),
    ({"rule": "romma"}, "rule: model 0 has Norma"),
    ({"expansion": expansions.Window(terms=5)}, "terms: model 0 has 'auto', model 1 has 5"),
    ({"scale": False}, "scale: model 0 has True, model 1 has False"),
    ({"average": True}, "average: model 0 has False, model 1 has True"),
    ({"fit_intercept": False}, "fit_intercept: model 0 has True, model 1 has False"),
    ({"missing": "mean"}, "missing: model 0 has 'error', model 1 has 'mean'"),
    ({"class_weight": "balanced"}, "class_weight: model 0 has None, model 1 has 'balanced'"),
])  # fmt: skip
def test_settings_must_agree(change, words, rng):
    with pytest.raises(ValueError, match=words):
        merge([fitted(KernelClassifier(), rng), fitted(KernelClassifier(**change), rng)])


def test_what_does_not_matter_may_differ(rng):
    a = fitted(KernelClassifier(n_jobs=1, passes=2), rng)
    b = fitted(KernelClassifier(kernel=kernels.Gaussian(1 / 3), rule=rules.Norma()), rng)
    assert merge([a, b]).t_ == 120


def test_names_of_the_users_own_parameters_are_used(rng):
    a, b = (NoveltyDetector(nu=nu).partial_fit(rows(rng)) for nu in (0.3, 0.2))
    with pytest.raises(ValueError, match=r"differ in nu: model 0 has 0\.3, model 1 has 0\.2"):
        merge([a, b])
    a, b = (fitted(LinearClassifier(p=p), rng) for p in (2.0, 3.0))
    with pytest.raises(ValueError, match=r"differ in p: model 0 has 2\.0, model 1 has 3\.0"):
        merge([a, b])


def test_own_functions_must_be_the_same_function(rng):
    def k(X, Z):
        return X @ Z.T

    a, b = (fitted(KernelClassifier(kernel=k, scale=False), rng) for _ in range(2))
    assert merge([a, b]).t_ == 120
    c = fitted(KernelClassifier(kernel=lambda X, Z: X @ Z.T, scale=False), rng)
    with pytest.raises(ValueError, match="kernel__function"):
        merge([a, c])


def test_only_fitted_models_of_one_class(rng):
    a = fitted(KernelClassifier(), rng)
    with pytest.raises(TypeError, match=r"Write merge\(\[a, b\]\)"):
        merge(a, a)
    with pytest.raises(TypeError, match="sequence of models; got 3"):
        merge(3)
    with pytest.raises(ValueError, match="at least one"):
        merge([])
    with pytest.raises(TypeError, match="model 1 must be an estimator of onkel; got 'no'"):
        merge([a, "no"])
    with pytest.raises(
        TypeError, match="model 0 is a KernelClassifier, model 1 a LinearClassifier"
    ):
        merge([a, fitted(LinearClassifier(), rng)])
    with pytest.raises(ValueError, match=r"model 1 .* has not learned anything yet"):
        merge([a, KernelClassifier()])


def test_rows_must_be_of_one_kind(rng):
    pd = pytest.importorskip("pandas")
    a = fitted(LinearRegressor(), rng)
    b = LinearRegressor().partial_fit(rows(rng, 20, d=2), np.arange(20.0))
    with pytest.raises(ValueError, match="the number of features: model 0 has 3, model 1 has 2"):
        merge([a, b])
    frames = [pd.DataFrame(rows(rng, 20), columns=list(names)) for names in ("abc", "acb")]
    c, d = (LinearRegressor().partial_fit(f, np.arange(20.0)) for f in frames)
    with pytest.raises(ValueError, match=r"feature names: model 0 has .*, model 1 has"):
        merge([c, d])
    assert merge([a, c]).feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(("weights", "words"), [
    ([1.0], "one for each of 2 models"),
    ("ab", "2 numbers or None; got 'ab'"),
    (0.5, "2 numbers or None; got 0.5"),
    ([1.0, -0.1], r"weights\[1\] must be a number in \[0, inf\); got -0.1"),
    ([math.nan, 1.0], r"weights\[0\]"),
    ([math.inf, 1.0], r"weights\[0\]"),
    (["1", 1.0], r"weights\[0\]"),
    ([0, 0], "not all be 0"),
])  # fmt: skip
def test_weights_are_checked(weights, words, rng):
    with pytest.raises(ValueError, match=words):
        merge(two(rng), weights)


def test_it_is_public():
    assert "merge" in onkel.__all__ and onkel.merge is merge
