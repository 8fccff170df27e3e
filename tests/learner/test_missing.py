"""missing="mean": what has not come stands for the feature's mean, and counts for nothing."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.sizes import size

from onkel import KernelClassifier, KernelRegressor, LinearClassifier, NoveltyDetector, rules
from onkel.scaling import Moments, next_refresh

ROWS = size(150, 300)
MEMORY = 80.0


def stream(rng, dtype=float):
    X = rng.normal(size=(ROWS, 3)) * [1.0, 20.0, 0.1] + [5.0, 0.0, -3.0]
    y = np.where(X[:, 0] + 0.05 * X[:, 1] > 5, 1, -1)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[0, 1] = np.nan  # a feature that the first row does not have
    X[:30, 2] = np.nan  # and one that comes late
    return X.astype(dtype), y


def filled(X, memory):
    """Each NaN by the mean, at the last refresh, of what had come of its feature; 0 before."""
    out, mean, came, means = X.copy(), np.zeros(X.shape[1]), np.zeros(X.shape[1]), None
    means = np.zeros(X.shape[1])
    for t, row in enumerate(X, start=1):
        out[t - 1] = np.where(np.isnan(row), means, row)
        for j, value in enumerate(row):
            if not np.isnan(value):
                came[j] += 1
                mean[j] += (value - mean[j]) / min(came[j], memory)
        if next_refresh(t - 1, memory) == t:
            means = mean.copy()
    return out


MODELS = [
    KernelClassifier(rule=rules.Norma(learning_rate=0.3, memory=MEMORY), missing="mean"),
    LinearClassifier(rule=rules.Norma(learning_rate=0.3, memory=MEMORY), missing="mean"),
    NoveltyDetector(nu=0.2, rule=rules.Norma(learning_rate=0.3, memory=MEMORY), missing="mean"),
]


def of(model, **changes):
    return type(model)(**{**model.get_params(deep=False), **changes})


@pytest.mark.few
@pytest.mark.parametrize("size", [1, 13, ROWS])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_equals_a_model_whose_rows_were_filled(rng, model, size):
    X, y = stream(rng)
    ours, theirs = of(model, scale=False), of(model, scale=False, missing="error")
    for i in range(0, ROWS, size):
        ours.partial_fit(X[i : i + size], y[i : i + size])
    whole = filled(X, MEMORY)
    theirs.partial_fit(whole, y)
    np.testing.assert_allclose(
        ours.decision_function(whole), theirs.decision_function(whole), rtol=1e-9, atol=1e-11
    )
    gaps = np.where(np.arange(3) == 1, np.nan, X[:1] * 0 + 4.0)
    means = np.where(np.isnan(gaps), ours._learner.means, gaps)
    np.testing.assert_allclose(ours.decision_function(gaps), theirs.decision_function(means))


@pytest.mark.few
@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_any_blocks_give_the_same_with_scale(rng, model, size, dtype):
    X, y = stream(rng, dtype)
    whole, parts = of(model).partial_fit(X, y), of(model)
    for i in range(0, ROWS, size):
        if size == 1 and i % 3:
            parts.learn_one(X[i], y[i])
        else:
            parts.partial_fit(X[i : i + size], y[i : i + size])
    tolerance = 1e-9 if dtype == np.float64 else 3e-3
    assert parts.t_ == whole.t_ == ROWS
    np.testing.assert_allclose(
        parts.decision_function(X), whole.decision_function(X), rtol=tolerance, atol=tolerance
    )
    np.testing.assert_allclose(parts._learner.moments.mean, whole._learner.moments.mean, rtol=1e-6)


def test_moments_are_of_what_came(rng):
    X, _ = stream(rng)
    moments = Moments(3, np.inf, 1e-16, gaps=True)
    moments.update(X[:100])
    moments.update(X[100:])
    np.testing.assert_allclose(moments.mean, np.nanmean(X, axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, np.nanvar(X, axis=0), rtol=1e-11)
    assert moments.seen.tolist() == (~np.isnan(X)).sum(axis=0).tolist()


def test_whole_rows_make_the_same_bits_either_way(rng):
    X = rng.normal(size=(200, 3))
    y = X[:, 0]
    a = KernelRegressor().predict_then_learn(X, y)
    b = KernelRegressor(missing="mean").predict_then_learn(X, y)
    assert a.tobytes() == b.tobytes()


def test_predicting_changes_nothing_and_nan_is_still_refused_by_default(rng):
    X, y = stream(rng)
    model = of(MODELS[0]).partial_fit(X, y)
    before = pickle.dumps(model)
    model.predict(X)
    model.predict_one(X[0])
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match=r"NaN.*missing='mean'"):
        KernelClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"missing must be 'error' or 'mean'; got 'median'"):
        KernelClassifier(missing="median").partial_fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(np.full((1, 3), np.inf), [1])
    assert pickle.dumps(model) == before


def test_a_stream_of_nothing_but_gaps(rng):
    model = NoveltyDetector(missing="mean")
    alerts = model.predict_then_learn(np.full((50, 2), np.nan)) == -1
    assert alerts.mean() <= 0.1  # the promised rate, of rows that are all the same
    assert np.isfinite(model.score_samples([[1.0, np.nan]])).all()


def test_an_explanation_reads_what_stands_in(rng):
    X, _ = stream(rng)
    model = of(MODELS[2]).partial_fit(X)
    row = np.array([5.0, np.nan, -3.0])
    told = model.explain(row)
    whole = model.explain(np.where(np.isnan(row), model._learner.means, row))
    assert told.to_dict() == whole.to_dict()
