"""Reasons in the command's output: for every alert, however the input is cut, with keys too."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.reasons import all_true
from helpers.runs_of import json_lines, write_rows
from helpers.sizes import size

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")

from click.testing import CliRunner

from onkel.app.cli import main


def onkel(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done


def found(path):
    return [(line["row"], line["alert"], line["why"]) for line in json_lines(path)]


@pytest.fixture
def keyed(rng, tmp_path):
    """Return a file of rows of five keys, with faults."""
    X = rng.normal(size=(size(3300, 4000), 3))
    X[1500::41, 1] += 7.0
    lines = [f"k{i % 5}," + ",".join(f"{v:.4f}" for v in row) for i, row in enumerate(X)]
    path = tmp_path / "keyed.csv"
    path.write_text("\n".join(["who,a,b,c", *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    "more", size([[], ["--model", "kernel"]], [[], ["--explain", "all"], ["--model", "kernel"]])
)
def test_the_same_reasons_however_the_input_is_cut(rng, tmp_path, more):
    X = rng.normal(size=(2500, 3))
    X[1000::37, 1] += 7.0
    path, seen = write_rows(tmp_path / "rows.csv", X), []
    for block in size((64, 16384), (64, 700, 16384)):
        out = tmp_path / f"out{block}"
        onkel("detect", path, "-o", out, "--block", block, *more)
        seen.append(found(out))
    assert seen[0] == seen[1] == seen[-1] and len(seen[0]) > 20
    all_true(why for _, _, why in seen[0])


@pytest.mark.parametrize(
    "more",
    size([["--lags", 2], ["--share"]], [[], ["--lags", 2], ["--explain", "all"], ["--share"]]),
)
def test_every_alert_of_every_key_has_a_true_reason(keyed, tmp_path, more):
    seen = []
    for block in (100, 16384):
        out = tmp_path / f"out{block}"
        onkel("detect", keyed, "--key", "who", "-o", out, "--block", block, *more)
        seen.append(found(out))
    assert seen[0] == seen[1] and len(seen[0]) > 20
    all_true(why for _, _, why in seen[0])


def test_a_run_that_goes_on_says_the_same(rng, tmp_path):
    X = rng.normal(size=(3000, 3))
    X[900::31, 2] -= 7.0
    whole, part = write_rows(tmp_path / "rows.csv", X), tmp_path / "part.csv"
    onkel("detect", whole, "-o", tmp_path / "whole")
    part.write_text("".join(whole.read_text().splitlines(keepends=True)[:1501]))
    words = ["-o", tmp_path / "parts", "--state", tmp_path / "state"]
    onkel("detect", part, *words)
    part.write_text(whole.read_text())
    onkel("detect", part, *words)
    assert found(tmp_path / "parts") == found(tmp_path / "whole")
    assert np.mean([why.startswith("Alert") for _, _, why in found(tmp_path / "whole")]) > 0.5
