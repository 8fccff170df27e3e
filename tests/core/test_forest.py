"""Sums over additive kernels in trees, against the plain formula term by term."""

from __future__ import annotations

import os
import subprocess
import sys
from math import exp
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from helpers.additive import KERNELS, Brownian, ask, both, grow, naive, naive_matrix, shuffle

from onkel import core
from onkel.core.forest import PlainForest, additive_matrix, forest
from onkel.core.split import ExpPoly, Poly

LEVELS = core.compiled.levels() if core.compiled else []
MAKERS = ["plain", *(["compiled"] if core.compiled else [])]


@pytest.fixture(params=MAKERS)
def make(request):
    return PlainForest if request.param == "plain" else forest


@pytest.mark.parametrize("name", KERNELS)
def test_split_is_the_kernel(rng, name):
    split = KERNELS[name]
    p, q = np.sort(rng.uniform(0, 5, size=(2, 200)), axis=0)
    truth = naive(split, p, q)
    for anchor in (p, (p + q) / 2, q):
        sides = np.sum(split.lower(p, anchor) * split.upper(q, anchor), axis=0)
        np.testing.assert_allclose(sides, truth, rtol=1e-12)
    np.testing.assert_allclose(split.values(q, p), truth, rtol=1e-13)
    assert split.lower(p, p).shape == (split.rank, 200)


def test_kernels_by_hand():
    one, two, three = np.array([[1.0], [2.0], [3.0]])
    assert Poly(1).values(two, three)[0] == pytest.approx(1 + 6 + 0.5 * 4 * 3 - 8 / 6)
    assert ExpPoly(2.0).values(one, three)[0] == pytest.approx(exp(-4))
    assert ExpPoly(2.0, (1, 1)).values(one, three)[0] == pytest.approx(5 * exp(-4))
    assert ExpPoly(2.0, (1, 1, 1 / 3)).values(three, one)[0] == pytest.approx(31 / 3 * exp(-4))


@pytest.fixture(params=LEVELS or ["numpy"])
def level(request):
    """Every instruction set that this processor has."""
    if not core.compiled:
        yield "numpy"
        return
    best = core.compiled.level()
    core.compiled.use_level(request.param)
    yield request.param
    core.compiled.use_level(best)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_every_kernel(rng, name, columns, level):
    split = KERNELS[name]
    trees, truth = pair = both(forest, [split, split], [1.0, 0.25], columns)
    grow(rng, pair, rng.uniform(0, 6, size=(1500, 2)))
    Q = rng.uniform(0, 7, size=(40, 2))
    truth.check(trees, Q)
    truth.check(trees, truth.X[:40])  # at the points themselves
    K = additive_matrix(truth.splits, truth.weights, Q, truth.X)
    np.testing.assert_allclose(K, naive_matrix(truth.splits, truth.weights, Q, truth.X), rtol=1e-13)


def test_coordinates_of_different_kinds(rng, make):
    splits = list(KERNELS.values())
    trees, truth = pair = both(make, splits, rng.uniform(0.1, 2, size=len(splits)), 2)
    grow(rng, pair, rng.uniform(0, 3, size=(1200, len(splits))))
    Q = rng.uniform(0, 4, size=(20, len(splits)))
    truth.check(trees, Q)
    K = additive_matrix(splits, truth.weights, Q, truth.X)
    np.testing.assert_allclose(K, naive_matrix(splits, truth.weights, Q, truth.X), rtol=1e-13)


