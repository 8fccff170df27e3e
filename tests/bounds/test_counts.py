"""Mistakes and margin errors of NORMA and ALMA never exceed N04 Th. 2, 3 and A02 Th. 1-4."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.bound_runs import case, separate
from helpers.sizes import some
from hypothesis import given
from hypothesis import strategies as st

from onkel import KernelClassifier, LinearClassifier, bounds, expansions, losses, rules

TARGETS = ["fixed", "drifting", "switching"]
NOISES = ["margin", "flips", "answers"]
CASES = some(itertools.product(TARGETS, NOISES, [2.0, 4.0]), levels=enumerate)
ROUNDING = 1 + 1e-9


def norma_numbers(c, i):
    trials = c.X.shape[1]
    return {**c.numbers(i), "trials": trials, "squared_path": float((c.steps[i] ** 2).sum())}


def run_norma(c, promises, margin):
    rate = np.array([g.tuning["learning_rate"] for g in promises])
    lam = np.array([g.tuning["regularization"] for g in promises])
    return separate(c.X, c.labels, c.answer, rate, c.p, margin, shrink=1 - rate * lam)


def run_alma(c, promises, margin):
    rate = np.array([g.tuning["learning_rate"] for g in promises])
    ball = np.array([g.tuning["radius"] for g in promises])
    return separate(c.X, c.labels, c.answer, rate, c.p, margin, ball=ball)


def most(promises):
    return np.array([g.bound for g in promises])


@pytest.mark.parametrize(("target", "noise", "p"), CASES)
def test_norma(rng, target, noise, p):
    c = case(rng, target, noise, p)
    for share in (0.0, 0.5, 0.9):
        told = [
            bounds.norma_margin_errors(**norma_numbers(c, i), margin=share * c.mu)
            for i in range(len(c.X))
        ]
        assert np.all(run_norma(c, told, share * c.mu).margin_errors <= most(told) * ROUNDING)
    told = [bounds.norma_mistakes(**norma_numbers(c, i)) for i in range(len(c.X))]
    for margin in (0.0, np.array([g.margin for g in told])):
        assert np.all(run_norma(c, told, margin).mistakes <= most(told) * ROUNDING)


@pytest.mark.parametrize(("target", "noise", "p"), CASES)
def test_alma(rng, target, noise, p):
    c = case(rng, target, noise, p)
    for share in (0.0, 0.5, 0.9):
        told = [
            bounds.alma_margin_errors(**c.numbers(i), margin=share * c.mu) for i in range(len(c.X))
        ]
        assert np.all(run_alma(c, told, share * c.mu).margin_errors <= most(told) * ROUNDING)
    told = [bounds.alma_mistakes(**c.numbers(i)) for i in range(len(c.X))]
    for margin in (0.0, np.array([g.margin for g in told])):
        assert np.all(run_alma(c, told, margin).mistakes <= most(told) * ROUNDING)


@pytest.mark.parametrize(("target", "noise", "p"), CASES)
def test_any_step(rng, target, noise, p):
    """N04 (45)-(48), A02 (6), (15): hinge loss and margin errors together, steps out of tune."""
    c = case(rng, target, noise, p)
    tuned = 2 * c.mu / ((p - 1) * c.bound**2)
    for factor, decay in itertools.product((0.1, 1.0, 3.0), (None, 0.3, 3.0)):
        step, margin = factor * tuned, float(rng.uniform(0, 0.9)) * c.mu
        told = []
        for i in range(len(c.X)):
            numbers = norma_numbers(c, i)
            lam = None if decay is None else decay * 0.1 / step[i]
            told.append(
                bounds.norma_any_step(
                    step=float(step[i]), margin=margin, weight_decay=lam, **numbers
                )
            )
        out = run_norma(c, told, margin)
        weight = np.array([g.details["weight"] for g in told])
        assert np.all(out.loss + weight * out.margin_errors <= most(told) * ROUNDING + 1e-9)
        if margin > 0:  # where the weight is not negative, each mistake costs at least rho
            ok = weight >= 0
            assert np.all((out.mistakes * margin <= most(told) * ROUNDING)[ok])
    told = [
        bounds.alma_any_step(step=float(step[i]), margin=margin, **c.numbers(i))
        for i in range(len(c.X))
    ]
    out = run_alma(c, told, margin)
    weight = np.array([g.details["weight"] for g in told])
    assert np.all(out.loss + weight * out.margin_errors <= most(told) * ROUNDING + 1e-9)


def test_orthonormal_rows_attain_the_bound():
    """n orthonormal rows, each met once, each a mistake: the bound is n, exactly."""
    for n in (1, 3, 16, 40):
        X, labels, plain = np.eye(n)[None], np.ones((1, n)), np.zeros((1, n), bool)
        numbers = {"radius": n**0.5, "bound": 1.0, "target_margin": 1.0}
        for theorem in (
            bounds.norma_mistakes, bounds.norma_margin_errors, bounds.alma_mistakes,
            bounds.alma_margin_errors,
        ):  # fmt: skip
            told = theorem(**numbers)
            out = separate(X, labels, plain, told.tuning["learning_rate"])
            assert out.mistakes[0] == n == pytest.approx(told.bound, rel=1e-12)
        for theorem in (bounds.norma_any_step, bounds.alma_any_step):
            told = theorem(step=1.0, **numbers)
            assert n * told.details["weight"] == pytest.approx(told.bound, rel=1e-12)


@pytest.mark.parametrize("p", [3.0, 6.0, 12.0])
def test_sparse_targets_want_a_large_p(rng, p):
    """A target of one coordinate among many, inputs of +-1 (Winnow's home)."""
    S, T, d = 30, 400, 60
    X = rng.choice([-1.0, 1.0], size=(S, T, d))
    u = np.zeros((S, d))
    u[np.arange(S), rng.integers(d, size=S)] = 1.0
    labels = np.sign((X * u[:, None]).sum(-1))
    told = bounds.norma_mistakes(radius=1.0, bound=d ** (1 / p), target_margin=1.0, p=p)
    for margin in (0.0, told.margin):
        rate = told.tuning["learning_rate"]
        out = separate(X, labels, np.zeros((S, T), bool), rate, p, margin)
        assert np.all(out.mistakes <= told.bound * ROUNDING)


def test_scaling_everything_changes_nothing():
    """mu, rho, B (and D, sqrt(D2), K) times s: the same bound, eta times s."""
    one = dict(
        radius=2.0, bound=3.0, target_margin=0.5, loss=4.0, trials=50, path=6.0, squared_path=1.5
    )
    many = dict(one, radius=20.0, target_margin=5.0, loss=40.0, path=60.0, squared_path=150.0)
    a, b = bounds.norma_mistakes(**one), bounds.norma_mistakes(**many)
    assert a.bound == pytest.approx(b.bound)
    assert 10 * a.tuning["learning_rate"] == pytest.approx(b.tuning["learning_rate"])
    shrinks = [g.tuning["learning_rate"] * g.tuning["regularization"] for g in (a, b)]
    assert shrinks[0] == pytest.approx(shrinks[1])


@given(
    gap=st.floats(1e-3, 1e3), loss=st.one_of(st.just(0.0), st.floats(1e-9, 1e6)),
    c=st.floats(1e-3, 1e6), z=st.floats(0.001, 0.999),
)  # fmt: skip
def test_step_size_is_the_minimiser(gap, loss, c, z):
    def f(z):
        return loss / (gap - z) + c / (z * (gap - z))

    best = bounds.step_size(gap, loss, c)
    assert 0 < best < gap
    assert f(best) == pytest.approx(bounds.count_bound(loss, c, gap), rel=1e-6)
    assert f(best) <= f(z * gap) * (1 + 1e-9)
    if 1e-6 < loss / c < 1e6:  # the papers' own form, where it does not cancel
        assert best == pytest.approx(
            np.sqrt(c / loss * (gap + c / loss)) - c / loss, rel=1e-4, abs=1e-9 * c / loss
        )


def product(rule, margin, estimator=KernelClassifier, **more):
    if estimator is KernelClassifier:
        more.update(kernel="linear", expansion=expansions.Window(terms=None))
    return estimator(
        loss=losses.SoftMargin(margin=margin), rule=rule, scale=False, fit_intercept=False, **more
    )


def check_product(clf, c, told, key):
    clf.partial_fit(c.X[0], c.labels[0].astype(int), classes=[-1, 1])
    counted = clf.diagnostics_[key]
    assert 0 < counted <= told.bound * ROUNDING
    return counted


@pytest.mark.parametrize("target", TARGETS)
def test_product_norma(rng, target):
    c = case(rng, target, "flips", S=1, T=400)
    told = bounds.norma_mistakes(**norma_numbers(c, 0))
    for margin in (0.0, told.margin):
        counted = check_product(product(rules.Norma(**told.tuning), margin), c, told, "mistakes")
        assert counted == run_norma(c, [told], margin).mistakes[0]
    told = bounds.norma_margin_errors(**norma_numbers(c, 0), margin=0.3 * c.mu)
    clf = product(rules.Norma(**told.tuning), told.margin)
    counted = check_product(clf, c, told, "margin_errors")
    assert counted == run_norma(c, [told], told.margin).margin_errors[0]


@pytest.mark.parametrize("target", TARGETS)
def test_product_alma(rng, target):
    c = case(rng, target, "flips", S=1, T=400)
    told = bounds.alma_mistakes(**c.numbers(0))
    for margin in (0.0, told.margin):
        check_product(product(rules.Alma(**told.tuning), margin), c, told, "mistakes")
    told = bounds.alma_margin_errors(**c.numbers(0), margin=0.3 * c.mu)
    check_product(product(rules.Alma(**told.tuning), told.margin), c, told, "margin_errors")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("p", [3.0, 8.0])
def test_product_p_norm(rng, target, p):
    c = case(rng, target, "flips", p, S=1, T=400)
    told = bounds.norma_mistakes(**norma_numbers(c, 0))
    clf = product(rules.Norma(**told.tuning), told.margin, LinearClassifier, p=p)
    check_product(clf, c, told, "mistakes")
    if hasattr(rules, "Alma"):
        told = bounds.alma_mistakes(**c.numbers(0))
        clf = product(rules.Alma(**told.tuning), told.margin, LinearClassifier, p=p)
        check_product(clf, c, told, "mistakes")
