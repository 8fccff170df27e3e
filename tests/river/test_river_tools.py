"""The River face in the tools that River's users combine things with."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers.river_streams import Cards
from helpers.sizes import size

pytest.importorskip("river.base", reason="the River face needs River: pip install 'onkel[river]'")

from river import (
    anomaly,
    compose,
    datasets,
    drift,
    ensemble,
    evaluate,
    metrics,
    preprocessing,
    stream,
)
from river.datasets import synth

import onkel
from onkel import losses, rules
from onkel import river as face
from onkel.core.layout import Field

# -- pipelines and evaluation --------------------------------------------------------------------


def friedman(rows, seed=1):
    return synth.Friedman(seed=seed).take(rows)


def test_a_pipeline_in_progressive_validation():
    model = preprocessing.StandardScaler() | face.KernelRegressor(scale=False)
    found = evaluate.progressive_val_score(friedman(1500), model, metrics.MAE() + metrics.R2())
    assert found[1].get() > 0.6
    plain = face.KernelRegressor()
    assert evaluate.progressive_val_score(friedman(1500), plain, metrics.R2()).get() > 0.6


def test_one_hot_unions_and_selections():
    """A new category is a new column, long after the start."""

    def rows(n):
        rng = np.random.default_rng(4)
        for i in range(n):
            x = {"shop": f"s{rng.integers(2 + i // 200)}", "amount": float(rng.normal())}
            yield x, bool(x["amount"] > 0) ^ (x["shop"] in ("s1", "s3", "s5"))

    encode = compose.Select("shop") | preprocessing.OneHotEncoder()
    model = (encode + compose.Select("amount")) | face.KernelClassifier(absent="zero")
    accuracy = evaluate.progressive_val_score(rows(1200), model, metrics.Accuracy())
    assert accuracy.get() > 0.85
    assert len(model["KernelClassifier"].features) == 8  # 7 shops and the amount


def test_many_classes_that_appear_late():
    model = face.KernelClassifier(loss="logistic")
    metric = metrics.Accuracy() + metrics.MacroF1()
    found = evaluate.progressive_val_score(datasets.ImageSegments().take(1000), model, metric)
    assert found[0].get() > 0.75
    x, _ = next(iter(datasets.ImageSegments()))
    chances = model.predict_proba_one(x)
    assert sum(chances.values()) == pytest.approx(1.0)
    assert max(chances, key=chances.get) == model.predict_one(x)
    assert len(chances) == 7


def test_probabilities_are_those_of_the_estimator(rng):
    X = rng.normal(size=(300, 2))
    y = rng.random(300) < 1 / (1 + np.exp(-2 * X[:, 0]))
    plain = onkel.KernelClassifier(loss="logistic").partial_fit(X, y)
    model = face.KernelClassifier(loss="logistic")
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one({"a": row[0], "b": row[1]}, label)
    for row in X[:20]:
        chances = model.predict_proba_one({"a": row[0], "b": row[1]})
        assert list(chances) == [False, True]
        assert chances[True] == pytest.approx(plain.predict_proba([row])[0, 1], rel=1e-9)
    fresh = face.KernelClassifier(loss="logistic")
    assert fresh.predict_proba_one({"a": 1.0}) == {}
    assert fresh.predict_one({"a": 1.0}) is None


def test_labels_come_back_as_they_went_in():
    for labels in ([True, False], ["yes", "no"], [3, 7], ["a", "b", "c"]):
        model = face.KernelClassifier()
        for i in range(40):
            model.learn_one({"x": float(i % len(labels))}, labels[i % len(labels)])
        assert type(model.predict_one({"x": 0.0})) is type(labels[0])
        assert model.predict_one({"x": 0.0}) == labels[0]


def test_frames_through_a_pipeline():
    pd = pytest.importorskip("pandas")
    x, y = zip(*friedman(400), strict=True)
    X, y = pd.DataFrame(list(x)).rename(columns=str), pd.Series([v > 14 for v in y], name="high")
    model = preprocessing.StandardScaler() | face.KernelClassifier(loss="logistic", scale=False)
    for start in range(0, 400, 50):
        model.learn_many(X.iloc[start : start + 50], y.iloc[start : start + 50])
    predicted = model.predict_many(X)
    assert predicted.name == "high"
    assert (predicted == y).mean() > 0.8
    chances = model.predict_proba_many(X)
    assert list(chances.columns) == [False, True]
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert ((chances[True] >= 0.5) == predicted).all()
    fresh = face.KernelClassifier(loss="logistic")
    assert fresh.predict_many(X.head(2)).tolist() == [None, None]
    assert list(fresh.predict_proba_many(X.head(2)).columns) == []


def test_intervals_are_rivers():
    model = face.KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.2))
    inside = 0
    for i, (x, y) in enumerate(friedman(1500)):
        inside += (y in model.predict_one(x, with_interval=True)) and i >= 500
        model.learn_one(x, y)
    assert abs(inside / 1000 - 0.8) < 0.03
    with pytest.raises(ValueError, match="Intervals need a loss whose width follows nu"):
        face.KernelRegressor().predict_one({"a": 1.0}, with_interval=True)


# -- drift detectors, ensembles, filters ---------------------------------------------------------


def turning(rows, seed=0):
    """Two classes whose sides change half-way."""
    rng = np.random.default_rng(seed)
    for i in range(rows):
        a, b = rng.normal(size=2).tolist()
        yield {"a": a, "b": b}, (a * b > 0) ^ (i >= rows // 2)


def test_a_drift_detector_restarts_the_model():
    model = drift.DriftRetrainingClassifier(
        face.KernelClassifier(loss="logistic"), drift.binary.DDM(), train_in_background=False
    )
    accuracy = evaluate.progressive_val_score(turning(2000), model, metrics.Accuracy())
    stays = face.KernelClassifier(loss="logistic")
    alone = evaluate.progressive_val_score(turning(2000), stays, metrics.Accuracy())
    assert model.model.estimator.t_ < 1100  # it was restarted at the turn
    assert accuracy.get() > alone.get() + 0.05


def test_adwin_sees_the_turn():
    model, adwin, alarms = face.KernelClassifier(rule=rules.Norma(memory=500)), drift.ADWIN(), []
    for i, (x, y) in enumerate(turning(3000)):
        adwin.update(int(model.predict_one(x) != y))
        alarms += [i] if adwin.drift_detected and i > 500 else []
        model.learn_one(x, y)
    assert alarms and 1500 < alarms[0] < 1700


def test_ensembles_take_it():
    bag = ensemble.BaggingClassifier(face.KernelClassifier(loss="logistic"), n_models=3, seed=1)
    accuracy = evaluate.progressive_val_score(turning(600), bag, metrics.Accuracy())
    assert accuracy.get() > 0.55


@pytest.mark.parametrize(("how", "rows"), [({}, 10_000), ({"support": 0.1}, 3000)])
def test_scores_are_between_0_and_1_and_rank(how, rows):
    """River's ROCAUC knows thresholds between 0 and 1 only; the fewer terms, the later it ranks."""
    model = face.NoveltyDetector(**how)
    auc = evaluate.progressive_val_score(Cards().take(rows), model, metrics.ROCAUC())
    assert auc.get() > 0.95
    f, c = model.estimator.score_samples, model.estimator._learner.state[0, Field.THRESHOLD]
    examples = [x for x, _ in Cards().take(200)]
    rows = np.array([list(x.values()) for x in examples])
    want = c / (c + f(rows))
    assert np.ptp(want) > 0.3
    got = [model.score_one(x) for x in examples]
    np.testing.assert_allclose(got, want, rtol=1e-9)
    assert model.score_one(dict.fromkeys(examples[0], 50.0)) == pytest.approx(1.0)


