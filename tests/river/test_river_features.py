"""Dicts whose features come and go: against dense models on rows filled in by plain loops."""

from __future__ import annotations

import copy
import pickle

import naive
import numpy as np
import pytest
from helpers.river_streams import NAMES, coming_and_going
from helpers.sizes import size

pytest.importorskip("river.base", reason="the River face needs River: pip install 'onkel[river]'")

import onkel
from onkel import expansions, kernels, losses, rules
from onkel import river as face

GAUSSIAN = kernels.Gaussian(0.3)
SLOW = rules.Norma(learning_rate=0.05)
MODELS = {
    "kernel": (face.KernelRegressor, onkel.KernelRegressor, {"kernel": GAUSSIAN}),
    "unscaled": (
        face.KernelRegressor, onkel.KernelRegressor, {"kernel": GAUSSIAN, "scale": False}
    ),
    "forgetting": (
        face.KernelRegressor, onkel.KernelRegressor,
        {"kernel": GAUSSIAN, "rule": rules.Norma(memory=40)},
    ),
    "laplacian": (face.KernelRegressor, onkel.KernelRegressor, {"kernel": kernels.Laplacian(0.2)}),
    "average": (
        face.KernelRegressor, onkel.KernelRegressor, {"kernel": GAUSSIAN, "average": True}
    ),
    "centers": (
        face.KernelRegressor, onkel.KernelRegressor,
        {"kernel": GAUSSIAN, "expansion": expansions.Centers(15), "rule": SLOW},
    ),
    "linear": (face.LinearRegressor, onkel.LinearRegressor, {"rule": SLOW}),
    "classes": (face.KernelClassifier, onkel.KernelClassifier, {"kernel": GAUSSIAN}),
    "logistic": (
        face.LinearClassifier, onkel.LinearClassifier, {"loss": "logistic", "rule": SLOW}
    ),
    "mean": (face.Regressor, onkel.Regressor, {"members": [
        onkel.KernelRegressor(GAUSSIAN), onkel.KernelRegressor(kernels.Laplacian(0.2)),
        onkel.LinearRegressor(rule=SLOW),
    ]}),
    "votes": (face.Classifier, onkel.Classifier, {"members": [
        onkel.KernelClassifier(GAUSSIAN), onkel.KernelClassifier(GAUSSIAN, rule="projection"),
        onkel.LinearClassifier("logistic", SLOW),
    ]}),
}  # fmt: skip
TREE = {"kernel": kernels.Additive(kernels.Exponential()), "expansion": "tree", "rule": SLOW}


LABELLED = ("classes", "logistic", "votes")


def target(name, y):
    return (y > 0).tolist() if name in LABELLED else y.tolist()


def score(model, x):
    """What the model says of one example: a number, whatever it is for."""
    if isinstance(model, face.NoveltyDetector):
        return model.score_one(x)
    if isinstance(model, (face.Classifier, face.KernelClassifier, face.LinearClassifier)):
        row = model._held[1].row(x)
        return float(model.estimator.decision_function([row])[0]) if len(row) else 0.0
    return model.predict_one(x)


def learn(model, x, y):
    model.learn_one(x) if isinstance(model, face.NoveltyDetector) else model.learn_one(x, y)


def same_length_frame(examples):
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(examples, columns=NAMES).astype(float)


@pytest.mark.few
@pytest.mark.parametrize("absent", ["mean", "zero"])
@pytest.mark.parametrize("name", MODELS)
def test_a_dense_model_on_filled_in_rows_says_the_same(rng, name, absent):
    """Also while the moments change: a feature not seen yet is constant, whatever that value."""
    kind, dense_kind, params = MODELS[name]
    examples, y = coming_and_going(rng, size(110, 200))
    memory = 40 if name == "forgetting" else np.inf
    names, rows = naive.filled(examples, absent, memory)
    model, dense, truth = kind(**params, absent=absent), dense_kind(**params), target(name, y)
    output = "decision" if name in LABELLED else "prediction"
    want = dense.predict_then_learn(np.array(rows), truth, output=output)
    for i, (x, t) in enumerate(zip(examples, truth, strict=True)):
        news = naive.known_before(examples[: i + 1])
        if i and news[-1] == news[-2]:  # what a model does not know yet, it leaves out
            assert score(model, x) == pytest.approx(want[i], rel=1e-8, abs=1e-8), i
        learn(model, x, t)
    assert list(model.features) == names
    np.testing.assert_allclose(
        model.estimator._learner.moments.mean, dense._learner.moments.mean, atol=1e-12
    )


