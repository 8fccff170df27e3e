"""Sums for several kernels at once against plain loops; steps against those of one kernel."""

from __future__ import annotations

import naive
import numpy as np
import pytest

from onkel import core, kernels, losses, rules
from onkel.core import bank
from onkel.core.frame import Frame
from onkel.core.layout import LANES, Field

KERNELS = [
    (kernels.Gaussian(0.3), naive.gaussian(0.3)),
    (kernels.Gaussian(1.2), naive.gaussian(1.2)),  # two squarings of the first
    (kernels.Gaussian(1.3), naive.gaussian(1.3)),
    (kernels.Laplacian(0.1), naive.laplacian(0.1)),
    (kernels.Laplacian(0.2), naive.laplacian(0.2)),
    (kernels.Laplacian(3.2), naive.laplacian(3.2)),
    (kernels.Matern(1.5, 2.0), naive.matern(1.5, 2.0)),
    (0.5 * kernels.Gaussian(0.3) + kernels.Laplacian(0.1),
     naive.add(naive.scaled(0.5, naive.gaussian(0.3)), naive.laplacian(0.1))),
]  # fmt: skip


def ring_of(rng, terms, columns, d, dtype):
    """Terms in panels, as DenseTerms lays them."""
    panels = -(-terms // LANES)
    frame = Frame.plain(np.zeros(d), dtype, True)
    rows = np.zeros((panels * LANES, d))
    rows[:terms] = rng.normal(size=(terms, d))
    coef = np.zeros((panels * LANES, columns))
    coef[:terms] = rng.normal(size=(terms, columns))
    packed = np.ascontiguousarray(rows.reshape(panels, LANES, d).transpose(0, 2, 1), dtype)
    weights = np.ascontiguousarray(coef.reshape(panels, LANES, columns).transpose(0, 2, 1), dtype)
    norms = frame.norms(rows.astype(dtype)).reshape(panels, LANES)
    return frame, rows[:terms], coef[:terms], bank.Panels(packed, norms, 0, panels, weights)


@pytest.mark.few
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "d"), [(1, 3), (2, 7), (8, 3), (21, 7)])
def test_sums(rng, dtype, rows, d):
    """Every kernel has one or two columns of its own."""
    counts = [1 + i % 2 for i in range(len(KERNELS))]
    ends = np.cumsum(counts).tolist()
    frame, terms, coef, ring = ring_of(rng, 1100, ends[-1], d, dtype)
    X = rng.normal(size=(rows, d))
    programs = [k.program() for k, _ in KERNELS]
    found = bank.sums(programs, ends, frame.prepare(X), ring)
    for i in (0, rows - 1):
        start = 0
        for (_, kernel), stop in zip(KERNELS, ends, strict=True):
            values = np.array([kernel(X[i], z) for z in terms])
            want = values @ coef[:, start:stop]
            tolerance = 3e-4 if dtype == np.float32 else 1e-11
            np.testing.assert_allclose(found[i, start:stop], want, atol=tolerance)
            start = stop
    shared = bank.sums(programs, ends, frame.prepare(X), ring, threads=3)
    assert np.array_equal(shared, found)


def task_of(rng, rows=40, outputs=2):
    hinge, logistic = losses.SoftMargin(), losses.Logistic()
    members = [
        bank.MemberStepper(hinge, rules.Norma(0.3, memory=50).bind(hinge), True, 0),
        bank.MemberStepper(hinge, rules.Projection().bind(hinge), False, 0),
        bank.MemberStepper(logistic, rules.Norma(0.9, regularization=0.0).bind(logistic), False, 1),
    ]
    programs = [kernels.Gaussian(0.3).program(), kernels.Gaussian(1.2).program()]
    frame, _, _, ring = ring_of(rng, 100, 3 * outputs, 4, np.float64)
    state = np.zeros((3 * outputs, len(Field)))
    state[:, Field.SCALE] = 0.5
    state[:, Field.THRESHOLD] = 1.0
    trials = 101 + np.arange(rows)
    return bank.BankInput(
        programs, members, frame.prepare(rng.normal(size=(rows, 4))), ring, 101,
        np.where(rng.uniform(size=(rows, outputs)) < 0.5, 1.0, -1.0), np.ones(rows),
        np.array([m.rule.rates(trials) for m in members]),
        np.array([m.rule.lams(trials) for m in members]), np.ones((2, rows)), state,
    )  # fmt: skip


def test_steps_are_those_of_each_member(rng):
    """Compiled in one call, or put together from the functions of one kernel: the same."""
    task = task_of(rng)
    state = task.state.copy()
    one, other = bank.steps(task), bank._by_hand(task)
    for name in ("state", "score", "limit", "coef"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-12)
    assert np.array_equal(one.kept, other.kept)
    assert (one.done, one.bad_row) == (other.done, other.bad_row) == (40, -1)
    assert np.array_equal(task.state, state)
    few = bank.steps(task.part(7))
    np.testing.assert_allclose(few.score, one.score[:7], atol=1e-12)


def test_a_step_that_leaves_the_range_is_told(rng):
    task = task_of(rng)
    task.eta[2, 5] = 1e160
    one, other = bank.steps(task), bank._by_hand(task)
    assert one.bad_row == other.bad_row == 5
    assert one.done == other.done == 6


@pytest.mark.skipif(not core.has_lane(), reason="the compiled core checks its arrays")
def test_wrong_shapes_are_refused(rng):
    task = task_of(rng)
    task.weight = np.ones(3)
    with pytest.raises(ValueError, match="one number per row"):
        bank.steps(task)
