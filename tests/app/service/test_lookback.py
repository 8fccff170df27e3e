"""Settings compared over what the service has kept: the model's own give the alerts that it had."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import shutil
import threading
import time
import tracemalloc

import numpy as np
import pytest
from helpers.serving import Client, served
from helpers.sizes import size

pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")

from onkel import Detector, Fleet, NoveltyDetector, rules
from onkel.alerting import episodes
from onkel.app.service import calls, kept, lookback, recorded
from onkel.app.service.archive import Keep
from onkel.app.service.bodies import Entry, Recall

OWN = {"nu": 0.05, "terms": 50, "warmup": 40}
OTHER = {"nu": 0.01}
LONG = Keep.of("30d")


@pytest.fixture
def outcomes(monkeypatch):
    """What came of each setting of the last replay, whole."""
    found, plain = [], lookback.described

    def described(some, gap, answers):
        found[:] = some
        return plain(some, gap, answers)

    monkeypatch.setattr(lookback, "described", described)
    return found


@pytest.fixture
def one(tmp_path):
    with served(tmp_path / "s", archive=LONG) as found:
        yield found


def rows(rng, count=2500, columns=2):
    X = rng.normal(size=(count, columns))
    X[count // 2 : count // 2 + 8] += 5
    return X


def cuts(rng, count, most=60):
    """Requests of random sizes, many of them of one row."""
    at = 0
    while at < count:
        step = 1 if rng.random() < 0.3 else int(rng.integers(1, most))
        yield slice(at, min(at + step, count))
        at += step


def sent(client, name, X, rng, keys=None, engine=None, **more):
    """Send rows in requests of random sizes; return the alerts that were answered: row and id."""
    found = []
    for i, part in enumerate(cuts(rng, len(X))):
        body = {"X": X[part].tolist(), **{n: v[part] for n, v in more.items()}}
        if keys is not None:
            body["keys"] = keys[part]
        said = client.ok("POST", f"/models/{name}/predict-then-learn", body)
        found += [(part.start + j, id) for j, id in enumerate(said["alert_id"]) if id]
        if engine is not None and i % 17 == 16:
            engine.snapshot()
    return found


def judged(model, X, **how):
    return model.predict_then_learn(X, output="judgement", **how).T


# -- the model's own alerts --------------------------------------------------------------------


@pytest.mark.parametrize("piece", size([7], [1, 7, 4096]))
def test_its_own_settings_give_the_alerts_that_it_had(
    one, rng, monkeypatch, outcomes, piece
) -> None:
    monkeypatch.setattr(recorded, "ROWS", piece)
    client, X = one.client, rows(rng, 1200 if piece == 1 else size(1500, 2500))
    client.ok("POST", "/models", {"name": "pump", "kind": "Detector", "parameters": OWN})
    client.ok("POST", "/models", {"name": "other", "kind": "Detector", "parameters": OWN})
    had = sent(client, "pump", X, rng, engine=one.engine)
    sent(client, "other", rows(rng, 300), rng)
    before = client.send("GET", "/models/pump/file")[2]
    found = client.ok("POST", "/models/pump/replay", {"settings": [OTHER, {}], "gap": 7})
    assert client.send("GET", "/models/pump/file")[2] == before
    own, other, same = outcomes
    assert [(a.row, a.id) for a in own.alerts] == had and len(had) > 40
    assert found["rows"] == len(X) and found["from_row"] == 0 and found["notes"] == []
    was, would = judged(Detector(**OWN), X), judged(Detector(**{**OWN, **OTHER}), X)
    for outcome, truth in ((own, was), (other, would), (same, was)):
        assert [a.row for a in outcome.alerts] == np.flatnonzero(truth[2]).tolist()
        assert [a.score for a in outcome.alerts] == truth[0][truth[2] > 0].tolist()
        assert [a.p for a in outcome.alerts] == [math.exp(s) for s in truth[0][truth[2] > 0]]
    told = found["settings"]
    first, second = ({a.row for a in o.alerts} for o in (own, other))
    assert [told[1][n] for n in ("still", "gone", "new")] == [
        len(first & second), len(first - second), len(second - first)
    ]  # fmt: skip
    assert told[0]["incidents"] == len(episodes(was[2] > 0, was[0], gap=7))
    assert told[0]["warmup"] == 40 and told[2]["gone"] == told[2]["new"] == 0
    assert told[0]["rate_realised"] == len(first) / (len(X) - 40)


@pytest.mark.parametrize("share", size([True], [False, True]))
def test_with_keys_that_are_forgotten_in_between(one, rng, outcomes, share) -> None:
    client, X = one.client, rows(rng, 3000)
    keys = [["a", "b", 7][i] for i in rng.integers(0, 3, len(X))]
    made = {"name": "pumps", "kind": "Detector", "parameters": OWN, "keyed": True, "share": share}
    client.ok("POST", "/models", made)
    had = sent(client, "pumps", X[:1500], rng, keys[:1500], one.engine)
    client.ok("POST", "/models/pumps/forget", {"keys": ["a", "nobody"]})
    more = sent(client, "pumps", X[1500:], rng, keys[1500:], one.engine)
    had += [(1500 + row, id) for row, id in more]
    found = client.ok("POST", "/models/pumps/replay", {"settings": [OTHER]})
    assert found["from_row"] == 0 and found["notes"] == []
    assert [(a.row, a.id, a.key) for a in outcomes[0].alerts] == [
        (row, f"{keys[row]}:{id}", str(keys[row])) for row, id in had
    ]
    fleet, alerts = Fleet(Detector(**{**OWN, **OTHER}), share=share), []
    for part in (slice(0, 1500), slice(1500, 3000)):
        verdict = fleet.predict_then_learn(keys[part], X[part], output="verdict").T
        alerts += (np.flatnonzero(verdict[2]) + part.start).tolist()
        fleet.drop("a")
    assert [a.row for a in outcomes[1].alerts] == alerts and len(had) > 40 and alerts
    whole = outcomes[0].alerts
    found = client.ok("POST", "/models/pumps/replay", {"settings": [OTHER], "keys": ["b", 7]})
    assert outcomes[0].alerts == [a for a in whole if a.key in ("b", "7")]
    assert found["settings"][0]["rows"] == sum(key in ("b", 7) for key in keys)
    status, error = client.refused("POST", "/models/pumps/replay", {"keys": ["7"]})
    assert (status, error["field"]) == (422, "keys") and "'7'" in error["message"]


def test_through_restarts_and_kills_in_any_place(tmp_path, rng, outcomes) -> None:
    """What a kill leaves is copied now and then, and is gone on with."""
    times = size(4, 6)
    X, had, state = rows(rng, 300 * times), [], tmp_path / "s0"
    for i in range(times):
        part = slice(300 * i, 300 * (i + 1))
        with served(state, archive=LONG) as one:
            client = one.client
            if not i:
                client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
            some = sent(client, "d", X[part], rng, engine=one.engine if i % 2 else None)
            had += [(part.start + row, id) for row, id in some]
            client.ok("POST", "/models/d/replay", {})
            assert [(a.row, a.id) for a in outcomes[0].alerts] == had
            state = shutil.copytree(state, tmp_path / f"s{i + 1}") if i < 3 else state
    assert len(had) > 20


def test_refused_requests_were_not_learned(one, rng, outcomes, monkeypatch) -> None:
    """By the model's own words, and by a fault: the log holds them, and says so later."""
    client, X = one.client, rows(rng, 900)
    client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
    had = sent(client, "d", X[:300], rng, engine=one.engine)
    assert client.refused("POST", "/models/d/learn", {"X": [[1.0, 2.0, 3.0]]})[0] == 422
    assert client.refused("POST", "/models/d/learn", {"X": [[1.0, None]]})[0] == 422

    learned, faults = calls.learn, iter([RuntimeError("a fault")])

    def failing(*args):
        for fault in faults:
            raise fault
        return learned(*args)

    with monkeypatch.context() as patch:
        patch.setattr("onkel.app.service.calls.learn", failing)
        assert client.send("POST", "/models/d/learn", {"X": X[:5].tolist()})[0] == 500
    had += [(300 + r, id) for r, id in sent(client, "d", X[300:], rng, engine=one.engine)]
    assert client.refused("POST", "/models/d/learn", {"X": [[1.0]]})[0] == 422  # of late
    found = client.ok("POST", "/models/d/replay", {})
    assert [(a.row, a.id) for a in outcomes[0].alerts] == had and found["rows"] == 900


