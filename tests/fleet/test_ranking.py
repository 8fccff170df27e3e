"""Keys ranked by how unusual they are now: what a page of a fleet shows."""

from __future__ import annotations

import threading

import numpy as np

from onkel import Detector, Fleet
from onkel.fleet.ranking import GROWN, LATE, Ranking
from onkel.fleet.view import FleetView


def usual(rows, mean=0.0, variance=1.0):
    """Means and variances of one feature before each row."""
    return np.stack([np.full((rows, 1), mean), np.full((rows, 1), variance)], axis=1)


def test_the_level_is_a_mean_over_the_latest_rows(rng):
    ranking, p = Ranking(), rng.uniform(0.01, 1.0, 40)
    ranking.update(["a"] * 25, p[:25], p[:25] < 0)
    ranking.update(["a"] * 15, p[25:], p[25:] < 0)
    level = 0.0
    for i, value in enumerate(p):
        level += (-np.log(value) - level) / min(i + 1, LATE)
    assert np.isclose(ranking.key("a")["unusual"], np.exp(-level))


def test_drift_is_told_of_keys_that_have_grown(rng):
    """What is usual for a key of a few rows is not known; its distance from that says nothing."""
    ranking = Ranking()
    for key, rows, level in (("young", GROWN - 1, 9.0), ("old", GROWN, 3.0), ("calm", GROWN, 0.1)):
        X = np.full((rows, 1), level)
        ranking.update([key] * rows, np.ones(rows), X[:, 0] < 0, X, usual(rows))
    told = {row["key"]: row["drift"] for row in ranking.top(3, "drift")}
    assert [*told] == ["old", "calm", "young"]
    assert told["young"] is None and abs(told["old"] - 3.0) < 0.1
    assert ranking.summary()["keys_drifting"] == 1


def test_a_dropped_key_is_told_no_longer():
    ranking = Ranking()
    ranking.update(["a", "b", "a"], np.full(3, 1e-3), np.ones(3, bool))
    ranking.drop(["a", "never heard"])
    assert ranking.key("a") is None and len(ranking) == 1
    assert ranking.summary()["alerts"] == 1
    ranking.update(["c"], np.ones(1), np.zeros(1, bool))  # in the place of the first
    told = ranking.key("c")
    assert told["rows"] == 1 and told["alerts"] == 0 and told["unusual"] == 1.0
    assert told["last_alert"] is None


def test_a_page_may_ask_while_rows_come(monkeypatch):
    """Between a key's name and its numbers nobody looks."""
    ranking, problems, asking = Ranking(), [], []
    make_room = Ranking._make_room

    def ask():
        try:
            ranking.top(10), ranking.summary(), ranking.key("b")
        except Exception as error:
            problems.append(error)

    def slowly(self):
        asking.append(threading.Thread(target=ask))
        asking[-1].start()
        asking[-1].join(0.2)
        make_room(self)

    monkeypatch.setattr(Ranking, "_make_room", slowly)
    for start in (0, 200):
        keys = np.arange(start, start + 200)
        ranking.update(keys, np.ones(200), np.zeros(200, bool))
    for thread in asking:
        thread.join()
    assert not problems and len(ranking) == 400


def test_numbers_beyond_those_of_a_browser_are_texts_too():
    fleet, ranking, large = Fleet(Detector()), Ranking(), 2**53 + 1
    fleet.partial_fit([large, "1"], [[0.0], [1.0]])
    ranking.update([large, "1"], np.ones(2), np.zeros(2, bool))
    told = FleetView(fleet, ranking).table()["rows_told"]
    assert [(row["text"], row["whole"]) for row in told] == [(str(large), True), ("1", False)]


def test_a_shared_fleets_young_key_says_how_it_is_judged(rng):
    keys, X = np.arange(300) % 3, rng.normal(size=(300, 2))
    for share in (False, True):
        fleet, ranking = Fleet(Detector(), share=share).partial_fit(keys, X), Ranking()
        ranking.update(keys, np.ones(300), np.zeros(300, bool))
        assert FleetView(fleet, ranking).key(0)["shares"] is share