ORDERS = {
    "sorted": lambda rng, n: np.sort(rng.normal(size=n)),
    "reversed": lambda rng, n: np.sort(rng.normal(size=n))[::-1],
    "random": lambda rng, n: rng.normal(size=n),
    "clusters": lambda rng, n: rng.integers(0, 4, size=n) * 100 + rng.normal(size=n) * 1e-6,
    "two values": lambda rng, n: rng.integers(0, 2, size=n) * 1.0,
    "one value": lambda rng, n: np.ones(n),
    "few values": lambda rng, n: np.round(rng.normal(size=n), 1),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ends", ["oldest", "newest", "random"])
def test_up_and_down_to_empty_and_up_again(rng, make, order, ends):
    pair = both(make, [ExpPoly(1.0)], [1.0], 1)
    trees, truth = pair
    for n in (3000, 700):
        X = np.ascontiguousarray(ORDERS[order](rng, n))[:, None]
        grow(rng, pair, X, block=500)
        queue = np.argsort(truth.ids)
        queue = {"oldest": queue, "newest": queue[::-1], "random": rng.permutation(n)}[ends]
        X, ids = truth.X[queue], truth.ids[queue]
        for i in range(0, n, 350):
            truth.check(trees, np.concatenate([X[:10], rng.normal(size=(10, 1)) * 3]))
            for one in pair:
                one.erase(X[i : i + 350], ids[i : i + 350])
        assert trees.count == 0
        assert not np.any(ask(trees, X[:5]))


@pytest.mark.parametrize("name", ["exponential", "matern32", "matern52"])
def test_far_from_zero_and_at_every_distance(rng, make, name):
    """|sigma x| up to 10^6 (and 10^9), points 10^-7 and 10^6 apart: e^{sigma x} would overflow."""
    split = KERNELS[name]
    base = np.concatenate([rng.uniform(-1e6, 1e6, 300), [1e9, -1e9, 0.0]])
    steps = np.concatenate([[0.0], 10.0 ** rng.uniform(-7, 3, size=4)])
    X = (base[:, None] + steps).reshape(-1, 1)
    pair = both(make, [split], [1.0], 1)
    grow(rng, pair, rng.permutation(X))
    Q = np.concatenate([X[::7], X[::7] + 1e-7, X[::7] - 3.0, X[::11] + 200.0])
    pair[1].check(pair[0], Q, 1e-11)


@pytest.mark.parametrize("name", KERNELS)
def test_sliding_window(rng, make, name):
    pair = both(make, [KERNELS[name]] * 2, [1.0, 2.0], 1)
    trees, truth = pair
    for _ in range(8):
        grow(rng, pair, np.abs(rng.normal(size=(300, 2))).cumsum(axis=0) % 5, block=300)
        excess = max(len(truth.ids) - 1000, 0)
        X, ids = truth.X[:excess].copy(), truth.ids[:excess].copy()
        for one in pair:
            one.erase(X, ids)
        truth.check(trees, rng.uniform(0, 6, size=(10, 2)))


@pytest.mark.parametrize("name", KERNELS)
def test_random_operations(rng, make, name):
    splits = [KERNELS[name], ExpPoly(3.0)]
    pair = both(make, splits, [1.0, 0.5], 2)
    for step in range(150):
        shuffle(rng, pair)
        if step % 10 == 0:
            pair[1].check(pair[0], rng.uniform(0, 5, size=(8, 2)))
    pair[1].check(pair[0], rng.uniform(0, 5, size=(50, 2)))


@pytest.mark.parametrize("name", KERNELS)
def test_rollback_restores_every_bit(rng, make, name):
    """And what comes after is as if nothing had been."""
    pair = both(make, [KERNELS[name]], [1.0], 2)
    grow(rng, pair, np.round(rng.uniform(0, 4, size=(900, 1)), 2))
    trees, truth = pair
    other = trees.copy()
    Q = rng.uniform(0, 5, size=(60, 1))
    before = ask(trees, Q)
    for wild in (0, 3, 40, 120):
        kept = (truth.X, truth.coef.copy(), truth.ids)
        trees.begin()
        assert trees.in_transaction
        for _ in range(wild):
            shuffle(rng, pair)
        if wild == 40:
            trees.clear()
        if wild == 120:
            trees.build(np.ones((3, 1)), np.ones((3, trees.columns)), np.arange(3))
            trees.erase(np.ones((1, 1)), np.array([1]))
        trees.rollback()
        truth.X, truth.coef, truth.ids = kept
        assert trees.columns == 2 and trees.count == other.count
        assert np.array_equal(ask(trees, Q), before)
    for part in np.array_split(np.arange(900), 9)[:7]:
        for one in (trees, other, truth):
            one.erase(kept[0][part], kept[2][part])
        more = np.random.default_rng(part[0]).uniform(0, 4, size=(50, 1))
        for one in (trees, other, truth):
            one.insert(more, np.ones((50, 2)), 10_000 + part[:50])
        assert np.array_equal(ask(trees, Q), ask(other, Q))
    truth.check(trees, Q)


def test_commit_keeps(rng, make):
    pair = both(make, [Poly(2)], [1.0], 1)
    for _ in range(20):
        pair[0].begin()
        for _ in range(3):
            shuffle(rng, pair)
        pair[1].check(pair[0], rng.uniform(0, 4, size=(9, 1)))
        pair[0].commit()
    pair[1].check(pair[0], rng.uniform(0, 4, size=(9, 1)))


def test_a_copy_goes_its_own_way(rng, make):
    pair = both(make, [ExpPoly(1.0, (1, 1))], [1.0], 1)
    grow(rng, pair, rng.normal(size=(800, 1)))
    Q = rng.normal(size=(20, 1))
    before, other = ask(pair[0], Q), pair[0].copy()
    for _ in range(30):
        shuffle(rng, pair)
    assert np.array_equal(ask(other, Q), before)
    other.clear()
    pair[1].check(pair[0], Q)


def test_build_is_insert(rng, make):
    split = ExpPoly(0.5)
    for n in (0, 1, 24, 25, 33, 600, 5000):
        X, ids = np.round(rng.normal(size=(n, 2)), 2), rng.permutation(n)
        coef = rng.normal(size=(n, 1))
        trees, truth = both(make, [split, split], [1.0, 1.0], 1)
        trees.build(X, coef, ids)
        truth.insert(X, coef, ids)
        truth.check(trees, rng.normal(size=(20, 2)))
        for one in (trees, truth):
            one.erase(X[: n // 2], ids[: n // 2])
        truth.check(trees, rng.normal(size=(20, 2)))


def test_erasing_from_a_sparse_and_a_full_neighbour_at_once(rng, make):
    """What is joined and split anew on the way must not hide the points still to be erased."""
    pair = both(make, [ExpPoly(1.0)], [1.0], 1)
    grow(rng, pair, np.repeat([0.0, 1.0], 300)[:, None] + rng.uniform(0, 0.9, size=(600, 1)))
    pair[0].build(pair[1].X, pair[1].coef, pair[1].ids)
    grow(rng, pair, rng.uniform(0, 0.9, size=(700, 1)), block=700)
    some = np.flatnonzero((pair[1].X[:, 0] > 1.2) | (pair[1].ids % 60 == 0))
    X, ids = pair[1].X[some], pair[1].ids[some]
    for one in pair:
        one.erase(X, ids)
    pair[1].check(pair[0], rng.uniform(-1, 3, size=(30, 1)))


def test_threads_give_the_same_bits(rng, make):
    trees, _ = pair = both(make, [ExpPoly(2.0), Poly(1)], [1.0, 1.0], 2)
    grow(rng, pair, rng.uniform(0, 3, size=(2000, 2)))
    Q = rng.uniform(0, 4, size=(333, 2))
    one = ask(trees, Q)
    assert np.array_equal(one, ask(trees, Q, threads=3))
    if make is forest and core.compiled:  # nor do they depend on the other rows
        assert np.array_equal(one[5:6], ask(trees, Q[5:6]))


def test_failed_calls_change_nothing(rng, make):
    trees, truth = pair = both(make, [ExpPoly(1.0)], [1.0], 1)
    grow(rng, pair, rng.normal(size=(400, 1)))
    Q = rng.normal(size=(20, 1))
    before = ask(trees, Q)
    X, ids = truth.X, truth.ids
    absent = np.where(ids == 399, 77_777, ids)
    twice = np.concatenate([ids[:50], ids[:1]])
    nan = np.full((1, 1), np.nan)
    calls = [
        lambda: trees.erase(X, absent),
        lambda: trees.erase(X[::-1].copy(), ids),
        lambda: trees.erase(np.concatenate([X[:50], X[:1]]), twice),
        lambda: trees.add(X, absent, np.ones((400, 1))),
        lambda: trees.insert(np.concatenate([X + 1, X[:1]]), np.ones((401, 1)), np.append(ids, 0)),
        lambda: trees.build(np.zeros((2, 1)), np.ones((2, 1)), np.zeros(2, np.int64)),
        lambda: trees.insert(nan, np.ones((1, 1)), np.array([9_999])),
        lambda: trees.insert(X[:3], np.ones((3, 2)), ids[:3]),
        lambda: trees.insert(X[:3], np.ones((3, 1)), ids[:2]),
        lambda: trees.remix(np.ones((2, 1))),
        lambda: trees.query(X, np.empty((400, 2))),
        lambda: trees.query(np.ones((4, 2)), np.empty((4, 1))),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="onkel core"):
            call()
        assert np.array_equal(ask(trees, Q), before) and trees.count == 400
    truth.check(trees, Q)


def test_a_call_that_fails_breaks_the_transaction(rng, make):
    trees, truth = pair = both(make, [ExpPoly(1.0)], [1.0], 1)
    grow(rng, pair, rng.normal(size=(300, 1)))
    Q = rng.normal(size=(20, 1))
    before = ask(trees, Q)
    for wrong in (trees.commit, trees.rollback):
        with pytest.raises(ValueError, match="no transaction"):
            wrong()
    trees.begin()
    with pytest.raises(ValueError, match="already open"):
        trees.begin()
    with pytest.raises(ValueError, match="not copied"):
        trees.copy()
    with pytest.raises(ValueError, match="no point"):
        trees.erase(truth.X, np.append(truth.ids[:-1], 77_777))
    for refused in (trees.commit, trees.clear, lambda: ask(trees, Q)):
        with pytest.raises(ValueError, match="roll it back"):
            refused()
    trees.rollback()
    assert np.array_equal(ask(trees, Q), before)
    trees.clear()
    assert trees.count == 0


def test_no_rows(make):
    trees = make([ExpPoly(1.0)], np.ones(1), 2)
    X, coef, ids = np.empty((0, 1)), np.empty((0, 2)), np.empty(0, np.int64)
    trees.insert(X, coef, ids)
    trees.add(X, ids, coef)
    trees.erase(X, ids)
    trees.build(X, coef, ids)
    assert ask(trees, X).shape == (0, 2)
    assert not np.any(ask(trees, np.ones((40, 1))))


@pytest.mark.skipif(not core.compiled, reason="of the compiled core, which has a lock")
def test_reading_while_another_thread_writes(rng):
    trees, _ = pair = both(forest, [ExpPoly(1.0)], [1.0], 1)
    grow(rng, pair, rng.normal(size=(500, 1)))
    before, Q = pair[1].coef.copy(), rng.normal(size=(100, 1))
    still, seen = ask(trees, Q), []
    reader = Thread(target=lambda: seen.extend(ask(trees, Q) for _ in range(50)))
    reader.start()
    for i in range(300):
        ids = np.arange(20) + 1000 * (i + 1)
        trees.insert(np.full((20, 1), 1e5), np.ones((20, 1)), ids)  # too far off to be felt
        trees.erase(np.full((20, 1), 1e5), ids)
    reader.join()
    assert len(seen) == 50
    for values in seen:
        np.testing.assert_allclose(values, still, atol=1e-12 * np.abs(before).sum())


OUT_OF_MEMORY = """
import resource, sys
import numpy as np
from onkel.core.forest import forest
from onkel.core.split import ExpPoly
rng = np.random.default_rng(0)
trees = forest([ExpPoly(1.0)] * 2, np.ones(2), 1)
X, ids = rng.normal(size=(400_000, 2)), np.arange(400_000)
coef, out, again = rng.normal(size=(400_000, 1)), np.empty((50, 1)), np.empty((50, 1))
trees.insert(X[:5000], coef[:5000], ids[:5000])
trees.query(X[:50], out)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 12_000_000, -1))
try:
    trees.insert(X[5000:], coef[5000:], ids[5000:])
    sys.exit("there was memory enough")
except MemoryError:
    pass
trees.query(X[:50], again)
assert np.array_equal(out, again) and trees.count == 5000
trees.erase(X[:4000], ids[:4000])
assert trees.count == 1000
"""


@pytest.mark.skipif(not core.compiled, reason="of the compiled core")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs to know its own memory")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="its memory has no limit")
def test_out_of_memory_rolls_back():
    subprocess.run([sys.executable, "-c", OUT_OF_MEMORY], check=True)


def test_users_own_split(rng):
    pair = both(forest, [Brownian(), ExpPoly(1.0)], [2.0, 1.0], 2)
    assert isinstance(pair[0], PlainForest)
    for _ in range(60):
        shuffle(rng, pair)
    grow(rng, pair, rng.uniform(0, 4, size=(1500, 2)), block=400)
    pair[1].check(pair[0], rng.uniform(0, 5, size=(30, 2)))
    X = rng.uniform(0, 3, size=(5, 2))
    K = additive_matrix([Brownian()] * 2, np.array([1.0, 3.0]), X, X)
    np.testing.assert_allclose(K, np.minimum(X[:, None], X[None]) @ [1.0, 3.0])


@pytest.mark.skipif(not core.compiled, reason="too slow in plain NumPy")
def test_a_million_operations_leave_no_error(rng):
    """Nothing drifts: what a branch says of a child is computed anew with every change."""
    window, block, total = 2000, 1000, 500_000
    X = np.round(rng.normal(size=(total, 1)), 3)
    coef = rng.normal(size=(total, 1)) * 10.0 ** rng.uniform(-6, 6, size=(total, 1))
    coef[-window:] = rng.normal(size=(window, 1))  # small, after much that was large
    trees, truth = both(forest, [ExpPoly(5.0, (1, 1))], [1.0], 1)
    for i in range(0, total, block):
        ids = np.arange(i, i + block)
        trees.insert(X[ids], coef[ids], ids)
        if i >= window:
            trees.erase(X[ids - window], ids - window)
    truth.insert(X[-window:], coef[-window:], np.arange(total - window, total))
    truth.check(trees, rng.normal(size=(50, 1)), 1e-14)


@pytest.mark.parametrize("plain", [False, True])
def test_a_layout_gives_the_same_bits_again(rng, plain):
    """Whatever insertions and deletions have made of the nodes."""
    split, weights = ExpPoly(1.0, (1.0, 1.0)), np.array([1.0, 0.5])
    make = PlainForest if plain else forest
    trees = make([split, split], weights, 2)
    X, coef = rng.normal(size=(3000, 2)), rng.normal(size=(3000, 2))
    ids = np.arange(3000)
    for part in np.array_split(ids, 40):
        trees.insert(X[part], coef[part], part)
    gone = rng.permutation(3000)[:1800]
    for part in np.array_split(gone, 30):
        trees.erase(X[part], part)
    left = np.setdiff1d(ids, gone)
    again = make([split, split], weights, 2)
    order = rng.permutation(left)
    again.build(X[order], coef[order], order, trees.layout())
    assert again.layout() == trees.layout()
    probe, a, b = rng.normal(size=(100, 2)), np.zeros((100, 2)), np.zeros((100, 2))
    trees.query(probe, a)
    again.query(probe, b)
    assert a.tobytes() == b.tobytes()
    for wrong in ([[[1200]]], [[[5, -5]]], [[]], [[[10**15]]], [[[2, 2], [2]]], [[[0] * 9, [9]]]):
        again.build(X[order], coef[order], order, wrong * 2)
        again.query(probe, b)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_the_choice_of_the_core_stays():
    """Importing the compiled module by its own name must not switch a run in plain NumPy."""
    code = (
        "import importlib.util, onkel.core as core\n"
        "if importlib.util.find_spec('onkel.core._native'): import onkel.core._native\n"
        "assert core.compiled is None and core.BACKEND == 'numpy' and not core.has_lane()"
    )
    env = {**os.environ, "ONKEL_PURE": "1"}
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=env, cwd=Path(core.__file__).parents[2]
    )
