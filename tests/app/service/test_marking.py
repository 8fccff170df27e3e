"""Whatever a caller wants to know of rows, the page has something to draw; ranks are as ever."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
from onkel import Classifier, Detector, KernelClassifier, NoveltyDetector
from onkel.app.service.marking import answer
from onkel.judge import OUTPUTS


@pytest.mark.parametrize("kind", [Detector, NoveltyDetector])
@pytest.mark.parametrize("weighted", [False, True])
def test_ranks_are_those_of_the_model(rng, kind, weighted):
    X = rng.normal(size=(900, 2))
    weight = (rng.random(900) < 0.7).astype(float) if weighted and kind is NoveltyDetector else None
    mine, twin = kind(recent=50), kind(recent=50)
    for part in np.split(np.arange(900), [1, 40, 500]):
        how = {} if weight is None else {"sample_weight": weight[part]}
        found = answer(mine, X[part], None, "rank", how)
        truth = twin.predict_then_learn(X[part], output="rank", **how)
        np.testing.assert_allclose(found.values, truth)
        assert len(found.marks.value) == len(found.marks.mark) == len(part)
    assert mine.threshold_ == twin.threshold_


@pytest.mark.parametrize("kind", [Classifier, KernelClassifier])
@pytest.mark.parametrize("labels", [2, 3])
def test_mistakes_are_the_same_for_every_output(rng, kind, labels):
    X = rng.normal(size=(400, 2))
    y = np.array(list("abc"))[np.minimum((X[:, 0] > 0) + (labels == 3) * (X[:, 1] > 1), 2)].tolist()
    found = {}
    for output in OUTPUTS["classification"]:
        model = kind()
        answer(model, X[:200], y[:200], output, {})
        found[output] = answer(model, X[200:], y[200:], output, {}).marks.mark.tolist()
    assert found["probability"] == found["prediction"]
    agree = np.mean(np.array(found["decision"]) == np.array(found["prediction"]))
    assert agree > 0.9  # a link may turn a close decision round
