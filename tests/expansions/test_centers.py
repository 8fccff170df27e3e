"""Coefficient regularisation: centres given, collected, or sampled; the theory's step."""

from __future__ import annotations

import itertools

import naive
import numpy as np
import pytest
from helpers.agreement import close
from helpers.sizes import size, some

from onkel import KernelClassifier, KernelRegressor, bounds, expansions, kernels, losses, rules
from onkel.core.layout import Field
from onkel.learner import Settings, start

ROWS = size(70, 120)
LOSSES = {
    "soft_margin": losses.SoftMargin(margin=0.8),
    "soft_margin_nu": losses.SoftMargin(nu=0.3),
    "power": losses.SoftMargin(power=2.0),
    "logistic": losses.Logistic(),
    "least_squares": losses.LeastSquares(),
    "exponential": losses.Exponential(),
    "huber": losses.Huber(sigma=0.5),
}
WAYS = ("given", "first", "reservoir")
CASES = some(
    itertools.product(LOSSES, WAYS, (False, True), (False, True)), times=4, levels=enumerate
)


def names_of(loss):
    return next(name for name, kind in losses.REGISTRY.items() if kind is type(loss))


@pytest.mark.parametrize(("name", "way", "average", "scale"), CASES)
def test_centres_equal_the_naive_twin(rng, name, way, average, scale):
    loss = LOSSES[name]
    regression = loss.task == "regression"
    X = np.round(rng.normal(size=(ROWS, 2)), 1)  # some rows repeat
    Y = np.sign(X[:, :1] + 0.3) if not regression else np.sin(X)
    outputs = Y.shape[1]
    points = np.unique(X[:9], axis=0)
    draws = np.random.default_rng(3).integers(0, np.arange(1, 61)).tolist()
    expansion, chosen = {
        "given": (expansions.Centers(points), {"centres": list(points)}),
        "first": (expansions.Centers(9), {"choose": "first", "m": 9}),
        "reservoir": (
            expansions.Centers(9, sample=60, seed=3),
            {"choose": "reservoir", "m": 9, "draws": draws},
        ),
    }[way]
    rule = rules.Norma(learning_rate=0.05, memory=400.0)
    twin = naive.Coefficient(
        kernel=naive.gaussian(0.7), loss=names_of(loss), start=loss.start, outputs=outputs,
        rule=naive.Descent(lambda t: 0.05, 1 / 20.0, nu=loss.nu), average=average, scale=scale,
        memory=400.0, targets_scaled=scale and regression, power=getattr(loss, "power", 1.0),
        **chosen,
    )  # fmt: skip
    settings = Settings(kernels.Gaussian(0.7), loss, rule, expansion, scale=scale, average=average)
    learner, block = (start(settings, 2, outputs, float) for _ in range(2))
    scores, truth = [], []
    for x, y in zip(X, Y, strict=True):
        mean = twin.mean_score(x) if twin.t else [0.0] * outputs
        scores.append(learner.learn(x[None], y[None], np.ones(1))[0][0])
        score = twin.learn_one(x, list(y))
        truth.append(mean if average else score)
    if not (average and way == "reservoir"):  # the average leaves out what was replaced
        close(scores, truth, 1e-10, "scores")
    close(learner.theta[:, :-1].T, twin.alpha, 1e-10, "weights")
    assert np.array_equal(learner.map.points, np.array(twin.centres))
    close(learner.state[:, Field.THRESHOLD], twin.threshold, 1e-10, "threshold")
    together, _ = block.learn(X, Y, np.ones(ROWS))
    close(together, scores, 1e-12, "one block")
    close(block.theta, learner.theta, 1e-12, "one block's weights")


def test_memory_is_constant(rng):
    model = KernelClassifier(expansion=expansions.Centers(20, sample=50))
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] > 0
    model.partial_fit(X[:100], y[:100])
    early = model.diagnostics_["bytes"]
    model.partial_fit(X[100:], y[100:])
    assert model.diagnostics_["bytes"] == early
    assert model.n_terms_ == 20


THEORY = [losses.SoftMargin(), losses.SoftMargin(margin=0.5), losses.SoftMargin(power=2),
          losses.SoftMargin(power=1.5), losses.Logistic(), losses.LeastSquares(),
          losses.Exponential()]  # fmt: skip


@pytest.mark.few
@pytest.mark.parametrize("loss", THEORY, ids=repr)
@pytest.mark.parametrize("way", ["given", "first"])
def test_the_theorys_step_keeps_the_norm_below_its_bound(rng, loss, way):
    """CR Theorem 3, on a kernel so wide that the paper's own kappa would fail."""
    rows = size(150, 400)
    X = rng.normal(size=(rows, 3))
    y = np.sign(X[:, 0] + 0.5 * rng.normal(size=rows))
    lam = 1.0 if isinstance(loss, losses.Exponential) else 0.05
    kernel = kernels.Gaussian(0.01)
    m = 6 if isinstance(loss, losses.Exponential) else 50
    expansion = expansions.Centers(X[:m] if way == "given" else m)
    model = KernelClassifier(
        kernel=kernel, loss=loss, expansion=expansion, scale=False, fit_intercept=False,
        rule=rules.Norma(learning_rate="theory", regularization=lam),
    )  # fmt: skip
    reach = expansion.space(kernel, 3).reach
    assert np.linalg.norm(kernel(X, X[:m]), axis=1).max() <= reach * (1 + 1e-12)
    slope = abs(loss.judge(0.0, 1.0, loss.start).slope)
    for x, label in zip(X, y, strict=True):
        model.learn_one(x, label)
        assert np.linalg.norm(model._learner.theta[0, :-1]) <= reach * slope / lam


