"""Trees of an additive kernel: the same learner as the dense window, whatever happens to it."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from helpers.agreement import close
from helpers.sizes import size

from onkel import KernelClassifier, KernelRegressor, expansions, files, kernels, losses, rules
from onkel.core.layout import Field
from onkel.learner import Settings, start

PARTS = {
    "exponential": kernels.Exponential(0.8),
    "matern32": kernels.Matern(1.5, 1.1),
    "matern52": kernels.Matern(2.5, 0.9),
    "laplacian": kernels.Laplacian(1.3),
    "spline1": kernels.Spline(1),
    "spline2": kernels.Spline(2),
    "spline3": kernels.Spline(3),
}
TWINS = {
    "exponential": naive.exponential(0.8),
    "matern32": naive.matern_1d(1.5, 3**0.5 / 1.1),
    "matern52": naive.matern_1d(2.5, 5**0.5 / 0.9),
    "laplacian": naive.exponential(1.3),
    "spline1": naive.spline(1),
    "spline2": naive.spline(2),
    "spline3": naive.spline(3),
}


@pytest.mark.parametrize("name", PARTS)
def test_kernel_values(rng, name):
    X, Z = rng.uniform(0, 3, size=(2, 8, 3))
    weights = [0.2, 1.0, 3.0]
    kernel = kernels.Additive(PARTS[name], weights=weights)
    twin = naive.additive([TWINS[name]] * 3, weights)
    truth = np.array([[twin(x, z) for z in Z] for x in X])
    np.testing.assert_allclose(kernel(X, Z), truth, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.diag(kernel(X, X)), rtol=1e-12)
    plain = kernels.Additive(PARTS[name])(X, Z)
    np.testing.assert_allclose(plain, kernels.Additive([PARTS[name]] * 3)(X, Z), rtol=1e-14)
    mean = kernels.Additive(PARTS[name], weights="mean")(X, Z)
    np.testing.assert_allclose(mean, plain / 3, rtol=1e-14)
    one = PARTS[name](X[:, :1], Z[:, :1])
    np.testing.assert_allclose(one, [[TWINS[name](x[:1], z[:1]) for z in Z] for x in X], rtol=1e-12)
    assert np.linalg.eigvalsh(kernel(X))[0] > -1e-9 * kernel.diag(X).max()


def learners(part, window, *, scale=False, average=False, columns=1, rule=None, loss=None):
    kernel = kernels.Additive(part, weights=[0.5, 0.3, 0.2])
    rule = rules.Norma(learning_rate=0.1, memory=300.0) if rule is None else rule
    loss = losses.SoftMargin() if loss is None else loss
    return [
        start(Settings(kernel, loss, rule, kind(**window), scale=scale, average=average,
                       intercept=False), 3, columns, float)
        for kind in (expansions.Tree, expansions.Window)
    ]  # fmt: skip


@pytest.mark.few
@pytest.mark.parametrize("window", [{"terms": None}, {"terms": 150}, {"age": 200}], ids=repr)
@pytest.mark.parametrize("name", PARTS)
def test_tree_is_the_dense_window(rng, name, window):
    """Blocks of many sizes, duplicates, folds of the scale, dropping by number and by age."""
    rows = size(800, 1500)
    X = np.round(rng.uniform(0, 4, size=(rows, 3)), 1)
    X[:, 2] = rng.integers(0, 2, size=rows)
    Y = np.sign(np.sin(2 * X[:, :1]) + X[:, 2:] - 0.5)
    tree, dense = learners(PARTS[name], window)
    at = 0
    while at < len(X):
        n = int(rng.choice([1, 3, 60, 300]))
        part = slice(at, at + n)
        ours, _ = tree.learn(X[part], Y[part], np.ones(len(X[part])))
        theirs, _ = dense.learn(X[part], Y[part], np.ones(len(X[part])))
        close(ours, theirs, 1e-9, f"rows from {at}")
        at += n
    assert tree.size == dense.size
    close(tree.scores(X[:200]), dense.scores(X[:200]), 1e-9, "later")
    assert np.array_equal(tree.state[:, Field.UPDATES], dense.state[:, Field.UPDATES])


@pytest.mark.few
@pytest.mark.parametrize(
    "rule, loss",
    [
        (rules.Alma(learning_rate=0.2, radius=1.0), losses.SoftMargin(margin=0.1)),
        (rules.Projection(radius=2.0), losses.SoftMargin()),
        (rules.Romma(), losses.SoftMargin()),
        (rules.Norma(learning_rate=0.1, memory=100, regularizer=1.5), losses.Logistic()),
        (rules.Norma(learning_rate=0.2, memory=100), losses.EpsilonInsensitive(nu=0.2)),
    ],
    ids=lambda v: type(v).__name__,
)
@pytest.mark.parametrize("average", [False, True])
def test_rules_scale_and_average(rng, rule, loss, average):
    X = rng.normal(size=(600, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, 0.0]
    Y = np.stack([np.sin(X[:, 0]) + 0.1 * X[:, 1], X[:, 2]], axis=1)
    if loss.task == "classification":
        Y = np.where(Y > 0, 1.0, -1.0)
    tree, dense = learners(
        PARTS["exponential"], {"terms": 100}, scale=True, average=average, columns=2, rule=rule,
        loss=loss,
    )  # fmt: skip
    for part in (slice(0, 5), slice(5, 300), slice(300, 600)):
        ours, _ = tree.learn(X[part], Y[part], np.ones(len(X[part])))
        theirs, _ = dense.learn(X[part], Y[part], np.ones(len(X[part])))
        close(ours, theirs, 1e-8, "scores")
    close(tree.state[:, Field.NORM2], dense.state[:, Field.NORM2], 1e-7, "norm")


def test_far_and_near_inputs(rng):
    """sigma x of a million: differences only are exponentiated."""
    X = 1e6 * rng.integers(-3, 4, size=(800, 2)) + rng.normal(size=(800, 2))
    y = np.sign(np.sin(X[:, 0]))
    parts = {"kernel": kernels.Additive(kernels.Exponential(1.0)), "scale": False}
    tree = KernelClassifier(expansion=expansions.Tree(), **parts)
    dense = KernelClassifier(expansion=expansions.Window(terms=None), **parts)
    ours = tree.predict_then_learn(X, y, output="decision")
    close(ours, dense.predict_then_learn(X, y, output="decision"), 1e-9, "decisions")
    assert np.abs(ours).max() > 0.1


def test_classes_that_come_late_and_passes(rng):
    X = rng.uniform(0, 2, size=(300, 2))
    y = np.where(X[:, 0] > 1.4, "c", np.where(X[:, 1] > 1, "a", "b"))
    y[:60] = np.where(X[:60, 1] > 1, "a", "b")
    kernel = kernels.Additive(kernels.Spline(1), weights="mean")
    pair = [
        KernelClassifier(kernel=kernel, scale=False, expansion=kind(terms=None), passes=3)
        for kind in (expansions.Tree, expansions.Window)
    ]
    for model in pair:
        model.partial_fit(X, y)
    close(pair[0].decision_function(X), pair[1].decision_function(X), 1e-9, "stream")
    for model in pair:
        model.fit(X, y)
    close(pair[0].decision_function(X), pair[1].decision_function(X), 1e-9, "passes")
    assert pair[0].n_terms_ == pair[1].n_terms_


@pytest.mark.parametrize("rows", [1, 100, 500])
def test_a_refused_call_changes_no_bit(rng, rows):
    X = rng.uniform(0, 2, size=(900, 2))
    y = np.sin(X[:, 0])
    rate = rules.Norma(learning_rate=lambda t: np.where(t == 300 + rows, -1.0, 0.1))
    model = KernelRegressor(
        kernel=kernels.Additive(kernels.Exponential()), rule=rate, scale=False,
        expansion=expansions.Tree(terms=200),
    ).partial_fit(X[:300], y[:300])  # fmt: skip
    twin = KernelRegressor(**model.get_params(deep=False)).partial_fit(X[:300], y[:300])
    with pytest.raises(ValueError, match=f"trial {300 + rows}"):
        model.partial_fit(X[300 : 300 + rows], y[300 : 300 + rows])
    assert model.predict(X).tobytes() == twin.predict(X).tobytes()
    if rows > 1:
        stop = 300 + rows - 1
        a = model.predict_then_learn(X[300:stop], y[300:stop])
        assert a.tobytes() == twin.predict_then_learn(X[300:stop], y[300:stop]).tobytes()


class Brownian(kernels.Kernel):
    """A kernel of one's own: min(p, q), with its split."""

    lowest = 0.0

    def values(self, X, Z):
        return np.minimum(X[:, None, 0], Z[None, :, 0])

    def split(self):
        class Minimum(kernels.Split):
            rank = 1

            def lower(self, p, anchor):
                return p[None]

            def upper(self, q, anchor):
                return np.ones((1, len(q)))

        return Minimum()


