"""The study of detectors: its measures and peers against plain loops, its halves, a tiny run."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from helpers.sizes import LONG

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "experiments").is_dir():
    pytest.skip("the experiments are not here", allow_module_level=True)
for module in ("matplotlib", "river.base", "sklearn"):
    pytest.importorskip(module, reason="the study needs it")
sys.path.insert(0, str(ROOT))

from experiments import (  # noqa: E402
    detection,
    detection_behaviour,
    detection_generated,
    detection_measures,
    detection_others,
    detection_page,
    detection_peers,
    detection_sets,
    detection_tables,
    nab_published,
    nab_score,
)
from onkel import Detector  # noqa: E402
from onkel.series import Lags  # noqa: E402

# -- measures --------------------------------------------------------------------------------------


def naive_volume(y: list[int], score: list[float], longest: int) -> float:
    """VUS-PR threshold by threshold, as its authors' code has it."""
    segments = spans(y)
    total = 0.0
    for length in range(longest + 1):
        label, reach = [float(v) for v in y], length // 2
        for first, last in segments:
            for t in range(len(y)):
                gap = first - t if t < first else t - last
                if 0 < gap <= reach:
                    label[t] = min(1.0, label[t] + sqrt(1 - gap / length))
        wide = spans([int(v > 0) for v in label])
        recall, area = 0.0, 0.0
        for threshold in sorted(set(score), reverse=True):
            said = [s >= threshold for s in score]
            hits = sum(v for v, alert in zip(label, said, strict=True) if alert)
            faded = sum(v for v, alert, t in zip(label, said, y, strict=True) if alert and not t)
            share = sum(any(said[a : b + 1]) for a, b in wide) / len(wide)
            new = min(hits / (sum(y) + faded / 2), 1.0) * share
            area, recall = area + (new - recall) * hits / sum(said), new
        total += area
    return total / (longest + 1)


def spans(y: list[int]) -> list[tuple[int, int]]:
    """First and last places of stretches of ones."""
    firsts = [t for t, v in enumerate(y) if v and (t == 0 or not y[t - 1])]
    lasts = [t for t, v in enumerate(y) if v and (t == len(y) - 1 or not y[t + 1])]
    return list(zip(firsts, lasts, strict=True))


@pytest.mark.parametrize("longest", [0, 7, 20])
def test_volume_is_that_of_plain_loops(rng, longest):
    y = np.zeros(120, int)
    y[[10, 11, 12, 13, 30, 60, 61, 62, 118, 119]] = 1  # 10 to 13 and 30 meet from 17 on
    score = np.round(rng.random(120) + 0.4 * y, 2)  # with ties
    wanted = naive_volume(y.tolist(), score.tolist(), longest)
    assert detection_measures.vus_pr(y, score, longest) == pytest.approx(wanted, abs=1e-12)


def test_volume_of_the_perfect_and_of_the_useless():
    y = np.zeros(1000, int)
    y[400:440] = 1
    assert detection_measures.vus_pr(y, y.astype(float), 0) == 1
    assert detection_measures.vus_pr(y, np.ones(1000), 0) == pytest.approx(0.04)


def test_recent_alerts_are_those_of_plain_loops(rng):
    score = np.round(rng.normal(size=900), 1)  # with ties
    wanted = []
    for t, value in enumerate(score):
        past = score[max(0, t - 300) : t]
        rank = (1 + sum(past >= value)) / (1 + len(past))
        wanted.append(t >= detection_measures.FEWEST and rank <= 0.05)
    assert detection_measures.recent_alerts(score, 0.05, 300).tolist() == wanted


def test_shares_of_alerts():
    y, alerts = np.array([0, 1, 1, 0, 1, 0]), np.array([True, False, True, False, False, False])
    found = detection_measures.alert_shares(y, alerts)
    assert found == {"rows": 1 / 3, "episodes": 1 / 2, "outside": 1 / 3}


