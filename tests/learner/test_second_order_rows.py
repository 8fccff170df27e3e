"""Recursive least squares on rows: wider, mixed, with gaps, constant, far away, by the clock."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.fingerprint import fingerprint
from helpers.sizes import size
from helpers.squares import ALWAYS, MODELS, centred, linear, same_to_rounding, stream

from onkel import Columns, files, kernels, rules
from onkel.core import covariance
from onkel.estimators.inside import learner_of, widened


@pytest.mark.parametrize("make", [linear, centred])
def test_wider_rows(make, rng):
    """A feature that was constant so far; where rows forget, fewer features forget faster."""
    X, y = stream(rng, 900)
    for narrow in size((100, 700), (1, 100, 700)):
        model = make(rule=ALWAYS)
        if make is centred:
            model.set_params(kernel=kernels.Gaussian(0.3))
        whole = pickle.loads(pickle.dumps(model))
        model.partial_fit(X[:narrow, :2], y[:narrow])
        constant = X.copy()
        constant[:narrow, 2] = 7.0
        model = widened(model, np.array([7.0]))
        model.partial_fit(X[narrow:], y[narrow:])
        whole.partial_fit(constant, y)
        np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-4, atol=1e-3)
        assert files.dumps(files.loads(files.dumps(model))) == files.dumps(model)


def test_codes_under_centres(rng):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": rng.choice(["x", "y", "z"], 800), "b": rng.normal(size=800)})
    y = table["b"] + (table["a"] == "x")
    model = centred(20, ALWAYS, columns=Columns({"a": "category", "b": "number"}))
    errors = np.abs(model.predict_then_learn(table, y) - y)
    assert np.mean(errors[500:]) < 0.1
    loaded = learner_of(files.loads(files.dumps(model)))
    assert fingerprint(loaded) == fingerprint(learner_of(model))
    with pytest.raises(ValueError, match="Centers"):
        linear(columns=Columns({"a": "category", "b": "number"})).partial_fit(table, y)


@pytest.mark.parametrize("name", ["weights", "centres"])
def test_missing_values(name, rng):
    X, y = stream(rng, 900)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[0, 0] = np.nan
    model, other = (MODELS[name]().set_params(missing="mean") for _ in range(2))
    shown = model.predict_then_learn(X, y)
    parts = [other.predict_then_learn(X[i : i + 30], y[i : i + 30]) for i in range(0, 900, 30)]
    np.testing.assert_allclose(np.concatenate(parts), shown, rtol=1e-6, atol=1e-6)
    assert np.all(np.isfinite(model.predict(X)))
    assert fingerprint(files.loads(files.dumps(model))) == fingerprint(model)


@pytest.mark.parametrize("name", size(("weights, raw", "centres"), tuple(MODELS)))
def test_single_precision(name, rng):
    X, y = stream(rng, 700)
    small = MODELS[name]().partial_fit(X.astype("f4"), y)
    large = MODELS[name]().partial_fit(X.astype("f4").astype(float), y)
    assert np.abs(small.predict(X.astype("f4")) - large.predict(X)).mean() < 0.02
    assert fingerprint(files.loads(files.dumps(small))) == fingerprint(small)


@pytest.mark.parametrize("name", size(("weights, raw", "centres"), tuple(MODELS)))
def test_odd_rows(name, rng):
    X, y = stream(rng, 700)
    odd = {
        "constant": np.ones_like(X),
        "one constant": X * [1, 0, 1],
        "collinear": X[:, [0, 0, 0]] * [1, 2, -3],
        "huge": X * 1e100,
        "tiny": X * 1e-100,
        "far": X + 1e8,
        "few": X[np.arange(700) % 3],
        "one feature": X[:, :1] if name != "points" else X,
    }
    for kind, rows in odd.items():
        model = MODELS[name]()
        if kind in ("huge", "far") and name == "weights, raw":
            with pytest.raises(ValueError, match="scale=True"):
                model.partial_fit(rows, y)
            continue
        shown = model.predict_then_learn(rows, y)
        learner = learner_of(model)
        assert np.all(np.isfinite(shown)), kind
        assert covariance.is_sound(learner.cov), kind
        assert np.diagonal(learner.cov).max() <= learner.rule.most * (1 + 1e-9), kind
        assert np.abs(shown[300:] - y[300:]).mean() < 1.5 * np.abs(y[300:] - y.mean()).mean(), kind
        assert fingerprint(files.loads(files.dumps(model))) == fingerprint(model), kind


def test_an_empty_call_and_fewer_rows_than_centres(rng):
    X, y = stream(rng, 20)
    model = centred(100).fit(X, y)
    assert learner_of(model).size == 16 + 3  # chosen after 1, 2, 4, ... rows
    before = fingerprint(learner_of(model))
    learner_of(model).learn(X[:0], y[:0, None], np.ones(0))
    assert fingerprint(learner_of(model)) == before


def test_weights_of_rows(rng):
    """A row that counts twice is the row twice, but for what is forgotten."""
    X, y = stream(rng, 200)
    weight = rng.integers(1, 4, 200)
    one = linear(scale=False).partial_fit(X, y, sample_weight=weight)
    other = linear(scale=False).partial_fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    same_to_rounding(one, other, 1e-5)
    whole = centred().partial_fit(X, y, sample_weight=weight)
    part = centred()
    for i in range(0, 200, 9):
        part.partial_fit(X[i : i + 9], y[i : i + 9], sample_weight=weight[i : i + 9])
    same_to_rounding(part, whole, 1e-5)


@pytest.mark.parametrize("make", [linear, centred])
def test_forgetting_by_the_clock(make, rng):
    X, y = stream(rng, 900)
    y[450:] += 5 * X[450:, 0]
    hours = rules.RecursiveLeastSquares(memory="50h")
    times = np.arange(900) * 3600.0
    by_clock, by_rows = make(rule=hours), make(rule=rules.RecursiveLeastSquares(memory=50))
    by_clock.partial_fit(X, y, time=times)
    by_rows.partial_fit(X, y)
    np.testing.assert_allclose(by_clock.predict(X[-50:]), by_rows.predict(X[-50:]), atol=3.0)
    part = make(rule=hours)
    for i in range(0, 900, 70):
        part.partial_fit(X[i : i + 70], y[i : i + 70], time=times[i : i + 70])
    same_to_rounding(part, by_clock, 1e-4)
    still = make(rule=hours).partial_fit(X, y, time=np.zeros(900))
    same_to_rounding(still, make().set_params(rule=ALWAYS).partial_fit(X, y), 1e-4)
