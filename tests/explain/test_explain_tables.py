"""Explanations of rows of a table: effects of codes against plain loops, and the words."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pytest

import onkel
from onkel import kernels
from onkel.columns import tally


def table(rng: np.random.Generator, n: int = 200) -> tuple[list[dict[str, Any]], np.ndarray]:
    rows = [
        {
            "colour": str(rng.choice(["red", "green", "blue"])),
            "size": float(rng.normal()),
            "note": " ".join(rng.choice(["big", "small", "old", "new"], 2)) + " thing here",
            "when": datetime.datetime(2024, 5, 1) + datetime.timedelta(hours=5 * i),
        }
        for i in range(n)
    ]
    return rows, np.array([(r["size"] > 0) == (r["colour"] == "red") for r in rows])


@pytest.mark.parametrize("kernel", [kernels.Gaussian(0.3), kernels.Laplacian(0.2)])
def test_effects_are_those_of_plain_loops(rng: np.random.Generator, kernel: Any) -> None:
    rows, y = table(rng)
    model = onkel.KernelClassifier(kernel).partial_fit(rows[:-1], y[:-1])
    found = model.explain(rows[-1])
    learner, plan = model._fitted(), model.plan_
    frame = learner.frame
    x = frame.z(frame.store(model._rows([rows[-1]])[0]))
    terms, (a, base) = learner.stored().z, learner.coefficients()
    apart = list(plan.apart)

    def score(left_out: str) -> float:
        total = float(base[0])
        for z, coef in zip(terms, a[:, 0], strict=True):
            far = 0.0
            for j, owner in enumerate(plan.owners):
                if owner == left_out:
                    continue
                gap = abs(x[j] - z[j])
                if j < len(apart):
                    far += apart[j] * (gap != 0)
                else:
                    far += gap**2 if isinstance(kernel, kernels.Gaussian) else gap
            total += float(coef) * math.exp(-kernel.gamma * far)
        return total

    sign = math.copysign(1.0, score(""))
    assert found.score == pytest.approx(abs(score("")), rel=1e-6)
    effects = {feature.name: feature.effect for feature in found.features}
    assert set(effects) == {"colour", "size", "note", "when", "gaps"}
    for name in effects:
        expected = sign * (score("") - score(name))
        assert effects[name] == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        onkel.KernelClassifier("linear"), onkel.KernelClassifier(kernels.Polynomial(2)),
        onkel.LinearClassifier(), onkel.Classifier(), onkel.KernelRegressor(), onkel.Regressor(),
    ],
    ids=lambda model: repr(model)[:30],
)  # fmt: skip
def test_every_model_says_what_the_columns_did(rng: np.random.Generator, model: Any) -> None:
    rows, y = table(rng)
    model.partial_fit(rows, y if model.task == "classification" else y * 1.0)
    found = model.explain({**rows[-1], "colour": "violet"})
    assert {feature.name for feature in found.features} == {*rows[0], "gaps"}
    words = {feature.name: feature.in_words() for feature in found.features}
    assert words["colour"].startswith("colour violet, never seen in 200 rows (")
    assert found.to_dict()["sentence"]
    for term in found.terms:
        assert term.values[0] in ("red", "green", "blue")
        assert isinstance(term.values[1], float)
        assert "thing" in term.values[2]
        assert term.values[3].split()[0].endswith("day")


def test_additive_effects_of_a_linear_kernel_add_up(rng: np.random.Generator) -> None:
    rows, y = table(rng)
    model = onkel.KernelClassifier("linear").partial_fit(rows, y)
    found = model.explain(rows[3])
    total = found.base + sum(feature.part for feature in found.features)
    assert found.score == pytest.approx(abs(total), rel=1e-6)


@pytest.mark.parametrize("model", [onkel.LinearRegressor(), onkel.LinearRegressor(average=True)])
def test_a_linear_model_compares_with_what_was_typical(
    rng: np.random.Generator, model: Any
) -> None:
    """Had a column been as in the rows so far, on average: the mean over all of them."""
    rows, y = table(rng)
    for row in rows[:20]:
        row["size"] = None
    model.partial_fit(rows, y * 1.0)
    row = {**rows[30], "colour": "red"}
    found = {feature.name: feature.effect for feature in model.explain(row).features}
    whole = model.predict([row])[0]
    for name in ("colour", "note"):
        others = model.predict([{**row, name: other[name]} for other in rows])
        assert found[name] == pytest.approx(whole - others.mean(), rel=1e-6, abs=1e-9)
    gap = {**row, "size": None}
    filled = model._fitted().filled(model._rows([gap]))[0, model.plan_.outputs.index("size")]
    there, lacking = model.predict([{**row, "size": float(filled)}, gap])
    assert found["gaps"] == pytest.approx(20 / len(rows) * (there - lacking), rel=1e-6, abs=1e-9)


def test_what_was_always_so_did_nothing(rng: np.random.Generator) -> None:
    rows, y = table(rng)
    rows = [{**row, "always": "so"} for row in rows]
    for kind in (onkel.LinearRegressor, onkel.KernelRegressor, onkel.Regressor):
        found = kind().partial_fit(rows, y * 1.0).explain(rows[-1])
        effects = {feature.name: feature.effect for feature in found.features}
        assert abs(effects["always"]) < 1e-9
        assert abs(effects["gaps"]) < 1e-9


def test_how_often_a_value_came_is_told_as_far_as_it_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Old rows count less, and of very many values the rarest are left out."""
    rows = [{"who": "often" if i % 4 else f"user {i}", "x": float(i % 7)} for i in range(4096)]
    monkeypatch.setattr(tally, "HORIZON", 3000)
    det = onkel.Detector(columns={"who": "category"}).partial_fit(rows)
    assert det.tally_.rows < len(rows)

    def said(who: str) -> str:
        features = det.explain({"who": who, "x": 1.0}).features
        return next(f.in_words() for f in features if f.name == "who")

    assert ", seen once in 2 5" in said("user 4")
    assert ", never seen in 2 5" in said("nobody")
    monkeypatch.setattr(tally, "KEPT", 100)
    det.partial_fit([{"who": f"new {i}", "x": 1.0} for i in range(1024)])
    assert len(det.tally_.counts["who"]) == 100
    assert ", hardly ever seen in " in said("nobody")


