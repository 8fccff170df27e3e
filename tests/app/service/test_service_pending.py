"""Labels that come late, in the service: remembered, answered, killed in between."""

from __future__ import annotations

import http.client
import json
import threading
import time

import numpy as np
import pytest
from helpers.serving import Client, Process, served

pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")

from onkel import Classifier, KernelClassifier, Late, Regressor, files


def made(client, name="late", task="classification", **more):
    return client.ok("POST", "/models", {"name": name, "task": task, "pending": 5000, **more})


def file_of(client, name="late"):
    return client.send("GET", f"/models/{name}/file")[2]


@pytest.fixture
def one(tmp_path):
    with served(tmp_path / "s", pending=5000) as found:
        yield found


def remember(client, X, name="late", **more):
    body = {"X": np.asarray(X).tolist(), "remember": True, **more}
    return client.ok("POST", f"/models/{name}/predict", body)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_it_is_the_librarys_late(one, rng, task):
    client = one.client
    kind = Classifier() if task == "classification" else Regressor()
    late = Late(kind, keep=5000, ask=0.1)
    made(client, task=task, ask=0.1)
    X = rng.normal(size=(300, 3))
    y = np.where(X[:, 0] > 0, "up", "down") if task == "classification" else X[:, 0]
    for part in np.split(np.arange(300), 6):
        told, said = remember(client, X[part]), late.predict(X[part])
        assert told["ids"] == said.ids and told["ask"] == said.ask.tolist()
        expected = [None if v is None or v != v else v for v in said.prediction.tolist()]
        assert told["values"] == expected
        if said.interval is not None and late.t_:
            assert told["interval"] == said.interval.tolist()
        ids = [said.ids[i] for i in rng.permutation(len(part))[:30]]
        labels = [y[int(id)].item() for id in ids]
        answer = client.ok("POST", "/models/late/learn", {"ids": ids, "y": labels})
        late.learn(ids, labels)
        assert (answer["learned"], answer["skipped"], answer["t"]) == (30, 0, late.t_)
    assert file_of(client) == files.dumps(late)
    shown = client.ok("GET", "/models/late")["pending"]
    told = json.loads(json.dumps(late.report()))
    assert {**shown, "bytes": 0} == {**told, "bytes": 0} and shown["waiting"] == 120


def test_other_ways_to_learn_go_on(one, rng):
    """Rows with labels, questions, explanations; and a model without pending is as it was."""
    client, X = one.client, rng.normal(size=(50, 2))
    made(client)
    assert client.ok("GET", "/models/late")["diagnostics"] is None
    remember(client, X[:5])
    body = {"X": X.tolist(), "y": (X[:, 0] > 0).tolist()}
    client.ok("POST", "/models/late/learn", body)
    assert client.ok("POST", "/models/late/predict", {"X": X.tolist()})["t"] == 50
    client.ok("POST", "/models/late/explain", {"x": X[0].tolist()})
    shown = client.ok("GET", "/models/late")
    assert shown["pending"]["waiting"] == 5 and shown["diagnostics"]["t"] == 50
    client.ok("POST", "/models", {"name": "plain", "task": "classification"})
    assert client.ok("GET", "/models/plain")["pending"] is None


def test_tables_wait_too(one):
    rows = [{"carrier": "AA", "minutes": 3.0}, {"carrier": "UA", "minutes": None}] * 10
    made(one.client)
    body = {"X": rows, "remember": True, "ids": [f"f{i}" for i in range(20)]}
    one.client.ok("POST", "/models/late/predict", body)
    more = {"X": [{"carrier": "AA", "minutes": "late"}], "remember": True, "ids": ["g"]}
    assert one.client.refused("POST", "/models/late/predict", more)[0] == 422
    ids = [f"f{i}" for i in range(19)]
    one.client.ok("POST", "/models/late/learn", {"ids": ids, "y": ["on", "off"] * 9 + ["on"]})
    told = one.client.ok("POST", "/models/late/predict", {"X": rows[:2]})
    assert told["values"] == ["on", "off"]
    columns = one.client.ok("GET", "/models/late")["columns"]
    assert columns["carrier"] == {"kind": "category"}