@pytest.mark.few
@pytest.mark.parametrize("absent", ["mean", "zero"])
@pytest.mark.parametrize("scale", [True, False])
def test_auto_follows_the_number_of_columns(rng, absent, scale):
    """The naive learner with a width that changes when a feature comes: gamma = 1/d, always."""
    examples, y = coming_and_going(rng, size(70, 120))
    _, rows = naive.filled(examples, absent)
    counts = naive.known_before(examples)
    width = {"d": 1}
    twin = naive.Norma(
        kernel=lambda x, z: np.exp(-np.sum((x - z) ** 2) / width["d"]), loss="squared",
        rate=lambda t: 0.2, lam=0.01, start=0.0, intercept=False, scale=scale, memory=500.0,
        targets_scaled=scale,
    )  # fmt: skip
    rule = rules.Norma(learning_rate=0.2, regularization=0.01)
    model = face.KernelRegressor(
        "gaussian", "squared", rule, scale=scale, fit_intercept=False, absent=absent
    )
    for i, (x, row, t) in enumerate(zip(examples, rows, y.tolist(), strict=True)):
        width["d"] = max(counts[i], 1)
        past = row if absent == "mean" else np.where(np.arange(5) < counts[i], row, 0.0)
        if i:
            assert model.predict_one(x) == pytest.approx(twin.score(past)[0], rel=1e-8, abs=1e-8)
        width["d"] = counts[i + 1]
        twin.learn_one(row, [t])
        model.learn_one(x, t)


@pytest.mark.few
@pytest.mark.parametrize("absent", ["mean", "zero"])
@pytest.mark.parametrize("name", [*MODELS, "tree", "auto", "novelty"])
@pytest.mark.parametrize("block", size([7], [1, 7, 64, 150]))
def test_learn_many_is_learn_one_in_a_loop(rng, name, absent, block):
    special = {
        "tree": (face.KernelRegressor, TREE),
        "auto": (face.KernelRegressor, {}),
        "novelty": (face.NoveltyDetector, {}),
    }
    kind, params = special[name] if name in special else (MODELS[name][0], MODELS[name][2])
    rows = size(90, 150)
    examples, y = coming_and_going(rng, rows)
    truth = target(name, y)
    one, many = kind(**params, absent=absent), kind(**params, absent=absent)
    for x, t in zip(examples, truth, strict=True):
        learn(one, x, t)
    frame = same_length_frame(examples)
    for start in range(0, rows, block):
        part = frame.iloc[start : start + block]
        rest = [] if name == "novelty" else [truth[start : start + block]]
        many.learn_many(part.dropna(axis=1, how="all"), *rest)
    assert set(one.features) == set(many.features)
    assert one.estimator.n_terms_ == many.estimator.n_terms_
    for x in examples[-30:]:
        assert score(many, x) == pytest.approx(score(one, x), rel=1e-8, abs=1e-8)


def test_predictions_of_a_frame_are_those_of_its_rows(rng):
    pl = pytest.importorskip("polars")
    examples, y = coming_and_going(rng, 150)
    frame = same_length_frame(examples)
    frame["unknown"] = 1e6
    frame.index = [f"row {i}" for i in range(150)]
    model = face.KernelRegressor()
    for x, t in zip(examples, y.tolist(), strict=True):
        model.learn_one(x, t)
    want = [model.predict_one(x) for x in examples]
    got = model.predict_many(frame)
    assert list(got.index) == list(frame.index)
    np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-9)
    got = model.predict_many(pl.from_pandas(frame))
    assert isinstance(got, pl.Series)
    np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-9)
    detector = face.NoveltyDetector(warmup=10)
    assert detector.score_many(frame).tolist() == [0.0] * 150
    detector.learn_many(frame)
    want = [detector.score_one({**x, "unknown": 1e6}) for x in examples]
    np.testing.assert_allclose(detector.score_many(frame).to_numpy(), want, rtol=1e-9)


