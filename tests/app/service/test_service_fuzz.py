"""A fuzzer that reads the service's own description: no crash, no 500, nothing else touched."""

from __future__ import annotations

import itertools
import json
import os
import re

import numpy as np
from helpers.serving import Client, served
from helpers.sizes import size

from onkel import files

ROUNDS = int(os.environ.get("ONKEL_FUZZ", size("150", "800")))
WEIRD = [
    None, True, -1, 0, 1, 2**63, -(2**63) - 1, 10**30, -(10**30), 1e308, -1e-320, "", "a", "\x00",
    "ü" * 300,
    "../../etc/passwd", [], [[]], [None], {}, {"name": "norma"}, {"name": []}, [[1.0, 2.0]],
    ["text"], "NaN", [[[[1]]]],
]  # fmt: skip
RAW = [b"", b"{", b"\xff\xfe", b"null", b"[" * 3000, b'"', b"NaN", b'{"X": [[NaN]]}', b"\x00" * 100]
NUMBERS = [
    b"9223372036854775808", b"-9223372036854775809", b"1" + b"0" * 30, b"9" * 400, b"9" * 5000,
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-0", b"1e-999", b"[" * 20 + b"]" * 20,
    b"[" * 5000 + b"]" * 5000, b'{"a":' * 300 + b"1" + b"}" * 300,
]  # fmt: skip
"""In the place of a number: what no model, no log or no parser can hold."""
TEXTS = [
    b'"\\ud800"',
    b'"\\udc00\\ud800 x"',
    b'"\\u0000"',
    b'"\xed\xa0\x80"',
    b'"' + b"z" * 3000 + b'"',
]
"""In the place of a text."""
NAMES = ["fuzz", "prey", "a.b-c_d", "..", "%2e%2e", "x" * 65, "a%2fb", "%00", "models"]
PARAMETERS = {
    "nu": 0.1, "kernel": {"name": "laplacian", "gamma": 0.5}, "rule": "norma", "scale": False,
    "loss": {"name": "huber", "nu": 0.2}, "expansion": {"name": "window", "terms": 20}, "p": 3.0,
    "missing": "mean", "average": True, "warmup": 5, "class_weight": {"a": 2.0}, "n_jobs": 1,
    "memory": 50, "share": 0.01, "members": [{"kind": "LinearClassifier", "loss": "logistic"}],
}  # fmt: skip


class Fuzzer:
    """Values that fit a schema, mostly."""

    def __init__(self, document, rng):
        self.schemas = document["components"]["schemas"]
        self.rng = rng

    def pick(self, values):
        return values[int(self.rng.integers(len(values)))]

    def value(self, schema, depth=0):
        rng = self.rng
        if rng.random() < 0.02:
            return self.pick(WEIRD)
        if "$ref" in schema:
            return self.value(self.schemas[schema["$ref"].rpartition("/")[2]], depth)
        if "enum" in schema:
            return self.pick(schema["enum"])
        if "anyOf" in schema:
            return self.value(self.pick(schema["anyOf"]), depth)
        kind = schema.get("type")
        return getattr(self, f"_{kind}", self._any)(schema, depth)

    def _object(self, schema, depth):
        found = {}
        for name, inner in schema.get("properties", {}).items():
            needed = name in schema.get("required", ())
            if self.rng.random() < (0.98 if needed else 0.4):
                found[name] = self._named(name, inner, depth)
        if "kind" in schema.get("properties", ()) and self.rng.random() < 0.95:  # one of the two
            word = self.pick(["kind", "task"])
            found = {k: v for k, v in found.items() if k not in ("kind", "task")}
            found[word] = self.pick(schema["properties"][word]["enum"][:-1])
        if not found and depth:
            found = {self.pick(["a", "b"]): self.value({"type": "number"})}
        if self.rng.random() < 0.02:
            found["extra"] = self.pick(WEIRD)
        return found

    def _named(self, name, inner, depth):
        if name == "parameters" and self.rng.random() < 0.9:
            keys = [k for k in PARAMETERS if self.rng.random() < 0.25]
            return {k: PARAMETERS[k] if self.rng.random() < 0.8 else self.pick(WEIRD) for k in keys}
        if name in ("X", "x") and self.rng.random() < 0.7:  # rows that a model may well take
            rows = self.rng.normal(size=(3, 2)).round(3).tolist()
            return rows if name == "X" else rows[0]
        if name in ("y", "sample_weight") and self.rng.random() < 0.7:
            return self.pick([[1, -1, 1], [0.5, 0.1, 2.0], ["a", "b", "a"]])
        return self.value(inner, depth + 1)

    def _array(self, schema, depth):
        length = int(self.rng.integers(0, 5)) if depth < 5 else 0
        return [self.value(schema.get("items", {}), depth + 1) for _ in range(length)]

    def _string(self, schema, depth):
        return self.pick([*NAMES, "prediction", "a", "é", "\ud83d\ude00", "z" * 2000])

    def _number(self, schema, depth):
        return float(self.pick([0.0, 1.5, -2.0, 1e300, 1e-300, float(self.rng.normal())]))

    def _integer(self, schema, depth):
        return self.pick([0, 1, 5, -3, 2**31, 2**62])

    def _boolean(self, schema, depth):
        return bool(self.rng.random() < 0.5)

    def _null(self, schema, depth):
        return None

    def _any(self, schema, depth):
        return self.pick(WEIRD)

    def body(self, content):
        """Return bytes and their type for one of the described contents."""
        kind = self.pick([*content])
        if self.rng.random() < 0.1:
            return self.pick(RAW), kind
        if "schema" not in content[kind]:
            return self.rng.bytes(int(self.rng.integers(200))), kind
        rows = [self.value(content[kind]["schema"]) for _ in range(3 if "ndjson" in kind else 1)]
        data = b"\n".join(json.dumps(r).encode("utf-8", "surrogatepass") for r in rows)
        if self.rng.random() < 0.3:
            data = self.spoiled(data)
        if self.rng.random() < 0.1 and data:  # and some damage
            at = int(self.rng.integers(len(data)))
            data = data[:at] + self.rng.bytes(1) + data[at + 1 :]
        return data, kind

    def spoiled(self, data):
        """Return JSON with a number, a text or a key in it that cannot be."""
        pattern, others = self.pick(
            [(rb"-?\d[\d.e+-]*", NUMBERS), (rb'"[^"\\]*"(?!\s*:)', TEXTS), (rb"\{", [b""])]
        )
        found = [*re.finditer(pattern, data)]
        if not found:
            return data
        at = self.pick(found)
        other = self.pick(others)
        if other == b"":  # a key twice
            key = re.compile(rb'"[^"\\]*"\s*:').search(data, at.end())
            other = b"{" + (key[0] + b" null, " if key else b"")
        return data[: at.start()] + other + data[at.end() :]


