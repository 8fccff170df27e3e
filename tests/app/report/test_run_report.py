"""The report of a run."""

from __future__ import annotations

import os

import pytest
from helpers.runs_of import onkel

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")


def test_a_report_of_nothing(tmp_path) -> None:
    pytest.importorskip("bokeh", reason="needs bokeh: pip install onkel[report]")
    (tmp_path / "empty.csv").write_text("a,b\n")
    report = tmp_path / "r.html"
    done = onkel("detect", tmp_path / "empty.csv", "--report", report, "-o", tmp_path / "out")
    assert done.exit_code == 0 and "0 rows" in report.read_text()
    if os.path.exists("/dev/full"):
        done = onkel("detect", tmp_path / "empty.csv", "--report", "/dev/full")
        assert done.exit_code == 5 and "--report" in done.stderr
