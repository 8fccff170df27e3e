"""The service over HTTP: the whole API, tokens and addresses, the command."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from contextlib import closing
from dataclasses import fields

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.serving import NAMES, Client, Process, examples, served, with_models
from helpers.sizes import size

from onkel import (
    Classifier,
    KernelRegressor,
    LinearRegressor,
    NoveltyDetector,
    Regressor,
    files,
    kernels,
    losses,
)
from onkel.app.cli import main
from onkel.app.live.page import is_public
from onkel.app.service import serve as server
from onkel.app.service.engine import Engine
from onkel.app.service.limits import MIB, Limits
from onkel.series import Series

LINES = {"Content-Type": "application/x-ndjson"}
FILE = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with with_models(tmp_path_factory.mktemp("state")) as one:
        yield one


@pytest.fixture
def client(service):
    return Client(service.url)


# -- what it does ------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"keyed": True}, {"kind": "LinearRegressor", "task": None}])
@pytest.mark.parametrize("width", [2, 4])
def test_first_rows_have_as_many_numbers_as_the_model_has_names(client, more, width):
    """Before, they were learned, and the model could neither be saved nor sent."""
    model, keys = f"/models/wide-{width}-{len(str(more))}", [f"k{i}" for i in range(3)]
    wanted = {"name": model[8:], "task": "novelty", "features": NAMES, **more}
    client.ok("POST", "/models", wanted)
    body = {"X": [[1.0] * width] * 3, "y": None if wanted["task"] else [1.0, 2.0, 3.0]}
    if "keyed" in more:
        body["keys"] = keys
    status, error = client.refused("POST", f"{model}/learn", body)
    assert (status, error["field"]) == (422, "X[0]")
    words = f"A row has {width} numbers; this model has 3: 'pressure', 'flow', 'heat'."
    assert error["message"] == words
    client.ok("POST", f"{model}/learn", {**body, "X": [[1.0, 2.0, 3.0]] * 3})
    assert files.loads(client.send("GET", f"{model}/file")[2])


@pytest.mark.parametrize("kind", ["Classifier", "KernelClassifier", "LinearClassifier"])
@pytest.mark.parametrize("more", [{}, {"pending": 9}, {"keyed": True}])
def test_first_rows_without_weight_bring_no_class(service, client, kind, more):
    """Nothing is known of any label yet; before, it was refused, and the model had moved."""
    model, keys = f"/models/{kind}-{len(str(more))}", {"keys": ["k"]} if "keyed" in more else {}
    client.ok("POST", "/models", {"name": model[8:], "kind": kind, **more})
    body = {"X": [[1.0, 2.0]], **keys}
    wanted = {"y": ["a"], "sample_weight": [0.0]}
    for _ in range(2):
        told = client.ok("POST", f"{model}/predict-then-learn", {**body, **wanted})
        assert (told["t"], told["values"]) == (0, [None])
        assert client.ok("POST", f"{model}/predict", body)["values"] == [None]
    if "pending" in more:
        told = client.ok("POST", f"{model}/predict", {**body, "remember": True})
        assert (told["values"], told["probability"]) == ([None], [None])
        client.ok("POST", f"{model}/learn", {"ids": told["ids"], "y": ["b"]})
        assert client.ok("POST", f"{model}/predict", body)["values"] == ["b"]
    assert service.engine.faults == 0 and service.engine.watch.trouble == ""


def test_answers_equal_those_of_the_library(tmp_path):
    X, y, _ = examples()
    det, reg = NoveltyDetector(nu=0.1), KernelRegressor(loss=losses.Huber(nu=0.1))
    with served(tmp_path) as one:
        client = one.client
        made = {"d": ("NoveltyDetector", {"nu": 0.1}),
                "r": ("KernelRegressor", {"loss": {"name": "huber", "nu": 0.1}})}  # fmt: skip
        for name, (kind, given) in made.items():
            client.ok("POST", "/models", {"name": name, "kind": kind, "parameters": given})
        for output in ("prediction", "decision", "score", "rank"):
            body = {"X": X.tolist(), "output": output}
            found = client.ok("POST", "/models/d/predict-then-learn", body)
            assert found["values"] == det.predict_then_learn(X, output=output).tolist()
            found = client.ok("POST", f"/models/d/predict?output={output}", {"X": X.tolist()})
            method = {"prediction": det.predict, "decision": det.decision_function,
                      "score": det.score_samples, "rank": det.rank_samples}[output]  # fmt: skip
            assert found["values"] == method(X).tolist() and found["t"] == det.t_
        body = {"X": X.tolist(), "y": y.tolist(), "output": "interval"}
        found = client.ok("POST", "/models/r/predict-then-learn", body)
        low, high = reg.predict_then_learn(X, y, output="interval")
        assert found["values"] == np.stack([low, high], axis=-1).tolist()
        client.ok("POST", "/models/r/learn", {"X": X.tolist(), "y": y.tolist()})
        reg.predict_then_learn(X, y)
        why = client.ok("POST", "/models/r/explain", {"x": X[0].tolist(), "top": 2})
        assert why == json.loads(json.dumps(reg.explain(X[0], top=2).to_dict()))
        shown = client.ok("GET", "/models/r")["diagnostics"]
        assert shown["loss"] == reg.diagnostics_["loss"] and shown["t"] == reg.t_


def test_a_task_is_enough_and_answers_say_how_sure_they_are(tmp_path):
    X, y, labels = examples(rows=120)
    clf, reg = Classifier(), Regressor()
    with served(tmp_path) as one:
        client = one.client
        made = [client.ok("POST", "/models", {"name": name, "task": task})["kind"]
                for name, task in (("c", "classification"), ("r", "regression"), ("d", "novelty"))
                ]  # fmt: skip
        assert made == ["Classifier", "Regressor", "Detector"]
        body = {"X": X.tolist(), "y": labels.tolist()}
        found = client.ok("POST", "/models/c/predict-then-learn", body)
        own = clf.predict_then_learn(X, labels)
        assert found["values"][1:] == own.tolist()[1:] and found["values"][0] is None
        assert found["probability"][0] is None
        assert all(0.5 <= p <= 1 for p in found["probability"][1:])
        found = client.ok("POST", "/models/c/predict", {"X": X.tolist()})
        assert found["values"] == clf.predict(X).tolist()
        assert found["probability"] == clf.predict_proba(X).max(axis=1).tolist()
        found = client.ok("POST", "/models/r/predict-then-learn",
                          {"X": X.tolist(), "y": y.tolist()})  # fmt: skip
        want, low, high = reg.predict_then_learn(X, y, output="judgement")
        assert found["values"] == want.tolist()
        assert found["interval"] == np.stack([low, high], axis=-1).tolist()
        lines = "\n".join(json.dumps({"x": x}) for x in X[:3].tolist()).encode()
        _, _, data = client.send("POST", "/models/r/predict", lines, LINES)
        told = [json.loads(line) for line in data.splitlines()]
        assert [line["prediction"] for line in told] == reg.predict(X[:3]).tolist()
        bounds = np.stack(reg.predict_interval(X[:3]), axis=-1)
        assert [line["interval"] for line in told] == bounds.tolist()
        shown = client.ok("GET", "/models/r")["diagnostics"]
        assert shown["in_words"] == reg.diagnostics_["in_words"]
        _, _, text = client.send("GET", "/metrics")
        weights = re.findall(
            r'onkel_member_weight\{model="r",member="(.+?)"\} (\S+)', text.decode()
        )
        assert [name for name, _ in weights] == shown["names"]
        assert sum(float(w) for _, w in weights) == pytest.approx(1.0)
        page = one.engine.board.changes("r")["numbers"]
        assert page["members"] == shown["names"] and page["leads"] == shown["in_words"]
        assert page["promised"] == 0.1 and sum(page["weights"]) == pytest.approx(1.0, abs=0.01)


def test_a_self_tuning_model_of_ones_own_settings(tmp_path):
    X, y, _ = examples()
    gaussian = {"name": "gaussian", "gamma": 0.5}
    members = [{"kind": "LinearRegressor"}, {"kind": "KernelRegressor", "kernel": gaussian}]
    made = Regressor([LinearRegressor(), KernelRegressor(kernels.Gaussian(0.5))], nu=0.2)
    with served(tmp_path) as one:
        given = {"members": members, "nu": 0.2}
        one.client.ok("POST", "/models", {"name": "r", "task": "regression", "parameters": given})
        body = {"X": X.tolist(), "y": y.tolist()}
        one.client.ok("POST", "/models/r/learn", body)
        made.partial_fit(X, y)
        data = one.client.send("GET", "/models/r/file")[2]
        assert files.loads(data).weights_.tolist() == made.weights_.tolist()
    with served(tmp_path) as one:  # as it was, from the log or a snapshot
        found = one.client.ok("POST", "/models/r/predict", {"X": X.tolist()})
        assert found["values"] == made.predict(X).tolist()


def test_lines_of_json_are_a_batch(client):
    X, _, labels = examples(1)
    rows = [{"x": x, "y": label} for x, label in zip(X.tolist(), labels.tolist(), strict=True)]
    body = "\n".join(map(json.dumps, rows)).encode() + b"\n\n"
    path = "/models/clf/predict-then-learn?output=probability"
    status, headers, data = client.send("POST", path, body, LINES)
    assert status == 200 and headers["content-type"].startswith("application/x-ndjson")
    found = [json.loads(line)["probability"] for line in data.splitlines()]
    assert len(found) == len(X) and sum(found[-1]) == pytest.approx(1.0)
    assert int(headers["onkel-position"]) > 0
    status, error = client.refused("POST", path, body + b'{"x": [1, 2]}\n', **LINES)
    assert status == 422 and error["field"] == "y"


def test_rows_by_name(client):
    X, *_ = examples(2)
    named = [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]
    client.ok("POST", "/models/det/learn", {"X": named})
    both = [client.ok("POST", "/models/det/predict?output=score", {"X": rows})["values"]
            for rows in (X.tolist(), [dict(reversed(row.items())) for row in named])]  # fmt: skip
    assert both[0] == both[1]
    why = client.ok("POST", "/models/det/explain", {"x": {**named[0], "pressure": 9.0}})
    assert why["features"][0]["name"] == "pressure" and "pressure 9" in why["sentence"]
    _, error = client.refused("POST", "/models/det/predict", {"X": [{"presure": 1.0}]})
    assert error["field"] == "X[0]" and "presure" in error["message"]


def test_export_and_import_are_exact_and_never_run_code(client, tmp_path):
    X, y, _ = examples(3)
    client.ok("POST", "/models/reg/learn", {"X": X.tolist(), "y": y.tolist()})
    status, headers, data = client.send("GET", "/models/reg/file")
    assert status == 200 and "reg.model" in headers["content-disposition"]
    assert client.ok("PUT", "/models/copy/file", data, **FILE)["kind"] == "KernelRegressor"
    ask = {"X": X.tolist()}
    answers = [client.ok("POST", f"/models/{n}/predict", ask)["values"] for n in ("reg", "copy")]
    assert answers[0] == answers[1] == files.loads(data).predict(X).tolist()
    assert client.send("GET", "/models/copy/file")[2] == data
    mark = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (open, (str(mark), "w"))

    for bad in (pickle.dumps(Evil()), data[:-1], data[:100] + b"x" + data[101:], b"", b"{}"):
        status, error = client.refused("PUT", "/models/evil/file", bad, **FILE)
        assert status == 422 and error["code"] == "bad_file"
    assert not mark.exists()
    greedy = files.dumps(NoveltyDetector(n_jobs=5000))
    status, error = client.refused("PUT", "/models/evil/file", greedy, **FILE)
    assert status == 422 and error["field"] == "parameters.n_jobs"
    greedy = files.dumps(Regressor([LinearRegressor(), LinearRegressor(n_jobs=5000)]))
    status, error = client.refused("PUT", "/models/evil/file", greedy, **FILE)
    assert status == 422 and error["field"] == "parameters.members[1].n_jobs"
    tuned = files.dumps(Regressor().partial_fit(X, y))
    assert client.ok("PUT", "/models/tuned/file", tuned, **FILE)["kind"] == "Regressor"
    assert client.send("GET", "/models/tuned/file")[2] == tuned
    client.ok("DELETE", "/models/tuned")
    wider = files.dumps(Series(NoveltyDetector()))
    status, error = client.refused("PUT", "/models/evil/file", wider, **FILE)
    assert status == 422 and "does not do that" in error["message"]
    assert client.refused("PUT", "/models/copy/file", data, **FILE)[0] == 409
    assert client.ok("DELETE", "/models/copy")["deleted"]
    assert client.refused("GET", "/models/copy")[0] == 404


def test_a_repeated_request_is_applied_once(client):
    X, *_ = examples(4)
    body, key = {"X": X.tolist()}, {"Idempotency-Key": "once-1"}
    before = client.ok("GET", "/models/det")["diagnostics"]
    t = before["t"] if before else 0
    first = client.send("POST", "/models/det/learn", body, key)
    again = client.send("POST", "/models/det/learn", body, key)
    assert first[0] == 200 and first[2] == again[2]
    assert first[1]["onkel-position"] == again[1]["onkel-position"]
    assert client.ok("GET", "/models/det")["diagnostics"]["t"] == t + len(X)
    status, error = client.refused("POST", "/models/det/predict-then-learn", body, **key)
    assert status == 422 and error["code"] == "key_reused"
    for bad in ("", "a b", "x" * 201, "ü"):
        assert client.refused("POST", "/models/det/learn", body, Idempotency_Key=bad)[0] == 422


def test_metrics_are_what_prometheus_reads(client):
    client.ok("GET", "/models")
    status, headers, data = client.send("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    text = data.decode()
    assert text.endswith("\n")
    sample = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
    kinds, seen = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in kinds and kind in ("counter", "gauge", "histogram")
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = sample.fullmatch(line)
            assert match, line
            family = re.sub(r"_(bucket|sum|count)$", "", match[1])
            assert match[1] in kinds or kinds[family] == "histogram"
            assert (match[1], match[2]) not in seen and float(match[3]) >= 0
            seen.add((match[1], match[2]))
    assert kinds["onkel_requests_total"] == "counter"
    assert ("onkel_examples_total", 'model="det"') in seen


def metric(client, name, model):
    """Return what /metrics says of a model."""
    text = client.send("GET", "/metrics")[2].decode()
    [line] = [x for x in text.splitlines() if x.startswith(f'{name}{{model="{model}"}} ')]
    return float(line.split()[1])


def test_only_rows_are_rows_that_came(tmp_path, rng):
    """Answers and forgotten keys are none: who waits for rows is not told that some have come."""
    with served(tmp_path / "s") as one:
        client = one.client
        parameters = {"nu": 0.05, "warmup": 40}
        made = {"name": "d", "kind": "Detector", "keyed": True, "parameters": parameters}
        client.ok("POST", "/models", made)
        body = {"X": rng.normal(size=(300, 2)).tolist(), "keys": ["a", "b"] * 150}
        ids = client.ok("POST", "/models/d/predict-then-learn", body)["alert_id"]
        i = next(i for i, id in enumerate(ids) if id)
        silent = "onkel_seconds_since_row"
        one.engine.slot("d").heard -= 1000.0
        said = {"key": body["keys"][i], "id": ids[i], "answer": "fault"}
        client.ok("POST", "/models/d/feedback", said)
        assert metric(client, silent, "d") >= 1000.0
        client.ok("POST", "/models/d/forget", {"keys": ["a"]})
        assert metric(client, silent, "d") >= 1000.0
        client.ok("POST", "/models/d/learn", {"X": [[1.0, 2.0]], "keys": ["b"]})
        assert metric(client, silent, "d") < 60.0


@pytest.mark.parametrize("how", size(["killed"], ["stopped", "killed"]))
def test_counters_begin_with_the_service(tmp_path, rng, how):
    """What a start learns once more is not counted again; rows without weight are not learned."""
    kinds = {"Detector": None, "NoveltyDetector": None, "KernelRegressor": 1.0}
    kinds |= size({}, {"Regressor": 1.0, "Classifier": "a"})
    state, counted, learned = tmp_path / "s", dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0)
    for start in range(size(2, 3)):
        with served(state) as one:
            client = one.client
            for kind, y in kinds.items():
                keyed = kind == "Detector"
                if not start:
                    made = {"name": kind, "kind": kind, "keyed": keyed}
                    client.ok("POST", "/models", made)
                for name in ("onkel_examples_total", "onkel_alerts_total"):
                    assert metric(client, name, kind) == 0
                alerts = 0
                for rows in (600, 30) if not start else (7, 30):
                    weights = rng.integers(0, 2, rows).tolist()
                    X = rng.normal(size=(rows, 2)) * (1 if rows > 30 else 9)
                    body = {"X": X.tolist(), "sample_weight": weights}
                    body |= {} if y is None else {"y": [y] * rows}
                    body |= {"keys": ["k"] * rows} if keyed else {}
                    told = client.ok("POST", f"/models/{kind}/predict-then-learn", body)
                    counted[kind] += sum(weights)
                    alerts += told["values"].count(-1)
                    assert metric(client, "onkel_examples_total", kind) == counted[kind]
                    assert told["t"] == learned[kind] + counted[kind]
                if "Detector" in kind:
                    assert metric(client, "onkel_alerts_total", kind) == alerts > 0
                learned[kind] += counted[kind]
                counted[kind] = 0
            client.refused("POST", "/models/NoveltyDetector/learn", {"X": [[1.0]]})
            assert metric(client, "onkel_examples_total", "NoveltyDetector") > 0
            if how == "killed":
                state = shutil.copytree(state, tmp_path / f"s{start}")
        with closing(Engine(shutil.copytree(state, tmp_path / f"c{start}"))) as again:
            assert (again.replayed > 0) == (how == "killed")


def test_the_openapi_document_has_every_route_and_no_other(service, client):
    document = client.ok("GET", "/openapi.json")
    assert document["openapi"].startswith("3.1")
    told = {
        (path, method.upper())
        for path, item in document["paths"].items()
        for method in item
        if method != "parameters"
    }
    app = service.access.app
    real = {(r.path, m) for r in app.routes for m in r.methods - {"HEAD"}}
    page = {(p, m) for p, m in real if is_public(p) or p.startswith("/live")}
    assert told == real - page
    for reference in re.findall(r"#/components/schemas/(\w+)", json.dumps(document)):
        assert reference in document["components"]["schemas"]


def test_health(client):
    found = client.ok("GET", "/health")
    assert found["status"] == "ok" and found["models"] >= 3


# -- tokens and addresses ----------------------------------------------------------------------

TOKEN = "correct-horse-battery"


def test_a_token_is_asked_for_everywhere_but_the_pages_own_files(tmp_path):
    with served(tmp_path, token=TOKEN) as one:
        stranger = Client(one.url)
        for path in ("/models", "/health", "/metrics", "/openapi.json", "/live", "/live/x", "/no"):
            status, error = stranger.refused("GET", path)
            assert status == 401 and error["code"] == "unauthorized"
        for given in ("", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}"):
            assert stranger.refused("GET", "/models", Authorization=given)[0] == 401
        assert stranger.send("GET", "/")[0] == stranger.send("GET", "/static/page.js")[0] == 200
        assert one.client.ok("GET", "/models") == {"models": [], "aside": []}
        named = {"Host": "models.example", "Authorization": f"Bearer {TOKEN}"}
        assert stranger.ok("GET", "/models", **named) == {"models": [], "aside": []}


def test_open_addresses_need_a_token(tmp_path):
    with pytest.raises(ValueError, match="give a token"):
        server.serve(tmp_path / "a", host="0.0.0.0", port=0)
    with pytest.raises(ValueError, match="at least 16"):
        server.serve(tmp_path / "b", host="0.0.0.0", port=0, token="short")
    assert not (tmp_path / "a").exists()
    open_to_all = ["serve", "--state", str(tmp_path / "c"), "--host", "::"]
    refused = CliRunner().invoke(main, open_to_all)
    assert refused.exit_code == 2 and "give a token" in refused.stderr


def test_the_command_serves_stops_and_goes_on(tmp_path):
    process = Process(tmp_path / "state")
    client = Client(process.url)
    client.ok("POST", "/models", {"name": "a", "kind": "NoveltyDetector"})
    client.ok("POST", "/models/a/learn", {"X": examples()[0].tolist()})
    with pytest.raises(AssertionError, match=r"is in use by .*one process per state"):
        Process(tmp_path / "state")
    assert process.stop() == 0
    process = Process(tmp_path / "state")
    assert Client(process.url).ok("GET", "/models/a")["diagnostics"]["t"] == 60
    assert process.stop() == 0


def test_the_commands_limits_are_those_of_the_service():
    found = {option.name: option for option in main.commands["serve"].params}
    sizes = {16 * MIB: "16 MiB", 64 * MIB: "64 MiB", 256 * MIB: "256 MiB",
             2048 * MIB: "2 GiB", 1_000_000: "1000000"}  # fmt: skip
    for limit in fields(Limits):
        option = found[limit.name]
        assert option.type.name == {"int": "integer", "float": "float"}[limit.type]
        assert sizes.get(limit.default, f"{limit.default:g}") in option.help


def test_keys_end_with_their_model(tmp_path) -> None:
    pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
    from helpers.serving import served

    with served(tmp_path / "s") as one:
        one.client.ok("POST", "/models", {"name": "a", "kind": "NoveltyDetector"})
        body = {"X": [[1.0], [2.0]]}
        key = {"Idempotency-Key": "learn"}
        first = one.client.send("POST", "/models/a/learn", body, key)
        gone = one.client.send("DELETE", "/models/a", b"", {"Idempotency-Key": "d"})
        assert first[0] == gone[0] == 200
        again = one.client.send("DELETE", "/models/a", b"", {"Idempotency-Key": "d"})
        assert (again[0], again[2]) == (gone[0], gone[2])
        assert one.client.send("POST", "/models/a/learn", body, key)[0] == 404
        one.client.ok("POST", "/models", {"name": "a", "kind": "NoveltyDetector"})
        again = one.client.send("POST", "/models/a/learn", body, key)
        assert json.loads(again[2])["position"] > json.loads(first[2])["position"]
        assert one.client.ok("GET", "/models/a")["diagnostics"]["t"] == 2
        one.client.ok("DELETE", "/models/a", b"", Idempotency_Key="d")
        assert one.client.send("GET", "/models/a")[0] == 404, "another model's key, another request"