def test_by_the_clock_with_weights_and_names(one, rng, outcomes) -> None:
    client, X = one.client, rows(rng, 900)
    rule = {"name": "norma", "memory": "1h"}
    client.ok("POST", "/models", {"name": "n", "kind": "NoveltyDetector", "features": ["a", "b"],
                                  "parameters": {"nu": 0.1, "rule": rule}})  # fmt: skip
    when, weight = 60.0 * np.arange(900), rng.integers(0, 3, 900).astype(float)
    alerts = []
    for part in cuts(rng, 900):
        body = {"X": [{"a": a, "b": b} for a, b in X[part].tolist()], "time": when[part].tolist(),
                "sample_weight": weight[part].tolist()}  # fmt: skip
        said = client.ok("POST", "/models/n/predict-then-learn", body)
        alerts += [part.start + i for i, v in enumerate(said["values"]) if v < 0]
    setting = {"rule": {"name": "norma", "memory": "5h"}}
    found = client.ok("POST", "/models/n/replay", {"settings": [setting], "since": "6h"})
    det = NoveltyDetector(nu=0.1, rule=rules.Norma(memory="5h"))
    truth = judged(det, X, time=when.tolist(), sample_weight=weight)[2]
    inside = when >= when[-1] - 6 * 3600
    assert [a.row for a in outcomes[0].alerts] == [r for r in alerts if inside[r]]
    assert [a.row for a in outcomes[1].alerts] == np.flatnonzero(truth * inside).tolist()
    assert [a.time for a in outcomes[0].alerts] == [60.0 * a.row for a in outcomes[0].alerts]
    assert found["settings"][0]["rows"] == inside.sum() == 361 and len(alerts) > 20
    date = client.ok("POST", "/models/n/replay", {"since": "1970-01-01T08:59:00"})
    assert date["settings"][0]["rows"] == inside.sum()


