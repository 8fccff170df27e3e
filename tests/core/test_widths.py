"""Widths of intervals: compiled against the twin, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from onkel import core
from onkel.core import widths
from onkel.core.widths import KEPT, Width, follow, now

pytestmark = pytest.mark.skipif(not core.has_lane(), reason="needs the compiled core")


def rows(rng, n=500, targets=3):
    """Answers, members apart and errors of all sizes; some are 0."""
    found = rng.normal(size=(3, n, targets)) * 10.0 ** rng.uniform(-3, 3, size=(3, 1, targets))
    found[1:] = np.abs(found[1:]) * (rng.random((2, n, targets)) < 0.9)
    found[:, :, -1] = 0.0
    return found


@pytest.mark.parametrize("nu", [0.01, 0.1, 0.7])
def test_compiled_is_the_twin(rng, nu, monkeypatch):
    answers, apart, errors = rows(rng)
    start = np.tile([np.log(2.0), np.log(2.0), *[0.0] * 3, 1.0, *[0.0] * 6], (3, 1))
    states, found, later = [], [], []
    for compiled in (True, False):
        monkeypatch.setattr(widths.core, "has_lane", lambda on=compiled: on)
        state = start.copy()
        parts = [slice(0, 1), slice(1, 2), slice(2, 300), slice(300, None)]
        found.append([
            follow(state, answers[p], apart[p], errors[p], nu, p.start) for p in parts
        ])  # fmt: skip
        states.append(state)
        later.append(now(state, answers, apart))
    np.testing.assert_allclose(np.concatenate(found[0]), np.concatenate(found[1]), rtol=1e-9)
    np.testing.assert_allclose(states[0], states[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(later[0], later[1], rtol=1e-9)
    assert np.all(states[0][:2, KEPT.index("missed")] > 0)


def test_the_twin_has_the_core_s_fields():
    assert len(KEPT) == 12 and KEPT[0] == "log_q" and [*vars(Width(0.0, 0.0))] == KEPT


def test_sizes_that_do_not_fit_are_refused(rng):
    answers, apart, errors = rows(rng, n=4)
    state = np.zeros((3, len(KEPT)))
    with pytest.raises(ValueError, match="one width for each answer"):
        follow(state[:2], answers, apart, errors, 0.1, 0)
    with pytest.raises(ValueError, match="one width for each answer"):
        now(state, answers, apart[:2])
    with pytest.raises(ValueError, match="one error for each answer"):
        follow(state, answers, apart, errors[:2], 0.1, 0)
