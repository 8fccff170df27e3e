"""A learner that gains features, against one that had them from the start, and by hand."""

from __future__ import annotations

import pickle

import naive
import numpy as np
import pytest

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    Regressor,
    expansions,
    kernels,
    losses,
    rules,
)
from onkel.estimators.inside import widened

SLOW = rules.Norma(learning_rate=0.05)
POLYNOMIAL = kernels.Polynomial(2, 0.2, 1.0)
DISTANCE = {
    "gaussian": lambda **k: KernelRegressor(kernels.Gaussian(0.5), **k),
    "float32": lambda **k: KernelRegressor(kernels.Gaussian(0.5), **k),
    "average": lambda **k: KernelRegressor(kernels.Laplacian(0.5), average=True, **k),
    "own": lambda **k: KernelRegressor(lambda X, Z: naive_matrix(X, Z), **k),
    "short": lambda **k: KernelRegressor(
        kernels.Matern(1.5, 2.0), expansion=expansions.Window(terms=40), **k
    ),
    "aged": lambda **k: KernelRegressor(
        kernels.Gaussian(0.5), expansion=expansions.Window(age=60), **k
    ),
    "nu": lambda **k: KernelRegressor(kernels.Gaussian(0.5), losses.Huber(nu=0.2), **k),
    "projection": lambda **k: KernelRegressor(
        kernels.Gaussian(0.5), "epsilon_insensitive", "projection", **k
    ),
    "centers": lambda **k: KernelRegressor(
        kernels.Gaussian(0.5), rule=SLOW, expansion=expansions.Centers(20), **k
    ),
    "sample": lambda **k: KernelRegressor(
        kernels.Gaussian(0.5), rule=SLOW, expansion=expansions.Centers(20, sample=150), **k
    ),
    "novelty": lambda **k: NoveltyDetector(kernel=kernels.Gaussian(0.5), **k),
}
PRODUCTS = {
    "linear": lambda **k: LinearRegressor(rule=SLOW, **k),
    "linear_average": lambda **k: LinearRegressor(rule=SLOW, average=True, **k),
    "link": lambda **k: LinearRegressor(rule=SLOW, p=3.0, **k),
    "polynomial": lambda **k: KernelRegressor(POLYNOMIAL, rule=SLOW, **k),
}


def naive_matrix(X, Z):
    return np.exp(-0.5 * ((X[:, None] - Z[None]) ** 2).sum(-1))


def late_columns(rng, value, rows=200, early=120, dtype=float):
    """Rows whose last two columns are constant until `early`, and targets."""
    X = rng.normal(size=(rows, 4)) + np.array([0.0, 3.0, 0.0, value])
    X[: early + 1, 2:] = 0.0, value
    return X.astype(dtype), X[:, 0] * X[:, 1] + np.sin(X[:, 2] + X[:, 3])


def both(make, X, y, value, early=120, **params):
    """Feed a model that has all columns from the start, and one that gains two; return outputs."""
    dense, wide = make(**params), make(**params)
    want = dense.predict_then_learn(X, y)
    first = wide.predict_then_learn(np.ascontiguousarray(X[:early, :2]), y[:early])
    wide = widened(wide, np.array([0.0, value]))
    return want, np.concatenate([first, wide.predict_then_learn(X[early:], y[early:])])


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("value", [0.0, 5.0])
@pytest.mark.parametrize("name", DISTANCE)
def test_kernels_of_the_distance_never_notice(rng, name, value, scale):
    X, y = late_columns(rng, value, dtype=np.float32 if name == "float32" else float)
    want, got = both(DISTANCE[name], X, y, value, scale=scale)
    tolerance = 2e-4 if name == "float32" else 1e-9
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("value", "scale"), [(0.0, True), (5.0, True), (0.0, False)])
@pytest.mark.parametrize("name", PRODUCTS)
def test_inner_products_never_notice_what_was_zero(rng, name, value, scale):
    X, y = late_columns(rng, value)
    want, got = both(PRODUCTS[name], X, y, value, scale=scale)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("expansion", ["window", "tree"])