def test_a_kernel_of_ones_own_brings_its_split(rng):
    X = rng.uniform(0, 2, size=(400, 2))
    y = np.sqrt(X[:, 0])
    kernel = kernels.Additive(Brownian(), weights="mean")
    pair = [
        KernelRegressor(kernel=kernel, scale=False, expansion=kind(terms=300))
        for kind in (expansions.Tree, expansions.Window)
    ]
    a, b = (m.predict_then_learn(X, y) for m in pair)
    close(a, b, 1e-9, "predictions")


def test_growth_and_diagnostics(rng):
    X = rng.uniform(0, 1, size=(500, 2))
    model = KernelClassifier(
        kernel=kernels.Additive(kernels.Exponential(), weights="mean"), expansion="tree"
    ).partial_fit(X, X[:, 0] > 0.5)
    found = model.diagnostics_
    assert found["terms"] == model.n_terms_ > 0
    assert found["bytes"] > 0
    assert found["truncation_bound"] == 0.0
    assert "Additive" in found["kernel"]


@pytest.mark.parametrize("rows", [0, 1, 2, 50])
def test_a_tree_without_terms_comes_back_from_a_file(rng, rows):
    X, y = rng.normal(size=(60, 3)), np.full(60, 3.0)
    y[55:] = X[55:, 0]
    one, two = (
        KernelRegressor(kernels.Additive(kernels.Laplacian()), expansion="tree") for _ in range(2)
    )
    for model in (one, two):
        model.partial_fit(X[:1], y[:1], sample_weight=[0.0]).partial_fit(X[:rows], y[:rows])
    again = files.loads(files.dumps(two))
    assert again.n_terms_ == 0
    for model in (one, again):
        model.partial_fit(X[rows:], y[rows:])
    assert again.n_terms_ > 0
    np.testing.assert_array_equal(one.predict(X), again.predict(X))
