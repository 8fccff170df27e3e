"""Many classes that appear in one call: as one after another, at a fraction of the cost."""

from __future__ import annotations

import time

import numpy as np
import pytest
from helpers.sizes import size

from onkel import Classifier, KernelClassifier, LinearClassifier, core, expansions, files, kernels
from onkel.estimators import late

MAKERS = {
    "classifier": Classifier,
    "kernel": KernelClassifier,
    "logistic": lambda: KernelClassifier(loss="logistic"),
    "average": lambda: KernelClassifier(average=True),
    "norm": lambda: KernelClassifier(rule="alma"),
    "divides": lambda: KernelClassifier(rule="projection"),
    "centers": lambda: KernelClassifier(expansion=expansions.Centers(10)),
    "tree": lambda: KernelClassifier(
        kernel=kernels.Additive(kernels.Laplacian()), expansion="tree"
    ),
    "linear": LinearClassifier,
    "p-norm": lambda: LinearClassifier(p=4),
    "narrow": lambda: KernelClassifier(expansion=expansions.Window(40)),
}


OUTPUTS = ["probability", "decision", "prediction"]


def stream(rng, rows=120, classes=30):
    X = rng.normal(size=(rows, 2))
    y = np.minimum(rng.integers(0, classes, size=rows), np.arange(rows) // 2)
    return X, y + 100


@pytest.mark.few
@pytest.mark.parametrize("output", OUTPUTS[: size(1, 3)] if core.has_lane() else OUTPUTS[:1])
@pytest.mark.parametrize("name", MAKERS)
def test_classes_taken_in_together_are_as_one_after_another(rng, monkeypatch, name, output):
    X, y = stream(rng)
    found = []
    for many in (2, 10**9):
        monkeypatch.setattr(late, "MANY", many)
        model = MAKERS[name]().partial_fit(X[:7], y[:7])
        told = model.predict_then_learn(X[7:], y[7:], output=output)
        found.append((model, told))
    (model, told), (other, said) = found
    np.testing.assert_allclose(told, said, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(X), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-8)
    assert model.class_count_ == other.class_count_ and model.t_ == other.t_
    assert model._learner.mistakes == other._learner.mistakes
    assert files.dumps(files.loads(files.dumps(model))) == files.dumps(model)


def test_chunks_are_the_same_however_long(rng, monkeypatch):
    X, y = stream(rng)
    told = []
    for rows in (1024, 32):
        monkeypatch.setattr(late, "MOST", rows)
        told.append(Classifier().predict_then_learn(X, y, output="probability"))
    np.testing.assert_allclose(told[0], told[1], atol=1e-9)


def test_a_refused_row_leaves_no_class_behind(rng):
    X, y = stream(rng)
    model = KernelClassifier("linear", scale=False).partial_fit(X[:7], y[:7])
    before = files.dumps(model)
    X[100] = 1e151
    X[100, 0] = -1e152
    with pytest.raises(ValueError, match="Row 93"):
        model.partial_fit(X[7:], y[7:])
    assert files.dumps(model) == before


@pytest.mark.skipif(not core.has_lane(), reason="of the compiled core: NumPy has its own speed")
def test_as_many_labels_as_rows_take_no_cube_of_the_time(rng):
    def seconds(rows):
        X, begun = rng.normal(size=(rows, 3)), time.process_time()
        Classifier().predict_then_learn(X, np.arange(rows) * 7)
        return time.process_time() - begun

    seconds(50)
    rows = size(500, 2000)
    assert seconds(rows) < size(3, 20)  # one output at a time took 20 seconds, and ten minutes
