"""What the rules, expansions and kernels of the other papers refuse, and how they say it."""

from __future__ import annotations

import numpy as np
import pytest

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    NoveltyDetector,
    expansions,
    kernels,
    losses,
    rules,
)

X = np.array([[0.0, 1.0], [2.0, 0.5], [1.0, 3.0], [0.5, 0.5]])
Y = np.array([0, 1, 1, 0])


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: rules.Projection(radius=0.0), "radius must be a number in (0, inf]"),
        (lambda: rules.Alma(radius=-1.0), "radius must be a number in (0, inf]"),
        (lambda: rules.Alma(approximation=1.5), "approximation must be a number in (0, 1]"),
        (lambda: rules.Alma(approximation=0.9, radius=1.0), "self-tuning form"),
        (lambda: rules.Romma(aggressive="yes"), "aggressive must be True or False"),
        (lambda: expansions.Weights(p=1.5), "p must be a number in [2, inf)"),
        (lambda: expansions.Weights(p=np.inf), "p must be a number in [2, inf)"),
        (lambda: expansions.Centers(0), "centers must be a whole number in [1, "),
        (lambda: expansions.Centers([[1.0], [1.0], [2.0]]), "only 2 distinct"),
        (lambda: expansions.Centers([[1.0], [np.nan]]), "NaN or infinity"),
        (lambda: expansions.Centers([1.0, 2.0]), "one point per row"),
        (lambda: expansions.Centers("many"), "centers must be a whole number"),
        (lambda: expansions.Centers(10, sample=10), "more than the 10 centres"),
        (lambda: kernels.Spline(order=4), "order must be 1, 2 or 3"),
        (lambda: kernels.Exponential(sigma=0.0), "sigma must be a number in (0, inf)"),
        (lambda: kernels.Additive("spline"), "Additive: kernel must be a kernel"),
        (lambda: kernels.Additive(weights=[1.0, 0.0]), "weights must be a number in (0, inf)"),
        (lambda: losses.SoftMargin(power=0.5), "power must be a number in [1, inf)"),
        (lambda: losses.SoftMargin(power=2, nu=0.1), "Leave one of them out"),
    ],
)
def test_parameters(make, words):
    with pytest.raises(ValueError) as error:
        make()
    assert words in str(error.value)


@pytest.mark.parametrize(
    "model, words",
    [
        (KernelClassifier(rule="perceptron", loss="logistic"), "goes with the loss SoftMargin"),
        (KernelClassifier(rule="romma", loss=losses.SoftMargin(margin=0.5)), "margin 1"),
        (KernelClassifier(rule="alma", loss=losses.SoftMargin(margin=0.5)), "sets the margin"),
        (KernelClassifier(rule="projection", loss=losses.SoftMargin(nu=0.1)), "Leave nu out"),
        (KernelClassifier(rule="perceptron", fit_intercept=True), "has none"),
        (KernelRegressor(rule="projection"), "SoftMargin or EpsilonInsensitive"),
        (NoveltyDetector(rule="perceptron"), "goes with the loss SoftMargin"),
        (LinearClassifier(p=1.0), "[2, inf)"),
        (LinearClassifier(p=3.0, rule="projection"), "needs p=2"),
        (LinearClassifier(p=3.0, average=True), "needs scale=False"),
        (KernelClassifier(expansion="weights"), "linear kernel only"),
        (KernelClassifier(expansion="tree"), "kernels.Additive(...) of Exponential, Spline"),
        (
            KernelClassifier(expansion="tree", kernel=kernels.Additive(kernels.Gaussian())),
            "kernels.Additive(...) of Exponential, Spline",
        ),
        (KernelClassifier(kernel="spline", scale=False), "kernels.Additive(Spline(order=1))"),
        (KernelClassifier(kernel=kernels.Additive(kernels.Spline())), "Use scale=False"),
        (
            KernelClassifier(kernel=kernels.Additive([kernels.Spline()] * 3), scale=False),
            "has 3 entries, but the rows have 2 features",
        ),
        (KernelClassifier(expansion=expansions.Centers([[1.0]])), "the points have 1 features"),
        (
            KernelClassifier(rule=rules.Norma(learning_rate="theory", regularization=0.1)),
            "expansions.Centers",
        ),
        (
            KernelClassifier(
                rule=rules.Norma(learning_rate="theory"), expansion=expansions.Centers(2)
            ),
            "regularization",
        ),
        (
            KernelClassifier(
                kernel="linear", expansion=expansions.Centers(2),
                rule=rules.Norma(learning_rate="theory", regularization=0.1),
            ),
            "bounded",
        ),
        (
            KernelClassifier(
                loss="exponential", expansion=expansions.Centers(2),
                rule=rules.Norma(learning_rate="theory", regularization=1e-4),
            ),
            "regularization",
        ),
    ],
    ids=lambda v: repr(v)[:60],
)  # fmt: skip
def test_combinations(model, words):
    with pytest.raises(ValueError) as error:
        model.partial_fit(X, Y)
    assert words in str(error.value), str(error.value)
    assert not hasattr(model, "_learner")


@pytest.mark.parametrize("expansion", ["tree", "window"])
def test_splines_want_inputs_of_at_least_zero(expansion):
    model = KernelRegressor(
        kernel=kernels.Additive(kernels.Spline()), expansion=expansion, scale=False
    )
    with pytest.raises(ValueError, match=r"Row 1, feature 0: Spline.*at least 0; got -2"):
        model.partial_fit([[0.0, 1.0], [-2.0, 1.0]], [0.0, 1.0])
    assert not hasattr(model, "_learner")
    model.partial_fit(X, Y)
    before = model.predict(X).tobytes()
    with pytest.raises(ValueError, match="feature 1"):
        model.predict([[0.0, -1e-9]])
    with pytest.raises(ValueError, match="Row 3"):
        model.partial_fit([*X[:3], [1.0, -1.0]], Y)
    assert model.predict(X).tobytes() == before
    with pytest.raises(ValueError, match="Row 0, feature 0"):
        kernels.Spline()([[-1.0]], [[1.0]])


def test_fit_with_fewer_distinct_rows_than_centres():
    rows = np.repeat(X, 5, axis=0)
    model = KernelClassifier(expansion=expansions.Centers(5))
    with pytest.raises(ValueError, match=r"Centers: .*5 distinct examples, but .* 4"):
        model.fit(rows, np.repeat(Y, 5))
    assert not hasattr(model, "_learner")
    assert model.partial_fit(rows, np.repeat(Y, 5)).n_terms_ == 4  # a stream may bring more


def test_rows_without_length_change_nothing():
    """k(x, x) = 0: no division."""
    zero = np.zeros((3, 2))
    for rule in ("projection", "romma", "alma"):
        model = LinearClassifier(rule=rule, scale=False).partial_fit(X, Y)
        before = model.coef_.copy()
        model.partial_fit(zero, [0, 1, 0])
        assert np.array_equal(model.coef_, before)
        kernel = KernelClassifier(kernel="linear", rule=rule, scale=False).partial_fit(zero, Y[:3])
        assert kernel.n_terms_ == 0
