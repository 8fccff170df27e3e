"""What was refused stays refused: through restarts and kills, for the model and for a replay."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from helpers.serving import served
from helpers.sizes import size

pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")

from onkel import Detector, Fleet, files
from onkel.app.service import lookback
from onkel.app.service.archive import Keep
from onkel.app.service.keeper import Keeper

OWN = {"nu": 0.05, "terms": 50, "warmup": 40}
LONG = Keep.of("30d")
PART = 300
KEYS = ("a", "b", 7)


@pytest.fixture
def outcomes(monkeypatch):
    """What came of each setting of the last replay, whole."""
    found, plain = [], lookback.described

    def described(some, gap, answers):
        found[:] = some
        return plain(some, gap, answers)

    monkeypatch.setattr(lookback, "described", described)
    return found


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Fleets of some kilobytes are large: a snapshot keeps their part of the log."""
    monkeypatch.setattr("onkel.app.service.keeper.LARGE", 1000)


class Twin:
    """A model of the library that is told what is accepted, and nothing of what is refused."""

    def __init__(self, keyed, rng) -> None:
        self.keyed, self.rng = keyed, rng
        self.model = Fleet(Detector(**OWN)) if keyed else Detector(**OWN)
        self.keys, self.had, self.answers = [], [], {}

    def make(self, client) -> None:
        made = {"name": "m", "kind": "Detector", "parameters": OWN, "keyed": self.keyed}
        client.ok("POST", "/models", made)

    def learn(self, client, count) -> None:
        """Let both learn the same rows; note the alerts by rows, called as they are called."""
        X = self.rng.normal(size=(count, 2))
        keys = [KEYS[i] for i in self.rng.integers(0, 3, count)]
        more = {"keys": keys} if self.keyed else {}
        told = client.ok("POST", "/models/m/predict-then-learn", {"X": X.tolist(), **more})
        values = self.model.predict_then_learn(*([keys, X] if self.keyed else [X]))
        assert told["values"] == values.tolist()
        for i in np.flatnonzero(values == -1).tolist():
            own = (self.keys + keys[:i]).count(keys[i]) if self.keyed else len(self.keys) + i
            self.had.append((len(self.keys) + i, keys[i], own))
        self.keys += keys

    def answer(self, client, said) -> None:
        """Answer the latest alert that has no answer yet."""
        row, key, own = next(one for one in self.had[::-1] if one[0] not in self.answers)
        body = {"id": str(own), "answer": said} | ({"key": key} if self.keyed else {})
        client.ok("POST", "/models/m/feedback", body)
        self.model.feedback(*([key] if self.keyed else []), str(own), said)
        self.answers[row] = said

    def refused(self, client, what) -> None:
        """Ask for what the model itself refuses, where it comes to it in the log."""
        keys = {"keys": ["a"] * 50 + ["b"]} if self.keyed else {}
        path, status = "/models/m/learn", 422
        if what == "width":
            body = {"X": [[1.0, 2.0, 3.0]] * 51, **keys}
        elif what == "null":
            body = {"X": [[50.0, 50.0 + i] for i in range(50)] + [[1.0, None]], **keys}
        else:
            alerts = {own for _, key, own in self.had if key == "a" or not self.keyed}
            usual = str(next(i for i in range(60, 200) if i not in alerts))
            body = {"id": usual, "answer": "fault"} | ({"key": "a"} if self.keyed else {})
            path, status = "/models/m/feedback", 404
        assert client.refused("POST", path, body)[0] == status

    def check(self, one, outcomes) -> None:
        """The service's model has the same bits; a replay has the alerts and the answers it had."""
        told = one.client.ok("GET", "/health")
        assert told["status"] == "ok" and not told["aside"], told
        assert one.client.send("GET", "/models/m/file")[2] == files.dumps(self.model)
        found = one.client.ok("POST", "/models/m/replay", {})
        assert found["rows"] == len(self.keys) and found["from_row"] == 0
        assert found["notes"] == []
        assert [(a.row, a.id) for a in outcomes[0].alerts] == [
            (row, f"{key}:{own}" if self.keyed else str(own)) for row, key, own in self.had
        ]
        [own] = found["settings"]
        said = [*self.answers.values()]
        assert own["answers_heard"] == len(said)
        for kind in ("usual", "fault"):
            told = own["answered"][kind]
            assert told["of"] == told["shown"] == said.count(kind)


@pytest.mark.few
@pytest.mark.parametrize("what", ["width", "null", "answer"])
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("way", ["restarts", "kills"])
def test_it_is_as_if_it_had_never_come(tmp_path, rng, outcomes, what, keyed, way) -> None:
    """Several lives; a kill is what lies on the disk behind a snapshot."""
    twin, state = Twin(keyed, rng), tmp_path / "s0"
    for life in range(4):
        with served(state, archive=LONG) as one:
            client = one.client
            if not life:
                twin.make(client)
                twin.learn(client, 3 * PART)
                one.engine.snapshot()
            else:
                twin.check(one, outcomes)
            twin.learn(client, PART // 10)
            twin.answer(client, ("usual", "fault")[life % 2])
            if life != 1:  # there others come behind it, who do not say so again
                twin.refused(client, what)
            if way == "kills":
                one.engine.snapshot()
                assert bool(one.engine.keeper.files[1].tails) == keyed
            twin.check(one, outcomes)
            if way == "kills":
                state = shutil.copytree(state, tmp_path / f"s{life + 1}")
    assert len(twin.had) > 20 and len(twin.answers) == 4


@pytest.mark.long  # in quick runs it was made before
@pytest.mark.parametrize("what", ["width", "null", "answer"])
@pytest.mark.parametrize("keyed", [True, False])
def test_while_a_snapshot_is_made(tmp_path, rng, outcomes, monkeypatch, what, keyed) -> None:
    """Behind the place where the log is cut, and before the model's file is written."""
    twin, state = Twin(keyed, rng), tmp_path / "s"
    with served(state, archive=LONG) as one:
        client, save = one.client, one.engine.keeper._save
        twin.make(client)
        twin.learn(client, 3 * PART)
        twin.answer(client, "fault")

        def late(slot):
            twin.refused(client, what)
            return save(slot)

        with monkeypatch.context() as patch:
            patch.setattr(one.engine.keeper, "_save", late)
            one.engine.snapshot()
        twin.check(one, outcomes)
        state = shutil.copytree(state, tmp_path / "k")
    for _ in range(2):
        with served(state, archive=LONG) as one:
            twin.check(one, outcomes)
            twin.learn(one.client, PART // 10)
            one.engine.snapshot()
            twin.check(one, outcomes)


@pytest.mark.parametrize("what", size(["answer"], ["width", "answer"]))
def test_a_state_that_does_not_say_so(tmp_path, rng, outcomes, monkeypatch, what) -> None:
    """Snapshots of earlier builds did not: what the tail has and cannot be is refused once more."""
    twin, state = Twin(True, rng), tmp_path / "s"
    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "_note_refusals", lambda keeper: None)
        with served(state, archive=LONG) as one:
            twin.make(one.client)
            twin.learn(one.client, 3 * PART)
            twin.answer(one.client, "usual")
            one.engine.snapshot()
            twin.refused(one.client, what)
        assert one.engine.keeper.files[1].tails
    for _ in range(3):
        with served(state, archive=LONG) as one:
            twin.check(one, outcomes)
            twin.learn(one.client, PART // 10)
            twin.answer(one.client, "fault")
            twin.check(one, outcomes)
