"""The best hypothesis in hindsight against truths found another way, and regret against it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.sizes import size as sized

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    bounds,
    evaluate,
    expansions,
    kernels,
    losses,
    rules,
    schedules,
)
from onkel.evaluate import batch, hindsight

N, LAM = 60, 0.01

FORMULAS = {
    losses.SoftMargin(): lambda z, y: np.maximum(0, 1 - y * z),
    losses.SoftMargin(margin=0.3): lambda z, y: np.maximum(0, 0.3 - y * z),
    losses.Logistic(): lambda z, y: np.logaddexp(0, -y * z),
    losses.Squared(): lambda z, y: (y - z) ** 2 / 2,
    losses.Absolute(): lambda z, y: np.abs(y - z),
    losses.EpsilonInsensitive(epsilon=0.2): lambda z, y: np.maximum(0, np.abs(y - z) - 0.2),
    losses.Huber(sigma=0.5): lambda z, y: np.where(
        np.abs(y - z) >= 0.5, np.abs(y - z) - 0.25, (y - z) ** 2
    ),
}
each_loss = pytest.mark.parametrize("loss", FORMULAS, ids=repr)


def problem(rng, loss, n=N):
    """Return rows, targets and kernel matrix of a noisy problem for this loss."""
    X = rng.normal(size=(n, 2))
    clean = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
    y = clean + 0.4 * rng.normal(size=n)
    y = np.sign(y) if loss.task == "classification" else y
    return X, y, kernels.Gaussian(gamma=1.0)(X)


def root(K):
    """Return R with R R' = K: a linear problem on its rows is the kernel's problem."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0))


# -- the solver ----------------------------------------------------------------------------------


def test_squared_loss_has_a_closed_form(rng):
    _, y, K = problem(rng, losses.Squared())
    found = batch.minimize(K, y, losses.Squared(), LAM)
    a = np.linalg.solve(K + N * LAM * np.eye(N), y)
    z = K @ a
    truth = np.sum((y - z) ** 2) / 2 + N * LAM / 2 * a @ z
    assert np.isclose(found.value, truth, rtol=1e-9)
    assert np.allclose(found.dual / (N * LAM), a, atol=1e-6)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Huber(sigma=0.5)], ids=repr)
def test_smooth_losses_agree_with_scipy_on_the_primal(rng, loss):
    optimize = pytest.importorskip("scipy.optimize")
    _, y, K = problem(rng, loss)
    R = root(K)

    def primal(w):
        return FORMULAS[loss](R @ w, y).sum() + N * LAM / 2 * w @ w

    truth = optimize.minimize(primal, np.zeros(N), method="BFGS", options={"gtol": 1e-7}).fun
    found = batch.minimize(K, y, loss, LAM, tolerance=1e-6)
    assert np.isclose(found.value, truth, rtol=2e-6)


@pytest.mark.parametrize("margin", [1.0, 0.3])
def test_soft_margin_agrees_with_a_linear_svm_on_the_root_of_the_kernel(rng, margin):
    svm = pytest.importorskip("sklearn.svm")
    loss = losses.SoftMargin(margin=margin)
    _, y, K = problem(rng, loss)
    R, size = root(K), N * LAM
    model = svm.LinearSVC(
        C=1 / (size * margin), loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6
    )
    w = margin * model.fit(R, y).coef_[0]  # a margin of rho is a margin of 1 for w / rho
    truth = np.maximum(0, margin - y * (R @ w)).sum() + size / 2 * w @ w
    assert np.isclose(batch.minimize(K, y, loss, LAM, tolerance=1e-6).value, truth, rtol=1e-5)


