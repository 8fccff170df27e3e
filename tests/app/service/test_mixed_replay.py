"""Rows of any cells in the log: a restart ends with the same bits, whatever came between."""

from __future__ import annotations

import json
import threading

import pytest
from helpers.flights import flights
from helpers.serving import Client, served
from helpers.sizes import size
from helpers.states import bits, crash

from onkel.app.service.engine import Engine
from onkel.columns import Tally, spec

KINDS = {
    "det": ("Detector", {"terms": 50}), "nov": ("NoveltyDetector", {}),
    "clf": ("LinearClassifier", {"loss": "logistic"}), "reg": ("KernelRegressor", {}),
}  # fmt: skip
TYPES = {"when": "time"}


def made(client, names=tuple(KINDS), **more):
    for name in names:
        kind, parameters = KINDS[name]
        body = {"name": name, "kind": kind, "parameters": {**parameters, "columns": TYPES, **more}}
        client.ok("POST", "/models", body)


def learn(client, name, rows):
    y = {"clf": [str(row.get("late")) for row in rows], "reg": [len(str(row)) for row in rows]}
    body = {"X": rows, "y": y.get(name)}
    return client.ok("POST", f"/models/{name}/predict-then-learn", body)


def same(engine, folder, names=tuple(KINDS)):
    """A kill now would leave what is there."""
    again = Engine(crash(engine, folder / "copy"))
    for name in names:
        assert bits(again, name) == bits(engine, name), name
    again.close()


@pytest.mark.parametrize("snapshot", size([0], [None, 0, 2]))
def test_a_restart_has_the_same_bits(tmp_path, snapshot):
    with served(tmp_path / "state") as one:
        made(one.client)
        for i in range(3):
            for name in KINDS:
                learn(one.client, name, flights(15 + i, i))
                bad = {"X": [*flights(3), {"minutes": "abc"}], "y": ["a", "a", "a", "a"]}
                assert one.client.refused("POST", f"/models/{name}/learn", bad)[0] == 422
            if i == snapshot:
                one.engine.snapshot()
        same(one.engine, tmp_path)
        before = {name: bits(one.engine, name) for name in KINDS}
    with served(tmp_path / "state") as again:
        assert again.engine.replayed == 0
        assert {name: bits(again.engine, name) for name in KINDS} == before
        for name in KINDS:
            learn(again.client, name, flights(5, 9))


def test_what_columns_are_is_decided_once(tmp_path, monkeypatch):
    """A restart, of a version that finds other kinds, goes on with those that were found."""
    with served(tmp_path / "state") as one:
        made(one.client, ["det"])
        learn(one.client, "det", flights(30))
        learn(one.client, "det", flights(5, 1))
        monkeypatch.setattr(spec, "kind_of", lambda cells: "category")
        same(one.engine, tmp_path, ["det"])


def test_first_requests_at_once(tmp_path):
    """One of them says what the columns are; the others fit, or are refused; so after a restart."""
    with served(tmp_path / "state") as one:
        made(one.client, ["det"])
        wait, found = threading.Event(), []
        one.engine.slot("det").do(lambda: wait.wait(5))
        bodies = [
            {"X": flights(9)},
            {"X": [{**row, "more": "x"} for row in flights(5, 1)]},
            {"X": [{**row, "minutes": "long"} for row in flights(5, 2)]},
            {"X": flights(4, 3)},
        ]

        def send(body):
            found.append(Client(one.url).send("POST", "/models/det/learn", body)[0])

        threads = [threading.Thread(target=send, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        wait.set()
        for thread in threads:
            thread.join()
        assert set(found) <= {200, 422} and 200 in found
        same(one.engine, tmp_path, ["det"])
        assert one.engine.faults == 0


@pytest.mark.parametrize("first", [True, False])
def test_a_fault_while_values_are_counted(tmp_path, monkeypatch, first):
    """The rows are learned, the count fails: the model is made anew as it was before."""
    with served(tmp_path / "state") as one:
        made(one.client, ["det"])
        if not first:
            learn(one.client, "det", flights(30))
        before = bits(one.engine, "det")
        take, left = Tally.take, [1]

        def once(tally, rows):
            left[0] -= 1
            return 1 / 0 if left[0] == 0 else take(tally, rows)

        with monkeypatch.context() as patch:
            patch.setattr(Tally, "take", once)
            status, _, data = one.client.send("POST", "/models/det/learn", {"X": flights(5, 1)})
        assert status in (422, 500), data
        assert bits(one.engine, "det") == before
        shown = one.client.ok("GET", "/models/det")["columns"]
        assert (shown is None) == first
        learn(one.client, "det", flights(20, 2))
        same(one.engine, tmp_path, ["det"])


ODD = [
    b'"\\ud800"', b'"\\udc00\\ud800 x"', b'"\\u0000"', b'"a\\u0000b"', b'"\xed\xa0\x80"', b'""',
    b'" "', b'"' + b"z" * 999 + b'"', b'"' + b"z " * 5000 + b'"', b'"' + b"z" * 20_000 + b'"',
    b"[]", b"{}", b'["a"]', b'{"a": 1}', b"[" * 5000 + b"]" * 5000,
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b"9223372036854775807", b"9223372036854775808", b"1e308", b"1e999", b"9" * 400, b"-0", b"NaN",
    b'"inf"', b'"nan"', b'"1e999"', b'"1_000"', b"true", b'"true"', b"null", b'"None"',
    b'"9999-12-31T23:59:59+00:00"', b'"0001-01-01"', b'"2024-02-30"', b'"\xf0\x9f\x98\x80"',
    b'"\xe2\x80\xae\xe2\x80\xa8"', "\"\u0661\u0662\"".encode(), b'"2024-01-01T00:00:00+23:59"',
]  # fmt: skip
"""What may stand in a cell, or be sent in its place."""


@pytest.mark.parametrize("fresh", [False, True])
def test_odd_cells(tmp_path, fresh, rng):
    """In every column, also of a first row: taken or refused, never a fault; then the same bits."""
    with served(tmp_path / "state", model_bytes=2**22) as one:
        client, statuses = one.client, set()
        made(client, ["det"])
        if not fresh:
            learn(client, "det", flights(60))
        good = {"carrier": "AA", "minutes": 1.5, "when": "2024-01-01T08:00:00", "late": True}
        for name in (*good, "no such", "", "\\u0000", "gaps"):
            for cell in ODD:
                rest = json.dumps({k: v for k, v in good.items() if k != name})[1:].encode()
                row = b'{"%s": ' % name.encode() + cell + b", " + rest
                what = str(rng.choice(["learn", "predict", "explain", "predict-then-learn"]))
                body = b'{"x": ' + row + b"}" if what == "explain" else b'{"X": [' + row + b"]}"
                told = {"Content-Type": "application/json"}
                status, _, data = client.send("POST", f"/models/det/{what}", body, told)
                statuses.add(status)
                assert status < 500, (what, row[:200], data)
                json.loads(data)
            client.ok("GET", "/models/det")
        assert {200, 400, 422} <= statuses
        assert one.engine.faults == 0 and one.engine.watch.trouble == ""
        same(one.engine, tmp_path, ["det"])
