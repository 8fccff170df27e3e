"""Mixtures: single rows by the cheap way, blocks by the lane; the same models all the same."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import ClassVar

import numpy as np
import pytest
from helpers.fingerprint import fingerprint as bits
from helpers.sizes import size, some

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    Regressor,
    core,
    expansions,
    kernels,
    losses,
    rules,
)
from onkel.core.layout import Field
from onkel.learner import Bank, SecondOrderLearner, Settings
from onkel.learner.engines.bank import MEMBERS
from onkel.learner.mixture_row import MixtureRow

COMPILED = core.has_lane()
ROWS = size(230, 2000, plain=350)
NARROW, WIDE = kernels.Laplacian(1.0), kernels.Laplacian(0.25)
SMALL = expansions.Window(terms=40)


def kernel_members(**more):
    return [
        KernelClassifier(NARROW, **more),
        KernelClassifier(WIDE, rule="projection", **more),
        KernelClassifier(kernels.Gaussian(0.5), "logistic", **more),
    ]


MODELS = {
    "default": Classifier,
    "three": Classifier,
    "words": Classifier,
    "number": Regressor,
    "two_targets": Regressor,
    "small_ring": lambda: Classifier(kernel_members(expansion=SMALL)),
    "forgetting": lambda: Classifier([
        KernelClassifier(NARROW, rule=rules.Norma(0.5, memory=30), expansion=SMALL),
        KernelClassifier(WIDE, rule=rules.Norma(0.1, memory=200), expansion=SMALL),
        LinearClassifier(rule=rules.Norma(0.2, memory=60)),
    ]),
    "linear_only": lambda: Classifier([LinearClassifier(), LinearClassifier(rule="projection")]),
    "p_norm": lambda: Classifier([
        LinearClassifier(rule="alma", p=4.0), LinearClassifier(),
    ]),
    "one_with_terms": lambda: Classifier([
        LinearClassifier(), KernelClassifier(rule="alma", expansion=SMALL),
    ]),
    "raw": lambda: Regressor([
        KernelRegressor(NARROW, scale=False), KernelRegressor(WIDE, "squared", scale=False),
        LinearRegressor(scale=False),
    ]),
}  # fmt: skip


def stream(rng, name, dtype=np.float64, rows=ROWS):
    X = (rng.normal(size=(rows, 3)) * [1.0, 5.0, 0.1] + [0.0, 10.0, 0.0]).astype(dtype)
    f = np.sin(X[:, 0]) + 0.2 * (X[:, 1] - 10)
    if name == "three":
        return X, np.digitize(f + 0.3 * rng.normal(size=rows), [-0.5, 0.5])
    if name == "words":
        return X, np.where(f > 0, "yes", np.where(f < -1.0, "no", "perhaps"))
    if name == "two_targets":
        return X, np.column_stack([f, 3.0 + f * X[:, 0]])
    if name in ("number", "raw"):
        return X, f + 0.1 * rng.normal(size=rows)
    return X, np.where(f + 0.3 * rng.normal(size=rows) > 0, 1, 0)


def score(model, X):
    return model.predict(X) if isinstance(model, Regressor) else model.decision_function(X)


@pytest.fixture
def quick(monkeypatch):
    """How many rows were learned by the cheap way."""
    counts = [0]
    learn = MixtureRow.learn

    def counted(self, *given):
        fine = learn(self, *given)
        counts[0] += fine
        return fine

    monkeypatch.setattr(MixtureRow, "learn", counted)
    return counts


@pytest.mark.few
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MODELS)
def test_single_rows_make_the_same_model(rng, name, dtype, quick):
    X, y = stream(rng, name, dtype)
    one, block = MODELS[name](), MODELS[name]()
    one.partial_fit(X[:20], y[:20])
    block.partial_fit(X[:20], y[:20])
    for i in range(20, ROWS):
        if i % 3:
            one.learn_one(X[i], y[i])
        else:
            one.partial_fit(X[i : i + 1], y[i : i + 1])
    block.partial_fit(X[20:], y[20:])
    if COMPILED:
        small = name in ("small_ring", "forgetting")  # full every other row
        assert quick[0] > (0.3 if small else 0.7) * (ROWS - 20)
    assert one.t_ == block.t_ == ROWS
    if dtype == np.float64:
        want = score(block, X)
        # Least squares multiply rounding by the condition of P, 1e10 with the bank's Gaussian.
        squares = any(isinstance(p, SecondOrderLearner) for p, _ in block._learner.parts)
        atol = 1e-8 * np.abs(want).max() if squares else 1e-9
        np.testing.assert_allclose(score(one, X), want, rtol=1e-8, atol=atol)
        np.testing.assert_allclose(one.weights_, block.weights_, rtol=1e-8, atol=1e-9)
        assert one.n_terms_ == block.n_terms_
        assert one.diagnostics_["mistakes"] == block.diagnostics_["mistakes"]
        assert one.diagnostics_["loss"] == pytest.approx(block.diagnostics_["loss"], rel=1e-9)
    else:  # a close decision may fall the other way
        assert np.mean(np.abs(score(one, X) - score(block, X)) > 1e-2) < 0.05
    for a, b in zip(one._learner.parts, block._learner.parts, strict=True):
        np.testing.assert_allclose(a[0].moments.mean, b[0].moments.mean, rtol=1e-12)
        np.testing.assert_allclose(a[0].targets.moments.mean, b[0].targets.moments.mean, rtol=1e-9)
    if isinstance(one, Classifier):
        assert one.class_count_ == block.class_count_


@pytest.mark.parametrize("name", MODELS)
def test_looking_at_single_rows(rng, name):
    X, y = stream(rng, name)
    model = MODELS[name]().partial_fit(X[:300], y[:300])
    before = bits(model)
    many = model.predict(X[:40])
    ones = [model.predict_one(x) for x in X[:40]]
    if isinstance(model, Regressor):
        np.testing.assert_allclose(ones, many, rtol=1e-10, atol=1e-12)
    else:
        assert list(many) == ones
    assert bits(model) == before


@pytest.mark.parametrize("name", ["default", "three", "number"])
def test_rows_far_from_where_the_model_began(rng, name):
    """The centre of the common frame follows, every so many single rows."""
    X, y = stream(rng, name)
    X[100:] += 1e6
    one, block = MODELS[name](), MODELS[name]()
    one.partial_fit(X[:90], y[:90])
    block.partial_fit(X[:90], y[:90])
    for i in range(90, ROWS):
        one.learn_one(X[i], y[i])
    block.partial_fit(X[90:], y[90:])
    np.testing.assert_allclose(score(one, X[-50:]), score(block, X[-50:]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["default", "small_ring", "number"])
def test_features_that_vary_late(rng, name, quick):
    """A feature's first difference is its unit at once; rows before and after it are quick."""
    X, y = stream(rng, name)
    X = np.column_stack([X, np.zeros(ROWS), np.ones(ROWS)])
    X[130::20, 3] = 1.0
    X[200:, 4] = rng.normal(size=ROWS - 200)
    one, block, ten = (MODELS[name]() for _ in range(3))
    one.partial_fit(X[:90], y[:90])
    for i in range(90, ROWS):
        one.learn_one(X[i], y[i])
    block.partial_fit(X, y)
    for i in range(0, ROWS, 10):
        ten.partial_fit(X[i : i + 10], y[i : i + 10])
    np.testing.assert_allclose(score(one, X), score(block, X), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(score(ten, X), score(block, X), rtol=1e-8, atol=1e-9)
    if COMPILED:
        assert quick[0] > (0.3 if name == "small_ring" else 0.9) * (ROWS - 90)
    with pytest.raises(ValueError):
        one.learn_one(X[0, :4], y[0])


def test_a_late_class_between_single_rows(rng):
    X, y = stream(rng, "three")
    late = np.where(y == 2, np.where(np.arange(ROWS) < ROWS - 100, 0, 2), y)
    one, block = Classifier(), Classifier()
    for x, label in zip(X, late, strict=True):
        one.learn_one(x, label)
    block.partial_fit(X, late)
    np.testing.assert_allclose(score(one, X), score(block, X), rtol=1e-8, atol=1e-9)
    assert list(one.classes_) == [0, 1, 2]


BAD_ROWS = {
    "nan": lambda x: np.where(np.arange(3) == 1, np.nan, x),
    "infinite": lambda x: np.where(np.arange(3) == 2, np.inf, x),
    "short": lambda x: x[:2],
    "words": lambda x: ["a", "b", "c"],
}


@pytest.mark.few
@pytest.mark.parametrize("bad", BAD_ROWS)
@pytest.mark.parametrize("name", ["default", "three", "number", "small_ring", "one_with_terms"])
def test_a_refused_row_changes_nothing(rng, name, bad):
    X, y = stream(rng, name)
    model = MODELS[name]().partial_fit(X[:200], y[:200])
    model.learn_one(X[200], y[200])
    before = bits(model)
    with pytest.raises(ValueError):
        model.learn_one(BAD_ROWS[bad](X[201]), y[201])
    assert bits(model) == before
    model.learn_one(X[201], y[201])
    assert model.t_ == 202


@pytest.mark.skipif(not COMPILED, reason="single rows have no way of their own here")
@pytest.mark.parametrize("name", ["default", "number", "one_with_terms"])
def test_where_one_part_refuses_no_other_has_moved(rng, name, monkeypatch):
    """The weights are tried first, and dropped; a ring takes back what it learned."""
    X, y = stream(rng, name)
    model = MODELS[name]().partial_fit(X[:200], y[:200])
    model.learn_one(X[200], y[200])
    one = model._single()
    assert isinstance(one, MixtureRow) and one.linear is not None and one.terms
    before = bits(model)
    target = float(y[201]) if name == "number" else 1.0
    monkeypatch.setattr(one.terms[-1], "learn", lambda *given: False)
    assert not one.learn(X[201], target)
    assert bits(model) == before
    far = np.array([1e300, 0.0, 0.0])
    assert not one.learn(far, target) and not one.look(far)
    assert not one.learn(X[201], "x") and not one.learn(X[201], np.zeros(2))
    assert not one.learn(X[201], target, 5.0) and not one.learn(X[201, ::-1], target)
    assert bits(model) == before


@pytest.mark.parametrize("name", ["default", "number"])
def test_copies_are_independent(rng, name):
    X, y = stream(rng, name)
    model = MODELS[name]().partial_fit(X[:100], y[:100])
    for i in range(100, 120):
        model.learn_one(X[i], y[i])
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    inner, before = model._learner.copy(), bits(model)
    kept = bits(inner)
    for i in range(120, 140):
        model.learn_one(X[i], y[i])
    assert [bits(c) for c in copies] == [before, before]
    assert bits(inner) == kept
    for c in copies:
        for i in range(120, 140):
            c.learn_one(X[i], y[i])
        np.testing.assert_array_equal(score(c, X), score(model, X))


def test_weighted_rows_and_single_rows_mix(rng):
    X, y = stream(rng, "default")
    one, block = Classifier(), Classifier()
    weight = rng.uniform(0.5, 2.0, size=ROWS)
    weight[1::2] = 1.0
    one.partial_fit(X[:20], y[:20])
    block.partial_fit(X[:20], y[:20])
    for i in range(20, 200):
        if i % 2:
            one.learn_one(X[i], y[i])
        else:
            one.partial_fit(X[i : i + 1], y[i : i + 1], sample_weight=weight[i : i + 1])
    block.partial_fit(X[20:200], y[20:200], sample_weight=weight[20:200])
    np.testing.assert_allclose(score(one, X), score(block, X), rtol=1e-8, atol=1e-9)


def test_a_schedule_that_fails_is_seen_by_whose_turn_it_is(rng):
    def schedule(t):
        if np.any(np.asarray(t) > 150):
            raise RuntimeError("no more")
        return 0.3 / np.sqrt(t)

    X, y = stream(rng, "default")
    members = [KernelClassifier(rule=rules.Norma(learning_rate=schedule)), LinearClassifier()]
    model = Classifier(members)
    for i in range(150):
        model.learn_one(X[i], y[i])
    before = bits(model._learner.blend.weights)
    with pytest.raises(RuntimeError, match="no more"):
        model.learn_one(X[150], y[150])
    assert bits(model._learner.blend.weights) == before and model.t_ == 150


# -- the lane for blocks ---------------------------------------------------------------------------


class Slow(Bank):
    """A bank without its lane."""

    engines: ClassVar = (MEMBERS,)


def bank(kind, task="classification", outputs=1, terms=100, dtype=np.float64, threads=1, d=3):
    window = expansions.Window(terms=terms)
    hinge = losses.SoftMargin() if task == "classification" else losses.Huber(sigma=1.0)
    other = losses.Logistic() if task == "classification" else losses.Squared()
    more = {"threads": threads}
    settings = [
        Settings(WIDE, hinge, rules.Norma(0.3, memory=60), window, **more),
        Settings(WIDE, other, rules.Norma(0.1, memory=500), window, intercept=False, **more),
        Settings(NARROW, hinge, rules.Projection(), window, intercept=False, **more)
        if task == "classification"
        else Settings(NARROW, hinge, rules.Norma(0.2), window, **more),
        Settings(kernels.Gaussian(0.3), other, rules.Norma(0.2), window, **more),
    ]
    order = Bank.in_order(settings, d)
    return kind([settings[i] for i in order], d, outputs, dtype)


def learned(learner, X, Y, cuts):
    found, weight = [], np.ones(len(X))
    for part in np.split(np.arange(len(X)), cuts):
        found.append(learner.learn(X[part], Y[part], weight[part])[0])
    return np.concatenate(found)


@pytest.mark.parametrize(
    ("terms", "dtype", "task", "outputs"),
    some(
        itertools.product(
            [20, 100, 5000], [np.float64, np.float32], ["classification", "regression"], [1, 3]
        ),
        times=4,
        levels=enumerate,
    ),
)
def test_the_lane_learns_what_blocks_learn(rng, task, dtype, terms, outputs):
    """Whatever the ring holds: some points go now and then; scales are folded, frames refreshed."""
    d = 3 if terms < 5000 else 9
    X = rng.normal(size=(ROWS, d)).astype(dtype)
    Y = np.stack([X[:, 0] * X[:, 1] + k * X[:, 2] + 0.2 for k in range(outputs)], axis=1)
    Y = np.where(Y > 0, 1.0, -1.0) if task == "classification" else Y.astype(float)
    given = {"task": task, "outputs": outputs, "terms": terms, "dtype": dtype, "d": d}
    quick, slow = bank(Bank, **given), bank(Slow, **given)
    cuts = [1, 2, 3, 50, 51, 58, 200]
    a, b = learned(quick, X, Y, cuts), learned(slow, X, Y, cuts)
    if dtype == np.float64:
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
        told = [f for f in Field if f not in (Field.SCALE, Field.SCALE_SUM)]  # folded elsewhere
        np.testing.assert_allclose(quick.state[:, told], slow.state[:, told], rtol=1e-8, atol=1e-9)
        assert quick.terms.count == slow.terms.count < terms
        n = quick.terms.count
        np.testing.assert_array_equal(quick.terms.births_from(0, n), slow.terms.births_from(0, n))
    else:
        assert np.mean(np.abs(a - b) > 1e-2) < 0.05
    threaded = bank(Bank, threads=3, **given)
    assert np.array_equal(learned(threaded, X, Y, cuts), a)


@pytest.mark.skipif(not COMPILED, reason="the lane is compiled")
def test_the_bits_do_not_depend_on_the_threads_where_work_is_shared(rng):
    X = rng.normal(size=(1500, 40))
    Y = np.where(rng.random((1500, 1)) < 0.5, 1.0, -1.0)
    one, three = (bank(Bank, terms=5000, threads=t, d=40) for t in (1, 3))
    assert np.array_equal(learned(one, X, Y, [1200]), learned(three, X, Y, [1200]))
    assert np.array_equal(one.state, three.state)


def test_a_wipe_is_left_to_the_blocks(rng):
    """eta lam = 1 forgets all: the lane leaves that row alone."""
    window = expansions.Window(terms=100)
    hinge = losses.SoftMargin()
    settings = [
        Settings(WIDE, hinge, rules.Norma(learning_rate=1.0, regularization=1.0), window),
        Settings(NARROW, hinge, rules.Norma(0.3, memory=50), window),
    ]
    order = Bank.in_order(settings, 3)
    X = rng.normal(size=(200, 3))
    Y = np.where(X[:, :1] > 0, 1.0, -1.0)
    quick, slow = (kind([settings[i] for i in order], 3, 1, np.float64) for kind in (Bank, Slow))
    a, b = learned(quick, X, Y, [10, 11, 90]), learned(slow, X, Y, [10, 11, 90])
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(quick.state[:, Field.SCALE], slow.state[:, Field.SCALE], rtol=1e-9)


def test_a_step_that_is_not_finite_changes_nothing(rng):
    learner = bank(Bank, task="regression")
    X = rng.normal(size=(300, 3))
    Y = X[:, :1].copy()
    learner.learn(X[:200], Y[:200], np.ones(200))
    before = bits(learner)
    Y[290] = 1e150
    weight = np.ones(100)
    weight[90] = 1e155
    with pytest.raises(ValueError, match="290"):
        learner.learn(X[200:], Y[200:], weight, None, 200)
    assert bits(learner) == before
