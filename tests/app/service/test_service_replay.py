"""Settings compared in the service: on new models, never on the one that is asked."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers.serving import Client, served

pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")

from onkel import Detector, Fleet, NoveltyDetector, rules
from onkel.alerting import episodes
from onkel.app.service import comparing

OWN = {"nu": 0.05, "terms": 50, "warmup": 40}
OTHER = {"nu": 0.02, "memory": 500}


@pytest.fixture
def one(tmp_path):
    with served(tmp_path / "s") as found:
        yield found


def rows(rng, count=2500):
    X = rng.normal(size=(count, 2))
    X[count // 2 : count // 2 + 8] += 5
    return X


def judged(model, X, **how):
    return model.predict_then_learn(X, output="judgement", **how).T


def test_it_is_what_two_new_models_say_and_the_model_stays_as_it_is(one, rng) -> None:
    client, X = one.client, rows(rng)
    client.ok("POST", "/models", {"name": "pump", "kind": "Detector", "parameters": OWN})
    client.ok("POST", "/models/pump/learn", {"X": rng.normal(size=(300, 2)).tolist()})
    before = client.send("GET", "/models/pump/file")[2]
    when = [f"2026-10-01T{i // 60 % 24:02}:{i % 60:02}" for i in range(len(X))]
    body = {"X": X.tolist(), "time": when, "settings": [OTHER, {}], "gap": 7}
    found = client.ok("POST", "/models/pump/replay", body)
    assert client.send("GET", "/models/pump/file")[2] == before
    own, other, same = found["settings"]
    was, would = judged(Detector(**OWN), X), judged(Detector(**{**OWN, **OTHER}), X)
    first, second = (set(np.flatnonzero(j[2]).tolist()) for j in (was, would))
    assert found["rows"] == len(X) and own["name"] == same["name"] == "as it was"
    assert own["alerts"] == len(first) and other["alerts"] == len(second) > 8
    assert other["name"] == "nu 0.02, memory 500" and other["changed"] == OTHER
    assert [other[n] for n in ("still", "gone", "new")] == [
        len(first & second), len(first - second), len(second - first)
    ]  # fmt: skip
    gone = sorted(first - second)[:10]
    assert [a["row"] for a in other["first_gone"]] == gone
    assert [a["score"] for a in other["first_gone"]] == was[0][gone].tolist()
    assert [a["p"] for a in other["first_gone"]] == np.exp(was[0][gone]).tolist()
    assert [a["time"] for a in other["first_gone"]] == [when[i] for i in gone]
    assert [a["id"] for a in other["first_gone"]] == [str(i) for i in gone]
    assert own["warmup"] == 40 and own["rate_realised"] == len(first) / (len(X) - 40)
    assert own["incidents"] == len(episodes(was[2] > 0, was[0], gap=7))
    assert same["still"] == own["alerts"] and same["gone"] == same["new"] == 0


def test_a_promised_precision_may_stand_for_the_rate(one, rng) -> None:
    client, X = one.client, rows(rng)
    client.ok("POST", "/models", {"name": "pump", "kind": "Detector", "parameters": OWN})
    body = {"X": X.tolist(), "settings": [{"nu": None, "precision": 0.8}]}
    other = client.ok("POST", "/models/pump/replay", body)["settings"][1]
    det = Detector(**{**OWN, "nu": None, "precision": 0.8})
    assert other["alerts"] == judged(det, X)[2].sum() > 0 and other["rate_promised"] is None


@pytest.mark.parametrize("share", [False, True])
def test_keys(one, rng, share) -> None:
    client, X = one.client, rows(rng)
    keys = [["a", "b", 7][i] for i in rng.integers(0, 3, len(X))]
    made = {"name": "pumps", "kind": "Detector", "parameters": OWN, "keyed": True, "share": share}
    client.ok("POST", "/models", made)
    body = {"X": X.tolist(), "keys": keys, "settings": [OTHER]}
    own, other = client.ok("POST", "/models/pumps/replay", body)["settings"]
    parameters = ({**OWN}, {**OWN, **OTHER})
    verdicts = [
        Fleet(Detector(**p), share=share).predict_then_learn(keys, X, output="verdict").T
        for p in parameters
    ]
    first, second = (set(np.flatnonzero(v[2]).tolist()) for v in verdicts)
    assert own["alerts"] == len(first) > 20 and other["gone"] == len(first - second) > 0
    assert own["warmup"] == (0 if share else 3 * 40)
    gone = sorted(first - second)[:10]
    ids = [f"{keys[i]}:{keys[:i].count(keys[i])}" for i in gone]
    assert [a["id"] for a in other["first_gone"]] == ids


def test_forgetting_by_the_clock_and_names(one, rng) -> None:
    client, X = one.client, rows(rng, 900)
    rule = {"name": "norma", "memory": "1h"}
    client.ok("POST", "/models", {"name": "n", "kind": "NoveltyDetector", "features": ["a", "b"],
                                  "parameters": {"nu": 0.1, "rule": rule}})  # fmt: skip
    when = (60.0 * np.arange(900)).tolist()
    body = {"X": [{"a": a, "b": b} for a, b in X.tolist()], "time": when,
            "settings": [{"rule": {"name": "norma", "memory": "5h"}}]}  # fmt: skip
    own, other = client.ok("POST", "/models/n/replay", body)["settings"]
    for told, memory in ((own, "1h"), (other, "5h")):
        det = NoveltyDetector(nu=0.1, rule=rules.Norma(memory=memory))
        assert told["alerts"] == judged(det, X, time=when)[2].sum()
    assert "p" not in other["first_gone"][0]
    del body["time"]
    status, error = client.refused("POST", "/models/n/replay", body)
    assert status == 422 and "time" in error["message"]


def test_rows_of_several_kinds(one, rng) -> None:
    client = one.client
    client.ok("POST", "/models", {"name": "m", "task": "novelty"})
    words = rng.choice(["red", "green", "blue"], 1500, p=[0.6, 0.39, 0.01]).tolist()
    X = [[w, v] for w, v in zip(words, rng.normal(size=1500).tolist(), strict=True)]
    own, other = client.ok("POST", "/models/m/replay", {"X": X, "settings": [{"nu": 0.05}]})[
        "settings"
    ]
    import pandas as pd

    frame = pd.DataFrame(X, columns=["x0", "x1"])
    assert own["alerts"] == judged(Detector(), frame)[2].sum()
    assert other["alerts"] == judged(Detector(nu=0.05), frame)[2].sum() > 0
    assert not one.engine.slot("m").estimator.__sklearn_is_fitted__()


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A service whose model is only asked for what is refused."""
    with served(tmp_path_factory.mktemp("asked") / "s") as found:
        client, X = found.client, rows(np.random.default_rng(7), 60)
        client.ok("POST", "/models", {"name": "pump", "kind": "Detector", "parameters": OWN})
        client.ok("POST", "/models/pump/learn", {"X": X.tolist()})
        yield client


