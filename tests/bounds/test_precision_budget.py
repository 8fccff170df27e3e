"""The level of a promised precision: an identity for any answers, and the bound it gives."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onkel import bounds


def run(answers, share, rate, start, high):
    """The level in a plain loop: where it ends, and what its limit cut off."""
    level, unspent = math.log(start), 0.0
    for dismissed in answers:
        level += rate * (share - dismissed)
        if level > math.log(high):
            unspent, level = unspent + level - math.log(high), math.log(high)
    return level, unspent


@given(
    st.lists(st.booleans(), min_size=1, max_size=300), st.floats(0.05, 0.95), st.floats(1e-2, 2.0),
    st.floats(1e-4, 0.1), st.floats(1.0, 5.0),
)  # fmt: skip
def test_the_identity_holds_for_any_answers(answers, precision, rate, start, above):
    level, unspent = run(answers, 1 - precision, rate, start, start * above)
    if level < -690:
        return  # exp of it would be 0
    known = {"answered": len(answers), "precision": precision, "level_rate": rate, "start": start}
    end = min(math.exp(level), 1.0)
    exact = bounds.precision_budget(**known, lowest=1e-300, unspent=unspent, end=end)
    assert exact.bound == pytest.approx(sum(answers), abs=1e-9 * len(answers) / rate + 1e-7)


@pytest.mark.parametrize("late", [0, 1, 20])
def test_an_enemy_who_dismisses_all_runs_out_of_alerts(rng, late):
    """Rows have p of at least 1e-9; answers come so many alerts late."""
    precision, rate, start, lowest = 0.8, 0.25, 0.01, 1e-9
    level, waiting, dismissed, answered = math.log(start), 0, 0, 0
    for _ in range(5000):
        p = lowest * 10 ** (9 * rng.random())
        waiting += math.log(p) < level
        while waiting > late:
            waiting, dismissed, answered = waiting - 1, dismissed + 1, answered + 1
            level += rate * (1 - precision - 1)
    for _ in range(waiting):
        dismissed, answered, level = dismissed + 1, answered + 1, level - rate * precision
    told = bounds.precision_budget(
        answered=answered, precision=precision, level_rate=rate, start=start, lowest=lowest,
        waiting=late,
    )  # fmt: skip
    assert dismissed == answered <= told.bound
    assert answered > 0.5 * math.log(start / lowest) / rate  # the bound is not idle


@pytest.mark.parametrize("minds", [30, 400])
def test_who_changes_answers_dismisses_one_more_with_each(rng, minds):
    """All alerts are dismissed, but the first so many: those only when no other comes any more."""
    precision, rate, start, lowest, high = 0.8, 0.25, 0.01, 1e-9, 0.04
    level, unspent, answered = math.log(start), 0.0, 0
    for _ in range(5000):
        if math.log(lowest * 10 ** (9 * rng.random())) < level:
            level += rate * (1 - precision - (answered >= minds))
            unspent, level = unspent + max(level - math.log(high), 0.0), min(level, math.log(high))
            answered += 1
    known = {"answered": answered, "precision": precision, "level_rate": rate, "start": start}
    told = bounds.precision_budget(**known, lowest=lowest, unspent=unspent)
    assert answered - minds <= told.bound
    assert told.bound < answered <= told.bound + minds  # all are dismissed now
    level -= rate * minds
    if level > -690:
        exact = bounds.precision_budget(
            **known, lowest=1e-300, unspent=unspent, end=math.exp(level)
        )
        assert exact.bound == pytest.approx(answered)
