"""Fleets as files, merged, copied, shared by threads; files that are damaged or forged."""

from __future__ import annotations

import copy
import os
import pickle
import threading

import numpy as np
import pytest
from helpers.sizes import size

import onkel
from onkel import (
    Classifier,
    Detector,
    Fleet,
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    core,
    files,
    kernels,
)

KINDS = {
    "Detector": Detector(nu=0.05, terms=30, warmup=20, recent=20),
    "NoveltyDetector": NoveltyDetector(recent=20, warmup=5),
    "KernelClassifier": KernelClassifier(),
    "KernelRegressor": KernelRegressor(),
    "Classifier": Classifier(),
}


def learned(estimator, rng, rows=400, dtype=float):
    fleet = Fleet(estimator)
    keys = [["pump", 7, "größe", "", -3][k] for k in rng.integers(0, 5, rows)]
    X = rng.normal(size=(rows, 3)).astype(dtype)
    fleet.partial_fit(keys, X, target(estimator, X))
    return fleet


def target(estimator, X):
    return {"novelty": None, "classification": np.where(X[:, 0] > 0, "up", "down"),
            "regression": X[:, 1]}[estimator.task]  # fmt: skip


@pytest.mark.few
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", KINDS)
def test_a_loaded_fleet_goes_on(name, dtype, rng, tmp_path):
    fleet = learned(KINDS[name], rng, 60 if name == "Classifier" else 400, dtype)
    fleet.save(tmp_path / "fleet")
    again = onkel.load(tmp_path / "fleet")
    assert again.keys() == fleet.keys()
    assert again.stored_ == fleet.stored_
    assert files.dumps(again) == files.dumps(fleet)
    keys, X = [*fleet.keys() * 10, "new"], rng.normal(size=(51, 3)).astype(dtype)
    y = target(fleet.estimator, X)
    np.testing.assert_array_equal(
        again.predict_then_learn(keys, X, y), fleet.predict_then_learn(keys, X, y)
    )
    assert files.dumps(again) == files.dumps(fleet)