@pytest.mark.parametrize(
    ("more", "field", "said"),
    [
        ({"settings": [{"nue": 1}]}, "settings[0].nue", "has no parameter 'nue'"),
        ({"settings": [{}, {"nu": 7}]}, "settings[1]", "nu must be"),
        ({"settings": [{"terms": 10**9}]}, "settings[0].terms", "at most"),
        ({"settings": [{}] * 9}, "settings", "Up to 8 settings"),
        ({"settings": 3}, "settings", "array"),
        ({"gap": -1}, "gap", "gap must be"),
        ({"keys": ["a"] * 20}, "keys", "no keys"),
        ({"X": []}, "X", "no row"),
        ({"X": [["a", 1.0]] * 2}, "X[0][0]", "is not a number"),
        ({"y": [1.0]}, None, "y"),
    ],
)
def test_refusals_name_the_field(asked, rng, more, field, said) -> None:
    body = {"X": rows(rng, 20).tolist(), **more}
    status, error = asked.refused("POST", "/models/pump/replay", body)
    assert status == 422 and said in error["message"], error
    assert field is None or error["field"] == field, error


def test_only_detectors_have_alerts_and_rows_are_limited(tmp_path, rng) -> None:
    with served(tmp_path / "s", rows=100) as one:
        client = one.client
        for name, task in (("r", "regression"), ("d", "novelty")):
            client.ok("POST", "/models", {"name": name, "task": task})
        status, error = client.refused("POST", "/models/r/replay", {"X": [[1.0]]})
        assert (status, error["code"]) == (409, "no_alerts")
        status, error = client.refused("POST", "/models/d/replay", {"X": [[1.0]] * 101})
        assert (status, error["code"]) == (413, "too_many_rows")
        assert client.refused("POST", "/models/no/replay", {"X": [[1.0]]})[0] == 404


def test_it_ends_in_time_and_one_runs_at_a_time(tmp_path, rng, monkeypatch) -> None:
    with served(tmp_path / "s", seconds=1.0) as one:
        client = one.client
        client.ok("POST", "/models", {"name": "d", "kind": "Detector", "parameters": OWN})
        begun, go_on, plain = threading.Event(), threading.Event(), comparing.Trial.run

        def slow(trial):
            begun.set()
            assert go_on.wait(30)
            return plain(trial)

        monkeypatch.setattr(comparing.Trial, "run", slow)
        body, told = {"X": rows(rng).tolist()}, []
        other = threading.Thread(
            target=lambda: told.append(Client(one.url).send("POST", "/models/d/replay", body))
        )
        other.start()
        assert begun.wait(30)
        status, _, data = client.send("POST", "/models/d/replay", body)
        assert status == 503 and b"Another replay" in data
        client.ok("POST", "/models/d/learn", {"X": [[1.0, 2.0]]})  # it holds up nobody
        go_on.set()
        other.join(30)
        assert told[0][0] == 200
        monkeypatch.setattr(comparing, "STEP", 1)
        clock = iter(range(10**6))
        monkeypatch.setattr(comparing, "monotonic", lambda: float(next(clock)))
        status, _, data = client.send("POST", "/models/d/replay", body)
        assert status == 503 and b"send fewer rows" in data
