"""Answers to alerts, at the face: ids, what is refused, files, copies, fleets, merging."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from onkel import Detector, Fleet, NoveltyDetector, files, merge
from onkel.estimators.feedback import report

SMALL = {"terms": 60, "warmup": 50, "nu": 0.02}


def watched(rng, **more):
    det = Detector(**{**SMALL, **more})
    X = rng.normal(size=(400, 2))
    X[300] = [0.0, 15.0]
    det.partial_fit(X)
    return det, X


def bits(model):
    return files.dumps(model)


def test_ids_are_the_rows_learned_before(rng):
    det, X = watched(rng)
    other, said = Detector(**SMALL), []
    for start in range(0, 400, 130):
        said.append(other.predict_then_learn(X[start : start + 130]))
    alerts = np.flatnonzero(np.concatenate(said) == -1)
    assert [a["id"] for a in det.alerts_] == [str(i) for i in alerts]
    told = next(a for a in det.alerts_ if a["id"] == "300")
    assert told["answer"] is None and told["rows_since"] == 99 and told["p"] < 0.01
    det.feedback(300, "fault")
    assert next(a for a in det.alerts_ if a["id"] == "300")["answer"] == "fault"


@pytest.mark.parametrize(
    ("id", "answer", "words"),
    [
        ("300", "nothing", "an answer is 'usual' or 'fault'; got 'nothing'"),
        ("300", "usal", "Did you mean 'usual'"),
        ("301", "usual", "no alert 301: no row of that number was an alert"),
        ("12", "usual", "no alert 12"),
        ("x", "usual", "such as '1234'; got 'x'"),
        (None, "usual", "got None"),
        (3.5, "usual", "got 3.5"),
        (True, "usual", "got True"),
        (np.True_, "usual", r"got (np\.)?True"),
        (np.float64(300), "usual", "such as '1234'"),
        ("300", ["usual"], "an answer is 'usual' or 'fault'"),
        ("300", np.array(["usual", "fault"]), "an answer is 'usual' or 'fault'"),
        ("-3", "fault", "got '-3'"),
        ("9" * 30, "fault", "such as"),
    ],
)
def test_what_is_refused_changes_nothing(rng, id, answer, words):
    det, _ = watched(rng)
    before = bits(det)
    with pytest.raises(ValueError, match=words):
        det.feedback(id, answer)
    assert bits(det) == before


@pytest.mark.parametrize("kind", [int, str, np.int64, np.uint16, np.str_])
def test_ids_may_be_numpys(rng, kind):
    det, X = watched(rng)
    fleet = Fleet(Detector(**SMALL)).partial_fit(["a"] * len(X), X)
    fleet.feedback("a", kind(300), "usual")
    assert fleet["a"].alerts_ == det.feedback("300", "usual").alerts_
    other = Detector(**SMALL).partial_fit(X).feedback(kind(300), "usual")
    assert bits(other) == bits(det)


def test_ids_may_be_numpys_in_river(rng):
    face = pytest.importorskip("onkel.river", exc_type=ImportError)
    det, X = watched(rng)
    live = face.Detector(**SMALL)
    for row in X:
        live.learn_one(dict(enumerate(row)))
    live.feedback(np.int64(300), "usual")
    assert live.estimator.alerts_ == det.feedback("300", "usual").alerts_


def test_parameters_are_checked():
    for wrong in ({"precision": 1.0}, {"precision": "high"}, {"memory_of_feedback": 0},
                  {"alerts_kept": -1}):  # fmt: skip
        name = next(iter(wrong))
        with pytest.raises(ValueError, match=f"Detector: {name} must be"):
            Detector(**wrong).partial_fit([[0.0]])
    with pytest.raises(ValueError, match="nu=None leaves the alerts to a promised precision"):
        Detector(nu=None).partial_fit([[0.0]])


@pytest.mark.parametrize("precision", [None, 0.8])
def test_files_copies_and_pickles_hold_it(rng, precision, tmp_path):
    det, X = watched(rng, precision=precision)
    det.feedback("300", "usual").feedback(det.alerts_[0]["id"], "fault")
    det.save(tmp_path / "det")
    others = [files.load(tmp_path / "det"), copy.copy(det), pickle.loads(pickle.dumps(det))]
    before = bits(det)
    X = np.vstack([X, [[0.0, 15.2]]])
    said = det.predict_then_learn(X, output="judgement")
    for other in others:
        assert bits(other) == before and other.alerts_[-1]["id"]
        np.testing.assert_array_equal(other.predict_then_learn(X, output="judgement"), said)
        assert bits(other) == bits(det)


@pytest.mark.parametrize("answer", ["usual", "fault"])
def test_files_hold_answers_to_what_is_as_far_away_as_can_be(answer):
    """In spreads it is a million; as a quotient of both it may be rounded beyond."""
    for seed in range(12):
        far = 1e6 * 10.0 ** np.random.default_rng(seed).uniform(0, 60)
        det = Detector(**SMALL).partial_fit(np.random.default_rng(seed).normal(size=(300, 2)))
        det.partial_fit([[far, -far]]).feedback("300", answer)
        assert np.abs(det._learner.answers.places[:, 2]).max() <= 1e6
        assert bits(files.loads(bits(det))) == bits(det)


def test_a_ring_that_is_full_forgets_its_oldest(rng, tmp_path):
    det = Detector(**SMALL, alerts_kept=5)
    X = rng.normal(size=(900, 2))
    X[100::40] *= 20
    det.partial_fit(X)
    kept = det.alerts_
    assert len(kept) == 5
    det.feedback(kept[0]["id"], "usual")
    det.save(tmp_path / "det")
    other = files.load(tmp_path / "det")
    assert other.alerts_ == det.alerts_ and bits(other) == bits(det)
    with pytest.raises(
        ValueError, match="the last 5 alerts can be answered, and it is older or was none"
    ):
        det.feedback("100", "usual")
    none = Detector(**SMALL, alerts_kept=0).partial_fit(X)
    assert none.alerts_ == []
    with pytest.raises(ValueError, match="alert 100 cannot be answered: alerts_kept=0 keeps none"):
        none.feedback("100", "usual")


def test_what_is_said_where_no_alert_is_kept(rng):
    """Beside what diagnostics count: that there was none is said only if there was none."""
    one, two = watched(rng)[0], watched(rng)[0]
    whole = merge([one, two])
    count = whole.diagnostics_["alerts"]
    assert count > 0 and whole.alerts_ == []
    with pytest.raises(ValueError, match=rf"of the {count} so far none is kept; a merged model"):
        whole.feedback("300", "usual")
    whole.partial_fit([[0.0, 60.0]])
    (kept,) = whole.alerts_
    with pytest.raises(ValueError, match="the last alert can be answered, and it is older"):
        whole.feedback("300", "usual")
    assert whole.feedback(kept["id"], "usual").alerts_[0]["answer"] == "usual"
    none = Detector(**SMALL).partial_fit(rng.normal(size=(40, 2)))
    assert not none.diagnostics_["alerts"]
    with pytest.raises(ValueError, match="there is no alert 30, and there was none so far"):
        none.feedback("30", "usual")


def test_rows_one_by_one_are_the_same(rng):
    det, _ = watched(rng)
    other = copy.copy(det)
    det.feedback("300", "usual")
    other.feedback("300", "usual")
    more = rng.normal(size=(50, 2)) + [0.0, 15.0] * (rng.random((50, 1)) < 0.3)
    said = det.predict_then_learn(more)
    for row, value in zip(more, said, strict=True):
        assert other.predict_one(row) == value
        other.learn_one(row)
    assert bits(other) == bits(det)


def test_diagnostics_tell_promise_outcome_and_the_term(rng):
    det, _ = watched(rng, precision=0.75)
    told = det.diagnostics_
    assert (
        told["precision_realised"] is None and "none was answered yet" in told["precision_in_words"]
    )
    for alert, answer in zip(det.alerts_, ["usual", "fault", "usual"], strict=False):
        det.feedback(alert["id"], answer)
    told = det.diagnostics_
    answered, dismissed = told["alerts_answered"], told["alerts_dismissed"]
    assert answered == min(3, len(det.alerts_)) and dismissed >= 1
    assert told["precision_realised"] == pytest.approx(1 - dismissed / answered)
    assert told["precision_realised"] - 0.75 == pytest.approx(told["precision_error_term"])
    plain, _ = watched(rng)
    assert "precision_promised" not in plain.diagnostics_
    alone, _ = watched(rng, nu=None, precision=0.5)
    assert alone.diagnostics_["rate_promised"] is None


def test_a_fleet_answers_as_its_single_models(rng):
    X = rng.normal(size=(900, 2))
    keys = np.array(["a", "b", "c"] * 300)
    X[450:480] += 12.0
    fleet, single = Fleet(Detector(**SMALL, precision=0.8)), {}
    for part in (slice(0, 500), slice(500, 900)):
        fleet.predict_then_learn(keys[part], X[part])
        for key in "abc":
            model = single.setdefault(key, Detector(**SMALL, precision=0.8))
            model.partial_fit(X[part][keys[part] == key])
            for i, alert in enumerate(model.alerts_[-3:]):
                answer = ("usual", "fault")[i % 2]
                model.feedback(alert["id"], answer)
                fleet.feedback(key, alert["id"], answer)
            assert bits(fleet[key]) == bits(model)
    other = files.loads(files.dumps(fleet))
    assert bits(other["a"]) == bits(single["a"])
    before = bits(fleet)
    with pytest.raises(ValueError, match=r"key 'a': .*there is no alert 7"):
        fleet.feedback("a", "7", "usual")
    with pytest.raises(KeyError, match="no key 'z'"):
        fleet.feedback("z", "7", "usual")
    assert bits(fleet) == before
    with pytest.raises(ValueError, match="NoveltyDetector cannot be answered"):
        Fleet(NoveltyDetector()).partial_fit(["a"], [[0.0]]).feedback("a", "0", "usual")


def test_merged_models_keep_each_others_answers(rng):
    one, _ = watched(rng)
    two, _ = watched(rng)
    one.feedback("300", "usual")
    whole = merge([one, two])
    assert whole.predict([[0.0, 15.0]]) == [1] and whole.alerts_ == []
    assert merge([two, one]).predict([[0.0, 15.0]]) == [1]


def test_rows_of_a_table_can_be_answered(rng):
    rows = [{"level": float(v), "who": "us"} for v in rng.normal(size=1200)]
    rows.append({"level": 30.0, "who": "us"})
    det = Detector(nu=0.02).partial_fit(rows)
    last = det.alerts_[-1]
    assert last["id"] == "1200" and det.predict(rows[-1:]) == [-1]
    det.feedback(last["id"], "usual")
    assert det.predict(rows[-1:]) == [1]


def test_the_report_of_nothing():
    assert report(Detector().partial_fit([[0.0]])._learner.answers)["alerts_waiting"] == 0
