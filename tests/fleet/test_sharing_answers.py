"""Alerts of keys that are young can be answered, and the answers hold."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from helpers.plants import ESTIMATOR, judged, plants
from helpers.sizes import size
from naive.sharing_answers import AnsweredSharing, Told

import onkel
from onkel import Detector, Fleet, files
from onkel.core.density import settle
from onkel.core.density_table import Count
from onkel.core.unlearn import without
from onkel.fleet.judging import FleetDetect
from onkel.judge import Rows

KINDS = ("usual", "fault")


def expected(naive, key, d):
    n, means, variances = naive.keys[key]
    return zip(*(naive.expected(j, n, means[j], variances[j]) for j in range(d)), strict=True)


def put(det, told):
    """Let a detector hear what plain loops have made of answers."""
    inf = math.inf
    places, radius = [], []
    for e in told.answers.values():
        p = e["places"][0]
        whole = np.zeros((5, 3, det.n_features_in_))
        whole[1], whole[4] = inf, inf
        for i, name in enumerate(("mean", "spread", "z", "w", "limit")):
            whole[i, 0] = p[name]
        places.append(whole)
        radius.append([p["radius"], inf, inf, e["s"]])
    answers, each = det._learner.answers, [*told.answers.values()]
    det._learner.answers = replace(
        answers, places=np.array(places), radius=np.array(radius),
        strength=np.array([e["strength"] * (e["answer"] == "fault") for e in each]),
        born=np.array([e["born"] for e in each]), of=np.array([*told.answers]),
        theta=told.theta or 0.0, bound=None,
    )  # fmt: skip


@pytest.mark.parametrize("precision", size([0.5], [None, 0.5]))
def test_agrees_with_plain_loops(rng, precision):
    """Each row by row: verdicts, and which answered alert it is told with."""
    estimator = copy.copy(ESTIMATOR).set_params(precision=precision, memory_of_feedback=300)
    keys, _, X, _ = plants(rng, 16, size(130, 300))
    X[::7, 1] += 25.0  # a fault that comes often
    fleet, naive, own, told = Fleet(estimator, share=True), AnsweredSharing(0.05, 1e4, 90), {}, {}
    whole, plan = copy.copy(estimator), estimator._asked(3)
    promise = estimator._promise()
    given, heard, decided = 0, 0, 0
    for i, (key, x) in enumerate(zip(keys.tolist(), X, strict=True)):
        row = x.tolist()
        det = own.setdefault(key, copy.copy(estimator))
        say = told.setdefault(key, Told(3, plan, 300.0, promise and vars(promise)))
        age = det.t_ if det.__sklearn_is_fitted__() else 0
        if i % 5 == 0 and say.asked and age:
            number = sorted(say.asked)[-1 - i % min(3, len(say.asked))]
            kind, state = KINDS[i // 5 % 2], det._learner.state
            frame = expected(naive, key, 3)
            if age >= 90:
                frame = state.mean[0], np.sqrt(det._learner.variance(0))
            n = det._learner.count(Count.SIZE)
            sample = state.raw[0, :n][state.marks[:n] == 0]
            before = {**say.answers}
            say.answer_early(number, kind, [*frame], age, sample)
            if before != say.answers:
                put(det, say)
            if kind == "fault":  # said again, it may be that there are enough rows by now
                seen = np.array([say.asked[number][0]] * 3)
                if without(plan, state, seen, early=True):
                    settle(plan, state)
            fleet.feedback(key, number, kind)
            given += 1
            if det._learner.answers.blank:
                continue
            mine, theirs = det._learner.answers, fleet[key]._learner.answers
            order = [mine.of.tolist().index(n) for n in theirs.of.tolist()]
            for name in ("places", "radius", "strength", "born"):
                np.testing.assert_allclose(
                    getattr(theirs, name), getattr(mine, name)[order], rtol=1e-9, err_msg=name
                )
        score, limit, alert = det.predict_then_learn(x[None], output="judgement")[0]
        z, known = naive.z(key, row), naive.told >= 5
        ready, common = getattr(whole, "t_", 0) >= 90, 0.0
        if known:
            common = whole.predict_then_learn([z], output="score")[0]
        naive.learn(key, row)
        best = say.likest(row, age)
        if age < 90:
            score, limit, alert = (
                naive.judge_told(say, row, age, common, score) if ready else (0.0, limit, False)
            )
            if alert:
                say.asked[age] = row, -score
        verdicts, _ = fleet.verdicts([key], x[None])
        np.testing.assert_allclose(
            [verdicts.score[0], verdicts.limit[0]],
            [score, limit],
            rtol=1e-6,
            atol=1e-8,
            err_msg=f"row {i}, {age} rows of key {key}",
        )
        assert verdicts.alert[0] == alert
        like = verdicts.precedents.get(0)
        if age < 90 and like is not None:
            assert like.id == str(best[like.answer][2])
            assert like.likeness == pytest.approx(best[like.answer][0])
            heard, decided = heard + 1, decided + like.decided
        kept = {int(a["id"]) for a in fleet[key].alerts_ if int(a["id"]) < 90}
        assert kept == set(say.asked)
    assert given > 20 and heard > 5 and decided > 3


def fleet_of(rng, **more):
    """A fleet that knows what is usual, and a key whose 31st row was an alert."""
    keys, _, X, _ = plants(rng, 60, 120)
    fleet = Fleet(Detector(nu=0.02, terms=100, warmup=120, **more), share=True)
    fleet.partial_fit(keys, X)
    Y = rng.normal(size=(400, 3)) + 3.0
    Y[30::9, 1] += 25.0
    fleet.partial_fit(["new"] * 31, Y[:31])
    assert fleet["new"].alerts_[-1]["id"] == "30"
    return fleet, Y


def alerts(fleet, Y, cut=1000):
    found = judged(fleet, ["new"] * (len(Y) - 31), Y[31:], [cut])[:, 2] > 0
    return found[8::9].mean(), np.delete(found, np.s_[8::9]).mean()


def test_answers_hold_when_the_key_has_grown_up(rng):
    fleet, Y = fleet_of(rng)
    usual, fault, none = (copy.copy(fleet) for _ in range(3))
    usual.feedback("new", "30", "usual")
    fault.feedback("new", "30", "fault")
    kinds = {name: alerts(f, Y) for name, f in (("u", usual), ("f", fault), ("n", none))}
    assert kinds["u"][0] == 0.0 and kinds["f"][0] == 1.0 and 0 < kinds["n"][0] < 1
    assert max(rest for _, rest in kinds.values()) < 0.08
    assert usual["new"].t_ == 400 > fleet["new"].warmup_
    learner = fault["new"]._learner
    assert (
        np.abs(learner.state.raw[0, : learner.count(Count.SIZE), 1]).max() < 20
    )  # nothing of it is kept
    others = usual["new"].diagnostics_
    assert others["alerts_answered"] == others["alerts_dismissed"] == 1


def test_an_alert_of_youth_may_be_answered_late(rng):
    fleet, Y = fleet_of(rng)
    fleet.partial_fit(["new"] * 300, Y[31:331])
    assert "30" in {a["id"] for a in fleet["new"].alerts_} and fleet["new"].t_ > 120
    fleet.feedback("new", "30", "fault")
    assert fleet.predict(["new"] * 2, [[3.0, 28.0, 3.0], [3.0, 3.0, 3.0]]).tolist() == [-1, 1]
    fleet.feedback("new", "30", "usual")
    assert fleet.predict(["new"] * 2, [[3.0, 28.0, 3.0], [3.0, -28.0, 3.0]]).tolist() == [1, -1]


def test_cuts_do_not_matter(rng):
    fleet, Y = fleet_of(rng, precision=0.6, alerts_kept=7)
    fleet.feedback("new", "30", "fault")
    fleets = [copy.copy(fleet) for _ in range(4)]
    found = [
        judged(f, ["new"] * 369, Y[31:], [cut])
        for f, cut in zip(fleets, (1000, 64, 7, 1), strict=True)
    ]
    for other, own in zip(fleets[1:], found[1:], strict=True):
        np.testing.assert_allclose(own, found[0], rtol=1e-7, atol=1e-9)
        assert [a["id"] for a in other["new"].alerts_] == [
            a["id"] for a in fleets[0]["new"].alerts_
        ]
    assert len(fleets[0]["new"].alerts_) == 7


def test_gaps_are_taken_for_what_the_detector_took_them_for(rng):
    fleet, Y = fleet_of(rng, missing="mean")
    Y[39, 0] = np.nan
    for cut in (1, 9):
        own = copy.copy(fleet)
        judged(own, ["new"] * 9, Y[31:40], [cut])
        assert own["new"].alerts_[-1]["id"] == "39"
        own.feedback("new", "39", "fault")
        row = own["new"]._learner.answers.row_of(own["new"]._learner.answers.kept()[-1])[0]
        assert row[0] == pytest.approx(np.mean(Y[:39, 0]), abs=0.2)
        held = own["new"]._learner.state.raw[0]
        assert not (held[:, 1] == Y[39, 1]).any()  # it was learned, and that is undone
        own.predict(["new"], [[np.nan, 28.0, 3.0]])


@pytest.mark.parametrize("kept", size(["cells"], ["cells", "dict"]))
def test_files_copies_and_eviction_go_on_with_the_same_bits(rng, tmp_path, kept, monkeypatch):
    if kept == "dict":
        monkeypatch.setattr("onkel.estimators.packed.has_cells", lambda: False)
        monkeypatch.setattr("onkel.fleet.fleet.has_cells", lambda: False)
    fleet, Y = fleet_of(rng)
    path = tmp_path / "fleet.onkel"
    fleet.save(path)
    bounded = onkel.load(path)
    bounded.hold(60_000)
    fleets = [fleet, onkel.load(path), copy.copy(fleet), pickle.loads(pickle.dumps(fleet)), bounded]
    noise, found = rng.normal(size=(200, 3)), []
    for each in fleets:
        each.feedback("new", "30", "fault")
        each.partial_fit(np.arange(200) % 50, noise)  # so that others are used meanwhile
        each.save(path)
        again = onkel.load(path) if each is not bounded else each
        said = judged(again, ["new"] * 369, Y[31:], [50])
        assert [a["answer"] for a in again["new"].alerts_ if a["id"] == "30"] == ["fault"]
        found.append(said)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_reasons_of_young_alerts_say_so(rng):
    fleet, Y = fleet_of(rng)
    fleet.feedback("new", "30", "fault")
    judge, seen = FleetDetect(["a", "b", "c"], rarity=True), []
    for cut in (1, 80):
        own, words = copy.copy(fleet), []
        for start in range(31, 111, cut):
            part = Y[start : start + cut]
            words += judge(own, ["new"] * len(part), Rows(part)).columns()["why"]
        seen.append(words)
    assert seen[0] == seen[1]
    assert all("ike alert 30, which was answered as a fault" in w for w in seen[0][8::9])
    assert not any("answered" in w for w in np.delete(seen[0], np.s_[8::9]) if w)


def test_what_is_refused_changes_nothing(rng):
    fleet, _ = fleet_of(rng)
    before = files.dumps(fleet)
    for key, id, answer, words in [
        ("new", "29", "usual", "no row of that number was an alert"),
        ("new", "30", "maybe", "'usual' or 'fault'"),
        ("new", "x", "usual", "such as '1234'"),
    ]:
        with pytest.raises(ValueError, match=words):
            fleet.feedback(key, id, answer)
    with pytest.raises(KeyError):
        fleet.feedback("nobody", "30", "usual")
    assert files.dumps(fleet) == before
    with pytest.raises(ValueError, match="it needs nu"):
        Fleet(Detector(nu=None, precision=0.8), share=True)


def test_looking_says_what_learning_says(rng):
    fleet, Y = fleet_of(rng, precision=0.6)
    fleet.feedback("new", "30", "fault")
    for y in Y[31:140]:
        asked = fleet.predict(["new"], y[None], output="verdict")[0]
        said = fleet.predict_then_learn(["new"], y[None], output="verdict")[0]
        np.testing.assert_allclose(asked[:3], said[:3], rtol=1e-9)