@pytest.mark.parametrize(
    "name, share", [("Detector", False), ("Detector", True), ("NoveltyDetector", False)]
)
def test_a_fleet_of_odd_streams_is_read_back(name, share, rng):
    """What is on and off, steps, repeats or never changes: ties, and zeros of either sign."""
    n = 700
    steps = np.repeat(rng.normal(size=n // 70), 70)
    every = {"steps": steps, "repeats": np.arange(n) % 3, "constant": np.ones(n)}
    for i in range(40):
        on = np.repeat(rng.random(n // 7) < 0.15, 7)
        every[f"on and off {i}"] = np.where(on, rng.exponential(size=n), 0.0)
    fleet = Fleet(Detector(nu=0.01) if name == "Detector" else KINDS[name], share=share)
    keys = [key for _ in range(n) for key in every]
    X = np.stack([*every.values()], axis=1).reshape(-1, 1)
    for start in range(0, len(X), 3000):
        fleet.partial_fit(keys[start : start + 3000], X[start : start + 3000])
        data = files.dumps(fleet)
        assert files.dumps(files.loads(data)) == data


@pytest.mark.parametrize("name", KINDS)
def test_a_single_row_may_be_the_first_after_a_file(name, rng):
    fleet = learned(KINDS[name], rng, 60)
    X = rng.normal(size=(1, 3))
    y = target(fleet.estimator, X)
    again = files.loads(files.dumps(fleet)), pickle.loads(pickle.dumps(fleet)), copy.copy(fleet)
    for other in (*again, fleet):
        key = other.keys()[-1]
        t = other.t_
        other.learn_one(key, X[0], None if y is None else y[0])
        assert other.t_ == t + 1 and other.changed()[-1] == key
        assert files.dumps(other) == files.dumps(again[0])


def test_a_fleet_that_knows_nothing(tmp_path):
    fleet = Fleet(Detector(nu=0.02))
    fleet.save(tmp_path / "fleet")
    again = onkel.load(tmp_path / "fleet")
    assert len(again) == 0 and repr(again) == repr(fleet)
    assert again.diagnostics_["keys"] == 0
    assert again.partial_fit(["a"], [[1.0]]).t_ == 1


def test_code_of_the_users_own(rng, tmp_path):
    def own(X, Z):
        return 1.0 / (1.0 + ((X[:, None] - Z[None]) ** 2).sum(-1))

    fleet = learned(KernelRegressor(kernel=kernels.Function(own, 1.0)), rng, 50)
    assert fleet.stored_.startswith("dict, since the compiled core does not know") or (
        not core.has_lane()
    )
    fleet.save(tmp_path / "fleet")
    again = onkel.load(tmp_path / "fleet", kernel=own)
    X = rng.normal(size=(3, 3))
    np.testing.assert_array_equal(again.predict([7] * 3, X), fleet.predict([7] * 3, X))


def test_cells_are_read_where_there_is_no_compiled_core(rng, monkeypatch):
    fleet = learned(KernelClassifier(), rng)
    data = files.dumps(fleet)
    monkeypatch.setattr("onkel.fleet.fleet.has_cells", lambda: False)
    again = files.loads(data)
    if core.has_lane():
        assert again.stored_ == "dict, since the compiled core is not here"
    X = rng.normal(size=(20, 3))
    keys = fleet.keys() * 4
    np.testing.assert_array_equal(again.predict(keys, X), fleet.predict(keys, X))


@pytest.mark.parametrize("name", [*KINDS][:-1])
def test_every_damaged_byte_is_noticed(name, rng):
    data = bytearray(files.dumps(learned(KINDS[name], rng, 60)))
    for at in rng.integers(0, len(data), size(60, 600)).tolist():
        other = bytes(data[:at]) + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]
        with pytest.raises(ValueError, match="cannot load this model"):
            files.loads(other)


@pytest.mark.parametrize("name", [*KINDS][:-1])
def test_forged_records_are_refused_or_harmless(name, rng):
    """Bytes of records changed at random: refused whole, or a model that goes on."""
    if not core.has_lane():
        pytest.skip("no compiled core")
    estimator = KINDS[name]
    fleet = learned(estimator, rng, 200)
    keys = fleet.keys()
    records = fleet.records(keys)
    X = rng.normal(size=(40, 3))
    taken = 0
    for _ in range(size(120, 5000)):
        which = int(rng.integers(len(records)))
        forged = bytearray(records[which])
        for at in rng.integers(0, len(forged), rng.integers(1, 4)).tolist():
            forged[at] = int(rng.integers(256))
        other = Fleet(estimator)
        other.open_as(fleet.form())
        try:
            other.restore([keys[which]], [bytes(forged)])
        except ValueError as error:
            assert "is damaged, or of another model" in str(error)
            assert len(other) == 0
            continue
        taken += 1
        try:
            other.partial_fit([keys[which]] * 40, X, target(estimator, X))
            other.predict([keys[which]] * 40, X)
        except ValueError:
            pass  # numbers that leave the floating range are refused as ever
        assert len(other.records([keys[which]])[0]) > 0
    assert taken


def test_records_of_another_fleet_are_refused(rng):
    if not core.has_lane():
        pytest.skip("no compiled core")
    fleet, other = learned(NoveltyDetector(), rng), learned(KernelRegressor(), rng)
    before = files.dumps(fleet)
    with pytest.raises(ValueError, match="record 1 is damaged, or of another model"):
        fleet.restore(["pump", 7], [fleet.records(["pump"])[0], other.records([7])[0]])
    assert files.dumps(fleet) == before


@pytest.mark.parametrize("name", ["NoveltyDetector", "KernelClassifier", "Detector"])
def test_merged(name, rng):
    fleets = [learned(KINDS[name], rng) for _ in range(2)]
    fleets[0].drop("pump")
    fleets[1].drop(7)
    whole = onkel.merge(fleets)
    assert sorted(map(str, whole.keys())) == sorted(["pump", "7", "größe", "", "-3"])
    assert files.dumps(whole["pump"]) == files.dumps(fleets[1]["pump"])
    both = onkel.merge([f["größe"] for f in fleets])
    X = rng.normal(size=(9, 3))
    np.testing.assert_array_equal(whole["größe"].predict(X), both.predict(X))
    assert whole.t_ == sum(f.t_ for f in fleets)
    with pytest.raises(ValueError, match="without weights"):
        onkel.merge(fleets, weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="one setting"):
        onkel.merge([fleets[0], Fleet(Detector(nu=0.5))])


@pytest.mark.parametrize("name", KINDS)
def test_copies_are_independent(name, rng):
    fleet = learned(KINDS[name], rng, 60)
    before = files.dumps(fleet)
    for other in (copy.copy(fleet), copy.deepcopy(fleet), pickle.loads(pickle.dumps(fleet))):
        assert files.dumps(other) == before
        X = rng.normal(size=(5, 3))
        other.partial_fit(["pump"] * 5, X, target(fleet.estimator, X))
        assert files.dumps(fleet) == before != files.dumps(other)


@pytest.mark.parametrize("name", [*KINDS][:-1])
def test_the_number_of_threads_does_not_matter(name, rng):
    one, two = Fleet(KINDS[name]), Fleet(KINDS[name], n_jobs=3)
    for _ in range(5):
        keys, X = rng.integers(0, 40, 300), rng.normal(size=(300, 3))
        y = target(KINDS[name], X)
        np.testing.assert_array_equal(
            one.predict_then_learn(keys, X, y), two.predict_then_learn(keys, X, y)
        )
    np.testing.assert_array_equal(one.predict(keys, X), two.predict(keys, X))
    assert files.dumps(one) == files.dumps(two)


def test_threads_of_the_caller(rng, tmp_path):
    """One thread learns while others predict and save: each sees the fleet between two calls."""
    fleet, stop, problems = Fleet(KernelRegressor(), memory="100kB"), threading.Event(), []
    X = rng.normal(size=(4000, 2))
    fleet.partial_fit(np.arange(100) % 40, X[:100], X[:100, 0])

    def ask() -> None:
        while not stop.is_set():
            try:
                fleet.predict(np.arange(40), X[:40])
                path = tmp_path / f"{threading.get_ident()}"
                fleet.save(path)
                assert onkel.load(path).t_ % 100 == 0
            except BaseException as error:
                problems.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(100, size(1500, 4000), 100):
        fleet.partial_fit(np.arange(100) % 40, X[i : i + 100], X[i : i + 100, 0])
    stop.set()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]
    assert os.listdir(tmp_path)
