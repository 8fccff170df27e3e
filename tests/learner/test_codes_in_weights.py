"""Codes in linear learners: hashed one-hot weights, against plain loops and explicit columns."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace

import naive
import numpy as np
import pytest
from helpers import cases, rule_cases
from helpers.agreement import close, name_of
from helpers.fingerprint import fingerprint as bits
from helpers.rule_cases import APART
from helpers.sizes import size, some

from onkel import core, expansions, kernels, losses, rules
from onkel.core import numpy_hashed
from onkel.core.layout import SMALL_SCALE, Field
from onkel.explain.source import details
from onkel.learner import Learner, PrimalLearner, Settings, start
from onkel.learner.merging import merged
from onkel.learner.resume import dump, resumed
from onkel.saved import Saved

FACTORS = {**rule_cases.PRIMAL_FACTORS, "dtype": ("float64", "float32")}
del FACTORS["p"]
CASES = some(cases.pairwise(FACTORS), times=3)
ROWS = 80
K = len(APART)


def plain(**more):
    given = {"rule": "norma", "dtype": "float64", "scale": True, "average": False,
             "outputs": 1, "weights": False}  # fmt: skip
    return {**given, **more}


def stream(case, rng, rows=ROWS):
    X, Y, weight = rule_cases.stream(case, rng, rows)
    return rule_cases.with_codes(X, rng).astype(case["dtype"]), Y, weight


def learned(case, rng, rows=ROWS, bits=4):
    """A learner that has learned a stream, which comes with it."""
    learner = rule_cases.build_hashed(case, bits).learner()
    X, Y, weight = stream(case, rng, rows)
    learner.learn(X, Y, weight)
    return learner, X, Y, weight


# -- the truth -------------------------------------------------------------------------------------


def test_buckets_are_those_of_plain_loops(rng):
    codes = np.array([[0, 1, 2**24 - 1], *rng.integers(0, 2**24, (50, 3))], float)
    for count in (1, 16, 2**14, 2**20):
        truth = [[naive.bucket(j, int(c), count) for j, c in enumerate(row)] for row in codes]
        assert core.buckets(codes, count).tolist() == truth
        assert numpy_hashed.buckets(codes, count).tolist() == truth


def test_buckets_are_spread_evenly():
    """Codes one after another, in several columns: hardly more collisions than chance has."""
    codes = np.stack([np.arange(500.0)] * 8, axis=1)
    used = len(np.unique(core.buckets(codes, 2**14)))
    chance = 2**14 * (1 - (1 - 2.0**-14) ** 4000)
    assert abs(used - chance) < 100


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_fast_path_equals_naive_twin(case, rng):
    """Sixteen buckets for many codes: most are shared, also within a row."""
    twins = rule_cases.build_hashed(case)
    learner, twin = twins.learner(), twins.twin
    X, Y, weight = stream(case, rng)
    truth, mean_truth = [], []
    scores, _ = learner.learn(X, Y, weight)
    for x, y, w in zip(X.astype(float), Y, weight, strict=True):
        mean_truth.append(twin.mean_score(x) if twin.t else [0.0] * twins.outputs)
        truth.append(twin.learn_one(x, list(y), w))
    close(scores, mean_truth if case["average"] else truth, 1e-9, "scores")
    probe = X[::7].astype(float)
    later = [twin.mean_score(x) if case["average"] else twin.score(x) for x in probe]
    close(learner.scores(probe), later, 1e-9, "later scores")
    assert learner.state[:, Field.UPDATES].tolist() == twin.updates
    if learner.rule.needs_norm:
        close(learner.state[:, Field.NORM2], twin.norm2(), 1e-9, "norm")


def one_hot(X, count):
    """The same rows in numbers alone: a column for each bucket."""
    hot = np.zeros((len(X), count))
    at = core.buckets(X[:, :K], count)
    for j in range(K):
        there = np.flatnonzero(at[:, j] >= 0)
        np.add.at(hot, (there, at[there, j]), 1.0)
    return np.hstack([hot, X[:, K:]])


RAW = [case for case in CASES if not case["scale"] and case["dtype"] == "float64"]


@pytest.mark.parametrize("case", RAW, ids=name_of)
def test_explicit_columns_are_the_same_learner(case, rng):
    twins = rule_cases.build_hashed(case)
    learner, count = twins.learner(), 16
    wide = start(twins.settings, count + 3, twins.outputs, np.float64)
    wide.rule = learner.rule  # whose default rates know how many columns there are
    X, Y, weight = stream(case, rng)
    scores, limits = learner.learn(X, Y, weight)
    truth, true_limits = wide.learn(one_hot(X, count), Y, weight)
    close(scores, truth, 1e-10, "scores")
    close(limits, true_limits, 1e-10, "limits")
    close(learner.codes.actual(learner.state), wide.theta[:, :count], 1e-10, "weights")
    if case["average"]:
        close(learner.codes.summed(learner.state), wide.total[:, :count], 1e-10, "past weights")


@pytest.mark.parametrize("rule", ["norma", "alma", "projection_ball", "romma"])
def test_terms_of_the_linear_kernel_are_the_same_learner(rng, rule):
    """Where no two codes share a bucket and none is missing, also while standardisation changes.

    There unequal codes are 2 apart.
    """
    case = plain(rule=rule, outputs=2)
    settings = rule_cases.build_hashed(case, 20).settings
    X, Y, weight = stream(case, rng)
    X[:, :K] += 1
    codes = np.unique(np.vstack([np.broadcast_to(np.arange(K), (ROWS, K)).ravel(),
                                 X[:, :K].ravel()]), axis=1)  # fmt: skip
    assert len(np.unique(core.buckets(X[:, :K], 2**20))) == codes.shape[1]
    terms = replace(settings, expansion=expansions.Window())
    scores = [
        start(s, K + 3, 2, np.float64, (2.0,) * K).learn(X, Y, weight)[0] for s in (settings, terms)
    ]
    close(scores[0], scores[1], 1e-9, "scores")


@pytest.mark.parametrize("shrink", [0.0, 1e-9, 0.5, 0.999])
def test_a_scale_that_falls_is_taken_into_the_weights(rng, shrink):
    """However fast f is forgotten, its average is exact."""
    memory = 1 / (1 - shrink) if shrink else 1.0
    rule = rules.Norma(learning_rate=1.0, memory=max(memory, 1.0 + 1e-12))
    settings = Settings(
        kernels.Linear(), losses.Logistic(), rule, expansions.Weights(bits=4), scale=False,
        average=True,
    )  # fmt: skip
    rows = size(300, 20_000, plain=2000)
    X = rule_cases.with_codes(rng.normal(size=(rows, 1)), rng)
    Y = np.where(rng.random((rows, 1)) < 0.5, 1.0, -1.0)
    learner = start(settings, K + 1, 1, np.float64, APART)
    wide = start(settings, 17, 1, np.float64)
    wide.rule = learner.rule
    scores, _ = learner.learn(X, Y, np.ones(rows))
    truth, _ = wide.learn(one_hot(X, 16), Y, np.ones(rows))
    close(scores, truth, 1e-9, "scores")
    assert SMALL_SCALE < learner.state[0, Field.SCALE] <= 1


# -- the same bits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES[:: size(3, 1)], ids=name_of)
def test_blocks_of_any_size_make_the_same_bits(case, rng):
    whole, X, Y, weight = learned(case, rng, bits=3)
    pieces = rule_cases.build_hashed(case, 3).learner()
    cuts = [0, 1, 2, 3, 20, 21, 50, ROWS]
    for first, last in itertools.pairwise(cuts):
        pieces.learn(X[first:last], Y[first:last], weight[first:last])
    assert bits(whole) == bits(pieces)


@pytest.mark.parametrize("case", CASES[:: size(3, 1)], ids=name_of)
def test_files_hold_every_bit(case, rng):
    learner, X, Y, weight = learned(case, rng)
    again = resumed(learner.settings, Saved(dump(learner)))
    assert bits(again) == bits(learner)
    for one in (learner, again):
        one.learn(X, Y, weight)
    assert bits(again) == bits(learner)


def test_files_that_are_no_tables_are_refused(rng):
    learner, *_ = learned(plain(average=True), rng)

    def with_field(name, change):
        held = dump(learner)
        held["codes"][name] = change(held["codes"][name])
        return Saved(held)

    for name, change in {
        "at": lambda a: a[::-1].copy(),
        "weights": lambda a: a[1:],
        "past": lambda a: np.full_like(a, np.nan),
        "marks": lambda a: -1.0 - a,
    }.items():
        with pytest.raises(ValueError, match=rf"codes\.{name}"):
            resumed(learner.settings, with_field(name, change))
    with pytest.raises(ValueError, match=r"codes\.at"):
        resumed(learner.settings, with_field("at", lambda a: a + 16))


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 60])
def test_a_refused_call_changes_nothing(rng, rows, average, scale):
    """The last row's step is too long, behind folds of the tables and refreshes of the frame."""
    case = plain(rule="norma_huber", outputs=3, average=average, scale=scale)
    learner, X, Y, weight = learned(case, rng, bits=2)
    before, kept = bits(learner), copy.deepcopy(learner)
    heavy = np.where(np.arange(rows) == rows - 1, 1e260, weight[:rows])
    with pytest.raises(ValueError, match=f"Row {rows - 1}"):
        learner.learn(X[:rows], Y[:rows] + 1e3, heavy)
    assert bits(learner) == before
    for one in (learner, kept):
        one.learn(X, Y, weight)
    assert bits(learner) == bits(kept)


