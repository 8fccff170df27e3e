"""A fuzzer that reads the service's own description: no crash, no 500, nothing else touched."""

from __future__ import annotations

import itertools
import json
import os
import re

import numpy as np
from helpers.fuzzing import NUMBERS, TEXTS, Fuzzer, Requests
from helpers.serving import Client, served
from helpers.sizes import size

from onkel import files
from onkel.app.service.archive import Keep

BOTH_SIDES = {200, 201, 404, 422}
ROUNDS = int(os.environ.get("ONKEL_FUZZ", size("600", "800")))


def test_fuzz(tmp_path, rng):
    limits = {"models": 8, "model_bytes": 2**20, "classes": 20}
    with served(tmp_path, seconds=20.0, archive=Keep.of("1d"), **limits) as one:
        client = one.client
        kept = np.random.default_rng(0).normal(size=(50, 2))
        client.ok("POST", "/models", {"name": "kept", "kind": "NoveltyDetector"})
        client.ok("POST", "/models", {"name": "prey", "kind": "KernelClassifier", "pending": 50})
        client.ok("POST", "/models/kept/learn", {"X": kept.tolist()})
        before = client.send("GET", "/models/kept/file")[2]
        statuses = attack(one, rng)
        assert set(statuses) >= BOTH_SIDES, "both sides of the fence were visited"
        assert max(statuses) < 500, statuses
        assert_free(one)
        assert client.send("GET", "/models/kept/file")[2] == before
        alive = {s.spec.name: files.dumps(s.model) for s in one.engine.slots()}
        told = {s.spec.name: s.incidents and s.incidents.dumps() for s in one.engine.slots()}
    with served(tmp_path) as again:
        slots = again.engine.slots()
        assert {s.spec.name: files.dumps(s.model) for s in slots} == alive
        assert {s.spec.name: s.incidents and s.incidents.dumps() for s in slots} == told


def test_answers_that_fit_and_that_do_not(tmp_path, rng):
    """Bodies drawn from the description, to a model with alerts: some are taken, none hurts."""
    given = {"nu": 0.4, "warmup": 0, "terms": 20}
    with served(tmp_path, seconds=20.0) as one:
        client = one.client
        client.ok("POST", "/models", {"name": "often", "kind": "Detector", "parameters": given})
        X = np.random.default_rng(0).normal(size=(300, 2)) ** 3
        client.ok("POST", "/models/often/learn", {"X": X.tolist()})
        document, statuses = client.ok("GET", "/openapi.json"), {}
        path = "/models/{name}/feedback"
        content = document["paths"][path]["post"]["requestBody"]["content"]
        fuzzer = Fuzzer(document, rng)
        for _ in range(ROUNDS):
            body, kind = fuzzer.body(content)
            where = path.replace("{name}", "often")
            status, _, data = client.send("POST", where, body, {"Content-Type": kind})
            assert status < 500, (body, data)
            statuses[status] = statuses.get(status, 0) + 1
        assert {200, 404, 422} <= set(statuses), statuses
        assert client.ok("GET", "/models/often")["diagnostics"]["alerts_answered"] > 0
        assert_free(one)
        alive = files.dumps(one.engine.slot("often").estimator)
    with served(tmp_path) as again:
        assert files.dumps(again.engine.slot("often").estimator) == alive


def assert_free(one):
    """All is well, and nothing waits that nobody will answer."""
    told = one.client.ok("GET", "/health")
    assert told["status"] == "ok" and told["waiting"] == 0, told
    assert [slot.waiting for slot in one.engine.slots()] == [0] * len(one.engine.slots())


