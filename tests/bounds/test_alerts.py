"""The alerts of a level with bounded debt: an identity on any stream, and the bounds it gives."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from helpers.detector_streams import SMALL, STREAMS, learn
from helpers.sizes import size
from hypothesis import given
from hypothesis import strategies as st

from onkel import bounds
from onkel.core.density_table import Count, Level


def run(alerts, nu, rate, low, high):
    """The level in a plain loop: where it ends, and what its limits cut off."""
    level, forgiven, unspent, at_floor = math.log(nu), 0.0, 0.0, 0
    for alert in alerts:
        at_floor += alert and level - rate * (1 - nu) < math.log(low)
        level += rate * (nu - alert)
        if level < math.log(low):
            forgiven, level = forgiven + math.log(low) - level, math.log(low)
        if level > math.log(high):
            unspent, level = unspent + level - math.log(high), math.log(high)
    return level, forgiven, unspent, at_floor


def check(alerts, nu, rate, low, high):
    level, forgiven, unspent, at_floor = run(alerts, nu, rate, low, high)
    known = {"trials": len(alerts), "nu": nu, "level_rate": rate, "low": low, "high": high}
    cut = {"forgiven": forgiven, "unspent": unspent}
    count, noise = sum(alerts), 1e-9 * len(alerts) / rate
    end = min(max(math.exp(level), low), high)
    exact = bounds.alert_budget(**known, **cut, end=end).bound
    assert exact == pytest.approx(count, abs=noise + 1e-9)
    told = bounds.alert_budget(**known, **cut)
    assert told.details["least"] - noise <= count <= told.bound + noise
    before = bounds.alert_budget(**known)
    assert count <= before.bound + (1 - nu) * at_floor + noise
    assert count >= before.details["least"] - unspent / rate - noise
    assert told.details["promised"] == nu * len(alerts)
    return told


@given(
    st.lists(st.booleans(), min_size=1, max_size=300),
    st.floats(0.001, 0.5), st.floats(1e-3, 2.0), st.floats(0.01, 1.0), st.floats(1.0, 2.0),
)  # fmt: skip
def test_the_identity_holds_for_any_alerts(alerts, nu, rate, below, above):
    check(alerts, nu, rate, nu * below, nu * above)


@pytest.mark.parametrize("rate", [0.01, 0.3])
def test_streams_that_want_to_break_it(rng, rate):
    """All, none, in bursts, and an enemy who alerts where the level is high."""
    T, limits = size(2000, 20_000, plain=4000), (0.01, rate, 0.002, 0.03)
    burst = (np.arange(T) // 400 % 3 == 0).tolist()
    for alerts in ([True] * T, [False] * T, burst, (rng.random(T) < 0.01).tolist()):
        check(alerts, *limits)
    level, enemy = math.log(0.01), []
    for _ in range(T):
        enemy.append(level > math.log(0.002))
        level = max(math.log(0.002), min(level + rate * (0.01 - enemy[-1]), math.log(0.03)))
    told = check(enemy, *limits)
    assert sum(enemy) >= 0.9 * told.bound


def test_a_fault_costs_so_much_and_no_more():
    """After a fault of any length the debt is the same, and paid back at the promised rate."""
    ends = {run([True] * fault, 0.01, 0.01, 0.002, 0.03)[0] for fault in (200, 1000, 9000)}
    assert ends == {math.log(0.002)}
    told = bounds.alert_budget(trials=1, nu=0.01, level_rate=0.01, low=0.002, high=0.03)
    assert told.details["debt"] == pytest.approx(math.log(5) / 0.01)


@pytest.mark.parametrize("name", ["faulty", "spiked", "any order", "walk", "all constant"])
def test_the_core_counts_what_the_identity_needs(rng, name):
    plan = dataclasses.replace(SMALL, rate=0.05)
    state, said, _ = learn(plan, STREAMS[name](rng, size(300, 3000, plain=300)))
    real, trials = state.real, int(state.whole[Count.JUDGED])
    known = {"trials": trials, "nu": plan.nu, "level_rate": plan.rate, "low": plan.low,
             "high": plan.high, "forgiven": float(real[Level.FORGIVEN]),
             "unspent": float(real[Level.UNSPENT])}  # fmt: skip
    end = min(max(math.exp(real[Level.LOG_ALPHA]), plan.low), plan.high)
    count = state.whole[Count.ALERTS]
    assert count == said[:, 2].sum() and trials == len(said) - plan.warmup
    assert bounds.alert_budget(**known, end=end).bound == pytest.approx(count, abs=1e-6)
    told = bounds.alert_budget(**known)
    assert told.details["least"] - 1e-6 <= count <= told.bound + 1e-6
