"""What the command says of a block of rows, against plain loops."""

from __future__ import annotations

import numpy as np

from onkel.alerting import RecentScores
from onkel.judge import ranks_at


def test_ranks_in_bounded_memory(rng) -> None:
    scores, at = rng.normal(size=3000), np.arange(0, 3000, 7)
    for size in (1, 50, 2**18 + 1):
        recent = RecentScores(size)
        recent.extend(scores[:500])
        line = np.concatenate([scores[:500], scores])
        truth = []
        for i in (at + 500).tolist():
            window = line[max(i - size, 0) : i]
            truth.append((1 + sum(window <= line[i])) / (1 + len(window)))
        np.testing.assert_array_equal(ranks_at(recent, scores, at), truth)
    assert len(ranks_at(RecentScores(5), scores, at[:0])) == 0