def test_alerts_are_those_of_the_estimator_at_the_promised_rate():
    model, alerts = face.NoveltyDetector(nu=0.1), []
    rows = np.array([list(x.values()) for x, _ in Cards().take(3000)])
    want = onkel.NoveltyDetector(nu=0.1).predict_then_learn(rows) == -1
    for x, _ in Cards().take(3000):
        alerts.append(model.alert_one(x))
        assert model.score_one(x) == 0 or len(alerts) > 100
        model.learn_one(x)
    assert not any(alerts[:100])
    assert np.array_equal(alerts[100:], want[100:])
    assert abs(np.mean(alerts) - 0.1) < 0.02


def test_a_detector_that_knows_nothing():
    model = face.NoveltyDetector(warmup=0)
    assert model.score_one({"a": 1.0}) == 0.0
    assert model.alert_one({"a": 1.0}) is False
    average = face.NoveltyDetector(average=True, kernel="linear")
    for x, _ in Cards().take(300):
        average.learn_one(x)
    assert all(0 <= average.score_one(x) <= 1 for x, _ in Cards().take(50))
    with pytest.raises(ValueError, match="warmup must be a whole number"):
        face.NoveltyDetector(warmup=-1)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda d: anomaly.QuantileFilter(d, q=0.95),
        lambda d: anomaly.QuantileFilter(d, q=0.95, protect_anomaly_detector=False),
        lambda d: anomaly.ThresholdFilter(d, threshold=0.8),
    ],
)
def test_filters(wrap):
    model = preprocessing.StandardScaler() | wrap(face.NoveltyDetector(scale=False))
    found, usual = [], []
    for i, (x, odd) in enumerate(Cards().take(3000)):
        alert = model[-1].classify(model.score_one(x))
        if i > 1000:
            (found if odd else usual).append(alert)
        model.learn_one(x)
    assert np.mean(found) > 0.8
    assert np.mean(usual) < 0.1


