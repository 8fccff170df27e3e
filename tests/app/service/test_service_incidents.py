"""Incidents of a service: those of the whole stream, whatever the requests, whoever is killed."""

from __future__ import annotations

import itertools
import sqlite3
import time

import msgspec
import numpy as np
import pytest
from helpers.receiver import Receiver
from helpers.serving import Client, Process, served
from helpers.sizes import size
from helpers.states import crash

from onkel import Detector, Fleet, NoveltyDetector, alerting, rules
from onkel.app.http.problems import Problem
from onkel.app.notify.channels import address_of
from onkel.app.notify.settings import Delivery
from onkel.app.service import calls, incidents, snapshots
from onkel.app.service.bodies import Entry
from onkel.app.service.engine import Engine

ROWS, KEYS = 1200, 8
MINE = {"warmup": 30, "terms": 20, "nu": 0.02}
KINDS = {
    "plain": (lambda: Detector(**MINE), {"kind": "Detector", "parameters": MINE}),
    "named": (lambda: Detector(**MINE), {"kind": "Detector", "parameters": MINE,
                                         "features": ["level", "flow"]}),
    "paper": (lambda: NoveltyDetector(nu=0.05, warmup=20),
              {"kind": "NoveltyDetector", "parameters": {"nu": 0.05, "warmup": 20}}),
    "clock": (lambda: NoveltyDetector(nu=0.05, warmup=20, rule=rules.Norma(memory="12h")),
              {"kind": "NoveltyDetector", "parameters": {"nu": 0.05, "warmup": 20, "rule":
                                                         {"name": "norma", "memory": "12h"}}}),
    "keyed": (lambda: Fleet(Detector(**MINE)), {"kind": "Detector", "parameters": MINE,
                                                "keyed": True}),
}  # fmt: skip


PAPER = ("paper", "clock")


@pytest.fixture
def stream(rng):
    """Rows, keys and times: single ones that are far away, a fault of one key, one of all."""
    X = rng.normal(size=(ROWS, 2))
    X[rng.choice(np.arange(300, ROWS), 10, replace=False)] += 9.0
    X[np.arange(ROWS) % KEYS == 3, 1] += 7.0 * ((np.arange(150) > 80) & (np.arange(150) < 95))
    X[1000:1016, 0] -= 9.0
    X[-3:] += 15.0
    keys = [f"k{i % KEYS}" if i % KEYS else 7 for i in range(ROWS)]
    return X, keys, (60.0 * np.arange(ROWS)).tolist()


def truth(kind, X, keys, time):
    """Return the incidents of the whole stream, taken in one go; where they drive it, by z."""
    model, of = KINDS[kind][0](), {}
    if kind == "keyed":
        found = model.verdicts(keys, X)[0]
        score, limit, alert, of = found.score, found.limit, found.alert, {"keys": keys}
    else:
        of = {"time": time} if kind == "clock" else {}
        score, limit, alert = model.predict_then_learn(X, output="judgement", **of).T
    low = score - limit if kind in PAPER else score
    rate = 0.05 if kind in PAPER else 0.02
    return alerting.incidents(alert > 0, np.where(alert > 0, low, 0), 20, rate=rate, **of)


def told(one, tells_p=True):
    """Return what an incident's listing must say of it."""
    found = {
        "incident": one.number, "alerts": one.count, "start_row": one.start, "end_row": one.end,
        "rows": one.rows, "peak_row": one.peak_at, "held_back": 0, "wide": one.wide,
        "peak_p" if tells_p else "peak": np.exp(one.peak) if tells_p else one.peak,
    }  # fmt: skip
    if one.began is not None:
        found |= {"start": one.began, "end": one.ended, "seconds": one.duration}
    return found | ({"key": one.key} if one.key is not None else {})


def same(found, wanted) -> None:
    for name, value in wanted.items():
        close = isinstance(value, float)
        assert found[name] == (pytest.approx(value, rel=1e-9) if close else value), name