def test_rows_of_several_kinds_and_texts(one, rng, outcomes) -> None:
    client = one.client
    client.ok("POST", "/models", {"name": "m", "kind": "Detector", "parameters": OWN})
    words = rng.choice(["red", "green", "blue"], 900, p=[0.6, 0.39, 0.01]).tolist()
    X = [{"w": w, "v": v} for w, v in zip(words, rng.normal(size=900).tolist(), strict=True)]
    had, at = [], 0
    for part in [slice(0, 300), *(slice(300 + p.start, 300 + p.stop) for p in cuts(rng, 600))]:
        said = client.ok("POST", "/models/m/predict-then-learn", {"X": X[part]})
        had += [part.start + i for i, v in enumerate(said["values"]) if v < 0]
    client.ok("POST", "/models/m/replay", {"settings": [OTHER]})
    assert [a.row for a in outcomes[0].alerts] == had and len(had) > 8
    kernel = {"kernel": {"name": "spectrum", "length": 2}, "nu": 0.1, "warmup": 20}
    client.ok("POST", "/models", {"name": "t", "kind": "NoveltyDetector", "parameters": kernel})
    texts = ["".join(rng.choice(list("abc"), 5)) for _ in range(300)]
    had, at = [], 0
    for part in cuts(rng, 300):
        said = client.ok("POST", "/models/t/predict-then-learn", {"X": texts[part]})
        had += [part.start + i for i, v in enumerate(said["values"]) if v < 0]
    client.ok("POST", "/models/t/replay", {})
    assert [a.row for a in outcomes[0].alerts] == had and had and at == 0


# -- answers -----------------------------------------------------------------------------------


def answered(client, name, X, rng, keys=None, engine=None, usual=True):
    """Send rows, and answer alerts late; return alerts (row, id), and the answers by id."""
    had, answers, open_ = [], {}, []
    for part in cuts(rng, len(X), 40):
        body = {"X": X[part].tolist()} | ({} if keys is None else {"keys": keys[part]})
        said = client.ok("POST", f"/models/{name}/predict-then-learn", body)
        new = [(part.start + j, id) for j, id in enumerate(said["alert_id"]) if id]
        had, open_ = had + new, open_ + new
        if len(open_) > 4:
            some, open_ = open_[:3], open_[3:]
            told = [
                {"id": id, "answer": "usual" if usual and row % 3 else "fault"} for row, id in some
            ]
            for one, (row, id) in zip(told, some, strict=True):
                if keys is not None:
                    one["key"] = keys[row]
                answers[id if keys is None else f"{keys[row]}:{id}"] = one["answer"]
            client.ok("POST", f"/models/{name}/feedback", {"answers": told})
            if engine is not None and rng.random() < 0.2:
                engine.snapshot()
    return had, answers


def hears(setting, X, answers, places, keys=None):
    """What a model of the library says that hears the answers before the same rows.

    `places`: before which row each answer was heard.
    """
    fleet = Fleet(Detector(**setting)) if keys is not None else Detector(**setting)
    found, at = [], 0
    for row, id, key, answer in [*places, (len(X), None, None, None)]:
        if row > at:
            part = slice(at, row)
            if keys is None:
                found += fleet.predict_then_learn(X[part], output="judgement")[:, 2].tolist()
            else:
                found += fleet.predict_then_learn(keys[part], X[part], output="verdict")[
                    :, 2
                ].tolist()
            at = row
        if id is None:
            continue
        if keys is None and id in {a["id"] for a in fleet.alerts_}:
            fleet.feedback(id, answer)
        elif keys is not None and key in fleet and id in {a["id"] for a in fleet[key].alerts_}:
            fleet.feedback(key, id, answer)
    return np.flatnonzero(found).tolist()


@pytest.mark.parametrize("keyed", size([True], [False, True]))
def test_answers_are_heard_where_they_were(one, rng, outcomes, keyed) -> None:
    client, X = one.client, rng.normal(size=(2500, 2)) * (1 + (np.arange(2500) > 1500))[:, None]
    setting = {**OWN, "precision": 0.6}
    keys = [["a", "b"][i] for i in rng.integers(0, 2, len(X))] if keyed else None
    made = {"name": "d", "kind": "Detector", "parameters": setting, "keyed": keyed}
    client.ok("POST", "/models", made)
    had, answers = answered(client, "d", X, rng, keys, one.engine)
    found = client.ok("POST", "/models/d/replay", {"settings": [{"nu": 0.02, "precision": 0.8}]})
    own, other = outcomes
    named = [(r, id if keys is None else f"{keys[r]}:{id}") for r, id in had]
    assert [(a.row, a.id) for a in own.alerts] == named and len(answers) > 30
    past = one.engine.state.archive
    now = kept.standing(one.engine.slot("d"))
    records = past.records(past.pieces(), one.engine.slot("d").spec.id, now.position)
    places, row = [], 0
    for step in recorded.steps(records, set(), 0):
        if step.learns:
            row = int(step.rows[-1]) + 1
            continue
        places += [(row, str(s.id), s.key, s.answer) for s in recorded.said(step.entry)]
    changed = {**setting, "nu": 0.02, "precision": 0.8}
    assert hears(setting, X, answers, places, keys) == [row for row, _ in had]
    assert hears(changed, X, answers, places, keys) == [a.row for a in other.alerts]
    for told, outcome in zip(found["settings"], (own, other), strict=True):
        shown = {a.id for a in outcome.alerts}
        for answer in ("usual", "fault"):
            ids = [id for id, said in answers.items() if said == answer]
            count = len(shown.intersection(ids))
            wanted = {"of": len(ids), "shown": count, "share": count / len(ids)}
            assert told["answered"][answer] == wanted
        heard = [said for id, said in answers.items() if id in shown]
        assert told["answers_heard"] == len(heard)
        assert told["precision_realised"] == pytest.approx(heard.count("fault") / len(heard))
        missed = {id for id, said in answers.items() if said == "fault"} - shown
        assert told["faults_missed"] == len(missed)
    assert found["settings"][0]["answered"]["usual"]["shown"] == sum(
        a == "usual" for a in answers.values()
    )
    promised = [told["precision_promised"] for told in found["settings"]]
    assert promised == [0.6, 0.8] and found["settings"][0]["answers_heard"] == len(answers)
    late = client.ok("POST", "/models/d/replay", {"since": 1800})
    inside = [answers[id] for row, id in named if id in answers and row >= 1800]
    for kind, told in late["settings"][0]["answered"].items():
        assert told["of"] == told["shown"] == inside.count(kind)


