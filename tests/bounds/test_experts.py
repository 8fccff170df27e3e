"""Fixed share never loses more than its bound, against any sequence of members."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from naive import best_path
from naive import fixed_share as naive_share

from onkel import bounds


def run(losses, rate, share):
    """Return the mixture's loss and the gap to its mixed loss, by plain loops."""
    weights, _ = naive_share(losses.tolist(), rate, share)
    weights = np.array(weights)
    mixed = -np.log(np.einsum("tm,tm->t", weights, np.exp(-rate * losses))) / rate
    mean = np.einsum("tm,tm->t", weights, losses)
    return mean.sum(), (mean - mixed).sum()


def sequences(rng, n, T):
    """Random, switching, and built against the weights."""
    yield rng.uniform(size=(T, n))
    yield (rng.uniform(size=(T, n)) < rng.uniform(size=n)).astype(float)
    best = rng.integers(0, n, size=T // 10 + 1)[np.arange(T) // 10]
    yield np.where(np.arange(n) == best[:, None], 0.0, 1.0)
    yield np.tile(np.eye(n), (T // n + 1, 1))[:T]


def against(n, T, rate, share):
    """Losses of 1 for the heavier half of the members, trial after trial."""
    w, losses = np.full(n, 1 / n), np.zeros((T, n))
    for t in range(T):
        losses[t, np.argsort(-w, kind="stable")[: n // 2]] = 1.0
        v = w * np.exp(-rate * losses[t])
        w = (1 - share) * v / v.sum() + share / n
    return losses


@pytest.mark.parametrize("n", [2, 3, 9])
@pytest.mark.parametrize(("rate", "share"), [(0.05, 0.0), (0.25, 0.001), (2.0, 0.1), (16.0, 0.01)])
def test_never_above_the_bound(rng, n, rate, share):
    """The three forms, against the best sequence with s switches found by dynamic programming."""
    T = 120
    for losses in itertools.chain(sequences(rng, n, T), [against(n, T, rate, share)]):
        total, gap = run(losses, rate, share)
        assert gap <= rate * T / 8 + 1e-9
        for switches in (0, 1, 5) if share else (0,):
            best = best_path(losses.tolist(), switches)
            known = {"members": n, "trials": T, "switches": switches, "rate": rate, "share": share}
            for more in ({}, {"best_loss": best}, {"mix_gap": gap}):
                assert total - best <= bounds.fixed_share(**known, **more).bound + 1e-9


@pytest.mark.parametrize("n", [2, 3, 9])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1])
def test_log_loss_never_above_the_bound(rng, n, share):
    """At rate 1 the mixed loss is the mixture's own: nothing is lost but C."""
    T = 120
    chances = rng.dirichlet(np.full(4, 0.3), size=(T, n))[:, :, 0] + 1e-9
    for losses in (-np.log(chances), *sequences(rng, n, T)):
        weights = np.array(naive_share(losses.tolist(), 1.0, share)[0])
        total = -np.log((weights * np.exp(-losses)).sum(axis=1)).sum()
        for switches in (0, 1, 5) if share else (0,):
            told = bounds.log_loss(members=n, trials=T, switches=switches, share=share)
            assert total - best_path(losses.tolist(), switches) <= told.bound + 1e-9
    assert bounds.log_loss(members=n, trials=T, share=0.0).bound == pytest.approx(math.log(n))


def test_the_best_tuning_is_the_least():
    told = bounds.fixed_share(members=7, trials=1000, switches=4)
    for rate, share in itertools.product(np.geomspace(0.01, 10, 60), np.geomspace(1e-4, 0.9, 60)):
        other = bounds.fixed_share(
            members=7, trials=1000, switches=4, rate=float(rate), share=float(share)
        )
        assert told.bound <= other.bound + 1e-9
    assert 0 < told.tuning["share"] < 0.01


def test_complexity_is_the_prior_of_a_sequence():
    """exp(-C) summed over all sequences is 1: the weights of a mixture over them."""
    n, T, share = 3, 6, 0.2
    total = 0.0
    for path in itertools.product(range(n), repeat=T):
        s = sum(a != b for a, b in itertools.pairwise(path))
        told = bounds.fixed_share(members=n, trials=T, switches=s, rate=1.0, share=share)
        total += math.exp(-told.details["C"])
    assert total == pytest.approx(1.0)


def test_a_lone_sequence_attains_the_mixed_form():
    """Losses so large that only one sequence counts: C / eta is what it costs, to rounding."""
    rate, share, T = 60.0, 0.01, 40
    losses = np.ones((T, 2))
    losses[:20, 0] = losses[20:, 1] = 0.0
    total, gap = run(losses, rate, share)
    told = bounds.fixed_share(members=2, trials=T, switches=1, rate=rate, share=share, mix_gap=gap)
    assert total == pytest.approx(told.bound, rel=1e-3)


def test_worst_members_reach_a_good_part_of_the_tuned_bound():
    told = bounds.fixed_share(members=2, trials=2000)
    losses = against(2, 2000, **told.tuning)
    total, _ = run(losses, **told.tuning)
    assert 0.4 * told.bound < total - losses.sum(axis=0).min() <= told.bound


def test_refusals():
    with pytest.raises(ValueError, match="switches must be below trials"):
        bounds.fixed_share(members=3, trials=5, switches=5)
    with pytest.raises(ValueError, match="needs share above 0"):
        bounds.fixed_share(members=3, trials=5, switches=1, share=0.0)