@pytest.mark.parametrize("tube", [0.0, 0.2])
def test_tubes_agree_with_a_linear_svr_on_the_root_of_the_kernel(rng, tube):
    svm = pytest.importorskip("sklearn.svm")
    loss = losses.EpsilonInsensitive(epsilon=tube) if tube else losses.Absolute()
    _, y, K = problem(rng, loss)
    R, size = root(K), N * LAM
    model = svm.LinearSVR(epsilon=tube, C=1 / size, fit_intercept=False, tol=1e-10, max_iter=10**6)
    w = model.fit(R, y).coef_
    truth = np.maximum(0, np.abs(y - R @ w) - tube).sum() + size / 2 * w @ w
    assert np.isclose(batch.minimize(K, y, loss, LAM, tolerance=1e-6).value, truth, rtol=1e-5)


@each_loss
@pytest.mark.parametrize("kernel", [kernels.Gaussian(gamma=1.0), kernels.Linear()], ids=repr)
def test_no_hypothesis_is_better_than_the_gap_allows(rng, loss, kernel):
    X, y, _ = problem(rng, loss)
    K, size = kernel(X), N * LAM
    loose = batch.minimize(K, y, loss, LAM, tolerance=0.2)
    tight = batch.minimize(K, y, loss, LAM, tolerance=1e-6)
    assert 0 <= tight.gap <= 1e-6 * tight.value
    assert loose.gap <= 0.2 * loose.value
    assert loose.value - loose.gap <= tight.value <= loose.value * (1 + 1e-6)
    for spread in (0.0, 1e-4, 1e-2, 1.0):
        a = (tight.dual + spread * rng.normal(size=N)) / size
        z = K @ a
        value = FORMULAS[loss](z, y).sum() + size / 2 * a @ z
        assert value >= (tight.value - tight.gap) * (1 - 1e-12)
        if not spread:
            assert np.isclose(value, tight.value, rtol=1e-5)


@each_loss
@pytest.mark.parametrize("lam", [1e-5, 10.0])
def test_little_and_much_regularisation(rng, loss, lam):
    _, y, K = problem(rng, loss)
    found = batch.minimize(K, y, loss, lam)
    assert found.gap <= 1e-3 * found.value
    assert found.value <= FORMULAS[loss](0.0, y).sum()  # g = 0


def test_a_start_from_fewer_rows_ends_in_the_same_place(rng):
    loss = losses.SoftMargin()
    _, y, K = problem(rng, loss)
    first = batch.minimize(K[:40, :40], y[:40], loss, LAM)
    warm = batch.minimize(K, y, loss, LAM, dual=first.dual, tolerance=1e-6)
    assert np.isclose(warm.value, batch.minimize(K, y, loss, LAM, tolerance=1e-6).value, rtol=1e-6)


def test_the_kernel_matrix_comes_in_blocks(rng):
    X = rng.normal(size=(600, 3))
    kernel = kernels.Laplacian(gamma=0.5)
    assert np.allclose(hindsight.kernel_matrix(kernel, X), kernel(X), atol=1e-14)


# -- regret --------------------------------------------------------------------------------------


def plain(loss="soft_margin", rate=0.5, lam=0.05, **changes):
    """Return an estimator in the setting of the theorems: no scaling, no offset."""
    rule = rules.Norma(learning_rate=rate, regularization=lam, track_norm=True)
    kind = KernelClassifier if losses.get(loss).task == "classification" else KernelRegressor
    settings = {"kernel": kernels.Gaussian(gamma=1.0), "scale": False, "fit_intercept": False}
    return kind(loss=loss, rule=rule, **(settings | changes))


@each_loss
def test_the_online_side_is_what_the_estimator_reports(rng, loss):
    X, y, _ = problem(rng, loss)
    model = plain(loss)
    found = evaluate.regret(model, X, y, checkpoints=[7, N])
    z = plain(loss).predict_then_learn(
        X, y, **({"output": "decision"} if loss.task == "classification" else {})
    )
    report = plain(loss).partial_fit(X, y).diagnostics_
    assert np.allclose(found.loss, np.cumsum(FORMULAS[loss](z, y))[[6, N - 1]])
    assert np.isclose(found.online[-1], report["risk"])
    assert np.allclose(found.regret, found.online - found.best)
    assert found.regularization == 0.05


