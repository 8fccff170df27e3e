"""Why alerts of young keys are such: `explain` says what `predict` and the command say."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.plants import ESTIMATOR, plants
from helpers.sizes import size

from onkel import Fleet
from onkel.explain import RarityExplanation, YoungExplanation, one_in
from onkel.fleet.judging import FleetDetect
from onkel.judge import Rows


def fleet_of(rng, **given):
    """A fleet that knows its keys, and one key more that had a fault in its 31st row."""
    keys, _, X, _ = plants(rng, 60, 150)
    fleet = Fleet(copy.copy(ESTIMATOR).set_params(**given), share=True).partial_fit(keys, X)
    Y = rng.normal(size=(400, 3)) + 3.0
    Y[30::9, 1] += 25.0
    return fleet.partial_fit(["new"] * 31, Y[:31]), Y


def brief(fleet, row):
    """What the command says of a row, which a copy learns."""
    judge = FleetDetect(rarity=True)
    return judge(copy.copy(fleet), ["new"], Rows(np.asarray(row)[None])).columns()["why"][0]


@pytest.mark.parametrize("answer", size(["fault"], [None, "fault", "usual"]))
def test_it_says_what_predict_and_the_command_say(answer, rng):
    fleet, Y = fleet_of(rng)
    if answer is not None:
        assert "30" in {a["id"] for a in fleet["new"].alerts_}
        fleet.feedback("new", "30", answer)
    kinds = set()
    for row in [*Y[31:95], Y[30] * [1.0, 1.02, 1.0]]:
        why, said = fleet.explain("new", row), brief(fleet, row)
        verdict = fleet.predict(["new"], row[None], output="verdict")[0]
        young = verdict[4] < fleet["new"].warmup_
        assert type(why) is (YoungExplanation if young else RarityExplanation)
        assert why.alert == (verdict[2] > 0) == (fleet.predict(["new"], row[None])[0] == -1)
        np.testing.assert_array_equal([why.score, why.threshold], verdict[:2])
        assert why.sentence.startswith("Alert" if why.alert else "No alert")
        assert "warming up" not in why.sentence
        like = why.precedent
        kinds.add((why.alert, like is not None and like.answer))
        if young and why.alert:
            assert why.sentence.endswith(said)
            assert why.cause in ("young", "answered") and why.said == said
        if young and (like is None or not like.decided):
            assert one_in(why.score) in why.sentence
        if like is not None:
            words = {"fault": "a fault", "usual": "usual"}[answer]
            assert f"like alert 30, which was answered as {words}" in why.sentence.lower()
        fleet.partial_fit(["new"], row[None])
    assert (answer != "usual", answer or False) in kinds


def test_a_grown_key_is_explained_by_its_own_model(rng):
    fleet, Y = fleet_of(rng)
    fleet.partial_fit(["new"] * 100, Y[31:131])
    for row in Y[131:150]:
        assert fleet.explain("new", row, 2) == fleet["new"].explain(row, 2)


def test_effects_are_those_of_features_as_they_are_expected(rng):
    """Beside plain loops: of each feature by the formula, and the verdict on that row."""
    fleet, Y = fleet_of(rng)
    usual, number = fleet._store.usual, fleet._keys.number("new")
    n = int(usual.count[number])
    assert n == 31
    for row in Y[31:45]:
        why = fleet.explain("new", row)
        assert [f.effect for f in why.features] == sorted(f.effect for f in why.features)
        for f in why.features:
            j = int(f.name.removeprefix("feature "))
            s = (n * usual.variance[number, j] + 8 * np.exp(usual.within[0, j])) / (n + 8)
            own, prior = n / s, 1 / usual.between[j]
            other = row.copy()
            other[j] = (own * usual.mean[number, j] + prior * usual.center[j]) / (own + prior)
            score = fleet.predict(["new"], other[None], output="score")[0]
            assert f.value == row[j]
            assert why.score - f.effect == pytest.approx(score, abs=1e-9)


def test_gaps_and_the_first_rows_of_all(rng):
    fleet, Y = fleet_of(rng, missing="mean")
    row = np.array([np.nan, 40.0, 3.0])
    why = fleet.explain("new", row)
    verdict = fleet.predict(["new"], row[None], output="verdict")[0]
    assert (why.score, why.alert) == (verdict[0], True) and why.sentence.endswith(brief(fleet, row))
    (gap,) = [f for f in why.features if f.value is None]
    assert gap.name == "feature 0" and gap.effect == 0
    fresh = Fleet(ESTIMATOR, share=True).partial_fit(["a"] * 3, Y[:3])
    assert fresh.explain("a", Y[3]).sentence.startswith("No alert (warming up)")
    assert fresh.predict(["a"], Y[3:4])[0] == 1
    before = [fleet.shared(), fleet.records(["new"])]
    fleet.explain("new", row)
    assert [fleet.shared(), fleet.records(["new"])] == before
    with pytest.raises(ValueError, match="one row"):
        fleet.explain("new", Y[:2])
    with pytest.raises(KeyError):
        fleet.explain("nobody", row)
    # The number of an alert may be 0, as is that of answers of merged models, which name none.
    fleet.partial_fit([*range(1000, 1250)], rng.normal(size=(250, 3)) + 3.0)
    row = np.array([3.0, 400.0, 3.0])
    assert fleet.predict_then_learn(["first"], row[None]).tolist() == [-1]
    fleet.feedback("first", fleet["first"].alerts_[0]["id"], "fault")
    why = fleet.explain("first", row)
    assert why.precedent.id == "0"
    assert "Like alert 0, which was answered as a fault" in why.sentence


def test_it_is_ready_for_json(rng):
    fleet, _ = fleet_of(rng)
    told = fleet.explain("new", [3.0, 60.0, 3.0]).to_dict()
    assert told["cause"] == "young" and told["age"] == 31 and told["named"] == []
    assert told["sentence"].endswith(told["said"]) and told["alert"] is True