def test_answers_are_of_the_life_in_which_they_were_given(one, rng) -> None:
    """A key that was forgotten counts its alerts anew, and one that is a number is no text."""
    client, X = one.client, rng.normal(size=(200, 2))
    X[120], X[150] = [9.0, 9.0], [-9.0, 9.0]
    made = {"name": "d", "kind": "Detector", "parameters": {**OWN, "nu": 0.01}, "keyed": True}
    client.ok("POST", "/models", made)

    def live(key):
        body = {"X": X.tolist(), "keys": [key] * len(X)}
        client.ok("POST", "/models/d/predict-then-learn", body)

    def answer(key, id, said):
        client.ok("POST", "/models/d/feedback", {"key": key, "id": id, "answer": said})

    def told(**more):
        return client.ok("POST", "/models/d/replay", {"settings": [{"nu": 1e-6}], **more})

    def answered(found):
        return [{kind: n["of"] for kind, n in one["answered"].items()} for one in found["settings"]]

    live(7)
    answer(7, 120, "fault")
    client.ok("POST", "/models/d/forget", {"keys": [7, "never"]})
    live(7)
    live("7")
    assert "answered" not in told(since=200)["settings"][0]
    answer(7, 120, "usual")
    answer("7", 120, "usual")
    assert answered(told()) == [{"usual": 2, "fault": 1}] * 2
    assert answered(told(since=200)) == [{"usual": 2, "fault": 0}] * 2
    assert answered(told(keys=["7"])) == [{"usual": 1, "fault": 0}] * 2
    both = told()["settings"][0]
    assert both["incidents"] == 3 * told(keys=["7"])["settings"][0]["incidents"]
    found, error = client.refused("POST", "/models/d/replay", {"keys": ["never"]})
    assert found == 422 and error["field"] == "keys" and "No row of the key" in error["message"]


def test_a_detector_that_hears_no_answers_promises_no_precision(one, rng, outcomes) -> None:
    """What `precision` is of NoveltyDetector: the arithmetic of a device."""
    client, X = one.client, rows(rng, 900)
    own = {"nu": 0.05, "warmup": 40}
    client.ok("POST", "/models", {"name": "n", "kind": "NoveltyDetector", "parameters": own})
    had = client.ok("POST", "/models/n/predict-then-learn", {"X": X.tolist()})["values"]
    for more in ({}, {"X": X.tolist()}):
        asked = {**more, "settings": [{"nu": 0.02}, {"precision": "float32"}]}
        for told in client.ok("POST", "/models/n/replay", asked)["settings"]:
            assert not [name for name in told if "answer" in name or "precision" in name]
            assert told["alerts"] > 5
    assert [a.row for a in outcomes[0].alerts] == [i for i, v in enumerate(had) if v < 0]


def test_a_gap_by_the_clock(one, rng) -> None:
    X, times = rng.normal(size=(300, 2)), (np.arange(300) * 60.0 + 1.7e9).tolist()
    X[200:204] += 9.0
    parameters = {**OWN, "nu": 0.01}
    one.client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": parameters})
    body = {"X": X.tolist(), "time": times}
    for gap, rows_apart in (("90s", 1), ("150s", 2), ("1h", 60)):
        by_clock = one.client.ok("POST", "/models/d/replay", {**body, "gap": gap})
        by_rows = one.client.ok("POST", "/models/d/replay", {**body, "gap": rows_apart})
        assert by_clock["gap"] == gap
        assert by_clock["settings"][0]["incidents"] == by_rows["settings"][0]["incidents"] > 0
    status, error = one.client.refused("POST", "/models/d/replay", {"X": body["X"], "gap": "1h"})
    assert status == 422 and error["field"] == "gap" and "rows need time" in error["message"]
    dates = [str(np.datetime64(int(t), "s")) for t in times]
    said = one.client.ok("POST", "/models/d/replay", {**body, "time": dates, "gap": "150s"})
    two = one.client.ok("POST", "/models/d/replay", {**body, "gap": 2})
    assert said["settings"][0]["incidents"] == two["settings"][0]["incidents"]
    odd = {**body, "time": ["noon"] * len(times), "gap": "1h"}
    status, error = one.client.refused("POST", "/models/d/replay", odd)
    assert status == 422 and error["field"] == "time" and "'noon'" in error["message"]
    one.client.ok("POST", "/models/d/learn", {"X": body["X"]})
    asked = {"gap": "1h"}  # these came at once
    assert one.client.ok("POST", "/models/d/replay", asked)["settings"][0]["incidents"] == 1


