"""A model with keys in the service: learned, asked, watched and forgotten by key."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers.flights import named
from helpers.serving import Client, served

pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")

import onkel
from onkel import Detector, Fleet, KernelClassifier, KernelRegressor, files
from onkel.fleet.ranking import Ranking
from onkel.fleet.view import FleetView

PARAMETERS = {"nu": 0.05, "terms": 30, "warmup": 40}


def rows(rng, count=300):
    keys = [f"pump {k}" for k in rng.integers(0, 4, count)]
    return keys, rng.normal(size=(count, 2))


@pytest.fixture
def one(tmp_path):
    with served(tmp_path / "s") as found:
        made(found.client)
        yield found


def made(client):
    told = client.ok("POST", "/models", {
        "name": "pumps", "kind": "Detector", "keyed": True, "parameters": PARAMETERS,
        "features": ["flow", "level"]})  # fmt: skip
    assert told["kind"] == "Detector"


def test_it_is_the_librarys_fleet(one, rng, tmp_path):
    fleet = Fleet(Detector(**PARAMETERS))
    client = one.client
    for output in ("prediction", "score", "decision", "p", "rank"):
        keys, X = rows(rng)
        body = {"keys": keys, "X": X.tolist(), "output": output}
        told = client.ok("POST", "/models/pumps/predict-then-learn", body)
        expected = fleet.predict_then_learn(keys, X, output=output)
        np.testing.assert_array_equal(told["values"], expected)
        told = client.ok("POST", "/models/pumps/predict", body)
        np.testing.assert_array_equal(told["values"], fleet.predict(keys, X, output))
    assert told["t"] == fleet.t_ == 1500
    found = files.loads(client.send("GET", "/models/pumps/file")[2])
    assert found.keys() == fleet.keys() and found.t_ == fleet.t_
    shown = client.ok("GET", "/models/pumps")
    assert shown["keyed"] and shown["diagnostics"]["keys"] == 4


def test_lines_and_names(one, rng):
    keys, X = rows(rng, 60)
    lines = "\n".join(
        f'{{"key": "{k}", "x": {{"flow": {a}, "level": {b}}}}}'
        for k, (a, b) in zip(keys, X.tolist(), strict=True)
    )
    kind = {"Content-Type": "application/x-ndjson"}
    status, _, data = one.client.send(
        "POST", "/models/pumps/predict-then-learn", lines.encode(), kind
    )
    assert status == 200 and len(data.splitlines()) == 60


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A service whose model is only asked for what is refused."""
    with served(tmp_path_factory.mktemp("asked") / "s") as found:
        made(found.client)
        yield found.client


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"X": [[1.0, 2.0]]}, "keys", "has keys: give one for each row"),
        ({"X": [[1.0, 2.0]], "keys": []}, "keys", "keys has 0 values for 1 rows"),
        ({"X": [[1.0, 2.0]], "keys": [1.5]}, "keys[0]", "Expected"),
        ({"X": [[1.0, 2.0]], "keys": [None]}, "keys[0]", "Expected"),
        ({"X": [["a", 2.0]], "keys": ["a"]}, "X", "takes rows of numbers here"),
        ({"X": [[1.0, 2.0]], "keys": ["x" * 2000]}, "keys[0]", "up to 1000 characters"),
    ],
)
def test_bad_keys_are_refused(asked, body, field, words):
    before = asked.send("GET", "/models/pumps/file")[2]
    status, problem = asked.refused("POST", "/models/pumps/learn", body)
    told = problem["field"].replace("[...]", "[0]")  # older msgspec does not say which
    assert status == 422 and told == field and words in problem["message"]
    assert asked.send("GET", "/models/pumps/file")[2] == before


def test_keys_for_a_model_that_has_none(one):
    one.client.ok("POST", "/models", {"name": "plain", "kind": "Detector"})
    status, problem = one.client.refused(
        "POST", "/models/plain/learn", {"X": [[1.0]], "keys": ["a"]}
    )
    assert status == 422 and "has no keys" in problem["message"]
    for path in ("keys", "key?key=a"):
        status, problem = one.client.refused("GET", f"/models/plain/{path}")
        assert status == 404 and problem["code"] == "no_keys"


