"""Predicting in some threads while another learns: each answer is of a model between two calls."""

from __future__ import annotations

import copy
import pickle
from threading import Event, Thread

import numpy as np
import pytest

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    NoveltyDetector,
    expansions,
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
