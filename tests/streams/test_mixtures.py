"""Moving mixtures: repeatable, clean at every moment, and they do move."""

from __future__ import annotations

import numpy as np
import pytest

from onkel import KernelClassifier, evaluate, kernels, rules
from onkel.streams import drifting_classes, switching_classes
from onkel.streams.mixtures import BOX, SPREADS, Mixtures, _clear_rows, _reflected

BOTH = pytest.mark.parametrize("make", [drifting_classes, switching_classes])


@BOTH
def test_same_seed_same_arrays(make):
    first, again, other = make(2500, seed=1), make(2500, seed=1), make(2500, seed=2)
    assert np.array_equal(first.X, again.X) and np.array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


@BOTH
@pytest.mark.parametrize("n", [0, 1, 7, 2501])
def test_shapes(make, n):
    stream = make(n)
    assert stream.X.shape == (n, 2) and stream.y.shape == (n,)
    assert set(stream.y.tolist()) <= {-1, 1} and (stream.changes < n).all()


@BOTH
def test_classes_are_balanced(make):
    assert abs(make(10_000, seed=5).y.mean()) < 0.1


@pytest.mark.parametrize("gap", [0.0, 1.0, 3.0])
def test_rows_lie_clearly_on_their_side_of_the_bayes_boundary(rng, gap):
    mixtures = Mixtures.drawn(rng, components=3)
    X, y = _clear_rows(rng, mixtures, 500, gap)
    assert X.shape == (500, 2) and (y * mixtures.log_ratio(X) > gap).all()


def test_log_ratio_is_that_of_the_densities(rng):
    mixtures, x = Mixtures.drawn(rng, components=2), rng.normal(size=2)
    density = [
        sum(
            np.exp(-np.sum((x - m) ** 2) / (2 * s**2)) / (2 * np.pi * s**2)
            for m, s in zip(means, spreads, strict=True)
        )
        for means, spreads in zip(mixtures.means, mixtures.spreads, strict=True)
    ]
    assert mixtures.log_ratio(x[None])[0] == pytest.approx(np.log(density[1] / density[0]))


def test_drift_stays_in_bounds(rng):
    mixtures = Mixtures.drawn(rng, components=2)
    for _ in range(300):
        mixtures = mixtures.moved(rng, step=0.5)
    assert np.abs(mixtures.means).max() <= BOX
    assert mixtures.spreads.min() >= SPREADS[0] and mixtures.spreads.max() <= SPREADS[1]


def test_reflection():
    assert _reflected(np.array([0.0, 3.5, -4.0, 2.0])) == pytest.approx([0.0, 2.5, -2.0, 2.0])


def late_mistakes(stream):
    """Return the mistake rate of a classifier that hardly forgets, once it has settled."""
    model = KernelClassifier(kernels.Gaussian(1.0), rule=rules.Norma(memory=1e6), scale=False)
    return evaluate.progressive(model, stream.X, stream.y).errors[2000:].mean()


def test_what_moves_is_hard_for_a_model_that_does_not_forget():
    assert late_mistakes(drifting_classes(4000, step=0.0)) < 0.01
    assert late_mistakes(switching_classes(4000, every=200)) > 0.05


@BOTH
@pytest.mark.parametrize("bad", [{"n": -1}, {"every": 0}, {"components": 0}, {"gap": 6.0}])
def test_refuses_what_it_cannot_do(make, bad):
    with pytest.raises(ValueError, match=f"{make.__name__}: {next(iter(bad))} must"):
        make(**bad)


def test_refuses_a_negative_step():
    with pytest.raises(ValueError, match="step must be 0 or more"):
        drifting_classes(step=-0.1)