def test_ranked_searched_shown_and_forgotten(one, rng):
    client = one.client
    for _ in range(4):
        keys, X = rows(rng)
        client.ok("POST", "/models/pumps/learn", {"keys": keys, "X": X.tolist()})
    odd = {"keys": ["pump 2"] * 5, "X": [[9.0, -9.0]] * 5}
    client.ok("POST", "/models/pumps/learn", odd)
    told = client.ok("GET", "/models/pumps/keys")
    assert told["keys"] == 4 and told["rows_told"][0]["key"] == "pump 2"
    told = client.ok("GET", "/models/pumps/keys?search=mp%203&by=rows&count=10")
    assert [row["key"] for row in told["rows_told"]] == ["pump 3"]
    one_key = client.ok("GET", "/models/pumps/key?key=pump%202")
    assert one_key["t"] > 200 and len(one_key["scores"]) > 100
    assert [row["feature"] for row in one_key["inputs"]] == ["flow", "level"]
    live = client.ok("GET", "/live/pumps/keys")
    assert live["keys"] == 4
    why = client.ok("POST", "/models/pumps/explain", {"x": [9.0, 0.0], "key": "pump 2"})
    assert why["features"][0]["name"] == "flow"
    for body, status in (({"x": [9.0, 0.0]}, 422), ({"x": [9.0, 0.0], "key": "no"}, 404)):
        assert client.refused("POST", "/models/pumps/explain", body)[0] == status
    told = client.ok("POST", "/models/pumps/forget", {"keys": ["pump 2", "no"]})
    assert told["forgotten"] == 1 and told["keys"] == 3
    assert client.refused("GET", "/models/pumps/key?key=pump%202")[0] == 404
    for query in ("by=size", "count=900", "start=x"):
        assert client.refused("GET", f"/models/pumps/keys?{query}")[0] == 422


@pytest.mark.parametrize("kind", ["KernelClassifier", "KernelRegressor"])
def test_other_tasks(one, kind, rng):
    client = one.client
    client.ok("POST", "/models", {"name": "m", "kind": kind, "keyed": True})
    fleet = Fleet(
        {"KernelClassifier": KernelClassifier, "KernelRegressor": KernelRegressor}[kind]()
    )
    for _ in range(2):
        keys, X = rows(rng)
        y = ["up" if v > 0 else "down" for v in X[:, 0]] if "Class" in kind else X[:, 0].tolist()
        body = {"keys": keys, "X": X.tolist(), "y": y}
        told = client.ok("POST", "/models/m/predict-then-learn", body)
        assert told["values"] == fleet.predict_then_learn(keys, X, y).tolist()
    told = client.ok("POST", "/models/m/predict", {"keys": keys, "X": X.tolist()})
    assert told["values"] == fleet.predict(keys, X).tolist()