@pytest.mark.parametrize("scale", [True, False])
def test_f_is_the_sum_over_the_same_terms(rng, expansion, scale):
    """An additive kernel gains one constant per feature: f by hand, from the stored terms."""
    kernel = kernels.Additive(kernels.Exponential(0.7), weights="mean")
    X, y = late_columns(rng, 5.0)
    reg = KernelRegressor(kernel, rule=SLOW, expansion=expansion, scale=scale)
    learner = widened(reg.partial_fit(X[:120, :2], y[:120]), np.array([0.0, 5.0]))._learner
    terms, frame, targets = learner.terms, learner.frame, learner.targets
    rows = np.column_stack([reg._learner.terms.raw_rows(), np.tile([0.0, 5.0], (terms.count, 1))])
    np.testing.assert_allclose(terms.raw_rows(), rows, atol=1e-12)
    k = naive.additive([naive.exponential(0.7)] * 4, [0.25] * 4)
    z = lambda x: (x - frame.mean) * frame.width * frame.unit if scale else x
    a = terms.coefs(0, terms.count)[:, 0] * learner.units()[0]
    f = [sum(c * k(z(r), z(x)) for c, r in zip(a, rows, strict=True)) for x in X[-20:]]
    b = 0.0 if scale else reg.diagnostics_["offset"]
    want = targets.raw(np.array(f)[:, None] + b)
    np.testing.assert_allclose(learner.scores(X[-20:]), want, rtol=1e-9, atol=1e-9)


def test_a_linear_weight_of_what_was_constant(rng):
    """theta = sum of a_i x_i: v times the sum of the a_i, which the terms know one by one."""
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    rule = rules.Norma(learning_rate=0.05, regularization=0.1)
    primal = widened(LinearRegressor(rule=rule, scale=False).partial_fit(X, y), np.array([3.0]))
    dual = KernelRegressor("linear", rule=rule, scale=False).partial_fit(X, y)
    learner = dual._learner
    a = learner.terms.coefs(0, learner.terms.count)[:, 0] * learner.units()[0]
    np.testing.assert_allclose(primal.coef_, [*(a @ dual._learner.terms.raw_rows()), 3 * a.sum()])
    wide = widened(dual, np.array([3.0]))
    query = rng.normal(size=(5, 3))
    np.testing.assert_allclose(primal.predict(query), wide.predict(query), rtol=1e-9)


def test_the_average_of_linear_hypotheses_gains_a_weight_too(rng):
    """Against the average over terms, each of which gains the constant."""
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    params = {"rule": rules.Norma(learning_rate=0.05), "scale": False, "average": True}
    primal = widened(LinearRegressor(**params).partial_fit(X, y), np.array([3.0]))
    dual = widened(KernelRegressor("linear", **params).partial_fit(X, y), np.array([3.0]))
    query = rng.normal(size=(5, 3))
    np.testing.assert_allclose(primal.predict(query), dual.predict(query), rtol=1e-9)


