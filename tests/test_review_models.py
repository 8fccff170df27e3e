"""What a second hostile reading of the models found, each with the case that showed it."""

from __future__ import annotations

import copy
import pickle
import time
from threading import Event, Thread

import numpy as np
import pytest

from onkel import (
    Hedged,
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    expansions,
    kernels,
    merge,
    rules,
)
from onkel.core.bank import fixed_share
from onkel.core.layout import Field

CUBIC = kernels.Polynomial(degree=3, gamma=1.0, offset=1.0)


def run(*calls):
    threads = [Thread(target=call, args=args) for call, *args in calls]
    for thread in threads:
        thread.start()
        time.sleep(0.03)
    for thread in threads:
        thread.join()


def slow_rule():
    def slow(t):
        time.sleep(0.01)
        return np.full(t.shape, 0.1)

    return rules.Norma(learning_rate=slow)


def ascending(model):
    return bool((np.diff(model._learner.terms.births_from(0, model.n_terms_)) > 0).all())


@pytest.mark.parametrize("rows", [3, 30])
def test_single_rows_after_a_refused_call_go_into_the_model(rng, rows):
    """A refused call puts other arrays in; what was bound for single rows held the old ones."""
    X = rng.normal(size=(300, 3))
    y = X[:, 0]
    parts = {"kernel": CUBIC, "scale": False, "rule": rules.Norma(learning_rate=1e-3)}
    model, twin = KernelRegressor(**parts), KernelRegressor(**parts)
    for one in (model, twin):
        one.partial_fit(X[:70], y[:70])
        one.learn_one(X[70], y[70])
    bad = X[200 : 200 + rows].copy()
    bad[-1] = 1e120
    with pytest.raises(ValueError):
        model.partial_fit(bad, y[200 : 200 + rows])
    for i in range(71, 120):
        model.learn_one(X[i], y[i])
        twin.learn_one(X[i], y[i])
    assert (model.t_, model.n_terms_) == (twin.t_, twin.n_terms_)
    assert model.predict(X).tobytes() == twin.predict(X).tobytes()
    assert model.predict_one(X[5]) == pytest.approx(model.predict(X[5:6])[0])


def test_fit_keeps_the_lock(rng):
    """A call that waited for a fit ran beside calls that came after it."""
    X = rng.normal(size=(300, 3))
    y = X[:, 0]
    model = KernelRegressor(rule=slow_rule()).fit(X[:10], y[:10])
    run((model.fit, X[:60], y[:60]), (model.partial_fit, X[60:160], y[60:160]),
        (model.partial_fit, X[160:260], y[160:260]))  # fmt: skip
    assert model.t_ == 260 and ascending(model)


@pytest.mark.parametrize("make", [lambda: KernelRegressor(rule=slow_rule()),
                                  lambda: Hedged("regression", members=[
                                      KernelRegressor(rule=slow_rule())])])  # fmt: skip
def test_two_threads_may_begin_a_model(rng, make):
    X = rng.normal(size=(200, 3))
    model = make()
    run((model.partial_fit, X[:100], X[:100, 0]), (model.partial_fit, X[100:], X[100:, 0]))
    assert model.t_ == 200