def cuts(rng, parts):
    edges = [0, *sorted(rng.choice(np.arange(1, ROWS), parts - 1, replace=False)), ROWS]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def body(stream, part, kind):
    X, keys, time = stream
    found = {"X": X[part].tolist()}
    more = {"keyed": {"keys": keys[part]}, "clock": {"time": time[part]}}
    return {**found, **more.get(kind, {})}


def send(client, stream, parts, kind, op="predict-then-learn"):
    for part in parts:
        client.ok("POST", f"/models/pump/{op}", body(stream, part, kind))


def listed(client, start=0, count=1000, **more):
    asked = "&".join(f"{n}={v}" for n, v in {"start": start, "count": count, **more}.items())
    return client.ok("GET", f"/models/pump/incidents?{asked}")


@pytest.mark.parametrize("kind", size(["named", "clock", "keyed"], [*KINDS]))
def test_they_are_those_of_the_whole_stream_whatever_the_requests(
    tmp_path, rng, stream, kind
) -> None:
    wanted = truth(kind, *stream)
    assert len(wanted) > 8 and (kind != "keyed" or any(one.wide for one in wanted))
    answers = []
    for parts in (2, 60):
        with served(tmp_path / str(parts)) as one:
            one.client.ok("POST", "/models", {"name": "pump", **KINDS[kind][1]})
            assert listed(one.client)["incidents"] == []
            ops = ("learn", "predict-then-learn")
            for i, part in enumerate(cuts(rng, parts)):
                send(one.client, stream, [part], kind, ops[i % 2])
            answers.append(listed(one.client))
    for answer in answers:
        by_number = {one["incident"]: one for one in answer["incidents"]}
        assert by_number.keys() == {one.number for one in wanted}
        for one in wanted:
            same(by_number[one.number], told(one, kind not in PAPER))
            assert len(by_number[one.number]["alert_ids"]) == one.count
        states = [one["state"] for one in answer["incidents"]]
        still = states.count("open")
        assert states == ["open"] * still + ["closed"] * (len(states) - still)
        assert (answer["open"], answer["so_far"], answer["found"]) == (still, len(wanted),
                                                                       len(wanted))  # fmt: skip
    for some, other in zip(*(answer["incidents"] for answer in answers), strict=True):
        assert some["words"] == other["words"]
        assert [f["name"] for f in some["features"]] == [f["name"] for f in other["features"]]


def test_what_drives_one_is_named(tmp_path, rng, stream) -> None:
    for kind, name in (("plain", "x0"), ("named", "level"), ("keyed", "x0")):
        with served(tmp_path / kind) as one:
            one.client.ok("POST", "/models", {"name": "pump", **KINDS[kind][1]})
            send(one.client, stream, cuts(rng, 9), kind)
            most = max(listed(one.client)["incidents"], key=lambda o: (o["start_row"] > 980,
                                                                       o["alerts"]))  # fmt: skip
        assert most["features"][0]["name"] == name and name in most["words"]


def test_pages_and_refusals(tmp_path, rng, stream) -> None:
    with served(tmp_path) as one:
        client = one.client
        client.ok("POST", "/models", {"name": "pump", **KINDS["keyed"][1]})
        send(client, stream, cuts(rng, 9), "keyed")
        every = listed(client)["incidents"]
        for count in (1, 3, 7):
            pages = [listed(client, s, count)["incidents"] for s in range(0, len(every), count)]
            assert [*itertools.chain(*pages)] == every
        assert listed(client, len(every))["incidents"] == []
        still = listed(client, open="true")
        assert still["incidents"] == [o for o in every if o["state"] == "open"] != []
        assert still["found"] == still["open"] == len(still["incidents"])
        for asked in ("open=maybe", "start=-1", "count=1001", "count=x"):
            client.refused("GET", f"/models/pump/incidents?{asked}")
        client.ok("POST", "/models", {"name": "clf", "kind": "KernelClassifier"})
        status, error = client.refused("GET", "/models/clf/incidents")
        assert status == 422 and error["code"] == "no_incidents"
        assert client.refused("GET", "/models/nobody/incidents")[0] == 404


