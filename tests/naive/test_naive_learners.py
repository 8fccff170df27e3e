"""The twins that hold f: one hypothesis held in two ways, and steps written out in the test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.labelled import feed, labelled
from helpers.sizes import size

import naive


def test_outputs_are_independent(rng):
    X, y, _ = labelled(rng, size(25, 50), 2)
    Y = np.stack([y, -y, np.where(X[:, 0] > 0, 1.0, -1.0)], axis=1)
    for rule in (naive.alma(0.5, 1.0), naive.romma(), naive.projection(radius=1.5)):
        common = {"kernel": naive.gaussian(0.5), "loss": "soft_margin", "rule": rule, "start": 1.0}
        together = naive.Learner(outputs=3, scale=True, **common)
        apart = [naive.Learner(scale=True, **common) for _ in range(3)]
        truth = [feed(twin, X, Y[:, o])[:, 0] for o, twin in enumerate(apart)]
        np.testing.assert_allclose(feed(together, X, Y), np.transpose(truth), atol=1e-11)
        assert together.updates == [twin.updates[0] for twin in apart]


@pytest.mark.parametrize("p", [2.0, 3.0, 7.5])
def test_link_keeps_the_norm_and_inverts(rng, p):
    theta = rng.normal(size=6)
    w, q = naive.link(theta, p), p / (p - 1)
    assert naive.p_norm(w, q) == pytest.approx(naive.p_norm(theta, p), rel=1e-12)
    np.testing.assert_allclose(naive.link(w, q), theta, rtol=1e-10)
    truth = np.sign(theta) * np.abs(theta) ** (p - 1) / np.linalg.norm(theta, p) ** (p - 2)
    np.testing.assert_allclose(w, truth, rtol=1e-12)
    assert np.dot(w, theta) == pytest.approx(naive.p_norm(theta, p) ** 2)
    assert naive.link([0.0, 0.0], p) == [0.0, 0.0]


RULES = {
    "perceptron": (naive.perceptron(), "soft_margin"),
    "alma": (naive.alma(0.4, 0.7), "soft_margin"),
    "alma_self_tuning": (naive.alma_self_tuning(0.9), "soft_margin"),
    "projection": (naive.projection(radius=2.0), "soft_margin"),
    "romma": (naive.romma(), "soft_margin"),
    "tube": (naive.projection(regression=True), "epsilon_insensitive"),
    "norma": (naive.Descent(lambda t: 0.3, 0.1), "soft_margin"),
    "norma_nu": (naive.Descent(lambda t: 0.3, 0.1, nu=0.3), "epsilon_insensitive"),
    "norma_novelty": (naive.Descent(lambda t: 0.3, 0.1, nu=0.2), "novelty"),
}


@pytest.mark.few
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_primal_equals_linear_kernel(rng, name, scale):
    """theta = sum_i a_i x_i, and with p = 2 every value is the same, in any frame."""
    rule, loss = RULES[name]
    X, y, _ = labelled(rng, 60, 3)
    X = X * [1.0, 0.3, 4.0] + [0.0, 2.0, 0.0]
    regression = loss == "epsilon_insensitive"
    target = X[:, 0] + 0.2 * rng.normal(size=60) if regression else y
    common = {
        "loss": loss, "rule": rule, "start": 0.4, "average": True, "scale": scale,
        "targets_scaled": scale and regression, "memory": 40.0,
    }  # fmt: skip
    dual, primal = naive.Learner(kernel=naive.linear(), **common), naive.Primal(**common)
    np.testing.assert_allclose(feed(primal, X, target), feed(dual, X, target), atol=1e-9)
    for one, other in (
        (primal.norm2(), dual.norm2()), (primal.b, dual.b), (primal.threshold, dual.threshold),
        ([primal.mean_score(x) for x in X[:6]], [dual.mean_score(x) for x in X[:6]]),
        (primal.cumulative_loss, dual.cumulative_loss),
    ):  # fmt: skip
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert primal.updates == dual.updates
    assert primal.intercept == (name in ("norma", "norma_nu"))


def test_p_norm_alma_stays_in_its_ball(rng):
    X, y, _ = labelled(rng, 80, 5)
    twin = naive.Primal(
        loss="soft_margin", rule=naive.alma(0.3, 0.6), start=0.2, p=4.0, average=True
    )
    sums, theta = np.zeros(5), np.zeros(5)
    for x, target in zip(X, y, strict=True):
        w = np.array(naive.link(theta, 4.0))
        sums += w
        assert twin.learn_one(x, [target]) == pytest.approx([float(w @ x)])
        if target * (w @ x) <= 0.2:
            theta = theta + 0.3 * target * x
        theta = theta * min(1.0, 0.6 / max(np.linalg.norm(theta, 4), 1e-300))
    assert naive.p_norm(twin.weights()[0], 4 / 3) <= 0.6 * (1 + 1e-12)
    np.testing.assert_allclose(twin.mean_score(X[0]), [sums @ X[0] / 80])


@pytest.mark.parametrize("p", [2.0, 5.0])
def test_primal_frames_change_nothing_but_the_frame(rng, p):
    """With theta summed anew at each refresh, f is that of the whole history in the new frame."""
    X, y, _ = labelled(rng, 40, 3)
    twin = naive.Primal(
        loss="soft_margin", rule=naive.romma(), start=1.0, p=p, scale=True, memory=20.0
    )
    feed(twin, X * [1.0, 5.0, 0.1], y)
    Z = (X * [1.0, 5.0, 0.1] - twin.center) / twin.spread
    theta = np.array([coefs[0] for _, coefs in twin.history]) @ Z
    np.testing.assert_allclose(twin.theta[0], theta, atol=1e-11)
    assert twin.score(X[0] * [1.0, 5.0, 0.1])[0] == pytest.approx(
        float(np.dot(naive.link(theta, p), Z[0]))
    )


# ---------------------------------------------------------------- centres


@pytest.mark.parametrize("loss", ["soft_margin", "logistic", "least_squares", "squared"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_coefficient_equals_primal_over_the_features(rng, loss, outputs):
    X, y, _ = labelled(rng, 50, 2)
    Y = np.stack([y, -y], axis=1)[:, :outputs]
    kernel, centres = naive.gaussian(0.5), rng.normal(size=(7, 2))
    common = {
        "loss": loss, "rule": naive.Descent(lambda t: 0.2 * t**-0.4, 0.3), "start": 1.0,
        "outputs": outputs, "average": True, "power": 2.0,
    }  # fmt: skip
    ours = naive.Coefficient(kernel=kernel, centres=centres, **common)
    primal = naive.Primal(phi=naive.over_centres(kernel, centres), **common)
    np.testing.assert_allclose(feed(ours, X, Y), feed(primal, X, Y), atol=1e-12)
    np.testing.assert_allclose(np.transpose(ours.alpha), primal.theta, atol=1e-12)
    np.testing.assert_allclose(ours.mean_score(X[3]), primal.mean_score(X[3]), atol=1e-12)
    np.testing.assert_allclose(ours.b, primal.b, atol=1e-12)


def test_coefficient_follows_the_printed_update_within_its_bound(rng):
    X, y, _ = labelled(rng, 80, 2)
    kernel, centres, lam = naive.gaussian(0.1), rng.normal(size=(9, 2)), 0.2
    kappa = naive.kappa(kernel, centres, X)
    rate = lambda t: t**-0.3 / (kappa**2 + lam)
    twin = naive.Coefficient(
        kernel=kernel, centres=centres, loss="soft_margin", rule=naive.Descent(rate, lam),
        start=1.0, intercept=False,
    )  # fmt: skip
    alpha = np.zeros(9)
    for t, (x, target) in enumerate(zip(X, y, strict=True), 1):
        features = np.array([kernel(x, z) for z in centres])
        slope = -1.0 if target * (alpha @ features) <= 1 else 0.0
        twin.learn_one(x, [target])
        alpha = alpha - rate(t) * (lam * alpha + slope * target * features)
        np.testing.assert_allclose(np.ravel(twin.alpha), alpha, atol=1e-13)
        assert np.linalg.norm(alpha) <= kappa / lam


def test_centres_by_order_and_by_draw():
    rows = [[0.0], [0.0], [1.0], [2.0], [1.0], [3.0], [4.0]]
    common = {
        "kernel": naive.gaussian(0.5), "loss": "squared", "rule": naive.Descent(lambda t: 0.5, 0.0),
        "start": 0.0, "intercept": False, "m": 2, "average": True,
    }  # fmt: skip
    first = naive.Coefficient(choose="first", **common)
    feed(first, rows, np.ones(7))
    assert [z[0] for z in first.centres] == [0.0, 1.0]
    # Rows 1 and 3 fill; 4 is drawn outside; 5 stands in; 6 replaces centre 1; 7 comes too late.
    drawn = naive.Coefficient(choose="reservoir", draws=[0, 1, 2, 3, 0, 1, 0], sample=6, **common)
    feed(drawn, rows[:5], np.ones(5))
    assert [z[0] for z in drawn.centres] == [0.0, 1.0]
    kept, lost = drawn.alpha[0][0], drawn.alpha[1][0]
    before = kept * math.exp(-4.5) + lost * math.exp(-2.0)
    assert drawn.learn_one([3.0], [1.0]) == pytest.approx([before])
    assert [z[0] for z in drawn.centres] == [0.0, 3.0]
    step = 0.5 * (1 - kept * math.exp(-4.5))  # by f without the centre that left
    assert drawn.alpha[1][0] == pytest.approx(step)
    assert drawn.alpha[0][0] == pytest.approx(kept + step * math.exp(-4.5))
    drawn.learn_one([4.0], [1.0])
    assert [z[0] for z in drawn.centres] == [0.0, 3.0]
    assert drawn.mean_score([1.0])[0] > drawn.mean_score_kept([1.0])[0]
