"""Rows of any cells over HTTP: what comes, what is refused and with which field, what is shown."""

from __future__ import annotations

import json
import time
from itertools import islice

import numpy as np
import pytest
from helpers.flights import flights, named
from helpers.serving import Client, served

from onkel import Classifier, Detector, Regressor, files
from onkel.app.http.problems import Problem
from onkel.app.service import calls, tables
from onkel.app.service.bodies import Entry
from onkel.app.service.limits import Limits
from onkel.columns import Columns, raw_of

TYPES = {"carrier": "category", "minutes": "number", "when": "time", "late": "boolean"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("state"), features=500) as one:
        create(one.client, "given", columns=TYPES)
        one.client.ok("POST", "/models/given/learn", {"X": flights(300)})
        yield one


@pytest.fixture
def client(service):
    one = Client(service.url)
    yield one
    one.connection.close()
    told = service.client.ok("GET", "/health")
    assert told["status"] == "ok" and told["waiting"] == 0, told
    assert service.engine.faults == 0


def create(client, name, task="novelty", features=None, kind=None, **parameters):
    body = {"name": name, "features": features, "parameters": parameters}
    body |= {"task": task} if kind is None else {"kind": kind}
    client.ok("POST", "/models", body)


def held(client, name):
    return client.send("GET", f"/models/{name}/file")[2]


def test_the_same_bits_as_in_python(client):
    create(client, "same", columns={"when": "time"})
    own = Detector(columns=Columns({"when": "time"}))
    for seed in range(3):
        rows = flights(120, seed)
        found = client.ok("POST", "/models/same/predict-then-learn", {"X": rows, "output": "score"})
        assert found["values"] == own.predict_then_learn(rows, output="score").tolist()
    asked = client.ok("POST", "/models/same/predict", {"X": flights(9, 7), "output": "p"})
    assert asked["values"] == own.p_samples(flights(9, 7)).tolist()
    assert held(client, "same") == files.dumps(own)


def test_the_plan_is_shown(client):
    create(client, "shown", columns={"minutes": "ignore", "when": "time"})
    assert client.ok("GET", "/models/shown")["columns"] is None
    client.ok("POST", "/models/shown/learn", {"X": flights(50)})
    columns = client.ok("GET", "/models/shown")["columns"]
    assert columns["carrier"] == {"kind": "category"}
    assert columns["minutes"] == {"kind": "ignore", "why": "asked for"}
    assert columns["late"]["kind"] == "boolean" and columns["when"]["kind"] == "time"


def test_the_ways_in_which_a_row_may_come(client):
    """By name and in order, as one body and as lines: the same model."""
    rows = flights(60)
    lists = [[row.get(name) for name in TYPES] for row in rows]
    lines = {"Content-Type": "application/x-ndjson"}
    bodies = {
        "object": {"X": rows}, "list": {"X": lists},
        "objects": b"\n".join(json.dumps({"x": row}).encode() for row in rows),
        "lists": b"\n".join(json.dumps({"x": row}).encode() for row in lists),
    }  # fmt: skip
    for name, body in bodies.items():
        create(client, name, features=[*TYPES], columns=TYPES)
        told = lines if isinstance(body, bytes) else {}
        client.ok("POST", f"/models/{name}/learn", body, **told)
        assert held(client, name) == held(client, "object")


def test_columns_without_names_are_counted(client):
    create(client, "counted")
    client.ok("POST", "/models/counted/learn", {"X": [["AA", 1.5, True], ["UA", None, False]] * 9})
    columns = client.ok("GET", "/models/counted")["columns"]
    kinds = {name: one["kind"] for name, one in columns.items()}
    assert kinds == {"x0": "category", "x1": "number", "x2": "boolean"}
    status, error = client.refused("POST", "/models/counted/learn", {"X": [["AA", 1.5]]})
    assert status == 422 and "2 cells" in error["message"] and error["field"] == "X"