def test_fuzz(tmp_path, rng):
    with served(tmp_path, seconds=20.0, models=8, model_bytes=2**20, classes=20) as one:
        client = one.client
        kept = np.random.default_rng(0).normal(size=(50, 2))
        for name, kind in (("kept", "NoveltyDetector"), ("prey", "KernelClassifier")):
            client.ok("POST", "/models", {"name": name, "kind": kind})
        client.ok("POST", "/models/kept/learn", {"X": kept.tolist()})
        before = client.send("GET", "/models/kept/file")[2]
        statuses = attack(one, rng)
        assert {200, 201, 404, 422} <= set(statuses), "both sides of the fence were visited"
        assert max(statuses) < 500, statuses
        assert_free(one)
        assert client.send("GET", "/models/kept/file")[2] == before
        alive = {s.spec.name: files.dumps(s.estimator) for s in one.engine.slots()}
    with served(tmp_path) as again:
        assert {s.spec.name: files.dumps(s.estimator) for s in again.engine.slots()} == alive


def assert_free(one):
    """All is well, and nothing waits that nobody will answer."""
    told = one.client.ok("GET", "/health")
    assert told["status"] == "ok" and told["waiting"] == 0, told
    assert [slot.waiting for slot in one.engine.slots()] == [0] * len(one.engine.slots())


def test_what_cannot_be_kept_on_every_route(tmp_path, rng):
    """Each route with a body, each value, more often than requests may wait; keys stay usable."""
    with served(tmp_path, seconds=20.0, waiting=3, models=8, classes=20) as one:
        client = one.client
        for name, kind in KINDS.items():
            client.ok("POST", "/models", {"name": name, "kind": kind})
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


KINDS = {"det": "NoveltyDetector", "reg": "KernelRegressor", "clf": "LinearClassifier"}
GOOD = {
    "Batch": {"X": [[1.0, 2.0]], "y": [1.0], "sample_weight": [1.0], "classes": [1.0, 2.0]},
    "Line": {"x": [1.0, 2.0], "y": 1.0, "weight": 1.0},
    "Question": {"x": [1.0, 2.0], "top": 5},
    "Create": {"name": "new", "kind": "KernelClassifier", "features": ["a"],
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
    good = GOOD[content[kind]["schema"]["$ref"].rpartition("/")[2]]
    data = json.dumps(good).encode()
    pattern = rb"-?\d[\d.e+-]*" if value in NUMBERS else rb'"[^"\\]*"'
    at = fuzzer.pick([*re.finditer(pattern, data)])
    return data[: at.start()] + value + data[at.end() :], kind


def attack(one, rng):
    """Send requests drawn from the description; return how often each status came."""
    document = one.client.ok("GET", "/openapi.json")
    fuzzer = Fuzzer(document, rng)
    operations = [
        (path, method.upper(), operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    ]
    client, statuses = Client(one.url), {}
    for _ in range(ROUNDS):
        path, method, operation = fuzzer.pick(operations)
        content = operation.get("requestBody", {}).get("content")
        body, kind = fuzzer.body(content) if content else (None, None)
        headers = {"Content-Type": kind} if kind and rng.random() < 0.97 else {}
        if rng.random() < 0.2:
            headers["Idempotency-Key"] = fuzzer.pick(["k1", "k2", "", "ü", "x" * 300, f"n{_}"])
        if rng.random() < 0.3:
            path += (
                f"?output={fuzzer.pick(['decision', 'score', 'rank', 'x', '%ff', 'probability'])}"
            )
        path = path.replace("{name}", fuzzer.pick(NAMES))
        status, told, data = client.send(method, path, body, headers)
        statuses[status] = statuses.get(status, 0) + 1
        assert status < 500, (method, path, body, headers, data)
        if status >= 400:
            assert told["content-type"] == "application/json", (method, path, body)
            assert set(json.loads(data)["error"]) >= {"code", "message", "field"}
    return statuses