def test_what_absent_means_by_hand():
    mean = face.LinearRegressor(absent="mean")
    zero = face.LinearRegressor(absent="zero")
    for model in (mean, zero):
        for a in (2.0, 4.0, None, float("nan")):
            model.learn_one({"a": a, "b": 1.0}, 0.0)
        model.learn_one({"b": True}, 0.0)
    assert mean._held[1].row({}).tolist() == [3.0, 1.0]
    assert zero._held[1].row({}).tolist() == [0.0, 0.0]
    assert mean.estimator._learner.moments.mean[0] == pytest.approx((2 + 4 + 3 + 3 + 3) / 5)
    assert zero.estimator._learner.moments.mean[0] == pytest.approx((2 + 4) / 5)


def test_order_of_keys_does_not_matter_and_unknown_features_say_nothing(rng):
    model, turned = face.KernelRegressor(), face.KernelRegressor()
    for row in rng.normal(size=(100, 3)).tolist():
        x = dict(zip("pqr", row, strict=True))
        model.learn_one(x, sum(row))
        turned.learn_one(dict(reversed(x.items())), sum(row))
    x = {"p": 0.5, "q": -0.5, "r": 1.0}
    assert model.predict_one(x) == pytest.approx(turned.predict_one(x), rel=1e-9)
    assert model.predict_one({**x, "late": 1e9}) == model.predict_one(x)
    assert list(model.features) == ["p", "q", "r"]


def bits(model):
    return pickle.dumps(model)


BAD = [
    ({"a": "red"}, 1.0, r"Feature 'a' is the text 'red'.*columns=\{'a': 'category'\}"),
    ({"a": 1.0, "new": "x"}, 1.0, "Feature 'new' is the text"),
    ({"a": float("inf"), "b": 1.0}, 1.0, "Feature 'a' is inf"),
    ({"a": 1.0, "new": float("inf")}, 1.0, "Feature 'new' is inf"),
    ({"a": [1.0]}, 1.0, r"Feature 'a' is \[1.0\] \(list\)"),
    ({"a": 1.0, "b": 2.0}, float("nan"), "y contains NaN"),
    ({"a": 1.0, "b": 2.0, "new": 3.0}, float("nan"), "y contains NaN"),
    ({"a": 1.0, "new": 3.0}, "high", "y must be a number; got 'high'"),
    ({"a": 1e200, "b": 1.0}, 1.0, "Rescale"),
]


@pytest.mark.parametrize(("x", "y", "message"), BAD)
def test_a_refused_example_changes_nothing(x, y, message):
    model = face.KernelRegressor()
    for a, b in [(1.0, 2.0), (2.0, 1.0), (0.5, 0.0)]:
        model.learn_one({"a": a, "b": b}, a - b)
    before = bits(model)
    with pytest.raises(ValueError, match=message):
        model.learn_one(x, y)
    assert bits(model) == before
    if any(isinstance(value, str) for value in x.values()):
        return  # what a model that begins with it takes
    fresh = face.KernelRegressor()
    with pytest.raises(ValueError, match=message):
        fresh.learn_one(x, y)
    assert fresh.features == {}


def test_a_refused_block_changes_nothing(rng):
    pd = pytest.importorskip("pandas")
    model = face.KernelClassifier()
    model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series(["p", "q"]))
    before = bits(model)
    late = pd.DataFrame({"a": rng.normal(size=9), "b": [np.nan] * 4 + [1.0] * 5})
    late["c"] = [np.nan] * 7 + [1e200, 1.0]
    with pytest.raises(ValueError, match="Rescale"):
        model.learn_many(late, ["p"] * 9)
    assert bits(model) == before
    with pytest.raises(ValueError, match="Feature 'b' is the text 'x'"):
        model.learn_many(pd.DataFrame({"a": [1.0], "b": ["x"]}), ["p"])
    with pytest.raises(ValueError, match="Feature 'a' is inf"):
        model.learn_many(pd.DataFrame({"a": [np.inf]}), ["p"])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.learn_many(pd.DataFrame({"a": [1.0]}), ["p", "q"])
    assert bits(model) == before
    model.learn_many(late.iloc[:0], [])
    model.learn_many(late.iloc[:3], ["r"] * 3, w=0.0)  # of weight 0: no row, no class, no column
    model.learn_one({"z": 1.0}, "s", w=0.0)
    assert bits(model) == before


