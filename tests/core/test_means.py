"""Means of several answers: compiled against the readable form, in any cut."""

from __future__ import annotations

import numpy as np
import pytest

from onkel import core
from onkel.core import means


def standing(rng, members, outputs):
    weights = rng.random(members)
    return means.Standing(
        weights / weights.sum(), np.zeros(outputs), np.zeros(members), np.zeros(3), 16.0, 0.01,
        8.0, 30.0,
    )  # fmt: skip


def copied(found):
    arrays = [getattr(found, n).copy() for n in ("weights", "usual", "losses", "totals")]
    return means.Standing(*arrays, found.rate, found.share, found.reach, found.horizon)


def rows_of(rng, members, outputs, rows=80):
    y = rng.normal(size=(rows, outputs))
    scores = y[:, None] + rng.normal(size=(rows, members, outputs)) * rng.random((members, 1))
    scores[20:30] *= 50.0  # far answers
    scores[40:44, : members // 2] = scores[40:44, :1]  # ties
    scores[:3] = y[:3, None]  # nothing is usual yet
    return scores, y


@pytest.mark.skipif(not core.has_lane(), reason="no compiled core here")
@pytest.mark.parametrize(("members", "outputs"), [(1, 1), (2, 1), (9, 1), (6, 3)])
def test_compiled_and_readable_agree(rng, members, outputs):
    scores, y = rows_of(rng, members, outputs)
    one = standing(rng, members, outputs)
    other = copied(one)
    np.testing.assert_allclose(
        means.learn(one, scores, y), means._by_hand(other, scores, y), rtol=1e-12, atol=1e-12
    )
    for name in ("weights", "usual", "losses", "totals"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-11)
    assert one.totals[2] == len(y)
    weights = np.broadcast_to(one.weights, scores.shape[:2])
    expected = means._mean(scores, weights, one.reach * one.usual)
    np.testing.assert_allclose(means.look(one, scores), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("learn", [means.learn, means._by_hand])
def test_the_same_bits_in_any_cut(rng, learn):
    scores, y = rows_of(rng, 9, 2)
    one = standing(rng, 9, 2)
    other = copied(one)
    whole = learn(one, scores, y)
    parts = [learn(other, scores[i : i + 7], y[i : i + 7]) for i in range(0, len(y), 7)]
    assert np.array_equal(whole, np.concatenate(parts))
    for name in ("weights", "usual", "losses", "totals"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@pytest.mark.skipif(not core.has_lane(), reason="the compiled core checks its arrays")
def test_wrong_shapes_are_refused(rng):
    one = standing(rng, 3, 1)
    with pytest.raises(ValueError, match="must be"):
        means.learn(one, np.zeros((2, 2, 1)), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="must be"):
        means.look(one, np.zeros((2, 3, 2)))
    one.losses = np.zeros(2)
    with pytest.raises(ValueError, match="one loss per member"):
        means.learn(one, np.zeros((2, 3, 1)), np.zeros((2, 1)))


def test_looking_writes_nothing(rng):
    """A model in a file that is mapped, not read, can answer."""
    one, (scores, _) = standing(rng, 3, 1), rows_of(rng, 3, 1)
    for name in ("weights", "usual", "losses", "totals"):
        getattr(one, name).flags.writeable = False
    assert np.isfinite(means.look(one, scores)).all()
