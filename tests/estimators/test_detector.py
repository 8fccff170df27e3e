"""Detector: what it promises, what p means, faults, youth; files, merging, odd numbers."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers.sizes import size
from scipy.sparse import csr_matrix

import onkel
from onkel import Detector, merge
from onkel.explain import one_in

COLUMNS = 4


@pytest.fixture
def X(rng):
    return rng.normal(size=(size(2500, 8000, plain=2500), COLUMNS))


def bits(det):
    return onkel.files.dumps(det)


def shifted(rng, length, before=5000, after=1500):
    """Usual rows, a fault of so many, usual rows again; one in two hundred of these is odd."""
    X = rng.normal(size=(before + length + after, 8))
    X[before : before + length] += 4
    odd = np.arange(before + length + 60, len(X), 200)
    X[odd, rng.integers(8, size=len(odd))] = 5 * rng.choice([-1, 1], len(odd))
    return X, slice(before, before + length), odd


# -- the promise -------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.01, 0.05])
def test_the_rate_on_rows_whose_law_stays(rng, nu):
    rows = size(20_000, 200_000, plain=8000)
    alerts = Detector(nu).predict_then_learn(rng.normal(size=(rows, 3))) == -1
    noise = 4 * np.sqrt(nu / (rows - 2000))
    assert abs(alerts[2000:].mean() - nu) < 0.1 * nu + noise


def test_the_identity_holds_whatever_comes(rng):
    X, _, _ = shifted(rng, 300, before=1500)
    det = Detector(0.02)
    alerts = det.predict_then_learn(X) == -1
    told = det.diagnostics_
    assert told["alerts"] == alerts.sum() > 250 and told["alerts_forgiven"] > 0
    difference = told["rate_realised"] - told["rate_promised"]
    assert difference == pytest.approx(told["rate_error_term"], abs=1e-12)
    assert "were forgiven" in told["rate_in_words"]


@pytest.mark.parametrize("length", [40, 400])
def test_awake_in_a_fault_and_after_it(rng, length):
    seen = []
    for _ in range(size(2, 12, plain=2)):
        X, fault, odd = shifted(rng, length, after=1000)
        alerts = Detector(0.01).predict_then_learn(X) == -1
        assert alerts[fault].sum() >= (36 if length == 40 else 200)
        seen += alerts[odd].tolist()
    assert np.mean(seen) >= 0.8


def test_a_change_that_lasts_is_accepted(rng):
    X = rng.normal(size=(8000, 4))
    X[4000:] += 5
    alerts = Detector(0.01).predict_then_learn(X) == -1
    assert alerts[4000:4100].mean() > 0.9 and alerts[6500:].mean() < 0.03


def test_no_alert_before_the_warm_up(rng):
    X = rng.normal(size=(600, 6))
    X[50] += 50
    det = Detector()
    alerts = det.predict_then_learn(X) == -1
    assert det.warmup_ == 260 and not alerts[:260].any()
    assert det.explain(X[50]).alert and Detector(warmup=0).partial_fit(X).warmup_ == 0
    assert getattr(Detector(), "warmup_", None) is None  # it depends on the number of features
    young = Detector().partial_fit(X[:100])
    assert young.predict(X[50:51]) == [1] and "warming up" in str(young.explain(X[50]))


# -- one number --------------------------------------------------------------------------------


def test_the_outputs_say_the_same(X):
    told = {
        name: Detector(0.02).predict_then_learn(X, output=name)
        for name in ("p", "score", "decision", "judgement", "prediction", "rank")
    }
    np.testing.assert_array_equal(told["p"], np.exp(told["score"]))
    np.testing.assert_array_equal(told["judgement"][:, 0], told["score"])
    np.testing.assert_array_equal(told["decision"], told["score"] - told["judgement"][:, 1])
    np.testing.assert_array_equal(told["prediction"] == -1, told["judgement"][:, 2] == 1)
    assert np.all((told["p"] > 0) & (told["p"] <= 1)) and np.all(told["rank"] > 0)


def test_predicting_is_what_would_be_said_and_changes_nothing(X):
    det = Detector(0.02).partial_fit(X[:1000])
    before, said = bits(det), det.score_samples(X[1000:1001])
    det.predict(X), det.p_samples(X), det.explain(X[3]), det.diagnostics_
    assert bits(det) == before
    assert det.score_one(X[1000]) == said[0]
    assert det.predict_then_learn(X[1000:1001], output="score") == said


def test_rows_in_any_cuts_and_one_by_one(X):
    whole, cut, ones = Detector(), Detector(), Detector()
    truth = whole.predict_then_learn(X, output="judgement")
    parts = [cut.predict_then_learn(p, output="judgement") for p in np.split(X, [1, 5, 700, 701])]
    np.testing.assert_array_equal(truth, np.concatenate(parts))
    for row in X:
        ones.learn_one(row)
    assert bits(ones) == bits(cut) == bits(whole)


def test_the_order_of_columns_does_not_matter(rng):
    X = np.cumsum(rng.normal(size=(1500, 5)), axis=0) @ rng.normal(size=(5, 5))
    order = rng.permutation(5)
    a, b = (Detector().predict_then_learn(Z, output="score") for Z in (X, X[:, order]))
    assert np.mean(np.abs(a - b) > 0.01 * (1 + np.abs(a))) < 0.01


def test_what_order_says_is_used_where_there_is_some(rng):
    loose, series = rng.normal(size=(1500, 2)), np.cumsum(rng.normal(size=(1500, 2)), axis=0) + 1e3
    assert Detector().fit(loose).diagnostics_["tied"] == 0.0
    assert Detector().fit(series).diagnostics_["tied"] == 1.0


def test_reasons_name_the_feature(X):
    det = Detector().fit(X)
    row = np.zeros(COLUMNS)
    row[2] = 9.0
    found = det.explain(row)
    assert found.alert and found.features[0].name == "feature 2" and found.p < 1e-4
    assert str(found).startswith(f"Alert: {one_in(found.score)} is as unusual")
    assert found.to_dict()["p"] == found.p


# -- kept, copied, added -----------------------------------------------------------------------


def test_files_copies_and_pickles_go_on_with_the_same_bits(X, tmp_path):
    det = Detector(0.05).fit(X[:1500])
    det.save(tmp_path / "det")
    others = [onkel.load(tmp_path / "det"), copy.deepcopy(det), pickle.loads(pickle.dumps(det))]
    for other in others:  # looked at first
        np.testing.assert_array_equal(other.score_samples(X[:9]), det.score_samples(X[:9]))
    truth = det.predict_then_learn(X[1500:], output="judgement")
    for other in others:
        found = other.predict_then_learn(X[1500:], output="judgement")
        np.testing.assert_array_equal(found, truth)
        assert bits(other) == bits(det)


def test_parts_become_one_that_judges_at_once(rng, X):
    parts = [Detector().fit(part) for part in np.array_split(X, 3)]
    whole = merge(parts)
    assert whole.t_ == len(X) and whole.diagnostics_["alerts"] == sum(
        part.diagnostics_["alerts"] for part in parts
    )
    assert whole.p_samples([[0.0] * 4, [6.0] * 4])[1] < 1e-3 < whole.p_samples([[0.0] * 4])[0]
    alerts = whole.predict_then_learn(rng.normal(size=(3000, COLUMNS))) == -1
    told = whole.diagnostics_
    assert alerts.mean() < 0.03
    difference = told["rate_realised"] - told["rate_promised"]
    assert difference == pytest.approx(told["rate_error_term"], abs=1e-12)


# -- odd numbers -------------------------------------------------------------------------------


def test_constant_columns_repeated_rows_and_scales(rng):
    X = rng.normal(size=(1500, 3)) * [1e-200, 1.0, 1e140]
    X[:, 1] = 7.0
    p = Detector().predict_then_learn(X, output="p")
    assert np.all(np.isfinite(p)) and np.median(p[500:]) > 0.2
    det = Detector().fit(X)
    assert det.p_samples([[0.0, 7.0, 0.0], [0.0, 7.5, 0.0]])[1] < 0.001
    same = Detector().predict_then_learn(np.tile([[1.0, 2.0]], (800, 1)), output="p")
    assert np.all(same[300:] == same[300]) and same[300] > 0.5


def test_one_huge_value_dulls_nothing(rng):
    X = rng.normal(size=(3000, 2))
    X[1000, 0] = 1e10
    det = Detector().fit(X)
    assert det.p_samples([[8.0, 0.0]])[0] < 0.01


def test_gaps_are_the_mean_where_asked(rng, X):
    holes = X.copy()
    holes[rng.random(X.shape) < 0.1] = np.nan
    det = Detector(missing="mean")
    blocks = det.predict_then_learn(holes, output="score")
    singly = Detector(missing="mean")
    rows = [singly.predict_then_learn(row[None], output="score")[0] for row in holes[:600]]
    assert np.all(np.isfinite(blocks)) and blocks[:600].tolist() == rows
    with pytest.raises(ValueError, match="NaN"):
        Detector().partial_fit(holes)


def test_sparse_rows_and_weights(X):
    truth = Detector().predict_then_learn(X, output="score")
    found = Detector().predict_then_learn(csr_matrix(X), output="score")
    np.testing.assert_array_equal(found, truth)
    weight = np.ones(len(X))
    weight[100:200] = 0
    det = Detector()
    det.predict_then_learn(X, sample_weight=weight)
    only = Detector().fit(np.delete(X, np.arange(100, 200), axis=0))
    assert det.t_ == len(X) - 100
    np.testing.assert_array_equal(det.score_samples(X[:9]), only.score_samples(X[:9]))


@pytest.mark.parametrize(
    ("given", "word"),
    [({"nu": 0.0}, "nu"), ({"nu": 1.5}, "nu"), ({"memory": 3}, "memory"), ({"terms": 2}, "terms"),
     ({"warmup": -1}, "warmup"), ({"recent": 0}, "recent"), ({"missing": "x"}, "missing"),
     ({"seed": -1}, "seed")],
)  # fmt: skip
def test_what_is_refused(given, word):
    with pytest.raises(ValueError, match=word):
        Detector(**given).fit([[0.0], [1.0]])


def test_a_refused_call_changes_nothing(X):
    det = Detector().fit(X[:300])
    before = bits(det)
    for bad in (X[:5, :2], [[np.inf] * COLUMNS], [["a"] * COLUMNS], [[1e300] * COLUMNS]):
        with pytest.raises(ValueError):
            det.partial_fit(bad)
    with pytest.raises(ValueError, match="counts rows"):
        det.partial_fit(X[:1], time=[1.0])
    det.partial_fit(np.zeros((0, COLUMNS)))
    assert bits(det) == before