def test_numbers_by_name_need_no_features(client):
    create(client, "numbers")
    client.ok("POST", "/models/numbers/learn", {"X": [{"a": 1, "b": 2}, {"b": 3.5}]})
    assert client.ok("GET", "/models/numbers")["columns"]["b"] == {"kind": "number"}


def test_a_column_that_a_row_leaves_out_is_missing(client):
    whole, part = ({"X": [row]} for row in ({**flights(1)[0], "carrier": None}, {}))
    part["X"] = [{k: v for k, v in whole["X"][0].items() if v is not None}]
    found = [
        client.ok("POST", "/models/given/predict", {**b, "output": "p"}) for b in (whole, part)
    ]
    assert found[0] == found[1]


REFUSED = [
    ({"minutes": "abc"}, "minutes", "'abc' is not a number"),
    ({"when": "yesterday"}, "when", "'yesterday' is not a time"),
    ({"carrier": "x" * 1001}, "carrier", "up to 1000 characters"),
    ({"carier": "AA", "minuts": 3}, None, "no column 'carier', 'minuts'"),
]


@pytest.mark.parametrize("cells, column, words", REFUSED, ids=[w for _, _, w in REFUSED])
@pytest.mark.parametrize("what", ["learn", "predict-then-learn", "predict"])
def test_cells_that_do_not_fit(client, what, cells, column, words):
    before, rows = held(client, "given"), flights(5)
    rows[3] |= cells
    status, error = client.refused("POST", f"/models/given/{what}", {"X": rows})
    assert status == 422 and words in error["message"], error
    if column is not None:
        assert f"Row 3, column {column!r}" in error["message"] and error["field"] == "X[3]"
    assert held(client, "given") == before


def test_a_refused_first_request_leaves_nothing(client):
    """Also what its columns would have been."""
    create(client, "first", columns={"minutes": "number"})
    rows = [*flights(5), {**flights(1)[0], "minutes": "abc"}]
    assert client.refused("POST", "/models/first/learn", {"X": rows})[1]["field"] == "X[5]"
    assert client.ok("GET", "/models/first")["columns"] is None
    create(client, "absent", columns={"nowhere": "category"})
    error = client.refused("POST", "/models/absent/learn", {"X": rows})[1]
    assert "there is no column 'nowhere'" in error["message"]
    create(client, "timeless", columns={"when": "time"})
    rows = [{"when": None, "minutes": 1.0}]
    error = client.refused("POST", "/models/timeless/learn", {"X": rows})[1]
    assert "'when'" in error["message"] and error["field"] == "X"
    client.ok("POST", "/models/timeless/learn", {"X": flights(5)})


def test_a_model_of_numbers_takes_nothing_else(client):
    create(client, "plain", features=["a", "b"])
    client.ok("POST", "/models/plain/learn", {"X": [[1.0, 2.0], [2.0, 3.0]]})
    before = held(client, "plain")
    for rows, place in (
        ([[1.0, 2.0], [3.0, "4.0"]], "X[1][1]"), ([{"a": 1.0, "b": True}], "X[0][1]"),
    ):  # fmt: skip
        for what in ("learn", "predict"):
            status, error = client.refused("POST", f"/models/plain/{what}", {"X": rows})
            assert status == 422 and error["field"] == place, error
            assert "column 'b'" in error["message"] and "is not a number" in error["message"]
    error = client.refused("POST", "/models/plain/explain", {"x": [1.0, "a"]})[1]
    assert error["field"] == "X[0][1]"
    assert held(client, "plain") == before
    assert client.ok("GET", "/models/plain")["columns"] is None


def test_a_model_of_nameless_numbers_takes_no_names(client):
    create(client, "nameless")
    client.ok("POST", "/models/nameless/learn", {"X": [[1.0, 2.0], [2.0, 3.0]]})
    before = held(client, "nameless")
    for what in ("learn", "predict"):
        status, error = client.refused(
            "POST", f"/models/nameless/{what}", {"X": [{"a": 1.0, "b": 2.0}, {"a": 1.0, "b": "x"}]}
        )
        assert (status, error["field"]) == (422, "X[1]"), error
        assert "column 'b'" in error["message"] and "is not a number" in error["message"]
    assert held(client, "nameless") == before