@pytest.mark.few
@pytest.mark.parametrize("eta", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("noise", [0.0, 0.3, 0.5])
def test_regret_stays_below_the_bound_of_n04_theorem_4(rng, eta, noise):
    rows = sized(150, 400)
    lam, X = 0.1, rng.normal(size=(rows, 2))
    y = np.where((X[:, 0] * X[:, 1] > 0) ^ (rng.uniform(size=rows) < noise), 1, -1)
    found = evaluate.regret(plain(rate=schedules.InverseSqrt(eta), lam=lam), X, y)
    U = bounds.norm_bound(lam)
    a = 2 * lam * U**2 * (2 * eta * lam + 1 / (eta * lam))
    assert np.all(found.regret + found.gap <= a * np.sqrt(found.t) + U**2 / (2 * eta))
    assert np.all(found.gap <= 1e-3 * found.best)


def test_regret_per_row_falls_on_a_stationary_stream(rng):
    rows = sized(300, 600)
    X = rng.normal(size=(rows, 2))
    y = np.where(X[:, 0] + X[:, 1] > 0, 1, -1)
    found = evaluate.regret(plain(rate=schedules.InverseSqrt(1.0)), X, y)
    share = found.regret / found.t
    assert np.all(np.diff(found.t) > 0) and found.t[-1] == rows
    assert share[-1] < 0.3 * share[5] < 0.3 * share[0]


def test_the_estimator_is_not_changed(rng):
    X, y, _ = problem(rng, losses.SoftMargin())
    model = plain().set_params(rule__track_norm=False).fit(X, y)
    before, scores, known = repr(model), model.decision_function(X), model.diagnostics_
    found = evaluate.regret(model, X, y, checkpoints=[N])
    assert repr(model) == before and model.diagnostics_ == known
    assert np.array_equal(model.decision_function(X), scores)
    assert np.array_equal(found.online, evaluate.regret(plain(), X, y, checkpoints=[N]).online)


def test_any_labels_frames_columns_and_sparse_rows(rng):
    pd, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    X, y, _ = problem(rng, losses.SoftMargin())
    truth = evaluate.regret(plain(), X, y, checkpoints=5).regret
    words = np.where(y > 0, "yes", "no")
    for rows in (X, pd.DataFrame(X), sparse.csr_array(X)):
        assert np.allclose(evaluate.regret(plain(), rows, words, checkpoints=5).regret, truth)
    column = evaluate.regret(plain("huber"), X, X[:, :1], checkpoints=[N])
    flat = evaluate.regret(plain("huber"), X, X[:, 0], checkpoints=[N])
    assert np.array_equal(column.regret, flat.regret)


def test_strings_have_regret_too():
    texts = ["abcabc", "xyzxyz", "abcab", "yzxyz"] * 5
    model = plain(kernel=kernels.Spectrum(length=2))
    found = evaluate.regret(model, texts, [1, -1] * 10, checkpoints=[5, 20])
    assert np.all(found.regret > 0) and np.all(found.gap <= 1e-3 * found.best)


def test_another_regularization_than_the_rules(rng):
    X, y, _ = problem(rng, losses.SoftMargin())
    own = evaluate.regret(plain(lam=0.0), X, y, regularization=0.05, checkpoints=[N])
    assert own.regularization == 0.05
    assert own.online[0] > own.loss[0]  # the norm counts although the rule does not shrink


def test_a_tolerance_that_is_not_reached_is_said(rng, monkeypatch):
    X, y, _ = problem(rng, losses.SoftMargin())
    monkeypatch.setattr(batch, "ROUNDS", 1)
    with pytest.warns(RuntimeWarning, match="known to a fraction"):
        found = evaluate.regret(plain(), X, y, checkpoints=[N])
    assert found.gap[0] > 0 and math.isfinite(found.best[0])


class Own(losses.Absolute):
    """A loss of a user."""


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (NoveltyDetector(), {}, "a classifier or a regressor of onkel"),
        (plain(scale=True), {}, "scale=False"),
        (plain(average=True), {}, "average=False"),
        (plain(class_weight="balanced"), {}, "class_weight=None"),
        (plain(losses.SoftMargin(nu=0.1)), {}, "without nu"),
        (plain(Own()), {}, "is known for SoftMargin, Logistic"),
        (plain(lam=0.0), {}, "regularization must be a number in"),
        (plain(), {"regularization": 0.0}, "regularization must be a number in"),
        (plain().set_params(rule__regularizer=1.5), {}, "penalty lam/2"),
        (plain(), {"tolerance": 0}, "tolerance must be"),
        (plain(), {"checkpoints": 0}, "checkpoints must be"),
        (plain(), {"checkpoints": [5, 61]}, r"whole numbers in \[1, 60\]"),
        (plain(), {"checkpoints": [0.5]}, r"whole numbers in \[1, 60\]"),
        (plain(), {"checkpoints": []}, r"whole numbers in \[1, 60\]"),
        (plain(), {"y": np.ones(N)}, "two classes"),
        (plain(), {"y": np.arange(N) % 3}, "two classes"),
        (plain(), {"y": np.ones(3)}, "inconsistent numbers"),
        (plain("huber"), {"y": np.ones((N, 2))}, "1d array"),
        (plain(), {"X": np.zeros((0, 2)), "y": []}, "no rows"),
    ],
)
def test_what_is_refused_says_why(rng, model, changes, message):
    X, y, _ = problem(rng, losses.SoftMargin())
    with pytest.raises(ValueError, match=message):
        evaluate.regret(model, **({"X": X, "y": y} | changes))


