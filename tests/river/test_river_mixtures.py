"""The self-tuning models in River: its metrics, ensembles, `debug_one`, with nothing to choose."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.river_streams import messages

pytest.importorskip("river.base", reason="the River face needs River: pip install 'onkel[river]'")

from river import compose, ensemble, evaluate, metrics, preprocessing
from river.datasets import synth

import onkel
from onkel import kernels
from onkel import river as face


def friedman(rows, seed=1):
    return synth.Friedman(seed=seed).take(rows)


def sides(rows, seed=0):
    """Two classes that no line parts, and a little noise in the labels."""
    rng = np.random.default_rng(seed)
    for _ in range(rows):
        a, b = rng.normal(size=2).tolist()
        yield {"a": a, "b": b}, bool((a * b > 0) ^ (rng.random() < 0.05))


def test_metrics_of_probabilities_take_the_default():
    found = evaluate.progressive_val_score(
        sides(1000), face.Classifier(), metrics.ROCAUC() + metrics.LogLoss() + metrics.Accuracy()
    )
    auc, log_loss, accuracy = (metric.get() for metric in found)
    assert auc > 0.85 and accuracy > 0.85
    assert log_loss < 0.5  # chance: 0.69


def test_ensembles_take_the_default():
    bag = ensemble.BaggingClassifier(face.Classifier(), n_models=2, seed=1)
    assert evaluate.progressive_val_score(sides(300), bag, metrics.Accuracy()).get() > 0.7
    bag = ensemble.BaggingRegressor(face.Regressor(), n_models=2, seed=1)
    assert evaluate.progressive_val_score(friedman(200), bag, metrics.R2()).get() > 0.3


def test_debug_one_tells_probabilities():
    model = preprocessing.StandardScaler() | face.Classifier()
    for x, y in sides(300):
        model.learn_one(x, y)
    told = model.debug_one({"a": 2.0, "b": 2.0})
    assert "Classifier" in told and "False: 0." in told and "True: 0." in told
    number = preprocessing.StandardScaler() | face.Regressor()
    for x, y in friedman(50):
        number.learn_one(x, y)
    assert f"{number.predict_one(x):.5f}" in number.debug_one(x)


def test_probabilities_are_those_of_the_estimator():
    model, plain = face.Classifier(), onkel.Classifier()
    assert model.predict_proba_one({"a": 1.0}) == {} and model.predict_one({"a": 1.0}) is None
    for x, y in sides(300):
        model.learn_one(x, y)
        plain.learn_one(np.array([x["a"], x["b"]]), y)
    for x, _ in sides(20, seed=1):
        chances = model.predict_proba_one(x)
        assert list(chances) == [False, True] and sum(chances.values()) == pytest.approx(1.0)
        want = plain.predict_proba([[x["a"], x["b"]]])[0]
        assert list(chances.values()) == pytest.approx(want.tolist(), rel=1e-6)
        assert model.predict_one(x) == max(chances, key=chances.get)


def test_classes_that_appear_late():
    model, right = face.Classifier(), 0
    for i in range(600):
        label = ["a", "b", "c"][i % (2 if i < 200 else 3)]
        x = {"x": float("abc".index(label)), "y": float(i % 7)}
        right += i >= 300 and model.predict_one(x) == label
        model.learn_one(x, label)
    assert right > 270
    chances = model.predict_proba_one({"x": 2.0, "y": 1.0})
    assert sum(chances.values()) == pytest.approx(1.0) and max(chances, key=chances.get) == "c"


def test_the_bank_follows_the_features_that_come():
    """Ten features, one after another: in the end the widths are those of ten."""
    rng, model = np.random.default_rng(0), face.Regressor()
    for i in range(300):
        x = {f"f{j}": float(v) for j, v in enumerate(rng.normal(size=min(1 + i // 20, 10)))}
        model.learn_one(x, x["f0"])
    fresh = onkel.Regressor().partial_fit(np.zeros((1, 10)), [0.0])
    assert repr(model.estimator.members_) == repr(fresh.members_)
    assert model.estimator.t_ == 300 and len(model.features) == 10
    assert sum(model.estimator.weights_) == pytest.approx(1.0)


def test_frames_weights_and_absent_features():
    pd = pytest.importorskip("pandas")
    examples = list(sides(200))
    one, many = face.Classifier(absent="zero"), face.Classifier(absent="zero")
    for i, (x, y) in enumerate(examples):
        one.learn_one({"a": x["a"]} if i % 5 == 4 else x, y, w=0.0 if i % 7 == 3 else 1.0)
    X = pd.DataFrame([{"a": x["a"]} if i % 5 == 4 else x for i, (x, _) in enumerate(examples)])
    weight = [0.0 if i % 7 == 3 else 1.0 for i in range(200)]
    many.learn_many(X, pd.Series([y for _, y in examples], name="side"), w=weight)
    np.testing.assert_allclose(one.estimator.weights_, many.estimator.weights_, rtol=1e-6)
    assert one.estimator.t_ == many.estimator.t_ == sum(w > 0 for w in weight)
    predicted = many.predict_many(X)
    assert predicted.name == "side" and predicted[0] == one.predict_one(examples[0][0])
    chances = many.predict_proba_many(X)
    assert list(chances.columns) == [False, True]
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)


def test_intervals_are_rivers():
    model, inside = face.Regressor(nu=0.2), 0
    for i, (x, y) in enumerate(friedman(900)):
        inside += (y in model.predict_one(x, with_interval=True)) and i >= 300
        model.learn_one(x, y)
    assert abs(inside / 600 - 0.8) < 0.06


def test_members_of_ones_own_and_texts():
    kinds = [onkel.KernelClassifier(kernels.Spectrum(n)) for n in (2, 3)]
    model = face.Classifier(kinds, on="body")
    for text, spam in messages(200):
        model.learn_one({"body": text, "length": len(text)}, spam)
    right = [model.predict_one({"body": text}) == spam for text, spam in messages(100, seed=1)]
    assert np.mean(right) > 0.75
    assert len(model.clone().members) == 2 and model.clone().on == "body"
    with pytest.raises(ValueError, match="on='body' names a text"):
        face.Classifier(on="body")
    with pytest.raises(ValueError, match="members"):
        face.Regressor(members=[])


def test_a_copy_goes_on_with_the_same_bits():
    model = face.Classifier()
    for x, y in sides(150):
        model.learn_one(x, y)
    other = pickle.loads(pickle.dumps(model))
    for x, y in sides(50, seed=2):
        model.learn_one(x, y)
        other.learn_one(x, y)
    assert other.estimator.weights_.tolist() == model.estimator.weights_.tolist()


def test_categories_become_columns_on_the_way():
    rng = np.random.default_rng(4)
    encode = compose.Select("shop") | preprocessing.OneHotEncoder()
    model = (encode + compose.Select("amount")) | face.Classifier(absent="zero")
    right = []
    for i in range(600):
        x = {"shop": f"s{rng.integers(2 + i // 150)}", "amount": float(rng.normal())}
        y = bool(x["amount"] > 0) ^ (x["shop"] in ("s1", "s3"))
        right.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    assert np.mean(right[300:]) > 0.8 and len(model["Classifier"].features) == 6
