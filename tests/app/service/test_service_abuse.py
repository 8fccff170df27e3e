"""Everything that people do to a service: each is refused clearly, and touches nothing."""

from __future__ import annotations

import json
import socket
import threading
import time

import numpy as np
import pytest
from helpers.serving import JSON, Client, examples, served, with_models

from onkel import files
from onkel.app.http import protocol
from onkel.app.http.answers import HEADERS

FILE = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with with_models(tmp_path_factory.mktemp("state")) as one:
        yield one


@pytest.fixture
def client(service):
    return Client(service.url)


@pytest.fixture
def untouched(service):
    """The state must be the same afterwards: no model changed, none came or went."""

    def look():
        return {s.spec.name: files.dumps(s.estimator) for s in service.engine.slots()}

    before = look()
    yield
    assert look() == before


DEEP = b'{"X": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
ABUSE = {
    "NaN": (b'{"X": [[NaN, 1, 2]]}', 400),
    "Infinity": (b'{"X": [[1, Infinity, 2]]}', 400),
    "a number too large": (b'{"X": [[1e999, 1, 2]]}', 422),
    "a whole number too large": (b'{"X": [[' + b"9" * 400 + b", 1, 2]]}", 422),
    "deep JSON": (DEEP, 422),
    "deep parameters": (
        b'{"name": "x", "kind": "LinearRegressor", "parameters": {"p": ' + b"[" * 90_000,
        422,
    ),
    "bad UTF-8": (b'{"X": [[1, 2, 3]], "output": "\xff\xfe"}', 400),
    "half a surrogate": (b'{"X": ["\\ud800"]}', 400),
    "NUL": (b'{"X": ["\\u0000"]}', 422),
    "text for numbers": (b'{"X": [["1", 2, 3]]}', 422),
    "true for a number": (b'{"X": [[true, 2, 3]]}', 422),
    "no body": (b"", 400),
    "half a body": (b'{"X": [[1, 2', 400),
    "a list": (b"[1, 2]", 422),
    "an unknown field": (b'{"X": [[1, 2, 3]], "Y": 1}', 422),
    "no rows": (b'{"X": []}', 422),
    "no columns": (b'{"X": [[]]}', 422),
    "ragged rows": (b'{"X": [[1, 2, 3], [1, 2]]}', 422),
    "mixed rows": (b'{"X": [[1, 2, 3], "a"]}', 422),
    "another width": (b'{"X": [[1, 2, 3, 4]]}', 422),
    "a gap": (b'{"X": [[1, null, 3]]}', 422),
    "weights too few": (b'{"X": [[1, 2, 3]], "sample_weight": []}', 422),
    "weights below 0": (b'{"X": [[1, 2, 3]], "sample_weight": [-1]}', 422),
    "time without a clock": (b'{"X": [[1, 2, 3]], "time": [5]}', 422),
    "an unknown output": (b'{"X": [[1, 2, 3]], "output": "../x"}', 422),
    "too many rows": (json.dumps({"X": [[1, 2, 3]] * 501}).encode(), 413),
    "too large": (b" " * 300_001, 413),
}


@pytest.fixture
def learned(service, client):
    client.ok("POST", "/models/det/learn", {"X": examples(5)[0].tolist()})


@pytest.mark.parametrize("case", ABUSE)
@pytest.mark.parametrize("path", ["/models/det/learn", "/models/det/predict-then-learn"])
def test_abuse_is_refused_and_touches_nothing(learned, client, untouched, case, path):
    body, wanted = ABUSE[case]
    status, error = client.refused("POST", path, body, **JSON)
    assert status == wanted, error


@pytest.mark.parametrize("case", ABUSE)
def test_abuse_of_the_other_routes(learned, client, untouched, case):
    body, _ = ABUSE[case]
    for path in ("/models/det/predict", "/models", "/models/det/explain", "/models/reg/learn"):
        if (
            case in ("weights too few", "weights below 0", "time without a clock")
            and "pred" in path
        ):
            continue  # a prediction has no use for them
        client.refused("POST", path, body, **JSON)
    client.refused("PUT", "/models/x/file", body, **FILE)


NASTY = [
    "..", "../det", "..%2fdet", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "a/b", "a%00b", "%ff", "det%2f..",
    ".det", "-det", "x" * 65, "d e t", "dét", "con:", "a\\b", "det?x=1", "%",
]  # fmt: skip