def test_weights_of_nothing_are_not_counted_as_rows(tmp_path, rng) -> None:
    """Rows are numbered as those of alerts are: by the rows that were learned before."""
    with served(tmp_path) as one:
        one.client.ok("POST", "/models", {"name": "pump", **KINDS["plain"][1]})
        for i in range(12):
            X = rng.normal(size=(30, 2))
            X[7] += 15.0 * (i == 10)
            weights = rng.integers(0, 2, 30).tolist()
            weights[7] = 1
            given = {"X": X.tolist(), "sample_weight": weights}
            answer = one.client.ok("POST", "/models/pump/predict-then-learn", given)
            if i == 10:
                id = answer["alert_id"][7]
        found = listed(one.client)["incidents"]
    assert any(id in o["alert_ids"] and o["start_row"] <= int(id) <= o["end_row"] for o in found)


# -- restarts, kills, files --------------------------------------------------------------------


def make(engine, kind, name="pump"):
    entry = Entry("create", 0, name=name, **{
        n: v for n, v in KINDS[kind][1].items() if n != "parameters"
    })  # fmt: skip
    entry.parameters = msgspec.json.encode(KINDS[kind][1]["parameters"])
    engine.change(entry).result(20)


def learn(engine, stream, part, kind, name="pump"):
    X, keys, time = stream
    entry = Entry("learn", engine.models.spec(name).id, width=2, numbers=X[part].tobytes())
    entry.time = time[part] if kind == "clock" else None
    entry.keys = keys[part] if kind == "keyed" else None
    return engine.change(entry).result(20)


def kept(engine, name="pump"):
    return engine.slot(name).incidents.dumps()


@pytest.mark.few
@pytest.mark.parametrize("kind", ["plain", "clock", "keyed"])
@pytest.mark.parametrize("how", ["log", "snapshot", "tail", "unsaved"])
def test_a_restart_has_the_same_bytes(tmp_path, rng, stream, kind, how, monkeypatch) -> None:
    engine = Engine(tmp_path / "state", snapshot_seconds=1e6)
    make(engine, kind)
    parts = cuts(rng, 12)
    for i, part in enumerate(parts):
        learn(engine, stream, part, kind)
        if how != "log" and i == 5:
            engine.snapshot()
        if how == "tail" and i == 8:  # its log goes behind its file
            monkeypatch.setattr(engine.keeper, "_by_tail", lambda slot: True)
            engine.snapshot()
        if how == "unsaved" and i == 8:
            with monkeypatch.context() as patch:
                patch.setattr(incidents.ModelIncidents, "restore", lambda self, data: 1 / 0)
                engine.snapshot()
            assert "could not be saved" in engine.troubles()[0]
        if i in (3, 7, 8, 11):
            again = Engine(crash(engine, tmp_path / f"copy{i}"), snapshot_seconds=1e6)
            assert kept(again) == kept(engine) and again.troubles() == []
            again.close()  # a snapshot, and from that alone:
            again = Engine(tmp_path / f"copy{i}", snapshot_seconds=1e6)
            assert again.replayed == 0 and kept(again) == kept(engine)
            again.close()
    assert len(engine.slot("pump").incidents.known()) > 8
    engine.close()
    names = {path.suffix for path in (tmp_path / "state" / "models").iterdir()}
    assert names == {".model", ".incidents"} | ({".log"} if how == "tail" else set())


