"""Metrics of a command and of a service, read by Prometheus itself; the dashboard over them."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import urllib.request
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from helpers.prometheus import Alertmanager, Prometheus, check_text, get, needed
from helpers.receiver import Receiver
from helpers.runs_of import begin, json_lines, onkel, write_rows
from helpers.serving import served

from onkel.app.live.metrics import Gauges
from onkel.app.notify.channels import address_of
from onkel.app.notify.settings import Delivery

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "a token of more than sixteen"
DASHBOARD = ROOT / "docs" / "grafana" / "onkel.json"


def families(text):
    """Return the metrics of a text by name, each with its samples; written anew for the test."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            found[line.split()[2]] = {}
        elif not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            family = name.partition("{")[0]
            family = re.sub(r"_(bucket|sum|count)$", "", family) if family not in found else family
            found[family][name] = float(value)
    return found


def value(text, name):
    (found,) = families(text)[name].values()
    return found


def fetched(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


@pytest.fixture
def stream(rng, tmp_path):
    X = rng.normal(size=(2000, 3))
    X[rng.choice(np.arange(600, 2000), 25, replace=False)] += 9.0
    path = write_rows(
        tmp_path / "stream.csv", X, y=X.sum(axis=1), label=np.where(X[:, 0] > 0, "a", "b")
    )
    with open(path, "a") as file:
        file.write("no,number,at,all,x\n" * 3)
    return path


def running(*words):
    """Start a command that follows its file; return it and the address of its metrics."""
    process = begin(*words, "--follow", "--metrics", 0, stderr=subprocess.PIPE)
    for line in process.stderr:
        if b"metrics are at" in line:
            return process, line.decode().split()[-1]
    raise AssertionError("no metrics")


def waited(url, name, wanted):
    stop = time.monotonic() + 60
    while time.monotonic() < stop:
        text = fetched(url)
        if text and value(text, name) == wanted:
            return text
        time.sleep(0.1)
    raise AssertionError(text)


def test_a_running_command_tells_what_it_counts(stream, tmp_path) -> None:
    with Receiver() as receiver:
        words = ["detect", stream, "--columns", "a,b,c", "-o", tmp_path / "out.jsonl"]
        process, url = running(*words, "--notify", receiver.url)
        try:
            text = waited(url, "onkel_rows_total", 2003.0)
        finally:
            process.terminate()
            process.communicate(timeout=30)
    alerts = len((tmp_path / "out.jsonl").read_text().splitlines())
    assert value(text, "onkel_alerts_total") == alerts > 10
    assert (
        value(text, "onkel_broken_rows_total") == 3 and value(text, "onkel_examples_total") == 2000
    )
    assert value(text, "onkel_rate_promised") == 0.01
    summary = json.loads(onkel(*words[:4], "-o", tmp_path / "again", "--json").stdout)
    assert value(text, "onkel_rate_realised") == summary["rate_realised"]
    assert value(text, "onkel_incidents_open") == summary["incidents_open"]
    assert value(text, "onkel_model_bytes") > 1000 and value(text, "onkel_models") == 1
    assert 0 <= value(text, "onkel_seconds_since_row") < 60
    assert 'model="stream.csv"' in text
    check_text(text)


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_what_other_tasks_count(stream, tmp_path, task, monkeypatch) -> None:
    target, other = ("label", "y") if task == "classify" else ("y", "label")
    gauges = Gauges(str(stream))
    monkeypatch.setattr("onkel.app.conduct.Gauges", lambda source: gauges)
    done = onkel(task, stream, "--target", target, "--ignore", other, "--metrics", 0, "-o",
                 tmp_path / "out", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    told, text = json.loads(done.stdout), gauges.text()
    realised = told["mistake_rate"] if task == "classify" else 1 - told["coverage_realised"]
    assert value(text, "onkel_rate_realised") == pytest.approx(realised)
    share = value(text, "onkel_alerts_total") / value(text, "onkel_examples_total")
    assert share == pytest.approx(realised)
    check_text(text)


def test_metrics_are_for_this_machine(stream, tmp_path) -> None:
    words = ["detect", stream, "-o", tmp_path / "out"]
    for address, said in (("0.0.0.0:0", "this machine alone"), ("x", "--metrics is PORT")):
        done = onkel(*words, "--metrics", address)
        assert done.exit_code == 2 and said in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_dashboard_has_them_too(stream, tmp_path) -> None:
    process = begin("detect", stream, "--columns", "a,b,c", "-o", tmp_path / "out", "--follow",
                    "--dashboard", 0, stderr=subprocess.PIPE)  # fmt: skip
    try:
        line = next(line for line in process.stderr if b"live page" in line)
        waited(line.decode().split()[-1] + "/metrics", "onkel_rows_total", 2003.0)
    finally:
        process.terminate()
        process.communicate(timeout=30)


# -- Prometheus --------------------------------------------------------------------------------


def work(client, rng, stop) -> None:
    """Keep a service busy with models of all tasks, until told to stop."""
    parameters = {"warmup": 100, "terms": 50}
    client.ok("POST", "/models", {"name": "pump", "kind": "Detector", "parameters": parameters})
    client.ok("POST", "/models", {"name": "price", "task": "regression"})
    while not stop.is_set():
        X = rng.normal(size=(25, 3))
        X[5] += 15.0
        client.ok("POST", "/models/pump/predict-then-learn", {"X": X.tolist()})
        y = X.sum(axis=1).tolist()
        client.ok("POST", "/models/price/learn", {"X": X.tolist(), "y": y})
        stop.wait(0.05)


@pytest.mark.long
def test_prometheus_reads_the_service(tmp_path, rng) -> None:
    """Prometheus shows what the service counts, and answers every question of the dashboard."""
    (tmp_path / "token").write_text(TOKEN)
    stop = threading.Event()
    with Receiver([400]) as receiver:
        delivery = Delivery(address_of(receiver.url))
        with served(tmp_path / "s", TOKEN, delivery) as one:
            host = one.url.removeprefix("http://")
            with Prometheus(tmp_path / "p", host, tmp_path / "token") as prometheus:
                busy = threading.Thread(target=work, args=(one.client, rng, stop))
                busy.start()
                try:
                    alerts = 'onkel_alerts_total{model="pump"} > 10'
                    found = prometheus.wait(lambda: prometheus.query(alerts))
                    assert found[0]["metric"]["job"] == "onkel"
                    sent = 'onkel_deliveries_total{target="webhook",outcome="delivered"} > 10'
                    prometheus.wait(lambda: prometheus.query(sent))
                    ask_all(prometheus)
                finally:
                    stop.set()
                    busy.join()
                # At rest, what Prometheus says is what the service has counted.
                count = float(one.engine.slot("pump").examples)
                same = f'onkel_examples_total{{model="pump"}} == {count}'
                prometheus.wait(lambda: prometheus.query(same))
            text = one.client.send("GET", "/metrics")[2].decode()
            still = one.client.ok("GET", "/models/pump/incidents?open=true")["open"]
            assert value(text, "onkel_incidents_open") == still
    check_text(text)


COMMANDS_ONLY = {"onkel_rows_total", "onkel_broken_rows_total"}


def ask_all(prometheus) -> None:
    """Ask what the dashboard asks; each question has an answer, but those to a command."""
    for query in queries():
        meant = query.replace("$__rate_interval", "5s").replace("$model", ".*")
        if names_in(query) <= COMMANDS_ONLY:
            assert prometheus.query(meant) == []
        else:
            assert prometheus.wait(lambda q=meant: prometheus.query(q)), query


@pytest.mark.long
def test_prometheus_reads_a_command(stream, tmp_path) -> None:
    process, url = running("detect", stream, "--columns", "a,b,c", "-o", tmp_path / "out.jsonl")
    host = url.removeprefix("http://").partition("/")[0]
    try:
        with Prometheus(tmp_path / "p", host) as prometheus:
            prometheus.wait(lambda: prometheus.query("onkel_rows_total == 2003"))
            found = prometheus.query("onkel_alerts_total")[0]
        assert found["metric"]["model"] == "stream.csv"
        lines = (tmp_path / "out.jsonl").read_text().splitlines()
        assert float(found["value"][1]) == len(lines)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_alertmanager_takes_our_alerts(stream, tmp_path) -> None:
    with Alertmanager(tmp_path / "a") as alertmanager:
        done = onkel("detect", stream, "--columns", "a,b,c", "--key", "label", "-o",
                     tmp_path / "out.jsonl", "--notify", f"{alertmanager.url}/api/v2/alerts",
                     "--notify-format", "alertmanager")  # fmt: skip
        assert done.exit_code == 0, done.output
        url = f"{alertmanager.url}/api/v2/alerts"
        found = alertmanager.wait(lambda: len(get(url)) == 2 and get(url))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    last = {line["key"]: line for line in lines}
    assert {a["labels"]["key"] for a in found} == set(last) == {"a", "b"}
    for alert in found:  # those of a key are one that goes on, and the last one tells
        assert alert["annotations"]["row"] == str(last[alert["labels"]["key"]]["row"])
        assert alert["status"]["state"] in ("active", "unprocessed")


def test_an_incident_fires_in_alertmanager_until_it_is_over(rng, tmp_path) -> None:
    """One alert there, known by the incident's id: people hear that it fires, and of its end."""
    X = rng.normal(size=(1100, 3))
    X[1000:1030] += 9.0
    X[700] += 9.0
    path = tmp_path / "stream.csv"
    write_rows(path, X)
    lines = path.read_text().splitlines(keepends=True)
    with (
        Receiver() as people,
        Alertmanager(tmp_path / "a", people.url) as alertmanager,
    ):
        url = f"{alertmanager.url}/api/v2/alerts"
        words = ["detect", path, "-o", tmp_path / "out.jsonl", "--state", tmp_path / "s",
                 "--incidents", tmp_path / "inc.jsonl", "--notify", url, "--notify-what",
                 "incidents", "--notify-format", "alertmanager"]  # fmt: skip

        def heard(status):
            own = [alert for body in people.bodies for alert in body["alerts"]]
            number = str(told()[-1]["incident"])
            return [a for a in own if (a["status"], a["labels"]["incident"]) == (status, number)]

        def told():
            return json_lines(tmp_path / "inc.jsonl")

        path.write_text("".join(lines[:1011]))  # within the fault
        assert onkel(*words).exit_code == 0
        (fires,) = alertmanager.wait(lambda: heard("firing"))
        assert fires["annotations"]["summary"] == told()[-1]["words"]
        (goes_on,) = get(url)
        assert goes_on["labels"] == fires["labels"]
        path.write_text("".join(lines[:1101]))
        assert onkel(*words).exit_code == 0
        (ended,) = alertmanager.wait(lambda: heard("resolved"))
        over = told()[-1]
        assert over["state"] == "closed" and 990 < over["start_row"] <= 1000 < over["end_row"]
        assert ended["labels"] == fires["labels"]
        assert ended["annotations"]["alerts"] == str(over["alerts"])
        assert ended["startsAt"] == fires["startsAt"]
        began, ended_at = (datetime.fromisoformat(ended[name]) for name in ("startsAt", "endsAt"))
        assert began < ended_at  # as texts they have no zeros at their ends
        assert len(heard("firing")) == 1 and get(url) == []


# -- the dashboard -----------------------------------------------------------------------------


def queries():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def names_in(query):
    found = set(re.findall(r"onkel_[a-z_]+", query))
    return {re.sub(r"_bucket$", "", name) for name in found}


def test_the_dashboard_asks_for_what_there_is(tmp_path, rng, stream) -> None:
    with (
        Receiver() as receiver,
        served(tmp_path / "s", delivery=Delivery(address_of(receiver.url))) as one,
    ):
        body = {"name": "m", "task": "regression"}
        one.client.ok("POST", "/models", body)
        X = rng.normal(size=(50, 2))
        one.client.ok("POST", "/models/m/learn", {"X": X.tolist(), "y": X[:, 0].tolist()})
        one.client.ok("POST", "/models", {"name": "d", "task": "novelty"})
        one.client.ok("POST", "/models/d/learn", {"X": X.tolist()})
        known = set(families(one.client.send("GET", "/metrics")[2].decode()))
    asked = set().union(*map(names_in, queries()))
    assert asked <= known | COMMANDS_ONLY and len(asked) > 10
    assert asked >= COMMANDS_ONLY | {"onkel_alerts_total", "onkel_deliveries_total"}


def test_the_dashboard_is_whole() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
        assert panel["description"] and panel["datasource"]["uid"] == "${datasource}"
    names = {variable["name"] for variable in board["templating"]["list"]}
    assert names == {"datasource", "model"}


def test_grafana_has_a_place_for_each_field_of_the_dashboard() -> None:
    models = pytest.importorskip(
        "grafana_foundation_sdk.models.dashboard", reason="needs grafana-foundation-sdk"
    )
    from grafana_foundation_sdk.cog.encoder import JSONEncoder

    def lost(ours, read, path=""):
        """Return what was not read, or read as something else."""
        if isinstance(ours, dict) and isinstance(read, dict):
            return [p for n, v in ours.items() for p in lost(v, read.get(n), f"{path}.{n}")]
        if isinstance(ours, list) and isinstance(read, list) and len(ours) == len(read):
            pairs = enumerate(zip(ours, read, strict=True))
            return [p for i, (a, b) in pairs for p in lost(a, b, f"{path}[{i}]")]
        return [] if ours == read else [path]

    board = json.loads(DASHBOARD.read_text())
    read = json.loads(JSONEncoder().encode(models.Dashboard.from_json(board)))
    # Both are written by Grafana's export; these classes do without.
    assert lost(board, read) == [".__requires", ".templating.list[1].definition"]
    board["panels"][1]["fieldConfig"]["defaults"]["unitt"] = "s"
    read = json.loads(JSONEncoder().encode(models.Dashboard.from_json(board)))
    assert ".panels[1].fieldConfig.defaults.unitt" in lost(board, read)


def test_prometheus_understands_what_the_guide_shows(tmp_path) -> None:
    program = needed("promtool")
    guide = (ROOT / "docs" / "delivery.md").read_text("utf-8")
    shown = re.findall(r"^```yaml\n(.*?)^```", guide, re.M | re.S)
    assert [text.split(":")[0] for text in shown] == ["scrape_configs", "groups"]
    (tmp_path / "token").write_text(TOKEN)
    text = shown[0].replace("/etc/onkel/token", str(tmp_path / "token"))
    for kind, words in zip(("config", "rules"), (text, shown[1]), strict=True):
        path = tmp_path / f"{kind}.yml"
        path.write_text(words)
        done = subprocess.run([program, "check", kind, path], capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    for metric in re.findall(r"onkel_[a-z_]+[a-z]", shown[1]):
        assert any(metric in query for query in queries()), metric