@pytest.mark.parametrize("name", NASTY)
def test_names_are_never_paths(client, untouched, name):
    quoted = name.replace(" ", "%20").replace("é", "%C3%A9")
    if "?" not in name:
        for method, rest in (("GET", ""), ("DELETE", ""), ("GET", "/file"), ("POST", "/learn")):
            body = b'{"X": [[1, 2, 3]]}' if method == "POST" else None
            headers = JSON if method == "POST" else {}
            assert client.refused(method, f"/models/{quoted}{rest}", body, **headers)[0] == 404
        assert client.refused("PUT", f"/models/{quoted}/file", b"x", **FILE)[0] in (404, 422)
    wanted = {"name": name, "kind": "NoveltyDetector"}
    status, error = client.refused("POST", "/models", wanted)
    assert status == 422 and error["field"] == "name"
    assert client.refused("GET", f"/static/{quoted.partition('?')[0]}")[0] == 404


BAD_MODELS = [
    ({"kind": "os.system"}, "kind"),
    ({"kind": "Clasifier"}, "kind"),
    ({"kind": None}, "task"),
    ({"kind": None, "task": "detect"}, "task"),
    ({"task": "regression"}, "task"),
    ({"kind": "Classifier", "parameters": {"members": [{}]}}, ".members[0].kind"),
    ({"kind": "Classifier", "parameters": {"members": ["linear"]}}, ".members[0].kind"),
    ({"kind": "Classifier", "parameters": {"members": [{"kind": "KernelClassifier", "kernel":
      {"name": "function"}}]}}, ".members[0].kernel.name"),
    ({"kind": "Classifier", "parameters": {"members": [{"kind": "LinearClassifier", "q": 1}]}},
     ".members[0].q"),
    ({"kind": "Regressor", "parameters": {"members": [{"kind": "LinearClassifier"}]}},
     "parameters"),
    ({"kind": "Regressor", "parameters": {"members": [{"kind": "LinearRegressor"}] * 65}},
     ".members"),
    ({"kind": "Regressor", "parameters": {"members": [{"kind": "KernelRegressor", "expansion":
      {"name": "window", "terms": 10**9}}]}}, ".members[0].expansion.terms"),
    ({"kind": "Regressor", "parameters": {"nu": 0}}, "parameters"),
    ({"parameters": {"nu": 2}}, "parameters"),
    ({"parameters": {"what": 2}}, "parameters.what"),
    ({"parameters": {"kernel": {"name": "function", "function": "exec"}}}, ".kernel.name"),
    ({"parameters": {"kernel": {"name": "gaussian", "gamma": -1}}}, ".kernel"),
    ({"parameters": {"kernel": {"gamma": 1}}}, ".kernel.name"),
    ({"parameters": {"nu": {"name": "norma"}}}, ".nu"),
    ({"parameters": {"n_jobs": 10_000}}, ".n_jobs"),
    ({"parameters": {"recent": 2**31}}, ".recent"),
    ({"parameters": {"expansion": {"name": "window", "terms": 10**9}}}, ".expansion.terms"),
    ({"features": []}, "features"),
    ({"features": ["a", "a"]}, "features"),
    ({"features": [""]}, "features"),
    ({"features": [3]}, "features[0]"),
]  # fmt: skip


@pytest.mark.parametrize("change, field", BAD_MODELS, ids=[str(c) for c, _ in BAD_MODELS])
def test_models_that_cannot_be(client, untouched, change, field):
    wanted = {"name": "new", "kind": "NoveltyDetector", **change}
    status, error = client.refused("POST", "/models", wanted)
    where = f"parameters{field}" if field.startswith(".") else field
    assert status == 422 and error["field"] == where, error


def test_parts_of_parts_reach_the_estimator(client):
    parameters = {
        "kernel": {"name": "sum", "left": {"name": "gaussian", "gamma": 0.5},
                   "right": {"name": "scaled", "factor": 2.0, "kernel": {"name": "linear"}}},
        "rule": {"name": "norma", "learning_rate": {"name": "inverse_sqrt", "rate": 0.3},
                 "regularization": 0.01},
    }  # fmt: skip
    wanted = {"name": "nested", "kind": "KernelRegressor", "parameters": parameters}
    client.ok("POST", "/models", wanted)
    client.ok("POST", "/models/nested/learn", {"X": [[1.0], [2.0]], "y": [1.0, 2.0]})
    assert "Gaussian(gamma=0.5)" in client.ok("GET", "/models/nested")["diagnostics"]["kernel"]
    client.ok("DELETE", "/models/nested")


def test_wrong_methods_types_and_places(client, untouched):
    assert client.refused("PATCH", "/models/det")[0] == 405
    assert client.refused("GET", "/models/det/learn")[0] == 405
    assert client.refused("GET", "/nothing")[0] == 404
    assert client.refused("GET", "/models/nobody")[1]["code"] == "unknown_model"
    for path in ("/models", "/models/det/learn", "/models/det/explain"):
        status, error = client.refused("POST", path, b"{}", Content_Type="text/plain")
        assert status == 415 and error["field"] == "Content-Type"
    assert client.refused("PUT", "/models/x/file", b"x", **JSON)[0] == 415


