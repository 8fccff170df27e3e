"""kill -9 while two clients send: nothing acknowledged is lost, nothing is applied twice.

``ONKEL_KILLS=100 pytest tests/app/service/test_service_kill.py`` for the long run.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers.flights import flights
from helpers.serving import ROOT, Client, Process
from safetensors.numpy import load

from onkel import Columns, Detector, Fleet, KernelRegressor, NoveltyDetector, alerting, files

KILLS = int(os.environ.get("ONKEL_KILLS", "6"))
ROWS = 40
MIXED = {"terms": 100, "columns": {"when": "time"}}
HEARD = {"terms": 50, "warmup": 30, "nu": 0.05, "precision": 0.6}
KEYED = {"terms": 20, "warmup": 30, "nu": 0.05}


class Sender(threading.Thread):
    """Sends batches to one model, each until it is acknowledged, with a key of its own."""

    def __init__(self, where, model, number, seed):
        super().__init__()
        self.where, self.model, self.number = where, model, number
        self.rng = np.random.default_rng(seed)
        self.stop = threading.Event()
        self.acknowledged = {}
        self.retries = 0
        self.error = None

    def run(self):
        try:
            count = 0
            while not self.stop.is_set():
                X, y = drawn(self.model, self.rng)
                body = {"X": X, "y": y}
                if self.model == "keyed":
                    y = body["keys"] = self.rng.integers(0, 200, len(X)).tolist()
                    del body["y"]
                answer = self.send(body, f"{self.number}-{count}")
                self.acknowledged[answer["position"]] = (X, y, answer.get("values"))
                if self.model == "heard":
                    self.reply([id for id in answer["alert_id"] if id], f"{self.number}-{count}-")
                count += 1
        except BaseException as error:
            self.error = error

    def reply(self, ids, key):
        """Say what each alert was, by lot."""
        for id in ids:
            said = {"id": id, "answer": ("usual", "fault")[int(self.rng.integers(2))]}
            answer = self.send(said, f"{key}{id}", "feedback")
            self.acknowledged[answer["position"]] = said

    def send(self, body, key, what="predict-then-learn"):
        while True:
            try:
                client = Client(self.where["url"])
                path = f"/models/{self.model}/{what}"
                status, _, data = client.send("POST", path, body, {"Idempotency-Key": key})
                client.connection.close()
                assert status == 200, data
                return json.loads(data)
            except (OSError, http.client.HTTPException):
                self.retries += 1
                time.sleep(0.02)


def drawn(model, rng):
    """Return rows and targets for a model: numbers, or cells of all kinds."""
    if model == "mixed":
        return flights(ROWS, int(rng.integers(2**31))), None
    X = rng.normal(size=(ROWS, 3))
    return X.tolist(), X.sum(axis=1).tolist()


@pytest.mark.long
def test_kill(tmp_path, rng):
    options = ["--snapshot-bytes", "60000", "--snapshot-seconds", "1", "--archive", "30d"]
    process, where = Process(tmp_path / "state", *options), {}
    where["url"] = process.url
    client = Client(process.url)
    client.ok("POST", "/models", {"name": "shared", "kind": "NoveltyDetector"})
    client.ok("POST", "/models", {"name": "own", "kind": "KernelRegressor"})
    client.ok("POST", "/models", {"name": "mixed", "kind": "Detector", "parameters": MIXED})
    keyed = {"name": "keyed", "kind": "Detector", "keyed": True, "parameters": KEYED}
    client.ok("POST", "/models", keyed)
    client.ok("POST", "/models", {"name": "heard", "kind": "Detector", "parameters": HEARD})
    names = ["shared", "shared", "own", "mixed", "mixed", "keyed", "keyed", "heard", "heard"]
    senders = [Sender(where, name, i, i) for i, name in enumerate(names)]
    for sender in senders:
        sender.start()
    for _ in range(KILLS):
        time.sleep(float(rng.uniform(0.0, 1.5)))
        process.kill()
        process = Process(tmp_path / "state", *options)
        where["url"] = process.url
    time.sleep(0.5)
    for sender in senders:
        sender.stop.set()
        sender.join()
        assert sender.error is None
    check(Client(process.url), senders)
    process.kill()  # and once more, after everything was said
    process = Process(tmp_path / "state", *options)
    check(Client(process.url), senders)
    assert process.stop() == 0
    print(f"{KILLS} kills, {sum(len(s.acknowledged) for s in senders)} batches acknowledged, "
          f"{sum(s.retries for s in senders)} sent again")  # fmt: skip


def check(client, senders):
    """The models are those of a library run over what was acknowledged, in the order of the log."""
    mixed = Detector(terms=100, columns=Columns({"when": "time"}))
    for name, fresh in (
        ("shared", NoveltyDetector()), ("own", KernelRegressor()), ("mixed", mixed),
        ("keyed", Fleet(Detector(**KEYED))), ("heard", Detector(**HEARD)),
    ):  # fmt: skip
        batches = {}
        for sender in senders:
            if sender.model == name:
                assert not batches.keys() & sender.acknowledged.keys()
                batches |= sender.acknowledged
        assert batches
        marks, keys = [], []
        for _, batch in sorted(batches.items()):
            if isinstance(batch, dict):
                fresh.feedback(**batch)
                continue
            X, y, values = batch
            given = (y, np.array(X)) if name == "keyed" else (X, y if name == "own" else None)
            own = fresh.predict_then_learn(*given)
            assert own.tolist() == values
            marks += (own == -1).tolist()
            keys += y if name == "keyed" else []
        if name != "own":
            check_incidents(client, name, marks, keys)
        found = client.send("GET", f"/models/{name}/file")[2]
        learned = sum(not isinstance(batch, dict) for batch in batches.values())
        assert files.loads(found).t_ == ROWS * learned == fresh.t_
        assert unlike(found, files.dumps(fresh)) == {}, name
        if name != "own":
            said = [b[2] for _, b in sorted(batches.items()) if not isinstance(b, dict)]
            check_replay(client, name, np.concatenate(said) < 0)


def check_replay(client, name, alerts):
    """What was kept, replayed with the model's own settings, has the alerts that were answered."""
    for since in np.linspace(0, len(alerts) - 1, 4).astype(int).tolist():
        found = client.ok("POST", f"/models/{name}/replay", {"since": since})
        own = found["settings"][0]
        assert (found["rows"], found["from_row"], found["notes"]) == (len(alerts), 0, [])
        assert (own["rows"], own["alerts"]) == (len(alerts) - since, alerts[since:].sum()), name


