"""What the live page shows, against plain loops: thinning loses no alert and no extreme."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest

from onkel.app.live.board import ALERTS, BUCKETS, PERIOD, SENT, Block, Board
from onkel.app.live.drift import Drift, Running


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def stream(rng, rows):
    score = rng.normal(size=rows)
    limit = rng.normal(-1.5, 0.1, size=rows)
    return score, limit, score < limit


def test_thinning_keeps_every_alert_and_every_extreme(rng):
    clock = Clock()
    board = Board(clock)
    score, limit, mark = stream(rng, 20_000)
    times = np.arange(20_000) + rng.normal(size=20_000)
    cuts = np.unique([0, *rng.integers(0, 20_000, 300), 20_000])
    for a, b in pairwise(cuts):
        clock.now += float(rng.exponential(0.03))
        block = Block("novelty", b - a, score[a:b], limit[a:b], mark[a:b], times=times[a:b])
        board.publish("m", block)
    clock.now += 1.0
    found = board.changes("m")
    assert found["rows"] == 20_000 and found["marks"] == mark.sum()
    assert 10 < len(found["buckets"]) < 150
    first = 0
    for bucket in found["buckets"]:
        rows = slice(first, bucket["t"])
        first = bucket["t"]
        assert bucket["rows"] == len(score[rows]) and bucket["time"] == min(times[rows])
        assert bucket["low"] == min(score[rows]) and bucket["high"] == max(score[rows])
        assert bucket["mean"] == pytest.approx(sum(score[rows]) / len(score[rows]))
        assert bucket["marks"] == sum(mark[rows]) and bucket["limit"] == limit[rows][-1]
        assert bucket["peak"] == (min(score[rows][mark[rows]]) if any(mark[rows]) else None)
    assert first == 20_000


def test_a_board_is_bounded_and_tells_only_what_is_new(rng):
    clock = Clock()
    board = Board(clock)
    for i in range(2 * BUCKETS):
        clock.now += 2 * PERIOD
        board.publish("m", Block("novelty", 1, np.array([float(i)]), None, np.array([i % 2 == 0])))
        clock.now += 2 * PERIOD
        board.changes("m")
        board.tell("m", [{"t": i, "score": 0.0, "threshold": 1.0, "sentence": str(i)}])
    found = board.changes("m")
    assert len(found["buckets"]) == BUCKETS and len(found["alerts"]) == SENT
    assert 0 <= time.time() - found["since"] < 60
    assert found["kept"] == 2 * BUCKETS and len(board.alerts("m", 0, 10**6)["alerts"]) <= ALERTS
    some = board.alerts("m", 3, 4)
    assert [a["t"] for a in some["alerts"]] == [2 * BUCKETS - 1 - i for i in range(3, 7)]
    assert found["alerts"][-1]["sentence"] == str(2 * BUCKETS - 1)
    again = board.changes("m", found["next"], found["told"])
    assert again["buckets"] == [] and "alerts" not in again
    board.forget("m")
    assert board.changes("m") is None and board.models() == []


def test_speed_is_that_of_late(rng):
    clock = Clock()
    board = Board(clock)
    for _ in range(200):
        clock.now += 0.01
        board.publish("m", Block("novelty", 50))
    assert board.changes("m")["speed"] == pytest.approx(5000, rel=0.15)
    clock.now += 10
    assert board.changes("m")["speed"] == 0


def test_fifty_thousand_examples_a_second_cost_little(rng):
    """A second of it, in blocks of a hundred with eight features, takes a fraction of one."""
    board, X = Board(), rng.normal(size=(100, 8))
    score, limit, mark = stream(rng, 100)
    began = time.process_time()
    for _ in range(500):
        board.publish("m", Block("novelty", 100, score, limit, mark, X, None, {"t": 1, "terms": 5}))
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("horizon", [5, 100, 10**6])
def test_running_moments_equal_a_weighted_mean(rng, horizon):
    """Each row weighs as the formula says; blocks of one row, so that a loop can follow."""
    X = rng.normal(3.0, 2.0, size=(80, 2))
    run, weights = Running(horizon), np.zeros(0)
    for i, row in enumerate(X):
        run.add(row[None])
        share = max(1 / horizon, 1 / (i + 1))
        weights = np.append(weights * (1 - share), share)
        mean = weights @ X[: i + 1]
        np.testing.assert_allclose(run.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(
            run.variance, weights @ (X[: i + 1] - mean) ** 2, rtol=1e-7, atol=1e-12
        )


def test_drift_shows_the_feature_that_moved(rng):
    drift = Drift()
    for _ in range(200):
        drift.add(rng.normal(size=(100, 3)), ["a", "b", "c"])
    assert drift.largest() < 0.3
    for _ in range(20):
        drift.add(rng.normal([0, 2.0, 0], size=(100, 3)), ["a", "b", "c"])
    first = drift.table()[0]
    assert first["feature"] == "b" and 1.0 < first["drift"] < 2.0
    assert first["late_mean"] == pytest.approx(2.0, abs=0.5)


def test_gaps_and_odd_columns_do_no_harm(rng):
    drift = Drift()
    drift.add(np.array([[np.nan, 1.0, 5.0], [2.0, np.nan, 5.0]]))
    drift.add(np.array([[1e300, -1e300, 5.0]]))
    assert all(np.isfinite(drift.shifts()))
    drift.add(np.ones((3, 2)))  # another width: begins anew
    assert len(drift.shifts()) == 2


def test_an_incident_is_told_with_its_alerts(rng):
    """Those of its number, and those that have joined it from a single key's."""
    board = Board()
    board.begin("m", "novelty")
    keys, numbers = ["a", "b", "a", "c"], [1, 2, 3, None]
    for i, (key, number) in enumerate(zip(keys, numbers, strict=True)):
        board.tell("m", [{"t": i, "key": key, "incident": number, "id": f"{key}:{i}"}])
    wide = {"incident": 3, "start_row": 1, "end_row": 2, "keys": 2, "wide": True}
    one = {"incident": 1, "start_row": 0, "end_row": 0, "keys": 1, "wide": False}
    told = [{**wide, "alert_ids": ["b:1", "a:2"]}, {**one, "alert_ids": ["a:0"]}]
    board.show_incidents("m", told)
    assert board.changes("m")["incidents"] == [wide, one]
    found = board.incident("m", 3)
    assert found["incident"] == told[0] and [a["t"] for a in found["alerts"]] == [2, 1]
    assert board.incident("m", 2) is None and board.incident("n", 3) is None


