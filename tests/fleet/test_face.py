"""A fleet's face: what it answers is what a dict of single estimators answers."""

from __future__ import annotations

import copy
from collections import Counter

import numpy as np
import pytest

from onkel import (
    Classifier,
    Detector,
    Fleet,
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    files,
)
from onkel.inputs import RefusedRow

ESTIMATORS = {
    "Detector": Detector(nu=0.02, terms=40, warmup=50),
    "NoveltyDetector": NoveltyDetector(nu=0.05),
    "KernelClassifier": KernelClassifier(),
    "KernelRegressor": KernelRegressor(),
}


def rows_of(rng, rows=600, keys=5, d=3):
    names = np.array([f"k{i}" for i in range(keys)])
    which = names[np.minimum(rng.geometric(0.4, size=rows) - 1, keys - 1)]
    X = rng.normal(size=(rows, d)) * 3.0 + 7.0
    return which, X, np.where(X[:, 0] > 7, "up", "down")


def target_of(estimator, X, labels):
    return {"novelty": None, "classification": labels, "regression": X[:, 0]}[estimator.task]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_answers_are_those_of_single_models(name, rng):
    estimator = ESTIMATORS[name]
    keys, X, labels = rows_of(rng)
    y = target_of(estimator, X, labels)
    fleet, single = Fleet(estimator), {}
    for start in range(0, len(X), 150):
        part = slice(start, start + 150)
        found = fleet.predict_then_learn(keys[part], X[part], None if y is None else y[part])
        for key in dict.fromkeys(keys[part].tolist()):
            at = np.flatnonzero(keys[part] == key) + start
            model = single.setdefault(key, copy.copy(estimator))
            given = (X[at],) if y is None else (X[at], y[at])
            expected = model.predict_then_learn(*given)
            np.testing.assert_array_equal(found[at - start], expected)
    assert fleet.keys() == [*single]
    for key, model in single.items():
        assert files.dumps(fleet[key]) == files.dumps(model)
        np.testing.assert_array_equal(fleet.predict([key] * 9, X[:9]), model.predict(X[:9]))
    assert fleet.t_ == len(X)
    assert fleet.diagnostics_["keys"] == len(single)


def test_a_refused_call_changes_no_model(rng):
    keys, X, _ = rows_of(rng)
    fleet = Fleet(NoveltyDetector()).partial_fit(keys, X)
    before = {key: files.dumps(fleet[key]) for key in fleet}
    X[77, 1] = np.nan
    with pytest.raises(RefusedRow) as refused:
        fleet.predict_then_learn(keys, X)
    assert refused.value.row == 77
    assert repr(keys[77].item()) in str(refused.value)
    assert {key: files.dumps(fleet[key]) for key in fleet} == before


def test_keys_are_strings_or_whole_numbers(rng):
    fleet = Fleet(Detector())
    with pytest.raises(RefusedRow, match="Row 1: its key is None"):
        fleet.partial_fit(["a", None], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="keys must have one value per row"):
        fleet.partial_fit(["a"], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="one key per row"):
        fleet.partial_fit("ab", [[1.0], [2.0]])
    assert len(fleet) == 0


@pytest.mark.parametrize("other", [Detector, None, Fleet(Detector()), "Detector"])
def test_what_is_no_estimator(other):
    with pytest.raises(TypeError, match="must be one of onkel's, such as Detector"):
        Fleet(other)


def test_models_go_in_and_out(rng):
    keys, X, _ = rows_of(rng)
    fleet = Fleet(Detector(nu=0.02)).partial_fit(keys, X)
    own = fleet["k0"]
    own.partial_fit(X[:5])
    assert own.t_ == fleet["k0"].t_ + 5
    fleet["new"] = own
    assert fleet["new"].t_ == own.t_
    with pytest.raises(ValueError, match="fleet's settings"):
        fleet["new"] = Detector(nu=0.5)
    fleet.drop("new")
    assert "new" not in fleet
    with pytest.raises(KeyError, match="no key 'new'"):
        fleet["new"]


def test_of_an_unknown_key_nothing_is_said(rng):
    keys, X, labels = rows_of(rng)
    fleet = Fleet(Detector()).partial_fit(keys, X)
    assert fleet.predict(["strange"], X[:1]).tolist() == [1]
    assert np.isnan(fleet.predict(["strange"], X[:1], output="score")).all()
    assert fleet.predict_one("strange", X[0]) == 1
    classes = Fleet(Classifier()).partial_fit(keys, X, labels)
    assert classes.predict(["strange", "k0"], X[:2]).tolist()[0] is None
    assert classes.predict_proba(["strange"], X[:1]).tolist() == [[0.0, 0.0]]