def test_a_state_from_before_goes_on_with_new_ones(tmp_path, rng, stream) -> None:
    engine = Engine(tmp_path / "state", snapshot_seconds=1e6)
    make(engine, "plain")
    learn(engine, stream, slice(0, 600), "plain")
    engine.close()
    path = tmp_path / "state" / "state.sqlite"
    db = sqlite3.connect(path, isolation_level=None)
    ((id, spec, position, file, tails),) = db.execute("SELECT * FROM models").fetchall()
    model, told = file.split()
    (tmp_path / "state" / "models" / told).unlink()
    noted = dict(db.execute("SELECT name, value FROM meta WHERE name != 'check'"))
    check = snapshots._checksum(noted, [(id, spec, position, model, tails)])
    db.execute("UPDATE models SET file = ?", (model,))
    db.execute("UPDATE meta SET value = ? WHERE name = 'check'", (check,))
    db.close()
    engine = Engine(tmp_path / "state", snapshot_seconds=1e6)
    assert engine.troubles() == [] and engine.slot("pump").incidents.known() == []
    learn(engine, stream, slice(600, ROWS), "plain")
    found = engine.slot("pump").incidents.known()
    assert len(found) > 3 and min(one["start_row"] for one in found) >= 600
    engine.close()


@pytest.mark.parametrize("damage", ["gone", "bytes", "short"])
def test_a_damaged_file_sets_its_model_aside(tmp_path, stream, damage) -> None:
    engine = Engine(tmp_path / "state", snapshot_seconds=1e6)
    for name in ("pump", "other"):
        make(engine, "plain", name)
        learn(engine, stream, slice(0, 600), "plain", name)
    engine.close()
    (path,) = (tmp_path / "state" / "models").glob("1-*.incidents")
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:-9] if damage == "short" else data[:40] + b"?" + data[41:])
    engine = Engine(tmp_path / "state")
    (words,) = engine.troubles()
    assert "'pump' is set aside" in words and path.name in words
    assert len(engine.slot("other").incidents.known()) > 0
    engine.close()
    path.write_bytes(data)
    engine = Engine(tmp_path / "state")
    assert engine.troubles() == [] and kept(engine) == data
    engine.close()


def test_what_is_refused_is_not_in_them(tmp_path, rng, stream, monkeypatch) -> None:
    """A row at which learning fails, in the midst: the model is put back, they never moved."""
    engine = Engine(tmp_path / "state", snapshot_seconds=1e6)
    make(engine, "plain")
    own, bomb = calls.judge.answer, stream[0].copy()
    bomb[7] = 777.0

    def failing(estimator, X, *args, **how):
        found = own(estimator, X, *args, **how)
        if np.any(np.asarray(X) == 777.0):
            raise IndexError("no such place")
        return found

    monkeypatch.setattr(calls.judge, "answer", failing)
    for i, part in enumerate(cuts(rng, 8)):
        learn(engine, stream, part, "plain")
        before = kept(engine)
        with pytest.raises(Problem, match="no such place"):
            learn(engine, (bomb, *stream[1:]), slice(0, 50), "plain")
        assert kept(engine) == before
        if i == 4:
            engine.snapshot()
    again = Engine(crash(engine, tmp_path / "copy"))
    assert kept(again) == kept(engine)
    again.close()
    engine.close()


def test_an_error_in_them_is_told_and_learning_goes_on(tmp_path, stream, monkeypatch) -> None:
    engine = Engine(tmp_path / "state", snapshot_seconds=1e6)
    make(engine, "plain")
    with monkeypatch.context() as patch:
        patch.setattr(incidents, "places_of", lambda *args: 1 / 0)
        learn(engine, stream, slice(0, 300), "plain")
    learn(engine, stream, slice(300, 600), "plain")
    assert engine.slot("pump").estimator.t_ == 600
    (words,) = engine.troubles()
    assert "incidents of 'pump' are not whole: Record 2 is not in them (ZeroDivision" in words
    engine.close()
    again = Engine(tmp_path / "state")
    assert again.troubles() == [words]
    again.close()


