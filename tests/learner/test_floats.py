"""Floats misbehave on streams: constant features, huge and tiny scales, data far from zero."""

from __future__ import annotations

import naive
import numpy as np
import pytest

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    expansions,
    kernels,
    losses,
    rules,
)
from onkel.learner import Settings, TermLearner
from onkel.scaling import Moments, next_refresh


def test_constant_features_are_only_centred(rng):
    X = rng.normal(size=(500, 3))
    X[:, 1] = 0.1
    X[:, 2] = 1e9
    y = X[:, 0] > 0
    clf = KernelClassifier().partial_fit(X, y)
    scale = clf.diagnostics_["scale"]
    assert scale["means"][1:] == [0.1, 1e9]
    assert scale["spreads"][1:] == [1.0, 1.0]
    assert np.mean(clf.predict(X) == y) > 0.9
    # A feature that wakes up late is standardised from the next refresh on.
    X[:, 1] = rng.normal(size=500)
    clf.partial_fit(X, y)
    clf.partial_fit(X, y)
    assert clf.diagnostics_["scale"]["spreads"][1] != 1.0


@pytest.mark.parametrize("size", [1e-150, 1e-30, 1e30, 1e150])
@pytest.mark.parametrize("kind", [KernelClassifier, KernelRegressor, NoveltyDetector])
def test_scale_of_the_inputs_does_not_matter(rng, size, kind):
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    plain, scaled = kind(), kind()
    a = plain.predict_then_learn(X, y)
    b = scaled.predict_then_learn(X * size, y)
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(plain.predict(X), scaled.predict(X * size), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_scale_of_the_targets_does_not_matter(rng, size):
    X = rng.normal(size=(300, 2))
    y = np.sin(X[:, 0])
    a = KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.1))
    b = KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.1))
    one, two = a.predict_then_learn(X, y), b.predict_then_learn(X, y * size)
    np.testing.assert_allclose(one[1:], two[1:] / size, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(a.predict_interval(X)[1], b.predict_interval(X)[1] / size, rtol=1e-6)


def test_unscaled_huge_values_are_decided(rng):
    """Far rows have kernel 0 with each other under a Gaussian; a linear kernel refuses."""
    X = rng.normal(size=(50, 3))
    for dtype, size in ((np.float64, 1e150), (np.float32, 1e30)):
        det = NoveltyDetector(kernel=kernels.Gaussian(1.0), scale=False)
        det.partial_fit((X * size).astype(dtype))
        assert np.all(np.isfinite(det.score_samples((X * size).astype(dtype))))
    reg = KernelRegressor(kernel="linear", loss="squared", scale=False)
    with pytest.raises(ValueError, match="scale=True"):
        reg.fit((X * 1e25).astype(np.float32), X[:, 0])
    with pytest.raises(ValueError, match="beyond 1e\\+152"):
        reg.fit(X * 1e160, X[:, 0])


@pytest.mark.few
@pytest.mark.parametrize("features", [2, 3, 20])
@pytest.mark.parametrize(
    "pair",
    [
        (kernels.Gaussian(0.3), naive.gaussian(0.3)),
        (kernels.Matern(2.5, 1.5), naive.matern(2.5, 1.5)),
        (kernels.Laplacian(0.3), naive.laplacian(0.3)),
    ],
    ids=["gaussian", "matern", "laplacian"],
)
def test_float32_far_from_zero(rng, pair, features):
    """Offset 1e4, spread 1: the product form of the distance must be centred first."""
    kernel, truth = pair
    X = (1e4 + rng.normal(size=(80, features))).astype(np.float32)
    exact = np.array([[truth(a.astype(float), b.astype(float)) for b in X] for a in X])
    np.testing.assert_allclose(kernel(X, X), exact, rtol=1e-4, atol=2e-6)
    for scale in (False, True):
        det = NoveltyDetector(nu=0.1, kernel=kernel, scale=scale, rule=rules.Norma(memory=1000))
        wide = NoveltyDetector(nu=0.1, kernel=kernel, scale=scale, rule=rules.Norma(memory=1000))
        a = det.predict_then_learn(X, output="score")
        b = wide.predict_then_learn(X.astype(float), output="score")
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_float32_on_data_that_walk_away(rng):
    """The stored rows' centre follows the data, so that distances stay accurate."""
    X = np.cumsum(rng.normal(size=(5000, 8)) + 2.0, axis=0)
    settings = Settings(
        kernels.Gaussian(0.02), losses.Squared(), rules.Norma(learning_rate=0.2, memory=400),
        expansions.Window(terms=50), scale=False,
    )  # fmt: skip
    y = np.sin(X[:, :1] / 5)
    single = TermLearner(settings, 8, 1, np.float32)
    double = TermLearner(settings, 8, 1, np.float64)
    rows = X.astype(np.float32)
    a = single.learn(rows, y, np.ones(len(X)))[0]
    b = double.learn(rows.astype(float), y, np.ones(len(X)))[0]
    assert np.max(np.abs(a - b)) < 1e-3 * np.max(np.abs(b))


def test_an_outlier_does_not_spoil_stored_rows(rng):
    """One glitch of 1e9 in float32: when it is forgotten, old terms are what they were."""
    X = rng.normal(size=(300, 2)).astype(np.float32)
    det = NoveltyDetector(rule=rules.Norma(memory=40), expansion=expansions.Window(terms=None))
    det.partial_fit(X[:100])
    det.partial_fit(np.array([[1e9, 0.0]], np.float32))
    det.partial_fit(X[100:])
    stored = det._learner.terms.raw_rows()
    births = det._learner.terms.births_from(0, det.n_terms_)
    all_rows = np.concatenate([X[:100], [[1e9, 0.0]], X[100:]])
    np.testing.assert_allclose(stored, all_rows[births - 1], rtol=1e-4, atol=1e-3)


def test_moments_are_sequential_and_forget(rng):
    rows = rng.normal(size=(500, 3)) + np.linspace(0, 5, 500)[:, None]
    whole, cut = Moments(3, 100.0, 1e-16), Moments(3, 100.0, 1e-16)
    twin = naive.Moments(100.0, 1e-16)
    whole.update(rows)
    for part in np.split(rows, [1, 8, 300]):
        cut.update(part)
    for x in rows:
        twin.update(x)
    assert np.array_equal(whole.mean, cut.mean)
    assert np.array_equal(whole.variance, cut.variance)
    np.testing.assert_allclose(whole.mean, twin.mean, rtol=1e-12)
    np.testing.assert_allclose(whole.spread(), twin.spread(), rtol=1e-12)
    first = Moments(3, np.inf, 1e-16)
    first.update(rows)
    np.testing.assert_allclose(first.mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(first.spread(), rows.std(0), rtol=1e-12)


@pytest.mark.parametrize("memory", [1.0, 3.0, 10.0, 80.0, 1000.0, np.inf])
def test_refresh_times(memory):
    times = [t for t in range(1, 3000) if naive.is_refresh(t, memory)]
    ours, t = [], 0
    while (t := next_refresh(t, memory)) < 3000:
        ours.append(t)
    assert ours == times


@pytest.mark.parametrize("kind", [KernelClassifier, KernelRegressor, NoveltyDetector])
def test_identical_rows_for_ever(kind):
    X = np.full((2000, 2), 3.0)
    model = kind().partial_fit(X, np.zeros(2000, int))
    assert np.all(np.isfinite(model.predict(X[:2])))
    assert np.isfinite(model.diagnostics_["threshold"])


def test_zero_diagonal(rng):
    """k(x, x) = 0: a linear kernel at the origin, a string without substrings. No division."""
    reg = KernelRegressor(kernel="linear", loss="squared", scale=False)
    reg.partial_fit(np.zeros((5, 2)), np.ones(5))
    assert np.isfinite(reg.predict(np.ones((1, 2)))).all()
    clf = KernelClassifier(kernel=kernels.Spectrum(5)).partial_fit(["a", "bc", ""], [0, 1, 0])
    assert np.all(np.isfinite(clf.decision_function(["", "abcdef"])))


def test_long_run_stays_in_range(rng):
    """A shorter sister of experiments/long_run.py."""
    det = NoveltyDetector(nu=0.05, expansion=expansions.Window(age=1000))
    alerts = 0
    for _ in range(20):
        alerts += np.count_nonzero(det.predict_then_learn(rng.normal(size=(2000, 2))) == -1)
    assert abs(alerts / 40_000 - 0.05) < 0.002
    assert 0 < det.diagnostics_["threshold"] < 1e6
    assert det.n_terms_ <= 1000


@pytest.mark.parametrize("unit", [1e-150, 1e-6, 1e6])
@pytest.mark.parametrize("average", [False, True])
def test_units_do_not_matter_to_rules_that_divide(rng, unit, average):
    """Standardised inputs: a first row in raw units must not weigh for ever."""
    X = rng.normal(size=(400, 3))
    X[:5, 2] = X[0, 2]  # varies only later
    y, label = X[:, 0] - X[:, 1] + X[:, 2], np.sign(X[:, 0])
    for make in (
        lambda: LinearRegressor(rule="projection", loss="epsilon_insensitive", average=average),
        lambda: KernelRegressor(
            kernel="linear", rule="projection", loss="epsilon_insensitive", average=average
        ),
    ):
        a, b = make().predict_then_learn(X, y), make().predict_then_learn(X * unit, y)
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)
        assert average or np.abs(a - y)[200:].mean() < 0.2
    for rule in ("projection", "romma", "alma"):
        make = lambda rule=rule: LinearClassifier(rule=rule, average=average)
        a, b = (make().predict_then_learn(X * u, label, output="decision") for u in (1.0, unit))
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)


def test_the_row_that_brings_a_unit_was_predicted_without_it(rng):
    X = rng.normal(size=(3, 2)) * 1e-3
    model = KernelClassifier(rule="projection").partial_fit(X[:1], [1])
    shown = model.decision_function(X[1:2])
    assert model.predict_then_learn(X[1:2], [-1], output="decision") == shown
