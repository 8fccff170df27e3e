"""The answered alert that a row is told with: as plain loops find it, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.detector_streams import STREAMS, TINY
from helpers.sizes import size
from naive.answers import Telling

from onkel import Detector
from onkel.core.answers import KINDS, Promise
from onkel.core.precedents import Precedent
from onkel.learner import Densities

PROMISES = {"none": None, "beside": Promise(0.2, np.log(0.05), np.log(0.2), 0.25)}


def near(a, b):
    return abs(a - b) <= 1e-3 * (1 + abs(b))


@pytest.mark.few
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("name", ["faulty", "spiked", "any order", "one faulty column"])
def test_the_loops_are_the_truth(rng, name, promise):
    promise, memory = PROMISES[promise], 500.0
    X = STREAMS[name](rng, size(260, 900))
    truth = Telling(X.shape[1], TINY, memory, promise and vars(promise))
    model = Densities(TINY, X.shape[1], np.float64, "error", promise, memory)
    decided = alike = 0
    for t, x in enumerate(X):
        if t > 60 and t % 9 == 0 and len(model.answers.asked_at):
            numbers = sorted(set(truth.asked) & set(model.answers.asked_at.tolist()))
            if numbers:
                number, kind = numbers[-1 - t % min(len(numbers), 4)], KINDS[(t // 9) % 2]
                truth.answer(number, kind)
                model.answer(number, kind)
        found, scores = model.precedent(x), model.scores(x[None])[0]
        said = truth.see(x.tolist())[0]
        model.learn(x[None], np.zeros((1, 1)), np.ones(1))
        wanted = truth.told.get(t)
        close = abs(said[0] - said[1]) < 1e-2 or (wanted and abs(wanted[3] - said[1]) < 1e-2)
        if close or not near(scores[0], said[0]):  # too near to the level for float32
            continue
        assert (found is None) == (wanted is None), (t, found, wanted)
        if found is not None:
            assert found.id == (None if wanted[0] is None else str(wanted[0]))
            assert (found.by_values, found.answer) == (wanted[0] is None, wanted[1])
            assert found.decided == wanted[4]
            assert found.likeness == pytest.approx(wanted[2], abs=2e-3)
            assert near(found.score, wanted[3])
            decided, alike = decided + found.decided, alike + (not found.decided)
    if name == "spiked":
        assert decided > 3 and alike > 0


def test_words():
    usual = Precedent("12", "usual", 0.9, -9.0, True)
    assert usual.in_words() == "like alert 12, which was answered as usual"
    values = Precedent(None, "usual", 0.9, -9.0, True, by_values=True)
    assert values.in_words() == (
        "since each value that stands out was part of two alerts answered as usual"
    )
    merged = Precedent(None, "fault", 0.9, -9.0, True)
    assert merged.in_words() == "like an alert that was answered as a fault"
    assert merged.brief(None) == (
        "Like an alert that was answered as a fault; no alert without that."
    )


def test_a_row_known_value_by_value_is_told_as_such(rng):
    det = Detector().fit(rng.normal(size=(3000, 3)))
    for row in ([0.0, 12.0, 0.0], [-9.0, 12.5, 0.0], [0.0, 0.0, 9.0], [-9.0, 0.0, 9.5]):
        det.partial_fit([row])
        det.feedback(det.alerts_[-1]["id"], "usual")
    why = det.explain([0.0, 11.0, 8.0])
    assert not why.alert and why.precedent.by_values and why.precedent.id is None
    assert "since each value that stands out was part of two alerts answered as usual" in str(why)
    assert det.explain([0.0, 12.0, 0.0]).precedent.id == "3000"
