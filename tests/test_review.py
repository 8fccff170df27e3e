"""What a hostile reading of the other algorithms found: each once wrong, now held."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    bounds,
    expansions,
    kernels,
    losses,
    rules,
)
from onkel.core import numpy_core
from onkel.core.layout import Field


class Trouble(Exception):
    """What a user's own code may raise."""


def test_a_refused_call_whose_first_block_moved_the_centre(rng):
    """The block's terms were new objects over the same arrays: the journal must see both."""
    X = rng.normal(size=(128, 3)) + 100
    X[:65] -= 100
    later = rng.normal(size=(2000, 3)) + 100
    y, target = X[:, 0] - X[:, 1], later[:, 0] - later[:, 1]
    target[1500] = 9e149
    model = KernelRegressor(
        scale=False, loss="squared", rule=rules.Norma(learning_rate=1.5),
        expansion=expansions.Window(terms=100),
    ).partial_fit(X, y)  # fmt: skip
    before = model.predict(X).tobytes()
    with pytest.raises(ValueError, match="Row 1500"):
        model.partial_fit(later, target)
    assert model.predict(X).tobytes() == before
    assert model.t_ == 128


@pytest.mark.parametrize("unit", [1e-150, 1e-6, 1e6])
@pytest.mark.parametrize("average", [False, True])
def test_units_do_not_matter_to_rules_that_divide(rng, unit, average):
    """Standardised inputs: a first row in raw units must not weigh for ever."""
    X = rng.normal(size=(400, 3))
    X[:5, 2] = X[0, 2]  # varies only later
    y, label = X[:, 0] - X[:, 1] + X[:, 2], np.sign(X[:, 0])
    for make in (
        lambda: LinearRegressor(rule="projection", loss="epsilon_insensitive", average=average),
        lambda: KernelRegressor(
            kernel="linear", rule="projection", loss="epsilon_insensitive", average=average
        ),
    ):
        a, b = make().predict_then_learn(X, y), make().predict_then_learn(X * unit, y)
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)
        assert average or np.abs(a - y)[200:].mean() < 0.2
    for rule in ("projection", "romma", "alma"):
        make = lambda rule=rule: LinearClassifier(rule=rule, average=average)
        a, b = (make().predict_then_learn(X * u, label, output="decision") for u in (1.0, unit))
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)


def test_the_row_that_brings_a_unit_was_predicted_without_it(rng):
    X = rng.normal(size=(3, 2)) * 1e-3
    model = KernelClassifier(rule="projection").partial_fit(X[:1], [1])
    shown = model.decision_function(X[1:2])
    assert model.predict_then_learn(X[1:2], [-1], output="decision") == shown


class Minimum(kernels.Split):
    """min(p, q), which can be told to fail."""

    rank = 1
    left = np.inf

    def _count(self):
        Minimum.left -= 1
        if Minimum.left < 0:
            raise Trouble

    def lower(self, p, anchor):
        self._count()
        return p[None]

    def upper(self, q, anchor):
        self._count()
        return np.ones((1, len(q)))


class Brownian(kernels.Kernel):
    """A kernel that is nothing but its split."""

    def split(self):
        return Minimum()


