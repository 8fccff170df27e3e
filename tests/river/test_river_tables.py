"""Dicts and frames of categories, times and texts beside numbers, whose features come and go."""

from __future__ import annotations

import copy
import datetime
import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("river.base", reason="the River face needs River: pip install 'onkel[river]'")

from river import compose, evaluate, metrics, preprocessing

import onkel
from onkel import Columns, kernels
from onkel import river as face
from onkel.columns import Raw

START = datetime.datetime(2024, 3, 1)
MODELS: dict[str, Any] = {
    "Detector": {},
    "NoveltyDetector": {"warmup": 5},
    "KernelClassifier": {},
    "KernelRegressor": {"kernel": kernels.Gaussian(0.1)},
    "LinearClassifier": {"loss": "logistic"},
    "LinearRegressor": {},
    "Classifier": {"members": [onkel.KernelClassifier(), onkel.LinearClassifier("logistic")]},
    "Regressor": {"members": [onkel.KernelRegressor(), onkel.KernelRegressor("gaussian")]},
}


def examples(rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
    """Every kind of feature, some absent, and others that come late."""
    found = []
    for i in range(n):
        x: dict[str, Any] = {
            "shop": str(rng.choice(["north", "south", "east"])),
            "amount": float(rng.normal(5.0)),
            "when": START + datetime.timedelta(hours=7 * i),
            "paid": bool(rng.random() < 0.5),
            "note": f"sent by van number {rng.integers(9)}",
        }
        if i % 5 == 4:
            del x["amount"]
        if i % 7 == 6:
            x["shop"] = None
        if i > 15 and i % 3:
            x["weight"] = float(i)
        if i > 20:
            x["colour"] = str(rng.choice(["red", "blue"]))
        if i > 25 and i % 2:
            x["due"] = datetime.date(2024, 5, 1 + i % 20)
        found.append(x)
    return found


def made(name: str, **params: Any) -> Any:
    return getattr(face, name)(**MODELS[name], **params)


def target(name: str, x: dict[str, Any]) -> Any:
    wanted = x.get("shop") == "north"
    return (wanted if "Classifier" in name else float(wanted),) if "Detector" not in name else ()


def learn(model: Any, x: dict[str, Any]) -> None:
    model.learn_one(x, *target(type(model).__name__, x))


def said(model: Any, x: dict[str, Any]) -> float:
    name = type(model).__name__
    if "Detector" in name:
        return float(model.score_one(x))
    found = model.predict_proba_one(x) if "Classifier" in name else {True: model.predict_one(x)}
    return float(found.get(True, 0.0))


def bits(model: Any) -> bytes:
    return pickle.dumps(model)


def frame(rows: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("pandas").DataFrame(rows)


@pytest.mark.parametrize("name", MODELS)
def test_an_example_is_the_row_that_its_plan_makes(rng: np.random.Generator, name: str) -> None:
    """Against the estimator inside, which is given rows that the plan encodes as a table."""
    rows = [{k: x.get(k) for k in ("shop", "amount", "when", "paid", "note")}
            for x in examples(rng, 40)]  # fmt: skip
    model = made(name)
    for x in rows:
        learn(model, x)
    plan = model.estimator.plan_
    assert {c.name: c.kind for c in plan.columns} == {
        "shop": "category", "amount": "number", "when": "time", "paid": "boolean", "note": "text",
    }  # fmt: skip
    table = plan.encode(Raw(plan.names, [[x[n] for x in rows] for n in plan.names], len(rows)))
    other = type(model.estimator)(**model.estimator.get_params(deep=False))
    rest = [[target(name, x)[0] for x in rows]] if target(name, rows[0]) else []
    other.partial_fit(table, *rest)
    ask = "score_samples" if "Detector" in name else (
        "decision_function" if "Classifier" in name else "predict")  # fmt: skip
    last = table[-5:None]
    np.testing.assert_allclose(
        getattr(model.estimator, ask)(last), getattr(other, ask)(last), rtol=1e-6, atol=1e-9
    )
    assert model.estimator.tally_.counts == other.tally_.counts


@pytest.mark.few
@pytest.mark.parametrize("absent", ["mean", "zero"])
@pytest.mark.parametrize("name", MODELS)
def test_learn_many_is_learn_one_in_a_loop(
    rng: np.random.Generator, name: str, absent: str
) -> None:
    rows = examples(rng, 60)
    one, many = made(name, absent=absent), made(name, absent=absent)
    for x in rows:
        learn(one, x)
    table = frame(rows)
    for start, stop in ((0, 1), (1, 12), (12, 60)):  # the first row tells the kinds
        part = rows[start:stop]
        rest = [[target(name, x)[0] for x in part]] if target(name, rows[0]) else []
        many.learn_many(table.iloc[start:stop], *rest)
    assert one.estimator.plan_ == many.estimator.plan_
    assert one.estimator.t_ == many.estimator.t_ == 60
    for x in rows[-5:]:
        assert said(many, x) == pytest.approx(said(one, x), rel=1e-6, abs=1e-9)
    found = (many.score_many if "Detector" in name else many.predict_many)(table.tail(5))
    assert len(found) == 5


def test_numbers_alone_are_what_they_were(rng: np.random.Generator) -> None:
    plain = face.KernelRegressor()
    for a, b in rng.normal(size=(50, 2)).tolist():
        plain.learn_one({"a": a, "b": b > 0}, a)
    assert plain.estimator.plan_ is None
    assert plain.features == {"a": 0, "b": 1}
    before = bits(plain)
    for x in ({"a": "red", "b": True}, {"a": 1.0, "b": False, "new": "red"}):
        with pytest.raises(ValueError, match=r"began with numbers alone.*columns=\{'"):
            plain.learn_one(x, 1.0)
    assert bits(plain) == before


def test_a_late_number_had_its_first_value_all_along(rng: np.random.Generator) -> None:
    params: dict[str, Any] = {"kernel": kernels.Gaussian(0.3), "scale": False}
    model, whole = face.KernelRegressor(**params), face.KernelRegressor(**params)
    late = rng.normal(3.0, size=60).tolist()
    late[:30] = [late[30]] * 30
    for i in range(60):
        x = {"shop": str(rng.choice(["a", "b"])), "amount": float(rng.normal())}
        full = {**x, "late": late[i]}
        model.learn_one(full if i >= 30 else x, x["amount"])
        whole.learn_one(full, x["amount"])
        if i >= 30:
            assert model.predict_one(full) == pytest.approx(whole.predict_one(full), rel=1e-9)
    assert model.estimator.plan_ == whole.estimator.plan_


def test_what_comes_late(rng: np.random.Generator) -> None:
    model = face.Detector()
    for x in examples(rng, 40):
        model.learn_one(x)
    plan = model.estimator.plan_
    found = {c.name: c.kind for c in plan.columns}
    assert (found["weight"], found["colour"], found["due"]) == ("number", "late", "late")
    assert plan.outputs[-1] == "weight"
    tally = model.estimator.tally_
    assert tally.seen("(others)", "") == 21
    assert sum(n for code, n in tally.counts["(others)"].items() if code) == 19
    assert any("due=Wednesday 00:00" in text for text in tally.names["(others)"].values())
    model.learn_one({"colour": 7, "shop": 3, "size": "L"})  # numbers where words were
    tally = model.estimator.tally_
    assert tally.seen("(others)", "colour=7, size=L") == tally.seen("shop", "3") == 1
    before = bits(model)
    model.score_one({"colour": "green", "unheard": "of", "unseen": 1.0})
    assert bits(model) == before


def test_late_words_do_not_hang_on_the_order_of_names() -> None:
    one, other = face.Detector(), face.Detector()
    for model, order in ((one, ("a", "b")), (other, ("b", "a"))):
        model.learn_one({"shop": "north"})
        model.learn_one({"shop": "north", **{n: f"{n} x" for n in order}})
        assert model.estimator.tally_.seen("(others)", "a=a x, b=b x") == 1


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"amount": "much"}, r"column 'amount'.*columns=Columns\(\{'amount': 'category'\}\)"),
        ({"when": "some day"}, "column 'when'.*is not a time"),
        ({"new": [1.0]}, r"Feature 'new' is \[1.0\] \(list\)"),
        ({"new": float("inf"), "newer": "red"}, "Feature 'new' is inf"),
        ({"amount": float("inf")}, "column 'amount': inf is not a number of at most"),
        ({1: 1.0, "1": 2.0}, "the same name as a text"),
    ],
)
def test_a_refused_example_changes_nothing(
    rng: np.random.Generator, x: dict[Any, Any], message: str
) -> None:
    model = face.KernelRegressor()
    for row in examples(rng, 10):
        model.learn_one(row, 1.0)
    before = bits(model)
    with pytest.raises(ValueError, match=message):
        model.learn_one(x, 1.0)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.learn_one({"shop": "north", "late": 1.0, "later": "x"}, float("nan"))
    assert bits(model) == before


