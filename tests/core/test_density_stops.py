"""The detector's core stops before each alert if asked, with the same bits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.detector_streams import SMALL, faulty
from helpers.sizes import size

from onkel import core
from onkel.core.density import DensityState, run

compiled = pytest.mark.skipif(core.compiled is None, reason="no compiled core here")


@pytest.fixture(params=[pytest.param("compiled", marks=compiled), "numpy"])
def each_core(request, monkeypatch):
    monkeypatch.setattr(core, "has_lane", lambda: request.param == "compiled")


ROWS = size(520, 700)


def bits(state):
    state = state.packed()  # the room that arrays have grown to does not count
    return {f.name: getattr(state, f.name).tobytes() for f in dataclasses.fields(state)}


def test_it_stops_before_each_alert_and_changes_nothing(rng, each_core):
    X, weight = faulty(rng, ROWS, 3), np.ones(ROWS)
    X[300::17] += 4.0
    weight[350:360] = 0.0
    plain, stopped, seen = DensityState.empty(3, SMALL), DensityState.empty(3, SMALL), {}
    whole, members = run(SMALL, plain, X, weight, members=True)

    def heard(i):
        seen[i] = bits(stopped)

    out, parts = run(SMALL, stopped, X, weight, members=True, at_alert=heard)
    np.testing.assert_array_equal(out, whole)
    np.testing.assert_array_equal(parts, members)
    assert bits(stopped) == bits(plain)
    alerts = np.flatnonzero((whole[:, 2] > 0) & (weight > 0)).tolist()
    assert [*seen] == alerts and len(alerts) > 10
    for i in alerts[:: size(12, 4)]:
        before = DensityState.empty(3, SMALL)
        run(SMALL, before, X[:i], weight[:i])
        assert bits(before) == seen[i]


def test_the_first_row_of_a_call_may_be_one(rng, each_core):
    X = faulty(rng, 400, 2)
    state, heard = DensityState.empty(2, SMALL), []
    run(SMALL, state, X, np.ones(400))
    run(SMALL, state, np.array([[90.0, -90.0], [0.0, 0.0]]), np.ones(2), at_alert=heard.append)
    assert heard[:1] == [0]


def test_rows_that_are_only_judged_stop_nothing(rng, each_core):
    state, heard = DensityState.empty(2, SMALL), []
    run(SMALL, state, faulty(rng, 400, 2), np.ones(400))
    far = np.full((3, 2), 90.0)
    found, _ = run(SMALL, state, far, None, at_alert=heard.append)
    assert found[:, 2].all() and not heard