def check_incidents(client, name, marks, keys):
    """Those of a model are those of the whole stream, in the order of the log."""
    rate = KEYED["nu"] if keys else None
    wanted = alerting.incidents(marks, np.zeros(len(marks)), 20, keys=keys or None, rate=rate)
    told = client.ok("GET", f"/models/{name}/incidents?count=1000")
    assert told["so_far"] == len(wanted)
    by_number = {one.number: one for one in wanted}
    for one in told["incidents"]:
        own = by_number[one["incident"]]
        assert (one["alerts"], one["start_row"], one["end_row"]) == (own.count, own.start, own.end)


def unlike(a, b):
    """Return where two model files differ, if they do: by name, the largest difference."""
    if a == b:
        return {}
    x, y = load(a), load(b)
    differ = [n for n in x.keys() | y.keys() if not np.array_equal(x.get(n), y.get(n))]
    found = {n: np.abs(x[n] - y[n]).max() if n in x and n in y else "one has it" for n in differ}
    return found or {"header": "differs"}


@pytest.mark.long
def test_kill_among_faults(tmp_path, rng):
    """Learning fails at random, requests are refused, and the process is killed: the same bits.

    A refusal that was answered stays one, though the same record might be learned the next time.
    """

    def start(*what):
        command = [sys.executable, str(ROOT / "tests" / "helpers" / "faulty.py"), str(tmp_path)]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen(
            [*command, *what], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    for _ in range(8):
        process = start()
        line = process.stdout.readline()
        assert line == "up\n", (line, process.communicate(timeout=20))
        time.sleep(float(rng.uniform(0.1, 1.5)))
        process.kill()
        assert process.communicate()[0] == "", "nothing went wrong before"
    out, err = start("check").communicate(timeout=120)
    assert out == "same\n", err