def test_likelihood_is_that_of_plain_loops(rng):
    score = rng.normal(size=300)
    found = detection_measures.likelihood(score, 50)
    for t in (10, 60, 299):
        past = score[max(0, t - 50) : t]
        assert found[t] == pytest.approx((score[t] - past.mean()) / past.std(), rel=1e-9)


def test_published_scores_cover_the_same_detectors():
    """Numenta's on the 24 series, on NAB's scale, from the raw sums that NAB's files hold."""
    for name, more in nab_published.MORE_PUBLISHED.items():
        assert len(nab_published.PUBLISHED[name] | more) == 24
    numenta = nab_published.MORE_PUBLISHED["numenta"]
    assert max(numenta.values()) == numenta["exchange-3_cpc_results"] == 2.72249645115


# -- peers -----------------------------------------------------------------------------------------


def test_neighbours_are_those_of_plain_loops(rng):
    X = rng.normal(size=(200, 3)) * [1, 10, 0.1] + [0, 5, 0]
    found = detection_peers.neighbours(window=50, k=4)(X)
    for t in (16, 79, 80, 81, 199):
        start = 16 + (t - 16) // detection_peers.BLOCK * detection_peers.BLOCK
        spread = X[:start].std(axis=0)
        gaps = (((X[max(0, t - 50) : t] - X[t]) / spread) ** 2).sum(axis=1)
        assert found[t] == pytest.approx(np.sort(gaps)[3], rel=1e-5)


PEERS = [n for n in detection_peers.PEERS if LONG or not n.startswith(("isolation", "local"))]


@pytest.mark.parametrize("name", PEERS)
def test_no_peer_sees_what_is_to_come(rng, name):
    X = rng.normal(size=(420, 4))
    other = X.copy()
    other[300:] += 7
    detect = detection_peers.PEERS[name]
    first, second = detect(X), detect(other)
    np.testing.assert_array_equal(first[:300], second[:300])
    assert second[300] > np.quantile(first[100:], 0.95)


# -- sets ------------------------------------------------------------------------------------------


def test_halves_are_in_turn_and_groups_stay_together():
    made = [
        detection_sets.stream(name, np.zeros((4, 1)), np.array([0, 1, 0, 1]), 0, group)
        for name, group in (("b1", "b"), ("a", ""), ("c", ""), ("b2", "b"))
    ]
    halves = {s.name: s.half for s in detection_sets.halved(made)}
    assert halves == {"a": "choose", "b1": "shown", "b2": "shown", "c": "choose"}


@pytest.mark.parametrize("kind", detection_generated.KINDS)
def test_generated_streams_hold_their_share(kind):
    X, y = detection_generated.KINDS[kind](np.random.default_rng(3))
    assert X.shape[0] == len(y) == detection_generated.N and np.isfinite(X).all()
    assert 0.5 < y.mean() / detection_generated.SHARE < 1.5


def test_a_set_without_its_file_is_left_out(tmp_path, capsys):
    assert detection_sets.load("smd", tmp_path) == []
    assert "smd_dev.npz" in capsys.readouterr().out


# -- the whole -------------------------------------------------------------------------------------


def test_means_count_a_group_once_and_wins_are_ties_too():
    def run(contender, name, group, auc):
        made = detection_sets.stream(name, np.zeros((4, 1)), np.array([0, 1, 0, 1]), 0, group)
        return detection.Run(contender, made, np.zeros(4), np.zeros(4, bool), 1.0, {"AUC": auc})

    runs = [run("A", "x", "g", 0.2), run("A", "y", "g", 0.4), run("A", "z", "", 0.9)]
    runs += [run("B", "x", "g", 0.3), run("B", "y", "g", 0.3), run("B", "z", "", 0.5)]
    assert detection_tables.means(runs, "AUC") == pytest.approx({"A": 0.6, "B": 0.4})
    assert detection_tables.wins(runs) == {"A": 2, "B": 1}