def test_a_block_refused_half_way_changes_nothing(rng):
    """The last target is wrong: behind gaps that were filled, and behind a feature that came."""
    pd = pytest.importorskip("pandas")
    model = face.KernelRegressor()
    model.learn_many(pd.DataFrame({"a": rng.normal(size=9)}), rng.normal(size=9))
    before, y = bits(model), [1.0] * 8 + [float("nan")]
    gaps = pd.DataFrame({"a": [1.0, None, 2.0] * 3})
    for X in (gaps, gaps.assign(b=[np.nan] * 5 + [1.0] * 4), gaps.assign(b=1.0)):
        with pytest.raises(ValueError, match="y contains NaN"):
            model.learn_many(X, y)
        assert bits(model) == before
    fresh = face.KernelRegressor()
    with pytest.raises(ValueError, match="y contains NaN"):
        fresh.learn_many(gaps, y)
    assert fresh.features == {} and not fresh._ready


def test_the_first_block_forgets_as_single_examples_do(rng):
    examples = [{"a": float(v)} if i % 3 else {"b": float(v), "a": None} for i, v in
                enumerate(rng.normal(size=60))]  # fmt: skip
    examples[0] = {"a": 1.0, "b": 2.0}
    rule = rules.Norma(memory=3)
    one, many = face.KernelRegressor(rule=rule), face.KernelRegressor(rule=rule)
    for x in examples:
        one.learn_one(x, 1.0)
    pd = pytest.importorskip("pandas")
    many.learn_many(pd.DataFrame(examples), [1.0] * 60)
    np.testing.assert_allclose(many._held[1].fills(), one._held[1].fills(), rtol=1e-12)
    np.testing.assert_allclose(
        many.estimator._learner.moments.mean, one.estimator._learner.moments.mean, rtol=1e-9
    )
    _, rows = naive.filled(examples, "mean", memory=3)
    dense = onkel.KernelRegressor(rule=rule).partial_fit(rows, [1.0] * 60)
    np.testing.assert_allclose(
        dense._learner.moments.mean, one.estimator._learner.moments.mean, rtol=1e-9
    )


def test_no_feature_at_all():
    model = face.KernelRegressor()
    with pytest.raises(ValueError, match="holds no feature at all"):
        model.learn_one({}, 1.0)
    with pytest.raises(ValueError, match="holds no feature at all"):
        model.learn_one({"a": None}, 1.0)
    assert model.predict_one({}) == 0.0
    for a in (1.0, 3.0):
        model.learn_one({"a": a}, a)
    model.learn_one({}, 2.0)  # now it means the mean
    assert model.estimator.t_ == 3
    assert model.predict_one({}) == pytest.approx(model.predict_one({"a": 2.0}))


def test_what_cannot_grow_says_so_and_stays():
    points = expansions.Centers([[0.0, 0.0], [1.0, 1.0]])
    model = face.KernelRegressor(expansion=points)
    model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    before = bits(model)
    with pytest.raises(ValueError, match="the points have 2 features, the rows 3"):
        model.learn_one({"a": 1.0, "b": 2.0, "c": 3.0}, 1.0)
    assert bits(model) == before