def test_the_same_request_twice_keeps_rows_once(one, rng):
    made(one.client)
    X = rng.normal(size=(4, 2)).tolist()
    body = {"X": X, "remember": True}
    first = one.client.ok("POST", "/models/late/predict", body, Idempotency_Key="a")
    assert one.client.ok("POST", "/models/late/predict", body, Idempotency_Key="a") == first
    labels = {"ids": first["ids"][:2], "y": ["x", "y"]}
    learned = one.client.ok("POST", "/models/late/learn", labels, Idempotency_Key="b")
    assert one.client.ok("POST", "/models/late/learn", labels, Idempotency_Key="b") == learned
    shown = one.client.ok("GET", "/models/late")["pending"]
    assert (shown["predicted"], shown["answered"], shown["waiting"]) == (4, 2, 2)
    told = one.client.refused("POST", "/models/late/predict", {"X": X}, Idempotency_Key="a")
    assert told[1]["code"] == "key_reused"


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A service that is only asked for what is refused: of two rows one is answered."""
    with served(tmp_path_factory.mktemp("asked") / "s", pending=5000) as found:
        made(found.client)
        remember(found.client, [[1, 2], [3, 4]])
        found.client.ok("POST", "/models/late/learn", {"ids": ["0"], "y": ["b"]})
        yield found.client


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        ("learn", {"ids": ["9"], "y": ["a"]}, "ids[0]", "no row waits under the id '9'"),
        ("learn", {"ids": ["1", "0"], "y": ["a", "a"]}, "ids[1]", "answered already"),
        ("learn", {"ids": ["1", "1"], "y": ["a", "a"]}, "ids[1]", "twice in this call"),
        ("learn", {"ids": ["1"], "y": []}, "y", "0 values for 1 ids"),
        ("learn", {"ids": [], "y": []}, "ids", "ids must be 1 to"),
        ("learn", {"ids": ["1"]}, "y", "missing"),
        ("learn", {"y": ["a"]}, "ids", "missing"),
        ("learn", {"ids": ["1"], "y": ["a"], "skip": True}, "skip", "unknown field"),
        ("learn", {"ids": ["1"], "y": ["a"], "sample_weight": [-1]}, "sample_weight", "at least 0"),
        ("learn", {"ids": ["1"], "y": [1.5]}, "y", "continuous"),
        ("learn", {"ids": ["1"], "y": ["a" * 2000]}, "y", "up to 1000"),
        ("learn", {"ids": ["1"], "y": ["a"], "time": ["soon"]}, "time", "time must hold"),
        ("learn", {"ids": [1.5], "y": ["a"]}, "ids[0]", "Expected"),
        ("learn", {"X": [[1, 2]], "y": ["a"], "ids": ["1"]}, "ids", "without X"),
        ("learn", {"X": [[1, 2]], "y": ["a"], "remember": True}, "remember", "by predict"),
        ("predict", {"X": [[1, 2]], "remember": True, "ids": ["a"]}, "ids", "Give ids= in all"),
        ("predict", {"X": [[1, 2]], "ids": ["a"]}, "ids", '"remember": true'),
        ("predict", {"X": [[1, 2]], "remember": True, "y": ["a"]}, "y", "no y yet"),
        ("predict", {"X": [[1, 2, 3]], "remember": True}, "X", "2 features"),
        ("predict", {"X": [[1, None]], "remember": True}, "X", "NaN"),
        ("predict?output=probability", {"X": [[1, 2]], "remember": True}, "output", "leave output"),
    ],
)  # fmt: skip
def test_bad_requests_change_nothing(asked, path, body, field, words):
    before = file_of(asked)
    status, error = asked.refused("POST", f"/models/late/{path}", body)
    told = error["field"] and error["field"].replace("[...]", "[0]")
    assert status == 422 and words in error["message"] and told == field
    assert file_of(asked) == before


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"pending": "soon"}, "pending", "pending is a duration"),
        ({"pending": 0}, "pending", "1 to 5000 rows may wait"),
        ({"pending": 5001}, "pending", "1 to 5000 rows may wait"),
        ({"ask": 0.1}, "ask", "give pending, too"),
        ({"pending": 9, "ask": 1.5}, "ask", "ask must be"),
        ({"pending": 9, "keyed": True}, "pending", "without keys"),
        ({"pending": 9, "task": "novelty"}, "pending", "classifier or a regressor"),
        ({"pending": 9, "ask": 0.1, "task": None, "kind": "LinearRegressor"}, "ask", "intervals"),
    ],
)
def test_models_that_cannot_be(asked, body, field, words):
    wanted = {"name": "new", "task": "classification", **body}
    status, error = asked.refused("POST", "/models", wanted)
    assert status == 422 and error["field"] == field and words in error["message"]


def test_a_model_that_keeps_nothing(one):
    one.client.ok("POST", "/models", {"name": "plain", "task": "classification"})
    status, error = one.client.refused(
        "POST", "/models/plain/predict", {"X": [[1]], "remember": True}
    )
    assert status == 422 and "keeps no rows" in error["message"] and error["field"] == "remember"
    assert one.client.refused("POST", "/models/plain/learn", {"ids": ["0"], "y": ["a"]})[0] == 422


def test_labels_of_rows_that_are_gone_can_be_left_out(one):
    made(one.client, pending=2)
    told = remember(one.client, [[1, 2], [3, 4], [5, 6]])
    body = {"ids": told["ids"], "y": ["a", "b", "c"], "skip_unknown": True}
    answer = one.client.ok("POST", "/models/late/learn", body)
    assert (answer["learned"], answer["skipped"]) == (2, 1)
    assert one.client.ok("GET", "/models/late")["pending"]["expired"] == 1


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_labels_of_no_row_that_waits_are_nothing_to_show(one, task):
    made(one.client, task=task)
    body = {"ids": ["0"], "y": [1.0], "skip_unknown": True}
    for t in range(2):
        answer = one.client.ok("POST", "/models/late/learn", body)
        assert (answer["learned"], answer["skipped"], answer["t"]) == (0, 1, t)
        one.client.ok("POST", "/models/late/learn", {"X": [[1.0]], "y": [1.0]})
    assert one.engine.watch.trouble == "" and one.engine.faults == 0


def test_labels_of_several_targets_of_no_row_that_waits(one):
    made(one.client, task="regression")
    one.client.ok("POST", "/models/late/learn", {"X": [[1.0]], "y": [[1.0, 2.0]]})
    for y in ([1.0], [[1.0, 2.0]]):
        body = {"ids": ["0"], "y": y, "skip_unknown": True}
        assert one.client.ok("POST", "/models/late/learn", body)["learned"] == 0
    assert one.engine.watch.trouble == "" and one.engine.faults == 0


FIRST = [[[1.0, 2.0]], [{"a": 1.0, "b": "u"}], [{"a": 1.0}], [["u", 2.0]]]


@pytest.mark.few(2)
@pytest.mark.parametrize("kept", FIRST)
@pytest.mark.parametrize("came", [*FIRST, [[1.0]], [[1.0, 2.0, 3.0]], [[1.0, "u", 2.0]]])
def test_rows_that_wait_and_first_rows_have_the_same_columns(one, kept, came):
    """Else the model's file could not be loaded, and no snapshot had it."""
    made(one.client, task="regression")
    one.client.ok("POST", "/models/late/predict", {"X": kept, "remember": True})
    told = one.client.send("POST", "/models/late/learn", {"X": came, "y": [1.0]})
    assert told[0] == (200 if kept == came else told[0]) and told[0] in (200, 422), told
    assert files.dumps(files.loads(file_of(one.client))) == file_of(one.client)
    one.client.ok("POST", "/models/late/learn", {"ids": ["0"], "y": [2.0]})
    assert files.dumps(files.loads(file_of(one.client))) == file_of(one.client)
    assert one.engine.faults == 0 and one.engine.watch.trouble == ""


