"""Least squares as its users see it: standard deviations, intervals, rates, words."""

from __future__ import annotations

import copy
from statistics import NormalDist

import numpy as np
import pytest

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearRegressor,
    Regressor,
    expansions,
    files,
    kernels,
    losses,
    rules,
)
from onkel.judge import judge_of


def stream(rng, n=700):
    X = rng.normal(size=(n, 2)) * [1.0, 5.0] + 3
    return X, 50 + np.sin(2 * X[:, 0]) + (X[:, 1] - 3) / 5 + 0.2 * rng.normal(size=n)


def squares(nu=0.1, **more):
    rule = rules.RecursiveLeastSquares(nu=nu, **more)
    return KernelRegressor(kernels.Gaussian(0.5), "squared", rule, expansions.Centers(30))


MODELS = {
    "centres": squares,
    "linear": lambda nu=0.1: LinearRegressor("squared", rules.RecursiveLeastSquares(nu=nu)),
    "mixture": lambda nu=0.1: Regressor([squares(), LinearRegressor()], nu=nu),
}


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_standard_deviations_and_intervals(rng, name, targets):
    X, y = stream(rng)
    Y = y if targets == 1 else np.column_stack([y, -3 * y])
    model = MODELS[name](nu=0.2).fit(X, Y)
    shape = Y[:5].shape
    mean, std = model.predict(X[:5], return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X[:5]))
    assert std.shape == shape and np.all(std > 0)
    low, high = model.predict_interval(X[:5])
    assert low.shape == high.shape == shape
    np.testing.assert_allclose((low + high) / 2, mean)
    z = NormalDist().inv_cdf(0.9)
    low, high = model.predict_interval(X[:5], kind="gaussian")
    np.testing.assert_allclose([low, high], [mean - z * std, mean + z * std])


def test_a_standard_deviation_is_noise_and_what_is_not_known(rng):
    """Beside the textbook: ridge regression on all rows, in one go."""
    X, y = stream(rng, 300)
    rule = rules.RecursiveLeastSquares(memory=None, ridge=0.5)
    model = LinearRegressor("squared", rule, scale=False).fit(X, y)
    phi = np.column_stack([X, np.ones(len(X))])
    P = np.linalg.inv(phi.T @ phi + 0.5 * np.eye(3))
    noise = model.diagnostics_["noise"]
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, phi @ P @ phi.T @ y, rtol=1e-6)
    doubt = np.einsum("ij,jk,ik->i", phi, P, phi)
    np.testing.assert_allclose(std, noise * np.sqrt(1 + doubt), rtol=1e-6)
    far = model.predict([[3.0, 3.0], [300.0, 3.0]], return_std=True)[1]
    assert far[1] > 5 * far[0]