KINDS = {
    "Detector": PARAMETERS, "NoveltyDetector": {"average": True}, "Classifier": {},
    "KernelClassifier": {}, "LinearClassifier": {}, "Regressor": {}, "KernelRegressor": {},
    "LinearRegressor": {},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_rows_by_name_whatever_the_model(one, kind, rng):
    """Cells and dicts of models learn the same; a key that is new later has the names, too."""
    task = getattr(onkel, kind).task
    for features in (None, ["flow", "level"]):
        one.client.ok("POST", "/models", {
            "name": f"m{bool(features):d}", "kind": kind, "keyed": True, "features": features,
            "parameters": KINDS[kind]})  # fmt: skip
    for prefix in ("", "", "new "):
        keys, X = rows(rng, 120)
        body = {"keys": [prefix + key for key in keys]}
        if task != "novelty":
            up = np.where(X[:, 0] > 0, "up", "down")
            body["y"] = (up if task == "classification" else X[:, 0]).tolist()
        named = [{"level": level, "flow": flow} for flow, level in X.tolist()]
        said = [
            one.client.ok("POST", f"/models/{name}/predict-then-learn", body | {"X": given})
            for name, given in (("m0", X.tolist()), ("m1", named))
        ]
        assert said[0]["values"] == said[1]["values"]
        asked = {"key": body["keys"][0], "x": named[0]}
        why = one.client.ok("POST", "/models/m1/explain", asked)["features"]
        assert {feature["name"] for feature in why} == {"flow", "level"}
    if task == "novelty":
        for name, given in (("m0", X.tolist()), ("m1", named)):
            said[int(name[1])] = one.client.ok(
                "POST", f"/models/{name}/replay", {"X": given, "keys": keys}
            )
        assert said[0] == said[1]


def test_columns_of_other_kinds_are_refused(one):
    for kind in ("Detector", "Classifier", "KernelRegressor"):
        body = {"name": "m", "kind": kind, "keyed": True, "features": ["flow", "who"],
                "parameters": {"columns": {"who": "category"}}}  # fmt: skip
        status, problem = one.client.refused("POST", "/models", body)
        assert status == 422 and problem["field"] == "parameters.columns"
        assert "with keys are numbers" in problem["message"]


def test_a_restart_brings_all_keys_back(tmp_path, rng):
    fleet = Fleet(Detector(**PARAMETERS))
    with served(tmp_path / "s", key_bytes=30_000) as one:
        made = {"name": "pumps", "task": "novelty", "keyed": True, "parameters": PARAMETERS}
        one.client.ok("POST", "/models", made)
        for _ in range(3):
            keys, X = rows(rng)
            one.client.ok("POST", "/models/pumps/learn", {"keys": keys, "X": X.tolist()})
            fleet.partial_fit(keys, X)
        one.client.ok("POST", "/models/pumps/forget", {"keys": ["pump 1"]})
        fleet.drop("pump 1")
        before = one.client.send("GET", "/models/pumps/file")[2]
    with served(tmp_path / "s", key_bytes=30_000) as again:
        assert again.client.send("GET", "/models/pumps/file")[2] == before
        assert again.engine.board.changes("pumps")["numbers"]["keys"] == 3
        keys, X = rows(rng)
        body = {"keys": keys, "X": X.tolist()}
        told = again.client.ok("POST", "/models/pumps/predict-then-learn", body)
        assert told["values"] == fleet.predict_then_learn(keys, X).tolist()
        assert again.client.ok("GET", "/models/pumps")["diagnostics"]["bytes"] < 200_000


def test_a_fleets_file_is_taken_in(one, rng):
    keys, X = rows(rng)
    fleet = Fleet(KernelRegressor()).partial_fit(keys, X, X[:, 0])
    headers = {"Content-Type": "application/octet-stream"}
    status, _, _ = one.client.send("PUT", "/models/sent/file", files.dumps(fleet), headers)
    assert status == 201
    shown = one.client.ok("GET", "/models/sent")
    assert shown["keyed"] and shown["kind"] == "KernelRegressor"
    told = one.client.ok("POST", "/models/sent/predict", {"keys": keys[:5], "X": X[:5].tolist()})
    assert told["values"] == fleet.predict(keys[:5], X[:5]).tolist()


def test_too_many_keys(tmp_path):
    with served(tmp_path / "s", keys=3) as one:
        one.client.ok("POST", "/models", {"name": "m", "kind": "Detector", "keyed": True})
        one.client.ok("POST", "/models/m/learn", {"keys": [1, 2], "X": [[0.0], [1.0]]})
        body = {"keys": [2, 3, 4], "X": [[0.0]] * 3}
        status, problem = one.client.refused("POST", "/models/m/learn", body)
        assert status == 409 and problem["code"] == "too_many_keys"
        one.client.ok("POST", "/models/m/learn", {"keys": [2, 3], "X": [[0.0]] * 2})


def test_large_fleets_are_not_written_at_every_snapshot(tmp_path, rng, monkeypatch):
    monkeypatch.setattr("onkel.app.service.keeper.LARGE", 1000)
    with served(tmp_path / "s") as one:
        made = {"name": "m", "kind": "Detector", "keyed": True, "parameters": PARAMETERS}
        one.client.ok("POST", "/models", made)
        keys, X = rows(rng)
        one.client.ok("POST", "/models/m/learn", {"keys": keys, "X": X.tolist()})
        one.engine.snapshot()
        first = one.engine.keeper.files[1]
        for _ in range(2):
            one.client.ok("POST", "/models/m/learn", {"keys": keys[:3], "X": X[:3].tolist()})
            one.engine.snapshot()
        then = one.engine.keeper.files[1]
        assert then.file == first.file and len(then.tails) == 2
        before = one.client.send("GET", "/models/m/file")[2]
    with served(tmp_path / "s") as again:
        assert again.client.send("GET", "/models/m/file")[2] == before
        assert again.client.ok("GET", "/health")["status"] == "ok"


def test_keys_that_drift_are_told(one, rng):
    client = one.client
    for shift in (0.0, 0.0, 0.0, 4.0):
        keys, X = ["a"] * 100 + ["b"] * 100, rng.normal(size=(200, 2))
        X[180:] += shift  # the latest of b
        client.ok("POST", "/models/pumps/learn", {"keys": keys, "X": X.tolist()})
    told = client.ok("GET", "/models/pumps/keys?by=drift")
    assert told["keys_drifting"] == 1
    assert [row["key"] for row in told["rows_told"]] == ["b", "a"]
    assert told["rows_told"][0]["drift"] > 1.5 > told["rows_told"][1]["drift"]


def test_a_forgotten_key_is_not_in_the_table(one, rng):
    client = one.client
    keys, X = rows(rng)
    client.ok("POST", "/models/pumps/learn", {"keys": keys, "X": X.tolist()})
    client.ok("POST", "/models/pumps/forget", {"keys": ["pump 2", "never heard"]})
    told = client.ok("GET", "/models/pumps/keys")
    assert sorted(row["key"] for row in told["rows_told"]) == ["pump 0", "pump 1", "pump 3"]
    assert told["keys"] == 3 and told["rows"] == sum(key != "pump 2" for key in keys)


def test_alerts_of_keys_have_a_reason(one, rng):
    client = one.client
    for _ in range(3):
        keys, X = rows(rng)
        client.ok("POST", "/models/pumps/learn", {"keys": keys, "X": X.tolist()})
    client.ok("POST", "/models/pumps/learn", {"keys": ["pump 1"], "X": [[0.0, 30.0]]})
    found = one.engine.watch.board.changes("pumps")
    assert "level 30.0" in found["alerts"][-1]["sentence"]


def test_labels_of_keys_are_counted_while_the_fleet_learns(tmp_path):
    """Nobody waits for the fleet to be asked: all requests would, of all models."""

    def learn(y, key="k"):
        rows = {"X": [[float(i)] for i in range(len(y))], "y": y, "keys": [key] * len(y)}
        return client.send("POST", "/models/c/learn", rows)[0]

    with served(tmp_path / "s", classes=3) as one:
        client = one.client
        client.ok("POST", "/models", {"name": "c", "kind": "KernelClassifier", "keyed": True})
        assert learn(["a", "b"]) == 200
        assert learn(["c", "d"]) == 422 and learn(["c"], "l") == 200 and learn(["d"]) == 422
        fleet = one.engine.slot("c").estimator
        with fleet.still():  # as while it learns
            waiting = threading.Thread(target=learn, args=(["a"],))
            waiting.start()
            assert named(lambda: one.engine.waiting), "it waits for the fleet, not for its turn"
            assert Client(one.url).ok("GET", "/health")["waiting"] == 1
        waiting.join()
        client.ok("POST", "/models/c/forget", {"keys": ["k"]})
        known = len(fleet.classes_)
        assert learn([str(i) for i in range(4 - known)]) == 422
    with served(tmp_path / "s", classes=3) as one:
        client = one.client
        assert learn(["d"]) == 422 and learn(["c"]) == 200


def test_a_key_that_is_forgotten_while_somebody_looks(rng):
    threads = []

    class Looked(Fleet):
        """Whoever sees a key is followed by somebody who forgets it."""

        def __contains__(self, key):
            known = super().__contains__(key)
            threads.append(threading.Thread(target=self.drop, args=(key,)))
            threads[-1].start()
            threads[-1].join(0.05)
            return known

    fleet = Looked(Detector()).partial_fit(["k"] * 9, rng.normal(size=(9, 2)))
    assert FleetView(fleet, Ranking()).key("k")["t"] == 9
    threads[0].join()
    assert fleet.keys() == []
