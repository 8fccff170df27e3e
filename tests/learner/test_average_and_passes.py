"""The average hypothesis (N04 Corollary 5) and further passes (N01 (8))."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from helpers.sizes import size

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    NoveltyDetector,
    expansions,
    kernels,
    rules,
)


@pytest.mark.parametrize("memory", [3.0, 40.0, 1e6])
def test_average_is_the_mean_of_all_hypotheses(rng, memory):
    """Folds come often with a short memory; the difference S - S_born must not cancel."""
    X, y = rng.normal(size=(150, 2)), rng.integers(0, 2, 150)
    rule = rules.Norma(learning_rate=0.4, memory=memory)
    window = expansions.Window(terms=None)
    average = KernelClassifier(rule=rule, expansion=window, scale=False, average=True)
    plain = KernelClassifier(rule=rule, expansion=window, scale=False)
    probe, total = rng.normal(size=(5, 2)), np.zeros(5)
    for i in range(150):
        if i:
            total += plain.decision_function(probe)
        plain.partial_fit(X[i : i + 1], y[i : i + 1])
    average.partial_fit(X, y)
    np.testing.assert_allclose(average.decision_function(probe), total / 150, rtol=0, atol=1e-13)


def test_average_of_a_window_is_within_its_bound(rng):
    X, y = rng.normal(size=(200, 2)), np.sin(rng.normal(size=200))
    reg = KernelRegressor(
        kernel=kernels.Gaussian(0.5), loss="absolute", scale=False, average=True,
        rule=rules.Norma(learning_rate=0.3, memory=30), expansion=expansions.Window(terms=20),
    )  # fmt: skip
    twin = naive.Norma(
        kernel=naive.gaussian(0.5), loss="absolute", rate=lambda t: 0.3, lam=1 / (0.3 * 30),
        start=0.0, max_terms=20, average=True,
    )  # fmt: skip
    reg.partial_fit(X, y)
    for x, target in zip(X, y, strict=True):
        twin.learn_one(x, [target])
    ours = reg.predict(X[:20])
    kept = [twin.mean_score_kept(x)[0] for x in X[:20]]
    whole = [twin.mean_score(x)[0] for x in X[:20]]
    np.testing.assert_allclose(ours, kept, atol=1e-12)
    assert np.max(np.abs(ours - whole)) <= reg.diagnostics_["average_bound"]


def test_average_detector_compares_with_the_average_threshold(rng):
    X = rng.normal(size=(400, 2))
    det = NoveltyDetector(nu=0.1, average=True)
    thresholds = [0.0]
    plain = NoveltyDetector(nu=0.1)
    for x in X:
        plain.partial_fit(x[None])
        thresholds.append(plain.threshold_)
    det.partial_fit(X)
    assert math.isclose(det.threshold_, np.mean(thresholds[:-1]), rel_tol=1e-9)


def passes_by_hand(X, y, passes, terms):
    """N01 (8)-(10) with a window of terms: a row's term, if still there, takes the new step."""
    kernel, alive, b = naive.gaussian(0.5), [], 0.0
    for _ in range(passes):
        for i, (x, target) in enumerate(zip(X, y, strict=True)):
            delta = target - b - sum(a * kernel(X[j], x) for j, a in alive)
            alive = [(j, a * (1 - 0.3 * 0.05)) for j, a in alive]
            step = 0.3 * delta
            b += step
            if any(j == i for j, _ in alive):
                alive = [(j, a + step * (j == i)) for j, a in alive]
            else:
                alive = [*alive, (i, step)][-terms:]
    return alive, b, kernel