def test_they_are_bounded(tmp_path, stream, monkeypatch) -> None:
    monkeypatch.setattr(incidents, "OPEN", 2)
    monkeypatch.setattr(incidents, "LATEST", 5)
    X, keys, _ = stream
    engine = Engine(tmp_path / "state")
    make(engine, "keyed")
    learn(engine, stream, slice(0, ROWS), "keyed")
    own = engine.slot("pump").incidents
    found = Fleet(Detector(**MINE)).verdicts(keys, X)[0]
    wanted = alerting.incidents(
        found.alert, np.where(found.alert, found.score, 0), 20, keys=keys, rate=0.02, most=2
    )
    listed = own.listed(0, 1000)
    still = listed["open"]
    assert still <= 3 and listed["so_far"] == len(wanted) and listed["found"] == still + 5
    ended = {one.number: one for one in wanted}
    for one in listed["incidents"]:
        same(one, {"alerts": ended[one["incident"]].count, "end_row": ended[one["incident"]].end})
    engine.close()


def test_a_key_that_is_forgotten_closes_its_own(tmp_path, rng, stream) -> None:
    with served(tmp_path) as one:
        one.client.ok("POST", "/models", {"name": "pump", **KINDS["keyed"][1]})
        send(one.client, stream, cuts(rng, 5), "keyed")
        still = [o for o in listed(one.client)["incidents"] if o["state"] == "open" and "key" in o]
        key = still[0]["key"]
        one.client.ok("POST", "/models/pump/forget", {"keys": [key]})
        after = {o["incident"]: o["state"] for o in listed(one.client)["incidents"]}
        assert after[still[0]["incident"]] == "closed"
        assert [after[o["incident"]] for o in still if o["key"] != key] == ["open"] * (
            len(still) - 1
        )


def test_the_page_shows_those_that_are_kept(tmp_path, rng, stream) -> None:
    with served(tmp_path) as one:
        one.client.ok("POST", "/models", {"name": "pump", **KINDS["plain"][1]})
        send(one.client, stream, cuts(rng, 5), "plain")
        shown = one.engine.board._streams["pump"].incidents
        told = listed(one.client)
        assert shown == told["incidents"][: len(shown)] != []
        numbers = one.engine.board._streams["pump"].numbers
        assert (numbers["incidents"], numbers["incidents_open"]) == (told["so_far"], told["open"])
    with served(tmp_path) as one:
        assert one.engine.board._streams["pump"].incidents == shown
        assert one.engine.board._streams["pump"].numbers["incidents"] == told["so_far"]


@pytest.mark.parametrize("kind", ["plain", "paper", "keyed"])
def test_the_page_has_all_alerts_of_each(tmp_path, rng, stream, kind) -> None:
    with served(tmp_path) as one:
        one.client.ok("POST", "/models", {"name": "pump", **KINDS[kind][1]})
        send(one.client, stream, cuts(rng, 5), kind)
        told = listed(one.client)["incidents"]
        wide = {found["wide"] for found in told}
        assert len(told) > 10 and wide == ({True, False} if kind == "keyed" else {False})
        for wanted in told:
            found = one.engine.board.incident("pump", wanted["incident"])["alerts"]
            assert len(found) == wanted["alerts"]
            assert {alert["incident"] for alert in found} == {wanted["incident"]}
            rows = {alert["t"] - 1 for alert in found}
            assert {wanted["start_row"], wanted["end_row"], wanted["peak_row"]} <= rows
            if kind == "keyed":
                names = {f"{alert['key']}:{alert['id']}" for alert in found}
                assert names == set(wanted["alert_ids"])