def test_the_theorys_step_learns(rng):
    X = rng.normal(size=(3000, 2))
    y = np.sign(X[:, 0])
    for loss in ("soft_margin", "logistic", "least_squares"):
        model = KernelClassifier(
            loss=loss, expansion=expansions.Centers(20),
            rule=rules.Norma(learning_rate="theory", regularization=0.001),
        ).partial_fit(X, y)  # fmt: skip
        assert model.score(X, y) > 0.9, loss


def test_theory_takes_the_points_own_reach(rng):
    """Far points: kappa is near 1, not sqrt(m)."""
    far = 100.0 * np.arange(30.0)[:, None]
    space = expansions.Centers(far).space(kernels.Gaussian(1.0), 1)
    assert space.reach == pytest.approx(1.0)
    assert expansions.Centers(far).space(kernels.Gaussian(1.0), 1, scale=True).reach == 30**0.5
    rate = rules.Norma(learning_rate="theory", regularization=0.1).bind(losses.SoftMargin(), space)
    mu = bounds.coefficient_norm("hinge", kappa=space.reach, regularization=0.1).details["mu"]
    assert rate.rates(np.array([4]))[0] == pytest.approx(0.5 / mu)


def test_any_kernel_will_do_and_defaults_learn(rng):
    X = rng.normal(size=(3000, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    own = kernels.Function(lambda A, B: 1 / (1 + ((A[:, None] - B) ** 2).sum(-1)))
    for kernel in ("gaussian", "laplacian", "matern", "polynomial", own):
        model = KernelClassifier(kernel=kernel, expansion=expansions.Centers(100))
        right = model.predict_then_learn(X, y) == y
        assert right[1500:].mean() > 0.85, kernel
    reg = KernelRegressor(expansion=expansions.Centers(100))
    target = np.sin(2 * X[:, 0]) + X[:, 1]
    error = np.abs(reg.predict_then_learn(X, target) - target)[1500:].mean()
    assert error < 0.3 * np.abs(target).mean()  # 0.2 on average over seeds


def test_rules_and_classes_over_centres(rng):
    X = rng.normal(size=(1500, 2))
    y = np.where(X[:, 0] > 0.4, "a", np.where(X[:, 1] > 0, "b", "c"))
    for rule in ("perceptron", "alma", "projection", "romma"):
        model = KernelClassifier(rule=rule, expansion=expansions.Centers(40))
        right = model.predict_then_learn(X, y) == y
        assert right[700:].mean() > 0.8, rule
        assert model.n_terms_ == 40


def test_equality_and_clone():
    sklearn = pytest.importorskip("sklearn")
    points = np.eye(3)
    assert expansions.Centers(points) == expansions.Centers(np.eye(3))
    assert expansions.Centers(points) != expansions.Centers(3)
    assert hash(expansions.Centers(5)) == hash(expansions.Centers(5))
    model = KernelClassifier(expansion=expansions.Centers(points))
    assert sklearn.base.clone(model).expansion == model.expansion


def test_norm_follows_a_replaced_centre(rng):
    """ROMMA reads ||alpha||: it must not count a weight that has gone."""
    X = rng.normal(size=(300, 2))
    y = np.sign(X[:, 0] + 0.3 * rng.normal(size=300))
    model = KernelClassifier(rule="romma", expansion=expansions.Centers(10, sample=200))
    for x, label in zip(X, y, strict=True):
        model.learn_one(x, label)
        learner = model._learner
        true = np.sum(learner.theta[0, :-1] ** 2)
        assert learner.state[0, Field.NORM2] == pytest.approx(true, rel=1e-9)


def test_the_theorys_step_has_no_offset(rng):
    parts = {
        "expansion": expansions.Centers([[0.0]]), "kernel": kernels.Gaussian(1.0), "scale": False,
        "rule": rules.Norma(learning_rate="theory", regularization=1.0), "loss": "logistic",
    }  # fmt: skip
    model = KernelClassifier(**parts).partial_fit(rng.normal(size=(50, 1)), np.ones(50, int))
    assert model.diagnostics_["offset"] == 0.0
    with pytest.raises(ValueError, match="fit_intercept=True"):
        KernelClassifier(fit_intercept=True, **parts).partial_fit([[0.0]], [1])


def test_centres_tell_minus_zero_from_nothing():
    model = KernelClassifier(expansion=expansions.Centers(3), scale=False)
    model.partial_fit([[0.0], [-0.0], [1.0]], [0, 1, 1])
    assert model.n_terms_ == 2


def test_reach_of_a_kernel_that_is_not_bounded_by_one(rng):
    X = rng.normal(size=(8, 2))
    one, four = (
        expansions.Centers(X).space(c * kernels.Gaussian(1.0), 2).reach for c in (1.0, 4.0)
    )
    assert four == pytest.approx(4 * one)
    rows = rng.normal(size=(500, 2))
    assert np.linalg.norm(4 * kernels.Gaussian(1.0)(rows, X), axis=1).max() <= four
