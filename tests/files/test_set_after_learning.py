"""What set_params says of a detector that has learned waits for the next fit, in files too."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.fingerprint import fingerprint

from onkel import Detector, Fleet, KernelRegressor, core, files

SMALL = {"terms": 60, "warmup": 50, "nu": 0.02}
BEGUN = {
    "plain": {},
    "promised": {"precision": 0.8, "alerts_kept": 10},
    "alone": {"precision": 0.5, "nu": None},
}
SINCE = (
    {"alerts_kept": 2000}, {"alerts_kept": 2}, {"alerts_kept": 0}, {"nu": 1e-4, "precision": 0.7},
    {"precision": 0.5}, {"precision": None, "nu": 0.1}, {"nu": None, "precision": 0.9},
    {"memory_of_feedback": 5}, {"memory": 500, "terms": 40, "warmup": 3, "recent": 7},
)  # fmt: skip


def rows_of(rng, count=900):
    X = rng.normal(size=(count, 2))
    X[::40] *= 20
    return X


def answered(model, count=6):
    for i, alert in enumerate(model.alerts_[-count:]):
        model.feedback(alert["id"], ("usual", "fault", "usual")[i % 3])
    return model


@pytest.mark.parametrize("since", SINCE, ids=str)
@pytest.mark.parametrize("begun", BEGUN)
def test_a_file_brings_back_the_model_that_there_was(begun, since, rng):
    """The truth is the model that nobody has set anything of: it, and its file, go on alike."""
    X, more = rows_of(rng), rows_of(rng)
    whole = answered(Detector(**{**SMALL, **BEGUN[begun]}).partial_fit(X))
    before = files.dumps(whole)
    set_ = files.loads(before).set_params(**since)
    loaded = files.loads(files.dumps(set_))
    assert loaded.get_params() == set_.get_params()
    for model in (whole, set_, loaded):
        model.said = [model.predict_then_learn(more, output="judgement"), answered(model)]
    for model in (set_, loaded):
        np.testing.assert_array_equal(model.said[0], whole.said[0])
        assert fingerprint(model._learner.dump()) == fingerprint(whole._learner.dump())
        told, truth = model.diagnostics_, whole.diagnostics_
        assert {**told, "bytes": 0} == {**truth, "bytes": 0} and model.alerts_ == whole.alerts_
        if truth.get("precision_realised") is not None:
            promised, term = told["precision_promised"], told["precision_error_term"]
            assert told["precision_realised"] - promised == pytest.approx(term, abs=1e-12)
    assert files.dumps(loaded.set_params(**whole.get_params())) == files.dumps(whole)


def test_values_of_a_table_stay_as_rare_as_they_were(rng):
    """Beside numbers they count by the rate that the model began with, whatever is set since."""
    names = ["x", "y", *(f"seldom {i}" for i in range(30))]
    kinds = rng.choice(names, 1500, p=[0.6, 0.34] + 30 * [0.002])
    rows = [
        {"a": a, "kind": str(kind)} for a, kind in zip(rng.normal(size=1500), kinds, strict=True)
    ]
    whole = Detector(nu=0.05).partial_fit(rows[:1000])
    before = files.dumps(whole)
    for since in ({"nu": 1e-3}, {"nu": None, "precision": 0.9}):
        model = files.loads(before)
        set_ = files.loads(before).set_params(**since)
        for each in (model, set_, loaded := files.loads(files.dumps(set_))):
            each.said = [each.predict_then_learn(rows[1000:], output="judgement"), answered(each)]
        for each in (set_, loaded):
            np.testing.assert_array_equal(each.said[0], model.said[0])
            assert fingerprint(each._learner.dump()) == fingerprint(model._learner.dump())
        assert files.dumps(set_.set_params(**whole.get_params())) == files.dumps(model)
    assert files.dumps(whole) == before


def test_what_is_set_counts_from_the_next_fit(rng):
    X = rows_of(rng)
    set_ = Detector(**SMALL, precision=0.8).fit(X)
    since = {"alerts_kept": 3, "precision": 0.6, "memory_of_feedback": 50}
    again = files.loads(files.dumps(set_.set_params(**since))).fit(X)
    assert files.dumps(again) == files.dumps(Detector(**{**SMALL, **since}).fit(X))


def without(data, *names):
    """Return the bytes of a file of before, which had no such settings."""
    _, model, tensors = files.container.unpack(data)
    for name in names:
        del model["settings"][name]
    return b"".join(files.container.pack(model, tensors))


def test_files_of_before_go_by_their_parameters(rng):
    given = {**SMALL, "precision": 0.8, "alerts_kept": 10, "memory_of_feedback": 300}
    model = answered(Detector(**given).partial_fit(rows_of(rng)))
    data = files.dumps(model)
    old = without(data, "alerts_kept", "memory_of_feedback", "promise")
    assert len(old) < len(data) and files.dumps(files.loads(old)) == data


@pytest.mark.parametrize(
    ("name", "value"),
    [("alerts_kept", -1), ("alerts_kept", 2.5), ("alerts_kept", 10**8),
     ("memory_of_feedback", 0.5), ("promise", 3), ("promise", {"dict": []})],
)  # fmt: skip
def test_forged_settings_are_refused(name, value, rng):
    _, model, tensors = files.container.unpack(
        files.dumps(Detector(**SMALL, precision=0.8).partial_fit(rows_of(rng, 200)))
    )
    model["settings"][name] = value
    with pytest.raises(ValueError, match=f"settings.{name}"):
        files.loads(b"".join(files.container.pack(model, tensors)))


@pytest.mark.parametrize(
    ("field", "value"),
    [("share", 1.5), ("start", -1e-9), ("high", 0.5), ("rate", 0.0), ("alone", 1)],
)
def test_a_forged_promise_is_refused(field, value, rng):
    _, model, tensors = files.container.unpack(
        files.dumps(Detector(**SMALL, precision=0.8).partial_fit(rows_of(rng, 200)))
    )
    pairs = model["settings"]["promise"]["dict"]
    model["settings"]["promise"]["dict"] = [[n, value if n == field else v] for n, v in pairs]
    with pytest.raises(ValueError, match="promise"):
        files.loads(b"".join(files.container.pack(model, tensors)))


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("since", [*SINCE[:4], {"nu": 0.2, "precision": 0.9}], ids=str)
def test_a_fleet_stays_what_it_began_as(since, share, rng):
    """Whatever is set of the estimator that it was given; so does its file, and keys that come."""
    keys = rng.integers(0, 3, 900)
    X, later = rows_of(rng), ["new", *rng.integers(0, 3, 99).tolist()]
    more = rows_of(rng, 100)
    fleets = []
    for change in ({}, since):
        fleet = Fleet(Detector(**SMALL, precision=0.8), share=share).partial_fit(keys, X)
        for i, alert in enumerate(fleet[1].alerts_[-4:]):
            fleet.feedback(1, alert["id"], ("usual", "fault")[i % 2])
        fleet.estimator.set_params(**change)
        fleets.append(fleet)
    whole, set_ = fleets
    loaded = files.loads(files.dumps(set_))
    for fleet in (set_, loaded):
        said = fleet.predict_then_learn(later, more, output="verdict")
        truth = files.loads(files.dumps(whole)).predict_then_learn(later, more, output="verdict")
        np.testing.assert_array_equal(said, truth)
        assert repr(fleet.estimator_) == repr(whole.estimator)
    assert files.dumps(loaded) == files.dumps(set_)


def test_a_fleet_takes_no_model_that_learned_otherwise(rng):
    X = rows_of(rng)
    fleet = Fleet(Detector(**SMALL)).partial_fit(["a"] * 900, X)
    other = Detector(**{**SMALL, "terms": 40}).partial_fit(X)
    before = files.dumps(fleet)
    for had in ({"terms": 40}, {"alerts_kept": 5}, {"memory_of_feedback": 9.0}):
        other = Detector(**{**SMALL, **had}).partial_fit(X).set_params(**fleet["a"].get_params())
        if core.has_lane():
            with pytest.raises(ValueError, match="learned with other settings"):
                fleet["b"] = other
            assert files.dumps(fleet) == before
    fleet["b"] = Detector(**SMALL).partial_fit(X)
    assert files.dumps(fleet["b"]) == files.dumps(fleet["a"])


def test_any_fleet_stays_what_it_began_as(rng):
    """Cells and dicts alike: a new key begins as the others did."""
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    for average in (False, True):  # in cells, in a dict
        fleet = Fleet(KernelRegressor(average=average)).partial_fit(["a"] * 60, X, y)
        fleet.estimator.set_params(kernel="linear", fit_intercept=False)
        fleet.partial_fit(["b"] * 60, X, y)
        assert files.dumps(fleet["b"]) == files.dumps(fleet["a"])
        assert files.dumps(files.loads(files.dumps(fleet))) == files.dumps(fleet)
