"""The study of relevance: what its made streams say, a tiny run."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "experiments").is_dir():
    pytest.skip("the experiments are not here", allow_module_level=True)
for module in ("matplotlib", "river.base", "sklearn"):
    pytest.importorskip(module, reason="the study needs it")
sys.path.insert(0, str(ROOT))

from experiments import harness, relevance  # noqa: E402


def test_the_arm_joint_by_joint():
    X, y = relevance.arm(rows=50)
    for row, way in zip(X.tolist(), y.tolist(), strict=True):
        turned, x, z = 0.0, 0.0, 0.0
        for joint in row[:8]:
            turned += joint
            x, z = x + math.cos(turned) / 8, z + math.sin(turned) / 8
        assert way == pytest.approx(math.hypot(x - 0.1, z - 0.1))


def test_friedmans_function_and_its_noise():
    X, y = relevance.friedman(rows=2000)
    told = [10 * math.sin(math.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
            for a, b, c, d, e, *_ in X.tolist()]  # fmt: skip
    assert X.shape == (2000, 30)
    assert np.std(y - told) == pytest.approx(1.0, abs=0.1)


def test_a_stream_is_the_same_again():
    for first, second in zip(relevance.alike(100), relevance.alike(100), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.long
def test_a_quick_run(tmp_path, monkeypatch):
    monkeypatch.delenv("ONKEL_DATA", raising=False)
    monkeypatch.setattr(harness, "REPORTS", tmp_path)
    assert relevance.main(["--quick", "--streams", "Friedman's 5 of 30;kin8nm"]) == 0
    (row,) = json.loads((tmp_path / "relevance_quick.json").read_text())["rows"]
    assert (row["rows"], row["columns"]) == (relevance.FEW, 30)
    assert 0 < row["with"] < 0.95 * row["without"]
    assert row["time"] > 0
