"""nu is a promise: the realised rate equals nu plus a term that the threshold's travel explains.

mean sigma = nu - (rho_end - rho_1) / (r eta T), and with + for epsilon and Huber's sigma.
"""

from __future__ import annotations

import numpy as np
import pytest

from onkel import KernelClassifier, KernelRegressor, NoveltyDetector, expansions, losses, rules

ROWS = 3000


def streams(rng):
    """Random, drifting, and adversarial: rows that alternate to hurt the threshold most."""
    still = rng.normal(size=(ROWS, 2))
    drifting = still + np.linspace(0, 30, ROWS)[:, None]
    hostile = np.where((np.arange(ROWS) // 50 % 2)[:, None] == 0, 0.0, 50.0 + still)
    return {"random": still, "drifting": drifting, "adversarial": hostile}


def rule(r):
    return rules.Norma(learning_rate=0.3, memory=700, threshold_rate=r)


@pytest.mark.parametrize("r", [1.0, 3.0])
@pytest.mark.parametrize("kind", ["random", "drifting", "adversarial"])
@pytest.mark.parametrize("nu", [0.01, 0.2])
def test_novelty_rate(rng, kind, r, nu):
    X = streams(rng)[kind]
    det = NoveltyDetector(
        nu=nu, rule=rule(r), expansion=expansions.Window(age=500), kernel="gaussian", scale=False
    )
    alerts = det.predict_then_learn(X) == -1
    explained = nu - det.threshold_ / (r * 0.3 * ROWS)
    assert abs(alerts.mean() - explained) < 1e-9
    report = det.diagnostics_
    assert report["rate_promised"] == nu
    assert abs(report["rate_realised"] - alerts.mean()) < 1e-12
    assert abs(report["rate_realised"] - nu - report["rate_error_term"]) < 1e-9


@pytest.mark.parametrize("kind", ["random", "drifting", "adversarial"])
def test_support_keeps_the_alert_promise(rng, kind):
    det = NoveltyDetector(nu=0.02, support=0.3, rule=rule(2.0), scale=False)
    alerts = det.predict_then_learn(streams(rng)[kind]) == -1
    assert abs(alerts.mean() - (0.02 - det.threshold_ / (2.0 * 0.3 * ROWS))) < 1e-9


@pytest.mark.parametrize("start", [None, 2.0])
@pytest.mark.parametrize("kind", ["random", "drifting", "adversarial"])
def test_margin_rate(rng, kind, start):
    X = streams(rng)[kind]
    y = np.where(np.sin(X[:, 0]) + 0.5 * rng.normal(size=ROWS) > 0, 1, -1)
    clf = KernelClassifier(
        loss=losses.SoftMargin(margin=start, nu=0.3), rule=rule(1.0), scale=False
    )
    clf.predict_then_learn(X, y)
    report = clf.diagnostics_
    rho = report["threshold"]
    explained = 0.3 - (rho - (start or 0.0)) / (0.3 * ROWS)
    assert abs(report["margin_errors"] / ROWS - explained) < 1e-9
    assert abs(report["rate_realised"] - 0.3 - report["rate_error_term"]) < 1e-9


@pytest.mark.parametrize(
    "loss", [losses.EpsilonInsensitive(nu=0.1), losses.Huber(nu=0.1, sigma=2.0)]
)
@pytest.mark.parametrize("kind", ["random", "drifting", "adversarial"])
def test_interval_coverage(rng, kind, loss):
    X = streams(rng)[kind]
    y = np.sin(X[:, 0]) + rng.standard_t(2, size=ROWS)
    reg = KernelRegressor(loss=loss, rule=rule(1.0), scale=False)
    low, high = reg.predict_then_learn(X, y, output="interval")
    report = reg.diagnostics_
    start = getattr(loss, "sigma", 0.0)
    explained = 0.1 + (report["threshold"] - start) / (0.3 * ROWS)
    assert abs(report["rate_realised"] - explained) < 1e-9
    assert abs(report["rate_realised"] - 0.1 - report["rate_error_term"]) < 1e-9
    outside = np.mean((y < low) | (y > high))
    # The state's epsilon may dip below 0 by eta nu, the intervals may not.
    assert abs(outside - report["rate_realised"]) < 0.02


def test_huber_sigma_never_divides_by_zero(rng):
    reg = KernelRegressor(loss=losses.Huber(nu=0.5, sigma=1e-6), scale=False, rule=rule(3.0))
    reg.partial_fit(rng.normal(size=(500, 1)), np.zeros(500))
    assert np.isfinite(reg.predict(np.zeros((1, 1)))).all()


@pytest.mark.parametrize(
    "loss", [losses.SoftMargin(), losses.Logistic(), losses.SoftMargin(nu=0.4)]
)
def test_norm_and_score_bounds(rng, loss):
    """N04 (17), (34): ||f|| <= cX/lam and |f(x)| <= cX^2/lam, at every moment."""
    lam = 0.05
    clf = KernelClassifier(
        kernel="laplacian", loss=loss, scale=False, fit_intercept=False,
        rule=rules.Norma(learning_rate=0.5, regularization=lam, track_norm=True),
    )  # fmt: skip
    X = np.repeat(rng.normal(size=(10, 2)), 60, axis=0)  # the same rows push the same way
    for i in range(0, len(X), 7):
        clf.partial_fit(X[i : i + 7], np.ones(len(X[i : i + 7]), int))
        assert clf.diagnostics_["norm"] <= 1 / lam + 1e-9
        assert np.max(np.abs(clf.decision_function(X))) <= 1 / lam + 1e-9
