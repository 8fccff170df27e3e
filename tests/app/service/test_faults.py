"""Whatever an estimator raises in the midst of learning: refused, noted, the model as it was.

And whatever is raised on the way: no place among those that wait is lost.
"""

from __future__ import annotations

import threading

import msgspec
import numpy as np
import pytest
from helpers.states import bits, crash, learn, make, rows, two_models

from onkel import NoveltyDetector, files
from onkel.app.http.problems import Problem
from onkel.app.service import engine as engines
from onkel.app.service.engine import Engine

BOMB = 777.0
"""A row that begins with it is the one at which learning fails."""


@pytest.fixture
def engine(tmp_path):
    with two_models(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def fuse(monkeypatch):
    """Learning fails at a row that begins with BOMB, after it has learned: the worst moment."""
    lit, own = (
        {"error": IndexError("no such place"), "times": 10**9},
        NoveltyDetector.predict_then_learn,
    )

    def failing(self, X, *args, **kwargs):
        found = own(self, X, *args, **kwargs)
        if lit["times"] and np.asarray(X)[0, 0] == BOMB:
            lit["times"] -= 1
            raise lit["error"]
        return found

    monkeypatch.setattr(NoveltyDetector, "predict_then_learn", failing)
    return lit


@pytest.mark.parametrize("kind", [IndexError, MemoryError, RecursionError, ValueError, KeyError])
def test_whatever_learning_raises_is_a_refusal(engine, fuse, tmp_path, kind):
    """The model has the same bytes as before, goes on, and a restart has the same again."""
    fuse["error"] = kind("no such place")
    before = bits(engine, "bad")
    with pytest.raises(Problem, match="no such place") as caught:
        learn(engine, "bad", 2, first=BOMB, key="k")
    assert caught.value.status == (422 if kind is ValueError else 500)
    assert bits(engine, "bad") == before and engine.waiting == 0
    fuse["times"] = 0  # it would be learned now: the log must say that it was not
    for _ in range(2):
        learn(engine, "bad", 3)
        again = Engine(crash(engine, tmp_path / f"copy{_}"))
        assert bits(again, "bad") == bits(engine, "bad") and again.troubles() == []
        again.close()
        engine.snapshot()
    assert learn(engine, "bad", 2, first=BOMB, key="k").status == 200, "its key is free"


@pytest.mark.parametrize("kind", [IndexError, ValueError])
def test_a_fault_is_on_the_disk_before_it_is_answered(engine, fuse, tmp_path, kind):
    """So is a refusal that has left the model changed: it may not come again by itself."""
    fuse["error"] = kind("no such place")
    with pytest.raises(Problem, match="no such place"):
        learn(engine, "bad", 2, first=BOMB)
    again = Engine(crash(engine, tmp_path / "copy"))
    fuse["times"] = 0
    other = Engine(crash(engine, tmp_path / "other"))
    assert bits(again, "bad") == bits(other, "bad") == bits(engine, "bad")
    assert again.faults == 0 and again.troubles() == other.troubles() == []
    again.close()
    other.close()


def test_a_fault_after_faults_finds_the_way_back(engine, fuse):
    """Several in one group: each is put back without those before it."""
    gate, slot = threading.Event(), engine.slot("bad")
    slot.do(gate.wait)
    seeds = [(2, BOMB), (3, None), (4, BOMB), (5, BOMB), (6, None)]
    waits = [engine.change(rows(engine, "bad", s, first=f)) for s, f in seeds]
    gate.set()
    done = [wait.exception(20) is None for wait in waits]
    assert done == [f is None for _, f in seeds] and engine.faults == 3
    wanted = NoveltyDetector(nu=0.05, warmup=20)
    for seed in (1, 3, 6):
        wanted.partial_fit(np.random.default_rng(seed).normal(size=(30, 3)))
    assert bits(engine, "bad") == files.dumps(wanted)


def test_a_note_tells_of_all_that_was_refused(engine, fuse, tmp_path):
    """A refusal in the model's own words, then a fault: the note of the second tells of both."""
    wide = rows(engine, "bad", 2, n=4)
    wide.width = 4
    with pytest.raises(Problem, match="features"):
        engine.change(wide).result(20)
    with pytest.raises(Problem, match="noted as refused"):
        learn(engine, "bad", 2, first=BOMB)
    again = Engine(crash(engine, tmp_path / "copy"))
    assert again.troubles() == [] and bits(again, "bad") == bits(engine, "bad")
    again.close()


def test_a_record_that_was_logged_when_the_power_went_is_decided_at_the_start(
    engine, fuse, tmp_path
):
    """In the log, and nobody was answered: refused now, and the model is as it was before."""
    record = msgspec.msgpack.encode(rows(engine, "bad", 2, first=BOMB))
    before = bits(engine, "bad")
    engine._committer.write(engine.models.spec("bad").id, record)
    again = Engine(crash(engine, tmp_path / "copy"))
    assert bits(again, "bad") == before and again.troubles() == []
    learn(again, "bad", 3)
    fuse["times"] = 0
    third = Engine(crash(again, tmp_path / "third"))
    assert bits(third, "bad") == bits(again, "bad"), "what was decided stays so"
    again.close()
    third.close()


def test_what_was_learned_and_cannot_be_learned_again_sets_the_model_aside(engine, fuse, tmp_path):
    """Never refused in silence: its answer went out. A later start may bring it back."""
    fuse["times"] = 0
    learn(engine, "bad", 2, first=BOMB, key="kept")
    learn(engine, "bad", 3)
    folder = crash(engine, tmp_path / "copy")
    fuse["times"] = 10**9
    for _ in range(2):
        again = Engine(folder)
        learn(again, "good", 4)
        with pytest.raises(Problem, match=r"is set aside.*cannot be applied again.*no such place"):
            again.slot("bad")
        again.snapshot()
        again.close()
    fuse["times"] = 0
    again = Engine(folder)
    assert bits(again, "bad") == bits(engine, "bad") and again.troubles() == []
    assert again.change(rows(again, "bad", 9, key="kept")).result(20).position == 5
    again.close()
    assert len([*(folder / "models").glob("*.log")]) == 0
    again = Engine(folder)
    assert bits(again, "bad") == bits(engine, "bad")
    again.close()


def test_a_new_model_that_cannot_be_taken_in_is_refused_for_good(engine, monkeypatch, tmp_path):
    def failing(*args):
        raise RuntimeError("no slot")

    with monkeypatch.context() as patch:
        patch.setattr(engines, "Slot", failing)
        with pytest.raises(Problem, match="no slot"):
            make(engine, "new")
    assert "new" not in engine.models and engine._places.making == 0
    again = Engine(crash(engine, tmp_path / "copy"))
    assert "new" not in again.models
    again.close()
    make(engine, "new")


def test_places_are_given_back_whatever_raises(engine, monkeypatch, tmp_path):
    """A number too large for the log, a log that is closed, a pool that is: nothing leaks."""
    huge = rows(engine, "bad", 2, key="k")
    huge.time = [2**70] * 30
    for _ in range(5):
        with pytest.raises(Problem, match="64 bits") as caught:
            engine.change(huge)
        assert caught.value.status == 422

    def failing(*args, **kwargs):
        raise RuntimeError("cannot")

    for target, name in ((engine._committer, "submit"), (engines, "_record")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, failing)
            with pytest.raises(RuntimeError, match="cannot"):
                engine.change(rows(engine, "bad", 2, key="k"))
    with monkeypatch.context() as patch:
        patch.setattr(engine.slot("bad"), "do", failing)
        with pytest.raises(Problem, match="cannot") as caught:
            learn(engine, "bad", 2, key="k")
        assert caught.value.code == "fault"
    assert engine.waiting == 0 and not engine._places.pending
    again = Engine(crash(engine, tmp_path / "copy"))
    assert again.slot("bad").estimator.t_ == 30, "it was answered as refused"
    again.close()
    learn(engine, "good", 3, key="k")
    with monkeypatch.context() as patch:
        patch.setattr(engine.pool, "submit", failing)
        with pytest.raises(RuntimeError):
            engine.ask(engine.slot("good"), len)
    assert engine.slot("good").waiting == 0
    assert engine.ask(engine.slot("good"), lambda est: est.t_).result(20) == 60


def test_answers_that_nobody_waits_for_give_their_place_back(engine):
    gate = threading.Event()
    engine.slot("bad").do(gate.wait)
    waits = [engine.change(rows(engine, "bad", 2)) for _ in range(3)]
    assert waits[1].cancel()
    gate.set()
    waits[2].result(20)
    assert engine.waiting == 0 and engine.slot("bad").estimator.t_ == 120


def test_faults_that_nobody_was_told_of_in_a_part_of_the_log_that_was_kept(engine, fuse, tmp_path):
    """A model set aside for another reason: behind that its log holds faults, not yet decided."""
    id, before = engine.models.spec("bad").id, bits(engine, "bad")
    for seed in (2, 3):
        record = msgspec.msgpack.encode(rows(engine, "bad", seed, first=BOMB))
        engine._committer.write(id, record)
    engine.models.set_aside(engine.slot("bad").spec, "a test.")
    engine.snapshot()
    again = Engine(crash(engine, tmp_path / "copy"))
    assert bits(again, "bad") == before and again.troubles() == []
    again.close()
