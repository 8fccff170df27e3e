"""The naive twins against truths found another way: closed forms, quadrature, small programs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.labelled import feed, labelled
from scipy import integrate, optimize

import naive

ONE = lambda t: 1.0


def gram(kernel, rows):
    return np.array([[kernel(x, z) for z in rows] for x in rows])


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize("order", [1, 2, 3])
def test_spline_is_its_integral(rng, order):
    kernel = naive.spline(order)
    for s, t in rng.uniform(0, 3, size=(10, 2)):
        whole, _ = integrate.quad(lambda u, s=s, t=t: ((s - u) * (t - u)) ** order, 0, min(s, t))
        truth = whole + sum((s * t) ** r for r in range(order + 1))
        assert kernel(s, t) == pytest.approx(truth, rel=1e-10)
        assert kernel([s], [t]) == kernel(t, s) == kernel(s, t)
    assert np.linalg.eigvalsh(gram(kernel, rng.uniform(0, 3, size=8))).min() > 0
    with pytest.raises(ValueError, match="0 or more"):
        kernel(-0.1, 1.0)


def test_linear_spline_has_a_sixth(rng):
    for s, t in rng.uniform(0, 3, size=(10, 2)):
        p, q = min(s, t), max(s, t)
        truth = 1 + p * q + p * p * q / 2 - p**3 / 6
        assert naive.spline(1)(s, t) == pytest.approx(truth, rel=1e-13)
    points = rng.uniform(0, 3, size=30)
    assert np.linalg.eigvalsh(gram(naive.spline(1), points)).min() > -1e-10
    printed = gram(lambda p, q: naive.spline(1)(p, q) - 4 / 6 * min(p, q) ** 3, points)
    assert np.linalg.eigvalsh(printed).min() < -1


def test_additive_sums_over_coordinates(rng):
    x, z = rng.uniform(size=3), rng.uniform(size=3)
    assert naive.additive(naive.exponential(0.7))(x, z) == pytest.approx(
        float(np.exp(-0.7 * np.abs(x - z)).sum())
    )
    parts = [naive.exponential(2.0), naive.matern_1d(1.5, 0.5), naive.spline(1)]
    single = [part(a, b) for part, a, b in zip(parts, x, z, strict=True)]
    mixed = naive.additive(parts, weights=[1.0, 2.0, 0.5])
    assert mixed(x, z) == pytest.approx(np.dot([1.0, 2.0, 0.5], single))
    with pytest.raises(ValueError):
        mixed(x[:2], z[:2])


@pytest.mark.parametrize("nu", [1.5, 2.5])
def test_matern_by_sigma_and_by_length_agree(rng, nu):
    for p, q in rng.normal(size=(5, 2)):
        by_length = naive.matern(nu, math.sqrt(2 * nu) / 0.8)
        assert naive.matern_1d(nu, 0.8)(p, q) == pytest.approx(by_length([p], [q]), rel=1e-12)


# ---------------------------------------------------------------- losses


@pytest.mark.parametrize(
    ("loss", "power", "value"),
    [
        ("soft_margin", 1.0, lambda m: max(0.0, 0.7 - m)),
        ("soft_margin", 1.5, lambda m: max(0.0, 0.7 - m) ** 1.5),
        ("soft_margin", 2.0, lambda m: max(0.0, 0.7 - m) ** 2),
        ("least_squares", 1.0, lambda m: (1 - m) ** 2),
        ("exponential", 1.0, lambda m: math.exp(-m)),
        ("logistic", 1.0, lambda m: math.log(1 + math.exp(-m))),
    ],
)
def test_slopes_are_derivatives(loss, power, value):
    h = 1e-6
    for y in (-1.0, 1.0):
        for z in (-2.0, -0.3, 0.2, 0.5, 1.9):
            slope, _, loss_value, _ = naive.judge(loss, None, z, y, 0.7, power=power)
            assert loss_value == pytest.approx(value(y * z))
            numeric = (value(y * (z - h)) - value(y * (z + h))) / (2 * h)
            assert slope == pytest.approx(numeric, abs=1e-6)


def test_the_derivative_at_the_margin_is_the_left_one():
    assert naive.judge("soft_margin", None, -0.5, -1.0, 0.5)[0] == -1.0
    assert naive.judge("soft_margin", None, 0.5, 1.0, 0.5, power=2.0)[0] == 0.0


# ---------------------------------------------------------------- rules


@pytest.mark.parametrize("regression", [False, True])
def test_projection_is_the_nearest_point(rng, regression):
    for _ in range(20):
        w, x = rng.normal(size=4), rng.normal(size=4)
        y = float(rng.normal(scale=3)) if regression else float(rng.choice([-1.0, 1.0]))
        edge = 0.3 if regression else 1.5
        f, kxx = float(w @ x), float(x @ x)
        rule = naive.projection(regression=regression)
        s, a, radius, outside = rule(f, y, kxx, float(w @ w), 0, 1.0, edge)
        new = s * w + a * x
        if regression:
            constraint = {"type": "ineq", "fun": lambda v, x=x, y=y: 0.3**2 - (y - v @ x) ** 2}
            assert outside == (abs(y - f) > edge)
            assert not outside or abs(y - new @ x) == pytest.approx(edge)
        else:
            constraint = {"type": "ineq", "fun": lambda v, x=x, y=y: y * (v @ x) - 1.5}
            assert outside == (y * f < edge)
            assert not outside or y * (new @ x) == pytest.approx(edge)
        assert radius == math.inf
        distance = lambda v, w=w: float(((v - w) ** 2).sum())
        if not outside:
            assert (s, a) == (1.0, 0.0)
            continue
        found = optimize.minimize(distance, new + 0.1, constraints=[constraint])
        assert distance(new) == pytest.approx(found.fun, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("rho", [1.0, 0.4])
def test_romma_solves_its_program(rng, rho):
    seen = set()
    for _ in range(60):
        w = rng.normal(size=3) * rng.choice([0.1, 1.0])
        x, y = rng.normal(size=3), float(rng.choice([-1.0, 1.0]))
        f, kxx, norm2 = float(w @ x), float(x @ x), float(w @ w)
        s, a, _, outside = naive.romma()(f, y, kxx, norm2, 3, 1.0, rho)
        assert outside == (y * f < rho)
        if not outside:
            continue
        new = s * w + a * x
        seen.add(s == 0.0)
        constraints = [
            {"type": "ineq", "fun": lambda v, x=x, y=y: y * (v @ x) - rho},
            {"type": "ineq", "fun": lambda v, w=w: v @ w - w @ w},
        ]
        assert all(c["fun"](new) >= -1e-9 for c in constraints)
        found = optimize.minimize(lambda v: float(v @ v), new + 0.05, constraints=constraints)
        assert float(new @ new) == pytest.approx(found.fun, rel=1e-4)
    assert seen == {True, False}


def test_romma_where_there_is_nothing_to_divide_by():
    rule = naive.romma()
    assert rule(0.0, -1.0, 4.0, 0.0, 0, 1.0, 1.0)[:2] == (0.0, -0.25)  # first: the projection
    assert rule(0.5, -1.0, 1.0, 0.25, 1, 1.0, 1.0)[:2] == (0.0, -1.0)  # k_x parallel to f
    assert rule(0.0, 1.0, 0.0, 1.0, 1, 1.0, 1.0)[:2] == (1.0, 0.0)  # k(x, x) = 0
    assert naive.romma(aggressive=False)(0.5, 1.0, 1.0, 1.0, 1, 1.0, 1.0)[3] == 0
    assert naive.romma(aggressive=False)(0.0, 1.0, 1.0, 1.0, 1, 1.0, 1.0)[3] == 1


def test_a_weight_goes_that_far():
    for rule in (naive.perceptron(), naive.alma(0.3, 2.0), naive.projection(), naive.romma()):
        arguments = (-0.2, 1.0, 1.3, 0.9, 4)
        s, a, radius, _ = rule(*arguments, 1.0, 1.0)
        for w in (0.0, 0.5, 2.0):
            expected = (max(0.0, 1 + w * (s - 1)), w * a, radius, 1)
            assert rule(*arguments, w, 1.0) == pytest.approx(expected)
        assert rule(*arguments, 1.0, 1.0, outside=0) == (1.0, 0.0, radius, 0)
        assert rule(9.0, *arguments[1:], 1.0, 1.0, outside=1)[3] == 1


def test_perceptron_is_norma_without_margin_or_forgetting(rng):
    X, y, _ = labelled(rng, 60, 3)
    common = {"kernel": naive.gaussian(0.4), "loss": "soft_margin", "start": 0.0}
    ours = naive.Learner(rule=naive.perceptron(), **common)
    norma = naive.Norma(rate=ONE, lam=0.0, intercept=False, **common)
    np.testing.assert_array_equal(feed(ours, X, y), feed(norma, X, y))
    assert ours.sum_outside == norma.sum_outside == ours.updates == norma.updates
    assert ours.near_by_trial == norma.near_by_trial
    np.testing.assert_array_equal(ours.cumulative_loss, norma.cumulative_loss)


@pytest.mark.parametrize("limits", [{}, {"max_terms": 6}, {"age": naive.age(9)}])
def test_alma_scaled_as_a_whole_predicts_the_same(rng, limits):
    X, y, _ = labelled(rng, 80, 2)

    def run(c):
        twin = naive.Learner(
            kernel=naive.gaussian(0.6), loss="soft_margin", rule=naive.alma(0.4 * c, 0.9 * c),
            start=0.5 * c, average=True, **limits,
        )  # fmt: skip
        scores = feed(twin, X, y)
        assert limits or math.sqrt(twin.norm2()[0]) <= 0.9 * c * (1 + 1e-12)
        return np.append(scores, [twin.mean_score(x) for x in X[:5]]) / c, twin.updates

    (one, updates), (three, again) = run(1.0), run(3.0)
    np.testing.assert_allclose(one, three, atol=1e-12)
    assert updates == again


def test_self_tuning_alma_reaches_its_share_of_the_margin(rng):
    X, y, _ = labelled(rng, 25, 2, margin=0.3)
    Z = X / np.linalg.norm(X, axis=1, keepdims=True)
    best = optimize.minimize(
        lambda w: w @ w, np.ones(2),
        constraints=[{"type": "ineq", "fun": lambda w: y * (Z @ w) - 1}], options={"maxiter": 500},
    )  # fmt: skip
    gamma = 1 / math.sqrt(best.fun)
    assert best.success
    twin = naive.Primal(loss="soft_margin", rule=naive.alma_self_tuning(0.5), start=0.0)
    last = -1
    for _ in range(3000):
        if twin.updates[0] == last:
            break
        last, twin.history = twin.updates[0], []
        feed(twin, X, y)
    assert twin.updates[0] == last, "a pass without an update"
    w = np.array(twin.weights()[0])
    assert np.min(y * (Z @ w)) / np.linalg.norm(w) >= 0.5 * gamma


@pytest.mark.parametrize(
    ("a", "p", "updates", "limit", "size"),
    [
        (0.5, 2.0, 0, math.sqrt(8), math.sqrt(2)),  # gamma_1 = 2 sqrt(8)
        (0.5, 2.0, 3, math.sqrt(2), math.sqrt(1 / 2)),
        (0.25, 5.0, 3, 3 * math.sqrt(8), math.sqrt(1 / 8)),  # gamma_4 = 4 sqrt(8) * 2 / 2
        (1.0, 2.0, 0, 0.0, math.sqrt(2)),
    ],
)
def test_self_tuning_alma_by_hand(a, p, updates, limit, size):
    rule, kxx = naive.alma_self_tuning(a, p), 9.0
    for y in (-1.0, 1.0):
        inside, outside = 3 * y * (limit + 1e-9), 3 * y * (limit - 1e-9)
        assert rule(inside, y, kxx, 1.0, updates, 1.0, 0.0) == (1.0, 0.0, 1.0, 0)
        s, coef, radius, out = rule(outside, y, kxx, 1.0, updates, 1.0, 0.0)
        assert (s, coef, radius, out) == pytest.approx((1.0, y * size / 3, 1.0, 1))


def test_decisions_exactly_at_the_edge():
    """H01 and ROMMA do nothing at y f = 1 and |y - f| = eps; the margin rules take y f = rho."""
    for rule, y, f, edge, outside in (
        (naive.perceptron(), -1.0, -0.5, 0.5, 1),
        (naive.alma(0.3, 1.0), 1.0, 0.5, 0.5, 1),
        (naive.projection(), 1.0, 1.0, 1.0, 0),
        (naive.projection(regression=True), 1.0, 0.5, 0.5, 0),
        (naive.romma(), -1.0, -1.0, 1.0, 0),
        (naive.romma(aggressive=False), 1.0, 0.0, 1.0, 1),
    ):
        assert rule(f, y, 1.0, 4.0, 1, 1.0, edge)[3] == outside


def test_self_tuning_alma_works_on_normalised_rows(rng):
    X, y, _ = labelled(rng, 50, 3)
    X[7] = 0.0
    Z = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    common = {"loss": "soft_margin", "rule": naive.alma_self_tuning(0.8), "start": 0.0}
    raw = naive.Learner(kernel=naive.linear(), **common)
    unit = naive.Learner(kernel=naive.linear(), **common)
    scores = feed(raw, X, y)[:, 0]
    np.testing.assert_allclose(scores, feed(unit, Z, y)[:, 0] * np.linalg.norm(X, axis=1))
    assert raw.updates == unit.updates == [raw.sum_outside[0] - 1]  # the zero row moved nothing
