"""What comes before a request is understood: heads, connections, readers that do not read."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest
from helpers.serving import Client, Process, served

from onkel.app.http import answers, protocol
from onkel.app.http.answers import HEADERS
from onkel.app.http.door import Door
from onkel.app.http.problems import Problem

TOKEN = "correct-horse-battery"
MIB = 2**20


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("state"), token=TOKEN) as one:
        yield one


def opened(url, seconds=10.0):
    return socket.create_connection(Client(url).address, timeout=seconds)


def read_all(one):
    found = b""
    with suppress(ConnectionResetError):
        while chunk := one.recv(65536):
            found += chunk
    return found


def answered(one):
    """Return status, headers and body of the answer that a connection holds; all of it."""
    head, _, body = read_all(one).partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    told = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), told, json.loads(body)["error"]


# -- heads -------------------------------------------------------------------------------------

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
HEADS = {
    "one long header": (REQUEST + b"A: " + b"x" * 20_000 + b"\r\n\r\n", 431, "head_too_large"),
    "many headers": (REQUEST + b"A: b\r\n" * 101 + b"\r\n", 431, "head_too_large"),
    "a long name": (REQUEST + b"x" * 70_000, 431, "head_too_large"),
    "a long address": (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414, "address_too_long"),
    "an address without end": (b"GET /" + b"x" * 70_000, 431, "head_too_large"),
    "no HTTP": (b"hello\r\n\r\n", 400, "bad_request"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400, "bad_request"),
}


@pytest.mark.parametrize("case", HEADS)
def test_heads_have_limits_and_refusals_one_shape(service, case):
    data, status, code = HEADS[case]
    with opened(service.url) as one:
        one.sendall(data)
        found, told, error = answered(one)
    assert (found, error["code"]) == (status, code), error
    assert told["content-type"] == "application/json" and told["connection"] == "close"
    assert told["content-security-policy"] == HEADERS["Content-Security-Policy"].lower()


def test_large_heads_below_the_limits_are_taken(service):
    extra = {f"X-{i}": "y" * 200 for i in range(60)}
    assert service.client.send("GET", f"/health?{'q' * 7000}", headers=extra)[0] == 431
    assert service.client.send("GET", f"/health?{'q' * 3000}", headers=extra)[0] == 200
    assert service.client.send("GET", f"/health?{'q' * 8000}")[0] == 200


def test_trailers_and_pipelines_have_limits(service):
    head = (f"POST /models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")  # fmt: skip
    with opened(service.url) as one:
        one.sendall(head.encode() + b"2\r\n{}\r\n0\r\n" + b"T: t\r\n" * 20_000)
        assert not told_ok(one)
    with opened(service.url) as one:  # one is answered, a few wait, thousands do not
        one.sendall((REQUEST + b"\r\n") * 3000)
        assert read_all(one).count(b"HTTP/1.1 ") < 100
    with opened(service.url) as one:
        one.sendall((REQUEST + b"\r\n") * 3)
        time.sleep(0.3)
        assert one.recv(65536).count(b"HTTP/1.1 401") == 3
    assert service.client.ok("GET", "/health")["status"] == "ok"


def told_ok(one):
    try:
        return b" 201 " in one.recv(65536)
    except ConnectionResetError:
        return False


def test_a_body_after_a_long_body_is_no_head(service):
    """Bodies of any size, one behind the other on a connection, are not counted as heads."""
    body = json.dumps({"X": [[1.0, 2.0]] * 20_000}).encode()
    service.client.ok("POST", "/models", {"name": "long", "kind": "NoveltyDetector"})
    for _ in range(3):
        told = {"Content-Type": "application/json"}
        assert service.client.send("POST", "/models/long/learn", body, told)[0] == 413  # rows
    chunks = (body[i : i + 50_000] for i in range(0, len(body), 50_000))
    assert service.client.send("POST", "/models/long/learn", chunks, told)[0] == 413
    service.client.ok("DELETE", "/models/long")


def resident(pid):
    """Return the MiB that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
