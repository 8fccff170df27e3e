"""The simulated plant: repeatable, and its faults where it says they are."""

from __future__ import annotations

import numpy as np
import pytest

from onkel.streams import KINDS, sensors
from onkel.streams.plant import NAMES


@pytest.fixture(scope="module")
def plant():
    return sensors(20_000, seed=3, faults=8)


def columns(fault):
    return [NAMES.index(name) for name in fault.columns]


def test_same_seed_same_arrays(plant):
    again, other = sensors(20_000, seed=3, faults=8), sensors(20_000, seed=4, faults=8)
    assert np.array_equal(plant.X, again.X) and np.array_equal(plant.y, again.y)
    assert plant.faults == again.faults
    assert not np.array_equal(plant.X, other.X)


@pytest.mark.parametrize("n, faults", [(1, 0), (100, 5), (3000, 2), (3000, 12)])
def test_shapes(n, faults):
    plant = sensors(n, faults=faults)
    assert plant.X.shape == (n, len(plant.names)) and len(plant.units) == len(plant.names)
    assert plant.y.shape == plant.time.shape == plant.faulty.shape == (n,)
    assert len(plant.faults) == faults
    assert np.isfinite(plant.X).all() and set(plant.y.tolist()) <= {-1, 1}


def test_scales_differ_by_orders_of_magnitude(plant):
    level = np.abs(plant.X).mean(axis=0)
    assert level.max() / level.min() > 1e6


def test_faults_are_in_order_apart_and_of_every_kind(plant):
    ends = [edge for fault in plant.faults for edge in (fault.start, fault.stop)]
    assert ends == sorted(ends) and ends[0] >= 0.05 * 20_000 and ends[-1] <= 20_000
    assert {fault.kind for fault in plant.faults} == set(KINDS)
    assert plant.faulty.sum() == sum(fault.stop - fault.start for fault in plant.faults)


def test_only_faulty_readings_differ_from_a_plant_without_faults(plant):
    """The readings come before the faults in the seed's order, so they can be compared."""
    sound = sensors(20_000, seed=3, faults=0)
    where = np.zeros(plant.X.shape, bool)
    for fault in plant.faults:
        where[fault.start : fault.stop, columns(fault)] = True
    assert np.array_equal(plant.X[~where], sound.X[~where])
    assert np.mean(plant.X[where] != sound.X[where]) > 0.7  # spikes leave about half alone
    assert np.array_equal(plant.y, sound.y)


def test_each_kind_does_what_it_says(plant):
    sound = sensors(20_000, seed=3, faults=0)
    spread = sound.X.std(axis=0)
    for fault in plant.faults:
        column = columns(fault)
        change = (plant.X - sound.X)[fault.start : fault.stop, column] / spread[column]
        shown = plant.X[fault.start : fault.stop, column]
        if fault.kind == "spike":
            assert np.abs(change).max() > 3
        elif fault.kind == "stuck":
            assert (shown == shown[0]).all()
        elif fault.kind == "leak":
            assert change[0] == pytest.approx(0) and (np.diff(change, axis=0) < 0).all()
        else:  # decoupled: every reading has been seen at another time
            assert np.isin(shown, sound.X[:, column]).all()


def test_labels_persist_and_their_meaning_moves(plant):
    """The label of the row before is a good guess; a fixed rule learned early is a bad one."""
    assert 0.05 < np.mean(plant.y[1:] != plant.y[:-1]) < 0.15
    assert 0.2 < np.mean(plant.y == 1) < 0.5
    assert plant.changes == (6000, 12_000)


@pytest.mark.parametrize("n, faults", [(0, 0), (100, 6), (100, -1)])
def test_refuses_what_it_cannot_do(n, faults):
    with pytest.raises(ValueError, match="sensors: "):
        sensors(n, faults=faults)
