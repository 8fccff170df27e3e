"""A state folder on the page: its keys as the run's page has them, and answers to its alerts."""

from __future__ import annotations

import json
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import json_lines, onkel, write_rows
from helpers.serving import Client

from onkel.app import conduct
from onkel.app.http.problems import Problem
from onkel.app.live.board import Board
from onkel.app.live.page import Dashboard
from onkel.app.live.states import Folder
from onkel.app.live.watch import Live


@contextmanager
def watching(folder):
    """A state folder on a page; yields what shows it, and a client."""
    shown = Folder(Board(), str(folder))
    shown.look()
    with Dashboard(shown.board, take=shown.take) as page:
        client = Client(page.url)
        yield shown, client
        client.connection.close()


def with_board(monkeypatch, board):
    """Let commands show themselves on a board."""
    prepare = conduct.prepare

    def also(*args):
        session = prepare(*args)
        session.watchers.append(Live(board, "run"))
        return session

    monkeypatch.setattr(conduct, "prepare", also)


def plain(value):
    """As JSON knows it."""
    return json.loads(json.dumps(value))


KINDS = {
    "fleet": ["detect", "--warmup", 30],
    "shared": ["detect", "--share"],
    "lags": ["detect", "--lags", 1, "--warmup", 30],
    "classify": ["classify", "--target", "y", "--model", "linear"],
    "regress": ["regress", "--target", "c", "--model", "linear", "--nu", 0.1],
}


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_shown_as_on_the_page_of_the_run(rng, tmp_path, monkeypatch, kind):
    X, keys = rng.normal(size=(1500, 3)), [f"k{i}" for i in rng.integers(0, 9, 1500)]
    X[1400:1410, 1] += 9.0
    y = {"y": np.where(X[:, 0] > 0, "up", "down")} if kind == "classify" else {}
    path = write_rows(tmp_path / "rows.csv", X, who=keys, **y)
    board = Board()
    with_board(monkeypatch, board)
    task, *more = KINDS[kind]
    words = [task, path, *more, "--key", "who", "--state", tmp_path / "s", "-o", tmp_path / "out"]
    assert onkel(*words).exit_code == 0
    live = board.keys("run")
    with watching(tmp_path / "s") as (shown, client):
        assert shown.board.changes("s")["keyed"] and board.changes("run")["keyed"]
        for by in (live.shown[0], "rows", "latest"):
            found = client.ok("GET", f"/live/s/keys?by={by}&search=k&count=4&start=2")
            assert found == plain(live.table(by, "k", 2, 4))
        assert found["lasting"] and found["keys"] == found["found"] == 9
        assert client.ok("GET", "/live/s/keys") == plain(live.table())
        one = live.key("k3")
        if live.opens:
            assert client.ok("GET", "/live/s/key?key=k3") == plain(one) and one["t"] > 100
        else:
            assert one is None and client.refused("GET", "/live/s/key?key=k3")[0] == 404
        assert client.refused("GET", "/live/s/key?key=%00fleet")[0] == 404
    assert live.opens == (kind in ("fleet", "shared"))


def test_models_are_read_when_they_are_asked_for_only(rng, tmp_path, monkeypatch):
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(900, 2)), who=["a", "b", "c"] * 300)
    words = ["detect", path, "--key", "who", "--state", tmp_path / "s", "-o", tmp_path / "out"]
    assert onkel(*words).exit_code == 0
    from onkel.app.live import stored

    asked, read = [], stored.read
    monkeypatch.setattr(stored, "read", lambda *told: asked.append(told[1]) or read(*told))
    with watching(tmp_path / "s") as (_, client):
        client.ok("GET", "/live/s/alerts")
        assert not asked
        client.ok("GET", "/live/s/keys")
        client.ok("GET", "/live/s/keys?by=rows")
        assert len(asked) == 1  # three keys are one part, read once
        client.ok("GET", "/live/s/key?key=b")
        assert len(asked) == 2
        for file in (tmp_path / "s").glob("models-*"):
            file.unlink()  # as a run does that goes on
        status, _, data = client.send("GET", "/live/s/key?key=b")
        assert status == 503 and "ask again" in json.loads(data)["error"]["message"]


# -- answers -----------------------------------------------------------------------------------


def flushed(rng, rows=2001):
    """Rows with a valve that is flushed now and then: an alert, until somebody says it is usual."""
    X = rng.normal(size=(rows, 3))
    X[1000::500] = [0.0, 12.0, 0.0] + 0.3 * rng.normal(size=(len(X[1000::500]), 3))
    return X


def words_of(tmp_path, path, *more):
    return ["detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out", *more]


def alerts_of(shown):
    return {a["id"]: a for a in shown.board.alerts("s", 0, 1000)["alerts"]}