ATTACKS = {
    "values": REQUEST + b"A: " + b"x" * (MIB // 2),
    "names": REQUEST + b"x" * (MIB // 2),
    "addresses": b"GET /" + b"x" * (MIB // 2),
    "numbers": REQUEST + b"a:\r\n" * (MIB // 8),
    "requests": (b"GET / HTTP/1.1\r\n\r\n") * (MIB // 36),
    "trailers": REQUEST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a:\r\n" * 90_000,
}


@needs_proc
@pytest.mark.parametrize("connections", [20, pytest.param(200, marks=pytest.mark.long)])
def test_memory_under_hostile_heads(tmp_path, connections):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    one = Process(tmp_path / "state", "--token-file", str(path))
    try:
        client = Client(one.url, Authorization=f"Bearer {TOKEN}")
        client.ok("GET", "/health")
        before = resident(one.process.pid)
        highest = max(attacked(one, kind, connections) for kind in ATTACKS)
        print(f"{connections} connections: {before:.0f} -> {highest:.0f} MiB")
        assert highest - before < 30 + connections * 0.2
        assert client.ok("GET", "/health")["status"] == "ok"
    finally:
        assert one.stop() == 0


def attacked(one, kind, connections):
    """Send half a MiB, five times, on each of many connections; return the most memory seen."""
    most = 0.0
    with ExitStack() as held:
        lines = [held.enter_context(opened(one.url)) for _ in range(connections)]
        for line in lines:
            line.settimeout(1.0)
        for _ in range(5):
            for line in lines:
                with suppress(OSError):
                    line.sendall(ATTACKS[kind])
            most = max(most, resident(one.process.pid))
    return most


# -- connections -------------------------------------------------------------------------------


def test_strangers_do_not_keep_those_with_a_token_out(tmp_path):
    with served(tmp_path, token=TOKEN, connections=16) as one, ExitStack() as held:
        first = Client(one.url, Authorization=f"Bearer {TOKEN}")
        first.ok("GET", "/health")
        idle = [held.enter_context(opened(one.url)) for _ in range(60)]
        for line in idle[-20:]:
            line.sendall(REQUEST)
        for _ in range(8):  # each on a connection of its own
            Client(one.url, Authorization=f"Bearer {TOKEN}").ok("GET", "/health")
        first.ok("GET", "/health")
        time.sleep(0.2)
        alive = sum(not gone(line) for line in idle)
        assert alive <= 4, "strangers have a quarter of the room"
        assert not gone(idle[-1]), "the oldest goes first"
        assert Client(one.url).send("GET", "/health")[0] == 401


def gone(line):
    line.settimeout(0.01)
    try:
        return line.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_too_many_with_a_token_get_a_problem(tmp_path):
    with served(tmp_path, token=TOKEN, connections=8) as one:
        held = [Client(one.url, Authorization=f"Bearer {TOKEN}") for _ in range(6)]
        for client in held:
            client.ok("GET", "/health")
        late = Client(one.url, Authorization=f"Bearer {TOKEN}")
        status, told, data = late.send("GET", "/health")
        assert status == 503 and told["retry-after"] == "1"
        assert told["content-type"] == "application/json" and told["connection"] == "close"
        assert json.loads(data)["error"]["code"] == "too_many_connections"
        held.pop().connection.close()
        time.sleep(0.1)
        late.ok("GET", "/health")
        for client in held:
            client.ok("GET", "/health")


def test_the_door():
    class One:
        idle, gone, host = True, False, "a"

        def hang_up(self):
            self.gone = True

    door, busy_one, others = Door(4), One(), [One() for _ in range(3)]
    busy_one.idle = False
    door.enter(busy_one)
    door.enter(others[0])  # the idle one goes before the older, busy one; there is room for one
    assert busy_one.gone and not others[0].gone
    door.admit(others[0])
    door.admit(others[0])
    with pytest.raises(Problem):
        door.admit(busy_one)
    for other in others[1:]:
        door.enter(other)
        door.admit(other)
    late = One()
    door.enter(late)
    with pytest.raises(Problem, match="connections"):
        door.admit(late)
    door.leave(others[0])
    door.admit(late)


def test_a_crowd_makes_room_before_others_do():
    class One:
        idle, gone = True, False

        def __init__(self, host):
            self.host = host

        def hang_up(self):
            self.gone = True

    door = Door(16)
    lone, busy, *crowd = [One("lone"), *(One("crowd") for _ in range(40))]
    busy.idle = False
    for one in (lone, busy, *crowd):
        door.enter(one)
    assert not lone.gone and not busy.gone and len(door.strangers) == 4
    assert [one.gone for one in crowd] == [True] * 37 + [False] * 2


# -- readers that do not read ------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide():
    """A model whose file is larger than what the system's own buffers take."""
    from onkel import LinearRegressor, files

    rng = np.random.default_rng(0)
    made = LinearRegressor().partial_fit(rng.normal(size=(2, 400_000)), [0.0, 1.0])
    data = files.dumps(made)
    assert len(data) > 10 * MIB
    return data


def slow_reader(url, path="/models/wide/file"):
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.settimeout(10)
    one.connect(Client(url).address)
    one.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return one


FILE = {"Content-Type": "application/octet-stream"}


@pytest.mark.long
def test_slow_readers_are_hung_up_on(tmp_path, wide, monkeypatch):
    monkeypatch.setattr(answers, "SLOWEST", 64 * MIB)
    with served(tmp_path, seconds=1.0) as one, ExitStack() as held:
        assert one.client.send("PUT", "/models/wide/file", wide, FILE)[0] == 201
        trickle, *_ = [held.enter_context(slow_reader(one.url)) for _ in range(4)]
        trickle.settimeout(0.05)
        time.sleep(0.5)
        assert len(one.door.known) >= 4
        deadline = time.monotonic() + 30
        while len(one.door.known) > 1:  # the client of the test stays
            assert time.monotonic() < deadline
            time.sleep(0.05)
            with suppress(OSError):
                trickle.recv(100)  # a byte now and then does not help
        status, _, data = one.client.send("GET", "/models/wide/file")
        assert status == 200 and data == wide


def test_downloads_hold_few_copies(tmp_path, wide, monkeypatch):
    monkeypatch.setattr(protocol, "SLOWEST", 2**12)
    with served(tmp_path, seconds=1.0) as one, ExitStack() as held:
        assert one.client.send("PUT", "/models/wide/file", wide, FILE)[0] == 201
        for _ in range(4):
            reader = held.enter_context(slow_reader(one.url))
            assert reader.recv(12) == b"HTTP/1.1 200"  # it is being sent
        status, told, data = one.client.send("GET", "/models/wide/file")
        assert status == 503 and told["retry-after"] == "1"
        assert json.loads(data)["error"]["code"] == "busy"
        assert one.client.ok("GET", "/health")["status"] == "ok"


@pytest.mark.long
@needs_proc
def test_the_end_does_not_wait_for_slow_readers(tmp_path, wide):
    one = Process(tmp_path)
    with ExitStack() as held:
        try:
            client = Client(one.url)
            assert client.send("PUT", "/models/wide/file", wide, FILE)[0] == 201
            before = resident(one.process.pid)
            for _ in range(40):
                held.enter_context(slow_reader(one.url))
            time.sleep(1.0)
            grown = (resident(one.process.pid) - before) * MIB / len(wide)
            print(f"40 downloads: {grown:.1f} copies")
            assert grown < 8
        finally:
            began = time.monotonic()
            code = one.stop()
        assert code == 0 and time.monotonic() - began < 25  # a request has 30 seconds


# -- what we rely on ---------------------------------------------------------------------------


def test_a_uvicorn_that_lacks_something_is_named(monkeypatch):
    protocol.check_uvicorn()
    monkeypatch.delattr(protocol.HttpToolsProtocol, "on_body")
    with pytest.raises(ValueError, match=r"HttpToolsProtocol\.on_body.*uvicorn"):
        protocol.check_uvicorn()