# -- threads -------------------------------------------------------------------------------------


def test_one_thread_may_learn_while_others_predict():
    """New features all the while: a prediction never meets a row and a model of unlike width."""
    model, troubles, done = face.KernelClassifier(loss="logistic"), [], threading.Event()

    def predict():
        while not done.is_set():
            try:
                model.predict_proba_one({"f0": 1.0, "f3": 2.0})
                model.predict_one({f"f{j}": 1.0 for j in range(12)})
            except Exception as error:
                troubles.append(error)
                return

    watchers = [threading.Thread(target=predict) for _ in range(2)]
    for thread in watchers:
        thread.start()
    rng = np.random.default_rng(0)
    for i in range(600):
        x = {f"f{j}": float(v) for j, v in enumerate(rng.normal(size=1 + i // 50))}
        model.learn_one(x, x["f0"] > 0)
    done.set()
    for thread in watchers:
        thread.join()
    assert not troubles
    assert len(model.features) == 12


def test_an_answer_waits_until_features_have_come():
    """Else it would be given to a model that is about to be replaced."""
    model, row = face.Detector(warmup=20), {"a": 0.0, "b": 0.0}
    rng = np.random.default_rng(0)
    for a, b in rng.normal(size=(100, 2)).tolist():
        model.learn_one({"a": a, "b": b})
    model.learn_one({**row, "a": 30.0})
    answering = threading.Thread(target=model.feedback, args=("100", "usual"))
    with model._lock:  # as learning holds it
        answering.start()
        answering.join(0.1)
        assert answering.is_alive()
    answering.join()
    assert model.estimator.alerts_[-1]["answer"] == "usual"


# -- the same as the scikit-learn face -----------------------------------------------------------


def elec2(load_data):
    data = load_data("elec2")
    names = [str(n) for n in data["feature_names"]]
    rows = size(3000, 45_312, plain=3000)
    return data["X"].astype(float)[:rows], data["y"][:rows] > 0, names


def test_elec2_row_by_row_is_the_scikit_learn_face(load_data):
    """A pipeline that leaves out the date, against the same columns given as rows."""
    X, y, names = elec2(load_data)
    model = compose.Discard("date") | face.KernelClassifier()
    examples = stream.iter_array(X, y, feature_names=names)
    found = evaluate.progressive_val_score(examples, model, metrics.Accuracy())
    plain, right = onkel.KernelClassifier(), 0
    for row, label in zip(np.ascontiguousarray(X[:, 1:]), y.tolist(), strict=True):
        right += plain.predict_one(row) == label
        plain.learn_one(row, label)
    assert found.get() == right / (len(y) - 1)  # River leaves out the row that nobody could tell
    assert found.get() > (0.9 if len(y) > 3000 else 0.8)
    inner = model["KernelClassifier"].estimator
    assert inner.n_terms_ == plain.n_terms_
    np.testing.assert_array_equal(inner._learner.state, plain._learner.state)


def test_elec2_in_blocks_is_the_scikit_learn_face(load_data):
    """Frames of 500 rows through River's scaler, against the same scaled rows as a matrix.

    Without the columns that are constant at first, over which that scaler stumbles.
    """
    pd = pytest.importorskip("pandas")
    X, y, names = elec2(load_data)
    X, names = X[:, 1:5], names[1:5]
    model = preprocessing.StandardScaler() | face.KernelClassifier(scale=False)
    scaler, plain = preprocessing.StandardScaler(), onkel.KernelClassifier(scale=False)
    ours, theirs = [], []
    for start in range(0, len(y), 500):
        part, labels = pd.DataFrame(X[start : start + 500], columns=names), y[start : start + 500]
        if start:
            ours += model.predict_many(part).tolist()
            theirs += plain.predict(scaler.transform_many(part).to_numpy()).tolist()
        model.learn_many(part, pd.Series(labels))
        scaler.learn_many(part)
        plain.partial_fit(scaler.transform_many(part).to_numpy(), labels)
    assert np.mean(ours != y[500:]) < (0.3 if len(y) > 3000 else 0.4)
    assert np.mean(ours != y[500:]) == pytest.approx(np.mean(theirs != y[500:]), abs=5e-5)
