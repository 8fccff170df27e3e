"""Alerts of a service, delivered: killed, restarted, with keys; learning waits for nobody."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.receiver import Receiver
from helpers.serving import Client, Process, served
from helpers.sizes import size

from onkel.app.notify import verify
from onkel.app.notify.channels import address_of
from onkel.app.notify.settings import Delivery
from onkel.app.service import notices
from onkel.app.service.bodies import Entry
from onkel.app.service.engine import Engine

SECRET = b"sixteen bytes !!"
DETECTOR = {"name": "pump", "kind": "Detector", "parameters": {"warmup": 100, "terms": 50},
            "features": ["level", "flow"]}  # fmt: skip
BATCH = 25


def rows(rng, far=()):
    X = rng.normal(size=(BATCH, 2))
    X[list(far)] += 15.0
    return X.tolist()


def until(condition, seconds=30.0) -> None:
    stop = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop, "it did not come about"
        time.sleep(0.01)


def to(receiver, **more) -> Delivery:
    return Delivery(address_of(receiver.url), **{"key": SECRET, "wait": 5.0, **more})


def sent(client, rng, batches, path="/models/pump/predict-then-learn", **more):
    """Send batches, each with a row that is far away; return which rows were alerts."""
    found = []
    for i in range(batches):
        X = rows(rng, far=(7,) if i > 5 else ())
        answer = client.ok("POST", path, {"X": X, **{k: v(i) for k, v in more.items()}})
        start = answer["t"] - BATCH
        found += [start + j for j, said in enumerate(answer["values"]) if said == -1]
    return found


def test_alerts_are_sent_signed_with_what_is_known(tmp_path, rng) -> None:
    with Receiver() as receiver:
        with served(tmp_path, delivery=to(receiver)) as one:
            one.client.ok("POST", "/models", DETECTOR)
            wanted = sent(one.client, rng, 20)
            until(lambda: len(receiver.got) == len(wanted))
            told = f'outcome="delivered"}} {float(len(wanted))}'
            until(lambda: told in one.client.send("GET", "/metrics")[2].decode())
            text = one.client.send("GET", "/metrics")[2].decode()
            assert one.client.ok("GET", "/health")["status"] == "ok"
    assert len(wanted) > 10 and receiver.rows() == wanted
    for headers, raw in receiver.got:
        body = json.loads(raw)
        assert verify(SECRET, headers, raw) == body["id"]
        assert body["source"] == "pump" and body["score"] < body["threshold"]
        assert body["p"] == pytest.approx(np.exp(body["score"]))
        assert set(body["features"]) == {"level", "flow"} and body["why"]
    assert 'onkel_deliveries_waiting{target="webhook"} 0.0' in text


def test_an_end_does_not_wait_for_all_that_a_slow_receiver_takes(tmp_path, rng, monkeypatch):
    class Slow(Receiver):
        def answer(self, handler, body) -> None:
            self.freed.wait(0.5)
            super().answer(handler, body)

    monkeypatch.setattr(notices, "ENDING", 0.3)
    with Slow() as receiver:
        with served(tmp_path, delivery=to(receiver)) as one:
            one.client.ok("POST", "/models", DETECTOR)
            wanted = sent(one.client, rng, 20)
        assert receiver.rows() == wanted[: len(receiver.got)] and len(receiver.got) < len(wanted)
        receiver.freed.set()
        with served(tmp_path, delivery=to(receiver)):
            until(lambda: len(receiver.got) >= len(wanted))
    assert sorted({*receiver.rows()}) == wanted


def test_what_is_learned_without_an_answer_alerts_as_well(tmp_path, rng) -> None:
    with Receiver() as receiver, served(tmp_path, delivery=to(receiver)) as one:
        one.client.ok("POST", "/models", DETECTOR)
        sent(one.client, rng, 8)
        before = one.engine.slot("pump").alerts
        for output in ("rank", "p", "score", "decision"):
            X = rows(rng, far=(3,))
            one.client.ok("POST", "/models/pump/predict-then-learn", {"X": X, "output": output})
        one.client.ok("POST", "/models/pump/learn", {"X": rows(rng, far=(3,))})
        assert one.engine.slot("pump").alerts >= before + 5
        until(lambda: len(receiver.got) == one.engine.slot("pump").alerts)


def test_keys(tmp_path, rng) -> None:
    with Receiver() as receiver, served(tmp_path, delivery=to(receiver)) as one:
        one.client.ok("POST", "/models", {**DETECTOR, "keyed": True})
        wanted = sent(one.client, rng, 40, keys=lambda i: [f"k{j % 3 % 2}" for j in range(BATCH)])
        until(lambda: len(receiver.got) == len(wanted))
        assert receiver.rows() == wanted and len(wanted) > 10
        assert {body["key"] for body in receiver.bodies} == {"k0", "k1"}
    own = [f"k{row % BATCH % 3 % 2}" for row in range(40 * BATCH)]
    for body in receiver.bodies:  # called by its key, and by the rows of it that came before
        before = own[: body["row"]].count(body["key"])
        assert body["alert_id"] == f"{body['key']}:{before}"


@pytest.mark.parametrize("keyed", [False, True])
def test_an_alert_is_called_by_the_rows_learned_before(tmp_path, rng, keyed) -> None:
    """Rows of weight 0 are looked at, not learned: they have no number that could be answered."""
    with Receiver() as receiver, served(tmp_path, delivery=to(receiver)) as one:
        one.client.ok("POST", "/models", {**DETECTOR, "keyed": keyed})
        keys = [f"k{j % 2}" for j in range(BATCH)] if keyed else [None] * BATCH
        learned, wanted, at, told = Counter(), [], [], []
        for i in range(size(24, 40) if keyed else 16):
            weights = rng.integers(0, 2, BATCH).tolist()
            body = {"X": rows(rng, far=(7, 12, 18) if i > 9 else ()), "sample_weight": weights}
            body |= {"keys": keys} if keyed else {}
            answer = one.client.ok("POST", "/models/pump/predict-then-learn", body)
            told += [id for id, said in zip(answer["alert_id"], answer["values"], strict=True)
                     if said == -1]  # fmt: skip
            for said, weight, key in zip(answer["values"], weights, keys, strict=True):
                if said == -1:
                    name = f"{key}:{learned[key]}" if keyed else str(learned[key])
                    wanted.append(name if weight else None)
                    at.append(learned.total())
                learned[key] += weight
        shown = one.engine.board.alerts("pump", 0, 1000)["alerts"][::-1]
        until(lambda: len(receiver.got) == len(wanted))
        assert [body.get("alert_id") for body in receiver.bodies] == wanted
        assert receiver.rows() == at == [alert["t"] - 1 for alert in shown]
        assert [id and id.rpartition(":")[2] for id in wanted] == told
        assert [alert.get("id") for alert in shown] == told
        named = {id for id in wanted if id}
        found = one.client.ok("GET", "/models/pump/incidents")["incidents"]
        assert {id for incident in found for id in incident.get("alert_ids", ())} == named
    assert named and None in wanted and len({body["id"] for body in receiver.bodies}) == len(wanted)


def test_alerts_of_many_rows_are_named_in_one_pass():
    """What a key is compared with does not grow with the rows that come behind it."""
    compared = 0

    class Key(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    rows, alerts = 2000, [*range(0, 2000, 2)]
    keys = [Key(f"k{i % 7}") for i in range(rows)]
    weights = [float(i % 3 > 0) for i in range(rows)]
    entry = Entry("learn", 1, keys=keys, width=1, numbers=bytes(8 * rows), sample_weight=weights)
    learned, wanted = Counter(), []
    for key, weight in zip(map(str, keys), weights, strict=True):
        wanted.append(f"{key}:{10 + learned[key]}" if weight else None)
        learned[key] += weight > 0
    model = {key: SimpleNamespace(t_=10 + learned[key]) for key in learned}
    assert notices._names(entry, model, alerts) == [wanted[i] for i in alerts]
    assert compared < 10 * rows


def test_nothing_is_sent_unless_the_operator_asks(tmp_path, rng) -> None:
    with Receiver() as receiver:
        with served(tmp_path) as one:
            one.client.ok("POST", "/models", DETECTOR)
            assert sent(one.client, rng, 12)
            for field in ("notify", "webhook", "url"):  # who calls the API has no say
                body = {**DETECTOR, "name": "x", field: receiver.url}
                one.client.refused("POST", "/models", body)
            assert not (tmp_path / "notices.sqlite").exists()
        assert receiver.tries == 0
        with served(tmp_path, delivery=to(receiver)) as one:  # nor what was before
            wanted = sent(one.client, rng, 8)
            until(lambda: len(receiver.got) == len(wanted))
        with served(tmp_path) as one:
            assert sent(one.client, rng, 8)
        count = len(receiver.got)
        with served(tmp_path, delivery=to(receiver)) as one:
            time.sleep(0.2)
        assert len(receiver.got) == count


@pytest.mark.parametrize("keyed", size([True], [False, True]))
def test_a_service_that_is_killed_loses_nothing(tmp_path, rng, keyed) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    more = {"keys": lambda i: [f"k{i % 2}"] * BATCH} if keyed else {}
    wanted = []
    with Receiver([503, 204, "hang"]) as receiver:
        words = ["--notify", receiver.url, "--notify-secret-file", str(tmp_path / "secret"),
                 "--notify-timeout", "0.5"]  # fmt: skip
        for start in range(size(1, 3)):
            process = Process(tmp_path / "s", *words, "--snapshot-seconds", "0.3")
            client = Client(process.url)
            if not start:
                client.ok("POST", "/models", {**DETECTOR, "keyed": keyed})
            wanted += sent(client, rng, size(25, 15), **more)
            if start == size(0, 1):
                time.sleep(0.6)  # a snapshot
            process.kill()
        process = Process(tmp_path / "s", *words)
        ids = lambda: {body["id"] for body in receiver.bodies}
        until(lambda: len(ids()) == len(wanted))
        assert process.stop() == 0
    found = {body["id"]: body["row"] for body in receiver.bodies}
    assert [*found.values()] == wanted and len(wanted) > 20


def test_a_death_before_anything_is_written_loses_nothing(tmp_path, rng, monkeypatch) -> None:
    """As if killed between the answer and the write: the log has it, and it is found again."""
    with Receiver() as receiver:
        engine = Engine(tmp_path, delivery=to(receiver))
        monkeypatch.setattr(engine.notices, "take", lambda *batch: None)
        wanted = direct(engine, rng)
        abandon(engine)
        engine = Engine(tmp_path, delivery=to(receiver))
        engine.close()
    assert receiver.rows() == wanted != []


def test_what_was_taken_is_not_taken_again(tmp_path, rng) -> None:
    """A start applies the log again, and finds its alerts; those that it has are not sent twice."""
    with Receiver() as receiver:
        engine = Engine(tmp_path, delivery=to(receiver))
        wanted = direct(engine, rng)
        until(lambda: receiver.rows() == wanted and not engine.notices.office.waiting()["webhook"])
        abandon(engine)
        engine = Engine(tmp_path, delivery=to(receiver))
        assert engine.replayed > 10
        engine.close()
    assert receiver.rows() == wanted


def test_the_log_of_a_service_that_sent_nothing_is_not_sent_later(tmp_path, rng) -> None:
    with Receiver() as receiver:
        engine = Engine(tmp_path)
        assert direct(engine, rng)
        abandon(engine)
        engine = Engine(tmp_path, delivery=to(receiver))
        assert engine.replayed > 10
        engine.close()
        assert receiver.tries == 0


def test_a_tail_of_the_log_is_not_passed_over(tmp_path, rng, monkeypatch) -> None:
    """A model that is not saved keeps its part of the log; alerts in there are found, too."""
    with Receiver() as receiver:
        engine = Engine(tmp_path, delivery=to(receiver))
        monkeypatch.setattr(engine.notices, "take", lambda *batch: None)
        wanted = direct(engine, rng)
        monkeypatch.setattr(engine.keeper, "_by_tail", lambda slot: True)
        engine.snapshot()
        abandon(engine)
        engine = Engine(tmp_path, delivery=to(receiver))
        assert engine.replayed == 0
        engine.close()
    assert receiver.rows() == wanted != []


def direct(engine, rng, batches=12):
    """Let an engine learn without HTTP; return which rows were alerts."""
    from onkel.app.service import bodies
    from onkel.app.service.bodies import Batch, Entry
    from onkel.app.service.specs import build

    parameters = DETECTOR["parameters"]
    entry = Entry("create", 0, name="pump", kind="Detector", features=DETECTOR["features"])
    entry.parameters = json.dumps(parameters).encode()
    engine.change(entry, build("Detector", parameters)).result()
    found = []
    for i in range(batches):
        given = Batch(rows(rng, far=(7,) if i > 5 else ()), None)
        id = engine.slot("pump").spec.id
        one = bodies.entry_of(given, "predict-then-learn", id, DETECTOR["features"], engine.limits)
        answer = json.loads(engine.change(one).result().body)
        found += [answer["t"] - BATCH + j for j, s in enumerate(answer["values"]) if s == -1]
    return found


def abandon(engine) -> None:
    """Let go of the folder without the goodbyes of an engine that is closed."""
    engine.keeper._stop.set()
    engine.keeper._thread.join()
    engine._committer.close()
    engine.pool.shutdown()
    if engine.notices is not None:
        engine.notices.office.stop()
    engine.state.close()


def test_the_log_does_not_go_before_its_alerts_are_written(tmp_path, rng, monkeypatch) -> None:
    """A snapshot waits for them; killed before, the service finds them in its log."""
    with Receiver() as receiver:
        engine = Engine(tmp_path, delivery=to(receiver))
        free, write = threading.Event(), engine.notices._write
        monkeypatch.setattr(engine.notices, "_write", lambda b: free.wait(30) and write(b))
        wanted = direct(engine, rng)
        start, saving = engine.keeper.log_start, threading.Thread(target=engine.snapshot)
        saving.start()
        saving.join(0.5)
        assert saving.is_alive() and engine.keeper.log_start == start
        free.set()
        saving.join(30)
        assert engine.keeper.log_start > start
        until(lambda: receiver.rows() == wanted)
        abandon(engine)


def test_a_hook_that_hangs_holds_nothing_up(tmp_path, rng) -> None:
    with Receiver(["hang"]) as receiver:
        with served(tmp_path, delivery=to(receiver, timeout=50.0, wait=0.0)) as one:
            one.client.ok("POST", "/models", DETECTOR)
            wanted = sent(one.client, rng, 10)
            until(receiver.hanging.is_set)
            wanted += sent(one.client, rng, 30)
            one.engine.snapshot()
            assert receiver.tries == 1
            waits = one.engine.notices.summary()["webhook"]["waiting"]
            assert waits == len(wanted)
            text = one.client.send("GET", "/metrics")[2].decode()
            assert f'onkel_deliveries_waiting{{target="webhook"}} {float(waits)}' in text
    with Receiver() as receiver:
        with served(tmp_path, delivery=to(receiver)):
            until(lambda: len(receiver.got) == len(wanted))
    assert receiver.rows() == wanted


def test_trouble_is_told(tmp_path, rng) -> None:
    with Receiver([500, 400]) as receiver:
        url = receiver.url
        with served(tmp_path, delivery=to(receiver)) as one:
            one.client.ok("POST", "/models", DETECTOR)
            wanted = sent(one.client, rng, 12)
            until(lambda: len(receiver.got) == len(wanted) - 1)
            told = one.client.ok("GET", "/health")
            assert told["status"] == "degraded" and "undelivered.jsonl" in told["trouble"][0]
    assert (tmp_path / "undelivered.jsonl").read_text().count("\n") == 1
    with served(tmp_path, delivery=to(SimpleNamespace(url=url), wait=0.0)) as one:
        sent(one.client, rng, 8)
        until(lambda: one.client.ok("GET", "/health")["status"] == "degraded")
        assert "does not take alerts" in one.client.ok("GET", "/health")["trouble"][0]


def test_a_damaged_database_of_alerts_is_refused(tmp_path, rng) -> None:
    with Receiver() as receiver:
        delivery = to(receiver, wait=0.0)
    engine = Engine(tmp_path, delivery=delivery)
    direct(engine, rng)
    engine.close()
    path = tmp_path / "notices.sqlite"
    whole = path.read_bytes()
    for change in ("DELETE FROM outbox", "UPDATE taken SET position = 1", "DROP TABLE delivered",
                   "UPDATE meta SET value = '3' WHERE name = 'since'"):  # fmt: skip
        path.write_bytes(whole)
        db = sqlite3.connect(path)
        db.execute(change)
        db.commit()
        db.close()
        with pytest.raises(RuntimeError, match=r"notices\.sqlite cannot be used"):
            Engine(tmp_path, delivery=delivery)
    path.write_bytes(whole)
    Engine(tmp_path, delivery=delivery).close()
