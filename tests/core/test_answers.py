"""Answered alerts: compiled, in NumPy and in plain loops; any cuts; what identities promise."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from helpers.detector_streams import SMALL, STREAMS, TINY, faulty
from helpers.sizes import size
from naive.answers import Answering

from onkel import core
from onkel.core.answers import KINDS, MOST, ROOM, Answers, Promise
from onkel.core.density_table import Count, Level
from onkel.learner import Densities

CORES = ("compiled", "numpy") if core.compiled else ("numpy",)
PROMISES = {
    "none": None,
    "beside": Promise(0.2, math.log(0.05), math.log(0.2), 0.25),
    "alone": Promise(0.3, math.log(0.05), math.log(0.06), 0.5, alone=True),
}


@pytest.fixture
def use(monkeypatch):
    """A function that lets one of the cores run."""
    return lambda which: monkeypatch.setattr(core, "has_lane", lambda: which == "compiled")


def script(rng, rows, every=7):
    """When somebody answers, which of the alerts that are kept, and how."""
    times = np.sort(rng.choice(np.arange(40, rows), size=rows // every, replace=False))
    return [(int(t), float(rng.random()), str(rng.choice(KINDS))) for t in times]


def chosen(numbers, share):
    return numbers[min(int(share * len(numbers)), len(numbers) - 1)] if numbers else None


def by_loops(plan, promise, X, answers, memory):
    asked = promise and vars(promise)
    model, said = Answering(X.shape[1], plan, memory, asked), []
    for t, x in enumerate(X.tolist()):
        for when, share, kind in answers:
            number = chosen(sorted(model.asked), share) if when == t else None
            if number is not None:
                model.answer(number, kind)
        said.append(model.see(x)[0])
    return model, np.array(said)


def by_the_core(plan, promise, X, answers, memory, step=10**9):
    model, said = Densities(plan, X.shape[1], np.float64, "error", promise, memory), []
    stops = sorted({0, len(X), *(t for t, _, _ in answers), *range(0, len(X), step)})
    for first, last in pairwise(stops):
        for when, share, kind in answers:
            held = model.answers.asked_at[model.answers.kept()].tolist()
            number = chosen(held, share) if when == first else None
            if number is not None:
                model.answer(number, kind)
        out = core_run(model, X[first:last])
        said.append(out)
    return model, np.concatenate(said)


def core_run(model, X):
    score, limit = model.learn(X, np.zeros((len(X), 1)), np.ones(len(X)))
    return np.column_stack([score, limit])


@pytest.mark.few
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("name", ["faulty", "spiked", "any order", "one faulty column"])
def test_the_loops_are_the_truth(rng, use, name, promise):
    """Fewer alerts than the ring holds, so that none is forgotten."""
    X = STREAMS[name](rng, size(160, 500, plain=130))
    answers, memory = script(rng, len(X)), 200.0
    truth, said = by_loops(TINY, PROMISES[promise], X, answers, memory)
    assert len(truth.asked) <= ROOM
    for which in CORES:
        use(which)
        model, found = by_the_core(TINY, PROMISES[promise], X, answers, memory)
        off = np.abs(found - said[:, :2]) > 1e-3 * (1 + np.abs(said[:, :2]))
        assert off.any(axis=1).mean() <= 1 / 50
        own = model.answers
        assert own.asked_at[own.kept()].tolist() == sorted(truth.asked)
        assert (own.answered, own.dismissed) == (truth.answered, truth.dismissed)
        assert own.asked_count.tolist() == [len(truth.asked), truth.hushed]
        if truth.promise:
            assert own.theta == pytest.approx(truth.theta, abs=1e-9)
            assert own.unspent == pytest.approx(truth.cut_off, abs=1e-9)
    if name != "any order":
        assert truth.answered > 3


@pytest.mark.parametrize("promise", PROMISES)
def test_cuts_do_not_matter(rng, promise):
    X = faulty(rng, 700, 3)
    answers = script(rng, len(X), 20)
    whole, said = by_the_core(SMALL, PROMISES[promise], X, answers, 300.0)
    for step in (1, 7, 256):
        other, found = by_the_core(SMALL, PROMISES[promise], X, answers, 300.0, step)
        np.testing.assert_array_equal(found, said)
        ours, theirs = other.answers.dump(), whole.answers.dump()
        for name, values in ours.items():
            np.testing.assert_array_equal(values, theirs[name])


def watched(rng, plan=SMALL, promise=None, memory=1e4):
    """A detector with 600 usual rows behind it, and one row far out."""
    model = Densities(plan, 3, np.float64, "error", promise, memory)
    core_run(model, rng.normal(size=(600, 3)))
    core_run(model, np.array([[0.0, 12.0, 0.0]]))
    return model, int(model.answers.asked_at[model.answers.kept()[-1]])


def alert(model, row):
    score, level = model.scores(np.array([row]))[0, 0], model.limits()[0]
    return bool(score < level)


def test_what_was_usual_comes_no_more_and_all_else_does(rng):
    model, number = watched(rng)
    assert number == 600 and alert(model, [0.5, 11.5, -0.5])
    model.answer(number, "usual")
    assert not alert(model, [0.5, 11.5, -0.5]) and not alert(model, [0.0, 13.0, 0.2])
    for other in ([0.0, -12.0, 0.0], [12.0, 0.0, 0.0], [0.0, 12.0, 9.0], [0.0, 40.0, 0.0]):
        assert alert(model, other), other


def test_many_that_join_in_are_another_matter_though_each_would_be_none(rng):
    model = Densities(SMALL, 20, np.float64, "error", None, 1e4)
    core_run(model, rng.normal(size=(600, 20)))
    row = np.zeros(20)
    row[1] = 12
    answered(model, row.copy(), "usual")
    assert not alert(model, row)
    row[2] = 3.5
    assert not alert(model, row)
    row[2:] = 3.5 * (-1.0) ** np.arange(18)
    assert alert(model, row)


def answered(model, row, kind):
    """Let a row raise an alert, and answer it."""
    core_run(model, np.array([row]))
    number = int(model.answers.asked_at[model.answers.kept()[-1]])
    assert number == model.t - 1
    model.answer(number, kind)


def twice(model):
    """Let values that are far out be called usual, each of them twice, never both in one row."""
    for row in ([0.0, 12.0, 0.0], [-9.0, 12.5, 0.0], [0.0, 0.0, 9.0], [-9.0, 0.0, 9.5]):
        assert alert(model, [0.0, 11.0, 8.0])
        answered(model, row, "usual")


def test_values_that_were_usual_one_by_one_twice_are_so_together(rng):
    model, _ = watched(rng)
    twice(model)
    assert not alert(model, [0.0, 11.0, 8.0])
    for other in ([0.0, -11.0, 8.0], [0.0, 30.0, 8.0], [7.0, 11.0, 8.0], [0.0, 11.0, -8.0]):
        assert alert(model, other), other


def test_one_wrong_answer_does_not_open_a_value_to_all_that_comes(rng):
    model, _ = watched(rng)
    answered(model, [0.0, 200.0, 200.0], "usual")
    answered(model, [12.0, 0.0, 0.0], "usual")
    assert all(alert(model, [0.0, x, y]) for x in (0.0, 20.0, 60.0) for y in (10.0, 50.0))


def test_what_is_known_value_by_value_is_learned_as_alerts_are(rng):
    model, _ = watched(rng)
    twice(model)
    before = model.count(Count.HELD), model.count(Count.ALERTS), *model.answers.asked_count
    core_run(model, np.array([[0.0, 11.5, 8.5]]))
    after = model.count(Count.HELD), model.count(Count.ALERTS), *model.answers.asked_count
    assert np.subtract(after, before).tolist() == [1, 0, 0, 1]
    core_run(model, np.array([[0.0, 12.0, 0.0]]))  # like an answer as a whole: learned at once
    assert model.count(Count.HELD) == after[0]


def test_what_was_a_fault_stays_one_however_often_it_returns(rng):
    model, number = watched(rng)
    other = model.copy()
    model.answer(number, "fault")
    again = np.array([0.0, 12.0, 0.0]) + 0.5 * rng.normal(size=(3000, 3))
    X = rng.normal(size=(6000, 3))
    X[::2] = again
    counts = []
    for each in (model, other):
        found = core_run(each, X)
        counts.append(np.mean(found[::2, 0] < found[::2, 1]))
        usual = found[1::2]
        assert np.mean(usual[:, 0] < usual[:, 1]) < 0.1
    assert counts[0] == 1.0 and counts[1] < 0.2
    size_of = np.abs(model.state.raw[0, : SMALL.terms, 1]).max()
    assert size_of < 8  # nothing of it was learned


def test_a_fault_is_not_learned_during_a_warm_up_either(rng, use):
    """Nor is the step back from it: whether rows are tied to those before is told by others."""
    plan = replace(SMALL, warmup=10**6)
    told, number = watched(rng)
    told.answer(number, "fault")
    X = rng.normal(size=(300, 3))
    X[100:200:2] = [0.0, 12.0, 0.0]
    for which in CORES:
        use(which)
        model = Densities(plan, 3, np.float64, "error", None, 1e4)
        model.answers = model.answers.joined([told.answers], [0, 0], 0)
        core_run(model, X)
        assert model.count(Count.CALM) == 300 - 2 * 50
        assert model.state.raw[0, : SMALL.terms, 1].max() < 8
        assert model.state.calm[1:3, 1].max() < 8


def test_a_fault_that_was_learned_is_taken_out(rng, use):
    for which in CORES:
        use(which)
        model, number = watched(np.random.default_rng(1))
        for _ in range(3):
            core_run(model, rng.normal(size=(SMALL.hold, 3)))
        there = np.flatnonzero(model.state.raw[0, :, 1] == 12.0)
        waiting = model.state.held[:, 1] == 12.0
        held = len(there) or waiting.any()
        model.answer(number, "fault")
        assert not (model.state.raw[0, :, 1] == 12.0).any() or not held
        core_run(model, rng.normal(size=(50, 3)))  # and it goes on


def test_an_answer_fades(rng):
    model, number = watched(rng, memory=100.0)
    model.answer(number, "usual")
    assert not alert(model, [0.0, 12.0, 0.0])
    core_run(model, rng.normal(size=(100, 3)))
    assert not alert(model, [0.0, 12.0, 0.0])  # while its memory lasts it does not
    core_run(model, rng.normal(size=(400, 3)))
    assert alert(model, [0.0, 12.0, 0.0])


def test_an_answer_that_is_given_again_holds_anew_and_counts_once(rng):
    model, number = watched(rng, promise=PROMISES["beside"], memory=100.0)
    for _ in range(5):
        model.answer(number, "usual")
        assert not alert(model, [0.0, 12.0, 0.0])
        core_run(model, rng.normal(size=(400, 3)))
        assert alert(model, [0.0, 12.0, 0.0])
    own = model.answers
    assert (own.answered, own.dismissed, len(own.born)) == (1, 1, 1)
    assert identity(own) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("base", [0.0, 7.0, -1e-200, 1e30])
def test_a_column_that_was_constant_until_then(rng, use, base):
    """However many spreads away: what was dismissed is quiet, half and twice as much is not."""
    step = base or 1.0
    X = np.column_stack([rng.normal(size=600), np.full(600, base)])
    for which in CORES:
        use(which)
        model = Densities(SMALL, 2, np.float64, "error", None, 1e4)
        core_run(model, X)
        answered(model, [0.1, base + step], "usual")
        assert not alert(model, [0.3, base + step])
        for other in (base + step / 2, base + 2 * step, base - step):
            assert alert(model, [0.1, other]), other
        core_run(model, X[:300])
        assert not alert(model, [-0.2, base + step])


# -- the promise -------------------------------------------------------------------------------


def identity(answers):
    """The dismissed share less what the identity says it is."""
    promise = answers.promise
    travel = answers.theta - promise.start + answers.unspent
    said = promise.share - travel / (promise.rate * answers.answered)
    return answers.dismissed / answers.answered - said


@pytest.mark.few
@pytest.mark.parametrize("policy", ["all usual", "all faults", "spite", "by turns", "dice"])
@pytest.mark.parametrize("alone", [False, True])
def test_the_identity_holds_for_any_answers(rng, policy, alone):
    promise = Promise(0.2, math.log(0.05), math.log(0.2), 0.25, alone)
    model = Densities(SMALL, 2, np.float64, "error", promise)
    for round_ in range(size(60, 300)):
        X = rng.normal(size=(40, 2))
        X[rng.random(40) < 0.2] *= 10.0 ** rng.integers(0, 4)
        core_run(model, X)
        waiting = [i for i in model.answers.kept() if not model.answers.said[i]]
        for at in waiting[:5]:
            likes = model.answers.dismissed < 0.2 * model.answers.answered
            kind = {
                "all usual": "usual", "all faults": "fault", "spite": "usual" if likes else "fault",
                "by turns": KINDS[round_ % 2], "dice": str(rng.choice(KINDS)),
            }[policy]  # fmt: skip
            model.answer(int(model.answers.asked_at[at]), kind)
    assert model.answers.answered > 5
    assert abs(identity(model.answers)) < 1e-9


def test_a_changed_mind_counts_once(rng):
    promise = Promise(0.2, math.log(0.05), math.log(0.2))
    model, number = watched(rng, promise=promise)
    states = []
    for kind in ("usual", "fault", "usual", "usual"):
        model.answer(number, kind)
        states.append((model.answers.dismissed, model.answers.theta, len(model.answers.of)))
        assert model.answers.answered == 1 and abs(identity(model.answers)) < 1e-12
    assert states[2] == pytest.approx(states[0]) and states[3] == states[2]
    assert states[1][0] == 0 and states[1][1] > states[0][1]


def test_answers_are_bounded(rng):
    answers = Answers.none(1, 1e9)
    answers.make_room(10**6)
    frame = np.ones((2, 3, 1))
    for t in range(3 * MOST):
        answers.ask(np.full((3, 1), 50.0 + t), t, 9.0, 0.0)
        answers = answers.answer(answers.find(t), 0, t + 1, frame, 5.0, np.zeros((0, 2, 1)))
    assert len(answers.born) == MOST and answers.of.tolist() == [*range(2 * MOST, 3 * MOST)]
    assert len(answers.asked_at) == ROOM and answers.answered == 3 * MOST


def test_without_a_promise_the_level_is_that_of_the_rate(rng):
    model, _ = watched(rng)
    assert model.limits()[0] == model.level(Level.LOG_ALPHA)
