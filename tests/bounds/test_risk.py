"""Cumulative and expected risks stay below N04 Th. 4, Cor. 5, Th. 6 and N01 Th. 1-3."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.sizes import size, some

from onkel import KernelClassifier, bounds, expansions, losses, rules

LOSSES = ["soft margin", "logistic", "absolute", "tube", "huber"]
STREAMS = ["random", "answers", "one row", "switching"]
RHO = 0.7
SEQUENCES = size(6, 40)
PAIRS = some(itertools.product(LOSSES, STREAMS), levels=lambda pair: pair)


def value_and_slope(loss, z, y):
    """l and l' of a score, all with abs(l') <= 1."""
    if loss == "soft margin":
        return np.maximum(0, RHO - y * z), -y * (y * z <= RHO)
    if loss == "logistic":
        return np.logaddexp(0, -y * z), -y / (1 + np.exp(np.clip(y * z, -500, 500)))
    d = y - z
    if loss == "absolute":
        return np.abs(d), -np.sign(d)
    if loss == "tube":
        return np.maximum(0, np.abs(d) - 0.1), -np.sign(d) * (np.abs(d) > 0.1)
    inside = np.abs(d) < 0.5
    return np.where(inside, d * d, np.abs(d) - 0.25), -np.where(inside, 2 * d, np.sign(d))


def stream(rng, kind, loss, S=SEQUENCES, T=120, d=4):
    """Rows of norm at most 1 and labels (or targets of size about 1); NaN asks for an answer."""
    X = rng.normal(size=(S, T, d))
    if kind == "one row":
        X = np.repeat(X[:, :1], T, axis=1)
    X /= np.linalg.norm(X, axis=-1, keepdims=True)
    u = rng.normal(size=(S, 1 if kind != "switching" else 3, d))
    which = np.arange(T) * u.shape[1] // T
    y = 3 * (X * u[:, which]).sum(-1) + 0.3 * rng.normal(size=(S, T))
    if loss in ("soft margin", "logistic") or kind == "one row":
        y = np.where(y > 0, 1.0, -1.0)
    if kind == "answers":
        y[:, :: rng.integers(1, 3)] = np.nan
    return X, y


def descend(X, y, loss, lam, rates, ages=None):
    """NORMA; returns every f_t (S, T, d), the labels as answered, and the cumulative risk."""
    S, T, d = X.shape
    terms, y, path, total = np.zeros((S, T)), y.copy(), np.zeros((S, T, d)), np.zeros(S)
    for t in range(T):
        if ages is not None:
            terms[:, : max(0, t - ages[t])] = 0.0
        w = np.einsum("st,std->sd", terms[:, :t], X[:, :t])
        z = (w * X[:, t]).sum(-1)
        y[:, t] = np.where(np.isnan(y[:, t]), np.where(z > 0, -1.0, 1.0), y[:, t])
        value, slope = value_and_slope(loss, z, y[:, t])
        path[:, t], total = w, total + value + lam / 2 * (w * w).sum(-1)
        terms[:, :t] *= 1 - rates[t] * lam
        terms[:, t] = -rates[t] * slope
    return path, y, total


def mean_risk(w, X, y, loss, lam):
    value, _ = value_and_slope(loss, np.einsum("sd,std->st", w, X), y)
    return value.mean(-1) + lam / 2 * (w * w).sum(-1)


def good_comparator(X, y, loss, lam, radius=np.inf, rounds=80):
    """Nearly the least mean risk, by batch subgradient steps; any comparator makes a fair test."""
    best = w = np.zeros((len(X), X.shape[-1]))
    least = mean_risk(w, X, y, loss, lam)
    for k in range(1, rounds + 1):
        z = np.einsum("sd,std->st", w, X)
        slope = value_and_slope(loss, z, y)[1]
        w = w - (lam * w + np.einsum("st,std->sd", slope, X) / X.shape[1]) / (lam * k + 0.5)
        w *= np.minimum(1.0, radius / np.maximum(np.linalg.norm(w, axis=-1), 1e-300))[:, None]
        now = mean_risk(w, X, y, loss, lam)
        best, least = np.where((now < least)[:, None], w, best), np.minimum(now, least)
    return best, least


RATES = ((0.02, 0.05), (0.02, 0.99), (0.3, 0.5), (2.0, 0.05), (2.0, 0.99))
RADII = ((0.02, 4.0), (0.02, 0.3), (0.3, 1.0), (2.0, 4.0), (2.0, 0.3))


@pytest.mark.parametrize(("loss", "kind"), PAIRS)
def test_falling_rates(rng, loss, kind):
    """N04 Theorem 4 and N01 Theorem 2, against the best comparator found."""
    X, y = stream(rng, kind, loss)
    T = X.shape[1]
    for lam, decay in RATES[:: size(2, 1)]:
        told = bounds.norma_risk(risk=0.0, trials=T, learning_rate=decay / lam, regularization=lam)
        rates = told.tuning["learning_rate"](np.arange(1, T + 1))
        path, answered, total = descend(X, y, loss, lam, rates)
        assert np.linalg.norm(path, axis=-1).max() <= bounds.norm_bound(lam) * (1 + 1e-9)
        _, least = good_comparator(X, answered, loss, lam)
        assert np.all(total - T * least <= told.bound + 1e-9)


@pytest.mark.parametrize(("loss", "kind"), PAIRS)
def test_rates_of_the_short_paper(rng, loss, kind):
    """N01 Theorems 1 and 2; the comparator within its radius."""
    X, y = stream(rng, kind, loss)
    T = X.shape[1]
    for lam, radius in RADII[:: size(2, 1)]:
        for bound in (bounds.horizon_risk, bounds.regularized_risk):
            told = bound(risk=0.0, trials=T, radius=radius, regularization=lam)
            rate = told.tuning["learning_rate"]
            rates = np.full(T, rate) if isinstance(rate, float) else rate(np.arange(1, T + 1))
            _, answered, total = descend(X, y, loss, lam, rates)
            _, least = good_comparator(X, answered, loss, lam, radius)
            assert np.all(total - T * least <= told.bound + 1e-9)


def test_constant_rate_needs_its_last_term():
    """N01 Theorem 1's O(1) is not nothing: one row, labels that answer, rate * lambda = 0.9."""
    T, radius = 50, 1.0
    lam = 0.9 * T**0.5 / radius
    told = bounds.horizon_risk(risk=0.0, trials=T, radius=radius, regularization=lam)
    X, y = np.ones((1, T, 1)), np.full((1, T), np.nan)
    rates = np.full(T, told.tuning["learning_rate"])
    _, answered, total = descend(X, y, "soft margin", lam, rates)
    regret = total[0] - T * mean_risk(np.zeros((1, 1)), X, answered, "soft margin", lam)[0]
    assert radius * T**0.5 * 1.2 < regret <= told.bound


