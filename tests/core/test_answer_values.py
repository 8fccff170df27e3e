"""Answers for rare values: compiled, in NumPy and in plain loops; what they touch, and what not."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from helpers.detector_streams import SMALL, TINY
from helpers.sizes import size
from naive.values import Valued

from onkel import core
from onkel.core.answer_values import RareValues
from onkel.core.answers import KINDS, MOST, Promise
from onkel.learner import Densities

CORES = ("compiled", "numpy") if core.compiled else ("numpy",)
PROMISE = Promise(0.2, math.log(0.05), math.log(0.2), 0.25)
NUMBER = 30.0


@pytest.fixture
def use(monkeypatch):
    """A function that lets one of the cores run."""
    return lambda which: monkeypatch.setattr(core, "has_lane", lambda: which == "compiled")


def rows_of(rng, count):
    """Two features that are mostly 0, sometimes rare or condemned, and a number that goes along."""
    X = rng.normal(size=(count, 3))
    for j in (0, 1):
        X[:, j] = np.where(rng.random(count) < 0.9, 0.0, rng.uniform(0.5, 1.0, count))
        X[rng.random(count) < 0.04, j] = 6.0
        X[rng.random(count) < 0.04, j] = NUMBER
    X[rng.random(count) < 0.03, 2] = 9.0
    return X


def script(rng, rows):
    """When somebody answers, which alert, how, and which of its values are to blame."""
    times = np.sort(rng.choice(np.arange(40, rows), size=rows // 7, replace=False))
    blamed = [[], [0], [1], [0, 1]]
    return [
        (int(t), float(rng.random()), str(rng.choice(KINDS)), blamed[rng.integers(4)],
         bool(rng.random() < 0.7), bool(rng.random() < 0.7)) for t in times
    ]  # fmt: skip


def chosen(numbers, share):
    return numbers[min(int(share * len(numbers)), len(numbers) - 1)] if numbers else None


def rare_of(at, stays, share, whole=True):
    stay = at if stays else []
    return RareValues(at, np.zeros(len(at)), stay, np.full(len(stay), NUMBER), share, whole)


def by_loops(X, answers, memory, promise):
    model, said = Valued(X.shape[1], TINY, memory, promise and vars(promise)), []
    for t, x in enumerate(X.tolist()):
        for when, share, kind, at, stays, whole in answers:
            number = chosen(sorted(model.asked), share) if when == t else None
            if number is not None and at:
                stay = at if stays else []
                numbers = [NUMBER] * len(stay)
                model.answer_values(number, kind, at, [0.0] * len(at), stay, numbers, whole)
            elif number is not None:
                model.answer(number, kind)
        said.append(model.see(x)[0])
    return model, np.array(said)


def by_the_core(X, answers, memory, promise, step=10**9, plan=TINY):
    model, said = Densities(plan, X.shape[1], np.float64, "error", promise, memory), []
    stops = sorted({0, len(X), *(a[0] for a in answers), *range(0, len(X), step)})
    for first, last in pairwise(stops):
        for when, share, kind, at, stays, whole in answers:
            held = model.answers.asked_at[model.answers.kept()].tolist()
            number = chosen(held, share) if when == first else None
            if number is not None:
                rare = rare_of(at, stays, model.share, whole) if at else None
                model.answer(number, kind, None, rare)
        said.append(learned(model, X[first:last]))
    return model, np.concatenate(said)


def learned(model, X):
    X = np.array(X, float)
    score, limit = model.learn(X, np.zeros((len(X), 1)), np.ones(len(X)))
    return np.column_stack([score, limit])


@pytest.mark.few
@pytest.mark.parametrize("promise", [None, PROMISE], ids=["none", "promise"])
def test_the_loops_are_the_truth(rng, use, promise):
    X = rows_of(rng, size(220, 600, plain=160))
    answers, memory = script(rng, len(X)), 200.0
    truth, said = by_loops(X, answers, memory, promise)
    kinds = [e["answer"] for e in truth.answers.values() if e.get("values")]
    assert truth.answered > 5 and kinds.count("fault") > 0
    for which in CORES:
        use(which)
        model, found = by_the_core(X, answers, memory, promise)
        off = np.abs(found - said[:, :2]) > 1e-3 * (1 + np.abs(said[:, :2]))
        assert off.any(axis=1).mean() <= 1 / 50
        own = model.answers
        assert own.asked_at[own.kept()].tolist() == sorted(truth.asked)
        assert (own.answered, own.dismissed) == (truth.answered, truth.dismissed)
        if promise is not None:
            assert own.theta == pytest.approx(truth.theta, abs=1e-9)


def test_cuts_do_not_matter(rng):
    X = rows_of(rng, 600)
    answers = script(rng, len(X))[::3]
    whole, said = by_the_core(X, answers, 300.0, PROMISE, plan=SMALL)
    for step in (1, 64):
        other, found = by_the_core(X, answers, 300.0, PROMISE, step, plan=SMALL)
        np.testing.assert_array_equal(found, said)
        for name, values in other.answers.dump().items():
            np.testing.assert_array_equal(values, whole.answers.dump()[name])


def watched(rng, row, promise=None):
    model = Densities(SMALL, 3, np.float64, "error", promise, 1e4)
    X = rng.normal(size=(600, 3))
    X[:, :2] = 0.0
    learned(model, X)
    learned(model, [row])
    number = int(model.answers.asked_at[model.answers.kept()[-1]])
    assert number == 600
    learned(model, rng.normal(size=(1, 3)) * [0, 0, 1])
    return model, number


def alert(model, row):
    return bool(model.scores(np.array([row]))[0, 0] < model.limits()[0])


def like(model, row):
    found = model.precedent(np.array(row))
    return None if found is None else found.answer


def test_a_fault_of_a_value_is_known_by_its_number_and_by_nothing_else(rng):
    model, number = watched(rng, [6.0, 0.0, 0.1])
    model.answer(number, "fault", None, rare_of([0], True, model.share))
    assert len(model.answers.born) == 1 and not alert(model, [0.0, 0.0, 0.1])
    for z in (0.0, 2.0, 9.0):
        assert alert(model, [NUMBER, 0.0, z]) and like(model, [NUMBER, 0.0, z]) == "fault"
    for other in ([6.0, 0.0, 0.1], [7.0, 0.0, 0.1], [0.0, NUMBER, 0.1], [6.0, 0.0, 9.0]):
        assert alert(model, other) and like(model, other) is None


def test_a_fault_of_a_value_beside_a_number_is_both(rng):
    model, number = watched(rng, [6.0, 0.0, 9.0])
    model.answer(number, "fault", None, rare_of([0], True, model.share))
    assert len(model.answers.born) == 2
    for row in ([NUMBER, 0.0, 0.0], [0.0, 0.0, 9.0]):
        assert alert(model, row) and like(model, row) == "fault"
    assert like(model, [6.0, 0.0, 9.0]) is None and not alert(model, [0.0, 0.0, 0.5])
    model.answer(number, "usual", None, rare_of([0], False, model.share))
    assert len(model.answers.born) == 1 and like(model, [NUMBER, 0.0, 0.0]) is None


def test_what_was_usual_does_not_stand_for_what_is_rare_there(rng):
    model, number = watched(rng, [6.0, 0.0, 9.0])
    model.answer(number, "usual", None, rare_of([0], False, model.share))
    assert not alert(model, [0.0, 0.0, 9.0])
    for other in ([6.0, 0.0, 9.0], [2.0, 0.0, 9.0], [0.0, 6.0, 9.0], [6.0, 0.0, 0.1]):
        assert alert(model, other), other


def test_places_are_bounded_and_answers_count_once(rng):
    model, _ = watched(rng, [6.0, 6.0, 9.0], PROMISE)
    count = MOST // 2
    for i in range(count):
        learned(model, [[6.0, 6.0, 9.0 + 5 * i]])
        number = int(model.answers.asked_at[model.answers.kept()[-1]])
        model.answer(number, "fault", None, rare_of([0, 1], True, model.share))
    own = model.answers
    assert len(own.born) == MOST and own.answered == count and not own.dismissed
    share = PROMISE.share - (own.theta - PROMISE.start + own.unspent) / (PROMISE.rate * count)
    assert share == pytest.approx(0.0, abs=1e-12)