def test_a_usual_time_is_not_set_against_the_usual_ones(rng: np.random.Generator) -> None:
    start = datetime.datetime(2024, 1, 1, 8)
    times = [start + datetime.timedelta(days=d, hours=h) for d in range(60) for h in range(10)]
    rows = [{"when": t, "x": float(rng.normal())} for t in times if t.weekday() < 5]
    model = onkel.NoveltyDetector().partial_fit(rows)
    said = [str(model.explain({"when": f"2024-02-2{d}T09:30", "x": 0.1})) for d in (8, 5)]
    assert "when" not in said[0]
    assert "when Sunday 09:30 where Monday to Friday 08:00–18:00 was usual" in said[1]


@pytest.mark.parametrize(("share", "rare"), [(0.4, False), (0.06, False), (0.03, True)])
def test_a_missing_time_is_a_reason_only_where_that_is_rare(
    rng: np.random.Generator, share: float, rare: bool
) -> None:
    gone = rng.permutation(300) < 300 * share
    when = datetime.datetime(2024, 5, 1)
    rows = [
        {"a": float(rng.normal()), "b": float(rng.normal()),
         "when": None if gap else when + datetime.timedelta(hours=i)}
        for i, gap in enumerate(gone.tolist())
    ]  # fmt: skip
    model = onkel.Detector(missing="mean").partial_fit(rows)
    why = model.explain([{"a": 4.5, "b": 4.5, "when": None}])
    (told,) = [feature for feature in why.features if feature.name == "when"]
    assert bool(gone.mean() < 0.05) == rare == told.outside and told.said == "when missing"
    assert rare or "when missing" not in str(why)


def test_a_text_without_words_is_said_to_be_so(rng: np.random.Generator) -> None:
    rows, _ = table(rng, 400)
    det = onkel.Detector(columns={"note": "text"}).partial_fit(rows)
    found = det.explain({**rows[-1], "note": ""})
    assert "note without a word, never seen in 400 rows" in found.sentence


def test_a_row_of_a_block_has_its_own_words(rng: np.random.Generator) -> None:
    rows, _ = table(rng, 300)
    model = onkel.Detector(columns={"note": "text"}).partial_fit(rows)
    odd = [{**rows[-1], "note": "zebra crossing"}, {**rows[-1], "note": "quantum flux"}]
    block = model.plan_.encode(onkel.columns.table_of(odd))
    for row, alone in zip((block[0], block[1]), odd, strict=True):
        assert model.explain(row).sentence == model.explain(alone).sentence
    assert "zebra" in model.explain(block[0]).sentence
    assert "zebra" not in model.explain(block[1]).sentence