def test_predicting_never_changes_a_model(rng):
    examples, y = coming_and_going(rng, 90)
    for model in (face.KernelRegressor(), face.KernelClassifier("gaussian", "logistic")):
        whole = [{n: x.get(n) or 0.0 for n in NAMES} for x in examples]
        for x, t in zip([*examples[:40], *whole], [*y[:40], *y], strict=True):
            model.learn_one(x, float(t) if isinstance(model, face.KernelRegressor) else t > 0)
        before = bits(model)
        for x in [*examples, *whole, {}, {"unknown": 2.0}]:
            model.predict_one(x)
        if isinstance(model, face.KernelClassifier):
            model.predict_proba_one(whole[0])
        model.predict_many(same_length_frame(examples))
        assert bits(model) == before


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_goes_on_with_the_same_bits(rng, how):
    examples, y = coming_and_going(rng, 200)
    model = face.KernelRegressor(loss=losses.Huber(nu=0.1))
    for x, t in zip(examples[:100], y[:100].tolist(), strict=True):
        model.learn_one(x, t)
    twin = how(model)
    for x, t in zip(examples[100:], y[100:].tolist(), strict=True):
        assert twin.predict_one(x) == model.predict_one(x)
        model.learn_one(x, t)
        twin.learn_one(x, t)
    assert bits(twin.estimator._learner.moments) == bits(model.estimator._learner.moments)


def test_weights_are_those_of_the_estimator(rng):
    X, y, w = rng.normal(size=(60, 2)), rng.normal(size=60), rng.uniform(0.5, 2.0, size=60)
    plain = onkel.KernelRegressor().partial_fit(X, y, sample_weight=w)
    model = face.KernelRegressor()
    for row, t, weight in zip(X.tolist(), y.tolist(), w.tolist(), strict=True):
        model.learn_one({"a": row[0], "b": row[1]}, t, w=weight)
    np.testing.assert_allclose(model.estimator.predict(X), plain.predict(X), rtol=1e-9)
    many = face.KernelRegressor()
    pd = pytest.importorskip("pandas")
    many.learn_many(pd.DataFrame(X, columns=["a", "b"]), pd.Series(y), w=pd.Series(w))
    np.testing.assert_allclose(many.estimator.predict(X), plain.predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match="sample_weight"):
        model.learn_one({"a": 1.0, "b": 1.0}, 0.0, w=-1.0)


def test_forgetting_by_the_clock(rng):
    """Times are handed on, in whatever way an example goes; a copy for a new feature keeps them."""
    examples, y = coming_and_going(rng, 120)
    times = np.cumsum(rng.exponential(60.0, size=120))
    params = {"kernel": GAUSSIAN, "rule": rules.Norma(memory="1h"), "scale": False}
    names, rows = naive.filled(examples, "mean")
    dense = onkel.KernelRegressor(**params)
    want = dense.partial_fit(rows, y, time=times)
    one, many = face.KernelRegressor(**params), face.KernelRegressor(**params)
    for x, t, when in zip(examples, y.tolist(), times.tolist(), strict=True):
        one.learn_one(x, t, t=when)
    frame = same_length_frame(examples)
    for start in range(0, 120, 50):
        part = slice(start, start + 50)
        many.learn_many(frame.iloc[part], y[part], t=times[part])
    query = np.array(rows[-20:])
    for model in (one, many):
        order = [names.index(n) for n in model.features]
        got = model.estimator.predict(query[:, order])
        np.testing.assert_allclose(got, want.predict(query), rtol=1e-9)
    with pytest.raises(ValueError, match="give time="):
        one.learn_one(examples[0], 1.0)


def test_the_memory_of_means_is_that_of_the_rule(rng):
    model = face.KernelRegressor(rule=rules.Norma(memory=4))
    values = rng.normal(size=30)
    for v in values.tolist():
        model.learn_one({"a": v, "b": 1.0}, v)
    mean = 0.0
    for n, v in enumerate(values.tolist(), 1):
        mean += (v - mean) / min(n, 4)
    assert model._held[1].row({})[0] == pytest.approx(mean, rel=1e-12)


def test_explanations_name_the_features(rng):
    model = face.NoveltyDetector()
    for row in rng.normal(size=(400, 3)).tolist():
        model.learn_one(dict(zip(("flow", "heat", 3), row, strict=True)))
    why = model.explain_one({"flow": 0.0, "heat": 9.0, 3: 0.0})
    assert why.rank < 0.05
    assert {f.name for f in why.features} == {"flow", "heat", "3"}
    assert why.features[0].name == "heat"
    partly = model.explain_one({"heat": 9.0})
    assert partly.features[0].name == "heat"
