"""Columns of codes in a frame: nothing that happens to numbers happens to them."""

from __future__ import annotations

import numpy as np
import pytest

from onkel.core.frame import Frame, effective
from onkel.core.layout import APART
from onkel.saved import Saved

U = (1.4, 0.5)


def framed(invariant: bool = True) -> Frame:
    return Frame.plain(np.array([7.0, 9.0, 3.0, -2.0]), np.float64, invariant, U)


def test_effective_counts_codes_by_how_far_they_are_apart() -> None:
    assert effective(5, ()) == 5 and type(effective(5, ())) is int
    assert effective(34, (APART / 32,) * 32) == pytest.approx(3.0)


@pytest.mark.parametrize("invariant", [True, False])
def test_standardisation_leaves_codes_alone(rng: np.random.Generator, invariant: bool) -> None:
    frame = framed(invariant)
    rows = np.hstack([rng.integers(0, 2**24, (6, 2)), 1e6 + rng.normal(size=(6, 2))])
    later = frame.standardised(rows.mean(axis=0), rows.std(axis=0), rows[-1])
    for held in (frame, later):
        np.testing.assert_array_equal(held.store(rows)[:, :2], rows[:, :2])
        np.testing.assert_array_equal(held.z(held.store(rows))[:, :2], rows[:, :2])
        np.testing.assert_array_equal(held.prepare(rows).q[:, :2], rows[:, :2])
        np.testing.assert_array_equal(held.raw(held.store(rows))[:, :2], rows[:, :2])
        np.testing.assert_allclose(held.width[:2], np.sqrt(U), rtol=0)
    moved = later.translate(frame.store(rows), frame)
    np.testing.assert_array_equal(moved[:, :2], rows[:, :2])


def test_codes_are_as_long_as_one_hot_features(rng: np.random.Generator) -> None:
    row = np.array([[5.0, 0.0, 1.0, 2.0]])
    frame = framed(invariant=False)
    z = frame.z(frame.store(row))[0, 2:]
    assert frame.norms(frame.store(row))[0] == pytest.approx(z @ z + sum(U) / 2)
    assert frame.prepare(row).norm[0] == pytest.approx(z @ z + sum(U) / 2)


def test_the_centre_follows_numbers_alone() -> None:
    recent = np.tile([1e7, 3.0, 0.0, 0.0], (5, 1))
    assert framed().left_behind(np.array([2.0, 9.0, 3.0, -2.0]), recent) is None
    far = np.tile([1e7, 3.0, 500.0, 0.0], (5, 1)) + np.arange(5)[:, None] * [0, 0, 0.1, 0.1]
    moved = framed().left_behind(np.array([1e7, 3.0, 503.0, -2.0]), far)
    assert moved is not None
    np.testing.assert_array_equal(moved.center[:2], 0.0)


def test_a_file_must_leave_codes_alone() -> None:
    held = framed().dump()
    assert Frame.restored(Saved(held), 4, np.float64, True, U).apart == U
    for name in held:
        wrong = {**held, name: held[name] + np.array([0.5, 0.0, 0.0, 0.0])}
        with pytest.raises(ValueError, match=f"{name} must leave codes"):
            Frame.restored(Saved(wrong), 4, np.float64, True, U)