@pytest.mark.parametrize("kind", [Detector, Classifier, Regressor])
def test_rows_that_come_while_the_first_ones_are_learned(kind):
    """Whoever sees that a model has begun sees what its columns are too, whenever they look."""
    first, seen, labels = flights(9), [], None if kind is Detector else [0, 1, 0, 1, 0, 1, 0, 1, 0]
    columns = [[row[name] for row in first] for name in first[0]]
    entry = Entry("learn", 1, names=list(first[0]), cells=columns)

    class Looked(kind):
        """Rows come whenever an attribute has been set."""

        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name in ("_learner", "_tally"):
                tables.check(self, entry, None, Limits())
                seen.append(name)

    class Asked:
        """The first rows are learned while others are checked."""

        model = Looked()
        columns, plan_of = None, model.plan_of

        def __sklearn_is_fitted__(self):
            begun = self.model.__sklearn_is_fitted__()
            self.model.partial_fit(first, labels)
            return begun

        @property
        def plan_(self):
            return self.model.plan_

    tables.check(Asked(), entry, None, Limits())
    assert seen[:2] == ["_tally", "_learner"]


TABLE = [{"a": float(i), "b": i % 7 * 1.5, "c": "uvw"[i % 3]} for i in range(60)]


def numbers(engine, name, op, rows):
    """Return rows of numbers as a request has them that was read before its model had begun."""
    X = np.asarray(rows, float)
    id = engine.slot(name).spec.id
    return Entry(op, id, width=X.shape[1], numbers=X.tobytes())


@pytest.mark.parametrize("kind", ["Detector", "NoveltyDetector"])
def test_numbers_that_were_read_before_the_first_rows_were_a_table(service, client, kind):
    """They are rows of the table, as they would be a moment later; so is their alert's reason."""
    rows = [[1.0, 2.0, 3.0], [900.0, 2.0, None], [2.0, 900.0, 3.0]]
    engine, files_of = service.engine, []
    for name in (f"early-{kind}", f"late-{kind}"):
        client.ok("POST", "/models", {"name": name, "kind": kind})
        early = numbers(engine, name, "learn", rows)
        client.ok("POST", f"/models/{name}/learn", {"X": TABLE * 10})
        if name.startswith("early"):
            engine.change(early).result(20)
        else:
            client.ok("POST", f"/models/{name}/learn", {"X": rows})
        files_of.append(held(client, name))
    assert files_of[0] == files_of[1]
    assert engine.watch.trouble == ""
    one = engine.slot(f"early-{kind}")
    asked = numbers(engine, one.spec.name, "explain", rows[1:2])
    told = client.ok("POST", f"/models/{one.spec.name}/explain", {"x": rows[1]})
    assert calls.explain(one.estimator, asked, 3, 0)["sentence"] == told["sentence"]
    wide = numbers(engine, one.spec.name, "learn", [[1.0, 2.0, 3.0, 4.0]])
    with pytest.raises(Problem, match="A row has 4 cells; this model has 3: 'a', 'b', 'c'"):
        engine.change(wide).result(20)
    texts = Entry("learn", one.spec.id, texts=["a b c"])
    with pytest.raises(Problem, match="takes rows with the columns"):
        engine.change(texts).result(20)


def test_numbers_that_were_read_before_a_table_was_remembered(service, client):
    """All rows of a model have the same columns, or its file could not be loaded again."""
    body = {"name": "two", "task": "regression", "pending": 100}
    client.ok("POST", "/models", body)
    early = numbers(service.engine, "two", "learn", [[1.0, 2.0, 3.0]] * 9)
    early.y = [1.0] * 9
    client.ok("POST", "/models/two/predict", {"X": TABLE, "remember": True})
    service.engine.change(early).result(20)
    client.ok("POST", "/models/two/learn", {"ids": ["0", "1"], "y": [1.0, 2.0]})
    shown = client.ok("GET", "/models/two")
    assert shown["columns"]["c"] == {"kind": "category"} and shown["diagnostics"]["t"] == 11
    assert files.dumps(files.loads(held(client, "two"))) == held(client, "two")