@pytest.mark.parametrize("take", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_taken_while_another_thread_learns_are_whole(rng, take):
    X = rng.normal(size=(9000, 3))
    y = np.where(X[:, 0] > 0, "a", "b")
    model = KernelClassifier(expansion=expansions.Window(terms=50)).partial_fit(X[:50], y[:50])
    stop, torn = Event(), []

    def watch():
        while not stop.is_set():
            found = take(model)
            if sum(found.class_count_.values()) != found.t_ or not ascending(found):
                torn.append(found.t_)

    watcher = Thread(target=watch)
    watcher.start()
    for i in range(50, 9000, 50):
        model.partial_fit(X[i : i + 50], y[i : i + 50])
    stop.set()
    watcher.join()
    assert not torn


def test_a_mixture_that_refuses_a_call_is_what_it_was(rng):
    X = rng.normal(size=(600, 3))
    rule = rules.Norma(learning_rate=0.1)
    members = [NoveltyDetector(0.05, kernel=kernels.Polynomial(degree=q, gamma=1.0, offset=1.0),
                               scale=False, rule=rule) for q in (2, 3)]  # fmt: skip
    model = Hedged("novelty", members=members).partial_fit(X[:300])
    before, bad = pickle.dumps(model), X[300:].copy()
    bad[280] = 1e120
    with pytest.raises(ValueError):
        model.partial_fit(bad)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("rate", [1e-6, 1.0, 1e3, 1e9])
def test_weights_stay_weights_at_any_rate(rng, rate):
    losses, weights = rng.random((50, 4)), np.full(4, 0.25)
    truth = weights.copy()
    _, gap = fixed_share(losses, rate, 0.01, weights)
    for loss in losses:  # in logarithms, which nothing overflows
        with np.errstate(divide="ignore"):
            log = np.log(truth) - rate * loss
        log -= log.max()
        truth = 0.99 * np.exp(log) / np.exp(log).sum() + 0.01 / 4
    np.testing.assert_allclose(weights, truth, rtol=1e-9)
    assert np.all(np.isfinite(gap)) and gap.min() > -1e-9
    model = Hedged(rate=rate).partial_fit(losses, losses[:, 0] > 0.5)
    assert model.weights_.sum() == pytest.approx(1.0)


def test_labels_of_several_kinds_in_a_list_stay_what_they_are(rng):
    model = KernelClassifier().partial_fit(rng.normal(size=(4, 1)), [0, 1, "x", 0])
    model.learn_one([0.5], 1)
    assert model.class_count_ == {0: 2, 1: 2, "x": 1}


def test_models_without_terms_can_be_merged(rng):
    X = rng.normal(size=(6, 3))
    parts = [KernelRegressor().partial_fit(X[i : i + 3], [5.0] * 3) for i in (0, 3)]
    assert merge(parts).predict(X).tolist() == [5.0] * 6


def test_explaining_a_row_that_only_a_centre_of_no_weight_knows():
    centres = expansions.Centers(np.array([[0.0, 0.0], [100.0, 100.0]]))
    model = NoveltyDetector(scale=False, expansion=centres).partial_fit(np.zeros((30, 2)))
    assert model.explain([100.0, 100.0]).score == pytest.approx(0.0, abs=1e-12)


def test_odd_targets_and_missing_values_of_frames(rng):
    pd = pytest.importorskip("pandas")
    model = KernelRegressor().partial_fit(rng.normal(size=(9, 1)), np.arange(9.0))
    with pytest.raises(ValueError, match="y must hold numbers"):
        model.learn_one([0.5], 1j)
    frame = pd.DataFrame({"a": pd.array([1.0, None, 3.0], dtype="Float64"), "b": [1.0, 2.0, 3.0]})
    patient = KernelRegressor(missing="mean").partial_fit(frame, [1.0, 2.0, 3.0])
    assert patient.t_ == 3


@pytest.mark.parametrize("terms", [1, 3, 5, 10, 40])
@pytest.mark.parametrize("scale", [False, True])
def test_the_norm_of_romma_in_a_small_window(rng, terms, scale):
    """It grows by orders of magnitude and falls again; rounding of the large one stayed."""
    X = rng.normal(size=(1500, 3))
    y = X[:, 0] * X[:, 1] > 0
    window = expansions.Window(terms=terms)
    model = KernelClassifier(rule="romma", scale=scale, expansion=window)
    for i in range(0, 1500, 100):
        model.partial_fit(X[i : i + 100], y[i : i + 100])
        learner = model._learner
        truth = learner.norm2()
        np.testing.assert_allclose(learner.state[:, Field.NORM2], truth, rtol=1e-6)
