"""Misses of intervals that follow them: an identity on any stream, and the bounds it gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.sizes import size
from hypothesis import given
from hypothesis import strategies as st

from onkel import bounds
from onkel.core.widths import NARROWEST, RATE, WIDEST
from onkel.learner.widths import Widths


def run(errors, nu, rate, low, high):
    """The width in a plain loop: misses, where log q ends, and what its limits cut off."""
    q = math.log(min(max(-math.log(nu), low), high))
    misses, forgiven, unspent = 0, 0.0, 0.0
    for error in errors:
        miss = error(math.exp(q)) if callable(error) else error > math.exp(q)
        misses += miss
        q += rate * (miss - nu)
        if q > math.log(high):
            forgiven, q = forgiven + q - math.log(high), math.log(high)
        if q < math.log(low):
            unspent, q = unspent + math.log(low) - q, math.log(low)
    return misses, q, forgiven, unspent


def check(errors, nu, rate, low, high):
    misses, q, forgiven, unspent = run(errors, nu, rate, low, high)
    known = {"trials": len(errors), "nu": nu, "width_rate": rate, "narrowest": low, "widest": high}
    cut = {"forgiven": forgiven, "unspent": unspent}
    noise = 1e-9 * len(errors) / rate + 1e-9
    last = min(max(math.exp(q), low), high)
    exact = bounds.interval_misses(**known, **cut, last=last).bound
    assert exact == pytest.approx(misses, abs=noise)
    told = bounds.interval_misses(**known, **cut)
    assert told.details["least"] - noise <= misses <= told.bound + noise
    assert told.details["promised"] == nu * len(errors)
    return misses, told


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=300),
    st.floats(0.001, 0.9), st.floats(1e-3, 2.0), st.floats(1e-4, 0.01), st.floats(5.0, 1e5),
)  # fmt: skip
def test_the_identity_holds_for_any_errors(errors, nu, rate, low, high):
    check(errors, nu, rate, low, high)


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5])
def test_streams_that_want_to_break_it(rng, nu):
    """Errors that grow, that vanish, without a mean, and an enemy who misses while he can."""
    T = size(3000, 30_000, plain=3000)
    for errors in (np.exp(0.01 * np.arange(T)), np.zeros(T), np.abs(rng.standard_cauchy(T)),
                   np.where(np.arange(T) // 500 % 2, 10.0, 0.1)):  # fmt: skip
        check(errors.tolist(), nu, RATE, NARROWEST, WIDEST)
    misses, told = check([lambda q: q < WIDEST] * T, nu, RATE, NARROWEST, WIDEST)
    assert misses >= 0.9 * told.bound - 2


def test_the_most_by_which_bounded_errors_exceed_it(rng):
    """No error beyond r units: (log(r / q_0) + rate) / rate misses on top, whatever the order."""
    for seed in range(20):
        r = 10 ** rng.uniform(-1, 3)
        errors = r * rng.uniform(size=2000) ** rng.uniform(0.1, 4)
        errors = np.sort(errors) if seed % 2 else errors
        misses, _, forgiven, unspent = run(errors.tolist(), 0.1, RATE, NARROWEST, WIDEST)
        most = max(math.log(r / -math.log(0.1)), 0.0) + RATE
        assert misses <= 200 + (most - unspent) / RATE + 1e-6
        assert forgiven == 0.0


@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_widths_count_what_the_identity_needs(rng, nu):
    """Any answers, members apart or not, errors of any size: the units do not matter."""
    n = size(2000, 20_000, plain=2000)
    answers, apart = rng.normal(size=(n, 3)) * 100, np.abs(rng.standard_cauchy((n, 3)))
    errors = (
        np.abs(rng.standard_t(1.5, size=(n, 3))) * np.exp(3 * np.sin(np.arange(n) / 99))[:, None]
    )
    errors[:, 2] *= rng.random(n) < 0.01
    widths = Widths(3, nu)
    found = widths.follow(answers, apart, errors)
    np.testing.assert_array_equal(widths.of("missed"), (errors > found).sum(axis=0))
    for c in range(3):
        known = {"trials": n, "nu": nu, "width_rate": RATE, "narrowest": NARROWEST,
                 "widest": WIDEST, "forgiven": float(widths.of("forgiven")[c]),
                 "unspent": float(widths.of("unspent")[c])}  # fmt: skip
        last = float(np.clip(np.exp(widths.of("log_q")[c]), NARROWEST, WIDEST))
        count = widths.of("missed")[c]
        assert bounds.interval_misses(**known, last=last).bound == pytest.approx(count, abs=1e-5)
        told = bounds.interval_misses(**known)
        assert told.details["least"] - 1e-6 <= count <= told.bound + 1e-6
    np.testing.assert_allclose(widths.owed(), widths.of("missed") - nu * n, atol=1e-6)