def test_files_go_out_and_come_in(one, rng):
    made(one.client)
    remember(one.client, rng.normal(size=(5, 2)))
    data = file_of(one.client)
    kind = {"Content-Type": "application/octet-stream"}
    assert one.client.send("PUT", "/models/copy/file", data, kind)[0] == 201
    assert one.client.ok("GET", "/models/copy")["kind"] == "Classifier"
    one.client.ok("POST", "/models/copy/learn", {"ids": ["3"], "y": ["a"]})
    assert one.client.ok("GET", "/models/late")["pending"]["waiting"] == 5
    large = files.dumps(Late(Classifier(), keep=6000))
    status, _, data = one.client.send("PUT", "/models/large/file", large, kind)
    assert status == 422 and b"5000 rows may wait" in data


def test_rows_that_wait_count_as_the_models(tmp_path, rng):
    with served(tmp_path / "s", model_bytes=100_000) as one:
        made(one.client)
        X = rng.normal(size=(400, 2))
        remember(one.client, X)
        status, error = one.client.refused(
            "POST", "/models/late/predict", {"X": X.tolist(), "remember": True}
        )
        assert status == 409 and error["code"] == "model_too_large"
        one.client.ok("POST", "/models/late/learn", {"ids": ["7"], "y": ["a"]})