def test_a_table_for_a_model_of_texts(service, client):
    """It was read without an end: nothing was answered, and the next start did not end either."""
    raw = raw_of(flights(5))
    rows = Detector().plan_of(raw).encode(raw)
    assert len([*islice(rows, 9)]) == 5
    create(client, "spectrum", kind="NoveltyDetector", kernel={"name": "spectrum", "length": 2})
    for _ in range(2):
        for rows in (flights(5), [[1.0, "a"], [2.0, "b"]]):
            error = client.refused("POST", "/models/spectrum/learn", {"X": rows})[1]
            assert "text" in error["message"] or "strings" in error["message"], error
        client.ok("POST", "/models/spectrum/learn", {"X": ["a text", "another"]})
    assert service.engine.watch.trouble == ""  # nor is an alert of a model without terms


def test_a_question_by_names_that_was_read_before_the_first_rows_were_numbers(service, client):
    create(client, "asked-early")
    estimator = service.engine.slot("asked-early").estimator
    early = Entry("explain", 1, names=["a", "b"], cells=[[1.0], [2.0]])
    client.ok("POST", "/models/asked-early/learn", {"X": [[1.0, 2.0], [2.0, 3.0]]})
    with pytest.raises(Problem, match="Rows by name need a model"):
        calls.explain(estimator, early, 3, 0)


PARAMETERS = [
    ({"carrier": "kategory"}, "parameters.columns.carrier"),
    ({"carrier": 3}, "parameters.columns.carrier"),
    ({"carrier": {"name": "category"}}, "parameters.columns.carrier"),
    ({"x" * 1001: "category"}, "parameters.columns"),
    ({"types": {"a": "text"}, "places": 0}, "parameters.columns"),
    ({"types": {"a": "text"}, "place": 8}, "parameters.columns"),
    (["category"], "parameters"),
    ("category", "parameters"),
]


@pytest.mark.parametrize("columns, field", PARAMETERS, ids=[str(c)[:40] for c, _ in PARAMETERS])
def test_columns_as_a_parameter(client, columns, field):
    body = {"name": "new", "task": "novelty", "parameters": {"columns": columns}}
    status, error = client.refused("POST", "/models", body)
    assert (status, error["field"]) == (422, field), error


def test_places_of_words(client):
    create(client, "places", columns={"types": {"note": "text"}, "places": 4})
    client.ok("POST", "/models/places/learn", {"X": [{"note": "all is well", "a": 1.0}]})
    assert files.loads(held(client, "places")).plan_.places == 4


def test_limits_of_a_table(client, tmp_path):
    create(client, "wide")
    path = "/models/wide/learn"
    for row, status, words in (
        ({"note": "x " * 5001}, 422, "up to 10000 characters"),
        ({f"a{i}": "b" for i in range(501)}, 422, "1 to 500"),
        ({f"a{i}": "three words and more" for i in range(20)}, 422, "make 1281 features"),
        ({"a" * 1001: "b"}, 422, "1 to 1000 characters"),
    ):
        found, error = client.refused("POST", path, {"X": [row]})
        assert found == status and words in error["message"], error
    few = {"X": [{f"a{i % 500}": "b"} for i in range(10_000)]}
    with served(tmp_path, body_bytes=10_000 * 499) as one:
        create(one.client, "wide")
        status, error = one.client.refused("POST", path, few)
    assert (status, error["code"], error["limit"]) == (413, "too_many_rows", 9980)


NEW = {"carrier": "XX", "minutes": 60.0, "when": "2024-01-09T10:30:00", "late": False}