@pytest.mark.few
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["random", "answers", "one row"])
def test_truncated(rng, loss, kind):
    """N04 Theorem 6, with windows that really drop terms."""
    for decay, growth in ((0.95, 0.2), (0.95, 0.3), (0.8, 0.3)):
        lam, start = 0.4, bounds.growth_start(decay, growth)
        T = 3 * start + 120
        X, y = stream(rng, kind, loss, S=12, T=T)
        told = bounds.norma_risk_truncated(
            risk=0.0, trials=T, learning_rate=decay / lam, regularization=lam, growth=growth
        )
        ages = bounds.growth_window(np.arange(1, T + 1), start, growth)
        assert ages[-1] < 0.7 * T  # it does drop terms
        rates = told.tuning["learning_rate"](np.arange(1, T + 1))
        path, answered, total = descend(X, y, loss, lam, rates, ages)
        assert np.linalg.norm(path, axis=-1).max() <= bounds.norm_bound(lam) * (1 + 1e-9)
        _, least = good_comparator(X, answered, loss, lam)
        assert np.all(total - T * least <= told.bound + 1e-9)


@pytest.mark.parametrize(("decay", "growth"), [(0.99, 0.2), (0.9, 0.25), (0.5, 0.45), (0.3, 0.4)])
def test_what_a_window_drops_is_small(decay, growth):
    """The step of Theorem 6's proof: a dropped coefficient is at most 2 eta_t^2 lam c.

    For all windows, and for the extra terms that the shrinking window drops just after t0.
    """
    start = bounds.growth_start(decay, growth)
    t = np.arange(1, 4 * start + 200)
    ages = bounds.growth_window(t, start, growth)
    rates = decay / np.sqrt(t)  # lam = 1
    logs = np.concatenate([[0.0], np.cumsum(np.log1p(-rates))])
    for i in np.flatnonzero(np.diff(ages) < 1) + 1:  # trial t[i] holds ages[i] terms
        last = np.arange(t[i - 1] - ages[i - 1], t[i] - ages[i])  # births dropped on the way
        last = last[last >= 1]
        coef = rates[last - 1] * np.exp(logs[i] - logs[last])
        assert np.all(coef <= 2 * rates[i - 1] ** 2)


def finite_world(rng, n=12, d=3):
    """A distribution on n labelled points of norm at most 1."""
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, rng.dirichlet(np.ones(n))