def test_a_chart_has_all_incidents_and_a_list_the_latest():
    """However many there are: each that is known is drawn, fifty are listed."""
    board = Board()
    board.begin("m", "novelty")
    told = [
        {"incident": n, "start_row": 10 * n, "end_row": 10 * n + n % 2, "alerts": 1 + n % 2}
        for n in range(200, 0, -1)
    ]
    board.show_incidents("m", told)
    found = board.changes("m")
    assert [one["incident"] for one in found["incidents"]] == list(range(200, 150, -1))
    assert found["strips"] == [(n, 10 * n, 10 * n + n % 2, n % 2 == 1) for n in range(200, 0, -1)]


def test_ids_of_keys_that_are_only_numbers_are_no_matter_of_chance():
    """The seventh row of one key is not that of another."""
    board = Board()
    board.begin("m", "novelty")
    board.tell("m", [{"t": 1, "key": "a", "id": "7"}, {"t": 2, "id": "7"}])
    board.show_incidents("m", [{"incident": 1, "alert_ids": ["7"]}])
    assert [a["t"] for a in board.incident("m", 1)["alerts"]] == [2]
    board.tell("m", [{"t": t, "key": "7", "whole": t == 3, "id": "7"} for t in (3, 4)])
    for key, t in ((7, 3), ("7", 4)):
        board.show_incidents("m", [{"incident": 1, "key": key, "alert_ids": ["7:7"]}])
        assert [a["t"] for a in board.incident("m", 1)["alerts"]] == [t]