def test_reasons_name_categories_and_times(client):
    found = client.ok("POST", "/models/given/explain", {"x": NEW})
    assert "carrier XX, never seen in 300 rows" in found["sentence"]
    odd = {**NEW, "carrier": "AA", "when": "2024-01-14T03:00:00"}
    found = client.ok("POST", "/models/given/explain", {"x": odd})
    assert "when Sunday 03:00 where Monday to Friday" in found["sentence"]
    error = client.refused("POST", "/models/given/explain", {"x": {**odd, "minutes": "abc"}})[1]
    assert "column 'minutes'" in error["message"] and error["field"] == "x"
    listed = client.ok("POST", "/models/given/explain", {"x": [odd[name] for name in TYPES]})
    assert listed == found


def test_an_alert_on_the_page_has_its_reason(service, client):
    create(client, "alerts", columns=TYPES, warmup=100)
    for seed in range(4):
        client.ok("POST", "/models/alerts/learn", {"X": flights(100, seed)})
    client.ok("POST", "/models/alerts/learn", {"X": flights(1, 5)})
    told = client.ok("POST", "/models/alerts/predict-then-learn", {"X": [NEW]})
    assert told["values"] == [-1]
    service.engine.pool.submit(int).result()
    board = service.engine.board
    deadline = time.monotonic() + 20.0  # the board is told when there is time
    while True:
        alerts = named(lambda: board.changes("alerts")["alerts"])
        if "carrier XX" in alerts[-1]["sentence"]:
            break
        assert time.monotonic() < deadline, alerts
        time.sleep(0.02)
    assert [line["feature"] for line in board.changes("alerts")["drift"]] == ["minutes"]
    assert service.engine.watch.trouble == ""


def test_values_count_as_the_models_bytes(tmp_path):
    with served(tmp_path, model_bytes=2**18) as one:
        create(one.client, "long", terms=20)
        rows = [{"a": f"{i} " + "x" * 990, "b": i % 7} for i in range(600)]
        create(one.client, "ids", columns={"a": "category"}, terms=20)
        one.client.ok("POST", "/models/ids/learn", {"X": rows})
        (slot,) = [s for s in one.engine.slots() if s.spec.name == "ids"]
        one.client.ok("GET", "/models/ids")
        assert slot.bytes > 600 * 200  # of a value so much is kept
        error = one.client.refused("POST", "/models/ids/learn", {"X": rows})[1]
        assert error["code"] == "model_too_large"


def test_a_file_that_is_brought_in(client):
    data = held(client, "given")
    told = {"Content-Type": "application/octet-stream"}
    client.ok("PUT", "/models/copy/file", data, **told)
    for name in ("given", "copy"):
        found = client.ok("POST", f"/models/{name}/predict", {"X": flights(9, 3), "output": "p"})
        assert found == client.ok(
            "POST", "/models/copy/predict", {"X": flights(9, 3), "output": "p"}
        )
    assert client.ok("GET", "/models/copy")["columns"]["when"]["kind"] == "time"
    own = Detector(columns=Columns({"a": "category"})).partial_fit([{"a": "\ud800", "b": 1.0}])
    status, error = client.refused("PUT", "/models/half/file", files.dumps(own), **told)
    assert status == 422 and error["code"] == "bad_file"
    wide = {f"a{i}": "three words and more" for i in range(20)}
    assert raw_of([wide]) is not None
    own = Detector().partial_fit([wide])
    status, error = client.refused("PUT", "/models/wide/file", files.dumps(own), **told)
    assert status == 422 and "make 1281 features" in error["message"]


def test_every_alert_on_the_page_has_a_reason(service, client, rng):
    client.ok("POST", "/models", {"name": "reasons", "kind": "Detector", "features": ["a", "b"]})
    for _ in range(6):
        X = rng.normal(size=(200, 2))
        X[150:153] += 9.0
        client.ok("POST", "/models/reasons/predict-then-learn", {"X": X.tolist()})
    alerts = service.engine.board.alerts("reasons", 0, 1000)["alerts"]
    assert len(alerts) > 10 and all(alert["sentence"] for alert in alerts)
    assert service.engine.watch.trouble == ""
