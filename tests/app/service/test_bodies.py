"""Bodies at the edge of what can be kept: refused with their field, and nothing is held back."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from helpers.serving import JSON, Client, examples, served
from helpers.sizes import size

from onkel import LinearClassifier, LinearRegressor, files
from onkel.app.http.problems import Problem
from onkel.app.service import bodies
from onkel.app.service.bodies import Batch, Create, Question
from onkel.app.service.limits import Limits
from onkel.judge.rows import NamedRows

KINDS = {"clf": "KernelClassifier", "reg": "KernelRegressor", "det": "NoveltyDetector"}
FILE = {"Content-Type": "application/octet-stream"}
X = [[1.0, 2.0], [3.0, 4.0]]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("state"), waiting=5, features=200_000) as one:
        for name, kind in KINDS.items():
            one.client.ok("POST", "/models", {"name": name, "kind": kind})
        yield one


@pytest.fixture
def client(service):
    yield Client(service.url)
    assert service.engine.waiting == 0
    assert service.client.ok("GET", "/health")["status"] == "ok"


BEYOND = [2**63, -(2**63) - 1, 10**30, -(10**300)]


@pytest.mark.few
@pytest.mark.parametrize("value", BEYOND, ids=["2^63", "-2^63-1", "10^30", "-10^300"])
@pytest.mark.parametrize("name", KINDS)
def test_whole_numbers_beyond_64_bits(client, name, value):
    """More often than requests may wait; the key can be used afterwards."""
    good = {"X": X, "y": [0, 1]}
    for path in (f"/models/{name}/learn", f"/models/{name}/predict-then-learn"):
        for field in ("y", "classes"):
            for i in range(3):
                told = {"Idempotency-Key": f"{path} {field} {value} {i}"[:190].replace(" ", "/")}
                body = {**good, field: [0, value]}
                status, error = client.refused("POST", path, body, **told)
                assert status == 422 and error["field"].startswith(f"{field}[1]"), error
            client.ok("POST", path, good, **told)
    lines = b"\n".join(json.dumps({"x": X[0], "y": y}).encode() for y in (1, value))
    told = {"Content-Type": "application/x-ndjson"}
    assert client.refused("POST", path, lines, **told)[1]["field"] == "y"
    for field in ("top", "target"):
        body = {"x": X[0], field: value}
        assert client.refused("POST", f"/models/{name}/explain", body)[1]["field"] == field


def test_large_numbers_that_are_no_whole_ones(client):
    """In a row, a weight or a time they are floating numbers as 1e30 is."""
    for name in KINDS:
        body = {"X": [[10**30, 1.0]], "y": [1], "sample_weight": [10**18]}
        status = client.send("POST", f"/models/{name}/predict-then-learn", body)[0]
        assert status in (200, 422)
        client.refused("POST", f"/models/{name}/learn", {"X": [[10**400, 1.0]], "y": [1]})


PARAMETERS = [
    ("KernelClassifier", {"class_weight": {"a": 10**30}}, "parameters.class_weight.a"),
    ("KernelClassifier", {"class_weight": {"a": [{"b": [[1]]}]}}, "parameters.class_weight.a"),
    ("KernelClassifier", {"class_weight": {"a": None}}, "parameters.class_weight.a"),
    ("KernelClassifier", {"class_weight": {"a": True}}, "parameters.class_weight.a"),
    ("NoveltyDetector", {"kernel": {"name": "gaussian", "gamma": 2**63}},
     "parameters.kernel.gamma"),
    ("NoveltyDetector", {"nu": [10**30]}, "parameters.nu[0]"),
    ("Regressor", {"members": [{"kind": "LinearRegressor", "p": 10**30}]},
     "parameters.members[0].p"),
    ("Regressor", {"memory": 10**30}, "parameters.memory"),
    ("NoveltyDetector", {"warmup": -(10**30)}, "parameters.warmup"),
]  # fmt: skip


@pytest.mark.parametrize("kind, parameters, field", PARAMETERS, ids=str)
def test_parameters_beyond_64_bits(client, kind, parameters, field):
    body = {"name": "new", "kind": kind, "parameters": parameters}
    status, error = client.refused("POST", "/models", body)
    assert status == 422 and error["field"] == field, error


BROKEN = [
    ("learn", b'{"X": [[1, 2]], "y": [NaN]}', 400, "y"),
    ("learn", b'{"X": [[1, -Infinity]]}', 400, "X"),
    ("learn", b'{"X": [[1, 2]], "y": ["\\ud800 and more"]}', 400, "y"),
    ("learn", b'{"X": [[1, 2]], "X": [[3, 4]], "y": [1]}', 422, "X"),
    ("learn", b'{"X": [[1, 2]], "y": null, "y": [1]}', 422, "y"),
    ("learn", b'{"X": [{"a": 1, "b": 2}, {"a": 1, "a": 2}]}', 422, "a"),
    ("explain", b'{"x": [1, 2], "top": 1, "top": 2}', 422, "top"),
    ("explain", b'{"x": [1, 2]' + b", \"top\": [" * 90_000, 422, "top"),
    ("", b'{"name": "a", "name": "b", "kind": "NoveltyDetector"}', 422, "name"),
    ("", b'{"name": "a", "kind": "Detector", "parameters": {"nu": 0.1, "nu": 0.2}}', 422, "nu"),
    ("", b'{"name": "a", "kind": "Detector", "parameters": {"nu": NaN}}', 400, "nu"),
    ("", b'{"name": "a", "kind": "Detector", "parameters": ' + b'{"a": ' * 90_000, 400, None),
]  # fmt: skip


@pytest.mark.parametrize("what, body, status, field", BROKEN, ids=[str(b[1][:60]) for b in BROKEN])
def test_bodies_that_say_something_else_than_they_seem(client, what, body, status, field):
    path = f"/models/det/{what}" if what else "/models"
    found, error = client.refused("POST", path, body, **JSON)
    assert (found, error["field"]) == (status, field), error


CLOCK = {"nu": 0.1, "rule": {"name": "norma", "memory": "1h"}}
BESIDE = {
    "a weight below 0": ({"sample_weight": [1.0, -1.0]}, "sample_weight", "weight"),
    "no time": ({}, "time", "time"),
    "an unwanted time": ({"time": [1.0, 2.0]}, "time", "time"),
    "a time that is none": ({"time": ["soon", "later"]}, "time", "time"),
    "a time that runs backwards": ({"time": [2.0, 1.0]}, "time", "time"),
    "a row": ({"X": [[1.0, 2.0, 3.0]] * 2}, "X", "X"),
}


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    """A service with models that forget by the clock, and others, with keys and without."""
    with served(tmp_path_factory.mktemp("timed") / "s") as one:
        for keyed in (False, True):
            for name, kind, parameters in (
                ("plain", "Detector", {}), ("clock", "NoveltyDetector", CLOCK),
            ):  # fmt: skip
                name = f"{name}{keyed}"
                made = {"name": name, "kind": kind, "parameters": parameters, "keyed": keyed}
                one.client.ok("POST", "/models", made)
                body = {"X": [[1.0, 2.0]], **({"keys": ["k"]} if keyed else {})}
                body |= {"time": [0.0]} if name.startswith("clock") else {}
                one.client.ok("POST", f"/models/{name}/learn", body)
        yield one.client


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("case", BESIDE)
def test_what_comes_beside_the_rows_is_named(timed, case, keyed):
    more, field, in_lines = BESIDE[case]
    clock = "time" in case and case != "an unwanted time"
    name = f"clock{keyed}" if clock else f"plain{keyed}"
    body = {"X": [[1.0, 2.0]] * 2, **({"keys": ["k", "k"]} if keyed else {}), **more}
    status, error = timed.refused("POST", f"/models/{name}/learn", body)
    assert (status, error["field"]) == (422, field), error
    words = {"X": "x", "keys": "key", "sample_weight": "weight"}
    lines = [
        json.dumps({words.get(n, n): v[i] for n, v in body.items()}).encode() for i in range(2)
    ]
    status, error = timed.refused(
        "POST", f"/models/{name}/learn", b"\n".join(lines), Content_Type="application/x-ndjson"
    )
    assert (status, error["field"]) == (422, in_lines), error
    if clock and not keyed:
        status, error = timed.refused("POST", f"/models/{name}/replay", body)
        assert (status, error["field"]) == (422, field), error


@pytest.mark.parametrize("line", [b'{"x": [1, 2], "y": 1, "y": 2}', b'{"x": {"a": 1, "a": 2}}'])
def test_lines_with_a_key_twice(client, line):
    told = {"Content-Type": "application/x-ndjson"}
    body = b'{"x": [1, 2], "y": 1}\n' + line
    assert client.refused("POST", "/models/clf/learn", body, **told)[1]["field"] in ("y", "a")


def test_keys_that_only_look_as_if_they_came_twice():
    for body, kind in (
        (b'{"X": ["\\"X\\": 1", "a\\": b"], "y": null, "time": null}', Batch),
        (b'{"X" : [[1]], "time": ["2024-01-01T00:00:00"]}', Batch),
        (b'{"X": [{"X": 1, "y": 2}, {"X": 1, "y": 2}], "y": [1, 2]}', Batch),
        (b'{"name": "a", "parameters": {"name": 1, "p": {"name": 2}}}', Create),
        (b'{"x": {"x": 1, "top": 2}, "top": 3}', Question),
    ):  # fmt: skip
        bodies.read(kind, body)


# -- wide rows ---------------------------------------------------------------------------------


def test_a_hundred_thousand_columns(client):
    count = size(30_000, 100_000)
    names = [f"a column with number {i}" for i in range(count)]
    began = time.process_time()
    body = {"name": "wide", "kind": "LinearRegressor", "features": names}
    client.ok("POST", "/models", body)
    row = dict.fromkeys(names, 1.0)
    client.ok("POST", "/models/wide/learn", {"X": [row], "y": [1.0]})
    client.ok("POST", "/models/wide/predict", {"X": [[1.0] * len(names)]})
    status, error = client.refused("POST", "/models/wide/predict", {"X": [{**row, "x": 1}]})
    assert status == 422 and error["field"] == "X[0]"
    few = {"X": [{names[5]: 1.0}] * 10_000}
    status, error = client.refused("POST", "/models/wide/predict", few)
    assert status == 413 and error["limit"] == 16 * 2**20 // count
    assert time.process_time() - began < 10
    client.ok("DELETE", "/models/wide")


def test_many_keys_are_refused_quickly(client):
    many = {f"key {i}": 1 for i in range(size(20_000, 100_000))}
    began = time.process_time()
    for body in ({"parameters": many}, {"parameters": {"kernel": {"name": "gaussian", **many}}}):
        body = {"name": "new", "kind": "NoveltyDetector", **body}
        assert client.refused("POST", "/models", body)[0] == 422
    assert client.refused("POST", "/models/det/predict", {"X": [many]})[0] in (409, 422)
    assert client.refused("POST", "/models", {"name": "a", **many})[0] == 422
    assert time.process_time() - began < 10


def test_rows_by_name_whole_and_in_part():
    names, limits = ["a", "b", "c"], Limits()
    rows = [{"c": 3.0, "a": 1.0, "b": None}, {"a": 1.0, "b": 2.0, "c": 3.0}]
    whole = bodies.entry_of(Batch(rows), "learn", 1, names, limits).rows()
    np.testing.assert_array_equal(whole, [[1, np.nan, 3], [1, 2, 3]])
    part = bodies.entry_of(Batch([{"c": 3.0}, {}, *rows]), "learn", 1, names, limits).rows()
    np.testing.assert_array_equal(part[:2], [[np.nan, np.nan, 3], [np.nan] * 3])
    np.testing.assert_array_equal(part[2:], whole)
    with pytest.raises(Problem, match="no feature 'd'"):
        bodies.entry_of(Batch([{"d": 1.0}]), "learn", 1, names, limits)


# -- names -------------------------------------------------------------------------------------


def test_names_count_as_the_models_bytes(tmp_path):
    names = [f"{'long ' * 150}{i}" for i in range(1000)]
    with served(tmp_path, model_bytes=2**19) as one:
        body = {"name": "a", "kind": "LinearRegressor", "features": names}
        status, error = one.client.refused("POST", "/models", body)
        assert (status, error["code"], error["field"]) == (409, "model_too_large", "features")
        made = LinearRegressor().partial_fit(NamedRows(np.eye(1000), names), np.arange(1000.0))
        status, error = one.client.refused("PUT", "/models/a/file", files.dumps(made), **FILE)
        assert (status, error["code"]) == (409, "model_too_large")
        body["features"] = names[:100]
        one.client.ok("POST", "/models", body)
        (slot,) = one.engine.slots()
        assert bodies.names_bytes(names[:100]) == slot.bytes > 75_000
        one.client.ok("POST", "/models/a/learn", {"X": [[1.0] * 100], "y": [1.0]})
        assert one.client.ok("GET", "/models")["models"][0]["bytes"] > slot.bytes // 2 > 37_000


def test_files_whose_names_no_answer_could_hold(client):
    half, Z = "\ud800", examples()[0]
    made = LinearRegressor().partial_fit(NamedRows(Z, [half, "b", "c"]), Z[:, 0])
    other = LinearClassifier().partial_fit(Z, np.array([half, "b"] * 30, dtype=object))
    for model in (made, other):
        try:
            data = files.dumps(model)
        except ValueError:
            continue  # the library refuses it by itself
        status, error = client.refused("PUT", "/models/half/file", data, **FILE)
        assert status == 422 and error["code"] == "bad_file"
    long = LinearRegressor().partial_fit(NamedRows(Z, ["a" * 1001, "b", "c"]), Z[:, 0])
    status, error = client.refused("PUT", "/models/long/file", files.dumps(long), **FILE)
    assert status == 422 and error["field"] == "features"