def test_what_is_no_code_is_refused(rng):
    learner, X, Y, weight = learned(plain(), rng)
    for wrong in (-1.0, 0.5, 2.0**24, np.nan, np.inf):
        bad = X[:2].copy()
        bad[1, 2] = wrong
        with pytest.raises(ValueError, match="Row 1"):
            learner.learn(bad, Y[:2], weight[:2])
        with pytest.raises(ValueError, match="Row 1"):
            learner.scores(bad)


def test_p_norms_take_numbers_alone():
    settings = Settings(
        kernels.Linear(), losses.SoftMargin(), rules.Alma(), expansions.Weights(p=4.0)
    )
    with pytest.raises(ValueError, match=r"p=4\.0 takes numbers alone.*Use p=2"):
        start(settings, 5, 1, np.float64, (1.4,))


# -- outputs, merging, wider rows ------------------------------------------------------------------


def test_a_class_that_comes_late(rng):
    case = plain(rule="romma", outputs=1)
    learner, X, Y, _ = learned(case, rng)
    scores = learner.scores(X)
    learner.split_column()
    close(learner.scores(X), np.hstack([scores, -scores]), 1e-12, "split")
    learner.add_column()
    learner.arrange([2, 0, 1])
    close(learner.scores(X)[:, 1:], np.hstack([scores, -scores]), 1e-12, "arranged")
    learner.learn(X, np.tile(Y, (1, 3)) * [1.0, 1.0, -1.0], np.ones(len(X)))
    assert np.all(np.isfinite(learner.scores(X)))


