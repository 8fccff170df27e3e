"""Reasons of rows that are like an alert that was answered: which one, truly, for any cuts."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.reasons import all_true
from helpers.sizes import size

from onkel import Detector, Fleet, merge
from onkel.columns import raw_of
from onkel.fleet.judging import FleetDetect
from onkel.judge import Rows, judge_of

SETTINGS = {"nu": 0.02, "warmup": 100, "terms": 200}
EVERY = float("inf")


def valve(rng, rows):
    """Rows of which one in forty has a second kind, that lies a little out, and one of a third."""
    X = rng.normal(size=(rows, 3))
    X[300::40] = [2.6, -2.6, 0.0] + 0.1 * rng.normal(size=(len(X[300::40]), 3))
    X[310::40] = [0.0, 9.0, 0.0] + 0.3 * rng.normal(size=(len(X[310::40]), 3))
    return X


def watched(rng, **more):
    X = valve(rng, size(1900, 2500))
    model = Detector(**SETTINGS, **more).partial_fit(X[:600])
    rows = {int(a["id"]) for a in model.alerts_}
    model.feedback(max(i for i in rows if i % 40 == 30), "usual")
    model.feedback(max(i for i in rows if i % 40 == 20), "fault")
    return model, X[600:]


def told(model, X, cuts, explain):
    judge, found, start, turn = judge_of(model, ["a", "b", "c"], explain, brief=True), [], 0, 0
    while start < len(X):
        part = X[start : start + cuts[turn % len(cuts)]]
        found += judge(model, Rows(part)).columns()["why"]
        start, turn = start + len(part), turn + 1
    return found


@pytest.mark.parametrize("explain", [EVERY, 0])
def test_each_reason_says_what_the_model_knows_of_its_row(rng, explain):
    model, X = watched(rng)
    twin, found, only, more = copy.copy(model), told(model, X, [len(X)], explain), 0, 0
    all_true(w for w in found if w)
    for x, words in zip(X, found, strict=True):
        why = twin.explain(x)
        assert (words is not None) == why.alert
        like = why.precedent
        if not why.alert:
            if like is not None:  # it would have been an alert
                assert like.answer == "usual" and like.decided and like.score < why.threshold
                assert f"like alert {like.id}, which was answered as usual" in why.sentence
            twin.learn_one(x)
            continue
        assert ("answered" in words) == (like is not None)
        if like is not None:
            assert f"ike alert {like.id}, which was answered as a fault" in words
            assert like.answer == "fault" and like.decided == (like.score >= why.threshold)
            assert (why.cause == "answered") == like.decided
            only, more = only + like.decided, more + (not like.decided)
            phrase = "had nothing been answered" if explain else "no alert without that"
            assert (phrase in words) == like.decided
        twin.learn_one(x)
    assert only > 3 and more > 0


@pytest.mark.parametrize("explain", size([5], [EVERY, 5, 0]))
def test_cuts_do_not_matter(rng, explain):
    model, X = watched(rng)
    whole = told(copy.copy(model), X, [len(X)], explain)
    assert sum("answered" in w for w in whole if w) > 5
    for cuts in size(([1], [64], [1000, 3]), ([1], [7], [64], [1000, 3])):
        assert told(copy.copy(model), X, cuts, explain) == whole


@pytest.mark.parametrize("explain", [EVERY, 0, None])
def test_what_is_an_alert_for_an_answer_alone_keeps_its_own_rarity(rng, explain):
    """Also where no reasons are asked for, and whatever the cuts."""
    model, X = watched(rng)
    truth, twin = [], copy.copy(model)
    for x in X:
        why = twin.explain(x)
        like = why.precedent
        only = why.alert and like is not None and like.decided
        truth.append(like.score if only else np.nan)
        if only:  # what is said first is not what the answer has made of the row
            assert why.sentence.startswith(f"Alert, like alert {like.id}, which was answered as a")
        twin.learn_one(x)
    for cut in (len(X), 64, 1):
        own, found = copy.copy(model), []
        judge = judge_of(own, None, 0 if explain is None else explain, brief=explain is not None)
        for start in range(0, len(X), cut):
            seen = judge(own, Rows(X[start : start + cut]))
            assert ("why" in seen.columns()) == (explain is not None)
            found += seen.own.tolist()
        np.testing.assert_allclose(found, truth, rtol=1e-9)
    assert np.count_nonzero(~np.isnan(truth)) > 3


def test_a_row_that_was_hushed_says_so(rng):
    model, _ = watched(rng)
    why = model.explain([0.0, 9.0, 0.0])
    words = "like alert 590, which was answered as usual (had nothing been answered: "
    assert words in why.sentence and ", an alert)" in why.sentence
    assert why.sentence.startswith("No alert") and why.to_dict()["precedent"]["id"] == "590"
    assert "precedent" not in model.explain([0.0, 0.0, 0.0]).to_dict()


def test_tables(rng):
    rows = [{"kind": str(k), "x": float(v)} for k, v in
            zip(rng.choice(["a", "b"], 900), rng.normal(size=900), strict=True)]  # fmt: skip
    for i in range(400, 900, 50):
        rows[i]["x"] = 4.2
    spec = {"kind": "category"}
    model = Detector(nu=0.02, warmup=100, columns=spec).partial_fit(rows[:401])
    assert model.alerts_[-1]["id"] == "400"
    model.feedback("400", "fault")
    X = model.plan_.encode(raw_of(rows[401:]))
    for explain in (EVERY, 0):
        found = {}
        for cuts in ([1], [499]):
            own, seen, start = copy.copy(model), [], 0
            judge = judge_of(own, None, explain, brief=True)
            while start < len(X):
                part = X[start : start + cuts[0]]
                seen += judge(own, Rows(part)).columns()["why"]
                start += len(part)
            found[cuts[0]] = seen
        assert found[1] == found[499]
        again = [found[1][i - 401] for i in range(450, 900, 50)]
        assert all("ike alert 400, which was answered as a fault" in words for words in again)


def test_merged_models_know_no_number(rng):
    one, X = watched(rng)
    other = Detector(**SETTINGS).partial_fit(X)
    both = merge([one, other])
    words = both.explain([0.0, 9.0, 0.0]).sentence
    assert ", like an alert that was answered as usual" in words


# -- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", size(["bounded", "dict"], ["cells", "bounded", "dict"]))
def test_keys_say_what_their_own_models_know(rng, kept, monkeypatch):
    if kept == "dict":
        monkeypatch.setattr("onkel.estimators.packed.has_cells", lambda: False)
    count = size(2800, 3600)
    X = valve(rng, count)
    keys = np.array(["pump", "fan", "mill"])[np.arange(count) * 7 // 5 % 3]
    fleet = Fleet(
        Detector(**SETTINGS, alerts_kept=12), memory=60_000 if kept == "bounded" else None
    )
    fleet.partial_fit(keys[:2000], X[:2000])
    for i, alert in enumerate(fleet["pump"].alerts_):
        fleet.feedback("pump", alert["id"], ("fault", "usual")[i % 4 == 0])
    assert {a["answer"] for a in fleet["pump"].alerts_} == {"usual", "fault"}
    single, judge = {k: fleet[k] for k in fleet}, FleetDetect(["a", "b", "c"], rarity=True)
    seen = []
    for cut in size((count, 7, 1), (count, 64, 7, 1)):
        own, found = copy.copy(fleet), []
        for start in range(2000, count, cut):
            part = slice(start, min(start + cut, count))
            found += judge(own, keys[part].tolist(), Rows(X[part])).columns()["why"]
        seen.append(found)
    assert all(words == seen[0] for words in seen)
    own, alike = judge(copy.copy(fleet), keys[2000:].tolist(), Rows(X[2000:])).own, 0
    for key, x, words, of_itself in zip(keys[2000:].tolist(), X[2000:], seen[0], own, strict=True):
        why = single[key].explain(x)
        like = why.precedent
        if why.alert and like is not None and like.decided:
            assert np.isclose(of_itself, like.score, rtol=1e-9)
        else:
            assert np.isnan(of_itself)
        assert (words is not None) == why.alert
        if why.alert and why.precedent is not None:
            assert key == "pump" and f"ike alert {why.precedent.id}, which" in words
            alike += 1
        elif why.alert:
            assert "answered" not in words
        single[key].learn_one(x)
    assert alike > 3
    all_true(w for w in seen[0] if w)