@pytest.mark.parametrize("scale", [False, True])
def test_a_split_that_raises_changes_nothing(rng, scale):
    Minimum.left = np.inf
    X = np.abs(rng.normal(size=(90, 2)))
    y = np.sin(X[:, 0])
    model = KernelRegressor(
        kernel=kernels.Additive(Brownian()), expansion=expansions.Tree(terms=20), scale=scale,
        rule=rules.Norma(learning_rate=0.01),
    ).partial_fit(X[:60], y[:60])  # fmt: skip
    before, t = model.predict(X).tobytes(), model.t_
    failed = 0
    for calls in range(0, 60, 3):
        Minimum.left = calls
        try:
            model.partial_fit(X[60:70], y[60:70])
        except Trouble:
            failed += 1
            Minimum.left = np.inf
            assert (model.predict(X).tobytes(), model.t_) == (before, t)
        else:
            break
    Minimum.left = np.inf
    assert failed > 3


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


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.Additive(kernels.Spline()) + kernels.Gaussian(),
        kernels.Gaussian() * kernels.Additive(kernels.Spline()),
        2.0 * kernels.Additive(kernels.Spline()),
    ],
    ids=repr,
)
def test_domains_reach_through_sums_products_and_multiples(rng, kernel):
    X = rng.normal(size=(20, 2))
    with pytest.raises(ValueError, match="Use scale=False"):
        KernelClassifier(kernel=kernel).partial_fit(np.abs(X), X[:, 0] > 0)
    with pytest.raises(ValueError, match="at least 0"):
        KernelClassifier(kernel=kernel, scale=False).partial_fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="at least 0"):
        kernel(X)


def test_weights_of_an_additive_kernel_may_be_an_array(rng):
    X = rng.normal(size=(5, 3))
    parts = [kernels.Additive(weights=w)(X) for w in (np.array([1.0, 2, 3]), [1.0, 2, 3])]
    assert np.array_equal(*parts)
    with pytest.raises(ValueError, match="'mean'"):
        kernels.Additive(weights="max")


def test_the_theorys_step_has_no_offset(rng):
    parts = {
        "expansion": expansions.Centers([[0.0]]), "kernel": kernels.Gaussian(1.0), "scale": False,
        "rule": rules.Norma(learning_rate="theory", regularization=1.0), "loss": "logistic",
    }  # fmt: skip
    model = KernelClassifier(**parts).partial_fit(rng.normal(size=(50, 1)), np.ones(50, int))
    assert model.diagnostics_["offset"] == 0.0
    with pytest.raises(ValueError, match="fit_intercept=True"):
        KernelClassifier(fit_intercept=True, **parts).partial_fit([[0.0]], [1])


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
@pytest.mark.parametrize("rule", [rules.Alma(learning_rate=0.5, radius=1.0), rules.Alma(),
                                  rules.Projection(radius=2.0)], ids=repr)  # fmt: skip
def test_f_stays_in_its_ball_whatever_is_dropped(rng, rule, kernel, scale):
    X = rng.normal(size=(300, 3))
    y = np.sign(X[:, 0] + 0.5 * rng.normal(size=300))
    most = 2.0 if isinstance(rule, rules.Projection) else 1.0
    model = KernelClassifier(
        kernel=kernel, rule=rule, scale=scale, expansion=expansions.Window(terms=10)
    )
    for x, label in zip(X, y, strict=True):
        model.learn_one(x, label)
        assert model.diagnostics_["norm"] <= most * (1 + 1e-9)
    true = float(model._learner.norm2()[0]) ** 0.5
    assert model.diagnostics_["norm"] == pytest.approx(true, rel=1e-6)


def test_weights_stay_in_the_ball_and_know_their_norm(rng):
    X = rng.normal(size=(200, 4))
    model = LinearClassifier(rule=rules.Alma(learning_rate=0.5, radius=1.0), p=3.0)
    for x in X:
        model.learn_one(x, int(x[0] > 0))
        true = numpy_core.norm_p(model._learner.theta[0, :-1], 3.0)
        assert model.diagnostics_["norm"] == pytest.approx(true, rel=1e-12, abs=1e-15)
        assert true <= 1 + 1e-12


@pytest.mark.parametrize("rule", ["norma", "alma"])
def test_the_average_before_the_second_row_is_exactly_zero(rng, rule):
    X = rng.normal(size=(2, 3))
    for make in (KernelClassifier, LinearClassifier):
        model = make(average=True, scale=False, rule=rule)
        scores = model.predict_then_learn(X, [1, 0], output="decision")
        assert scores.tolist() == [0.0, 0.0]
        assert model.diagnostics_["mistakes"] == 2


