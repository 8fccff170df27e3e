"""Windows: which terms stay, what truncation costs, and the bounds that choose."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest

from onkel import KernelClassifier, KernelRegressor, bounds, expansions, kernels, losses, rules
from onkel import schedules as s
from onkel.core.layout import Field


def births(model):
    terms = model._learner.terms
    return terms.births_from(0, terms.count)


def test_age_keeps_exactly_the_last_trials(rng):
    reg = KernelRegressor(loss="squared", expansion=expansions.Window(age=5), scale=False)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    for i in range(40):
        reg.partial_fit(X[i : i + 1], y[i : i + 1])
        assert births(reg).tolist() == list(range(max(1, i + 2 - 5), i + 2))


def test_terms_keeps_the_newest(rng):
    clf = KernelClassifier(expansion=expansions.Window(terms=3))
    clf.partial_fit(rng.normal(size=(200, 2)), rng.integers(0, 2, 200))
    assert clf.n_terms_ == 3
    assert np.all(np.diff(births(clf)) > 0)


def test_truncation_bounds_hold_at_every_step(rng):
    """||f - f_trunc|| <= what the model tracks <= Proposition 1."""
    loss, age = losses.SoftMargin(margin=0.5), 15
    rule = rules.Norma(learning_rate=0.3, regularization=0.2)
    clf = KernelClassifier(
        kernel=kernels.Gaussian(0.7), loss=loss, rule=rule, scale=False,
        expansion=expansions.Window(age=age),
    )  # fmt: skip
    twin = naive.Norma(
        kernel=naive.gaussian(0.7), loss="soft_margin", rate=lambda t: 0.3, lam=0.2, start=0.5,
        age=naive.age(age),
    )  # fmt: skip
    promise = bounds.truncation_error(age, 0.3, 0.2)
    for x in rng.normal(size=(120, 2)):
        y = 1 if x[0] * x[1] > 0 else -1
        clf.partial_fit(x[None], [y])
        twin.learn_one(x, [y])
        report = clf.diagnostics_
        true_error = twin.dropped_part_norm()[0]
        assert true_error <= report["truncation_bound"] + 1e-12
        assert report["truncation_bound"] <= promise
        if report["truncation_promise"] is not None:
            assert report["truncation_bound"] <= report["truncation_promise"] * (1 + 1e-9)
            assert math.isclose(report["truncation_promise"], promise)
    assert true_error > 0


def test_promise_with_a_decreasing_rate(rng):
    rule = rules.Norma(learning_rate=s.InverseSqrt(0.5), regularization=0.3)
    clf = KernelClassifier(rule=rule, expansion=expansions.Window(age=20), scale=False)
    clf.partial_fit(rng.normal(size=(300, 2)), rng.integers(0, 2, 300))
    eta = 0.5 / np.sqrt(np.arange(281, 301))
    assert math.isclose(clf.diagnostics_["truncation_promise"], np.prod(1 - eta * 0.3) / 0.3)
    assert clf.diagnostics_["truncation_bound"] <= clf.diagnostics_["truncation_promise"]


@pytest.mark.parametrize("tolerance", [0.5, 1e-2, 1e-6, 10.0])
def test_tolerance_chooses_the_least_age(tolerance):
    for eta, lam in ((0.3, 0.2), (0.01, 0.5), (1.0, 1.0)):
        age = bounds.truncation_age(tolerance, eta, lam)
        assert age == naive.tolerance_age(tolerance, eta, lam, 1.0, 1.0)


def test_tolerance_refuses_what_the_proposition_does_not_cover(rng):
    X, y = rng.normal(size=(5, 2)), rng.normal(size=5)
    window = expansions.Window(tolerance=0.1)
    refused = [
        KernelRegressor(loss="squared", expansion=window),
        KernelRegressor(kernel="linear", expansion=window),
        KernelRegressor(rule=rules.Norma(learning_rate=s.InverseSqrt(0.1)), expansion=window),
        KernelRegressor(rule=rules.Norma(regularization=0.0), expansion=window),
    ]
    for model in refused:
        with pytest.raises(ValueError, match="Give age= or terms= instead"):
            model.fit(X, y)


@pytest.mark.parametrize(
    ("eta_lam", "eps"), [(0.9, 0.25), (0.9, 0.4), (0.5, 0.3), (0.3, 0.45), (0.99, 0.35), (0.7, 0.2)]
)
def test_growth_start_equals_scanning(eta_lam, eps):
    scanned = naive.growth_t0_by_scan(eta_lam, eps, 30_000)
    solved = bounds.growth_start(eta_lam, eps)
    assert solved == scanned if scanned <= 30_000 else solved > 30_000


def test_growth_start_far_out():
    """Published with the specification: 10^8.3 at eta lam = 0.1, 10^17.7 at 0.001 (eps = 0.25)."""
    assert abs(math.log10(bounds.growth_start(0.1, 0.25)) - 8.3) < 0.05
    assert abs(math.log10(bounds.growth_start(0.001, 0.25)) - 17.7) < 0.05


def test_growth_window_shrinks_by_one_net_then_grows(rng):
    rule = rules.Norma(learning_rate=s.InverseSqrt(0.9), regularization=1.0)
    reg = KernelRegressor(
        loss="absolute", rule=rule, expansion=expansions.Window(growth=0.25), scale=False
    )
    start = bounds.growth_start(0.9, 0.25)
    sizes = []
    for x in rng.normal(size=(60, 1)):
        reg.partial_fit(x[None], [float(rng.normal())])
        sizes.append(reg.n_terms_)
    size_at = naive.growth(0.9, 0.25)
    expected = [size_at(t + 1) for t in range(1, 61)]
    # the hypothesis at trial t+1 holds s_{t+1} trials, but no more than there were
    assert sizes == [min(t, e) for t, e in enumerate(expected, start=1)]
    assert max(sizes) <= max(start, math.ceil(61**0.75))


def test_memory_is_flat_and_terms_take_little_more_than_their_floats(rng):
    reg = KernelRegressor(loss="squared", expansion=expansions.Window(terms=1000))
    sizes = []
    for _ in range(8):
        reg.partial_fit(rng.normal(size=(1000, 16)).astype(np.float32), rng.normal(size=1000))
        sizes.append(reg.diagnostics_["bytes"])
    assert len(set(sizes[1:])) == 1
    assert sizes[-1] < 1.05 * 1024 * (16 * 4 + 4 + 8 + 8)


def test_scale_is_folded_long_before_it_underflows(rng):
    clf = KernelClassifier(rule=rules.Norma(learning_rate=0.5, memory=1.5), scale=False)
    X, y = rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000)
    clf.partial_fit(X, y)
    assert 1e-3 <= clf._learner.state[0, Field.SCALE] <= 1
    assert np.all(np.isfinite(clf.decision_function(X)))


@pytest.mark.few
@pytest.mark.parametrize("window", [{"terms": 7}, {"age": 9}, {"age": 12, "terms": 5}])
@pytest.mark.parametrize("outputs", [1, 2])
def test_norm_by_recurrence_equals_recomputation_after_every_step(rng, window, outputs):
    """Drops included: each costs a second evaluation, and the sum must not drift."""
    reg = KernelRegressor(
        kernel=kernels.Matern(1.5, 1.0), scale=False, expansion=expansions.Window(**window),
        rule=rules.Norma(learning_rate=0.4, memory=25, track_norm=True),
    )  # fmt: skip
    X, Y = rng.normal(size=(150, 2)), rng.normal(size=(150, outputs))
    for x, y in zip(X, Y, strict=True):
        reg.partial_fit(x[None], y[None])
        learner = reg._learner
        rows = learner.terms.raw_rows()
        a = learner.terms.coefs(0, reg.n_terms_) * learner.state[:, Field.SCALE]
        truth = np.sqrt(np.einsum("ic,ij,jc->c", a, kernels.Matern(1.5, 1.0)(rows), a))
        np.testing.assert_allclose(np.atleast_1d(reg.diagnostics_["norm"]), truth, rtol=1e-10)
    whole = KernelRegressor(**reg.get_params(deep=False)).partial_fit(X, Y)
    np.testing.assert_allclose(whole.diagnostics_["norm"], reg.diagnostics_["norm"], rtol=1e-10)


@pytest.mark.parametrize("power", [2.0, 1.5])
def test_norm_survives_the_loss_of_its_largest_term(rng, power):
    """A drop that takes nearly all of ||f||^2 away leaves no digits: it must be summed anew."""
    reg = KernelRegressor(
        kernel=kernels.Gaussian(1.0), loss="absolute", scale=False, fit_intercept=False,
        expansion=expansions.Window(terms=4),
        rule=rules.Norma(
            learning_rate=0.3, regularization=1e-4, track_norm=True, regularizer=power
        ),
    )  # fmt: skip
    X, y = rng.normal(size=(60, 2)), 1e9 * rng.choice([-1.0, 1.0], size=60)
    weight = np.where(np.arange(60) % 9 == 0, 1e5, 1e-4)  # one huge term, then tiny ones
    smallest, largest = np.inf, 0.0
    for x, target, w in zip(X, y, weight, strict=True):
        reg.partial_fit(x[None], [target], sample_weight=[w])
        norm, truth = reg.diagnostics_["norm"], np.sqrt(reg._learner.norm2()[0])
        assert math.isclose(norm, truth, rel_tol=1e-9)
        smallest, largest = min(smallest, norm), max(largest, norm)
    assert largest > 1e8 * smallest