def test_states_go_elsewhere_and_come_back(rng):
    keys, X, _ = rows_of(rng)
    fleet = Fleet(Detector(nu=0.02)).partial_fit(keys, X)
    names = fleet.changed()
    assert sorted(names) == sorted(set(keys.tolist()))
    assert fleet.changed() == []
    other = Fleet(Detector(nu=0.02))
    other.open_as(fleet.form())
    other.restore(names, fleet.records(names))
    np.testing.assert_array_equal(
        other.predict_then_learn(keys, X, output="verdict"),
        fleet.predict_then_learn(keys, X, output="verdict"),
    )


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_was_not_learned_decides_nothing(name):
    """A refused call, one that only asks, one of no rows: none says what rows are like."""
    estimator = ESTIMATORS[name]
    y = target_of(estimator, np.zeros((2, 1)), np.array(["a", "b"]))
    none = None if y is None else y[:0]
    for keys in (["a", None], ["a", "b"]):
        fleet = Fleet(estimator)
        with pytest.raises(ValueError, match="Row 1"):
            fleet.partial_fit(keys, [[1.0], [2.0 if keys[1] is None else np.nan]], y)
        fleet.predict(["a"], [[1.0, 2.0, 3.0]])
        fleet.partial_fit([], np.zeros((0, 4)), none)
        assert fleet.stored_ is None and len(fleet) == 0
        assert files.dumps(fleet) == files.dumps(Fleet(estimator))
        fleet.partial_fit(["a", "b"], [[1.0, 2.0], [3.0, 4.0]], y)
        assert fleet["a"].n_features_in_ == 2


def test_targets_of_a_refused_call_leave_no_trace(rng):
    X = rng.normal(size=(10, 2))
    classes = Fleet(KernelClassifier()).partial_fit(["a", "b"] * 5, X, ["x", "y"] * 5)
    numbers = Fleet(KernelRegressor()).partial_fit(["a", "b"] * 5, X, X[:, 0])
    for fleet, y in ((classes, ["new", "x"]), (numbers, [[1.0], [2.0]])):
        before, said = files.dumps(fleet), fleet.predict(["a"], X[:1])
        with pytest.raises(ValueError, match="leaves the floating range"):
            fleet.partial_fit(
                ["a", "c"], [[1.0, 1.0], [1e140, -1e140]], y, sample_weight=[1, 1e300]
            )
        assert files.dumps(fleet) == before and "c" not in fleet
        np.testing.assert_array_equal(fleet.predict(["a"], X[:1]), said)


def test_targets_have_the_shape_of_the_first_ones(rng):
    """As a single regressor's: one number per row stays that, however later ones are given."""
    X = rng.normal(size=(6, 2))
    fleet, single = Fleet(KernelRegressor()), KernelRegressor()
    for y in (X[:, 0], X[:, :1]):
        fleet.partial_fit(["a"] * 6, X, y)
        single.partial_fit(X, y)
        assert fleet.predict(["a"] * 6, X).shape == single.predict(X).shape == (6,)
    other = Fleet(KernelRegressor())
    other["wide"] = KernelRegressor().partial_fit(X, X[:, :1])
    other["flat"] = single
    assert other.predict(["wide", "flat"], X[:2]).shape == (2, 1)
    assert files.dumps(other["flat"]) == files.dumps(single)


def test_what_is_no_key_is_not_there(rng):
    fleet = Fleet(Detector())
    for _ in range(2):
        for key in (None, True, 1.0, b"a", (1,), 2**63, "\ud800", "unknown"):
            assert key not in fleet
            for asked in (fleet.__getitem__, fleet.drop, lambda k: fleet.explain(k, [1.0, 2.0])):
                with pytest.raises(KeyError, match="no key"):
                    asked(key)
            if key != "unknown":
                with pytest.raises(ValueError, match="key"):
                    fleet.learn_one(key, [1.0, 2.0])
        with pytest.raises(KeyError, match="no key"):
            fleet.records(["unknown"])
        fleet.partial_fit(["a"], [[1.0, 2.0]])


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_call_that_breaks_leaves_nothing_for_the_next_key(name, share, rng, monkeypatch):
    """A number that is used again begins with a fresh model."""
    estimator = ESTIMATORS[name]
    if share and name != "Detector":
        return
    keys, X, labels = rows_of(rng, 90)
    y = target_of(estimator, X, labels)
    fleet = Fleet(estimator, share=share)
    fleet.partial_fit(keys, X, y)
    inner = type(fleet._store).learn

    def late(self, call):
        inner(self, call)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(fleet._store), "learn", late)
    fleet.changed()
    with pytest.raises(KeyboardInterrupt):
        fleet.partial_fit(["lost"] * 60 + ["k0"] * 30, X, y)
    assert fleet.changed() == ["k0"]
    assert fleet.t_ == sum(fleet[key].t_ for key in fleet)
    monkeypatch.setattr(type(fleet._store), "learn", inner)
    assert "lost" not in fleet
    fleet.partial_fit(["other"] * 2, X[:2], None if y is None else y[:2])
    single = Fleet(estimator).partial_fit(["other"] * 2, X[:2], None if y is None else y[:2])
    assert files.dumps(fleet["other"]) == files.dumps(single["other"])


@pytest.mark.parametrize("how", [{}, {"share": True}, {"memory": 20_000}])
def test_rows_by_key_are_those_that_each_key_has_learned(rng, how):
    fleet, counted = Fleet(Detector(terms=20), **how), Counter()
    assert fleet.rows_by_key() == {}
    for _ in range(5):
        keys, X, _ = rows_of(rng, rows=300, keys=40)
        weight = rng.integers(0, 2, len(keys)).astype(float)
        fleet.partial_fit(keys, X, sample_weight=weight)
        counted.update(dict.fromkeys(keys.tolist(), 0))
        counted.update(key for key, w in zip(keys.tolist(), weight, strict=True) if w)
        fleet.drop(keys[0])
        del counted[keys[0]]
    found = fleet.rows_by_key()
    assert found == counted == {key: fleet[key].t_ for key in found}
    assert sum(found.values()) == fleet.t_