@pytest.mark.parametrize("name", MODELS)
def test_standard_deviations_are_those_of_errors(rng, name):
    X = rng.uniform(-1, 1, size=(2000, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=2000)
    model = MODELS[name]().fit(X[:1500], y[:1500])
    mean, std = model.predict(X[1500:], return_std=True)
    assert np.mean(((y[1500:] - mean) / std) ** 2) == pytest.approx(1.0, abs=0.25)


NOISE = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy": lambda rng, n: rng.standard_t(1.5, size=n),
    "switching": lambda rng, n: rng.normal(size=n) * np.where(np.arange(n) // 300 % 2, 5.0, 0.2),
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("name", ["centres", "linear"])
def test_coverage_is_what_the_identity_says(rng, name, noise):
    X = rng.normal(size=(1500, 2))
    y = X[:, 0] + NOISE[noise](rng, len(X))
    model = MODELS[name](nu=0.2)
    predicted, low, high = model.predict_then_learn(X, y, output="judgement")
    missed = np.mean((y < low) | (y > high))
    d = model.diagnostics_
    assert d["rate_promised"] == 0.2
    assert d["rate_realised"] == pytest.approx(missed, abs=1e-3)  # one on the very edge
    assert d["rate_error_term"] == pytest.approx(d["rate_realised"] - 0.2, abs=1e-9)
    assert "20 % of targets" in d["rate_in_words"]
    assert abs(missed - 0.2) < 0.02
    assert np.all((low <= predicted) & (predicted <= high))


@pytest.mark.parametrize("name", ["centres", "linear"])
def test_rows_and_blocks_show_the_same(rng, name):
    X, y = stream(rng, 300)
    whole, parts = MODELS[name](), MODELS[name]()
    want = whole.predict_then_learn(X, y, output="interval")
    found = []
    for start, stop in ((0, 1), (1, 2), (2, 40), (40, 41), (41, 300)):
        told = parts.predict_interval(X[start:stop]) if start > 1 and stop - start == 1 else None
        shown = parts.predict_then_learn(X[start:stop], y[start:stop], output="interval")
        if told is not None:
            np.testing.assert_allclose(told, shown, rtol=1e-9)
        found.append(shown)
        parts = files.loads(files.dumps(copy.copy(parts)))
    np.testing.assert_allclose(np.concatenate(found, axis=1), want, atol=1e-7)
    a, b = parts.diagnostics_, whole.diagnostics_
    for key in ("noise", "offset", "loss", "rate_realised", "centers_exchanged", "centers_cost"):
        assert a[key] == pytest.approx(b[key], abs=1e-9)


def test_exchanged_centres_are_reported(rng):
    X = np.cumsum(rng.normal(size=(3000, 2)), axis=0) * 0.1
    y = np.sin(X).sum(axis=1)
    d = squares().fit(X, y).diagnostics_
    assert d["centers_exchanged"] > 0 and d["centers_cost"] > 0 and d["noise"] > 0
    d = MODELS["linear"]().fit(X, y).diagnostics_
    assert d["centers_exchanged"] is None and d["centers_cost"] is None
    labels = KernelClassifier(rule="rls").fit(X[:200], y[:200] > 0).diagnostics_
    assert labels["rate_promised"] is None and labels["noise"] is not None


def test_models_without_a_standard_deviation_say_so(rng):
    X, y = stream(rng, 50)
    plain = KernelRegressor(loss=losses.Huber(nu=0.1)).fit(X, y)
    for ask in (
        lambda: plain.predict(X, return_std=True),
        lambda: plain.predict_interval(X, kind="gaussian"),
    ):
        with pytest.raises(ValueError, match=r"knows no standard deviation\. Use rule='rls'"):
            ask()
    with pytest.raises(ValueError, match="kind must be 'adaptive' or 'gaussian'; got 'normal'"):
        plain.predict_interval(X, kind="normal")
    with pytest.raises(ValueError, match="or rule='rls'; this KernelRegressor"):
        KernelRegressor().fit(X, y).predict_interval(X)


def test_faces_show_intervals_of_least_squares():
    shown = ["prediction", "low", "high", "target"]
    assert [*judge_of(squares()).fields()] == shown
    assert [*judge_of(LinearRegressor(rule="rls")).fields()] == shown


def test_members_are_called_what_they_are(rng):
    X, y = stream(rng, 60)
    bank = [
        squares(),
        squares(memory=500),
        LinearRegressor(rule=rules.RecursiveLeastSquares(memory=None)),
        KernelRegressor(kernels.Gaussian(0.5), expansion=expansions.Centers(20)),
        LinearRegressor(),
    ]
    found = Regressor(bank).fit(X, y).diagnostics_
    assert found["names"] == [
        "rls, 30 centres, Gaussian 1/d",
        "rls, 30 centres, Gaussian 1/d, memory 500",
        "rls, linear, forgets nothing",
        "Gaussian 1/d, 20 centres",
        "linear",
    ]
    assert "Leads now: " in found["in_words"]


def test_numbers_beside_centres_are_seen_around_their_means(rng):
    """Whatever the first row: they count for no more than eight spreads, from there."""
    X = rng.normal(size=(400, 2))
    X[0] = 50.0
    y = 3 * X[:, 0] - X[:, 1]
    centers = expansions.Centers(10, linear=True)
    model = KernelRegressor(kernels.Gaussian(0.5), "squared", "rls", centers).fit(X, y)
    assert np.abs(model.predict(X[1:]) - y[1:]).max() < 0.01
