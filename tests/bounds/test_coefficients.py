"""Coefficient regularisation: CR Theorems 2-4 and Corollaries 1, 3, 4, with kappa corrected."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from onkel import KernelClassifier, bounds, expansions, losses, rules

POWERS = [(1.0, 1.0), (1.0, 0.3), (1.3, 0.5), (1.7, 2.0), (2.0, 1.0), (3.0, 0.5)]
LOSSES = [
    "hinge",
    "logistic",
    "squared",
    "exponential",
    *itertools.starmap(bounds.HingePower, POWERS),
]


def phi(loss, u):
    """The loss itself."""
    if loss == "logistic":
        return np.logaddexp(0, -u)
    if loss == "squared":
        return (1 - u) ** 2
    if loss == "exponential":
        return np.exp(-u)
    power, margin = (1.0, 1.0) if loss == "hinge" else (loss.power, loss.margin)
    return np.maximum(0, margin - u) ** power


def left(loss, u):
    """Its left derivative."""
    if loss == "logistic":
        return -1 / (1 + np.exp(np.clip(u, -500, 500)))
    if loss == "squared":
        return -2 * (1 - u)
    if loss == "exponential":
        return -np.exp(-u)
    power, margin = (1.0, 1.0) if loss == "hinge" else (loss.power, loss.margin)
    if power == 1:
        return -1.0 * (u <= margin)
    return -power * np.maximum(0, margin - u) ** (power - 1)


def numbers(loss):
    """A loss as an object of the package."""
    return bounds.HingePower() if loss == "hinge" else NAMES.get(loss, lambda: loss)()


NAMES = {
    "logistic": bounds.LogisticMargin, "squared": bounds.SquaredMargin,
    "exponential": bounds.Exponential,
}  # fmt: skip


@given(loss=st.sampled_from(LOSSES), reach=st.floats(0.01, 30))
def test_curvature_and_slopes_are_suprema(loss, reach):
    """Against a fine grid: never below it, and reached by it."""
    part = numbers(loss)
    u = np.linspace(-reach, reach, 20_001)
    u = np.union1d(u[np.abs(u) > 1e-4 * reach], [1e-3 * reach, -1e-3 * reach])
    margin = getattr(part, "margin", None)
    if margin is not None and margin < reach:
        u = np.union1d(u, [margin, np.nextafter(margin, 9e9)])
    quotient = np.abs(left(loss, u) - left(loss, 0.0)) / np.abs(u)
    assert quotient.max() == pytest.approx(part.curvature(reach), rel=2e-3, abs=1e-12)
    assert quotient.max() <= part.curvature(reach) * (1 + 1e-9)
    assert np.abs(left(loss, u)).max() == pytest.approx(part.steepest(reach), rel=1e-9)
    assert part.at_zero == pytest.approx(float(phi(loss, 0.0)))
    assert part.slope_at_zero == pytest.approx(-float(left(loss, 0.0)))


def features(rng, rows, centers, width):
    """Gaussian kernel values between random points and random centres."""
    X, Z = rng.normal(size=(rows, 2)), rng.normal(size=(centers, 2))
    return np.exp(-((X[:, None] - Z) ** 2).sum(-1) / width)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_norm_at_every_trial(rng, loss):
    """Theorem 3 at the largest rate: labels that answer, that stay, and random ones."""
    for width, lam, m in itertools.product((0.3, 3.0, 300.0), (0.3, 3.0), (3, 50)):
        K = features(rng, 60, m, width)
        kappa = bounds.coefficient_kappa(K)
        assert kappa <= bounds.coefficient_kappa_limit(centers=m) * (1 + 1e-12)
        if loss == "exponential" and kappa**2 / lam > 300:
            with pytest.raises(ValueError, match="another loss"):
                bounds.coefficient_excess(loss, kappa=kappa, regularization=lam, trials=9)
            continue
        told = bounds.coefficient_norm(loss, kappa=kappa, regularization=lam)
        rate = told.tuning["learning_rate"]
        alpha = np.zeros((3, m))
        for _ in range(200):
            x = K[rng.integers(60, size=3)]
            f = (alpha * x).sum(-1)
            y = np.array([np.where(f[0] > 0, -1, 1), 1, rng.choice([-1, 1])])
            alpha = alpha - rate * (lam * alpha + (left(loss, y * f) * y)[:, None] * x)
            assert np.linalg.norm(alpha, axis=1).max() <= told.bound * (1 + 1e-9)


def test_the_printed_kappa_fails(rng):
    """A wide Gaussian with 50 centres: the first step alone is longer than the printed bound."""
    K = features(rng, 20, 50, 1000.0)
    lam, printed = 1.0, 1.0
    step = K[0] / (1 * printed**2 + lam)
    assert np.linalg.norm(step) > 3 > printed * 1 / lam
    told = bounds.coefficient_norm("hinge", kappa=bounds.coefficient_kappa(K), regularization=lam)
    assert np.linalg.norm(K[0] * told.tuning["learning_rate"]) <= told.bound


def world(rng, n=10, m=6):
    """A distribution on n points: features, chance, and the chance of label +1."""
    return features(rng, n, m, 2.0), rng.dirichlet(np.ones(n)), rng.uniform(0.02, 0.98, size=n)


def expected(loss, alpha, K, chance, plus):
    f = alpha @ K.T
    return (plus * phi(loss, f) + (1 - plus) * phi(loss, -f)) @ chance


def best(loss, K, chance, plus, lam):
    """alpha_lam: smooth losses by BFGS; the hinge by coordinate ascent on its dual."""

    def F(a):
        f = K @ a
        slope = plus * left(loss, f) - (1 - plus) * left(loss, -f)
        return expected(loss, a, K, chance, plus) + lam / 2 * a @ a, lam * a + K.T @ (
            chance * slope
        )

    power, margin = getattr(loss, "power", 0.0), getattr(loss, "margin", 1.0)
    if loss != "hinge" and power != 1:
        return minimize(F, np.zeros(K.shape[1]), jac=True, tol=1e-12).x
    rows = np.concatenate([K, -K])
    mass = np.concatenate([chance * plus, chance * (1 - plus)])
    a, dual = np.zeros(K.shape[1]), np.zeros(len(rows))
    for _ in range(300):
        for i, x in enumerate(rows):
            new = dual[i] + (margin - a @ x) * lam / (mass[i] * (x @ x))
            new = min(1.0, max(0.0, new))
            a, dual[i] = a + (new - dual[i]) * mass[i] / lam * x, new
    return a


def least(loss, chance, plus):
    """The least risk of any function, for the losses where it has a simple form."""
    forms = {
        "hinge": 2 * np.minimum(plus, 1 - plus), "squared": 4 * plus * (1 - plus),
        "logistic": -plus * np.log(plus) - (1 - plus) * np.log(1 - plus),
        "exponential": 2 * np.sqrt(plus * (1 - plus)),
    }  # fmt: skip
    return forms[loss] @ chance


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_strong_convexity_and_risk_gap(rng, loss):
    """Theorem 2, and Corollaries 1 and 4, for coefficients near and far."""
    for lam in (0.05, 0.5):
        K, chance, plus = world(rng)
        kappa, star = bounds.coefficient_kappa(K), best(loss, K, chance, plus, lam)
        A = star + rng.normal(size=(60, 6)) * 10.0 ** rng.uniform(-3, 0.5, size=(60, 1))
        own = expected(loss, A, K, chance, plus)
        there = expected(loss, star, K, chance, plus)
        excess = own + lam / 2 * (A * A).sum(1) - there - lam / 2 * star @ star
        far = np.linalg.norm(A - star, axis=1)
        for alpha, gap, more, d in zip(A, own - there, excess, far, strict=True):
            told = bounds.coefficient_strong_convexity(excess=max(more, 0.0), regularization=lam)
            assert d**2 <= told.bound**2 * (1 + 1e-6) + 1e-7
            told = bounds.coefficient_risk_gap(
                loss, kappa=kappa, distance=d, norm=float(np.linalg.norm(alpha)), regularization=lam
            )
            assert abs(gap) <= told.bound * (1 + 1e-9) + 1e-9


def test_risk_gap_is_attained():
    """One row of norm kappa, the hinge, scores below its margin."""
    told = bounds.coefficient_risk_gap(
        "hinge", kappa=2.0, distance=0.25, norm=0.0, regularization=4.0
    )
    assert abs(phi("hinge", 2.0 * 0.25) - phi("hinge", 0.0)) == pytest.approx(told.bound)


def test_function_norm(rng):
    """Corollary 1; equality where all centres coincide."""
    Z = rng.normal(size=(7, 2))
    for centres in (Z, np.repeat(Z[:1], 7, axis=0)):
        G = 4 * np.exp(-((centres[:, None] - centres) ** 2).sum(-1))
        for _ in range(50):
            a = rng.normal(size=7)
            told = bounds.coefficient_function_norm(
                norm=float(np.linalg.norm(a)), centers=7, kernel_bound=4.0
            )
            assert math.sqrt(a @ G @ a) <= told.bound * (1 + 1e-9)
    a = np.ones(7)
    told = bounds.coefficient_function_norm(norm=7**0.5, centers=7, kernel_bound=4.0)
    assert math.sqrt(a @ G @ a) == pytest.approx(told.bound)


def descend(rng, loss, K, chance, plus, lam, rates, S):
    """S runs of the algorithm on examples drawn from the world."""
    alpha = np.zeros((S, K.shape[1]))
    for rate in rates:
        i = rng.choice(len(K), p=chance, size=S)
        y = np.where(rng.uniform(size=S) < plus[i], 1.0, -1.0)
        u = y * (alpha * K[i]).sum(-1)
        alpha = alpha - rate * (lam * alpha + (left(loss, u) * y)[:, None] * K[i])
    return alpha


@pytest.mark.few
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "exponential"])
@pytest.mark.parametrize("theta", [0.3, 0.6, 1.0])
def test_expected_distance(rng, loss, theta):
    """Theorem 4, with D(lam) known, and the sharper (4.2) that it comes from."""
    T, S = 150, 200
    for lam in (0.2, 2.0):
        K, chance, plus = world(rng)
        kappa, star = bounds.coefficient_kappa(K), best(loss, K, chance, plus, lam)
        error = expected(loss, star, K, chance, plus) + lam / 2 * star @ star
        error -= least(loss, chance, plus)
        assert star @ star <= 2 * error / lam * (1 + 1e-6)
        asked = {"kappa": kappa, "regularization": lam, "trials": T, "theta": theta}
        flat = bounds.coefficient_norm(loss, kappa=kappa, regularization=lam).details["mu"] == lam
        if flat and theta == 1.0:  # scores too small for the hinge's corner
            with pytest.raises(ValueError, match="Lower theta"):
                bounds.coefficient_excess(loss, **asked)
            continue
        told = bounds.coefficient_excess(loss, **asked, regularization_error=float(error))
        rates = told.tuning["learning_rate"](np.arange(1, T + 1))
        alpha = descend(rng, loss, K, chance, plus, lam, rates, S)
        ours = ((alpha - star) ** 2).sum(1).mean()
        part = numbers(loss)
        reach = kappa**2 * part.slope_at_zero / lam
        noise, sharp = 4 * (kappa * part.steepest(reach)) ** 2, star @ star
        for rate in rates:
            sharp = (1 - rate * lam) * sharp + noise * rate**2
        assert ours <= sharp <= told.bound
        loose = bounds.coefficient_excess(loss, **asked)
        assert told.bound <= loose.bound


def test_excess_misclassification(rng):
    """Corollary 3: below the bound, whose exponent is the paper's for long runs."""
    for beta, epsilon in ((1.0, 0.1), (0.5, 0.05)):
        K, chance, plus = world(rng)
        kappa, T = bounds.coefficient_kappa(K), 300
        told = bounds.coefficient_rate(trials=T, kappa=kappa, beta=beta, epsilon=epsilon)
        lam = told.tuning["regularization"]
        star = best("hinge", K, chance, plus, lam)
        error = expected("hinge", star, K, chance, plus) + lam / 2 * star @ star
        error -= least("hinge", chance, plus)
        told = bounds.coefficient_rate(
            trials=T, kappa=kappa, beta=beta, epsilon=epsilon, constant=float(error / lam**beta)
        )
        rates = told.tuning["learning_rate"](np.arange(1, T + 1))
        alpha = descend(rng, "hinge", K, chance, plus, lam, rates, 200)
        wrong = np.where(alpha @ K.T > 0, 1 - plus, plus) @ chance
        assert wrong.mean() - np.minimum(plus, 1 - plus) @ chance <= told.bound
        long = [
            bounds.coefficient_rate(trials=T, kappa=1.0, beta=beta, epsilon=epsilon)
            for T in (10**60, 10**61)
        ]
        slope = math.log10(long[1].bound / long[0].bound)
        assert slope == pytest.approx(long[0].details["exponent"], abs=1e-3)
        assert slope == pytest.approx(epsilon - beta / (2 * (beta + 1)), abs=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_product_centers(rng, loss):
    """Theorem 3 through the product: scores, and so every alpha it can show, stay in bounds."""
    X, centres = rng.normal(size=(400, 2)), rng.normal(size=(12, 2))
    K = np.exp(-0.5 * ((X[:, None] - centres) ** 2).sum(-1))
    lam, kappa = 0.3, bounds.coefficient_kappa(K)
    told = bounds.coefficient_norm(loss, kappa=kappa, regularization=lam)
    part = losses.SoftMargin(margin=told.margin) if loss == "hinge" else losses.Logistic()
    from onkel import kernels

    clf = KernelClassifier(
        kernel=kernels.Gaussian(gamma=0.5), loss=part, scale=False, fit_intercept=False,
        rule=rules.Norma(**told.tuning, track_norm=True), expansion=expansions.Centers(centres),
    )  # fmt: skip
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    alpha = np.zeros(12)
    for i in range(0, 400, 40):
        rows = slice(i, i + 40)
        clf.partial_fit(X[rows], y[rows], classes=[-1, 1])
        for x, label in zip(K[rows], y[rows], strict=True):
            u = label * (alpha @ x)
            alpha -= told.tuning["learning_rate"] * (lam * alpha + left(loss, u) * label * x)
        assert clf.diagnostics_["norm"] <= told.bound * (1 + 1e-9)
        assert clf.diagnostics_["norm"] == pytest.approx(np.linalg.norm(alpha), rel=1e-6)
        assert np.allclose(clf.decision_function(X), K @ alpha, atol=1e-6)
