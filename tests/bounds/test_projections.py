"""Mistakes and square losses of the projections stay below H01 Th. 2-6 and (18)."""

from __future__ import annotations

import numpy as np
import pytest

import onkel
from onkel import KernelClassifier, bounds, expansions, losses, rules

EPSILON = 0.1


def classify(X, y, radius=None):
    """Project onto y f(x) >= 1; returns every w_t, mistakes and (1 - y f)_+^2 (S, T)."""
    S, T, d = X.shape
    w, path, wrong, lost = np.zeros((S, d)), np.zeros((S, T, d)), np.zeros((S, T)), np.zeros((S, T))
    for t in range(T):
        x, path[:, t] = X[:, t], w
        f = (w * x).sum(-1)
        wrong[:, t], lost[:, t] = y[:, t] * f <= 0, np.maximum(0, 1 - y[:, t] * f) ** 2
        a = np.where(y[:, t] * f >= 1, 0.0, (y[:, t] - f) / (x * x).sum(-1))
        w = into_ball(w + a[:, None] * x, radius)
    return path, wrong, lost


def regress(X, target, radius=None, answer=True):
    """Project onto abs(y - f(x)) <= epsilon; y lies within epsilon of `target`, away from f."""
    S, T, d = X.shape
    w, path, lost = np.zeros((S, d)), np.zeros((S, T, d)), np.zeros((S, T))
    for t in range(T):
        x, path[:, t] = X[:, t], w
        f = (w * x).sum(-1)
        y = target[:, t] + (EPSILON * np.sign(target[:, t] - f) if answer else 0.0)
        off = np.maximum(0, np.abs(y - f) - EPSILON)
        lost[:, t] = off**2
        w = into_ball(w + (np.sign(y - f) * off / (x * x).sum(-1))[:, None] * x, radius)
    return path, lost


def into_ball(w, radius):
    if radius is None:
        return w
    return w * np.minimum(1, radius / np.maximum(np.linalg.norm(w, axis=-1), 1e-300))[:, None]


def rest(values):
    """Sum from each trial on."""
    return values[:, ::-1].cumsum(1)[:, ::-1]


def limits(X, path, u):
    """projection_loss for every sequence and every start s."""
    far = np.linalg.norm(u[:, None] - path, axis=-1)
    size = np.maximum.accumulate(np.linalg.norm(X, axis=-1)[:, ::-1], axis=1)[:, ::-1]
    told = [
        [bounds.projection_loss(distance=a, bound=b).bound for a, b in zip(*row, strict=True)]
        for row in zip(far, size, strict=True)
    ]
    return np.array(told) * (1 + 1e-9) + 1e-9


def separable(rng, S, T, d):
    """Rows with y u(x) >= 1, many of them right at 1."""
    u = rng.normal(size=(S, d)) * rng.choice([0.5, 2.0, 8.0], size=(S, 1))
    X = rng.normal(size=(S, T, d)) * rng.choice([0.2, 1.0], size=(S, T, 1))
    f = np.einsum("sd,std->st", u, X)
    y = np.where(f > 0, 1.0, -1.0)
    short = np.maximum(0, 1 + 1e-12 - y * f) / (u * u).sum(-1)[:, None]
    return X + (y * short)[..., None] * u[:, None], y, u


def test_classification_from_every_trial(rng):
    """Theorem 2 at s = 1 and (18) at every s; also the squared hinge, which the proof bounds."""
    for d in (2, 5, 20):
        X, y, u = separable(rng, 60, 80, d)
        path, wrong, lost = classify(X, y)
        most = limits(X, path, u)
        assert np.all(rest(wrong) <= most)
        assert np.all(rest(lost) <= most)


