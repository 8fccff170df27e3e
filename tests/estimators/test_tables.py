"""Estimators on tables: categories, times, texts and gaps beside numbers."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import numpy as np
import pytest

import onkel
from onkel import Columns, files
from onkel.columns import Encoded

MODELS = (
    "KernelClassifier", "KernelRegressor", "NoveltyDetector", "LinearClassifier",
    "LinearRegressor", "Classifier", "Regressor", "Detector",
)  # fmt: skip
START = datetime.datetime(2024, 3, 1)
WAYS = ("post", "rail", "ship", "air", "road", "bike", "mule", "foot", "cart")


@pytest.fixture(params=MODELS)
def kind(request: pytest.FixtureRequest) -> Any:
    return getattr(onkel, request.param)


def table(rng: np.random.Generator, n: int = 150) -> tuple[list[dict[str, Any]], Any]:
    """Rows whose target is a rule on a category and a number."""
    rows = [
        {
            "carrier": str(rng.choice(["AA", "UA", "DL"])),
            "minutes": float(rng.normal(100, 10)),
            "ok": bool(rng.random() < 0.8),
            "when": START + datetime.timedelta(minutes=97 * i),
            "note": "sent by " + " ".join(rng.choice(WAYS, 3)),
        }
        for i in range(n)
    ]
    late = [(r["minutes"] > 100) == (r["carrier"] == "AA") for r in rows]
    for i in (7, 40, 41):
        rows[i]["minutes"] = rows[i + 1]["carrier"] = rows[i + 2]["when"] = None
        del rows[i + 3]["note"]
    return rows, np.array(late)


def target(kind: Any, late: Any) -> Any:
    if kind.task == "novelty":
        return None
    return np.where(late, "late", "right") if kind.task == "classification" else late * 10.0


def learned(kind: Any, rows: Any, y: Any, **given: Any) -> tuple[Any, Any]:
    model = kind(**given)
    return model, model.predict_then_learn(rows, y)


def part(y: Any, which: slice) -> Any:
    return None if y is None else y[which]


def bits(model: Any) -> bytes:
    return files.dumps(model)


def test_blocks_are_rows_one_by_one(kind: Any, rng: np.random.Generator) -> None:
    rows, late = table(rng)
    y = target(kind, late)
    whole, expected = learned(kind, rows, y)
    cut = kind()
    found = [
        cut.predict_then_learn(rows[at], part(y, at))
        for at in (slice(0, 1), slice(1, 30), slice(30, 31), slice(31, 150))
    ]
    found = np.concatenate(found)
    if kind.task == "regression":
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    else:
        assert (found == expected).all()
    assert cut.plan_ == whole.plan_
    assert cut.tally_.counts == whole.tally_.counts


def test_learn_one_takes_dicts(kind: Any, rng: np.random.Generator) -> None:
    rows, late = table(rng, 60)
    y = target(kind, late)
    one, many = kind(), kind()
    for i, row in enumerate(rows):
        one.learn_one(row, part(y, i))
        many.partial_fit([row], part(y, slice(i, i + 1)))
    single, block = one.predict_one(rows[3]), many.predict([rows[3]])[0]
    assert single == (pytest.approx(block) if kind.task == "regression" else block)
    assert one.tally_.counts == many.tally_.counts
    if kind is onkel.Regressor:  # single rows of second order agree with blocks to rounding
        np.testing.assert_allclose(one.predict(rows), many.predict(rows), rtol=1e-9, atol=1e-9)
    else:
        assert bits(one) == bits(many)


def test_files_and_pickles_go_on_with_the_same_bits(kind: Any, rng: np.random.Generator) -> None:
    rows, late = table(rng)
    y = target(kind, late)
    model, _ = learned(kind, rows[:100], part(y, slice(0, 100)))
    for other in (files.loads(bits(model)), pickle.loads(pickle.dumps(model))):
        assert bits(other) == bits(model)
        other.partial_fit(rows[100:], part(y, slice(100, 150)))
        again = pickle.loads(pickle.dumps(model)).partial_fit(rows[100:], part(y, slice(100, 150)))
        assert bits(other) == bits(again)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"minutes": "soon"}, "'soon' is not a number"),
        ({"when": "tomorrow"}, "'tomorrow' is not a time"),
        ({"else": 3}, "feature names should match"),
        ({"minutes": np.inf}, "inf is not a number of at most"),
    ],
)
def test_what_does_not_fit_changes_nothing(
    kind: Any, rng: np.random.Generator, change: dict[str, Any], said: str
) -> None:
    rows, late = table(rng, 60)
    y = target(kind, late)
    model, _ = learned(kind, rows, y)
    before = bits(model)
    odd = [rows[0], {**rows[1], **change}]
    for call in (model.partial_fit, model.predict_then_learn):
        with pytest.raises(ValueError, match=said):
            call(odd, part(y, slice(0, 2)))
    with pytest.raises(ValueError, match=said):
        model.learn_one(odd[1], part(y, 1))
    with pytest.raises(ValueError, match=said):
        model.predict(odd)
    assert bits(model) == before


def test_looking_changes_nothing(kind: Any, rng: np.random.Generator) -> None:
    rows, late = table(rng, 60)
    model, _ = learned(kind, rows, target(kind, late))
    before = bits(model)
    new = {"carrier": "ZZ", "minutes": None, "ok": None, "when": None, "note": "unheard words"}
    assert len(model.predict([new, rows[0]])) == 2
    model.predict_one(new)
    model.explain(new)
    assert bits(model) == before


def test_a_fit_forgets_the_columns(kind: Any, rng: np.random.Generator) -> None:
    rows, late = table(rng, 60)
    y = target(kind, late)
    model = kind().fit(rows, y)
    assert model.n_features_in_ == 5
    assert list(model.feature_names_in_) == ["carrier", "minutes", "ok", "when", "note"]
    fewer = [{k: row.get(k) for k in ("carrier", "minutes")} for row in rows]
    assert model.fit(fewer, y).n_features_in_ == 2
    numbers = rng.normal(size=(60, 3))
    assert model.fit(numbers, y).n_features_in_ == 3
    assert model.plan_ is None
    with pytest.raises(ValueError):
        model.partial_fit(rows, y)


def test_types_that_are_given_win(kind: Any, rng: np.random.Generator) -> None:
    rows, late = table(rng, 60)
    y = target(kind, late)
    types = {"ok": "ignore", "note": "category", "minutes": "number"}
    model, expected = learned(kind, rows, y, columns=types)
    kinds = {c.name: c.kind for c in model.plan_.columns}
    assert kinds == {**types, "carrier": "category", "when": "time"}
    same, found = learned(kind, rows, y, columns=Columns(types))
    assert (found == expected).all()
    assert same.plan_ == model.plan_
    numbers = rng.integers(0, 3, size=(60, 2)).astype(float)
    model, _ = learned(kind, numbers, y, columns={"x0": "category"})
    assert [c.kind for c in model.plan_.columns] == ["category", "number"]
    assert len(model.predict(numbers)) == 60
    with pytest.raises(ValueError, match="columns must be None, a dict"):
        kind(columns=3).partial_fit(rows, y)


def test_rows_that_were_encoded_elsewhere(kind: Any, rng: np.random.Generator) -> None:
    rows, late = table(rng, 80)
    y = target(kind, late)
    model, expected = learned(kind, rows, y)
    raw = onkel.columns.table_of(rows)
    encoded = model.plan_.encode(raw)
    assert isinstance(encoded, Encoded)
    other, found = learned(kind, encoded, y)
    assert (found == expected).all()
    assert bits(other) == bits(model)
    strange = Columns({"note": "ignore"}).plan(raw, running=kind.task != "novelty").encode(raw)
    with pytest.raises(ValueError, match="another plan"):
        other.predict(strange)


@pytest.mark.parametrize("name", ["KernelClassifier", "LinearClassifier", "Classifier", "Detector"])
def test_models_that_learned_apart_are_added(name: str, rng: np.random.Generator) -> None:
    kind = getattr(onkel, name)
    rows, late = table(rng, 160)
    y = target(kind, late)
    parts = [kind().partial_fit(rows[at], part(y, at)) for at in (slice(0, 80), slice(80, 160))]
    whole = onkel.merge(parts)
    assert whole.tally_.rows == 160
    assert whole.plan_ == parts[0].plan_
    assert len(whole.predict(rows)) == 160
    other = kind(columns={"ok": "ignore"}).partial_fit(rows, y)
    with pytest.raises(ValueError, match="types of columns"):
        onkel.merge([parts[0], other])


def test_rows_that_are_learned_again_count_once(rng: np.random.Generator) -> None:
    rows, late = table(rng)
    model = onkel.KernelClassifier(passes=3).fit(rows, late)
    assert model.t_ == 3 * len(rows)
    assert model.tally_.rows == len(rows)
    assert f" in {len(rows)} rows" in str(model.explain(rows[0]).features)


def test_rows_of_weight_0_are_only_looked_at(kind: Any, rng: np.random.Generator) -> None:
    rows, late = table(rng)
    y = target(kind, late)
    weight = rng.choice([0.0, 1.0], len(rows))
    weight[:60] = 1.0
    block, single, fewer = kind(), kind(), kind()
    for model in (block, single, fewer):
        model.partial_fit(rows[:60], part(y, slice(60)))
    at = slice(60, None)
    found = block.predict_then_learn(rows[at], part(y, at), sample_weight=weight[at])
    for i in range(60, len(rows)):
        one = slice(i, i + 1)
        said = single.predict_then_learn(rows[one], part(y, one), sample_weight=weight[one])
        assert said[0] == found[i - 60] or said[0] == pytest.approx(found[i - 60])
        if weight[i]:
            fewer.partial_fit(rows[one], part(y, one))
    assert block.tally_.rows == single.tally_.rows == fewer.tally_.rows == weight.sum()
    assert block.tally_.counts == single.tally_.counts == fewer.tally_.counts
    assert bits(fewer) == bits(single)


def test_categories_are_learned_from(rng: np.random.Generator) -> None:
    rows, late = table(rng, 600)
    kind = onkel.Classifier
    y = target(kind, late)
    _, found = learned(kind, rows, y)
    numbers = [{"minutes": r["minutes"] or 100.0} for r in rows]
    _, without = learned(kind, numbers, y, columns={})
    with_them, alone = np.mean(found[300:] != y[300:]), np.mean(without[300:] != y[300:])
    assert with_them < 0.2 < 0.35 < alone


def test_what_is_rare_is_an_alert_and_is_named(rng: np.random.Generator) -> None:
    rows, _ = table(rng, 1500)
    det = onkel.Detector().partial_fit(rows)
    usual = rows[-1]
    assert det.predict([usual])[0] == 1
    for change, words in (
        ({"carrier": "ZZ"}, "carrier ZZ, never seen in 1 500 rows (AA"),
        ({"ok": None}, "ok missing, never seen in 1 500 rows"),
        ({"note": "zebra crossing"}, "note with the rare words 'crossing', 'zebra'"),
    ):
        odd = {**usual, **change}
        assert det.predict([odd])[0] == -1
        assert words in det.explain(odd).sentence
    found = det.explain({**usual, "carrier": "ZZ"}).to_dict()
    assert found["features"][0]["name"] == "carrier"
    assert found["features"][0]["value"] == "ZZ"


def test_times_are_named(rng: np.random.Generator) -> None:
    days = [START + datetime.timedelta(days=int(d)) for d in range(120)]
    times = [
        d + datetime.timedelta(hours=8, minutes=30 * k) for d in days if d.weekday() < 5
        for k in range(20)
    ]  # fmt: skip
    rows = [{"when": t, "x": float(rng.normal())} for t in times]
    det = onkel.Detector().partial_fit(rows)
    sunday = {"when": datetime.datetime(2024, 6, 30, 3), "x": 0.0}
    assert det.predict([sunday])[0] == -1
    said = "when Sunday 03:00 where Monday to Friday 08:00–18:00 was usual"
    assert said in det.explain(sunday).sentence