@pytest.mark.parametrize("average", [False, True])
def test_mirrored_outputs(rng, average):
    learner, X, *_ = learned(plain(average=average), rng)
    scores = learner.scores(X)
    learner.mirror_column()
    close(learner.scores(X), -scores, 1e-12, "mirrored")


@pytest.mark.parametrize("rule", ["norma", "norma_huber", "projection_ball"])
@pytest.mark.parametrize("average", [False, True])
def test_merged_learners_add(rng, rule, average):
    case = plain(rule=rule, average=average, scale=False, outputs=2)
    learners = [learned(case, rng)[0] for _ in range(3)]
    X, *_ = stream(case, rng)
    weights = np.array([0.5, 0.2, 0.3])
    found = merged(learners, weights)
    wanted = np.sum([w * a.scores(X) for w, a in zip(weights, learners, strict=True)], axis=0)
    close(found.learner.scores(X), wanted, 1e-10, "sum")
    assert found.learner.size <= sum(a.size for a in learners)


def test_wider_rows_keep_what_codes_know(rng):
    learner, X, *_ = learned(plain(), rng)
    wide = learner.widened(np.array([7.0]))
    close(wide.scores(np.hstack([X, np.full((len(X), 1), 7.0)])), learner.scores(X), 1e-9, "wide")


def test_copies_are_independent(rng):
    learner, X, Y, weight = learned(plain(), rng)
    other, before = learner.copy(), bits(learner)
    other.learn(X, Y, weight)
    assert bits(learner) == before != bits(other)


# -- cost and reports ------------------------------------------------------------------------------


def test_numbers_alone_have_no_tables(rng):
    settings = rule_cases.build_hashed(plain(outputs=2)).settings
    learner = start(settings, 3, 2, np.float64)
    assert isinstance(learner, PrimalLearner)
    assert learner.codes.nbytes == 2 * 2 * 8 and learner.size == 3
    assert "codes" not in dump(learner)


def test_a_row_touches_its_own_buckets_alone(rng):
    """A block copies no table: what was there before is what is there now."""
    learner, X, Y, weight = learned(plain(scale=False), rng, bits=14)
    tables = learner.codes
    held = tables.weights.copy()
    learner.learn(X[:1], -Y[:1], weight[:1])
    assert learner.codes is tables
    moved = np.flatnonzero(np.any(tables.weights != held, axis=1))
    assert set(moved) <= set(core.buckets(X[:1, :K].astype(float), 2**14)[0].tolist())


def test_effects_add_up_to_the_score(rng):
    for case in (plain(rule="norma_huber", outputs=2), plain(average=True), plain(scale=False)):
        learner, X, *_ = learned(case, rng)
        for row in X[:5]:
            part, effect, base = learner.effects(row.astype(float))
            close(part.sum(axis=1) + base, learner.scores(row[None])[0], 1e-10, "parts")
            np.testing.assert_array_equal(part[:, :K], effect[:, :K])
            told = details(learner, row, np.eye(len(base))[0], None, 6, False)
            assert len(told.features) == X.shape[1]


def test_weights_in_use_are_counted(rng):
    learner, X, *_ = learned(plain(), rng, bits=14)
    assert isinstance(learner, Learner)
    distinct = len(np.unique(core.buckets(X[:, :K].astype(float), 2**14)))
    assert 3 < learner.size <= 3 + distinct
    assert learner.nbytes >= 8 * 2**14
    assert replace(learner.settings.expansion, bits=4).bits == 4