@pytest.mark.parametrize("answer", [True, False])
def test_regression_from_every_trial(rng, answer):
    """Theorems 3 and 6, and (18), with targets chosen against the algorithm."""
    for d in (2, 5, 20):
        u = rng.normal(size=(60, d))
        X = rng.normal(size=(60, 80, d)) * rng.choice([0.2, 1.0], size=(60, 80, 1))
        path, lost = regress(X, np.einsum("sd,std->st", u, X), answer=answer)
        assert np.all(rest(lost) <= limits(X, path, u))


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_constrained_on_any_segment(rng, task):
    """Theorems 4 and 5: the target switches, and each stretch keeps the bound by itself."""
    parts, length, d, S = 6, 30, 4, 50
    pieces = [separable(rng, S, length, d) for _ in range(parts)]
    X, y = (np.concatenate([p[k] for p in pieces], axis=1) for k in (0, 1))
    U = np.stack([p[2] for p in pieces], axis=1)
    radius = np.linalg.norm(U, axis=-1).max(-1) * rng.uniform(1, 1.5, size=S)
    if task == "classification":
        lost = classify(X, y, radius)[1]
    else:
        target = np.einsum("spd,spld->spl", U, X.reshape(S, parts, length, d))
        lost = regress(X, target.reshape(S, -1), radius)[1]
    for i, part in np.ndindex(S, parts):
        for s in (0, 7, 20):  # segments that end where the stretch does, and shorter ones
            cut = slice(part * length + s, (part + 1) * length - (5 if s == 7 else 0))
            told = bounds.projection_segment_loss(
                norm=float(np.linalg.norm(U[i, part])), radius=float(radius[i]),
                bound=float(np.linalg.norm(X[i, cut], axis=-1).max()),
            )  # fmt: skip
            assert lost[i, cut].sum() <= told.bound * (1 + 1e-9)


def test_orthonormal_rows_attain_the_bound():
    X, y = np.eye(20)[None], np.ones((1, 20))
    told = bounds.projection_loss(distance=20**0.5, bound=1.0)
    assert classify(X, y)[1].sum() == 20 == pytest.approx(told.bound)


def test_a_target_that_flips_attains_the_bound_of_a_segment():
    X, target = np.ones((1, 2, 1)), np.array([[-2.0, 2.0]])
    lost = regress(X, target, radius=np.array([2.0]), answer=False)[1][0, 1]
    told = bounds.projection_segment_loss(norm=2.0 - EPSILON, radius=2.0 - EPSILON, bound=1.0)
    assert lost == pytest.approx(told.bound)  # -1.9 before, and 1.9 fits it within epsilon


def test_product_classification(rng):
    X, y, u = separable(rng, 1, 300, 4)
    size, far = float(np.linalg.norm(X, axis=-1).max()), float(np.linalg.norm(u))
    for told in (
        bounds.projection_loss(distance=far, bound=size),
        bounds.projection_segment_loss(norm=far, radius=1.2 * far, bound=size),
    ):
        clf = KernelClassifier(
            kernel="linear", loss=losses.SoftMargin(margin=told.margin), scale=False,
            fit_intercept=False, rule=rules.Projection(**told.tuning),
            expansion=expansions.Window(terms=None),
        )  # fmt: skip
        clf.partial_fit(X[0], y[0].astype(int), classes=[-1, 1])
        assert 0 < clf.diagnostics_["mistakes"] <= told.bound
        if told.tuning["radius"] is None:
            assert clf.diagnostics_["mistakes"] == classify(X, y)[1].sum()


def test_product_regression(rng):
    X, u = rng.normal(size=(300, 4)), rng.normal(size=4)
    y = X @ u + rng.uniform(-EPSILON, EPSILON, size=300)
    size, far = float(np.linalg.norm(X, axis=-1).max()), float(np.linalg.norm(u))
    for told in (
        bounds.projection_loss(distance=far, bound=size),
        bounds.projection_segment_loss(norm=far, radius=1.2 * far, bound=size),
    ):
        reg = onkel.KernelRegressor(
            kernel="linear", loss=losses.EpsilonInsensitive(epsilon=EPSILON), scale=False,
            fit_intercept=False, rule=rules.Projection(**told.tuning),
            expansion=expansions.Window(terms=None),
        )  # fmt: skip
        before = reg.predict_then_learn(X, y)
        lost = np.maximum(0, np.abs(y - before) - EPSILON) ** 2
        assert 0 < lost.sum() <= told.bound