def test_a_block_refused_half_way_changes_nothing(rng: np.random.Generator) -> None:
    rows = examples(rng, 50)
    model = face.KernelRegressor()
    model.learn_many(frame(rows[:10]), [1.0] * 10)
    before = bits(model)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.learn_many(frame(rows[10:]), [1.0] * 39 + [float("nan")])
    assert bits(model) == before


def test_columns_say_what_features_are(rng: np.random.Generator) -> None:
    types = {"code": "category", "id": "ignore", "gate": "category", "note": "category"}
    model = face.Detector(columns=types)
    model.learn_one({"code": 7, "amount": 1.5, "id": "x1", "note": "many words in one value"})
    model.learn_one({"code": 7, "amount": 1.5, "id": "x2", "gate": "A3"})
    found = {c.name: c.kind for c in model.estimator.plan_.columns}
    assert found == {**types, "amount": "number"}
    tally = model.estimator.tally_
    assert tally.seen("code", "7") == 2
    assert tally.seen("gate", "A3") == 1
    numbers = face.Detector(columns=Columns())
    numbers.learn_one({"amount": 1.5})
    numbers.learn_one({"amount": 1.5, "word": "late"})  # where it was said that there is a table
    assert numbers.estimator.tally_.seen("(others)", "word=late") == 1
    with pytest.raises(ValueError, match="columns must be None, a dict"):
        face.Detector(columns="category")


