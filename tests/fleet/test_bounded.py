"""Idle keys go to the disk under a limit of memory, and come back as they were."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.sizes import size

from onkel import Detector, Fleet, KernelClassifier, KernelRegressor, NoveltyDetector, files
from onkel.fleet.bounded import Bounded, bytes_of

KINDS = {
    "Detector": Detector(nu=0.05, terms=30, warmup=20, recent=20),
    "NoveltyDetector": NoveltyDetector(recent=20),
    "KernelClassifier": KernelClassifier(),
    "KernelRegressor": KernelRegressor(),
}


def blocks(rng, estimator, rows, keys=60, at_once=25):
    for _ in range(rows // at_once):
        names = np.minimum(rng.geometric(0.08, at_once) - 1, keys - 1)
        X = rng.normal(size=(at_once, 3))
        y = {"novelty": None, "classification": (X[:, 0] > 0).astype(int), "regression": X[:, 1]}
        yield names, X, y[estimator.task]


@pytest.mark.parametrize("name", KINDS)
def test_the_answers_are_those_of_a_fleet_in_memory(name, rng):
    estimator = KINDS[name]
    whole = Fleet(estimator)
    small = Fleet(estimator, memory=60_000 if name == "Detector" else 8_000)
    for i, (keys, X, y) in enumerate(blocks(rng, estimator, size(1500, 6000))):
        expected = whole.predict_then_learn(keys, X, y)
        np.testing.assert_array_equal(small.predict_then_learn(keys, X, y), expected)
        if i % 7 == 0:
            key, row = int(keys[0]), X[0]
            target = None if y is None else y[0].item()
            for fleet in (whole, small):
                fleet.learn_one(key, row, target)
            asked = np.arange(0, 60, 5)
            rows = rng.normal(size=(len(asked), 3))
            np.testing.assert_array_equal(small.predict(asked, rows), whole.predict(asked, rows))
    assert small.keys() == whole.keys()
    ignored = {"bytes"}
    for diagnostic, value in whole.diagnostics_.items():
        if diagnostic not in ignored:
            assert small.diagnostics_[diagnostic] == value
    assert 0 < small.diagnostics_["bytes"] < 0.7 * whole.diagnostics_["bytes"]
    for key in whole:
        assert files.dumps(small[key]) == files.dumps(whole[key])
    assert files.dumps(small) == files.dumps(whole)


def test_what_was_not_changed_is_not_written_again(rng):
    fleet = Fleet(KernelRegressor(), memory=8_000)
    for keys, X, y in blocks(rng, fleet.estimator, 1500):
        fleet.partial_fit(keys, X, y)
    store = fleet._store
    assert isinstance(store, Bounded)
    ends = []
    for _ in range(3):  # at first those go to the disk that were changed last
        for keys, X, _ in blocks(rng, fleet.estimator, 2000):
            fleet.predict(keys, X)
        ends.append(store.spill.end)
    assert ends[1] == ends[2]


def test_outdated_records_do_not_pile_up(rng, monkeypatch):
    monkeypatch.setattr("onkel.fleet.bounded.WASTE", 20_000)
    fleet = Fleet(KernelRegressor(), memory=8_000)
    whole = Fleet(KernelRegressor())
    for keys, X, y in blocks(rng, fleet.estimator, 3000):
        np.testing.assert_array_equal(
            fleet.predict_then_learn(keys, X, y), whole.predict_then_learn(keys, X, y)
        )
    spill = fleet._store.spill
    assert spill.end <= 2 * spill.live + 20_000


def test_dropped_and_replaced_keys(rng):
    fleet = Fleet(KernelRegressor(), memory=8_000)
    for keys, X, y in blocks(rng, fleet.estimator, 1500):
        fleet.partial_fit(keys, X, y)
    away = int(np.flatnonzero(~fleet._store.here[: len(fleet)])[0])
    key = fleet.keys()[away]
    own = fleet[key]
    fleet.drop(key)
    assert key not in fleet
    fleet.partial_fit([key], [[0.0, 0.0, 0.0]], [1.0])
    assert fleet[key].t_ == 1
    fleet[key] = own
    assert fleet[key].t_ == own.t_


@pytest.mark.parametrize("text", ["2 G B B", "much", -3, 0, 1.5, "0MB", "5iB", None])
def test_sizes_that_are_none(text):
    if text is None:
        assert Fleet(Detector(), memory=None)._limit is None
        return
    with pytest.raises(ValueError, match="memory must be None, a whole number of bytes, or a text"):
        Fleet(Detector(), memory=text)


def test_sizes():
    assert bytes_of("1.5 MB") == 1_500_000
    assert bytes_of("64 kib") == 65536


def test_a_folder_that_is_none(tmp_path, rng):
    fleet = Fleet(Detector(), memory="1MB", folder=str(tmp_path / "no"))
    with pytest.raises(OSError, match="no file for idle keys can be made"):
        fleet.partial_fit(["a"], [[1.0]])
    assert len(fleet) == 0


@pytest.mark.parametrize("name", KINDS)
def test_a_full_disk_loses_nothing(name, rng, monkeypatch):
    """What was learned stays in memory, and the next call says what is wrong before it begins."""
    estimator = KINDS[name]
    small, whole = Fleet(estimator, memory=8_000), Fleet(estimator)
    parts = [*blocks(rng, estimator, 500)]

    def full(*_):
        raise OSError(28, "No space left on device")

    for i, (keys, X, y) in enumerate(parts):
        with monkeypatch.context() as patched:
            if i == 7:
                patched.setattr("onkel.fleet.bounded.os.pwrite", full)
                with pytest.warns(
                    UserWarning, match="No space left on device. They stay in memory"
                ):
                    found = small.predict_then_learn(keys, X, y)
                before = files.dumps(small)
                with pytest.raises(OSError, match="No space left on device"):
                    small.predict_then_learn(["new", *keys[1:].tolist()], X, y)
                assert files.dumps(small) == before and "new" not in small
            else:
                found = small.predict_then_learn(keys, X, y)
        np.testing.assert_array_equal(found, whole.predict_then_learn(keys, X, y))
    assert files.dumps(small) == files.dumps(whole)
