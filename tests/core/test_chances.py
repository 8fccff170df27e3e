"""Probabilities of scores, and their mixture, against plain loops; the two cores; edges."""

from __future__ import annotations

import re
from pathlib import Path

import naive
import numpy as np
import pytest

from onkel import core
from onkel.core import chances
from onkel.core.bindable import positive
from onkel.core.chances import Chances

CASES = [(1, 1), (1, 3), (2, 1), (9, 1), (4, 2), (5, 4), (3, 12)]


def stream(rng, rows, members, outputs, scale=1.0):
    """Scores that say something of the class, members more or less; targets of +1 and -1."""
    classes = max(outputs, 2)
    y = rng.integers(0, classes, size=rows)
    if outputs == 1:
        Y = np.where(y > 0, 1.0, -1.0)[:, None]
    else:
        Y = np.where(np.arange(outputs) == y[:, None], 1.0, -1.0)
    skill = np.linspace(0.2, 1.5, members)[None, :, None]
    return scale * (skill * Y[:, None] + rng.normal(size=(rows, members, outputs))), Y, y


def told(mixed, outputs):
    logs = np.log(mixed)
    return logs[1:] - logs[:1] if outputs == 1 else logs - logs.mean()


@pytest.mark.few
@pytest.mark.parametrize(("members", "outputs"), CASES)
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_against_plain_loops(rng, members, outputs, scale):
    scores, Y, y = stream(rng, 120, members, outputs, scale)
    twin = naive.Chances(members, outputs, 0.01)
    truth = [told(np.array(twin.learn(z, int(c))), outputs) for z, c in zip(scores, y, strict=True)]
    state = Chances.empty(members, outputs, 0.01)
    found = state.learn(scores, Y)
    np.testing.assert_allclose(found, truth, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(state.weights, twin.weights, rtol=1e-8)
    np.testing.assert_allclose(state.losses, [*twin.losses, twin.total], rtol=1e-10)
    np.testing.assert_allclose(state.said, twin.said, rtol=1e-7)
    after = [told(np.array(twin.chances(z)), outputs) for z in scores[:20]]
    np.testing.assert_allclose(state.look(scores[:20]), after, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("members", "outputs"), CASES)
def test_the_two_cores_agree(rng, monkeypatch, members, outputs):
    scores, Y, _ = stream(rng, 300, members, outputs)
    a, b = (Chances.empty(members, outputs, 0.001) for _ in range(2))
    first = a.learn(scores, Y)
    monkeypatch.setattr(core, "has_lane", lambda: False)
    np.testing.assert_allclose(b.learn(scores, Y), first, rtol=1e-7, atol=1e-8)
    for name, array in a.dump().items():
        np.testing.assert_allclose(array, getattr(b, name), rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.skipif(not core.has_lane(), reason="needs the compiled core")
def test_the_numbers_are_the_same_in_both_languages():
    text = (Path(core.__file__).parent / "src" / "chances.hpp").read_text()
    for name in ("HORIZON", "PRIOR", "FLAT", "FLATTEST", "STEEPEST", "LEAST_LAPSE", "MOST_LAPSE",
                 "PRESSED", "NEWTON_PRIOR", "GRADIENT", "REACH", "FAINT", "JOINT"):  # fmt: skip
        there = "k" + name.title().replace("_", "")
        found = re.search(rf"\b{there} = ([0-9.e-]+)", text)
        assert found is not None and float(found[1]) == getattr(chances, name), name


@pytest.mark.parametrize(("members", "outputs"), CASES)
def test_cuts_do_not_matter_and_looking_changes_nothing(rng, members, outputs):
    scores, Y, _ = stream(rng, 90, members, outputs)
    whole, cut = (Chances.empty(members, outputs, 0.001) for _ in range(2))
    first = whole.learn(scores, Y)
    parts = [cut.learn(scores[a : a + 7], Y[a : a + 7]) for a in range(0, 90, 7)]
    np.testing.assert_array_equal(np.concatenate(parts), first)
    before = whole.copy()
    whole.look(scores)
    for name, value in vars(before).items():
        np.testing.assert_array_equal(value, getattr(whole, name), err_msg=name)


def test_regret_under_log_loss_is_at_most_ln_n(rng):
    """No rate, no clipping: whatever the scores say, the mixture loses ln N to the best expert."""
    for outputs in (1, 4):
        scores, Y, _ = stream(rng, 500, 6, outputs, 5.0)
        scores[:, 0] *= -1.0  # one that is wrong on purpose
        state = Chances.empty(6, outputs, 0.0)
        state.learn(scores, Y)
        assert state.losses[-1] <= state.losses[:-1].min() + np.log(8) + 1e-9


def test_told_chances_are_calibrated(rng):
    """Labels drawn by known chances: the link finds them, and the lapse."""
    z = rng.normal(size=(20_000, 1, 1)) * 2
    truth = 0.1 / 2 + 0.9 / (1 + np.exp(-3 * z[:, 0, 0]))
    Y = np.where(rng.random(20_000) < truth, 1.0, -1.0)[:, None]
    state = Chances.empty(1, 1)
    p = 1 / (1 + np.exp(-state.learn(z, Y)[10_000:, 0]))
    assert np.abs(p - truth[10_000:]).mean() < 0.03
    assert abs(state.link[0, 2] - 0.1) < 0.05


def test_outputs_that_come_later(rng):
    """Split and mirrored, the same is told; a class more begins as likely as the mean one."""
    scores, Y, _ = stream(rng, 200, 3, 1)
    state = Chances.empty(3, 1, 0.001)
    state.learn(scores, Y)
    one = state.look(scores[:5])
    turned, split = state.copy(), state.copy()
    turned.mirror_column()
    np.testing.assert_allclose(turned.look(-scores[:5]), -one, rtol=1e-12)
    split.split_column()
    both = np.concatenate([scores[:5], -scores[:5]], axis=2)
    np.testing.assert_allclose(split.look(both), np.hstack([one, -one]) / 2, rtol=1e-9)
    split.add_column()
    wide = split.look(np.concatenate([both, both[:, :, :1] * 0 - 1], axis=2))
    assert wide.shape == (5, 3) and np.isfinite(wide).all()


def test_an_output_after_a_single_class_begins_anew(rng):
    state = Chances.empty(2, 1)
    state.learn(rng.normal(size=(50, 2, 1)), np.ones((50, 1)))
    state.add_column()
    assert state.outputs == 2 and (state.offset == 0).all()
    np.testing.assert_allclose(state.look(np.zeros((1, 2, 2))), [[0.0, 0.0]], atol=1e-12)


def test_members_that_are_alike_and_scores_that_are_huge(rng):
    """A long run with copies, constants and 1e150 stays finite."""
    scores, Y, _ = stream(rng, 5000, 2, 1)
    scores = np.concatenate([scores, scores, 0 * scores[:, :1], 1e150 * scores[:, :1]], axis=1)
    state = Chances.empty(6, 1, 0.001)
    found = state.learn(scores, Y)
    assert np.isfinite(found).all() and np.isfinite(state.losses).all()
    assert positive(state.bow)
    right = np.mean((found[1000:] > 0) == (Y[1000:] > 0))
    assert right > np.mean((scores[1000:, 1] > 0) == (Y[1000:] > 0)) - 0.01
