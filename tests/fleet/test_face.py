"""A fleet's face: what it answers is what a dict of single estimators answers."""

from __future__ import annotations

import copy

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