def test_a_press_does_what_the_command_does(rng, tmp_path):
    X = flushed(rng, 4001)
    path = write_rows(tmp_path / "rows.csv", X[:2001])
    assert onkel(*words_of(tmp_path, path)).exit_code == 0
    where = "/live/s/feedback"
    with watching(tmp_path / "s") as (shown, client):
        assert "2000" in alerts_of(shown) and "answer" not in alerts_of(shown)["2000"]
        said = {"id": "2000", "answer": "usual"}
        for headers, status in (
            ({"Origin": "http://evil.example"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Host": "evil.example"}, 403), ({"Content-Type": "text/plain"}, 415),
        ):  # fmt: skip
            assert client.send("POST", where, said, headers)[0] == status, headers
        status, error = client.refused("POST", where, {**said, "id": "2001"})
        assert status == 422 and "has learned 2001 rows" in error["message"]
        some = {"answers": [said, {"id": "3", "answer": "usual"}]}
        assert (
            "None of the 2 answers was taken" in client.refused("POST", where, some)[1]["message"]
        )
        assert not (tmp_path / "s" / "answers.sqlite").exists()
        assert client.send("POST", where, said)[0] == 202
        alert = alerts_of(shown)["2000"]
        assert (alert["answer"], alert["waits"]) == ("usual", "the next run takes it in")
        assert not shown.look()  # nothing more is new
    listed = json.loads(onkel("feedback", tmp_path / "s", "--list", "--json").stdout)
    assert [a["id"] for a in listed["answers_to_take_in"]] == ["2000"]
    with open(path, "a") as file:
        np.savetxt(file, X[2001:], delimiter=",", fmt="%.17g")
    assert onkel(*words_of(tmp_path, path)).exit_code == 0
    rows = [line["row"] for line in json_lines(tmp_path / "out")]
    assert 2000 in rows and not {2500, 3000, 3500, 4000} & {*rows}
    with watching(tmp_path / "s") as (shown, client):
        alert = alerts_of(shown)["2000"]
        assert (alert["answer"], alert["waits"]) == ("usual", "")
        assert onkel("feedback", tmp_path / "s", "2000", "fault").exit_code == 0
        assert shown.look()  # what the command says is shown, too
        assert alerts_of(shown)["2000"]["answer"] == "fault"
        assert alerts_of(shown)["2000"]["waits"] == "the next run takes it in"


def test_an_answer_that_the_run_has_refused_says_why(rng, tmp_path):
    path = write_rows(tmp_path / "rows.csv", flushed(rng))
    assert onkel(*words_of(tmp_path, path, "--alerts-kept", 1)).exit_code == 0
    from onkel.app.run.inbox import Inbox

    first = json_lines(tmp_path / "out")[0]["alert_id"]
    Inbox(tmp_path / "s").put([(first, "usual")])
    assert onkel(*words_of(tmp_path, path, "--alerts-kept", 1)).exit_code == 0
    with watching(tmp_path / "s") as (shown, _):
        alert = alerts_of(shown)[first]
        assert alert.get("answer") is None and f"no alert {first}" in alert["refused"]


def test_alerts_of_the_papers_detector_have_no_buttons_here_either(rng, tmp_path):
    path = write_rows(tmp_path / "rows.csv", flushed(rng))
    assert onkel(*words_of(tmp_path, path, "--model", "kernel")).exit_code == 0
    with watching(tmp_path / "s") as (shown, client):
        alerts = shown.board.alerts("s", 0, 10)["alerts"]
        assert alerts and all("id" not in alert for alert in alerts)
        said = {"id": "2000", "answer": "usual"}
        status, error = client.refused("POST", "/live/s/feedback", said)
        assert status == 422 and "another model than Detector" in error["message"]


@pytest.mark.parametrize("durable", [True, False])
def test_the_page_of_a_run_that_is_over(rng, tmp_path, monkeypatch, durable):
    """With a state an answer waits for the next run; without one it is refused, not lost."""
    board, prepare, held = Board(), conduct.prepare, []
    finish = conduct._finish

    def also(*args):
        session = prepare(*args)
        held.append(Live(board, "run"))
        session.watchers.append(held[0])
        return session

    def over(session, *rest):
        finish(session, *rest)
        held[0].finish(session)
        if durable:
            held[0].take([("2000", "usual")])
        else:
            with pytest.raises(Problem, match="no --state in which answers could wait"):
                held[0].take([("2000", "usual")])

    monkeypatch.setattr(conduct, "prepare", also)
    monkeypatch.setattr(conduct, "_finish", over)
    path = write_rows(tmp_path / "rows.csv", flushed(rng))
    words = ["detect", path, "-o", tmp_path / "out"]
    done = onkel(*words, *(["--state", tmp_path / "s"] if durable else []))
    assert done.exit_code == 0, done.output
    (alert,) = [a for a in board.alerts("run", 0, 1000)["alerts"] if a["id"] == "2000"]
    assert alert.get("answer") == ("usual" if durable else None)
    assert alert.get("waits", "") == ("the next run takes it in" if durable else "")
