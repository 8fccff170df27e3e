"""The study of second order: a tiny run on a stream that is made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "experiments").is_dir():
    pytest.skip("the experiments are not here", allow_module_level=True)
for module in ("matplotlib", "river.base", "sklearn"):
    pytest.importorskip(module, reason="the study needs it")
sys.path.insert(0, str(ROOT))

from experiments import harness, second_order  # noqa: E402


def test_a_table_has_every_column_of_any_row():
    made = second_order.markdown([{"stream": "kin8nm", "error": 0.08437}, {"stream": "laser"}])
    assert made.splitlines()[2:] == ["| kin8nm | 0.08437 |", "| laser | - |"]


@pytest.mark.long
def test_a_quick_run(tmp_path, monkeypatch):
    monkeypatch.delenv("ONKEL_DATA", raising=False)
    monkeypatch.setattr(harness, "REPORTS", tmp_path)
    assert second_order.main(["--quick", "--streams", "all 12 alike;kin8nm;kafbox_mg30"]) == 0
    report = json.loads((tmp_path / "second_order_quick.json").read_text())
    (row,) = report["rows"]  # of files none is at hand
    assert report["series"] == report["checks"] == []
    assert row["rows"] == second_order.FEW
    best = min(row[model] for model in second_order.MODELS)
    assert row["mixture / best"] == pytest.approx(row["mixture"] / best)
    assert all(row[f"us, {model}"] > 0 for model in second_order.MODELS)
