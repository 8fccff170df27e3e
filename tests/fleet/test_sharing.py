"""Keys that are new start from what is usual in the fleet: share=True."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers.plants import ESTIMATOR, judged, plants
from helpers.sizes import size
from naive.sharing import Sharing

import onkel
from onkel import Detector, Fleet, NoveltyDetector, core, files


def test_agrees_with_plain_loops(rng):
    keys, _, X, _ = plants(rng, 12, size(100, 300))
    X[:, 1] = np.where(keys % 3 == 0, 7.0, X[:, 1])  # a feature that is constant for some
    found = judged(Fleet(ESTIMATOR, share=True), keys, X, [400, 1, 37])
    naive, single, whole = Sharing(0.05, 10_000, 90), {}, copy.copy(ESTIMATOR)
    for i, (key, x) in enumerate(zip(keys.tolist(), X, strict=True)):
        own = single.setdefault(key, copy.copy(ESTIMATOR))
        age = own.t_ if own.__sklearn_is_fitted__() else 0
        score, limit, alert = own.predict_then_learn(x[None], output="judgement")[0]
        z, known = naive.z(key, x.tolist()), naive.told >= 5
        ready, fleet = getattr(whole, "t_", 0) >= 90, 0.0
        if known:
            fleet = whole.predict_then_learn([z], output="score")[0]
        naive.learn(key, x.tolist())
        if age < 90:
            score, limit, alert = naive.judge(age, fleet, score) if ready else (0.0, limit, False)
        np.testing.assert_allclose(found[i, :2], [score, limit], rtol=1e-6, atol=1e-8)
        assert found[i, 2] == alert and found[i, 4] == age


@pytest.mark.parametrize("missing", ["error", "mean"])
def test_cuts_do_not_matter(missing, rng):
    keys, _, X, _ = plants(rng, 10, size(120, 300))
    if missing == "mean":
        X[rng.random(X.shape) < 0.05] = np.nan
    estimator = copy.copy(ESTIMATOR).set_params(missing=missing)
    weight = rng.choice([0.0, 1.0], p=[0.03, 0.97], size=len(X))
    one, other = (Fleet(estimator, share=True) for _ in range(2))
    a = judged(one, keys, X, [len(X)], sample_weight=weight)
    b = judged(other, keys, X, [1, 64, 255, 7], sample_weight=weight)
    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    rows = X[:20]
    for output in ("prediction", "p", "score", "judgement", "decision"):
        said = [fleet.predict(keys[:20], rows, output) for fleet in (one, other)]
        np.testing.assert_allclose(*said, rtol=1e-7, atol=1e-9)


def test_models_are_those_of_a_fleet_that_does_not_share(rng):
    keys, _, X, _ = plants(rng, 24, 120)
    alone, shared = Fleet(ESTIMATOR), Fleet(ESTIMATOR, share=True)
    a, b = judged(alone, keys, X, [333]), judged(shared, keys, X, [333])
    old, early = a[:, 4] >= 90, 0
    for key in alone:
        one, other = alone[key], shared[key]
        young = b[(keys == key) & ~old]
        known = [x for x in other.alerts_ if int(x["id"]) < 90]
        assert [int(x["id"]) for x in known] == young[young[:, 2] > 0, 4].tolist()
        assert [x["score"] for x in known] == young[young[:, 2] > 0, 0].tolist()
        early += len(known)
        answers = other._learner.answers  # beside what waits for an answer, all is the same
        kept = answers.kept()[len(known) :]
        answers.asked, answers.asked_at = answers.asked[kept], answers.asked_at[kept]
        answers.said = answers.said[kept]
        answers.asked_count[0] -= len(known)
        assert files.dumps(one) == files.dumps(other)
    assert early > 0
    assert old.any() and np.array_equal(a[old], b[old])  # a key whose warm-up is over


@pytest.mark.skipif(not core.has_lane(), reason="30 000 rows: minutes in plain NumPy")
def test_a_new_key_alerts_at_the_promised_rate_and_finds_faults(rng):
    keys, age, X, fault = plants(rng, size(70, 400), 200, faults=0.01)
    shared = judged(Fleet(Detector(nu=0.01), share=True), keys, X, [4096])[:, 2] > 0
    late = (np.arange(len(X)) > len(X) // 5) & (age < 100)
    assert shared[late & ~fault].mean() <= 0.01
    assert shared[late & fault].mean() > 0.3  # none without sharing, before its warm-up is over


def test_the_rank_of_a_young_keys_row_is_among_the_scores_of_its_own_detector(rng):
    keys, _, X, _ = plants(rng, 12, 70)
    X[500::50] += 9.0
    fleet = Fleet(ESTIMATOR, share=True)
    found, own = judged(fleet, keys, X, [400, 1, 37]), {}

    def rank(score, before):
        latest = before[-ESTIMATOR.recent :]
        return (1 + sum(s <= score for s in latest)) / (1 + len(latest))

    for key, x, told in zip(keys.tolist(), X, found, strict=True):
        det, before = own.setdefault(key, (copy.copy(ESTIMATOR), []))
        score = det.predict_then_learn(x[None], output="score")[0]
        assert told[3] == rank(score, before)
        before.append(score)
    alert = found[:, 2] > 0
    assert alert.any() and not np.allclose(found[alert, 3], np.exp(found[alert, 0]))
    expected = rank(det.score_samples(X[-1:])[0], before)
    assert fleet.predict([key, "new"], X[[-1, -1]], "rank").tolist() == [expected, 1.0]


def test_a_key_that_is_not_known_is_one_of_the_fleet(rng):
    keys, _, X, _ = plants(rng, 100, 100, d=2)
    fleet = Fleet(ESTIMATOR, share=True).partial_fit(keys, X)
    middle = X.mean(axis=0)
    before = files.dumps(fleet)
    found = fleet.predict(["new", "new"], [middle, middle + 1000.0])
    assert found.tolist() == [1, -1] and fleet.predict_one("new", middle + 1000.0) == -1
    assert files.dumps(fleet) == before and "new" not in fleet


def test_to_look_takes_no_memory(rng):
    keys, _, X, _ = plants(rng, 30, 60, d=2)
    fleet = Fleet(ESTIMATOR, share=True).partial_fit(keys, X)
    fleet.predict_one("new", X[0])
    room = len(fleet._store.usual.count)
    for _ in range(30):
        fleet.predict_one("new", X[0])
        fleet.predict([int(keys[0]), "new"], X[:2])
    assert len(fleet._store.usual.count) == room


def test_keys_that_all_begin_at_once(rng):
    """What keys say before anything is usual among them is not what later ones are judged by."""
    middle, keys = 5 * rng.normal(size=(120, 2)), np.arange(120 * 80) % 120
    X = rng.normal(size=(len(keys), 2)) + middle[keys]
    fleet = Fleet(Detector(), share=True)
    found = judged(fleet, keys, X, [700])
    assert found[:, 2].mean() <= 0.01
    for key in range(60):  # some more, so that there are rows as young
        X = rng.normal(size=(4, 2)) + 5 * rng.normal(size=2)
        found = fleet.predict_then_learn([f"new {key}"] * 4, X, output="verdict")
    assert fleet.predict(["new"] * 2, [[0.0, 0.0], [300.0, -300.0]]).tolist() == [1, -1]


def test_files_copies_and_eviction_go_on_with_the_same_bits(rng, tmp_path):
    keys, _, X, _ = plants(rng, 20, 150)
    fleet = Fleet(ESTIMATOR, share=True)
    half = len(X) // 2
    judged(fleet, keys[:half], X[:half], [500])
    fleet.drop(int(keys[0]))
    path = tmp_path / "fleet.onkel"
    fleet.save(path)
    bounded = onkel.load(path)
    bounded.hold(60_000)
    fleets = [fleet, onkel.load(path), copy.copy(fleet), pickle.loads(pickle.dumps(fleet)), bounded]
    assert all(repr(f).count("share=True") == 1 for f in fleets)
    found = [judged(f, keys[half:], X[half:], [500, 3]) for f in fleets]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    assert files.dumps(fleets[1]) == files.dumps(fleets[2])


def test_a_refused_call_changes_nothing(rng):
    keys, _, X, _ = plants(rng, 10, 100)
    fleet = Fleet(ESTIMATOR, share=True).partial_fit(keys, X)
    before, bad = files.dumps(fleet), X[:9].copy()
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match="Row 7"):
        fleet.partial_fit(keys[:9], bad)
    assert files.dumps(fleet) == before


def test_the_report_adds_up(rng):
    keys, _, X, _ = plants(rng, 30, 150)
    fleet = Fleet(ESTIMATOR, share=True)
    alerts = judged(fleet, keys, X, [700])[:, 2].sum()
    told = fleet.diagnostics_
    assert told["alerts"] == alerts and told["rate_promised"] == 0.05
    for band in told["young"]:
        if band["judged"]:
            assert abs(band["rate_realised"] - 0.05 - band["rate_error_term"]) < 1e-9


def test_what_cannot_share_is_refused():
    with pytest.raises(ValueError, match="it needs Detector; got NoveltyDetector"):
        Fleet(NoveltyDetector(), share=True)
    with pytest.raises(ValueError, match="share must be True or False; got 'yes'"):
        Fleet(Detector(), share="yes")
    with pytest.raises(ValueError, match="columns= must be left out"):
        Fleet(Detector(columns={"a": "category"}), share=True)
    with pytest.raises(ValueError, match="cannot be merged"):
        onkel.merge([Fleet(ESTIMATOR, share=True), Fleet(ESTIMATOR, share=True)])


@pytest.mark.parametrize("field", ["told", "within", "counts", "levels", "common", "grown"])
def test_forged_files_are_refused(field, rng):
    from onkel.files import container

    keys, _, X, _ = plants(rng, 10, 60)
    fleet = Fleet(ESTIMATOR, share=True).partial_fit(keys, X)
    model, tensors = files.model.describe(fleet)
    name = next(n for n in tensors if n.startswith("fleet.shared.") and n.endswith(field))
    tensors[name] = tensors[name].copy()
    tensors[name].flat[-1 if field == "within" else 0] = 250 if field == "common" else -9
    with pytest.raises(ValueError, match="cannot load"):
        files.loads(b"".join(container.pack(model, tensors)))
