"""Means of several members' answers against plain loops; the two cores; edges."""

from __future__ import annotations

import re
from pathlib import Path

import naive
import numpy as np
import pytest

from onkel import core
from onkel.core import means
from onkel.core.bindable import positive
from onkel.core.means import Standing

CASES = [(1, 1), (2, 1), (9, 1), (4, 3)]


@pytest.fixture(params=["as it is", "NumPy"])
def each_core(request, monkeypatch):
    """The core that is in use, then plain NumPy."""
    if request.param == "NumPy":
        monkeypatch.setattr(core, "has_lane", lambda: False)


def stream(rng, rows, members, outputs, scale=1.0):
    """Targets, and answers that are more or less near them; a few far off."""
    y = scale * rng.normal(size=(rows, outputs))
    noise = np.linspace(0.1, 2.0, members)[None, :, None]
    scores = y[:, None] + scale * noise * rng.normal(size=(rows, members, outputs))
    scores[::17, 0] += 100 * scale
    return scores, y


@pytest.mark.parametrize(("members", "outputs"), CASES)
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_against_plain_loops(rng, members, outputs, scale):
    scores, y = stream(rng, 150, members, outputs, scale)
    twin = naive.Means(members, outputs, 8.0, 0.01)
    truth = [twin.learn(z.tolist(), w.tolist()) for z, w in zip(scores, y, strict=True)]
    state = Standing.empty(members, outputs, 8.0, 0.01)
    np.testing.assert_allclose(state.learn(scores, y), truth, rtol=1e-7, atol=1e-7 * scale)
    np.testing.assert_allclose(state.weights, twin.weights, rtol=1e-7)
    np.testing.assert_allclose(state.losses, twin.losses, rtol=1e-9)
    for name in ("usual", "own", "squares"):
        np.testing.assert_allclose(getattr(state, name), getattr(twin, name), rtol=1e-7)
    np.testing.assert_allclose(state.influence, twin.influence(members), rtol=1e-6, atol=1e-9)
    assert state.totals[0] == pytest.approx(twin.total) and state.totals[2] == 150
    after = [[twin.answer(z.tolist(), o) for o in range(outputs)] for z in scores[:9]]
    np.testing.assert_allclose(state.look(scores[:9]), after, rtol=1e-7, atol=1e-7 * scale)


