"""The detector's core: compiled, in NumPy and in plain loops; blocks and rows; what it refuses."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.detector_streams import SMALL, STREAMS, TINY, faulty, learn, slow, spiked
from helpers.sizes import size
from naive.density import Detector

from onkel import core
from onkel.core import density, density_table
from onkel.core.density import DensityState, Plan, run
from onkel.core.density_table import Count, Level

compiled = pytest.mark.skipif(core.compiled is None, reason="no compiled core here")
STUDY = Plan(nu=0.01)
CORES = [pytest.param("compiled", marks=compiled), "numpy"]


@pytest.fixture
def use(monkeypatch):
    """A function that lets one of the cores run."""
    return lambda which: monkeypatch.setattr(core, "has_lane", lambda: which == "compiled")


@pytest.fixture(params=CORES)
def each_core(request, use):
    use(request.param)
    return request.param


def agree(ours, theirs, tolerance=1e-3, swaps=1 / 150):
    """The same alerts, numbers, members; but what is equal to rounding may swap its ranks."""
    np.testing.assert_array_equal(ours[0][:, 2], theirs[0][:, 2])
    for a, b in zip(ours, theirs, strict=True):
        off = np.abs(a - b) > tolerance * (1 + np.abs(b))
        assert off.any(axis=1).mean() <= swaps


def bits(state):
    return {f.name: getattr(state, f.name).tobytes() for f in dataclasses.fields(state)}


# -- one truth ---------------------------------------------------------------------------------


def against_loops(use, plan, X, weight=None, whole=True):
    """Learn rows on each core that is here, and in plain loops."""
    detector = Detector(X.shape[1], plan, whole)
    weight = np.ones(len(X)) if weight is None else weight
    found = [detector.see(x, w) for x, w in zip(X.tolist(), weight.tolist(), strict=True)]
    truth = [np.array(part) for part in zip(*found, strict=True)]
    for which in ("compiled", "numpy") if core.compiled else ("numpy",):
        use(which)
        state, *ours = learn(plan, X, weight)
        agree(ours, truth)
        yield state, detector


@pytest.mark.parametrize("name", [*STREAMS][size(1, 0) :: size(2, 1)])
def test_the_loops_are_the_truth(rng, use, name):
    for state, truth in against_loops(use, TINY, STREAMS[name](rng, size(90, 900, plain=90))):
        assert state.whole[Count.DRAWS] == truth.draws
        assert state.whole[[Count.JUDGED, Count.ALERTS]].tolist() == [truth.judged, truth.alerts]
        np.testing.assert_allclose(
            state.real[[Level.LOG_ALPHA, Level.FORGIVEN, Level.UNSPENT, Level.RECENT]],
            [truth.level, truth.forgiven, truth.unspent, truth.recent], rtol=1e-9, atol=1e-12,
        )  # fmt: skip


@pytest.mark.parametrize("name", ["faulty", "any order", "constant"])
def test_the_loops_are_the_truth_without_covariances(rng, use, monkeypatch, name):
    monkeypatch.setattr(density, "WHOLE_UP_TO", 2)
    X = STREAMS[name](rng, size(80, 900, plain=80))
    for state, _ in against_loops(use, TINY, X, whole=False):
        assert state.cov.shape == state.turn.shape == (3, 1, 3)


def test_the_loops_are_the_truth_with_weights(rng, use):
    X = faulty(rng, size(120, 900, plain=120), 2)
    weight = rng.choice([0.0, 0.3, 1.0, 2.5, 1e9], size=len(X), p=[0.2, 0.3, 0.3, 0.18, 0.02])
    for state, _ in against_loops(use, TINY, X, weight):
        assert state.whole[Count.T] == (weight > 0).sum()


@compiled
@pytest.mark.parametrize("name", [*STREAMS][:: size(2, 1)])
def test_compiled_and_numpy_agree(rng, use, name):
    """With the small plan; some, and in a long run all, with the numbers of the study."""
    for plan in (SMALL, STUDY) if size(name in ("faulty", "spiked"), True) else (SMALL,):
        compare_cores(rng, use, name, plan)


def compare_cores(rng, use, name, plan):
    X, found = STREAMS[name](rng, size(150, 4000 if plan is STUDY else 1000)), []
    for which in ("compiled", "numpy"):
        use(which)
        found.append(learn(plan, X)[1:])
    agree(*found, swaps=0.05 if name == "dice" else 1 / 150)


def test_everything_happens_in_a_faulty_stream(rng, each_core):
    """What the comparisons above go through: alerts, rows held and let in, marks, full rings."""
    X = faulty(rng, 450, 3)
    state, said, members = learn(SMALL, X)
    n, alerts = state.whole, said[:, 2].astype(bool)
    assert alerts[150:170].mean() > 0.8 and alerts.sum() > n[Count.HELD] >= 0
    assert 0 < state.marks.sum() < SMALL.terms
    assert n[Count.SIZE] == SMALL.terms and n[Count.LATE_SIZE] == SMALL.late_terms
    assert n[Count.HISTORY] == SMALL.history and n[Count.LATE_SEEN] == 450 - SMALL.delay
    assert members[-1, 8] == 1 and (members[-1, :8] >= 0).all()
    assert not alerts[: SMALL.warmup].any() and not alerts[-60:].all()


@compiled
def test_levels_agree(rng):
    X, best, found = faulty(rng, size(400, 2000), 3), core.compiled.level(), {}
    for level in core.compiled.levels():
        core.compiled.use_level(level)
        found[level] = learn(SMALL, X)[1:]
    core.compiled.use_level(best)
    for ours in found.values():
        agree(ours, found[best], 1e-4)


def test_sums_are_right_where_terms_are_alone(rng, each_core):
    """A term far from all others: its sum is tiny, not 0, though its own kernel value is 1."""
    X = rng.normal(size=(SMALL.young, 2))
    X[3] += 30
    state, *_ = learn(SMALL, X)
    z, c, n = state.z[0].astype(float), state.real[Level.WIDTH], SMALL.young
    gaps = np.abs(z[:, :n, None] - z[:, None, :n]).sum(axis=0)
    np.fill_diagonal(gaps, np.inf)
    wanted = np.exp(-np.float32(c) * gaps).sum(axis=1)
    assert wanted[3] < 1e-6
    np.testing.assert_allclose(state.sums[0, :n], wanted, rtol=1e-4)


# -- blocks, rows, copies ----------------------------------------------------------------------


def used(state):
    """What a state holds, without the room that it has."""
    n, late, known = state.whole[[Count.SIZE, Count.LATE_SIZE, Count.HISTORY]]
    counts = np.delete(state.whole, Count.HELD_FIRST)
    parts = [counts, state.real, state.mean, state.cov, state.center, state.scale, state.turn,
             state.calm, state.size, state.raw[:, :n], state.late_raw[:late], state.z[..., :n],
             state.sums[:, :n], state.late_z[:, :late], state.late_sums[:, :late],
             state.marks[:n], state.history[:known], state.ranked[:known]]  # fmt: skip
    return [part.tobytes() for part in parts]


@pytest.mark.parametrize("name", ["faulty", "spiked", "one slow column"])
def test_blocks_are_rows_bit_for_bit(rng, each_core, name):
    X = STREAMS[name](rng, size(70, 900, plain=70))
    whole, said, members = learn(TINY, X)
    some = sorted(rng.choice(np.arange(1, len(X)), 9, replace=False).tolist())
    for blocks in (range(1, len(X)), some):
        state, ours, parts = learn(TINY, X, blocks=list(blocks))
        assert ours.tobytes() == said.tobytes() and parts.tobytes() == members.tobytes()
        assert used(state) == used(whole)
        again, other = (run(TINY, s, X, np.ones(len(X)))[0] for s in (state, whole.copy()))
        assert again.tobytes() == other.tobytes()


def test_long_calls_are_cut(rng, each_core, monkeypatch):
    X = slow(rng, 200, 2)
    _, said, _ = learn(SMALL, X)
    monkeypatch.setattr(density, "AT_ONCE", 32)
    assert learn(SMALL, X)[1].tobytes() == said.tobytes()


def test_looking_changes_nothing(rng, each_core):
    """Without weights, and with weights of 0, each row is judged as if it came next."""
    X = faulty(rng, 300, 2)
    state, *_ = learn(SMALL, X)
    before = bits(state)
    found = [run(SMALL, state, X[:40], weight, True) for weight in (None, np.zeros(40))]
    alone = [run(SMALL, state.copy(), row[None], None, True) for row in X[:40]]
    assert state.nbytes == sum(len(part) for part in before.values())
    for i, part in enumerate(found[0]):
        assert part.tobytes() == found[1][i].tobytes()
        assert part.tobytes() == np.concatenate([one[i] for one in alone]).tobytes()
    empty = DensityState.empty(2, SMALL)
    assert not run(SMALL, empty, X, None)[0][:, [0, 2, 3]].any()
    after = bits(state)
    assert all(after[name] == before[name] for name in before if name not in GROWS)


GROWS = {"raw", "late_raw", "z", "late_z", "sums", "late_sums", "marks", "held", "due", "waiting",
         "history", "ranked"}  # fmt: skip
"""What may get more room, though nothing else, where weights are given."""


def test_looking_without_weights_changes_no_byte(rng, each_core):
    state, *_ = learn(SMALL, faulty(rng, 200, 2))
    before = bits(state)
    run(SMALL, state, rng.normal(size=(50, 2)), None)
    assert bits(state) == before


def test_a_copy_is_its_own(rng, each_core):
    state, *_ = learn(SMALL, faulty(rng, 200, 2))
    other, before = state.copy(), bits(state)
    run(SMALL, other, rng.normal(size=(50, 2)), np.ones(50))
    assert bits(state) == before and bits(other) != before


# -- the edges ---------------------------------------------------------------------------------


def test_history_has_room_for_what_was_held(rng, each_core):
    """A block of one row may remember two scores: its own, and that of a gross row let in late."""
    plan, most = dataclasses.replace(SMALL, nu=0.05, warmup=30, hold=20, history=500), 0
    for _ in range(size(3, 100 if each_core == "compiled" else 10)):
        state, later = DensityState.empty(2, plan), 0
        for row in spiked(rng, 120, 2):
            before = state.whole[Count.HISTORY]
            run(plan, state, row[None], np.ones(1))
            later = max(later, state.whole[Count.HISTORY] - before)
            assert state.whole[Count.HISTORY] <= len(state.history)
        most = max(most, later)
    assert most == 2


@pytest.mark.parametrize("sizes", [(-300, 308), (-60, 60), (-3, 3)])
def test_numbers_of_any_size(rng, each_core, sizes):
    for _ in range(size(2, 40 if each_core == "compiled" else 4)):
        X = slow(rng, 120, 2) * 10.0 ** rng.uniform(-5, 5, size=2)
        hit = rng.random(X.shape) < 0.05
        X[hit] = rng.choice([-1, 1], hit.sum()) * 10.0 ** rng.uniform(*sizes, size=hit.sum())
        weight = rng.choice([1.0, 1e-9, 1e12], p=[0.9, 0.05, 0.05], size=len(X))
        state, said, members = learn(SMALL, X, weight)
        assert np.isfinite(said).all() and (said[:, 0] <= 0).all() and np.isfinite(members).all()
        for name in ("real", "mean", "cov", "scale", "turn", "calm", "history", "ranked"):
            assert np.isfinite(getattr(state, name)).all(), name


def broken():
    """Fields that do not fit, and what is said of them."""
    yield "raw", lambda a: a[:1], "raw and cov have three axes"
    yield "last", lambda a: a[:1], "one number per feature"
    yield "calm", lambda a: a[:3], "one number per feature"
    yield "whole", lambda a: a[:-1], "counts or levels are missing"
    yield "real", lambda a: a[:-1], "counts or levels are missing"
    yield "cov", lambda a: np.zeros((3, 3, 2)), "covariances are whole"
    yield "turn", lambda a: a[:2], "moments and metric"
    yield "sums", lambda a: a[:5], "the terms do not fit"
    yield "marks", lambda a: a[:-1], "the terms do not fit"
    yield "late_z", lambda a: a[:1], "the terms do not fit"
    yield "held", lambda a: a[:, :-1], "the rings do not fit"
    yield "waiting", lambda a: a.ravel()[:-1], "the rings do not fit"
    yield "ranked", lambda a: a[:-1], "history and its ranked copy differ"


@compiled
@pytest.mark.parametrize(("name", "change", "words"), list(broken()), ids=lambda v: str(v)[:9])
def test_arrays_that_do_not_fit_are_refused(rng, name, change, words):
    state, *_ = learn(SMALL, rng.normal(size=(100, 2)))
    setattr(state, name, np.ascontiguousarray(change(getattr(state, name))))
    for weight in (None, np.ones(5)):
        with pytest.raises(ValueError, match=re.escape(words)):
            call(SMALL, state, np.zeros((5, 2)), weight)


COUNTS = [
    (Count.SIZE, 65, "too small"), (Count.SIZE, -1, "out of range"), (Count.HELD, 40, "too small"),
    (Count.LATE_SIZE, 33, "too small"), (Count.HISTORY, 101, "too small"),
    (Count.LATE_SEEN, 200, "too small"), (Count.T, 2**62, "out of range"),
    (Count.HELD_FIRST, 99, "begins outside"), (Count.HISTORY_AT, 3, "next place"),
]  # fmt: skip


@compiled
@pytest.mark.parametrize(("count", "number", "words"), COUNTS)
def test_counts_that_do_not_fit_are_refused(rng, count, number, words):
    state, *_ = learn(SMALL, rng.normal(size=(70, 2)))
    state.whole[count] = number
    for weight in (None, np.ones(5)):
        with pytest.raises(ValueError, match=words):
            call(SMALL, state, np.zeros((5, 2)), weight)


@compiled
def test_rows_plans_and_room_that_do_not_fit_are_refused(rng):
    state, *_ = learn(SMALL, rng.normal(size=(20, 2)))
    for rows, words in ((np.zeros((5, 3)), "do not fit"), (np.zeros(2), "do not fit")):
        with pytest.raises(ValueError, match=words):
            call(SMALL, state, rows, None)
    with pytest.raises(ValueError, match="too small for so many rows"):
        call(SMALL, state, np.zeros((200, 2)), np.ones(200))
    with pytest.raises(ValueError, match="one weight per row"):
        call(SMALL, state, np.zeros((5, 2)), np.ones(4))
    for change in ({"young": 5}, {"terms": 5}, {"late_terms": 5}, {"history": 5}, {"delay": -1}):
        with pytest.raises(ValueError, match="plan is out of range"):
            call(dataclasses.replace(SMALL, **change), state, np.zeros((5, 2)), None)


def call(plan, state, rows, weight):
    """The compiled entry itself, without making room."""
    native, none = core.compiled, np.zeros((0, 9))
    made = native.DensityState(*vars(state).values())
    out = np.empty((len(rows), 4))
    weight = np.zeros(0) if weight is None else weight
    native.density(native.DensityPlan(**vars(plan)), made, None, rows, weight, out, none)


@compiled
def test_a_state_of_nonsense_does_no_harm(rng):
    """Numbers that no detector could have written, as a damaged file may hold them."""
    X = faulty(rng, 200, 2)
    for _ in range(size(5, 100)):
        state, *_ = learn(SMALL, X)
        for field in dataclasses.fields(state):
            array = getattr(state, field.name)
            if array.dtype.kind == "f":
                hit = rng.random(array.shape) < 0.2
                array[hit] = rng.choice([np.nan, np.inf, -np.inf, 0, -1, 1e30], size=hit.sum())
        state.due[:] = rng.integers(-(2**60), 2**60, size=state.due.shape)
        for row in X:
            try:
                run(SMALL, state, row[None], np.ones(1))
            except ValueError:
                break


def test_the_same_numbers_in_both_languages():
    """What judging rests on is written twice: in C++, and once for all in Python."""
    source = Path(density.__file__).parent / "src"
    text = "".join((source / f"{n}.hpp").read_text() for n in ("metric", "view", "density"))
    found = dict(re.findall(r"constexpr (?:double|int64_t) k(\w+) =\s*([^;]+);", text))
    names = ("REACH", "TIED", "TAIL_SHARE", "TAIL_LEAST", "LAST_SHARE", "LAST_LEAST", "KNOWN",
             "GROSS", "LOUD", "REACH_COST", "TURN_COST", "LARGEST")  # fmt: skip
    for name in names:
        theirs = found["".join(word.capitalize() for word in name.split("_"))]
        assert sum(map(float, theirs.split("+"))) == getattr(density_table, name), name
