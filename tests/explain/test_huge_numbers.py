"""Numbers that a detector cuts: what is said of them is true of what came, or not said."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.reasons import false_in
from helpers.sizes import size

from onkel import Detector
from onkel.core.density_table import LARGEST
from onkel.judge import answer

CUT = re.compile(r"(?<![\d.])1e\+75")
"""What nobody wrote: the number that is put in the place of larger ones."""
SAID = re.compile(r"(feature \d) (-?\d[\d.]*(?:e[+-]?\d+)?) where")


def rows_of(rng, count=1200, d=3):
    """Usual rows, but for one feature that has any size up to what is accepted."""
    X = rng.normal(size=(count, d))
    size_of = rng.choice([0.0, 60.0, 70.0, 74.0, 76.0, 80.0, 151.0])
    X[:, 1] *= 10.0 ** (size_of * (rng.random(count) < rng.choice([0.01, 0.3, 1.0])))
    return X


def range_that_came(X, j):
    return float(X[:, j].min()), float(X[:, j].max())


@pytest.mark.parametrize("seed", range(size(12, 120)))
def test_ranges_are_those_of_rows_as_they_came(seed):
    """No range ends beyond what came, or at a number that was put in its place."""
    rng = np.random.default_rng(seed)
    X = rows_of(rng)
    det = Detector(nu=0.05).fit(X[:900])
    for row in [*X[900:1000], *(X[1000:1060] * [1.0, 1e5, 1.0])]:
        if np.abs(row).max() > 1e152:
            continue
        why = det.explain(row)
        for f in why.features:
            assert f.value == row[int(f.name[-1])]
            if f.usual is not None:
                low, high = range_that_came(X[:900], int(f.name[-1]))
                assert low <= f.usual[0] <= f.usual[1] <= high and max(map(abs, f.usual)) < LARGEST
        assert not false_in(why.sentence) and not CUT.search(why.sentence)
        for name, value in SAID.findall(why.sentence):
            assert float(value) == pytest.approx(row[int(name[-1])], rel=0.01, abs=0.06)


@pytest.mark.parametrize("seed", range(size(6, 60)))
def test_a_few_words_are_true_or_not_said(seed):
    """No number is far from a mean of other numbers than those that came."""
    rng = np.random.default_rng(seed)
    X = rows_of(rng)
    found = answer(Detector(nu=0.05), X, explain=1).marks.why()
    for i, why in found.items():
        words = str(why)
        assert not false_in(words) and not CUT.search(words)
        for name, z, side in re.findall(
            r"(feature \d) \S+ is ([\d.e+]+) spreads (above|below) its mean", words
        ):
            j, past = int(name[-1]), X[:i]
            middle = np.median(past[:, j])  # gross rows move a plain mean, and not what is usual
            assert (X[i, j] > middle) == (side == "above") and float(z) > 2
            large = np.quantile(np.abs(past[:, j]), 0.95)  # rarer ones are alerts, learned late
            assert large < 1e60 or abs(X[i, j]) >= large / 1e20


def test_a_number_beyond_the_cut_counts_as_the_cut(rng):
    X = rng.normal(size=(800, 2))
    det = Detector().fit(X)
    np.testing.assert_array_equal(
        det.score_samples([[7e79, 0.0], [-7e140, 0.0]]),
        det.score_samples([[LARGEST, 0.0], [-LARGEST, 0.0]]),
    )
    why = det.explain([7.466e79, 0.0])
    assert why.cause == "single" and "feature 0 7.466e+79 where -" in why.sentence
    X[:, 0] *= 1e80
    why = Detector().fit(X).explain([7.466e79, 30.0])
    assert "where -1e+75" not in why.sentence and why.named[0].name == "feature 1"
