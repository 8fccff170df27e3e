"""The study of series: faults as they are planted, measures by plain loops, a small run."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "experiments").is_dir():
    pytest.skip("the experiments are not here", allow_module_level=True)
pytest.importorskip("sklearn", reason="the study needs it")
sys.path.insert(0, str(ROOT))

from experiments import series_study as study  # noqa: E402


def test_faults_stand_in_the_second_half_on_four_days():
    times, values, fault = study.faulty(3)
    days = {
        kind: {int(d) for d in np.flatnonzero(fault == kind) // study.DAY} for kind in range(1, 5)
    }
    assert len(set.union(*days.values())) == 4 and all(len(d) == 1 for d in days.values())
    assert np.flatnonzero(fault).min() >= len(fault) // 2
    assert all((times[fault > 0] - study.MONDAY) // 86400 % 7 < 5)
    assert np.ptp(values[fault == 3]) == 0.0


def test_the_measures_by_plain_loops(rng):
    strange, fault = rng.normal(size=200).round(1), np.zeros(200, int)
    for kind in range(1, 5):
        fault[100 + 10 * kind : 105 + 10 * kind] = kind
    usual = [s for i, (s, k) in enumerate(zip(strange, fault, strict=True)) if i >= 80 and k == 0]
    for kind, (auc, share) in enumerate(study.found(strange, fault), 1):
        inside = strange[fault == kind]
        wins = [(a > b) + 0.5 * (a == b) for a in inside for b in usual]
        assert auc == pytest.approx(np.mean(wins))
        assert share == pytest.approx(np.mean([s >= max(inside) for s in usual]))


def test_the_density_by_plain_loops(rng):
    rows = rng.normal(size=(200, 2))
    found = study.density(rows, recent=50, block=64)
    unit = rows[:192].std(axis=0) / 2.0
    for i in (192, 199):
        kernels = [np.exp(-np.abs((rows[i] - row) / unit).sum()) for row in rows[142:192]]
        assert found[i] == pytest.approx(-np.log(np.mean(kernels)))


def test_every_fault_is_found_with_the_defaults():
    times, values, fault = study.faulty(0)
    rows = study.shown(study.SEEN[study.COMMAND], values, times)
    assert max(share for _, share in study.found(study.density(rows), fault)) < study.WORST
    alone = study.found(study.density(study.shown(None, values, times)), fault)
    assert max(share for _, share in alone) > 10 * study.WORST
