"""Predict-then-learn scoring, and the one-row calls beside the block calls."""

from __future__ import annotations

import numpy as np

from onkel import KernelClassifier, KernelRegressor, NoveltyDetector, evaluate


def test_progressive_scores_each_prediction_before_its_row(rng, capsys):
    X = rng.normal(size=(250, 2))
    y = X[:, 0] > 0
    result = evaluate.progressive(KernelClassifier(), X, y, block=60, progress=True)
    twin = KernelClassifier()
    wrong = [twin.predict_then_learn(X[i : i + 1], y[i : i + 1])[0] != y[i] for i in range(250)]
    assert result.errors.tolist() == [float(w) for w in wrong]
    assert result.error == np.mean(wrong)
    assert np.isclose(result.curve[-1], result.error)
    assert result.rate > 0
    assert "250 of 250 examples" in capsys.readouterr().err


def test_progressive_for_numbers_frames_and_detectors(rng):
    import pytest

    pd = pytest.importorskip("pandas")
    X = rng.normal(size=(120, 2))
    numbers = evaluate.progressive(KernelRegressor(), pd.DataFrame(X), X[:, 0], block=50)
    assert np.allclose(numbers.errors, np.abs(numbers.predictions - X[:, 0]))
    alerts = evaluate.progressive(NoveltyDetector(nu=0.2), X)
    assert alerts.error == evaluate.alert_rate(alerts.predictions)
    assert np.isnan(evaluate.progressive(NoveltyDetector(), X[:0]).error)


def test_one_row_calls_equal_block_calls(rng):
    X = rng.normal(size=(80, 2))
    det, block = NoveltyDetector(), NoveltyDetector()
    assert (det.predict_one(X[0]), det.score_one(X[0])) == (1, 0.0)
    assert KernelRegressor().predict_one(X[0]) == 0.0
    scores = block.predict_then_learn(X, output="score")
    for x, score in zip(X, scores, strict=True):
        assert np.isclose(det.score_one(x), score, atol=1e-12)
        det.learn_one(x)
    assert det.predict_one([9.0, 9.0]) == block.predict([[9.0, 9.0]])[0]
