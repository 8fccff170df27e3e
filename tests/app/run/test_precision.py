"""Single or double precision, and a few words on many alerts."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from click.testing import CliRunner
from helpers.runs_of import json_lines, write_rows

from onkel import Detector, load
from onkel.app.cli import main
from onkel.app.run.precision import narrowed, needs_double
from onkel.judge import briefly
from onkel.judge.brief import WHOLE


def onkel(*words):
    done = CliRunner().invoke(main, [str(w) for w in words])
    assert done.exit_code == 0, done.output
    return done


def test_columns_far_from_zero_and_close_together_need_double(rng):
    X = rng.normal(size=(500, 5))
    X[:, 1] = 1.7e9 + np.arange(500)  # seconds since 1970
    X[:, 2] = 1e-30 * X[:, 2]  # tiny, but all of it
    X[:, 3] = 7.0  # constant
    X[:, 4] = 1.7e9  # a constant that may move by one later
    X[::7, 0] = np.nan
    assert needs_double(X, list("abcde")) == ["b", "e"]
    # what is said: rounding moves nothing by more than a ten-thousandth of its spread
    kept = [j for j in range(4) if j != 1]
    moved = np.nanmax(np.abs(narrowed(X) - X), axis=0)[kept]
    assert np.all(moved <= 1e-4 * np.nanstd(X, axis=0)[kept] + 1e-12)
    moved = np.abs(narrowed(X) - X)[:, 1].max()
    assert moved > 1e-4 * X[:, 1].std()


def test_a_run_takes_the_precision_its_numbers_need(rng, tmp_path):
    X = rng.normal(size=(400, 2))
    plain = write_rows(tmp_path / "plain.csv", X)
    X[:, 1] = 1.7e9 + np.arange(400) % 60
    stamps = write_rows(tmp_path / "stamps.csv", X)
    for path, kind in ((plain, "float32"), (stamps, "float64")):
        state = tmp_path / kind
        onkel("detect", path, "--state", state, "-o", tmp_path / f"{kind}.out")
        (file,) = state.glob("models-*.onkel")
        assert load(file)._learner.dtype == kind
        told = json.loads(onkel("detect", path, "--dry-run", "--json").stdout)
        assert told["precision"] == {"float32": "single", "float64": "double"}[kind]
    assert "for the digits of b" in onkel("detect", stamps, "--dry-run").output


def test_the_precision_of_a_run_stays_when_it_goes_on(rng, tmp_path):
    X = rng.normal(size=(300, 2))
    path = write_rows(tmp_path / "rows.csv", X)
    words = ["detect", path, "--state", tmp_path / "s", "--all", "-o", tmp_path / "out"]
    onkel(*words)
    more = rng.normal(size=(300, 2))
    more[:, 1] = 1.7e9 + np.arange(300)  # a run that began here would take double precision
    with open(path, "a") as file:
        file.writelines(f"{a!r},{b!r}\n" for a, b in more.tolist())
    onkel(*words)
    whole = write_rows(tmp_path / "whole.csv", np.concatenate([X, more]))
    onkel("detect", whole, "--precision", "single", "--all", "-o", tmp_path / "once")
    det = Detector(missing="mean")
    for part in (slice(0, 64), slice(64, 128), slice(128, 256), slice(256, 300)):
        det.predict_then_learn(X[part].astype(np.float32))
    truth = det.predict_then_learn(more[:212].astype(np.float32), output="score")
    found = [line["score"] for line in json_lines(tmp_path / "out")]
    assert found[300:512] == truth.tolist()


def test_beyond_single_precision(rng, tmp_path):
    X = rng.normal(size=(200, 2))
    X[100, 0] = 1e60
    path = write_rows(tmp_path / "rows.csv", X)
    onkel("detect", path, "--precision", "single", "-o", tmp_path / "out", "--all")
    found = json_lines(tmp_path / "out")
    assert len(found) == 200 and found[100]["p"] < 1e-9 and found[199]["p"] > 0.001


def test_a_few_words(rng):
    X = np.array([[0.0, 10.0, 3.0], [np.nan, 4.0, -9.0], [1e12, 10.0, 0.0]])
    said = briefly(X, np.array([0.0, 10.0, 0.0]), np.array([1.0, 2.0, 1.0]), ["a", "b", "c"])
    assert said[0] == "c 3.00 is 3.0 spreads above its mean."
    assert said[1] == "c -9.00 is 9.0 spreads below its mean, b 4.00 is 3.0 spreads below its mean."
    assert said[2].startswith("a 1e+12 is 1000000000000.0 spreads above")


def test_every_alert_has_words(rng, tmp_path):
    X = rng.normal(size=(6000, 2))
    path = write_rows(tmp_path / "rows.csv", X)
    onkel("detect", path, "-o", tmp_path / "out", "--nu", 0.1)
    found = [line for line in json_lines(tmp_path / "out") if line["row"] >= 64]
    whole = [line for line in found if line["why"].startswith("Alert")]
    numbers = [i for i, line in enumerate(found) if line in whole]
    assert numbers == [*range(200), *range(500, len(found), 500)]
    assert all(line["why"] for line in found)
    for line in found:
        row, first = X[line["row"]], line["why"].split()[0]
        if first in ("a", "b") and " and " not in line["why"]:
            assert abs(row["ab".index(first)]) == pytest.approx(np.abs(row).max(), abs=0.3)
            assert abs(row["ab".index(first)]) > 1.8
        elif line not in whole:
            assert " and b " in line["why"] or line["why"] == WHOLE
    onkel("detect", path, "-o", tmp_path / "none", "--nu", 0.1, "--explain", "none")
    assert all(line["why"] is None for line in json_lines(tmp_path / "none"))


def test_a_number_beyond_single_precision_is_explained(rng, tmp_path) -> None:
    X = rng.normal(size=(3000, 2))
    X[2500, 0] = 1e39
    path = write_rows(tmp_path / "rows.csv", X)
    done = onkel("detect", path, "-o", tmp_path / "out", "--state", tmp_path / "s", "--all")
    assert done.exit_code == 0, done.output
    strange = json_lines(tmp_path / "out")[2500]
    assert strange["p"] < 1e-9 and "is as unusual" in strange["why"]
