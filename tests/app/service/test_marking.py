"""Whatever a caller wants to know of labels, the page has mistakes to draw: the same ones."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
from onkel import Classifier, KernelClassifier, judge
from onkel.app.service.marking import marked


@pytest.mark.few
@pytest.mark.parametrize("kind", [Classifier, KernelClassifier])
@pytest.mark.parametrize("labels", [2, 3])
def test_mistakes_are_the_same_for_every_output(rng, kind, labels):
    X = rng.normal(size=(400, 2))
    y = np.array(list("abc"))[np.minimum((X[:, 0] > 0) + (labels == 3) * (X[:, 1] > 1), 2)].tolist()
    found = {}
    for output in judge.OUTPUTS["classification"]:
        model = kind()
        model.partial_fit(X[:200], y[:200])
        said = judge.answer(model, X[200:], y[200:], output)
        found[output] = marked(model, said, y[200:]).marks.mark.tolist()
    assert found["probability"] == found["prediction"]
    agree = np.mean(np.array(found["decision"]) == np.array(found["prediction"]))
    assert agree > 0.9  # a link may turn a close decision round
