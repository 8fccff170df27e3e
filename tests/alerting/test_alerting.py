"""Alert hygiene: pure functions and their streams against plain loops; warm-up, ranks, rates."""

from __future__ import annotations

import pickle
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import alerting as naive

from onkel import NoveltyDetector, alerting, expansions, kernels, losses

flags = st.lists(st.booleans(), max_size=40)
cuts = st.lists(st.integers(0, 40), max_size=4)
# Few distinct values, so that ties are common.
values = st.lists(st.integers(-3, 3).map(float), min_size=40, max_size=40)


def pieces(array, at):
    edges = sorted({0, len(array), *(min(c, len(array)) for c in at)})
    return [array[a:b] for a, b in pairwise(edges)]


@given(flags, st.integers(0, 6), cuts)
def test_cool_down(alerts, rows, at):
    truth = naive.cool_down(alerts, rows)
    assert alerting.cool_down(alerts, rows).tolist() == truth
    pause = alerting.CoolDown(rows)
    assert [bool(v) for part in pieces(alerts, at) for v in pause.update(part)] == truth


@given(flags, st.integers(0, 6), cuts, st.integers(1, 3))
def test_cool_down_by_key(alerts, rows, at, many):
    keys = [f"k{i * i % many}" for i in range(len(alerts))]
    truth = [False] * len(alerts)
    for key in set(keys):
        own = [i for i, k in enumerate(keys) if k == key]
        for i, shown in zip(own, naive.cool_down([alerts[i] for i in own], rows), strict=True):
            truth[i] = shown
    pause, parts = alerting.CoolDown(rows), zip(pieces(alerts, at), pieces(keys, at), strict=True)
    assert [bool(v) for a, k in parts for v in pause.update(a, k)] == truth
    with pytest.raises(ValueError, match="as many; got 1 and 2"):
        pause.update([True], ["a", "b"])


@given(flags, values, st.integers(0, 6), cuts)
def test_episodes(alerts, scores, gap, at):
    scores = scores[: len(alerts)]
    truth = naive.episodes(alerts, scores, gap)
    whole = alerting.episodes(alerts, scores, gap)
    assert [tuple(asdict(e).values()) for e in whole] == truth
    groups, found = alerting.Episodes(gap), []
    for flags, part in zip(pieces(alerts, at), pieces(scores, at), strict=True):
        ended = groups.update(flags, part)
        assert all(groups.seen - 1 - e.end >= gap or e != groups.current for e in ended)
        found += ended
    assert found + groups.close() == whole


@given(values, st.integers(1, 12), cuts)
def test_ranks(scores, size, at):
    truth = naive.ranks(scores, size)
    assert alerting.ranks(scores, size).tolist() == truth
    recent, singly = alerting.RecentScores(size), alerting.RecentScores(size)
    found = [v for part in pieces(scores, at) for v in recent.update(part)]
    assert found == truth
    for score in scores:
        singly.add(score)
    assert recent.in_order().tolist() == singly.in_order().tolist() == scores[-size:]
    probe = recent.ranks([0.5, -9.0])
    assert probe[0] == (1 + sum(s <= 0.5 for s in scores[-size:])) / (1 + len(scores[-size:]))
    assert probe[1] == 1 / (1 + len(scores[-size:]))