def test_settings_that_a_shared_fleet_cannot_have_are_refused(one, rng) -> None:
    made = {
        "name": "f",
        "kind": "Detector",
        "keyed": True,
        "share": True,
        "parameters": {"nu": 0.02},
    }
    one.client.ok("POST", "/models", {**made, "features": ["a", "b"]})
    body = {"X": rng.normal(size=(50, 2)).tolist(), "keys": ["a"] * 50}
    one.client.ok("POST", "/models/f/learn", body)
    for changed, field in (
        ({"nu": None, "precision": 0.9}, "settings[1]"),
        ({"columns": {"a": "category"}}, "settings[1].columns"),
    ):
        for more in ({}, body):
            asked = {**more, "settings": [{}, changed]}
            status, error = one.client.refused("POST", "/models/f/replay", asked)
            assert status == 422 and error["field"] == field, error


def test_what_columns_are_is_no_setting(one, rng, outcomes) -> None:
    """Rows are read as the model reads them; a model of its own has other alerts with others."""
    client, own = one.client, {"columns": {"c": "category"}}
    rows = [{"c": "xy"[i % 2], "n": v} for i, v in enumerate(rng.normal(size=900).tolist())]
    for row in rows[600::60]:
        row["c"] = "odd"
    alerts = {}
    for name, given in (("m", {}), ("c", own), ("i", {"columns": {"c": "ignore"}})):
        made = {"name": name, "kind": "Detector", "parameters": {**OWN, **given}}
        client.ok("POST", "/models", made)
        said = client.ok("POST", f"/models/{name}/predict-then-learn", {"X": rows})["values"]
        alerts[name] = [i for i, v in enumerate(said) if v < 0]
    assert alerts["m"] == alerts["c"] != alerts["i"]
    for more in ({}, {"X": rows}):
        for name, columns in (("m", {"c": "ignore"}), ("c", {"c": "ignore"}), ("c", None)):
            asked = {**more, "settings": [OTHER, {"columns": columns}]}
            status, error = client.refused("POST", f"/models/{name}/replay", asked)
            assert (status, error["field"]) == (422, "settings[1].columns")
            assert "Leave columns out" in error["message"]
        client.ok("POST", "/models/c/replay", {**more, "settings": [{**own, "nu": 0.05}]})
    assert [a.row for a in outcomes[1].alerts] == alerts["c"], "its own are no other ones"


# -- an archive that does not reach back -------------------------------------------------------


@pytest.mark.parametrize("keyed", size([False], [False, True]))
def test_an_archive_that_begins_late_says_so(one, rng, outcomes, keyed) -> None:
    client, X = one.client, rng.normal(size=(2500, 2))
    keys = [["a", "b"][i] for i in rng.integers(0, 2, len(X))] if keyed else None
    made = {"name": "d", "kind": "Detector", "parameters": OWN, "keyed": keyed}
    client.ok("POST", "/models", made)
    early = sent(client, "d", X[:1000], rng, keys and keys[:1000])
    one.engine.snapshot()
    archive = one.engine.state.archive
    for path in archive.folder.iterdir():
        os.utime(path, (0, 0))
    archive.tidy()
    row, id = early[-1]
    said = {"id": id, "answer": "fault"} | ({"key": keys[row]} if keyed else {})
    client.ok("POST", "/models/d/feedback", said)
    some = keys and keys[1000:]
    had, answers = answered(client, "d", X[1000:], rng, some, one.engine, usual=False)
    assert archive.pieces()[0].first > one.engine.slot("d").spec.created
    found = client.ok("POST", "/models/d/replay", {"settings": [OTHER]})
    assert found["from_row"] == 1000 and found["rows"] == 1500
    assert "had learned 1,000 rows before the first one that is kept" in found["notes"][0]
    assert found["notes"][1].startswith("1 answer is to an alert before that row")
    assert "warm-up" in found["notes"][0] and found["settings"][0]["warmup"] == (
        80 if keyed else 40
    )
    own = outcomes[0]
    assert min(a.row for a in own.alerts) >= 1040, "new models show none in their warm-up"
    ids = {(1000 + row): id if keys is None else f"{keys[1000 + row]}:{id}" for row, id in had}
    both = [a for a in own.alerts if a.row in ids]
    assert len(both) > 20 and all(a.id == ids[a.row] for a in both), "ids are the model's own"
    told = found["settings"][0]["answered"]
    assert sum(t["of"] for t in told.values()) == len(answers) > 10
    assert sum(t["shown"] for t in told.values()) == len(
        answers.keys() & {a.id for a in own.alerts}
    )
    for since in (999, "1970-01-01"):
        status, error = client.refused("POST", "/models/d/replay", {"since": since})
        assert (status, error["field"]) == (422, "since") and "begins with" in error["message"]
    span = client.ok("POST", "/models/d/replay", {"since": "30d"})
    assert "more than is kept" in span["notes"][1] and span["settings"][0]["rows"] == 1500
    assert client.ok("POST", "/models/d/replay", {"since": 2000})["settings"][0]["rows"] == 500