@pytest.mark.few
@pytest.mark.parametrize("terms", [17, 400])
@pytest.mark.parametrize("rows", [40, 600])
def test_later_passes_add_to_the_stored_term(rng, terms, rows):
    if rows == 600 and terms == 17:
        rows = 300
    rows = size(min(rows, 200), rows)
    X, y = rng.normal(size=(rows, 2)), rng.normal(size=rows)
    reg = KernelRegressor(
        kernel=kernels.Gaussian(0.5), loss="squared", scale=False, passes=3 if rows == 40 else 2,
        rule=rules.Norma(learning_rate=0.3, regularization=0.05),
        expansion=expansions.Window(terms=terms),
    ).fit(X, y)  # fmt: skip
    alive, b, kernel = passes_by_hand(X, y, reg.passes, terms)
    assert reg.n_terms_ == len(alive) <= rows
    truth = [b + sum(a * kernel(X[j], x) for j, a in alive) for x in X[:10]]
    np.testing.assert_allclose(reg.predict(X[:10]), truth, rtol=1e-9, atol=1e-10)


def test_two_passes_forget_nothing_between_them(rng):
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    once = KernelClassifier(passes=2).fit(X, y)
    assert once.t_ == 100
    assert once.n_terms_ <= 50


@pytest.mark.parametrize(
    "model",
    [
        NoveltyDetector(nu=0.01, passes=2, expansion=expansions.Window(age=1)),
        NoveltyDetector(nu=0.01, passes=3, expansion=expansions.Window(age=10)),
        KernelClassifier(passes=2, scale=False, rule=rules.Norma(learning_rate=0.4, memory=1)),
    ],
    ids=repr,
)
def test_a_later_pass_may_begin_with_an_empty_window(rng, model):
    X = rng.normal(size=(300, 3))
    assert model.fit(X, (X[:, 0] > 0).astype(int)).t_ == 300 * model.passes


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_a_later_pass_keeps_the_step_that_wipes(rng, p):
    rule = rules.Norma(learning_rate=0.5, memory=1, regularizer=p)
    params = {"kernel": kernels.Gaussian(0.5), "loss": "absolute", "scale": False, "rule": rule}
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    once = KernelRegressor(passes=2, **params).fit(X, y)
    twice = KernelRegressor(**params).partial_fit(X, y).partial_fit(X, y)
    np.testing.assert_allclose(once.predict(X), twice.predict(X), atol=1e-12)


@pytest.mark.few
@pytest.mark.parametrize("memory", [1.0, 5.0])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_average_survives_wipes_and_any_cut(rng, memory, p):
    """A shrink of 0 empties f; what it had given to the average stays in an unlimited window."""
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60) + 3
    params = {
        "kernel": kernels.Gaussian(0.5), "loss": "absolute", "scale": False, "average": True,
        "fit_intercept": False, "expansion": expansions.Window(terms=None),
        "rule": rules.Norma(learning_rate=0.5, memory=memory, regularizer=p),
    }  # fmt: skip
    whole, rows = KernelRegressor(**params).partial_fit(X, y), KernelRegressor(**params)
    twin = naive.Norma(
        kernel=naive.gaussian(0.5), loss="absolute", rate=lambda t: 0.5, lam=1 / (0.5 * memory),
        start=0.0, intercept=False, average=True,
        omega_prime=None if p == 2 else (lambda r: 1.0),
    )  # fmt: skip
    for x, target in zip(X, y, strict=True):
        rows.partial_fit(x[None], [target])
        twin.learn_one(x, [target])
    truth = [twin.mean_score(x)[0] for x in X[:10]]
    np.testing.assert_allclose(whole.predict(X[:10]), truth, atol=1e-10)
    np.testing.assert_allclose(rows.predict(X[:10]), truth, atol=1e-10)
    assert whole.n_terms_ == rows.n_terms_


@pytest.mark.parametrize("rule", ["norma", "alma"])
def test_the_average_before_the_second_row_is_exactly_zero(rng, rule):
    X = rng.normal(size=(2, 3))
    for make in (KernelClassifier, LinearClassifier):
        model = make(average=True, scale=False, rule=rule)
        scores = model.predict_then_learn(X, [1, 0], output="decision")
        assert scores.tolist() == [0.0, 0.0]
        assert model.diagnostics_["mistakes"] == 2