def world_risk(w, X, y, chance, loss, lam):
    value, _ = value_and_slope(loss, w @ X.T, y)
    return value @ chance + lam / 2 * (w * w).sum(-1)


@pytest.mark.parametrize("loss", ["soft margin", "logistic"])
def test_average_hypothesis(rng, loss):
    """N04 Corollary 5 (on each sample) and N01 Theorem 3 (in the mean over samples)."""
    for lam, T in itertools.product((0.1, 0.5), (30, 200)):
        points, labels, chance = finite_world(rng)
        picks = rng.choice(len(points), p=chance, size=(150, T))
        X, y = points[picks], labels[picks]
        told = bounds.norma_average_risk(
            risk=0.0, trials=T, learning_rate=0.5 / lam, regularization=lam, delta=0.05,
            risk_limit=bounds.soft_margin_risk(regularization=lam),
        )  # fmt: skip
        path, _, _ = descend(X, y, loss, lam, told.tuning["learning_rate"](np.arange(1, T + 1)))
        ours = world_risk(path.mean(1), points, labels, chance, loss, lam)
        _, least = good_comparator(X, y, loss, lam)
        assert np.mean(ours - least > told.bound) <= 0.05
        told = bounds.regularized_average_risk(
            risk=0.0, trials=T, radius=1 / lam, regularization=lam
        )
        path, _, _ = descend(X, y, loss, lam, told.tuning["learning_rate"](np.arange(1, T + 1)))
        ours = world_risk(path.mean(1), points, labels, chance, loss, lam)
        many = np.repeat(points[None], 1, axis=0)
        w = rng.normal(size=(500, points.shape[1])) * rng.uniform(0, 1 / lam, size=(500, 1))
        w *= np.minimum(1, (1 / lam) / np.linalg.norm(w, axis=1))[:, None]
        w = np.concatenate([w, good_comparator(many, labels[None], loss, lam)[0]])
        least_world = world_risk(w, points, labels, chance, loss, lam).min()
        assert ours.mean() - least_world <= told.bound


def learner(told, loss, **more):
    window = dict(told.window) or {"terms": None}
    return KernelClassifier(
        kernel="linear", loss=loss, rule=rules.Norma(**told.tuning, track_norm=True), scale=False,
        fit_intercept=False, expansion=expansions.Window(**window), **more,
    )  # fmt: skip


@pytest.mark.parametrize("loss", ["soft margin", "logistic"])
def test_product_risks(rng, loss):
    """Theorems 4 and 6, N01 Theorems 1 and 2: the product's own cumulative risk."""
    part = losses.SoftMargin(margin=RHO) if loss == "soft margin" else losses.Logistic()
    X, y = stream(rng, "random", loss, S=1, T=500)
    T, lam = 500, 0.4
    common = dict(risk=0.0, trials=T, regularization=lam)
    eta = 0.95 / lam
    for told in (
        bounds.norma_risk(learning_rate=eta, **common),
        bounds.norma_risk_truncated(learning_rate=eta, growth=0.3, **common),
        bounds.horizon_risk(radius=2.0, **common),
        bounds.regularized_risk(radius=2.0, **common),
    ):
        clf = learner(told, part)
        clf.partial_fit(X[0], y[0].astype(int), classes=[-1, 1])
        _, least = good_comparator(X, y, loss, lam, 2.0)
        assert 0 < clf.diagnostics_["risk"] - T * least[0] <= told.bound
        if told.window:
            assert clf.n_terms_ < T / 2


def test_product_average(rng):
    """Corollary 5 and N01 Theorem 3: the product's own average hypothesis."""
    points, labels, chance = finite_world(rng)
    lam, T = 0.4, 300
    picks = rng.choice(len(points), p=chance, size=T)
    for told in (
        bounds.norma_average_risk(
            risk=0.0, trials=T, learning_rate=0.5 / lam, regularization=lam, delta=0.05,
            risk_limit=bounds.soft_margin_risk(regularization=lam),
        ),
        bounds.regularized_average_risk(risk=0.0, trials=T, radius=2.0, regularization=lam),
    ):  # fmt: skip
        clf = learner(told, losses.SoftMargin(margin=RHO), average=True)
        clf.partial_fit(points[picks], labels[picks].astype(int), classes=[-1, 1])
        w = np.atleast_2d(np.linalg.lstsq(points, clf.decision_function(points), rcond=None)[0])
        ours = world_risk(w, points, labels, chance, "soft margin", lam)
        best, _ = good_comparator(points[None], labels[None], "soft margin", lam, 2.0)
        theirs = world_risk(best, points, labels, chance, "soft margin", lam)
        assert ours[0] - theirs[0] <= told.bound
