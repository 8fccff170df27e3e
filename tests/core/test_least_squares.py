"""Recursive least squares: the two cores, plain loops, and least squares at once; features of P."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest

from onkel import core
from onkel.core import covariance, numpy_least_squares
from onkel.core.layout import Field

CASES = {
    "plain": {},
    "forgetting": {"keep": 0.9},
    "forgetting to its cap": {"keep": 0.2},
    "weights": {"weighted": True},
    "huber": {"clip": 0.3},
    "outputs": {"outputs": 3},
    "late outputs": {"outputs": 3, "gaps": True, "keep": 0.95},
    "all": {"outputs": 2, "gaps": True, "keep": 0.8, "weighted": True, "clip": 0.5},
}


def task_of(rng, rows=60, size=4, outputs=1, keep=1.0, weighted=False, clip=math.inf, gaps=False,
            ridge=0.01):  # fmt: skip
    """Rows of features and a 1, targets that they nearly make."""
    x = np.column_stack([rng.normal(size=(rows, size - 1)), np.ones(rows)])
    x[rows // 2 : rows // 2 + 8, 0] = 0.0  # nothing of a feature for a while
    y = x @ rng.normal(size=(size, outputs)) + 0.3 * rng.normal(size=(rows, outputs))
    if gaps:
        y[: rows // 3, -1] = np.nan
    weight = rng.uniform(0.2, 2.0, rows) if weighted else np.ones(rows)
    weight[5] = 0.0 if weighted else 1.0
    return core.SquaresInput(
        x=x, y=y, weight=weight, keep=np.full(rows, keep), clip=clip, most=1 / ridge, horizon=20.0,
        longest=1e150,
    )  # fmt: skip


def start(task):
    """State, weights and P before the first row."""
    size, outputs = task.x.shape[1], task.y.shape[1]
    return [
        np.zeros((outputs, len(Field))), np.zeros((outputs, size)),
        covariance.prior(size, task.most),
    ]  # fmt: skip


def learned(task, rows=slice(None), held=None):
    """What was held, changed in place, and what is shown before each row."""
    held = start(task) if held is None else held
    part = {name: getattr(task, name)[rows] for name in ("x", "y", "weight", "keep")}
    score, limit, bad = core.least_squares(core.SquaresInput(**{**vars(task), **part}), *held)
    return held, score, limit, bad


def plainly(task):
    """The naive twin, and what it shows."""
    twin = naive.LeastSquares(
        task.x.shape[1], 1 / task.most, task.y.shape[1], task.clip, task.horizon
    )
    shown = [
        twin.learn(x, [None if math.isnan(v) else v for v in y], weight, keep)
        for x, y, weight, keep in zip(
            task.x, task.y.tolist(), task.weight, task.keep, strict=True
        )
    ]  # fmt: skip
    return twin, [np.array(part) for part in zip(*shown, strict=True)]


@pytest.fixture(params=["the core", "NumPy"])
def cores(request, monkeypatch):
    """Each of the two cores in turn."""
    if request.param == "NumPy":
        if not core.has_lane():
            pytest.skip("there is no other core")
        monkeypatch.setattr(core, "has_lane", lambda: False)


@pytest.mark.parametrize("case", CASES)
def test_against_plain_loops(case, cores, rng):
    task = task_of(rng, **CASES[case])
    (state, theta, cov), score, limit, bad = learned(task)
    twin, (truth, spreads) = plainly(task)
    truth[np.isnan(task.y)] = 0.0  # an output that is not there yet
    assert bad == -1
    np.testing.assert_allclose(score, truth, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(limit, spreads, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(theta, twin.theta, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(cov, naive.inverse(twin.R), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(state[:, Field.THRESHOLD], twin.noise, rtol=1e-9)
    np.testing.assert_array_equal(state[:, Field.TRIALS], twin.rows)
    assert np.array_equal(cov, cov.T) and np.diagonal(cov).max() <= task.most * (1 + 1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_least_squares_on_all_rows_where_nothing_is_forgotten(weighted, cores, rng):
    task = task_of(rng, rows=40, outputs=2, weighted=weighted, ridge=1e-3)
    held = start(task)
    for t in range(len(task.y)):
        learned(task, slice(t, t + 1), held)
        for c in range(2):
            truth = naive.ridge_solution(
                task.x[: t + 1], task.y[: t + 1, c], 1e-3, task.weight[: t + 1]
            )
            np.testing.assert_allclose(held[1][c], truth, rtol=1e-7, atol=1e-8)


def test_cuts_do_not_matter(cores, rng):
    task = task_of(rng, rows=300, size=20, **CASES["all"])
    (state, theta, cov), score, limit, _ = learned(task)
    held = start(task)
    parts = [learned(task, slice(i, i + 7), held)[1:3] for i in range(0, 300, 7)]
    np.testing.assert_allclose(np.vstack([p[0] for p in parts]), score, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(np.vstack([p[1] for p in parts]), limit, rtol=1e-8, atol=1e-9)
    for one, other in zip(held, (state, theta, cov), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8)


@pytest.mark.skipif(not core.has_lane(), reason="needs the compiled core")
@pytest.mark.parametrize("size", [2, 7, 64, 130])
def test_the_two_cores_agree(size, rng):
    task = task_of(rng, rows=400, size=size, **CASES["all"], ridge=1e-6)
    held, score, limit, bad = learned(task)
    other = start(task)
    shown = np.zeros((2, *task.y.shape))
    assert bad == numpy_least_squares.least_squares(task, *other, *shown) == -1
    np.testing.assert_allclose(score, shown[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(limit, shown[1], rtol=1e-6, atol=1e-6)
    for one, two in zip(held[:2], other[:2], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(held[2], other[2], rtol=1e-5, atol=1e-7)
    assert np.array_equal(held[2], held[2].T)


@pytest.mark.parametrize(
    ("where", "value"), [("x", math.nan), ("x", math.inf), ("x", 1e200), ("y", 1e160)]
)
def test_the_first_bad_row_is_named_and_the_rows_before_it_are_learned(where, value, cores, rng):
    task = task_of(rng, rows=30)
    getattr(task, where)[17, 0] = value
    held, *_, bad = learned(task)
    assert bad == 17
    before, *_, bad = learned(task, slice(0, 17))
    assert bad == -1
    for one, other in zip(held, before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_a_step_may_not_be_too_long(cores, rng):
    task = task_of(rng, rows=30)
    task.longest = 100.0
    task.y[11] = 1e9
    assert learned(task)[3] == 11


def test_no_rows(cores, rng):
    task = task_of(rng)
    held, score, limit, bad = learned(task, slice(0, 0))
    assert bad == -1 and score.shape == limit.shape == (0, 1) and not held[1].any()


# -- features that come and go -----------------------------------------------------------------


def solved(rng, size=6, rows=30, ridge=0.1):
    """Least squares: rows, targets, weights and P."""
    task = task_of(rng, rows=rows, size=size, outputs=2, ridge=ridge)
    R = task.x.T @ task.x + ridge * np.eye(size)
    cov = np.linalg.inv(R)
    return task, (cov @ task.x.T @ task.y).T, (cov + cov.T) / 2


def risk(task, theta, ridge=0.1):
    """The sum of squares, and the ridge."""
    return np.square(task.y - task.x @ theta.T).sum() + ridge * np.square(theta).sum()


@pytest.mark.parametrize("which", [[0], [3, 1], [0, 2, 4]])
def test_without_features_it_is_the_least_squares_without_them(which, rng):
    task, theta, cov = solved(rng)
    found, P, cost = covariance.without(theta, cov, np.array(which))
    stay = np.setdiff1d(np.arange(6), which)
    x = task.x[:, stay]
    R = x.T @ x + 0.1 * np.eye(len(stay))
    np.testing.assert_allclose(P, np.linalg.inv(R), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found, np.linalg.solve(R, x.T @ task.y).T, rtol=1e-8, atol=1e-10)
    kept = np.zeros_like(theta)
    kept[:, stay] = found
    assert cost == pytest.approx(risk(task, kept) - risk(task, theta), rel=1e-8)
    assert np.array_equal(P, P.T)
    if len(which) == 1:
        assert covariance.costs(theta, cov)[which[0]] == pytest.approx(cost)


def test_the_naive_twin_lets_a_feature_go_likewise(rng):
    task = task_of(rng, outputs=2)
    twin, _ = plainly(task)
    held, *_ = learned(task)
    theta, cov, _ = covariance.without(held[1], held[2], np.array([1]))
    twin.without(1)
    np.testing.assert_allclose(theta, twin.theta, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(cov, naive.inverse(twin.R), rtol=1e-8, atol=1e-12)


def test_a_feature_more_is_the_least_squares_in_which_it_was_0_so_far(rng):
    task, theta, cov = solved(rng)
    wide = np.insert(task.x, 4, 0.0, axis=1)
    truth = np.linalg.inv(wide.T @ wide + 0.1 * np.eye(7))
    found, P = covariance.with_feature(theta, cov, 4, 10.0)
    np.testing.assert_allclose(P, truth, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found, (truth @ wide.T @ task.y).T, rtol=1e-9, atol=1e-10)


def test_features_like_others_leave_f_as_it_is(rng):
    task, theta, cov = solved(rng)
    held = rng.normal(size=(4, 3))  # of the first four, behind which the new ones come
    found, P = covariance.with_like(theta, cov, held, 0.01, most=10.0)
    fresh = rng.normal(size=(len(task.x), 3))
    wide = np.hstack([task.x[:, :4], fresh, task.x[:, 4:]])
    np.testing.assert_array_equal(wide @ found.T, np.hstack(
        [task.x[:, :4], task.x[:, 4:]]) @ theta.T)  # fmt: skip
    assert np.array_equal(P, P.T) and np.linalg.eigvalsh(P).min() > 0
    made = np.hstack([task.x[:, :4], task.x[:, :4] @ held, task.x[:, 4:]])
    before = np.einsum("ij,jk,ik->i", task.x, cov, task.x)
    np.testing.assert_allclose(np.einsum("ij,jk,ik->i", made, P, made), before, rtol=1e-9)


def test_no_weight_becomes_vaguer_than_at_first(rng):
    _, theta, cov = solved(rng)
    _, P = covariance.with_like(theta, cov, 30 * rng.normal(size=(4, 3)), 5.0, most=10.0)
    assert np.diagonal(P).max() <= 10.0 * (1 + 1e-12) and np.linalg.eigvalsh(P).min() > 0


def test_what_rounding_has_bent_is_mended(rng):
    _, _, cov = solved(rng)
    assert covariance.mended(cov, 10.0) is cov
    root = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    bent = (root * np.r_[-1e-9, 1e-6, 1, 1, 5, 9]) @ root.T
    bent = (bent + bent.T) / 2
    found = covariance.mended(bent, 10.0)
    assert np.linalg.eigvalsh(found).min() > 0 and np.abs(found - bent).max() < 1e-6
    np.testing.assert_array_equal(
        covariance.mended(np.full((3, 3), np.nan), 10.0), 10.0 * np.eye(3)
    )