def test_a_tiny_run(tmp_path, monkeypatch, rng):
    X, y = rng.normal(size=(600, 2)), rng.random(600) < 0.05
    X[y] += 6
    made = [detection_sets.stream(f"s{i}", X[i:], y[i:], 200) for i in range(2)]
    monkeypatch.setattr(detection_sets, "load", lambda *_: detection_sets.halved(made))
    monkeypatch.setattr(detection, "CACHE", tmp_path)
    chosen = "z-score 1000,onkel: NoveltyDetector"
    args = detection.options(["--only", "skab", "--contender", chosen])
    first, second = detection.study(args, None), detection.study(args, None)
    assert len(list(tmp_path.rglob("*.npz"))) == 4
    captions = [caption for caption, _ in first.tables]
    assert captions[:2] == ["skab, the half « choose » (1)", "skab, the half « shown » (1)"]
    peer = [row for row in first.tables[0][1] if row["contender"] == "z-score 1000"]
    assert float(peer[0]["AUC"]) > 0.95
    assert [r["AUC"] for r in first.tables[0][1]] == [r["AUC"] for r in second.tables[0][1]]
    with pytest.raises(SystemExit, match="no contender 'none'"):
        detection.study(detection.options(["--contender", "none"]), None)


def test_nab_scores_one_threshold_for_all_series(rng):
    runs = []
    for i in range(2):
        made = detection_sets.stream(f"s{i}", rng.normal(size=1000), np.zeros(1000), 150)
        made = replace(made, windows=((500, 549),))
        score = np.zeros(1000)
        score[500] = 5.0
        runs.append(detection.Run("A", made, score, score > 0, 1.0))
    assert float(detection_tables.nab(runs)[0]["as it comes"]) == pytest.approx(100)
    assert nab_score.PROFILES["standard"].fp == 0.11


def test_one_value_is_seen_as_the_command_sees_it(rng):
    X, time = rng.normal(size=(400, 1)), 1.7e9 + 3600.0 * np.arange(400)
    score, alerts = detection.onkel_detect(X, time)
    wide = Lags(season="day").transform_then_learn(X, time=time)
    said = Detector(nu=0.01).predict_then_learn(wide, output="p")
    np.testing.assert_allclose(np.exp(-score), said)
    plain = Detector(nu=0.01).predict_then_learn(wide) == -1
    np.testing.assert_array_equal(alerts, plain)
    assert detection_others.left_out("onkel detect", "skab")
    assert not detection_others.left_out("onkel detect", "nab")


def test_the_page_has_a_place_for_every_part_and_its_tables_are_made():
    page = detection_page.PAGE.read_text("utf-8")
    tables = {c for captions in detection_page.SECTIONS.values() for c in captions}
    report = {"tables": [{"caption": c, "rows": [{"contender": c}]} for c in tables]}
    written = detection_page.written(page, report)
    assert all(f"**{caption}**" in written for caption in tables)
    held = {f"{key}, {half}" for key in detection_tables.RANKED
            for half in detection_tables.HALVES.values()}  # fmt: skip
    assert {c for c in tables if c.partition(",")[0] in detection_tables.RANKED} <= held


def test_behaviour_counts_what_a_known_judge_says():
    def judge(X):  # alerts on what is far out, and on nothing else
        far = np.abs(X).max(axis=1)
        return far, far > 4.5

    rows = detection_behaviour.bursts(judge, 1)
    assert len(rows) == 8
    assert all(row["seen within 1000 %"] == row["seen later %"] == 100 for row in rows[::2])
    assert detection_behaviour.shift(judge, 1)["rows until accepted"] == 15_000
    assert detection_behaviour.youth(judge, 2)["uniform"] == 0
    assert {row["law"] for row in detection_behaviour.rates(judge, 12_000)} == set(
        detection_behaviour.LAWS
    )