@pytest.mark.parametrize("way", ["trimmed", "file", "whole"])
def test_answers_of_a_life_whose_beginning_is_not_kept(one, rng, outcomes, way) -> None:
    """Their numbers count rows that nobody knows of: they are heard of no other alert."""
    client, archive, name = one.client, one.engine.state.archive, "d"
    made = {"name": "d", "kind": "Detector", "parameters": {**OWN, "nu": 0.01}, "keyed": True}
    client.ok("POST", "/models", made)

    def live(count, *far):
        X = rng.normal(size=(count, 2))
        for i, row in enumerate(far):
            X[row] = [9.0 + 9.0 * i, -9.0]
        for key in ("k", "other"):
            body = {"X": X.tolist(), "keys": [key] * count}
            ids = client.ok("POST", f"/models/{name}/predict-then-learn", body)["alert_id"]
        return ids

    def answer(key, id, said):
        body = {"key": key, "id": id, "answer": said}
        client.ok("POST", f"/models/{name}/feedback", body)

    def told():
        found = client.ok("POST", f"/models/{name}/replay", {})
        own = found["settings"][0]
        of = {kind: n["of"] for kind, n in own.get("answered", {}).items()}
        return found["notes"], own.get("answers_heard", 0), of

    live(100)
    if way == "trimmed":
        one.engine.snapshot()
        for path in archive.folder.iterdir():
            os.utime(path, (0, 0))
        archive.tidy()
    elif way == "file":
        data, name = client.send("GET", "/models/d/file")[2], "e"
        binary = {"Content-Type": "application/octet-stream"}
        assert client.send("PUT", "/models/e/file", data, binary)[0] == 201
    ids = live(300, 80, 180)
    assert ids[80] == "180" and ids[180] == "280", "in new models the second one has that number"
    answer("k", "180", "usual")
    answer("other", "180", "fault")
    assert told()[1:] == (2, {"usual": 1, "fault": 1})
    assert {a.row for a in outcomes[0].alerts} >= {280, 380, 580, 680}
    client.ok("POST", f"/models/{name}/forget", {"keys": ["k", "never"]})
    notes, heard, of = told()
    if way == "whole":
        assert (notes, heard, of) == ([], 2, {"usual": 1, "fault": 1})
    else:
        assert (heard, of) == (1, {"usual": 0, "fault": 1})
        assert notes[-1].startswith("1 answer is to alerts of keys that were forgotten later")
    assert live(300, 80, 180)[80] == "480", "of the key that was not forgotten"
    answer("k", "180", "fault")
    notes, heard, of = told()
    assert of["fault"] == 2 and heard == of["fault"] + of["usual"] == (3 if way == "whole" else 2)
    assert sum("forgotten later" in words for words in notes) == (way != "whole")


def test_a_model_that_came_as_a_file_begins_late(one, rng) -> None:
    client, X = one.client, rows(rng, 600)
    client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
    client.ok("POST", "/models/d/learn", {"X": X[:400].tolist()})
    data = client.send("GET", "/models/d/file")[2]
    told = {"Content-Type": "application/octet-stream"}
    assert client.send("PUT", "/models/e/file", data, told)[0] == 201
    client.ok("POST", "/models/e/learn", {"X": X[400:].tolist()})
    found = client.ok("POST", "/models/e/replay", {})
    assert found["from_row"] == 400 and found["rows"] == 200 and found["notes"]


def test_another_model_of_the_name_has_none_of_its_rows(one, rng) -> None:
    client = one.client
    for X in (rows(rng, 300), rows(rng, 200)):
        client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
        client.ok("POST", "/models/d/learn", {"X": X.tolist()})
        one.engine.snapshot()
        found = client.ok("POST", "/models/d/replay", {})
        assert found["rows"] == len(X) and found["from_row"] == 0
        client.ok("DELETE", "/models/d")
    assert client.refused("POST", "/models/d/replay", {})[0] == 404


def test_a_model_set_aside_and_a_tail_double_nothing(tmp_path, rng, outcomes, monkeypatch) -> None:
    """A model that cannot be saved lives on in its part of the log; the archive has that, too."""
    with served(tmp_path / "s", archive=LONG) as one:
        client, X = one.client, rows(rng, 900)
        client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
        with monkeypatch.context() as patch:
            patch.setattr(one.engine.keeper, "_read_back", lambda *args: 1 / 0)
            had = sent(client, "d", X, rng, engine=one.engine)
            assert one.engine.keeper.files[one.engine.slot("d").spec.id].tails
        client.ok("POST", "/models/d/replay", {})
        assert [(a.row, a.id) for a in outcomes[0].alerts] == had
        killed = shutil.copytree(tmp_path / "s", tmp_path / "k")
    with served(killed, archive=LONG) as one:
        one.client.ok("POST", "/models/d/replay", {})
        assert [(a.row, a.id) for a in outcomes[0].alerts] == had


