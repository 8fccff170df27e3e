"""Every kernel function, loss and rule on the device beside the NumPy core in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.on_gpu import DEVICE, fewer, torch
from helpers.sizes import size, some
from helpers.steps_on_device import cases, compare, device, first_state, reference, simulate

from onkel.gpu.launch import MODES

ROWS, BLOCK = size((24, 16), (fewer(110), fewer(64)))
CASES = cases(quick=False)


def streams(case, rng):
    """Rows and targets for a case."""
    _, _, loss, rule, outputs, _ = case
    X = rng.normal(size=(ROWS, 5)).astype(np.float32)
    Y = np.sign(X[:, :1] * X[:, 1:2] + 0.3 * rng.normal(size=(ROWS, outputs)))
    if loss.task == "regression":
        Y = np.sin(X[:, :1]) + 0.2 * rng.normal(size=(ROWS, outputs))
    return X, Y, rule.bind(loss)


def compared(case, rng, cap, age, precision, weight):
    """Whether scores and state are those of the NumPy core."""
    name, kernel, loss, _, outputs, intercept = case
    X, Y, bound = streams(case, rng)
    args = kernel, loss, bound, X, Y, weight, cap, age, intercept
    want = reference(*args, first_state(loss, bound, outputs))
    got = simulate(*args, MODES[precision], BLOCK)
    return compare(f"{name} {precision}", got, want, 1e-4)


BY_AGE = CASES[:: size(18, 6)]
FEW = some(CASES, times=1, levels=lambda case: [type(case[2]), type(case[3]), case[4] > 1])
FEW = FEW[:: size(4, 1)]


@pytest.mark.parametrize("case", FEW, ids=[c[0].replace(" ", "_") for c in FEW])
def test_steps_of_a_full_window(case, rng):
    """Terms go as others come, across blocks."""
    assert compared(case, rng, cap=BLOCK, age=10**9, precision="tf32x3", weight=np.ones(ROWS))


@pytest.mark.parametrize("case", BY_AGE, ids=[c[0].replace(" ", "_") for c in BY_AGE])
def test_steps_by_age_with_weights(case, rng):
    """Terms go by age, rows have weights."""
    weight = rng.uniform(0.5, 1.5, ROWS)
    assert compared(case, rng, cap=10**6, age=BLOCK + 5, precision="float32", weight=weight)


def test_tf32_is_near(rng):
    """One TF32 product: the same to about three digits."""
    case = CASES[9]  # logistic: no decisions that rounding could turn
    _, kernel, loss, _, outputs, intercept = case
    X, Y, bound = streams(case, rng)
    args = kernel, loss, bound, X, Y, np.ones(ROWS), 10**6, 10**9, intercept
    want = reference(*args, first_state(loss, bound, outputs))
    got = simulate(*args, MODES["tf32"], BLOCK)
    assert 1e-6 < np.abs(got[0] - want["score"]).max() < 2e-3


@pytest.mark.long
def test_the_same_bits_again(rng):
    """The same calls give the same bits."""
    case = CASES[0]
    _, kernel, loss, _, _, intercept = case
    X, Y, bound = streams(case, rng)
    args = kernel, loss, bound, X, Y, np.ones(ROWS), 40, 10**9, intercept, 2, BLOCK
    first, second = simulate(*args), simulate(*args)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_device():
    """The tests run where they say."""
    assert device() == DEVICE
    assert torch.ones(1, device=DEVICE).item() == 1