@pytest.mark.parametrize("p", [2.0, 3.0, 1e4, 1e10, 1e17])
def test_the_link_keeps_the_norm(p):
    theta = np.array([1.0, 1.0, 1.0, -1.0])
    w = numpy_core.link(theta, p)
    q = p / (p - 1)
    assert np.sum(np.abs(w) ** q) ** (1 / q) == pytest.approx(numpy_core.norm_p(theta, p))
    model = LinearClassifier(p=p, scale=False, fit_intercept=False, rule="perceptron")
    model.partial_fit([theta], [1])
    np.testing.assert_allclose(model.coef_[0], w)


def test_before_any_class_the_decision_is_zero():
    model = KernelClassifier().partial_fit(np.zeros((0, 3)), [])
    assert model.decision_function(np.ones((2, 3))).tolist() == [0.0, 0.0]


def test_repeated_rows_are_right_already(rng):
    """y f(x) = 1 but for rounding stores nothing."""
    X = np.repeat(rng.normal(size=(30, 2)), 4, axis=0)
    y = np.repeat(rng.choice([-1, 1], size=30), 4)
    for rule in ("projection", "romma"):
        model = KernelClassifier(rule=rule, kernel=kernels.Gaussian(3.0), scale=False)
        model.partial_fit(X, y)
        coef = model._learner.terms.coefs(0, model.n_terms_)
        assert np.abs(coef).min() > 1e-9, rule


def test_rows_without_length_count_as_margin_errors_of_alma():
    model = LinearClassifier(rule="alma", scale=False).partial_fit(np.zeros((4, 2)), [1, 0, 1, 0])
    assert model.diagnostics_["margin_errors"] == 4
    assert model.diagnostics_["updates"] == 0


def test_parallel_examples_restart_romma():
    """The same x with the other label, up to rounding: D is nearly 0."""
    model = LinearClassifier(rule="romma", scale=False)
    model.partial_fit([[1.0, 0.5], [1.0, 0.5 + 1e-9]], [1, 0])
    np.testing.assert_allclose(model.coef_[0], -np.array([1.0, 0.5]) / 1.25, rtol=1e-6)


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


def test_default_rates_suit_the_kernel():
    wide = rules.Space(size=100.0)
    assert rules.Alma(radius=1.0).bind(losses.SoftMargin(), wide).rate == pytest.approx(0.01)
    bound = rules.Norma().bind(losses.SoftMargin(nu=0.1), wide)
    assert bound.rates(np.array([1]))[0] == pytest.approx(0.004)
    assert bound.threshold_rate == 100.0  # thresholds keep their pace
    assert rules.Norma(learning_rate=0.1).bind(losses.SoftMargin(), wide).threshold_rate == 1.0


def test_names_of_losses_beside_a_rule():
    model = KernelClassifier(rule="perceptron")
    assert model.get_params()["loss__margin"] == 0.0
    assert model.set_params(loss__power=1.0).loss.margin == 0.0


def test_diagnostics_are_plain_data(rng):
    X = rng.normal(size=(30, 2)).astype(np.float32)
    for model in (KernelClassifier(rule="romma"), LinearClassifier(), KernelClassifier(
        kernel=kernels.Additive(), expansion="tree")):  # fmt: skip
        found = model.fit(X, X[:, 0] > 0).diagnostics_
        json.dumps(found, allow_nan=False)


def test_bounds_refuse_nonsense_at_once():
    assert bounds.growth_start(1e-308, 0.25) == bounds.NEVER
    assert bounds.growth_start(0.5, 1e-308) == bounds.NEVER
    for call in (
        lambda: bounds.count_bound(-1.0, 1.0, 1.0),
        lambda: bounds.step_size(0.0, 1.0, 1.0),
        lambda: bounds.growth_start(np.nan, 0.2),
    ):
        with pytest.raises(ValueError):
            call()
