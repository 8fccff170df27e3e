"""Answers given to the page of a running command: heard by the run, and by it alone."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import begin, json_lines, onkel, write_rows
from helpers.serving import Client
from helpers.sizes import size


@contextmanager
def running(path, *more):
    """A run with a page; yields its address."""
    process = begin("detect", path, "--follow", "--dashboard", "0", *more, stderr=-1)
    try:
        assert process.stderr is not None
        yield process.stderr.readline().decode().split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def until(condition, seconds=60.0):
    stop = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < stop
        time.sleep(0.05)
    return found


def alerts_of(url, name="rows.csv"):
    """The alerts that a page is shown first."""
    client = Client(url)
    client.connection.request("GET", f"/live/{name}")
    line = client.connection.getresponse().readline()
    client.connection.close()
    return json.loads(line.removeprefix(b"data: "))


def rows_with_a_fault(rng):
    X = rng.normal(size=(1001, 3))
    X[1000] = [0.0, 12.0, 0.0]
    return X


@pytest.mark.parametrize("durable", size([True], [True, False]))
def test_a_run_hears_its_page(rng, tmp_path, durable):
    path = write_rows(tmp_path / "rows.csv", rows_with_a_fault(rng))
    more = ["-o", tmp_path / "out", "--every", 0.05, "--precision", 0.8]
    more += ["--state", tmp_path / "s"] if durable else []
    with running(path, *more) as url:
        until(lambda: alerts_of(url)["t"] == 1001)
        (alert,) = [a for a in alerts_of(url)["alerts"] if a["t"] == 1001]
        assert alert["id"] == "1000" and alert.get("answer") is None
        client, said = Client(url), {"id": "1000", "answer": "usual"}
        where = "/live/rows.csv/feedback"
        for headers, status in (
            ({"Origin": "http://evil.example"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Host": "evil.example"}, 403), ({"Content-Type": "text/plain"}, 415),
        ):  # fmt: skip
            assert client.send("POST", where, said, headers)[0] == status, headers
        for body, field in (
            ({"id": "1000", "answer": "x"}, "answer"), ({"id": "x", "answer": "usual"}, "id"),
            ({"id": 7, "answer": "usual"}, "id"), ({**said, "key": "a"}, "key"), ([], None),
        ):  # fmt: skip
            status, error = client.refused("POST", where, body)
            assert (status, error["field"]) == (422, field)
        big = {"id": "1" * 300_000, "answer": "usual"}
        assert client.refused("POST", where, big)[0] == 413
        for some in ([], [said] * 1001, "usual", [said, {"id": 7, "answer": "usual"}]):
            assert client.refused("POST", where, {"answers": some})[0] == 422
        assert client.refused("POST", where, {"answers": [said], "id": "7"})[1]["field"] == "id"
        wrong = {"answers": [said, {"id": "x", "answer": "usual"}]}  # none of them is taken
        assert client.refused("POST", where, wrong)[1]["field"] == "id"
        assert client.send("POST", where, b"{", {"Content-Type": "application/json"})[0] == 400
        assert client.send("POST", where, said)[0] == 202
        shown = until(lambda: [a for a in alerts_of(url)["alerts"] if a.get("answer")])
        assert [(a["id"], a["answer"]) for a in shown] == [("1000", "usual")]
        numbers = alerts_of(url)["numbers"]
        assert numbers["precision_promised"] == 0.8 and numbers["precision_realised"] == 0.0
        assert client.send("POST", where, {**said, "id": "3"})[0] == 202  # no alert: the run knows
        assert client.send("POST", where, {**said, "answer": "fault"})[0] == 202  # another mind
        until(lambda: [a for a in alerts_of(url)["alerts"] if a.get("answer") == "fault"])
    assert json_lines(tmp_path / "out")[-1]["alert_id"] == "1000"
    if durable:
        found = json.loads(onkel("inspect", tmp_path / "s", "--json").output)
        assert found["model"]["alerts_answered"] == 1 and found["alerts_dismissed"] == 0
        assert found["answers_refused"] == 1 and "no row" in found["first_answers_refused"][0]


def test_several_answers_are_one_request(rng, tmp_path):
    X = rows_with_a_fault(rng)
    X[990:] = X[1000]
    path = write_rows(tmp_path / "rows.csv", X)
    with running(path, "-o", tmp_path / "out") as url:
        until(lambda: alerts_of(url)["t"] == 1001)
        found = alerts_of(url)
        (one,) = [i for i in found["incidents"] if i["end_row"] == 1000]
        client = Client(url)
        told = client.ok("GET", f"/live/rows.csv/incident?number={one['incident']}")
        ids = told["incident"]["alert_ids"]
        assert one["alerts"] == len(ids) > 5 and "alert_ids" not in one
        assert [a["id"] for a in told["alerts"]] == ids[::-1]
        some = {"answers": [{"id": id, "answer": "fault"} for id in ids]}
        assert client.send("POST", "/live/rows.csv/feedback", some)[0] == 202
        shown = until(lambda: [a for a in alerts_of(url)["alerts"] if a.get("answer")])
        assert {a["id"]: a["answer"] for a in shown} == dict.fromkeys(ids, "fault")
        assert client.refused("GET", "/live/rows.csv/incident?number=999")[0] == 404
        assert client.refused("GET", "/live/rows.csv/incident?number=x")[0] == 422


def test_a_refused_answer_is_told_at_the_end(rng, tmp_path):
    path = write_rows(tmp_path / "rows.csv", rows_with_a_fault(rng))
    how = ["-o", tmp_path / "out", "--state", tmp_path / "s"]
    assert onkel("detect", path, *how).exit_code == 0
    from onkel.app.run.inbox import Inbox

    Inbox(tmp_path / "s").put([("3", "usual")])
    done = onkel("detect", path, *how)
    assert "1 answers refused" in done.stderr or "1 answer refused" in done.stderr
    assert "an answer could not be taken in: 3 usual: there is no alert 3" in done.stderr


@pytest.mark.long
def test_alerts_of_the_papers_detector_have_no_buttons(rng, tmp_path):
    path = write_rows(tmp_path / "rows.csv", rows_with_a_fault(rng))
    with running(path, "--model", "kernel", "-o", tmp_path / "out") as url:
        until(lambda: alerts_of(url)["t"] == 1001)
        assert all("id" not in alert for alert in alerts_of(url)["alerts"])
        said = {"id": "1000", "answer": "usual"}
        status, error = Client(url).refused("POST", "/live/rows.csv/feedback", said)
        assert status == 422 and error["code"] == "no_feedback"


@pytest.mark.long
def test_keys(rng, tmp_path):
    X = np.concatenate([rows_with_a_fault(rng)] * 2)
    X[:-1][1000] = 0.0
    keys = np.where(np.arange(len(X)) % 2, "a", "b:c")
    path = write_rows(tmp_path / "rows.csv", X, who=keys)
    with running(path, "--key", "who", "-o", tmp_path / "out") as url:
        until(lambda: alerts_of(url)["t"] == len(X))
        alert = until(lambda: [a for a in alerts_of(url)["alerts"] if a["t"] == len(X)])[0]
        assert alert["key"] == "a" and alert["id"].startswith("a:")
        Client(url).send("POST", "/live/rows.csv/feedback", {"id": alert["id"], "answer": "usual"})
        shown = until(lambda: [a for a in alerts_of(url)["alerts"] if a.get("answer")])
        assert [a["id"] for a in shown] == [alert["id"]]
