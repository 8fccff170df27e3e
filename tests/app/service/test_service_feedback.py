"""Answers to alerts over HTTP: what they do, what is refused, and that they survive."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from helpers.serving import Client, Process, served
from helpers.sizes import size

from onkel import Columns, Detector, Fleet, files

FLUSHED = [0.0, 12.0, 0.0]
KEYED = {"terms": 50, "warmup": 50}


def rows_of(rng, count=2000, first=1000, step=250):
    X = rng.normal(size=(count, 3))
    X[first::step] = FLUSHED + 0.3 * rng.normal(size=(len(X[first::step]), 3))
    return X


def made(client, name="pump", **more):
    return client.ok("POST", "/models", {"name": name, "task": "novelty", **more})


def send(client, X, name="pump", **more):
    path = f"/models/{name}/predict-then-learn"
    return client.ok("POST", path, {"X": np.asarray(X).tolist(), **more})


def bits(model):
    return files.dumps(model)


def file_of(client, name="pump"):
    return client.send("GET", f"/models/{name}/file")[2]


def test_an_answer_is_what_it_is_in_the_library(rng, tmp_path):
    X, det = rows_of(rng), Detector()
    with served(tmp_path) as one:
        client = one.client
        made(client)
        told = send(client, X[:1001])
        det.predict_then_learn(X[:1001])
        assert told["alert_id"][-1] == "1000" and told["values"][-1] == -1
        assert [i for i in told["alert_id"] if i] == [a["id"] for a in det.alerts_]
        found = client.ok("GET", "/models/pump/alerts")
        assert found["alerts"] == det.alerts_[::-1] and found["alerts_answered"] == 0
        said = client.ok("POST", "/models/pump/feedback", {"id": "1000", "answer": "usual"})
        assert said["taken"] == said["alerts_answered"] == said["alerts_dismissed"] == 1
        det.feedback("1000", "usual")
        assert client.ok("GET", "/models/pump/alerts?count=1")["alerts"][0]["answer"] == "usual"
        waiting = client.ok("GET", "/models/pump/alerts?waiting=true")
        assert waiting["found"] == said["alerts_waiting"] == len(det.alerts_) - 1
        values = send(client, X[1001:])["values"]
        assert values == det.predict_then_learn(X[1001:]).tolist()
        assert not [i for i in range(249, len(values), 250) if values[i] == -1]
        assert file_of(client) == bits(det)
        more = [a["id"] for a in det.alerts_ if a["answer"] is None][:3]
        several = [{"id": int(i), "answer": "fault"} for i in more]
        several += [{"id": "1000", "answer": "fault"}]  # another mind
        said = client.ok("POST", "/models/pump/feedback", {"answers": several})
        assert said["taken"] == 4 and said["alerts_answered"] == 4 and not said["alerts_dismissed"]
        for one_of in several:
            det.feedback(one_of["id"], one_of["answer"])
        assert file_of(client) == bits(det)
        about = client.ok("GET", "/models/pump")["diagnostics"]
        assert about["alerts_answered"] == 4
    with served(tmp_path) as again:
        assert file_of(again.client) == bits(det)


@pytest.mark.parametrize("answer", ["usual", "fault"])
def test_an_answer_is_about_the_value_of_a_category(rng, tmp_path, answer):
    kinds, values = rng.choice(list("xyz"), 1500), rng.normal(size=1500)
    rows = [{"a": a, "kind": str(k)} for a, k in zip(values.tolist(), kinds, strict=True)]
    never, another = {"a": 0.1, "kind": "never"}, {"a": 0.1, "kind": "another"}
    det = Detector(columns=Columns({"kind": "category"})).partial_fit([*rows, never])
    det.feedback("1500", answer)
    with served(tmp_path) as one:
        made(one.client, parameters={"columns": {"kind": "category"}})
        sent = {"X": [*rows, never]}
        told = one.client.ok("POST", "/models/pump/predict-then-learn", sent)
        assert told["alert_id"][-1] == "1500"
        one.client.ok("POST", "/models/pump/feedback", {"id": "1500", "answer": answer})
        assert file_of(one.client) == bits(det)
    with served(tmp_path) as again:  # out of its log
        assert file_of(again.client) == bits(det)
        asked = {"X": [never, another]}
        values = again.client.ok("POST", "/models/pump/predict", asked)["values"]
        assert values == [1 if answer == "usual" else -1, -1]


def test_a_promised_precision_is_a_parameter(rng, tmp_path):
    X = rows_of(rng)
    with served(tmp_path) as one:
        client = one.client
        given = {"nu": None, "precision": 0.7, "alerts_kept": 20, "memory_of_feedback": 5000}
        made(client, parameters=given)
        ids = [i for i in send(client, X)["alert_id"] if i][-20:]
        answers = [{"id": i, "answer": "usual"} for i in ids]
        said = client.ok("POST", "/models/pump/feedback", {"answers": answers})
        assert said["precision_promised"] == pytest.approx(0.7)
        assert said["precision_realised"] == 0.0
        det = Detector(**given)
        det.partial_fit(X)
        for id in ids:
            det.feedback(id, "usual")
        assert file_of(client) == bits(det)
        shown = one.engine.board.changes("pump")["numbers"]
        assert shown["precision_promised"] == pytest.approx(0.7)
        status, error = client.refused(
            "POST", "/models", {"name": "x", "task": "novelty", "parameters": {"precision": 2}}
        )
        assert status == 422 and "precision" in error["message"]


def test_what_is_refused_changes_nothing(rng, tmp_path):
    X = rows_of(rng, 1100)
    with served(tmp_path) as one:
        client = one.client
        made(client, parameters={"alerts_kept": 4})
        url = "/models/pump/feedback"
        assert client.refused("POST", url, {"id": "7", "answer": "usual"})[0] == 404
        assert client.ok("GET", "/models/pump/alerts")["alerts"] == []
        send(client, X)
        before = file_of(client)
        good = client.ok("GET", "/models/pump/alerts")["alerts"][0]["id"]
        usual = {"id": good, "answer": "usual"}
        for body, status, field, why in (
            ({"id": "5", "answer": "usual"}, 404, "id", "last 4 alerts"),
            ({"id": "99999", "answer": "usual"}, 404, "id", "no row of that number"),
            ({"id": "x", "answer": "usual"}, 422, "id", "such as '1234'"),
            ({"id": -1, "answer": "usual"}, 422, "id", "such as '1234'"),
            ({"id": good, "answer": "usua"}, 422, "answer", "'usual' or 'fault'"),
            ({"id": good}, 422, "answer", "missing"),
            ({"answer": "usual"}, 422, "id", "missing"),
            ({}, 422, "id", "list of such"),
            ({**usual, "answers": [usual]}, 422, "answers", "list of such"),
            ({"answers": []}, 422, "answers", "1 to 1000"),
            ({"answers": [usual] * 1001}, 422, "answers", "1 to 1000"),
            ({"answers": [usual, {"id": "5", "answer": "fault"}]}, 404, "answers[1].id", "last 4"),
            ({"answers": [usual, {"id": good, "answer": ""}]}, 422, "answers[1].answer", "usual"),
            ({"answers": [{**usual, "key": "a"}, usual]}, 422, "answers[1].key", "has none"),
            ({**usual, "key": "a"}, 422, "key", "no keys"),
            ({**usual, "when": 1}, 422, "when", "unknown field"),
            ({"answers": [usual, {**usual, "when": 1}]}, 422, "answers[1].when", "unknown field"),
            ({"answers": [{"id": good}]}, 422, "answers[0].answer", "missing"),
            ({"answers": [{**usual, "key": "a"}]}, 422, "answers[0].key", "no keys"),
        ):
            found, error = client.refused("POST", url, body)
            assert (found, error["field"]) == (status, field) and why in error["message"], (
                body, found, error)  # fmt: skip
        assert client.refused("POST", "/models/none/feedback", usual)[0] == 404
        status, _, _ = client.send("POST", url, json.dumps(usual).encode())
        assert status == 415
        assert client.refused("GET", "/models/pump/alerts?count=x")[0] == 422
        assert client.refused("GET", "/models/pump/alerts?waiting=x")[1]["field"] == "waiting"
        assert client.refused("GET", "/models/pump/alerts?key=a")[1]["field"] == "key"
        assert client.refused("GET", "/models/pump/alerts?kind=number")[1]["field"] == "key"
        assert client.refused("GET", "/models/pump/alerts?key=1&kind=x")[1]["field"] == "kind"
        client.ok("POST", "/models", {"name": "paper", "kind": "NoveltyDetector"})
        told = send(client, X[:50], "paper")
        assert "alert_id" not in told
        status, error = client.refused("POST", "/models/paper/feedback", usual)
        assert status == 422 and error["code"] == "no_feedback"
        assert client.refused("GET", "/models/paper/alerts")[1]["code"] == "no_feedback"
        assert file_of(client) == before


def test_an_idempotency_key_lets_an_answer_count_once(rng, tmp_path):
    with served(tmp_path) as one:
        client = one.client
        made(client)
        send(client, rows_of(rng, 1001))
        usual = {"id": "1000", "answer": "usual"}
        first = client.ok("POST", "/models/pump/feedback", usual, Idempotency_Key="a")
        client.ok("POST", "/models/pump/feedback", {**usual, "answer": "fault"})
        assert client.ok("POST", "/models/pump/feedback", usual, Idempotency_Key="a") == first
        assert client.ok("GET", "/models/pump/alerts")["alerts"][0]["answer"] == "fault"


def test_keys_have_answers_of_their_own(rng, tmp_path):
    X = rows_of(rng, 1200, 800, 100)
    keys = [("a", 7)[i % 2] for i in range(1200)]
    keys[800] = 7
    fleet = Fleet(Detector(**KEYED))
    with served(tmp_path) as one:
        client = one.client
        made(client, keyed=True, parameters=KEYED)
        told = send(client, X, keys=keys)
        assert fleet.predict_then_learn(keys, X).tolist() == told["values"]
        id = told["alert_id"][800]
        assert id is not None and {i for i in told["alert_id"] if i} == {
            alert["id"] for key in ("a", 7) for alert in fleet[key].alerts_
        }
        url = "/models/pump/feedback"
        for body, status, field in (
            ({"id": id, "answer": "usual"}, 422, "key"),
            ({"answers": [{"id": id, "answer": "usual"}]}, 422, "answers[0].key"),
            ({"id": id, "answer": "usual", "key": "7"}, 404, "key"),
            ({"id": "99999", "answer": "usual", "key": 7}, 404, "id"),
        ):
            found, error = client.refused("POST", url, body)
            assert (found, error["field"]) == (status, field), error
        said = client.ok("POST", url, {"id": id, "answer": "usual", "key": 7})
        assert said["alerts_answered"] == 1
        fleet.feedback(7, id, "usual")
        listed = client.ok("GET", "/models/pump/alerts?key=7&kind=number&count=1000")
        assert listed["alerts"] == fleet[7].alerts_[::-1]
        assert client.refused("GET", "/models/pump/alerts")[1]["field"] == "key"
        assert client.refused("GET", "/models/pump/alerts?key=z")[0] == 404
        for path in ("alerts", "key"):
            status, error = client.refused("GET", f"/models/pump/{path}?key=7&kind=bla")
            assert (status, error["field"]) == (422, "kind") and "'bla'" in error["message"]
            assert client.ok("GET", f"/models/pump/{path}?key=a&kind=text")
        both = [{"id": fleet[k].alerts_[-1]["id"], "answer": "fault", "key": k} for k in ("a", 7)]
        assert client.ok("POST", url, {"answers": both})["taken"] == 2
        for one_of in both:
            fleet.feedback(one_of["key"], one_of["id"], "fault")
        more = rows_of(rng, 400, 10, 40)
        told = send(client, more, keys=keys[:400])
        assert told["values"] == fleet.predict_then_learn(keys[:400], more).tolist()
        assert file_of(client) == bits(fleet)
    with served(tmp_path) as again:
        assert file_of(again.client) == bits(fleet)


def test_keys_that_are_young_have_answers_too(rng, tmp_path):
    keys = np.arange(4000) // 40 + rng.integers(0, 8, 4000)
    X = rng.normal(size=(4000, 3)) + 5 * rng.normal(size=(120, 3))[keys]
    keys, new = [str(k) for k in keys], rng.normal(size=(90, 3)) + 3.0
    new[20::10, 1] += 25.0
    settings = {"terms": 100, "warmup": 120}
    fleet = Fleet(Detector(**settings), share=True)
    with served(tmp_path) as one:
        client = one.client
        made(client, keyed=True, share=True, parameters=settings)
        told = send(client, X, keys=keys)
        assert told["values"] == fleet.predict_then_learn(keys, X).tolist()
        told = send(client, new[:21], keys=["new"] * 21)
        fleet.partial_fit(["new"] * 21, new[:21])
        assert told["alert_id"][-1] == "20"
        body = {"id": "20", "answer": "fault", "key": "new"}
        assert client.ok("POST", "/models/pump/feedback", body)["alerts_answered"] == 1
        fleet.feedback("new", "20", "fault")
        listed = client.ok("GET", "/models/pump/alerts?key=new")
        assert listed["alerts"] == fleet["new"].alerts_[::-1]
        values = send(client, new[21:], keys=["new"] * 69)["values"]
        assert values == fleet.predict_then_learn(["new"] * 69, new[21:]).tolist()
        assert all(v == -1 for v in values[9:43:10])  # older rows are not ranked yet
        assert file_of(client) == bits(fleet)
    with served(tmp_path) as again:
        assert file_of(again.client) == bits(fleet)


def test_the_page_is_told_ids_and_answers(rng, tmp_path):
    X = rows_of(rng, 1001)
    with served(tmp_path) as one:
        client = one.client
        made(client)
        send(client, X[:1000])
        time.sleep(0.5)  # reasons take a small share of the time
        send(client, X[1000:])
        alert = shown(one, lambda found: found and found[-1]["t"] == 1001)[-1]
        assert alert["id"] == "1000" and "answer" not in alert
        client.ok("POST", "/models/pump/feedback", {"id": "1000", "answer": "usual"})
        alert = shown(one, lambda found: "answer" in found[-1])[-1]
        assert alert["answer"] == "usual" and alert["refused"] == ""
        for id, answer in (("0001000", "fault"), (1000, "usual")):  # the same number
            client.ok("POST", "/models/pump/feedback", {"id": id, "answer": answer})
            assert client.ok("GET", "/models/pump/alerts?count=1")["alerts"][0]["answer"] == answer
            shown(one, lambda found, answer=answer: found[-1]["answer"] == answer)


def shown(one, condition):
    stop = time.monotonic() + 20
    while not condition(found := one.engine.board.changes("pump")["alerts"]):
        assert time.monotonic() < stop, found
        time.sleep(0.02)
    return found


def test_answers_among_batches_survive_kills(rng, tmp_path):
    """kill -9 after answers and batches: the log brings the same bits back."""
    X, det, id = rows_of(rng, 2400), Detector(terms=100), None
    process = Process(tmp_path / "state", "--snapshot-seconds", "0.3")
    client = Client(process.url)
    made(client, parameters={"terms": 100})
    for i, start in enumerate(range(0, 2400, 100)):
        told = send(client, X[start : start + 100])
        assert told["values"] == det.predict_then_learn(X[start : start + 100]).tolist()
        alerts = [a["id"] for a in det.alerts_ if a["answer"] is None]
        if alerts:
            id, answer = alerts[-1], ("usual", "fault")[i % 2]
            client.ok("POST", "/models/pump/feedback", {"id": id, "answer": answer})
            det.feedback(id, answer)
        if i in size((11,), (5, 11, 17, 23)):
            process.kill()
            process = Process(tmp_path / "state", "--snapshot-seconds", "0.3")
            client = Client(process.url)
            assert file_of(client) == bits(det)
    assert id is not None and det.diagnostics_["alerts_answered"] > 8
    assert process.stop() == 0
