"""NoveltyDetector as it comes: the papers' algorithm, its promise, and the identity behind it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onkel import NoveltyDetector, losses, rules

ROWS = 1500
NUS = [0.01, 0.05, 0.3]


def streams(rng):
    """Usual rows; rows that drift; one row again and again; blocks far apart; ever farther away."""
    still = rng.normal(size=(ROWS, 2))
    step = np.arange(ROWS)[:, None]
    return {
        "still": still,
        "drifting": still + step / 100,
        "constant": np.ones((ROWS, 2)),
        "blocks": still + 50 * (step // 40 % 2),
        "leaving": np.hstack([step, step]) ** 2.0,
    }


def published(X, nu, gamma, memory=100_000.0):
    """Return scores and thresholds: N04 (20), its sign of rho corrected, with eta = 1."""
    terms, rho, scores, limits = [], 0.0, [], []
    for x in X.tolist():
        f = sum(a * math.exp(-gamma * math.dist(x, z) ** 2) for a, z in terms)
        scores.append(f)
        limits.append(rho)
        alert = f < rho
        terms = [(a * (1 - 1 / memory), z) for a, z in terms] + [(1.0, x)] * alert
        rho += nu - alert
    return np.array(scores), np.array(limits)


@pytest.mark.parametrize("nu", NUS)
@pytest.mark.parametrize("kind", ["still", "drifting", "blocks"])
def test_the_default_is_the_published_algorithm(rng, kind, nu):
    """Width 1/d, one learning rate for f and rho, a memory of 100 000 rows; nothing besides."""
    X = streams(rng)[kind][:500]
    det = NoveltyDetector(nu=nu, scale=False)
    score, limit, alert = det.predict_then_learn(X, output="judgement").T
    want, rho = published(X, nu, 0.5)
    np.testing.assert_allclose(score, want, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(limit, rho, rtol=0, atol=1e-12)
    assert det.n_terms_ == alert.sum()  # f learns from alerts, and from nothing else


def test_the_default_says_so():
    assert NoveltyDetector().part("rule") == rules.Norma()
    assert NoveltyDetector(nu=0.02)._loss() == losses.Novelty(nu=0.02)
    assert NoveltyDetector(nu=0.02)._loss().fraction == 0.02
    assert NoveltyDetector(support=0.3)._loss().fraction == 0.3
    apart = rules.Norma(threshold_rate=3, support_rate=0.1)
    assert NoveltyDetector(nu=0.02, rule=apart)._loss().fraction == 0.02


@pytest.mark.parametrize(("nu", "support"), [(0.02, 0.04), (0.2, 0.4), (0.6, 0.8)])
def test_without_its_alerts_f_learns_from_as_many_other_rows(nu, support):
    """Half of the rows below the upper threshold are alerts (less, where 2 nu would be above 1)."""
    assert NoveltyDetector(nu=nu, learn_alerts=False)._loss().fraction == pytest.approx(support)


@pytest.mark.parametrize("nu", NUS)
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("kind", ["still", "drifting", "constant", "blocks", "leaving"])
def test_the_promise_is_an_identity(rng, kind, scale, nu):
    """mean sigma = nu - rho / T, at every moment, whatever the rows."""
    det = NoveltyDetector(nu=nu, scale=scale)
    alerts = np.zeros(0, bool)
    for part in np.split(streams(rng)[kind], [1, 2, 700]):
        alerts = np.append(alerts, det.predict_then_learn(part) == -1)
        report = det.diagnostics_
        assert report["rate_promised"] == nu
        assert report["rate_realised"] == pytest.approx(alerts.mean(), abs=1e-12)
        assert report["rate_error_term"] == pytest.approx(-det.threshold_ / det.t_, abs=1e-12)
        assert alerts.mean() == pytest.approx(nu + report["rate_error_term"], abs=1e-9)


@pytest.mark.parametrize("nu", NUS)
@pytest.mark.parametrize("kind", ["still", "drifting", "constant", "blocks", "leaving"])
def test_the_rate_lies_between_half_of_nu_and_nu(rng, kind, nu):
    """0 <= k <= 1 bounds rho. It rises only where f >= rho, and f is at most the number of alerts
    so far; it falls only where rho > f >= 0. So -1 < rho < alerts + nu, and the identity says:
    (nu - nu/T) / 2 <= rate < nu + 1/T."""
    rate = np.mean(NoveltyDetector(nu=nu).predict_then_learn(streams(rng)[kind]) == -1)
    assert (nu - nu / ROWS) / 2 <= rate < nu + 1 / ROWS


@pytest.mark.parametrize("kind", ["still", "drifting", "constant", "blocks", "leaving"])
def test_a_forgetting_detector_owes_no_more_than_its_memory(rng, kind):
    """f = sum of (1 - 1/memory)^age over alerts stays below memory, and rho below memory + nu."""
    nu, memory = 0.1, 30
    det = NoveltyDetector(nu=nu, rule=rules.Norma(memory=memory))
    rate = np.mean(det.predict_then_learn(streams(rng)[kind]) == -1)
    assert nu - (memory + nu) / ROWS <= rate < nu + 1 / ROWS