def test_a_rank_is_a_chance(rng):
    """Exchangeable scores: a rank of at most p comes with a chance of at most p, also with ties."""
    for scores in (rng.normal(size=20_000), rng.integers(0, 5, 20_000).astype(float)):
        found = alerting.ranks(scores, 500)[500:]
        for p in (0.01, 0.05, 0.3):
            assert np.mean(found <= p) < p + 0.005
    assert np.mean(alerting.ranks(rng.normal(size=20_000), 500) <= 0.05) > 0.045


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: alerting.CoolDown(-1), "rows must be a whole number"),
        (lambda: alerting.Episodes(0.5), "gap must be a whole number"),
        (lambda: alerting.RecentScores(0), "size must be a whole number"),
        (lambda: alerting.cool_down([1, -1], 3), "predictions == -1"),
        (lambda: alerting.episodes([True], [1.0, 2.0], 1), "as many; got 1 and 2"),
        (lambda: alerting.ranks([1.0, np.nan]), "finite numbers"),
        (lambda: NoveltyDetector(warmup=-1).fit(np.eye(3)), "warmup must be a whole number"),
        (lambda: NoveltyDetector(recent=0).fit(np.eye(3)), "recent must be a whole number"),
        (lambda: NoveltyDetector(learn_alerts="never").fit(np.eye(3)), "must be True or False"),
        (
            lambda: NoveltyDetector(nu=0.1, support=0.1, learn_alerts=False).fit(np.eye(3)),
            "needs support",
        ),
    ],
)
def test_bad_input_is_refused_with_a_reason(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# -- in the detector ---------------------------------------------------------------------------


def test_ranks_of_the_detector(rng):
    X = rng.normal(size=(700, 2))
    scores = NoveltyDetector().predict_then_learn(X, output="score")
    det = NoveltyDetector(recent=100)
    parts = [det.predict_then_learn(x, output="rank") for x in np.split(X[:600], [1, 50, 333])]
    np.testing.assert_allclose(np.concatenate(parts), naive.ranks(scores[:600].tolist(), 100))
    before = pickle.dumps(det)
    rank = det.rank_samples(X[600:])
    now = det.score_samples(X[600:])
    kept = det.recent_.in_order()
    assert rank.tolist() == [(1 + np.sum(kept <= s)) / 101 for s in now]
    assert pickle.dumps(det) == before  # predicting changes nothing
    singly = NoveltyDetector(recent=100)
    for x in X[:600]:
        singly.learn_one(x)
    np.testing.assert_allclose(singly.recent_.in_order(), kept, atol=1e-11)


def test_rows_of_weight_0_are_ranked_but_not_remembered(rng):
    X, weight = rng.normal(size=(60, 2)), (np.arange(60) % 3 > 0).astype(float)
    det = NoveltyDetector(recent=10)
    rank = det.predict_then_learn(X, sample_weight=weight, output="rank")
    assert det.recent_.count == 10
    assert det.t_ == 40
    twin = NoveltyDetector(recent=10)
    one = [twin.predict_then_learn(X[i : i + 1], sample_weight=weight[i : i + 1], output="rank")[0]
           for i in range(60)]  # fmt: skip
    np.testing.assert_allclose(rank, one)


@pytest.mark.parametrize("sizes", [[1000], [299, 1, 1, 699], [1] * 1000, [300, 700]])
def test_warm_up(rng, sizes):
    """No alert before its end; rates are counted after it, and the identity holds from there."""
    X = rng.normal(size=(1000, 3))
    plain = NoveltyDetector().predict_then_learn(X)
    det = NoveltyDetector(warmup=300)
    shown = []
    for part in np.split(X, np.cumsum(sizes)[:-1]):
        if hasattr(det, "_learner"):
            mute = det.t_ < 300
            assert not mute or np.all(det.predict(part + 50) == 1)
            if mute:
                assert det.diagnostics_["rate_realised"] is None
        shown.append(det.predict_then_learn(part))
    shown = np.concatenate(shown)
    assert np.all(shown[:300] == 1)
    np.testing.assert_array_equal(shown[300:], plain[300:])
    report = det.diagnostics_
    assert report["rate_realised"] == pytest.approx(np.mean(shown[300:] == -1), abs=1e-12)
    assert report["rate_error_term"] == pytest.approx(report["rate_realised"] - 0.05, abs=1e-9)


def test_warm_up_of_single_rows(rng):
    X = rng.normal(size=(400, 2))
    det, found = NoveltyDetector(warmup=100), []
    for x in X:
        found.append(det.predict_one(x))
        det.learn_one(x)
    block = NoveltyDetector(warmup=100)
    assert block.predict_then_learn(X).tolist() == found
    assert np.allclose(det.warm_, block.warm_)
    assert not det.explain(X[0] + 9).warming
    young = NoveltyDetector(warmup=100).fit(X[:50])
    why = young.explain(X[0] + 9)
    assert why.warming
    assert not why.alert


def test_a_refused_call_changes_nothing(rng):
    X = rng.normal(size=(200, 2))
    det = NoveltyDetector(kernel=kernels.Function(fragile), warmup=150).fit(X[:100])
    before = pickle.dumps(det)
    bad = X[100:].copy()
    bad[80] = 1e6  # after the warm-up's end, in the same call
    with pytest.raises(ValueError, match="kernel function"):
        det.predict_then_learn(bad)
    assert pickle.dumps(det) == before


def fragile(X, Z):
    K = np.exp(-((X[:, None] - Z[None]) ** 2).sum(-1))
    return np.where(np.abs(X).max() > 50, np.nan, K)


def test_rates_in_words(rng):
    det = NoveltyDetector(nu=0.05)
    det.predict_then_learn(rng.normal(size=(4000, 2)))
    words = det.diagnostics_["rate_in_words"]
    assert words.startswith("Promised 5 % alerts, realised 4.")
    assert words.endswith("exactly the travel of the threshold.")


# -- whether alerts are learned ----------------------------------------------------------------


def test_alerts_are_not_stored(rng):
    """Against the rule's own words: whatever raised an alert is not among the terms."""
    X = rng.normal(size=(1500, 2))
    det = NoveltyDetector(learn_alerts=False, scale=False)
    alert = det.predict_then_learn(X) == -1
    stored = det._learner.terms.raw_rows()
    assert alert.sum() > 50
    assert not {tuple(x) for x in stored} & {tuple(x) for x in X[alert]}
    always = NoveltyDetector(scale=False).fit(X)._learner.terms.raw_rows()
    assert {tuple(x) for x in always} & {tuple(x) for x in X[alert]}


SHIFTED = {
    "gaussian": {},
    "laplacian": {"kernel": "laplacian"},
    "tree": {"kernel": kernels.Additive(kernels.Exponential(), weights="mean"),
             "expansion": "tree"},
    "centers": {"expansion": expansions.Centers(50)},
    "scale": {"scale": True},
}  # fmt: skip


@pytest.mark.parametrize("kind", SHIFTED)
def test_a_level_shift_does_not_freeze_the_threshold(rng, kind):
    """f is never negative here, so the threshold cannot fall below -r eta: with rho at the shift,
    n rows later at most nu n + rho / (r eta) + 1 alerts have come (the identity)."""
    X = rng.normal(size=(7000, 2))
    X[3000:] += 12.0
    det = NoveltyDetector(**{"learn_alerts": False, "scale": False, **SHIFTED[kind]})
    det.partial_fit(X[:3000])
    rho, bound = det.threshold_, det._learner.rule
    step = bound.threshold_rate * bound.constant
    alert = det.predict_then_learn(X[3000:]) == -1
    n = np.arange(1, 4001)
    if kind != "centers":  # weights over centres may be negative, and with them f
        assert np.all(np.cumsum(alert) <= 0.05 * n + rho / step + 1 + 1e-9)
    back = int(rho / step / 0.95) + 2
    assert back < 1500
    assert 0.02 < alert[back : back + 2000].mean() < 0.08
    if kind != "centers":  # those stay where they are, and score 0 elsewhere
        assert det.predict(X[-500:]).mean() > 0.8  # the new level has become the usual one


def test_the_loss_says_so():
    loss = losses.Novelty(nu=0.1, support=0.3, learn_alerts=False)
    assert loss.native().learn_alerts is False
    assert losses.Novelty(nu=0.1).native().learn_alerts is True


@pytest.mark.parametrize("warmup", [0, 70])
def test_a_judgement_is_score_threshold_and_alert_as_they_stood(rng, warmup):
    X = rng.normal(size=(300, 2))
    models = {o: NoveltyDetector(nu=0.1, warmup=warmup) for o in NoveltyDetector.outputs}
    said = {o: m.predict_then_learn(X, output=o) for o, m in models.items()}
    judged = said["judgement"]
    assert judged.shape == (300, 3)
    assert np.array_equal(judged[:, 0], said["score"])
    assert np.array_equal(judged[:, 0] - judged[:, 1], said["decision"])
    assert np.array_equal(judged[:, 2] == 1, said["prediction"] == -1)
    twin = NoveltyDetector(nu=0.1, warmup=warmup)
    for row, limit in zip(X[:50], judged[:50, 1], strict=True):  # the threshold before each row
        before = twin.threshold_ if hasattr(twin, "_learner") else 0.0
        assert limit == pytest.approx(before, abs=1e-12)
        twin.learn_one(row)
