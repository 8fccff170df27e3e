"""Requests drawn from the service's own description: what fits it, mostly."""

from __future__ import annotations

import json
import re

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
        if {"id", "answers"} <= found.keys() and self.rng.random() < 0.9:  # one of the two
            found = {k: v for k, v in found.items() if k != "answers"}
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
        if name == "id" and self.rng.random() < 0.8:  # of alerts that may well be there
            return self.pick([int, str])(int(self.rng.integers(300)))
        if name in ("keyed", "share") and self.rng.random() < 0.8:  # few kinds can share
            return False
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


class Requests:
    """Requests to every route, with bodies that fit its schema, mostly."""

    def __init__(self, document, rng):
        self.fuzzer, self.rng, self.made = Fuzzer(document, rng), rng, 0
        self.operations = [
            (path, method.upper(), operation)
            for path, item in document["paths"].items()
            for method, operation in item.items()
            if method != "parameters"
        ]

    def next(self):
        """Return method, path, body and headers."""
        path, method, operation = self.fuzzer.pick(self.operations)
        content = operation.get("requestBody", {}).get("content")
        body, kind = self.fuzzer.body(content) if content else (None, None)
        headers = {"Content-Type": kind} if kind and self.rng.random() < 0.97 else {}
        self.made += 1
        if self.rng.random() < 0.2:
            keys = ["k1", "k2", "", "ü", "x" * 300, f"n{self.made}"]
            headers["Idempotency-Key"] = self.fuzzer.pick(keys)
        if self.rng.random() < 0.3:
            outputs = ["decision", "score", "rank", "x", "%ff", "probability"]
            path += f"?output={self.fuzzer.pick(outputs)}"
        return method, path.replace("{name}", self.fuzzer.pick(NAMES)), body, headers