# -- what is refused ---------------------------------------------------------------------------


def test_without_an_archive_the_option_is_named(tmp_path) -> None:
    with served(tmp_path / "s") as one:
        one.client.ok("POST", "/models", {"name": "d", "task": "novelty"})
        status, error = one.client.refused("POST", "/models/d/replay", {"since": "30d"})
        assert (status, error["code"]) == (409, "no_archive") and "--archive" in error["message"]
        for task in ("classification", "regression"):  # an archive would not help
            one.client.ok("POST", "/models", {"name": task, "task": task})
            status, error = one.client.refused("POST", f"/models/{task}/replay", {"since": "30d"})
            assert (status, error["code"]) == (409, "no_alerts")
            assert "only detectors" in error["message"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A service that knows a hundred rows; what is refused changes nothing of it."""
    with served(tmp_path_factory.mktemp("asked") / "s", archive=LONG) as found:
        client, rng = found.client, np.random.default_rng(5)
        client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
        client.ok("POST", "/models/d/learn", {"X": rows(rng, 100).tolist()})
        yield client


@pytest.mark.parametrize(
    ("body", "status", "field", "said"),
    [
        ({"since": "2999-01-01"}, 422, "since", "no row since 2999-01-01: the last row is of"),
        ({"since": 100}, 422, "since", "the last row is row 99"),
        ({"since": "soon"}, 422, "since", "since is a time span"),
        ({"since": -1}, 422, "since", "since is a time span"),
        ({"since": 1.5}, 422, "since", "Expected"),
        ({"keys": ["a"]}, 422, "keys", "no keys"),
        ({"gap": -1}, 422, "gap", "gap must be"),
        ({"gap": "soon"}, 422, "gap", "time span such as 30min; got 'soon'"),
        ({"settings": [{"nue": 1}]}, 422, "settings[0].nue", "no parameter"),
        ({"settings": [{}] * 9}, 422, "settings", "Up to 8"),
        ({"settings": [{"memory": "1h"}]}, 422, None, "memory"),
        ({"time": [1.0]}, 422, "time", "unknown field"),
    ],
)  # fmt: skip
def test_refusals_name_the_field(asked, body, status, field, said) -> None:
    found, error = asked.refused("POST", "/models/d/replay", body)
    assert found == status and said in error["message"], error
    assert field is None or error["field"] == field, error


def test_nothing_kept_other_tasks_and_damage(one, rng) -> None:
    client = one.client
    for name, task in (("d", "novelty"), ("r", "regression")):
        client.ok("POST", "/models", {"name": name, "task": task})
    status, error = client.refused("POST", "/models/d/replay", {})
    assert (status, error["code"]) == (409, "no_rows")
    assert client.refused("POST", "/models/r/replay", {})[1]["code"] == "no_alerts"
    client.ok("POST", "/models/d/learn", {"X": rows(rng, 300).tolist()})
    one.engine.snapshot()
    [path] = one.engine.state.archive.folder.iterdir()
    data = bytearray(path.read_bytes())
    for at, said in ((len(data) - 9, "damaged"), (3, "Move it away")):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        status, error = client.refused("POST", "/models/d/replay", {})
        assert (status, error["code"]) == (409, "archive_damaged") and said in error["message"]
    client.ok("POST", "/models/d/learn", {"X": [[0.0, 0.0]]})  # it learns all the same


def test_rows_of_before_the_option_have_no_time(tmp_path, rng) -> None:
    with served(tmp_path / "s") as one:
        one.client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
        one.client.ok("POST", "/models/d/learn", {"X": rows(rng, 100).tolist()})
        shutil.copytree(tmp_path / "s", tmp_path / "k")
    with served(tmp_path / "k", archive=LONG) as one:
        status, error = one.client.refused("POST", "/models/d/replay", {"since": "1h"})
        assert status == 422 and "not known" in error["message"]
        one.client.ok("POST", "/models/d/learn", {"X": rows(rng, 50).tolist()})
        found = one.client.ok("POST", "/models/d/replay", {"since": "1h"})
        assert found["rows"] == 150 and found["settings"][0]["rows"] == 50
        assert "without --archive" in found["notes"][0] and found["from_time"] is None


def test_too_many_alerts_are_refused(one, rng, monkeypatch) -> None:
    monkeypatch.setattr(lookback, "MOST", 20)
    one.client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
    one.client.ok("POST", "/models/d/learn", {"X": rows(rng, 2000).tolist()})
    status, error = one.client.refused("POST", "/models/d/replay", {})
    assert (status, error["code"]) == (422, "too_many_alerts") and "as it was" in error["message"]


# -- time --------------------------------------------------------------------------------------


def test_it_ends_in_time_and_says_how_far_it_came(tmp_path, rng, monkeypatch) -> None:
    with served(tmp_path / "s", archive=LONG, replay_seconds=100.0) as one:
        client = one.client
        client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
        for part in np.split(rows(rng, 2000), 20):
            client.ok("POST", "/models/d/learn", {"X": part.tolist()})
        monkeypatch.setattr(recorded, "ROWS", 100)
        clock = itertools.count(0.0, 10.0)
        monkeypatch.setattr(kept, "monotonic", lambda: next(clock))
        status, _, data = client.send("POST", "/models/d/replay", {})
        assert status == 503 and b"1,000 of 2,000 rows" in data, data
        assert b"--replay-seconds" in data and b"about 220" in data


@pytest.mark.long
def test_memory_does_not_grow_with_what_is_kept(tmp_path, rng) -> None:
    """Several times the rows, in as large requests: the same peak, but for the alerts."""
    with served(tmp_path / "s", archive=LONG) as one:
        one.client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OTHER})
        slot, peaks = one.engine.slot("d"), []
        asked = lookback.Lookback(slot, Recall(), one.engine.limits, one.engine.state.archive)
        for parts in size((10, 15), (10, 30)):
            for _ in range(parts):
                X = rng.normal(size=(4000, 8))
                entry = Entry("learn", slot.spec.id, width=8, numbers=X.tobytes())
                one.engine.change(entry).result()
            tracemalloc.start()
            found = asked.run(kept.standing(slot), lambda: False)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert found["rows"] == size(100_000, 160_000) and found["rows"] * 64 > 5 * 10**6
        assert peaks[1] < 1.3 * peaks[0] + 400 * found["settings"][0]["alerts"], peaks


def test_it_holds_up_nobody_and_ends_with_who_asked(tmp_path, rng, monkeypatch) -> None:
    with served(tmp_path / "s", archive=LONG) as one:
        client, begun, go_on = one.client, threading.Event(), threading.Event()
        client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
        client.ok("POST", "/models/d/learn", {"X": rows(rng, 300).tolist()})
        plain, ends = lookback.Lookback.run, []

        def slow(self, now, ended):
            begun.set()
            while not (go_on.is_set() or ended()):
                time.sleep(0.01)
            ends.append(ended())
            return plain(self, now, ended)

        monkeypatch.setattr(lookback.Lookback, "run", slow)
        other, told = Client(one.url), []
        thread = threading.Thread(
            target=lambda: told.append(other.send("POST", "/models/d/replay", {}))
        )
        thread.start()
        assert begun.wait(30)
        assert client.send("POST", "/models/d/replay", {})[0] == 503, "one at a time"
        client.ok("POST", "/models/d/learn", {"X": [[1.0, 2.0]]})
        go_on.set()
        thread.join(30)
        assert told[0][0] == 200 and b'"rows":300' in told[0][2], "as it stood when it was asked"
        go_on.clear()
        begun.clear()
        gone = Client(one.url)
        gone.connection.request(
            "POST", "/models/d/replay", b"{}", {"Content-Type": "application/json"}
        )
        assert begun.wait(30)
        gone.connection.close()
        deadline = time.monotonic() + 20
        while len(ends) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert ends == [False, True]
        go_on.set()
        while client.send("POST", "/models/d/replay", {})[0] == 503:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.long
def test_it_may_take_longer_than_other_requests(tmp_path, rng, monkeypatch) -> None:
    plain = lookback.Lookback.run

    def slow(self, now, ended):
        time.sleep(size(1.6, 2.5))
        return plain(self, now, ended)

    monkeypatch.setattr(lookback.Lookback, "run", slow)
    with served(tmp_path / "s", archive=LONG, seconds=1.0) as one:
        one.client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
        one.client.ok("POST", "/models/d/learn", {"X": rows(rng, 100).tolist()})
        assert one.client.ok("POST", "/models/d/replay", {})["rows"] == 100


@pytest.mark.long
def test_a_service_that_ends_waits_for_no_replay(tmp_path, rng, monkeypatch) -> None:
    begun = threading.Event()

    def endless(self, now, ended):
        begun.set()
        while not ended():
            time.sleep(0.01)
        return {}

    monkeypatch.setattr(lookback.Lookback, "run", endless)
    start = math.inf
    with served(tmp_path / "s", archive=LONG) as one:
        one.client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
        other = Client(one.url)
        thread = threading.Thread(target=lambda: _try(other))
        thread.start()
        assert begun.wait(30)
        start = time.monotonic()
    thread.join(30)
    assert time.monotonic() - start < 15


def _try(client):
    with contextlib.suppress(OSError):
        client.send("POST", "/models/d/replay", {})


# -- what is told ------------------------------------------------------------------------------


def test_metrics_and_health_tell_of_it(one, rng) -> None:
    client = one.client
    client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
    client.ok("POST", "/models/d/learn", {"X": rows(rng, 300).tolist()})
    one.engine.snapshot()
    text = client.send("GET", "/metrics")[2].decode()
    size = sum(p.stat().st_size for p in one.engine.state.archive.folder.iterdir())
    assert f"onkel_archive_bytes {float(size)}" in text and size > 4800
    [line] = [x for x in text.splitlines() if x.startswith("onkel_archive_oldest_timestamp")]
    assert abs(float(line.split()[1]) - time.time()) < 60
    told = client.ok("GET", "/health")["archive"]
    assert told["keep"] == "30d" and told["bytes"] == size and told["oldest"].endswith("Z")
