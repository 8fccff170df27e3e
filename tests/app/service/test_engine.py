"""Models, log and snapshots: a restart ends with the same bits, whatever was on the disk."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import time
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra serve: pip install onkel[serve]")

import msgspec
import pytest

from onkel import KernelClassifier, KernelRegressor, NoveltyDetector, expansions, files, losses
from onkel.app.disk import InUse
from onkel.app.http.problems import Problem
from onkel.app.service import bodies, kept
from onkel.app.service import log as logs
from onkel.app.service.bodies import Batch, Entry
from onkel.app.service.engine import Engine
from onkel.app.service.limits import Limits
from onkel.app.service.specs import build

KINDS = {
    "det": ("NoveltyDetector", {"nu": 0.05, "warmup": 20}, None),
    "clf": ("KernelClassifier", {"expansion": {"name": "window", "terms": 50}}, "label"),
    "reg": ("KernelRegressor", {"loss": {"name": "huber", "nu": 0.1}}, "number"),
    "lin": ("LinearRegressor", {}, "number"),
    "words": ("NoveltyDetector", {"kernel": {"name": "spectrum", "length": 2}}, None),
}
LIBRARY = {
    "det": lambda: NoveltyDetector(nu=0.05, warmup=20),
    "clf": lambda: KernelClassifier(expansion=expansions.Window(terms=50)),
    "reg": lambda: KernelRegressor(loss=losses.Huber(nu=0.1)),
}


def make(engine, name, **extra):
    kind, parameters, _ = KINDS[name]
    entry = Entry("create", 0, name=name, kind=kind, **extra)
    entry.parameters = msgspec.json.encode(parameters)
    return engine.change(entry, build(kind, parameters)).result()


def batch(engine, name, rng, rows=30, op="predict-then-learn", key="", output=None):
    """A change with rows for this model; returns the entry and what the library takes."""
    X = rng.normal(size=(rows, 3))
    y = {None: None, "label": np.where(X[:, 0] > 0, "yes", "no").tolist(),
         "number": X.sum(axis=1).tolist()}[KINDS[name][2]]  # fmt: skip
    given = Batch(X.tolist(), y, output=output)
    entry = bodies.entry_of(given, op, engine.slot(name).spec.id, None, engine.limits)
    entry.key, entry.digest = key, key.encode()
    return entry, X, y


def bits(engine, name):
    return files.dumps(engine.slot(name).estimator)


@pytest.fixture
def engine(tmp_path):
    opened = Engine(tmp_path / "state")
    yield opened
    opened.close()


def crash(engine, folder):
    """Return a copy of the state as a kill would leave it, for a new engine."""
    return shutil.copytree(engine.state.folder, folder)


@pytest.mark.parametrize("snapshots", [(), (3,), (0, 4, 5), (9,)])
def test_a_restart_has_the_same_bits(tmp_path, rng, snapshots):
    engine = Engine(tmp_path / "state")
    for name in ("det", "clf", "reg", "lin"):
        make(engine, name)
    for i in range(10):
        for name in ("det", "clf", "reg", "lin"):
            op = "learn" if i % 3 == 0 else "predict-then-learn"
            engine.change(batch(engine, name, rng, int(rng.integers(1, 40)), op)[0]).result()
        if i in snapshots:
            engine.snapshot()
    again = Engine(crash(engine, tmp_path / "copy"))
    for name in ("det", "clf", "reg", "lin"):
        assert bits(again, name) == bits(engine, name)
    assert again.replayed == 4 * (10 - 1 - snapshots[-1]) if snapshots else again.replayed == 44
    engine.close()
    again.close()


def test_models_equal_a_library_run_over_the_acknowledged_order(tmp_path, rng):
    engine = Engine(tmp_path / "state")
    for name in LIBRARY:
        make(engine, name)
    models = {name: build() for name, build in LIBRARY.items()}
    for i in range(8):
        for name, model in models.items():
            entry, X, y = batch(engine, name, rng, 25)
            answer = engine.change(entry).result()
            own = model.predict_then_learn(X) if y is None else model.predict_then_learn(X, y)
            values = json.loads(answer.body)["values"]
            assert values == own.tolist()
        if i == 4:
            engine.snapshot()
    engine.close()
    again = Engine(tmp_path / "state")
    for name, model in models.items():
        assert bits(again, name) == files.dumps(model)
    assert again.replayed == 0, "a clean end leaves nothing to replay"
    again.close()


def test_keys_are_remembered_through_log_and_snapshot(tmp_path, rng):
    engine = Engine(tmp_path / "state")
    make(engine, "det")
    first = engine.change(batch(engine, "det", rng, key="a")[0]).result()
    engine.snapshot()
    second = engine.change(batch(engine, "det", rng, key="b")[0]).result()
    t = engine.slot("det").estimator.t_
    again = Engine(crash(engine, tmp_path / "copy"))
    for opened in (engine, again):
        for key, answer in (("a", first), ("b", second)):
            entry = batch(opened, "det", rng, key=key)[0]
            assert opened.change(entry).result() == answer
        assert opened.slot("det").estimator.t_ == t
        other = batch(opened, "det", rng, key="a")[0]
        other.digest = b"another request"
        with pytest.raises(Problem, match="used for another"):
            opened.change(other)
    engine.close()
    again.close()


def test_the_same_key_at_the_same_time_is_applied_once(engine, rng):
    make(engine, "det")
    entries = [batch(engine, "det", rng, rows=10, key="k")[0] for _ in range(5)]
    answers = [future.result() for future in [engine.change(e) for e in entries]]
    assert len(set(map(id, answers))) <= 2 and len({a.position for a in answers}) == 1
    assert engine.slot("det").estimator.t_ == 10


def test_a_key_answered_late_is_not_forgotten_by_the_next_snapshot(tmp_path, rng, monkeypatch):
    """Logged during a snapshot, before another key, but answered after it: saved the next time."""
    engine = Engine(tmp_path / "state")
    make(engine, "det")
    make(engine, "reg")
    gate, own, futures = threading.Event(), engine.keeper._save, []

    def save(slot):
        found = own(slot)
        if slot.spec.name == "reg":
            engine.slot("det").do(gate.wait)
            futures.append(engine.change(batch(engine, "det", rng, key="slow")[0]))
            engine.change(batch(engine, "reg", rng, key="quick")[0]).result()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(engine.keeper, "_save", save)
        engine.snapshot()
    gate.set()
    slow = futures[0].result()
    engine.change(batch(engine, "reg", rng)[0]).result()
    engine.snapshot()
    again = Engine(crash(engine, tmp_path / "copy"))
    assert again.keys.get("slow") == slow and again.keys.get("quick") is not None
    engine.close()
    again.close()


def test_a_refused_call_changes_nothing_now_and_after_a_restart(tmp_path, rng):
    engine = Engine(tmp_path / "state")
    make(engine, "reg")
    engine.change(batch(engine, "reg", rng)[0]).result()
    before = bits(engine, "reg")
    bad = batch(engine, "reg", rng)[0]
    bad.y = ["no number"] * 30
    wide = Entry("learn", 1, width=7, numbers=np.zeros((2, 7)).tobytes(), y=[0.0, 1.0])
    for entry in (bad, wide):
        with pytest.raises(Problem) as caught:
            engine.change(entry).result()
        assert caught.value.status == 422
    assert bits(engine, "reg") == before
    again = Engine(crash(engine, tmp_path / "copy"))
    assert bits(again, "reg") == before
    engine.close()
    again.close()


def test_names_come_and_go_in_the_order_of_the_log(tmp_path, rng):
    engine = Engine(tmp_path / "state")
    make(engine, "det")
    engine.change(batch(engine, "det", rng)[0]).result()
    with pytest.raises(Problem, match="already"):
        make(engine, "det")
    engine.change(Entry("delete", engine.slot("det").spec.id)).result()
    with pytest.raises(Problem, match="no model"):
        engine.slot("det")
    make(engine, "det")
    engine.change(batch(engine, "det", rng, rows=7)[0]).result()
    for place in ("before", "after"):
        again = Engine(crash(engine, tmp_path / place))
        assert again.slot("det").estimator.t_ == 7 and len(again.slots()) == 1
        assert again.slot("det").spec.id == 2
        again.close()
        engine.snapshot()
    engine.close()


def test_a_create_that_lost_a_race_does_not_come_back(tmp_path):
    """Logged and refused, its rival then deleted: a replay after a snapshot must not make it."""
    engine = Engine(tmp_path / "state")
    make(engine, "det")
    late = Entry("create", 99, name="det", kind="NoveltyDetector", parameters=b"{}")
    with pytest.raises(Problem):
        engine._apply(engine.state.log.append([(99, msgspec.msgpack.encode(late))]),
                      late, None, None)  # fmt: skip
    engine.change(Entry("delete", 1)).result()
    engine.snapshot()
    again = Engine(crash(engine, tmp_path / "copy"))
    assert again.slots() == []
    engine.close()
    again.close()


def test_texts_are_learned_and_replayed(tmp_path):
    engine = Engine(tmp_path / "state")
    make(engine, "words")
    given = Batch(["hello world", "good morning", "héllo"] * 5)
    entry = bodies.entry_of(given, "learn", 1, None, engine.limits)
    engine.change(entry).result()
    again = Engine(crash(engine, tmp_path / "copy"))
    assert bits(again, "words") == bits(engine, "words")
    engine.close()
    again.close()


def test_one_process_per_state(engine):
    with pytest.raises(InUse, match="one process per state"):
        Engine(engine.state.folder)


def test_a_full_disk_refuses_and_learns_nothing(engine, rng, monkeypatch):
    make(engine, "det")
    engine.change(batch(engine, "det", rng)[0]).result()
    before = bits(engine, "det")

    def full(file, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(logs.os, "write", full)
        with pytest.raises(Problem) as caught:
            engine.change(batch(engine, "det", rng, key="k")[0]).result()
    assert caught.value.status == 507 and bits(engine, "det") == before
    engine.change(batch(engine, "det", rng, key="k")[0]).result()
    assert engine.slot("det").estimator.t_ == 60


def test_a_failed_snapshot_loses_nothing(tmp_path, rng, monkeypatch):
    engine = Engine(tmp_path / "state")
    make(engine, "det")
    for i in range(3):
        engine.change(batch(engine, "det", rng)[0]).result()
        with monkeypatch.context() as patch:
            step = ("write_model", "commit", "clean")[i]
            patch.setattr(engine.state, step, lambda *a: (_ for _ in ()).throw(OSError(28, "full")))
            with pytest.raises(OSError):
                engine.snapshot()
        again = Engine(crash(engine, tmp_path / f"copy{i}"))
        assert bits(again, "det") == bits(engine, "det")
        again.close()
    engine.close()
    last = Engine(tmp_path / "state")
    assert last.slot("det").estimator.t_ == 90
    last.close()


def test_snapshots_bound_the_replay_and_leave_no_files_behind(tmp_path, rng):
    engine = Engine(tmp_path / "state", snapshot_bytes=20_000)
    make(engine, "det")
    while engine.keeper.snapshots < 3:
        engine.change(batch(engine, "det", rng, 50)[0]).result()
    folder = engine.state.folder
    again = Engine(crash(engine, tmp_path / "copy"))
    assert again.replayed < engine.slot("det").position
    assert bits(again, "det") == bits(engine, "det")
    engine.close()
    again.close()
    left = [path.suffix for path in (folder / "models").iterdir()]
    assert sorted(left) == [".incidents", ".model"] and len([*(folder / "log").iterdir()]) == 1


def test_limits_refuse_before_anything_is_logged(tmp_path, rng):
    engine = Engine(tmp_path / "state", Limits(models=1, classes=3, model_bytes=10))
    make(engine, "clf")
    with pytest.raises(Problem, match="as many as there may be"):
        make(engine, "det")
    entry = batch(engine, "clf", rng, rows=4)[0]
    entry.y = ["a", "b", "c", "d"]
    size = engine.state.log.size
    with pytest.raises(Problem, match="3 labels"):
        engine.change(entry)
    engine.change(batch(engine, "clf", rng)[0]).result()
    with pytest.raises(Problem, match="learns no more"):
        engine.change(batch(engine, "clf", rng)[0])
    assert size < engine.state.log.size
    engine.close()


def test_predictions_pass_learning_that_waits(engine, rng):
    """A question that comes late is answered before the calls that wait to learn."""
    make(engine, "det")
    engine.change(batch(engine, "det", rng)[0]).result()
    slot, order = engine.slot("det"), []
    gate = threading.Event()
    slot.do(gate.wait)
    waits = [slot.do(lambda i=i: order.append(f"learn {i}")) for i in range(5)]
    asked = slot.ask(lambda: order.append("ask"))
    gate.set()
    for future in (*waits, asked):
        future.result()
    assert order[0] == "ask"


def test_a_disk_that_was_full_for_a_while(tmp_path, monkeypatch) -> None:
    """A snapshot that failed is made again: nothing acknowledged is lost with the log."""
    pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
    from onkel.app.service.bodies import Entry
    from onkel.app.service.engine import Engine
    from onkel.app.service.limits import Limits
    from onkel.app.service.snapshots import Folder

    def learned(model, n):
        X = np.random.default_rng(n).normal(size=(n, 2))
        return Entry("learn", model, width=2, numbers=X.tobytes())

    engine = Engine(tmp_path / "s", Limits())
    engine.change(Entry("create", 0, name="a", kind="NoveltyDetector")).result(20)
    engine.change(learned(1, 200)).result(20)

    def full(*args):
        raise OSError(28, "No space left on device")

    for name in ("write_model", "commit"):
        with monkeypatch.context() as patched:
            patched.setattr(Folder, name, full)
            with pytest.raises(OSError, match="No space"):
                engine.snapshot()
        engine.change(learned(1, 100)).result(20)
    engine.snapshot()
    assert engine.slot("a").estimator.t_ == 400
    engine.close()
    again = Engine(tmp_path / "s", Limits())
    assert again.slot("a").estimator.t_ == 400
    again.close()


def test_numbers_that_are_shown_catch_up_when_rows_stop(rng, tmp_path):
    """The page and the metrics end with what the model says, also after a burst."""
    with closing(Engine(tmp_path, Limits())) as engine:
        make(engine, "det")
        slot = engine.slot("det")
        for _ in range(40):
            entry, *_ = batch(engine, "det", rng)
            engine.change(entry).result()
        deadline = time.monotonic() + 20
        told = engine.ask(slot, lambda est: est.diagnostics_).result()
        while slot.realised != told["rate_realised"]:
            assert time.monotonic() < deadline, (slot.realised, told["rate_realised"])
            time.sleep(0.05)
        shown = engine.board.changes("det")["numbers"]
        assert shown["realised"] == told["rate_realised"] and shown["t"] == 1200


@pytest.mark.parametrize("end", ["deleted", "set aside"])
def test_a_page_shows_nothing_of_a_model_that_ends_while_it_learns(engine, rng, monkeypatch, end):
    """Another one may have its name by then, for another task."""
    make(engine, "det")
    slot, asked = engine.slot("det"), engine.watch._asked

    def ends(*args):
        if end == "deleted":
            engine.models.drop(slot.spec.id)
            make(engine, "det")
        else:
            engine.models.set_aside(slot.spec, "a test asks for it.")
        return asked(*args)

    monkeypatch.setattr(engine.watch, "_asked", ends)
    engine.change(batch(engine, "det", rng, rows=300)[0]).result(20)
    shown = [(one["t"], one["marks"]) for one in engine.board.models()]
    assert shown == ([(0, 0)] if end == "deleted" else []), shown
    assert engine.watch.trouble == ""


def test_what_waits_behind_a_model_that_is_deleted_is_not_yet_done(engine, rng):
    """Whoever replays it counts what it has learned, and nothing that still waits."""
    make(engine, "det")
    engine.change(batch(engine, "det", rng)[0]).result(20)
    slot, gate = engine.slot("det"), threading.Event()
    before = kept.standing(slot)
    slot.do(lambda: gate.wait(20))
    waiting = engine.change(batch(engine, "det", rng)[0])
    deleted = engine.change(Entry("delete", slot.spec.id)).result(20)
    try:
        assert kept.standing(slot) == before and not waiting.done()
    finally:
        gate.set()
    assert before.position < waiting.result(20).position < deleted.position