def test_absent_is_missing_or_zero() -> None:
    for absent, wanted in (("mean", 2.0), ("zero", 0.8)):
        model = face.KernelRegressor(kernels.Gaussian(1.0), scale=False, absent=absent)
        for amount in (1.0, 3.0, None, float("nan")):
            model.learn_one({"shop": "north", "amount": amount}, 1.0)
        model.learn_one({"shop": "north"}, 1.0)
        gaps = model.estimator.tally_.seen("gaps", "amount")
        assert gaps == (3 if absent == "mean" else 0)
        assert float(model.estimator.moments_.mean[-1]) == pytest.approx(wanted)


def test_names_that_are_no_texts() -> None:
    model = face.Detector()
    for i in range(5):
        model.learn_one({1: "a", ("b", 2): float(i)})
    assert list(model.features) == ["1", "('b', 2)"]
    model.score_one({1: "a", ("b", 2): 1.0, "more": 1.0})
    model.learn_many(frame([{1: "a", "('b', 2)": 1.0}]))
    assert model.estimator.t_ == 6
    assert len(model.features) == 2


@pytest.mark.parametrize("name", MODELS)
def test_copies_pipelines_and_explanations(rng: np.random.Generator, name: str) -> None:
    rows = examples(rng, 40)
    model = made(name)
    assert model.clone().columns is None
    for x in rows[:30]:
        said(model, x)  # before anything is known, too
        learn(model, x)
    twins = [copy.deepcopy(model), pickle.loads(bits(model))]
    for x in rows[30:]:
        for m in (model, *twins):
            learn(m, x)
    assert {said(m, rows[0]) for m in (model, *twins)} == {said(model, rows[0])}
    found = model.explain_one({**rows[-1], "shop": "west"})
    told = next(f.said for f in found.features if f.name == "shop")
    assert told.startswith("shop west, never seen in 40 rows")
    assert not model.clone().features


def test_in_a_pipeline_beside_one_hot() -> None:
    rng = np.random.default_rng(4)

    def rows(n: int) -> Any:
        for _ in range(n):
            x = {"shop": f"s{rng.integers(6)}", "amount": float(rng.normal())}
            yield x, bool(x["amount"] > 0) ^ (x["shop"] in ("s1", "s3", "s5"))

    stream = list(rows(600))
    encode = compose.Select("shop") | preprocessing.OneHotEncoder()
    coded = (encode + compose.Select("amount")) | face.KernelClassifier(absent="zero")
    plain = face.KernelClassifier()
    found = [
        evaluate.progressive_val_score(stream, m, metrics.Accuracy()).get() for m in (plain, coded)
    ]
    assert found[0] > 0.75
    assert found[0] > found[1] - 0.1


def test_frames_of_any_library(rng: np.random.Generator) -> None:
    rows = [{k: v for k, v in x.items() if k not in ("due", "when")} for x in examples(rng, 30)]
    pl = pytest.importorskip("polars")
    table = frame(rows)
    one, other = face.Detector(), face.Detector()
    one.learn_many(table)
    other.learn_many(pl.DataFrame(rows, infer_schema_length=None))
    assert one.estimator.plan_ == other.estimator.plan_
    found = other.score_many(pl.DataFrame(rows, infer_schema_length=None))
    assert isinstance(found, pl.Series)
    np.testing.assert_allclose(found.to_numpy(), one.score_many(table).to_numpy(), rtol=1e-9)
    assert face.Detector().score_many(table).tolist() == [0.0] * 30


@pytest.mark.parametrize("answer", ["usual", "fault"])
def test_an_answer_is_about_a_value_also_where_features_come_later(rng, answer):
    model = face.Detector(columns={"kind": "category"})
    for _ in range(900):
        model.learn_one({"kind": str(rng.choice(list("xyz"))), "a": float(rng.normal())})
    model.learn_one({"kind": "never", "a": 0.1})
    assert model.estimator.alerts_[-1]["id"] == "900"
    model.feedback("900", answer)
    for late in ({}, {"colour": "red"}):
        marks = [model.alert_one({"kind": k, "a": 0.1, **late}) for k in ("never", "another")]
        assert marks == [answer == "fault", True]
        for _ in range(40):
            x = {"kind": str(rng.choice(list("xyz"))), "a": float(rng.normal()), "colour": "red"}
            model.learn_one(x)
    other = {"kind": "other", "a": 0.1, "colour": "red"}
    model.learn_one(other)
    assert model.estimator.alerts_[-1]["id"] == "981" and model.alert_one(other)
    model.feedback("981", "usual")
    assert not model.alert_one(other) and model.alert_one({**other, "kind": "third"})
