"""The studies of fleets: what they measure, on streams that are made up, and tiny runs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "experiments").is_dir():
    pytest.skip("the experiments are not here", allow_module_level=True)


def load(name: str) -> Any:
    return importlib.import_module(f"experiments.{name}")


cold, series, sets = load("fleet_cold_start"), load("fleet_series"), load("detection_sets")


@pytest.mark.parametrize("name", cold.SETS)
def test_rows_of_keys_that_begin_one_by_one(name, rng, monkeypatch):
    monkeypatch.setattr(cold, "ROWS", 50)
    rows = cold.made(rng, 40, *cold.SETS[name])
    for key in range(40):
        assert rows.age[rows.keys == key].tolist() == [*range(50)]
    early = np.unique(rows.keys[:50])
    assert (len(early) > 15) == (name == "at once")
    assert 0 < rows.fault.mean() < 0.03


def test_shares_are_counted_by_age():
    age = np.tile([0, 99, 100, 499, 500], 20)
    fault = np.repeat([True, False], 50)
    rows = cold.Rows(age * 0, age, np.zeros((100, 1)), fault)
    alert = np.isin(age, [99, 100]) & fault
    told = cold.shares(rows, alert)
    assert told["found in 100"] == 0.5 and told["usual in 100"] == 0.0
    assert told["found in 500"] == 0.5 and told["usual in 500"] == 0.0


def test_a_tiny_cold_start(rng, monkeypatch):
    monkeypatch.setattr(cold, "ROWS", 110)
    alone, shared = cold.study("at once", rng, 12)
    assert alone["found in 100"] == alone["usual in 100"] == 0.0
    assert not alone["share"] and shared["share"] and shared["rows"] == 1320


def test_a_fleet_of_series_differs_in_no_bit_and_a_shared_one_does(rng):
    streams = [
        sets.Stream(f"s{i}", rng.normal(size=(400, 1)), rng.random(400) < 0.02, 200)
        for i in range(8)
    ]
    lines, checks = series.study("made up", streams)
    assert [line["way"] for line in lines] == ["alone", "fleet", "shared"]
    assert lines[1]["differ"] == 0 < lines[2]["differ"]
    assert all(check.ok for check in checks)
