"""Rows one at a time, by the cheap way: the same model as by blocks, whatever comes between."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
from helpers import cases
from helpers.agreement import name_of
from helpers.sizes import size, some

from onkel import (
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    core,
    expansions,
    kernels,
    losses,
    rules,
    schedules,
)
from onkel.core.layout import Field
from onkel.estimators.classes import Classes, LoneClasses
from onkel.learner import Settings, start

COMPILED = core.BACKEND != "numpy"
ROWS = size(200, 400)
MODELS = {
    "classifier": KernelClassifier(),
    "logistic": KernelClassifier(loss="logistic", expansion=expansions.Window(terms=30)),
    "classifier_nu": KernelClassifier(loss=losses.SoftMargin(nu=0.2), scale=False),
    "capped": KernelClassifier(
        loss=losses.SoftMargin(margin=0.2), expansion=expansions.Window(terms=12)
    ),
    "perceptron": KernelClassifier(rule="perceptron", expansion=expansions.Window(age=50)),
    "projection": KernelClassifier(rule="projection", kernel="matern"),
    "forgetting": KernelClassifier(rule=rules.Norma(learning_rate=0.5, memory=20)),
    "regressor": KernelRegressor(expansion=expansions.Window(terms=64)),
    "squared": KernelRegressor(loss="squared", kernel="gaussian", scale=False),
    "interval": KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.2)),
    "linear": KernelRegressor(kernel=kernels.Linear() + kernels.Gaussian()),
    "detector": NoveltyDetector(nu=0.1),
    "schedule": KernelClassifier(rule=rules.Norma(learning_rate=lambda t: 0.4 / np.sqrt(t))),
    "alma_raw": KernelClassifier(rule="alma", kernel="laplacian", scale=False),
    "alma": KernelClassifier(rule="alma", expansion=expansions.Window(terms=40)),
    "ball": KernelClassifier(
        rule=rules.Alma(radius=2.0, learning_rate=0.3), loss=losses.SoftMargin(margin=0.5),
        expansion=expansions.Window(terms=40),
    ),
    "projection_ball": KernelClassifier(
        rule=rules.Projection(radius=3.0), expansion=expansions.Window(age=60)
    ),
    "romma": KernelClassifier(rule="romma", expansion=expansions.Window(terms=25)),
    "tracked": KernelRegressor(
        rule=rules.Norma(track_norm=True), expansion=expansions.Window(terms=50)
    ),
    "growing": KernelClassifier(
        rule=rules.Norma(learning_rate=schedules.InverseSqrt(0.5), regularization=0.1),
        expansion=expansions.Window(growth=0.4),
    ),
    "three": KernelClassifier(expansion=expansions.Window(terms=50)),
    "words": KernelClassifier(loss="logistic", expansion=expansions.Window(terms=50)),
    "two_targets": KernelRegressor(expansion=expansions.Window(terms=50)),
}  # fmt: skip


def fresh(name):
    model = MODELS[name]
    return type(model)(**model.get_params(deep=False))


def stream(rng, name, dtype=np.float64):
    X = (rng.normal(size=(ROWS, 3)) * [1.0, 5.0, 0.1] + [0.0, 10.0, 0.0]).astype(dtype)
    f = np.sin(X[:, 0]) + 0.2 * (X[:, 1] - 10)
    if name == "three":
        return X, np.digitize(f + 0.3 * rng.normal(size=ROWS), [-0.5, 0.5])
    if name == "words":
        return X, np.where(f > 0, "yes", np.where(f < -1.0, "no", "perhaps"))
    if name == "two_targets":
        return X, np.column_stack([f, 3.0 + f * X[:, 0]])
    if MODELS[name].task == "classification":
        return X, np.where(f + 0.3 * rng.normal(size=ROWS) > 0, 1, 0)
    return X, f + 0.1 * rng.normal(size=ROWS)


def score(model, X):
    return model.predict(X) if isinstance(model, KernelRegressor) else model.decision_function(X)


@pytest.mark.few
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MODELS)
def test_single_rows_make_the_same_model(rng, name, dtype):
    X, y = stream(rng, name, dtype)
    one, block = fresh(name), fresh(name)
    one.partial_fit(X[:20], y[:20])
    block.partial_fit(X[:20], y[:20])
    for i in range(20, ROWS):
        if i % 3:
            one.learn_one(X[i], y[i])
        else:
            one.partial_fit(X[i : i + 1], y[i : i + 1])
    block.partial_fit(X[20:], y[20:])
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    a, b = score(one, X), score(block, X)
    if np.max(np.abs(a - b)) > tolerance * max(1.0, np.max(np.abs(b))):
        assert one.diagnostics_["updates"] != block.diagnostics_["updates"]  # a close decision
        assert dtype == np.float32
    assert one.t_ == block.t_ == ROWS
    for key in ("mistakes", "terms", "margin_errors"):
        if dtype == np.float64:
            assert one.diagnostics_[key] == block.diagnostics_[key], key
    np.testing.assert_allclose(one._learner.moments.mean, block._learner.moments.mean, rtol=1e-12)
    np.testing.assert_allclose(
        one._learner.targets.moments.variance, block._learner.targets.moments.variance, rtol=1e-9
    )
    if isinstance(one, KernelClassifier):
        assert one.class_count_ == block.class_count_


@pytest.mark.parametrize("name", MODELS)
def test_looking_at_single_rows(rng, name):
    X, y = stream(rng, name)
    model = fresh(name).partial_fit(X[:300], y[:300])
    many = model.predict(X[:40])
    ones = [model.predict_one(x) for x in X[:40]]
    if isinstance(model, KernelRegressor):
        np.testing.assert_allclose(ones, many, rtol=1e-10, atol=1e-12)
    else:
        assert list(many) == ones
    if isinstance(model, NoveltyDetector):
        scores = [model.score_one(x) for x in X[:40]]
        np.testing.assert_allclose(scores, model.score_samples(X[:40]), rtol=1e-10)
    if name != "schedule":
        before = pickle.dumps(model)
        model.predict_one(X[0])
        assert pickle.dumps(model) == before


def test_any_mixture_of_calls(rng):
    X, y = stream(rng, "classifier")
    a, b = fresh("classifier"), fresh("classifier")
    at = 0
    while at < ROWS:
        n = int(rng.choice([1, 1, 1, 5, 30]))
        rows, labels = X[at : at + n], y[at : at + n]
        if n == 1:
            a.learn_one(rows[0], labels[0])
            a.predict_one(rows[0])
        else:
            a.partial_fit(rows, labels)
        b.partial_fit(rows, labels)
        if rng.random() < 0.1:
            a = pickle.loads(pickle.dumps(a)) if rng.random() < 0.5 else copy.deepcopy(a)
        at += n
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-9)
    assert a.diagnostics_["mistakes"] == b.diagnostics_["mistakes"]


@pytest.mark.skipif(not COMPILED, reason="the cheap way is the compiled core's")
@pytest.mark.parametrize("name", MODELS)
def test_the_cheap_way_is_taken(rng, name):
    X, y = stream(rng, name)
    model = fresh(name).partial_fit(X[:70], y[:70])
    general, calls = model._learn, []
    model._learn = lambda *given: calls.append(given) or general(*given)
    for x, label in zip(X[70:127], y[70:127], strict=True):
        model.learn_one(x, label)
    refreshes = 12 if name in ("forgetting", "growing") else 0
    assert model.t_ == 127
    assert len(calls) <= refreshes + 1  # and once where the room for terms grows


def test_a_schedule_that_ends_is_asked_no_earlier(rng):
    """Rates are asked for ahead of their trials; whoever comes before a bad one goes on."""
    X, y = stream(rng, "classifier")

    def falling(t):
        return np.where(t < 100, 0.4, -1.0)

    model = KernelClassifier(rule=rules.Norma(learning_rate=falling)).partial_fit(X[:70], y[:70])
    for i in range(70, 99):
        model.learn_one(X[i], y[i])
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="rate"):
        model.learn_one(X[99], y[99])
    assert model.t_ == 99
    assert np.array_equal(before, model.decision_function(X))


def test_rows_that_are_refused_change_nothing(rng):
    X, y = stream(rng, "classifier")
    model = fresh("classifier").partial_fit(X[:70], y[:70])
    model.learn_one(X[70], y[70])
    before = pickle.dumps(model)
    bad = [
        (np.array([np.nan, 0.0, 0.0]), 1), (np.array([1e200, 0.0, 0.0]), 1),
        (np.array([1.0, 2.0]), 1), (X[71], None), ("text", 1), (X[71][None], 1),
        (X[71], [1, 0]),
    ]  # fmt: skip
    for row, label in bad:
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(row, label)
        assert pickle.dumps(model) == before, row
    model.learn_one(X[71].tolist(), 1)  # a list is a row too
    model.learn_one(X[72].astype(np.float32), 1)
    model.learn_one(np.repeat(X[73], 2)[::2], 1)
    assert model.t_ == 74
    reg = fresh("regressor").partial_fit(X[:70], X[:70, 0])
    reg.learn_one(X[70], 1.0)
    before = pickle.dumps(reg)
    for target in (np.nan, np.inf, 1e200):
        with pytest.raises(ValueError):
            reg.learn_one(X[71], target)
        assert pickle.dumps(reg) == before


def test_a_third_class_that_comes_singly(rng):
    X, y = stream(rng, "classifier")
    model = fresh("classifier").partial_fit(X[:70], y[:70])
    for x, label in zip(X[70:90], y[70:90], strict=True):
        model.learn_one(x, label)
    model.learn_one(X[90], 2)
    model.learn_one(X[91], 1)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.class_count_[2] == 1
    assert model.predict_one(X[91]) in model.classes_


@pytest.mark.parametrize("case", some(cases.pairwise(cases.FACTORS)[::4], times=1), ids=name_of)
def test_ages_and_windows_in_the_lane(rng, case):
    """A stream long enough for the ring of panels to turn round several times."""
    if case["average"] or case["kernel"] == "function":
        pytest.skip("not for the fast lane")
    twins = cases.build(case)
    rows = size(200, 600, plain=300)
    X, Y = cases.stream(case, rng, rows)
    lane, slow = twins.learner(), twins.learner()
    slow.in_lane = False
    a, _ = lane.learn(X, Y, np.ones(rows))
    b, _ = slow.learn(X, Y, np.ones(rows))
    if not np.array_equal(lane.state[:, 11], slow.state[:, 11]):
        pytest.skip("a decision lay within rounding of its threshold")
    tolerance = 1e-9 if case["dtype"] == "float64" else 1e-3
    assert np.max(np.abs(a - b)) <= tolerance * max(1.0, np.max(np.abs(b)))
    assert (
        lane.terms.births_from(0, lane.size).tolist()
        == slow.terms.births_from(0, slow.size).tolist()
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("window", [{"terms": 100}, {"age": 130}, {"terms": 3}], ids=repr)
@pytest.mark.parametrize("name", ["alma", "ball", "projection_ball", "romma", "tracked"])
def test_rules_that_keep_the_norm_in_the_lane(rng, name, window, dtype):
    """Also with a block that pushes out terms of its own, and the norm as summed anew."""
    X, y = stream(rng, name, dtype)
    model = fresh(name).set_params(expansion=expansions.Window(**window), scale=False)
    lane, slow = (copy.deepcopy(model).partial_fit(X[:40], y[:40]) for _ in range(2))
    slow._learner.in_lane = False
    lane.partial_fit(X[40:], y[40:])
    slow.partial_fit(X[40:], y[40:])
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    assert lane.n_terms_ == slow.n_terms_
    a, b = score(lane, X), score(slow, X)
    assert np.max(np.abs(a - b)) <= tolerance * max(1.0, np.max(np.abs(b)))
    norm = lane._learner.state[:, Field.NORM2]
    np.testing.assert_allclose(norm, lane._learner.norm2(), rtol=1e-7 if tolerance < 1e-6 else 1e-3)


@pytest.mark.skipif(not COMPILED, reason="threads are the compiled core's")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_threads_change_no_bit(rng, dtype):
    """Enough to sum for several tiles at a time, which threads share."""
    X = rng.normal(size=(1200, 900)).astype(dtype)
    y = np.sin(X[:, 0])
    results = []
    for jobs in (1, 2, 3):
        model = KernelRegressor(
            kernel="gaussian", loss="squared", expansion=expansions.Window(terms=700), n_jobs=jobs
        )
        results.append(model.predict_then_learn(X, y).tobytes())
        assert model.n_terms_ == 700
    assert results[0] == results[1] == results[2]


WIDE = [{"terms": 600}, {"age": 650}, {"terms": None}]


@pytest.mark.parametrize("window", size(WIDE[:1], WIDE), ids=repr)
def test_several_tiles_at_a_time_equal_rows_one_by_one(rng, window):
    X = rng.normal(size=(1000, 1000))
    y = np.sin(X[:, :1])
    parts = {"kernel": kernels.Gaussian(0.002), "loss": "squared", "scale": False}
    wide = KernelRegressor(expansion=expansions.Window(**window), **parts)
    narrow = KernelRegressor(expansion=expansions.Window(**window), **parts)
    cuts = ((0, 560), (560, 700), (700, 1000))  # what is large is seen when a call begins
    a = np.concatenate([wide.predict_then_learn(X[i:j], y[i:j, 0]) for i, j in cuts])
    b = np.concatenate([narrow.predict_then_learn(X[i : i + 3], y[i : i + 3, 0])
                        for i in range(0, 1000, 3)])  # fmt: skip
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    assert wide.n_terms_ == narrow.n_terms_


@pytest.mark.parametrize("rows", [6, 24, 60])
def test_a_refused_call_in_which_the_window_ran_empty(rng, rows):
    """Terms of age 5 all expire while nothing is learned; then a row is refused."""
    X = rng.normal(size=(400, 2)) + 3.0  # one side only: the perceptron is right for a while
    model = KernelClassifier(
        kernel=kernels.Polynomial(3, gamma=1.0), rule="perceptron", scale=False,
        expansion=expansions.Window(age=5),
    ).partial_fit(X[:300], np.ones(300, int), classes=[0, 1])  # fmt: skip
    later = X[300 : 300 + rows].copy()
    later[-1] = 1e120
    for _ in range(5):
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match=f"Row {rows - 1}"):
            model.partial_fit(later, np.ones(rows, int))
        assert pickle.dumps(model) == before
        model.learn_one(X[350], 1)


@pytest.mark.parametrize("step", [1, 5])
def test_single_rows_follow_data_that_leave_their_centre(rng, step):
    """Time stamps in single precision: distances are taken near the data, not near zero."""
    n = 600
    X = (np.arange(n)[:, None] * 50.0 + rng.normal(size=(n, 1))).astype(np.float32)
    y = (rng.random(n) < 0.5).astype(int)
    parts = {"kernel": kernels.Gaussian(0.5), "scale": False,
             "expansion": expansions.Window(terms=40)}  # fmt: skip
    single, double = KernelClassifier(**parts), KernelClassifier(**parts)
    for i in range(0, n, step):
        if step == 1:
            single.learn_one(X[i], int(y[i]))
        else:
            single.partial_fit(X[i : i + step], y[i : i + step])
    double.partial_fit(X.astype(np.float64), y)
    probe = X[-40:] + np.float32(0.5)
    close = np.abs(single.decision_function(probe) - double.decision_function(probe))
    assert close.max() < 0.01
    assert abs(float(single._learner.frame.center[0]) - float(X[-1, 0])) < 50.0 * 200


@pytest.mark.parametrize(
    ("dtype", "memory"),
    size(
        [(np.float64, 20.0), (np.float32, 1e5)],
        [*itertools.product([np.float64, np.float32], [20.0, 1e5])],
    ),
)
def test_many_terms_and_many_folds(rng, dtype, memory):
    """More panels than stay in one sum, and scales that fall far within a call."""
    X = rng.normal(size=(5000, 2)).astype(dtype)
    y = np.sin(X[:, :1]).astype(float)
    rule = rules.Norma(learning_rate=0.05, memory=memory)
    settings = Settings(
        kernels.Gaussian(0.5), losses.Squared(), rule, expansions.Window(terms=3000), scale=False
    )
    lane, slow = (start(settings, 2, 1, dtype) for _ in range(2))
    slow.in_lane = False
    a, _ = lane.learn(X, y, np.ones(5000))
    b, _ = slow.learn(X, y, np.ones(5000))
    tolerance = 1e-9 if dtype == np.float64 else 1e-3
    assert np.max(np.abs(a - b)) <= tolerance * max(1.0, np.max(np.abs(b)))
    assert lane.size == slow.size == 3000


def test_a_tie_of_classes_is_a_mistake():
    known = LoneClasses(Classes.given(["a", "b", "c"]))
    assert known.mistake("b", np.array([0.0, 1.0, 1.0]))
    assert not known.mistake("b", np.array([0.0, 1.0, 0.5]))
    assert known.prediction(np.array([0.0, 1.0, 1.0])) == "b"