def test_the_norm_is_taken_anew(rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    reg = KernelRegressor("gaussian", rule=rules.Norma(track_norm=True), scale=False)
    wide = widened(reg.partial_fit(X, y), np.zeros(2))
    learner, n = wide._learner, wide.n_terms_
    a = learner.terms.coefs(0, n)[:, 0] * learner.units()[0]
    rows = learner.terms.raw_rows()
    norm2 = sum(
        p * q * np.exp(-np.sum((r - s) ** 2) / 4)
        for p, r in zip(a, rows, strict=True)
        for q, s in zip(a, rows, strict=True)
    )
    assert wide.diagnostics_["norm"] == pytest.approx(np.sqrt(norm2), rel=1e-9)
    assert abs(wide.diagnostics_["norm"] - reg.diagnostics_["norm"]) > 0.1


def test_what_follows_from_the_number_of_features_follows_it(rng):
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    wide = widened(KernelRegressor("gaussian").partial_fit(X, y), np.zeros(3))
    assert wide._learner.kernel.gamma == 1 / 5
    assert wide.n_features_in_ == 5
    fresh = LinearRegressor().partial_fit(np.zeros((1, 5)), [0.0])
    grown = widened(LinearRegressor().partial_fit(X, y), np.zeros(3))
    assert grown._learner.rule.constant == fresh._learner.rule.constant
    assert grown.diagnostics_["memory"] == fresh.diagnostics_["memory"]


def test_the_narrow_model_stays_as_it_is(rng):
    X, y = rng.normal(size=(60, 2)), rng.choice(["a", "b", "c"], size=60)
    narrow = KernelClassifier().partial_fit(X, y)
    before = pickle.dumps(narrow)
    wide = widened(narrow, np.array([1.0]))
    for label in "abc":
        wide.learn_one(np.array([0.0, 1.0, 2.0]), label)
    wide.partial_fit(rng.normal(size=(30, 3)), rng.choice(["a", "d"], size=30))
    assert pickle.dumps(narrow) == before
    binary = KernelClassifier().partial_fit(X, X[:, 0] > 0)
    wide = widened(binary, np.array([1.0]))
    counts = dict(binary.class_count_)
    wide.learn_one(np.zeros(3), True)
    assert binary.class_count_ == counts
    assert wide.class_count_[True] == counts[True] + 1


def test_what_cannot_grow_says_so(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    points = expansions.Centers([[0.0, 0.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match="the points have 2 features, the rows 3"):
        widened(KernelRegressor(expansion=points).partial_fit(X, y), np.zeros(1))
    kernel = kernels.Additive([kernels.Exponential(), kernels.Exponential()])
    with pytest.raises(ValueError, match="kernel has 2 entries, but the rows have 3"):
        widened(KernelRegressor(kernel).partial_fit(X, y), np.zeros(1))
    texts = KernelRegressor(kernels.Spectrum()).partial_fit(["abc", "def"], [0.0, 1.0])
    with pytest.raises(ValueError, match="no features"):
        widened(texts, np.zeros(1))


def test_classes_and_linear_classifiers_grow_too(rng):
    X = rng.normal(size=(200, 3))
    X[:101, 2] = 0.0
    y = np.where(X[:, 0] + X[:, 2] > 0, "p", np.where(X[:, 1] > 0, "q", "r"))
    for make in (
        lambda: KernelClassifier(kernels.Gaussian(0.5)),
        lambda: LinearClassifier("logistic", SLOW),
    ):
        dense, wide = make(), make()
        want = dense.predict_then_learn(X, y, output="decision")
        wide = widened(wide.partial_fit(X[:100, :2], y[:100]), np.zeros(1))
        got = wide.predict_then_learn(X[100:], y[100:], output="decision")
        assert wide.diagnostics_["mistakes"] == dense.diagnostics_["mistakes"]
        np.testing.assert_allclose(got, want[100:], rtol=1e-9, atol=1e-9)


# -- mixtures ------------------------------------------------------------------------------------


def members(kind, linear):
    """Settings whose numbers do not follow the number of features; some of them share points."""
    return [
        kind(kernels.Gaussian(0.5)),
        kind(kernels.Laplacian(0.3), rule=SLOW),
        kind(kernels.Laplacian(0.3), rule="projection"),
        linear(rule=SLOW),
    ]


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_mixtures_never_notice(rng, value):
    X, y = late_columns(rng, value)
    slow = LinearRegressor(rule=SLOW)
    make = lambda: Regressor([*members(KernelRegressor, LinearRegressor)[:2], slow])
    want, got = both(make, X, y, value)
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)
    labels = np.where(y > np.median(y), "high", np.where(y > 0, "some", "low"))
    dense = Classifier(members(KernelClassifier, LinearClassifier))
    wide = Classifier(members(KernelClassifier, LinearClassifier))
    want = dense.predict_then_learn(X, labels, output="decision")[120:]
    wide = widened(wide.partial_fit(X[:120, :2], labels[:120]), np.array([0.0, value]))
    got = wide.predict_then_learn(X[120:], labels[120:], output="decision")
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(wide.weights_, dense.weights_, rtol=1e-8)


def test_the_default_bank_follows_the_number_of_features(rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    for narrow in (Regressor().partial_fit(X, y), Classifier().partial_fit(X, y > 0)):
        before = pickle.dumps(narrow)
        wide = widened(narrow, np.zeros(3))
        fresh = type(narrow)().partial_fit(np.zeros((2, 5)), [0, 1])
        assert repr(wide.members_) == repr(fresh.members_) != repr(narrow.members_)
        assert wide.weights_.tolist() == narrow.weights_.tolist()
        assert wide.n_features_in_ == 5 and wide.t_ == 60
        wide.partial_fit(rng.normal(size=(30, 5)), [0, 1] * 15)
        assert pickle.dumps(narrow) == before


def test_widths_that_change_places(rng):
    """One width is 1/d, the other stays: the wider one among 2 features is the narrower among 9."""
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    both = [KernelRegressor(kernels.Gaussian()), KernelRegressor(kernels.Gaussian(0.3))]
    wide = widened(Regressor(both).partial_fit(X, y), np.zeros(7))
    rows = np.column_stack([rng.normal(size=(20, 2)), np.zeros((20, 7))])
    alone = [widened(m.partial_fit(X, y), np.zeros(7)).predict(rows) for m in both]
    found = wide._learner.answers(rows)[:, :, 0]
    np.testing.assert_allclose(found, np.column_stack(alone), rtol=1e-8, atol=1e-8)