@pytest.mark.long  # in a quick run the one below that is killed is compared, too
def test_a_service_that_is_killed_has_those_of_one_that_is_not(tmp_path, rng, stream) -> None:
    models, kills = {"pump": "plain", "pumps": "keyed"}, 8

    def begun(client):
        for name, kind in models.items():
            client.ok("POST", "/models", {"name": name, **KINDS[kind][1]})

    def learned(client, part):
        for name, kind in models.items():
            client.ok("POST", f"/models/{name}/learn", body(stream, part, kind))

    def answers(client):
        return [client.send("GET", f"/models/{n}/incidents?count=1000")[2] for n in models]

    parts = cuts(rng, 24)
    with served(tmp_path / "whole") as one:
        begun(one.client)
        for part in parts:
            learned(one.client, part)
        wanted = answers(one.client)
    process = Process(tmp_path / "cut", "--snapshot-seconds", "0.2")
    begun(Client(process.url))
    for i, part in enumerate(parts):
        learned(Client(process.url), part)
        if i % (len(parts) // kills) == 2 + 15 // kills:
            time.sleep(float(rng.uniform(0, 0.6)))  # sometimes a snapshot is being made
            process.kill()
            process = Process(tmp_path / "cut", "--snapshot-seconds", "0.2")
    assert answers(Client(process.url)) == wanted and all(len(data) > 3000 for data in wanted)
    assert process.stop() == 0


# -- delivery ----------------------------------------------------------------------------------


def until(condition, seconds=30.0) -> None:
    stop = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop, "it did not come about"
        time.sleep(0.01)


def to(receiver, what="incidents", **more) -> Delivery:
    return Delivery(address_of(receiver.url), **{"wait": 5.0, "what": what, **more})


def once(bodies):
    """Return messages without those that came before: what a receiver does by their ids."""
    return [*{body["id"]: body for body in bodies}.values()]


def line_of(bodies):
    return [(b["kind"], b.get("state"), b["incident"], b.get("row")) for b in bodies]


@pytest.mark.parametrize("kind", size(["keyed"], ["plain", "keyed"]))
def test_messages_are_those_of_the_whole_stream(tmp_path, rng, stream, kind) -> None:
    """With the alerts, in one order whatever the requests."""
    wanted, lines = truth(kind, *stream), []
    for parts in (1, 40):
        with Receiver() as receiver:
            with served(tmp_path / str(parts), delivery=to(receiver, "both")) as one:
                one.client.ok("POST", "/models", {"name": "pump", **KINDS[kind][1]})
                send(one.client, stream, cuts(rng, parts), kind)
            lines.append(line_of(receiver.bodies))
    assert lines[0] == lines[1]
    ends = {b["incident"]: b for b in receiver.bodies if b.get("state") == "closed"}
    opened = [b["incident"] for b in receiver.bodies if b.get("state") == "opened"]
    assert ends.keys() | {o.number for o in wanted if o.number not in ends} <= set(opened)
    for one in wanted:
        if one.number in ends:
            found = {**told(one), **({"key": str(one.key)} if one.key is not None else {})}
            same(ends[one.number], {n: v for n, v in found.items() if n != "wide"})
    seen = {}
    for message, state, number, _ in lines[0]:
        if message == "incident":
            seen[number] = state
        else:
            assert seen[number] == "opened"
    alerts = sum(one.count for one in wanted)
    assert sum(message == "alert" for message, *_ in lines[0]) == alerts


@pytest.mark.parametrize("kind", size(["keyed"], ["plain", "keyed"]))
def test_a_service_that_is_killed_tells_of_each_once(tmp_path, rng, stream, kind) -> None:
    parts, kills, model = cuts(rng, 30), size(1, 7), {"name": "pump", **KINDS[kind][1]}
    with Receiver() as receiver:
        with served(tmp_path / "whole", delivery=to(receiver)) as one:
            one.client.ok("POST", "/models", model)
            send(one.client, stream, parts, kind)
            whole = listed(one.client)
        wanted = receiver.bodies
    with Receiver([503, 204, "hang"]) as receiver:
        words = ["--notify", receiver.url, "--notify-what", "incidents", "--notify-timeout",
                 "0.5", "--snapshot-seconds", "0.3"]  # fmt: skip
        process = Process(tmp_path / "cut", *words)
        Client(process.url).ok("POST", "/models", model)
        for i, part in enumerate(parts):
            send(Client(process.url), stream, [part], kind)
            if i % (len(parts) // kills) == 2 + 20 // kills:
                process.kill()
                process = Process(tmp_path / "cut", *words)
        assert listed(Client(process.url)) == whole
        assert whole["so_far"] == len(truth(kind, *stream))
        until(lambda: len(once(receiver.bodies)) == len(wanted))
        assert process.stop() == 0
    found = once(receiver.bodies)
    assert line_of(found) == line_of(wanted) and len(found) > 15
    ids = {body["incident"]: body["incident_id"] for body in found}
    assert len(set(ids.values())) == len(ids)
    assert all(body["incident_id"] == ids[body["incident"]] for body in found)
    assert all(body["kind"] == "incident" and body["source"] == "pump" for body in found)


def test_a_model_that_is_deleted_leaves_none_open(tmp_path, rng, stream) -> None:
    """Nobody would close them; another model of its name begins with other ids."""
    with Receiver() as receiver:
        with served(tmp_path, delivery=to(receiver)) as one:
            for _ in range(2):
                one.client.ok("POST", "/models", {"name": "pump", **KINDS["keyed"][1]})
                send(one.client, stream, cuts(rng, 4), "keyed")
                still = {o["incident"] for o in listed(one.client, open="true")["incidents"]}
                one.client.ok("DELETE", "/models/pump")
    last = {body["incident_id"]: body for body in receiver.bodies}
    left = [b["incident"] for b in last.values() if b["state"] == "unfinished"]
    assert still and sorted(left) == sorted([*still, *still])
    assert {b["state"] for b in last.values()} == {"closed", "joined", "unfinished"}
    assert len({b["id"] for b in receiver.bodies}) == len(receiver.bodies)


def test_a_snapshot_waits_for_a_model_that_goes(tmp_path, rng, stream, monkeypatch) -> None:
    """What it has to tell is in the outbox before its log goes."""
    with Receiver() as receiver:
        engine = Engine(tmp_path, delivery=to(receiver), snapshot_seconds=1e6)
        make(engine, "plain")
        learn(engine, stream, slice(0, ROWS), "plain")
        engine.slot("pump").do(lambda: time.sleep(0.5))
        engine.change(Entry("delete", 1)).result(20)
        engine.snapshot()
        made = sqlite3.connect(tmp_path / "notices.sqlite").execute(
            "SELECT value FROM meta WHERE name = 'made webhook'"
        )
        ((count,),) = made.fetchall()
        engine.close()
    assert int(count) == len(receiver.bodies) and receiver.bodies[-1]["state"] == "unfinished"


@pytest.mark.parametrize("kind", ["plain", "keyed"])
def test_who_begins_to_hear_is_told_of_those_that_are_open(tmp_path, stream, kind) -> None:
    """Once, before all that comes; and of no end of what it was not told to be open."""
    ends, hears, folder = [1008, 1010, 1012, ROWS], [None, "alerts", *["incidents"] * 2], "0"
    with Receiver() as receiver:
        told_of = lambda: [b for b in receiver.bodies if b["kind"] == "incident"]
        for part, what in zip(itertools.pairwise([0, *ends]), hears, strict=True):
            delivery = None if what is None else to(receiver, what)
            engine = Engine(tmp_path / folder, delivery=delivery, snapshot_seconds=1e6)
            if what is None:
                make(engine, kind)
            if part[0] == 1010:
                known = engine.slot("pump").incidents.listed(0, 1000, only_open=True)
                still = {one["incident"] for one in known["incidents"]}
                until(lambda still=still: {b["incident"] for b in told_of()} == still)
                assert len(told_of()) == len(still) > 0
                assert {b["state"] for b in told_of()} == {"opened"}
            learn(engine, stream, slice(*part), kind)
            if what != "incidents":  # a kill leaves a log that is applied again
                folder = crash(engine, tmp_path / f"{folder}0").name
            engine.close()
    found = told_of()
    assert len({body["id"] for body in found}) == len(found) > len(still)
    states = {}
    for body in found:
        states.setdefault(body["incident"], []).append(body["state"])
    assert all(each[0] == "opened" and len(each) < 3 for each in states.values())
    assert any(len(states[number]) == 2 for number in still)