def test_by_the_clock_a_restart_is_the_same(tmp_path, rng):
    """Requests that tell no time are stamped in the log, so that a replay expires the same rows."""
    folder, X = tmp_path / "s", rng.normal(size=(6, 2))
    with served(folder) as one:
        made(one.client, pending="1s")
        remember(one.client, X[:3])
        time.sleep(1.1)
        remember(one.client, X[3:])
        assert one.client.ok("GET", "/models/late")["pending"]["expired"] == 3
        one.client.ok("POST", "/models/late/learn", {"ids": ["4"], "y": ["a"]})
        before = file_of(one.client)
        one.engine.keeper.snapshot = lambda: None  # the log alone must do
    with served(folder) as one:
        assert one.engine.replayed and file_of(one.client) == before


# -- kills -----------------------------------------------------------------------------------------


class Sender(threading.Thread):
    """Remembers rows, and answers earlier ones, each request until it is acknowledged."""

    def __init__(self, where, rng):
        super().__init__()
        self.where, self.rng, self.stop = where, rng, threading.Event()
        self.done, self.retries, self.error = [], 0, None

    def run(self):
        try:
            waiting = []
            while not self.stop.is_set():
                X = self.rng.normal(size=(5, 3)).tolist()
                told = self.send("predict", {"X": X, "remember": True})
                self.done.append((told["position"], "predict", X, told["values"], told["ask"]))
                waiting += zip(told["ids"], X, strict=True)
                at = sorted(self.rng.permutation(len(waiting))[:4].tolist(), reverse=True)
                some = [waiting.pop(i) for i in at]
                ids, y = [id for id, _ in some], [bool(row[0] > 0) for _, row in some]
                told = self.send("learn", {"ids": ids, "y": y})
                self.done.append((told["position"], "learn", ids, y, told["t"]))
        except BaseException as error:
            self.error = error

    def send(self, path, body):
        key = f"{len(self.done)}"
        while True:
            try:
                client = Client(self.where["url"])
                status, _, data = client.send(
                    "POST", f"/models/late/{path}", body, {"Idempotency-Key": key}
                )
                client.connection.close()
                assert status == 200, data
                return json.loads(data)
            except (OSError, http.client.HTTPException):
                self.retries += 1
                time.sleep(0.02)


@pytest.mark.long
def test_kill(tmp_path, rng):
    """Nothing acknowledged is lost, nothing is applied twice: the same bits as the library's."""
    options = ["--snapshot-bytes", "20000", "--snapshot-seconds", "1"]
    process, where = Process(tmp_path / "state", *options), {}
    where["url"] = process.url
    made(Client(process.url), task=None, kind="KernelClassifier", ask=0.1)
    sender = Sender(where, rng)
    sender.start()
    for _ in range(8):
        time.sleep(float(rng.uniform(0.2, 0.8)))
        process.kill()
        process = Process(tmp_path / "state", *options)
        where["url"] = process.url
    time.sleep(0.3)
    sender.stop.set()
    sender.join()
    assert sender.error is None, sender.error
    late = Late(KernelClassifier(), keep=5000, ask=0.1)
    for _, what, first, second, third in sorted(sender.done):
        if what == "predict":
            said = late.predict(np.array(first))
            assert (said.prediction.tolist(), said.ask.tolist()) == (second, third)
        else:
            late.learn(first, second)
            assert late.t_ == third
    assert len(sender.done) > 20
    assert file_of(Client(process.url)) == files.dumps(late)
    assert process.stop() == 0
