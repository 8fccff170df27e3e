"""The study of asked labels: it counts all rows, and gives away no label that was not asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "experiments").is_dir():
    pytest.skip("the experiments are not here", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from experiments import asking  # noqa: E402
from onkel import KernelClassifier  # noqa: E402


def test_all_labels_are_a_plain_loop(rng):
    X = rng.normal(size=(200, 2))
    y = X[:, 0] > 0
    found, given = asking.played(KernelClassifier, X, y, 1.0, "all")
    model, wrong = KernelClassifier(), 0
    for start in range(0, 200, asking.BLOCK):
        rows = slice(start, start + asking.BLOCK)
        said = model.predict(X[rows]) if start else np.full(asking.BLOCK, None)
        wrong += np.count_nonzero(said != y[rows])
        model.partial_fit(X[rows], y[rows])
    assert given == 1.0 and found == pytest.approx(wrong / 200)


def test_as_many_labels_as_were_promised(rng):
    X = rng.normal(size=(1000, 2))
    for chosen in ("asked", "random"):
        found, given = asking.played(KernelClassifier, X, X[:, 0] > 0, 0.1, chosen)
        assert given == pytest.approx(0.1, abs=0.03) and 0 < found < 0.5