def test_too_many_rows_are_refused_with_the_arithmetic():
    X, y = np.zeros((10_000, 1)), np.arange(10_000) % 2
    with pytest.raises(ValueError, match=r"10000\^2 x 8 bytes = 0.8 GB.*checkpoints up to 8000"):
        evaluate.regret(plain(), X, y)
    assert evaluate.regret(plain(), X, y, checkpoints=[20]).t.tolist() == [20]


def test_the_loss_and_the_space_are_the_estimators_own(rng):
    """A name may mean something else there; weights and centres have spaces of their own."""
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=120)
    rule = rules.Norma(learning_rate=0.1, regularization=0.05)
    common = {"rule": rule, "scale": False, "fit_intercept": False}
    named = evaluate.regret(KernelRegressor(**common), X, y, checkpoints=[120])
    meant = evaluate.regret(
        KernelRegressor(loss=losses.Huber(sigma=3.0), **common), X, y, checkpoints=[120]
    )
    assert named.best[0] == meant.best[0]
    linear = evaluate.regret(LinearRegressor(loss="squared", **common), X, y, checkpoints=[120])
    kernel = evaluate.regret(
        KernelRegressor(kernel="linear", loss="squared", **common), X, y, checkpoints=[120]
    )
    np.testing.assert_allclose(linear.online, kernel.online, rtol=1e-9)
    w = np.linalg.solve(X.T @ X + 120 * 0.05 * np.eye(3), X.T @ y)
    truth = 0.5 * np.sum((y - X @ w) ** 2) + 120 * 0.05 / 2 * w @ w
    assert linear.best[0] == pytest.approx(truth, rel=2e-3)
    points = X[:6]
    over = evaluate.regret(
        KernelRegressor(loss="squared", expansion=expansions.Centers(points),
                        kernel=kernels.Gaussian(0.3), **common), X, y, checkpoints=[120],
    )  # fmt: skip
    features = kernels.Gaussian(0.3)(X, points)
    w = np.linalg.solve(features.T @ features + 6 * np.eye(6), features.T @ y)
    truth = 0.5 * np.sum((y - features @ w) ** 2) + 3 * w @ w
    assert over.best[0] == pytest.approx(truth, rel=2e-3)
    for model, words in (
        (LinearClassifier(p=3.0, scale=False), "needs p=2"),
        (KernelClassifier(expansion=expansions.Centers(5), scale=False), "centres that are given"),
        (KernelClassifier(loss=losses.SoftMargin(power=2), scale=False), "without nu or power"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluate.regret(model, X, np.sign(y))