@pytest.mark.parametrize(("members", "outputs"), CASES)
def test_the_two_cores_agree_and_cuts_do_not_matter(rng, monkeypatch, members, outputs):
    scores, y = stream(rng, 200, members, outputs)
    a, b, c = (Standing.empty(members, outputs, 8.0, 0.001) for _ in range(3))
    first = a.learn(scores, y)
    parts = [c.learn(scores[i : i + 7], y[i : i + 7]) for i in range(0, 200, 7)]
    np.testing.assert_array_equal(np.concatenate(parts), first)
    monkeypatch.setattr(core, "has_lane", lambda: False)
    np.testing.assert_allclose(b.learn(scores, y), first, rtol=1e-7, atol=1e-8)
    for name, array in a.dump().items():
        np.testing.assert_allclose(array, getattr(b, name), rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.skipif(not core.has_lane(), reason="needs the compiled core")
def test_the_numbers_are_the_same_in_both_languages():
    text = (Path(core.__file__).parent / "src" / "means.hpp").read_text()
    names = ("REACH", "HORIZON", "RECENT", "ROW", "WIDE", "BETTER")
    for name in (*names, "PRIOR", "STEP", "FAR", "JOINT"):
        found = re.search(rf"\bkMeans{name.title()} = ([0-9.]+)", text)
        assert found is not None and float(found[1]) == getattr(means, name), name


def test_joined_members_do_better_than_the_best(rng):
    """Two that err apart: their sum is right, and no mean of them by weights says so sooner."""
    y = rng.normal(size=(3000, 1))
    other = rng.normal(size=(3000, 1))
    scores = np.stack([y + other, y - other, 0 * y], axis=1)
    state = Standing.empty(3, 1, 8.0, 0.001)
    found = state.learn(scores, y)
    assert np.abs(found - y)[1000:].mean() < 0.05 < 0.5 < np.abs(scores[:, 0] - y).mean()


def test_members_that_are_alike_and_values_that_are_huge(rng):
    scores, y = stream(rng, 4000, 2, 1)
    scores = np.concatenate([scores, scores, 0 * scores[:, :1], 1e150 + 0 * scores[:, :1]], axis=1)
    state = Standing.empty(6, 1, 8.0, 0.001)
    found = state.learn(scores, y)
    assert np.isfinite(found).all() and positive(state.bow)


@pytest.mark.parametrize("better", [3, 100, 10_000])
@pytest.mark.parametrize("members", [3, 11])
def test_one_that_is_far_better_is_followed(rng, members, better):
    """Its errors are seen, small as they are beside the others'; joint experts may gain more."""
    y, noise = rng.normal(size=(3000, 1)), rng.normal(size=(3000, members, 1))
    scores = y[:, None] + noise * rng.uniform(0.5, 2.0, size=(1, members, 1))
    scores[:, 1] = y + noise[:, 1] / better
    state = Standing.empty(members, 1, 4.0, 0.005)
    found = np.abs(state.learn(scores, y) - y)
    assert state.influence[1] > 0.5 and state.influence.sum() == pytest.approx(1.0)
    assert found[1000:].mean() < 1.03 * np.abs(scores[:, 1] - y)[1000:].mean()


@pytest.mark.usefixtures("each_core")
@pytest.mark.parametrize("place", [0, 1])
def test_one_that_never_errs_is_followed(rng, place):
    """From early on; whether it was the median of the first row, where all begin, or not."""
    y = rng.normal(size=(40, 1))
    scores = y[:, None] + np.array([0.0, 1.0, 3.0])[None, :, None] - place
    told = Standing.empty(3, 1, 4.0, 0.005).learn(scores, y)
    np.testing.assert_array_equal(told[0], scores[0, 1])
    assert np.abs(told - y)[20:].max() < 0.002


@pytest.mark.usefixtures("each_core")
def test_whatever_the_scale(rng):
    """Targets a thousand times as large, or as small, have answers that are so."""
    scores, y = stream(rng, 300, 5, 2)
    told = Standing.empty(5, 2, 4.0, 0.005).learn(scores, y)
    for scale in (2.0**-200, 2.0**200):
        more = Standing.empty(5, 2, 4.0, 0.005).learn(scale * scores, scale * y)
        np.testing.assert_allclose(more / scale, told, rtol=1e-9)


@pytest.mark.usefixtures("each_core")
def test_what_is_so_far_off_that_squares_end(rng):
    scores, y = stream(rng, 50, 3, 1)
    scores[:, 2] = 1e300 * rng.normal(size=(50, 1))
    state = Standing.empty(3, 1, 4.0, 0.0)
    found = state.learn(scores, y)
    assert all(np.isfinite(a).all() for a in (found, *state.dump().values()))
    y[20] = 1e300
    again = Standing.empty(3, 1, 4.0, 0.0)
    again.learn(scores, y)
    assert all(np.isfinite(a).all() for a in again.dump().values())


@pytest.mark.usefixtures("each_core")
def test_parts_where_only_a_joint_expert_has_weight(rng):
    """No member counts: the median is the centre."""
    state = Standing.empty(3, 1, 4.0, 0.0)
    state.weights[:] = [0.0, 0.0, 0.0, 1.0, 0.0]
    scores, y = stream(rng, 30, 3, 1)
    assert np.isfinite(state.learn(scores, y)).all()
    assert state.influence.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("rate", [1e-6, 1.0, 1e3, 1e9])
def test_weights_stay_weights_at_any_rate(rng, rate):
    """By the losses that it tells, in logarithms, which nothing overflows."""
    scores, y = stream(rng, 50, 4, 1)
    state = Standing.empty(4, 1, rate, 0.01)
    truth = state.weights.copy()
    for row, target in zip(scores, y, strict=True):
        before = state.dump()
        state.learn(row[None], target[None])
        with np.errstate(divide="ignore"):
            log = np.log(truth) - rate * (state.losses - before["losses"])
        log -= log.max()
        truth = 0.99 * np.exp(log) / np.exp(log).sum() + 0.01 / len(truth)
        assert state.totals[1] - before["totals"][1] > -1e-9  # NaN is not
    np.testing.assert_allclose(state.weights, truth, rtol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_shares_as_the_loops_do(rng, share):
    losses = rng.uniform(size=(200, 5))
    want, last = naive.fixed_share(losses.tolist(), 0.7, share)
    weights = np.full(5, 0.2)
    for loss, before in zip(losses, want, strict=True):
        np.testing.assert_allclose(weights, before, rtol=1e-12)
        mean, gap = means.share_step(loss, 0.7, share, weights)
        assert mean == pytest.approx(before @ loss)
        assert mean - gap == pytest.approx(-np.log(before @ np.exp(-0.7 * loss)) / 0.7)
    np.testing.assert_allclose(weights, last, rtol=1e-12)
