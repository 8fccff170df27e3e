"""Predicting in some threads while another learns: each answer is of a model between two calls."""

from __future__ import annotations

import copy
import pickle
import time
from threading import Event, Thread

import numpy as np
import pytest

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    NoveltyDetector,
    Regressor,
    expansions,
    rules,
)

MODELS = {
    "classifier": KernelClassifier(expansion=expansions.Window(terms=200)),
    "classes": KernelClassifier(expansion=expansions.Window(terms=200)),
    "regressor": KernelRegressor(expansion=expansions.Window(terms=200)),
    "detector": NoveltyDetector(expansion=expansions.Window(terms=200), support=0.5),
    "linear": LinearClassifier(),
    "mixture": Classifier(
        members=[LinearClassifier(), KernelClassifier(), KernelClassifier("laplacian")]
    ),
}


def answers(name, model, X):
    if name == "classes":  # a new class now and then
        return repr(model.predict(X).tolist()).encode()
    if name == "regressor":
        return model.predict(X).tobytes()
    return model.decision_function(X).tobytes()


def stream(rng, name):
    X = rng.normal(size=(6000, 4))
    y = np.where(X[:, 0] > 0, 1, 0)
    if name == "classes":
        y = np.minimum(np.arange(6000) // 1000, 5) * (X[:, 0] > 0)
    return X, X[:, 1] if name == "regressor" else y


@pytest.mark.parametrize("name", MODELS)
def test_answers_come_from_between_two_calls(rng, name):
    X, y = stream(rng, name)
    probe, size = rng.normal(size=(50, 4)), 150
    alone = copy.deepcopy(MODELS[name]).partial_fit(X[:size], y[:size])
    shared = pickle.loads(pickle.dumps(alone))
    known = {answers(name, alone, probe)}
    for i in range(size, 6000, size):
        alone.partial_fit(X[i : i + size], y[i : i + size])
        known.add(answers(name, alone, probe))
    seen, failed, stop = [], [], Event()

    def watch():
        try:
            while not stop.is_set():
                seen.append(answers(name, shared, probe))
                shared.predict_one(probe[0])
                assert shared.diagnostics_["t"] % size == 0
        except BaseException as error:
            failed.append(error)

    watchers = [Thread(target=watch) for _ in range(3)]
    for thread in watchers:
        thread.start()
    for i in range(size, 6000, size):
        shared.partial_fit(X[i : i + size], y[i : i + size])
    stop.set()
    for thread in watchers:
        thread.join()
    assert not failed, failed
    assert seen
    assert set(seen) <= known
    assert answers(name, shared, probe) == answers(name, alone, probe)


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


def test_fit_keeps_the_lock(rng):
    """A call that waited for a fit ran beside calls that came after it."""
    X = rng.normal(size=(300, 3))
    y = X[:, 0]
    model = KernelRegressor(rule=slow_rule()).fit(X[:10], y[:10])
    run((model.fit, X[:60], y[:60]), (model.partial_fit, X[60:160], y[60:160]),
        (model.partial_fit, X[160:260], y[160:260]))  # fmt: skip
    assert model.t_ == 260 and ascending(model)


@pytest.mark.parametrize("make", [lambda: KernelRegressor(rule=slow_rule()),
                                  lambda: Regressor([
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
