"""What cannot be saved is not relied on; what cannot be brought back is set aside, with a reason.

The others go on.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing

import pytest
from helpers.serving import served
from helpers.states import bits, crash, learn, make, saved, two_models

from onkel import NoveltyDetector, files
from onkel.app.http.problems import Problem
from onkel.app.service import codec
from onkel.app.service import engine as engines
from onkel.app.service.bodies import Entry
from onkel.app.service.engine import Engine


@pytest.fixture
def engine(tmp_path):
    with two_models(tmp_path / "state") as opened:
        yield opened


def spoiled(monkeypatch, engine, how):
    """Spoil the files that are written of the model `bad`, so that they do not load."""
    own, id = codec.dumps, engine.models.spec("bad").id
    write = type(engine.state).write_model

    def writing(state, model, position, data):
        return write(state, model, position, how(data) if model == id else data)

    monkeypatch.setattr(type(engine.state), "write_model", writing)
    return own


@pytest.mark.parametrize("wrong", ["bytes", "load", "other"])
def test_a_snapshot_that_does_not_load_replaces_nothing(engine, monkeypatch, tmp_path, wrong):
    engine.snapshot()
    learn(engine, "bad", 2)
    learn(engine, "good", 5)
    own = codec.loads
    with monkeypatch.context() as patch:
        if wrong == "bytes":
            spoiled(patch, engine, lambda data: data[:-1] + b"?")
        elif wrong == "load":
            patch.setattr(
                codec, "loads", lambda data: 1 / 0 if data == bits(engine, "bad") else own(data)
            )
        else:
            other = own(bits(engine, "good"))
            patch.setattr(codec, "loads", lambda data: other)
        engine.snapshot()
        (words,) = [w for w in engine.troubles() if "'bad'" in w]
        assert "could not be saved" in words and "does not load" in words
    learn(engine, "bad", 3)
    again = Engine(crash(engine, tmp_path / "copy"))
    assert bits(again, "bad") == bits(engine, "bad")
    assert bits(again, "good") == bits(engine, "good")
    again.close()
    assert [p.name for p in engine.state.log.segments()] != ["00000000000000000001.log"], (
        "the log of the others has gone on"
    )
    engine.snapshot()
    assert engine.troubles() == [] and engine.keeper.unsaved == {}
    assert len([*(engine.state.folder / "models").glob("*.log")]) == 0


def test_a_model_that_can_never_be_saved_lives_on_in_its_log(engine, monkeypatch, tmp_path):
    """Not even once: it is made anew from its own records, which go on growing."""
    own = codec.dumps
    mine = id(engine.slot("bad").estimator)
    monkeypatch.setattr(codec, "dumps", lambda est: 1 / 0 if id(est) == mine else own(est))
    for seed in (2, 3):
        learn(engine, "bad", seed)
        engine.snapshot()
    monkeypatch.setattr(codec, "dumps", own)
    again = Engine(crash(engine, tmp_path / "copy"))
    assert bits(again, "bad") == bits(engine, "bad") and again.troubles() == []
    again.snapshot()
    again.close()


# -- set aside ---------------------------------------------------------------------------------


def test_a_damaged_file_is_named_and_the_others_go_on(engine, tmp_path):
    folder, path = saved(engine, tmp_path / "copy")
    path.write_bytes(path.read_bytes()[:-9] + b"otherwise")
    again = Engine(folder)
    learn(again, "good", 2)
    with pytest.raises(Problem) as caught:
        again.slot("bad")
    assert caught.value.status == 503 and caught.value.code == "set_aside"
    for word in (f"models/{path.name}", "DELETE /models/bad", "PUT /models/bad/file", "restart"):
        assert word in caught.value.message
    with pytest.raises(Problem, match="is set aside"):
        make(again, "bad")
    again.snapshot()
    again.close()
    assert path.read_bytes().endswith(b"otherwise"), "nothing is deleted"


def test_the_page_says_that_a_model_is_set_aside(engine, tmp_path):
    folder, path = saved(engine, tmp_path / "copy")
    path.write_bytes(b"otherwise")
    with served(folder) as one:
        for where in ("/models/bad", "/live/bad"):
            status, _, data = one.client.send("GET", where)
            assert status == 503 and json.loads(data)["error"]["code"] == "set_aside"
        assert one.client.ok("GET", "/models")["aside"] == ["bad"]
        assert one.client.refused("GET", "/live/other")[0] == 404


@pytest.mark.parametrize("how", ["missing", "folder", "link", "unreadable"])
def test_a_file_that_cannot_be_read_at_all(engine, tmp_path, how):
    folder, path = saved(engine, tmp_path / "copy")
    kept = path.rename(tmp_path / "elsewhere")
    if how == "folder":
        path.mkdir()
    elif how == "link":
        path.symlink_to(kept)
    elif how == "unreadable":
        path.write_bytes(b"")
    again = Engine(folder)
    assert [one.spec.name for one in again.models.out_of_use()] == ["bad"]
    assert bits(again, "good") == bits(engine, "good")
    again.close()


@pytest.mark.parametrize("way", ["delete", "replace"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_deleting_or_replacing_clears_it(engine, tmp_path, way, when):
    """Before and after a snapshot, and at a replay where the old one would load again."""
    folder, path = saved(engine, tmp_path / "copy")
    whole, data = path.read_bytes(), bits(engine, "good")
    path.write_bytes(b"nothing")
    again = Engine(folder)
    if way == "delete":
        again.change(Entry("delete", again.models.spec("bad").id)).result(20)
    else:
        make(again, "bad", "import", file=data)
    assert again.troubles() == []
    if when == "after":
        again.snapshot()
        assert not path.exists()
    third = crash(again, tmp_path / "third")
    again.close()
    if when == "before":
        (third / "models" / path.name).write_bytes(whole)
    opened = Engine(third)
    assert ("bad" in opened.models) == (way == "replace") and opened.troubles() == []
    if way == "replace":
        assert bits(opened, "bad") == data
    opened.close()


def test_a_damaged_record_takes_its_model_and_no_other(engine, tmp_path):
    """Acknowledged, the last of the log, one bit wrong: it is not cut off in silence."""
    learn(engine, "bad", 2)
    folder = crash(engine, tmp_path / "copy")
    (path,) = (folder / "log").iterdir()
    data = bytearray(path.read_bytes())
    data[-50] ^= 1
    path.write_bytes(bytes(data))
    for _ in range(2):
        again = Engine(folder)
        assert bits(again, "good") == bits(engine, "good")
        assert "record 5 of its log is damaged" in again.troubles()[0]
        again.close()  # with a snapshot, and its part of the log kept
    (kept,) = (folder / "models").glob("2-*.log")
    assert bytes(data[-400:]) in kept.read_bytes()


def test_a_damaged_record_that_made_a_model(tmp_path):
    engine = Engine(tmp_path / "state")
    make(engine, "first")
    make(engine, "second")
    learn(engine, "second", 1)
    folder = crash(engine, tmp_path / "copy")
    engine.close()
    (path,) = (folder / "log").iterdir()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\xa5first", b"\xa5worst"))
    again = Engine(folder)
    assert [one.spec.name for one in again.models.out_of_use()] == ["~1"]
    assert again.slot("second").estimator.t_ == 30
    make(again, "first")
    again.change(Entry("delete", again.models.spec("~1").id)).result(20)
    assert again.troubles() == []
    again.close()


def test_what_is_kept_of_a_model_may_itself_be_damaged(engine, monkeypatch, tmp_path):
    """The others are saved all the same, and what comes behind it is kept, too."""
    own, mine = codec.dumps, id(engine.slot("bad").estimator)
    with monkeypatch.context() as patch:
        patch.setattr(codec, "dumps", lambda est: 1 / 0 if id(est) == mine else own(est))
        engine.snapshot()
    learn(engine, "bad", 2)
    folder = crash(engine, tmp_path / "copy")
    (tail,) = (folder / "models").glob("2-*.log")
    tail.write_bytes(tail.read_bytes()[:-9])
    for _ in range(2):
        again = Engine(folder)
        assert f"models/{tail.name}" in again.troubles()[0]
        learn(again, "good", 2)
        again.snapshot()
        assert again.keeper.trouble == ""
        again.close()
    assert len([*(folder / "models").glob("2-*.log")]) == 2


def test_a_model_that_cannot_be_made_again(engine, monkeypatch, tmp_path):
    make(engine, "third")
    learn(engine, "third", 1)
    own = engines.replay.build

    def failing(kind, parameters):
        raise RuntimeError("not any more")

    folder = crash(engine, tmp_path / "copy")
    with monkeypatch.context() as patch:
        patch.setattr(engines.replay, "build", failing)
        again = Engine(folder)
        assert len(again.models.out_of_use()) == 3 and "not any more" in again.troubles()[0]
        again.close()
    assert engines.replay.build is own
    again = Engine(folder)
    assert bits(again, "third") == bits(engine, "third")
    again.close()


@pytest.mark.parametrize(
    "change",
    ["UPDATE models SET position = position - 1 WHERE id = 2",
     "UPDATE meta SET name = CAST(name AS BLOB) WHERE name = 'start'",
     "UPDATE models SET file = CAST(file AS BLOB)"],
)  # fmt: skip
def test_a_value_in_the_database_that_was_changed_is_noticed(engine, tmp_path, change):
    folder, _ = saved(engine, tmp_path / "copy")
    with sqlite3.connect(folder / "state.sqlite") as db:
        assert db.execute(change).rowcount
    db.close()
    with pytest.raises(RuntimeError, match=r"state\.sqlite is damaged"):
        Engine(folder)


def test_strays_are_left_alone(engine, tmp_path):
    engine.snapshot()
    folder = crash(engine, tmp_path / "copy")
    for name in ("stray", "models/stray", "models/7-7.model", "log/stray", "log/x.log"):
        (folder / name).mkdir()
    for name in ("note.txt", "models/notes", "log/notes.log"):
        (folder / name).write_text("mine")
    again = Engine(folder)
    learn(again, "bad", 2)
    again.snapshot()
    assert again.troubles() == []
    again.close()
    assert (folder / "models" / "notes").read_text() == "mine"


def test_health_metrics_and_requests_tell_of_it(engine, tmp_path):
    serving = pytest.importorskip("helpers.serving", reason="needs the extra serve")
    folder, path = saved(engine, tmp_path / "copy")
    path.write_bytes(b"nothing")
    with serving.served(folder) as one:
        found = one.client.ok("GET", "/health")
        assert found["status"] == "degraded" and found["aside"] == ["bad"]
        assert path.name in found["trouble"][0]
        text = one.client.send("GET", "/metrics")[2].decode()
        assert "onkel_models_aside 1.0" in text and "onkel_faults_total 0.0" in text
        for method, where, body in (
            ("GET", "", None), ("GET", "/file", None), ("POST", "/learn", {"X": [[1, 2, 3]]}),
            ("POST", "/predict", {"X": [[1, 2, 3]]}), ("POST", "/explain", {"x": [1, 2, 3]}),
        ):  # fmt: skip
            status, _, data = one.client.send(method, f"/models/bad{where}", body)
            error = json.loads(data)["error"]
            assert status == 503 and error["code"] == "set_aside" and path.name in error["file"]
        one.client.ok("POST", "/models/good/learn", {"X": [[1, 2, 3]]})
        data, how = files.dumps(NoveltyDetector()), {"Content-Type": "application/octet-stream"}
        assert one.client.send("PUT", "/models/bad/file", data, how)[0] == 201
        assert one.client.ok("GET", "/health")["status"] == "ok"
        one.client.ok("POST", "/models/bad/learn", {"X": [[1, 2, 3]]})


def test_an_uploaded_model_that_cannot_say_how_it_is_is_refused(monkeypatch):
    data = files.dumps(NoveltyDetector().partial_fit([[0.0], [1.0]]))

    def failing(self):
        raise KeyError("warmup")

    monkeypatch.setattr(NoveltyDetector, "diagnostics_", property(failing))
    with pytest.raises(Problem, match="cannot be used") as caught:
        codec.received(data)
    assert caught.value.status == 422


@pytest.mark.parametrize("when", ["before it is logged", "on its way to the disk", "in the queue"])
def test_what_comes_while_a_model_is_set_aside_is_never_learned(tmp_path, rng, when):
    """It was answered with 404, and the next start learned it."""
    with two_models(tmp_path / "state") as engine:
        learn(engine, "bad", 0)
        slot, gate = engine.slot("bad"), threading.Event()
        X = rng.normal(size=(5, 3))
        late = Entry("learn", slot.spec.id, width=3, numbers=X.tobytes())
        if when == "on its way to the disk":
            append = engine.state.log.append
            engine.state.log.append = lambda records: gate.wait(20) and append(records)
        elif when == "in the queue":
            slot.do(lambda: gate.wait(20))
        answer = None if when == "before it is logged" else engine.change(late)
        if when == "in the queue":
            while engine.state.log.next - 1 == slot.position:
                assert engine.waiting
        engine.models.set_aside(slot.spec, "a test asks for it.")
        gate.set()
        with pytest.raises(Problem, match="a test asks for it") as error:
            (answer or engine.change(late)).result(20)
        assert error.value.status == 503
        t = slot.estimator.t_
        learn(engine, "good", 0)
    with closing(Engine(tmp_path / "state")) as again:
        assert again.slot("bad").estimator.t_ == t and not again.models.aside