def test_what_cannot_be_kept_on_every_route(tmp_path, rng):
    """Each route with a body, each value, more often than requests may wait; keys stay usable."""
    limits = {"waiting": 3, "models": 8, "classes": 20}
    with served(tmp_path, seconds=20.0, archive=Keep.of("1d"), **limits) as one:
        client = one.client
        for name, kind in KINDS.items():
            more = {"pending": 50} if name == "late" else {}
            client.ok("POST", "/models", {"name": name, "kind": kind, **more})
        document = client.ok("GET", "/openapi.json")
        fuzzer, refused, keys = Fuzzer(document, rng), {}, map(str, itertools.count())
        for _ in range(size(3, 20)):
            for path, method, operation in with_bodies(document):
                for number in [*NUMBERS, *TEXTS]:
                    name = fuzzer.pick([*KINDS])
                    body, kind = spoiled_body(fuzzer, operation, number)
                    key = next(keys)
                    told = {"Content-Type": kind, "Idempotency-Key": key}
                    where = path.replace("{name}", name)
                    status, _, data = client.send(method, where, body, told)
                    assert status < 500, (method, where, body, data)
                    if status >= 400 and path.endswith("learn"):
                        refused[key] = name
        assert_free(one)
        assert len(refused) > 30
        for key, name in [*refused.items()][:: max(1, len(refused) // 40)]:
            good = {"X": [[1.0, 2.0]], "y": [1.0]}
            client.ok("POST", f"/models/{name}/learn", good, Idempotency_Key=key)


KINDS = {"det": "NoveltyDetector", "self": "Detector", "reg": "KernelRegressor",
         "clf": "LinearClassifier", "late": "KernelClassifier"}  # fmt: skip
GOOD = {
    "Batch": {"X": [[1.0, 2.0]], "y": [1.0], "sample_weight": [1.0], "classes": [1.0, 2.0],
              "keys": ["a"], "ids": ["a"]},
    "Labels": {"ids": ["a", 3], "y": [1.0, 2.0], "sample_weight": [1.0, 1.0], "time": [1.0, 1.0]},
    "Line": {"x": [1.0, 2.0], "y": 1.0, "weight": 1.0, "key": "a"},
    "Question": {"x": [1.0, 2.0], "top": 5, "key": 3},
    "Forget": {"keys": ["a", 3]},
    "Feedback": {"answers": [{"id": 7, "answer": "usual", "key": "a"},
                             {"id": "8", "answer": "fault", "key": 3}]},
    "Replay": {"X": [[1.0, 2.0], [3.0, 4.0]], "settings": [{"nu": 0.1, "recent": 5}], "gap": 5,
               "time": [1.0, "2026-10-01"], "keys": ["a", 3]},
    "Recall": {"settings": [{"nu": 0.1, "recent": 5}], "since": "30d", "keys": ["a", 3], "gap": 5},
    "Create": {"name": "new", "kind": "KernelClassifier", "features": ["a"],
               "pending": 50, "ask": 0.1,
               "parameters": {"kernel": {"name": "gaussian", "gamma": 0.5}, "recent": 5,
                              "class_weight": {"a": 2.0}}},
}  # fmt: skip
"""Bodies in which every field is there to be spoiled."""


def with_bodies(document):
    """Return path, method and description of each operation that takes a body."""
    return [
        (path, method.upper(), operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters" and "requestBody" in operation
    ]


def spoiled_body(fuzzer, operation, value):
    """Return a body in which one number, or text, is another, and its type."""
    content = operation["requestBody"]["content"]
    kind = fuzzer.pick([*content])
    if "schema" not in content[kind]:
        return value, kind
    schema = content[kind]["schema"]
    schema = fuzzer.pick(schema["anyOf"]) if "anyOf" in schema else schema
    good = GOOD[schema["$ref"].rpartition("/")[2]]
    data = json.dumps(good).encode()
    pattern = rb"-?\d[\d.e+-]*" if value in NUMBERS else rb'"[^"\\]*"'
    at = fuzzer.pick([*re.finditer(pattern, data)])
    return data[: at.start()] + value + data[at.end() :], kind


def attack(one, rng):
    """Send requests drawn from the description; return how often each status came.

    If by chance none of them has hit both sides of the fence, there are more.
    """
    requests = Requests(one.client.ok("GET", "/openapi.json"), rng)
    client, statuses = Client(one.url), {}
    while requests.made < (ROUNDS if set(statuses) >= BOTH_SIDES else 10 * ROUNDS):
        method, path, body, headers = requests.next()
        status, told, data = client.send(method, path, body, headers)
        statuses[status] = statuses.get(status, 0) + 1
        assert status < 500, (method, path, body, headers, data)
        if status >= 400:
            assert told["content-type"] == "application/json", (method, path, body)
            assert set(json.loads(data)["error"]) >= {"code", "message", "field"}
    return statuses