def test_a_model_that_has_learned_nothing(client):
    client.ok("POST", "/models", {"name": "empty", "kind": "KernelClassifier"})
    for path, body in (("predict", {"X": [[1.0]]}), ("explain", {"x": [1.0]})):
        status, error = client.refused("POST", f"/models/empty/{path}", body)
        assert status == 409 and error["code"] == "not_learned"
    assert client.ok("GET", "/models/empty")["diagnostics"] is None
    client.ok("DELETE", "/models/empty")


def test_other_sites_pages_are_kept_out(client, untouched):
    body = b'{"name": "x", "kind": "NoveltyDetector"}'
    for headers in (
        {"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example:80"}, {"Host": ""},
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"},
        {"Origin": "http://[bad"}, {"Host": "[bad"},
    ):  # fmt: skip
        assert client.refused("POST", "/models", body, **JSON, **headers)[0] == 403


def raw(service, data, seconds=5.0):
    """Send bytes as they are; return what comes back until the other side closes."""
    host, port = Client(service.url).address
    with socket.create_connection((host, port), timeout=seconds) as one:
        one.sendall(data)
        found = b""
        try:
            while chunk := one.recv(65536):
                found += chunk
        except TimeoutError:
            return found + b"<open>"
        except ConnectionResetError:  # closed while we were still sending
            return found or b"HTTP/1.1 413 reset"
        return found


def test_slow_clients_are_hung_up_on(service, client, untouched, monkeypatch):
    head = (
        b"POST /models/det/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    found = raw(service, head + b"Content-Length: 100\r\n\r\n{")
    assert b" 408 " in found.splitlines()[0] and b"slow_body" in found and b"<open>" not in found
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.5)
    for part in (b"", head, b"G"):
        began = time.monotonic()
        assert b"<open>" not in raw(service, part)
        assert time.monotonic() - began < 4
    slow = [socket.create_connection(Client(service.url).address) for _ in range(40)]
    assert client.ok("GET", "/health")["status"] == "ok"
    for one in slow:
        one.close()


def test_giant_and_lying_bodies(service, untouched):
    head = (
        b"POST /models/det/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    assert b" 413 " in raw(service, head + b"Content-Length: 99999999999\r\n\r\n").splitlines()[0]
    assert b" 400 " in raw(service, head + b"Content-Length: -5\r\n\r\n").splitlines()[0]
    assert b" 400 " in raw(service, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc").splitlines()[0]
    chunk = b"20000\r\n" + b" " * 0x20000 + b"\r\n"
    found = raw(service, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 4)
    assert b" 413 " in found.splitlines()[0]


def test_a_client_that_leaves_early_changes_nothing(service, client, untouched):
    host, port = Client(service.url).address
    for _ in range(5):
        one = socket.create_connection((host, port))
        one.sendall(b"POST /models/det/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                    b"application/json\r\nContent-Length: 50\r\n\r\n{")  # fmt: skip
        one.close()
    assert client.ok("GET", "/health")["status"] == "ok"


def test_every_answer_has_the_security_headers(client):
    for path in ("/", "/health", "/nothing", "/static/page.js", "/models/none"):
        _, headers, _ = client.send("GET", path)
        for name, value in HEADERS.items():
            assert headers[name.lower()] == value
    assert "unsafe-eval" not in HEADERS["Content-Security-Policy"]


def test_rate_limit(tmp_path):
    with served(tmp_path, requests_per_second=20.0) as one:
        found = [one.client.send("GET", "/health") for _ in range(40)]
        refused = [f for f in found if f[0] == 429]
        assert 10 <= len(refused) <= 20 and refused[0][1]["retry-after"] == "1"
        time.sleep(0.2)
        assert one.client.send("GET", "/health")[0] == 200


def test_predictions_are_answered_while_much_is_learned(service):
    X = np.random.default_rng(6).normal(size=(500, 3)).tolist()
    stop, sent = threading.Event(), []
    service.client.ok("POST", "/models/det/learn", {"X": X})  # nothing learned, nothing predicted

    def pour():
        other = Client(service.url)
        while not stop.is_set():
            other.ok("POST", "/models/det/learn", {"X": X})
            sent.append(1)

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        times = []
        for _ in range(30):
            began = time.monotonic()
            service.client.ok("POST", "/models/det/predict", {"X": X[:1]})
            times.append(time.monotonic() - began)
    finally:
        stop.set()
        thread.join()
    assert sent and max(times) < 2.0
