"""What is said of a row that is unusual as a whole is true of each of its numbers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.reasons import false_in
from helpers.sizes import size

from onkel import Detector

CLAIM = "no single number lies outside of its usual range"


def streams(seed):
    """Rows that are mostly 0, or whole numbers of few values: ranges are narrow there."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 6))
    Z = (rng.random((700, d)) < 0.045) * rng.integers(1, 9, (700, d)).astype(float)
    if seed % 3 == 0:
        Z += rng.normal(size=(700, d)) * (rng.random(d) < 0.5)
    return Z, (rng.random((60, d)) < 0.4) * rng.integers(1, 9, (60, d)).astype(float)


def beyond(why):
    """Features whose value lies outside of the range beside it, by plain comparison."""
    found = [f for f in why.features if f.usual is not None and f.value is not None]
    return [f.name for f in found if not f.usual[0] <= f.value <= f.usual[1]]


@pytest.mark.parametrize("seed", range(71, 71 + size(6, 60)))
def test_that_no_number_is_out_of_range_is_said_only_where_none_is(seed):
    Z, rows = streams(seed)
    det, kinds = Detector(nu=0.05, warmup=100).fit(Z), set()
    for row in rows:
        why = det.explain(row)
        assert not false_in(why.sentence)
        assert det.explain(row, top=1).sentence == why.sentence
        if CLAIM in why.sentence:
            assert beyond(why) == [] and not any(f.outside for f in why.features)
        if why.alert and why.cause == "whole":
            assert "it is the row as a whole" in why.sentence
        kinds.add(CLAIM in why.sentence)
    assert False in kinds


def test_a_number_out_of_its_range_that_did_nothing():
    rng = np.random.default_rng(71)
    d = int(rng.integers(2, 6))
    Z = (rng.random((700, d)) < 0.045) * rng.integers(1, 9, (700, d)).astype(float)
    why = Detector(nu=0.05, warmup=100).fit(Z).explain([0, 5, 1, 0, 0])
    (out,) = [f for f in why.features if f.outside]
    assert why.alert and out.value == 5.0 and out.usual == (0.0, 0.0) and out.effect >= 0
    assert why.cause == "whole" and why.named == () and CLAIM not in why.sentence
    assert "no number that is unusual by itself made it one" in why.sentence
