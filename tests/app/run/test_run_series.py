"""Shapes and seasons from the command line: as the library has them, by key, through deaths."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import carry_out, command, json_lines, onkel, write_rows
from helpers.sizes import size

import onkel as package
from onkel import Detector
from onkel.app.run.precision import narrowed
from onkel.series import Lags, Series

ROWS = size(700, 3000)
STEP = 1800
DEATHS = ["model:3", "before-commit:2", "output:4"]


def load(rng, rows=ROWS):
    t = np.arange(rows) * STEP
    return (np.sin(t * 2 * np.pi / 86400) + 0.2 * rng.normal(size=rows))[:, None]


def stamps(rows=ROWS):
    return [int(1.7e9) + STEP * i for i in range(rows)]


def scores(done, path):
    assert done.exit_code == 0, done.output
    return [line["score"] for line in json_lines(path)]


def as_the_library(X, lags, time=None):
    wide, model = lags.transform_then_learn(X, time=time), Detector(missing="mean")
    return model.predict_then_learn(narrowed(wide), output="score")


@pytest.mark.parametrize(
    "words, lags",
    [
        ([], Lags()),
        (["--lags", "auto", "--season", "auto"], Lags(season="auto")),
        (["--lags", "3"], Lags(3, shape=4, roughness=3, forecast=3)),
        (["--lags", "0", "--season", "48"], Lags(roughness=0, forecast=0, season=48)),
        (["--differences", "--season", "none"], Lags(differences=True)),
        (["--lags", "0"], None),
    ][size(1, 0) :: size(2, 1)],
)
def test_as_the_library(rng, tmp_path, words, lags):
    X = load(rng)
    path = write_rows(tmp_path / "rows.csv", X)
    done = onkel("detect", path, "--all", "-o", tmp_path / "out", *words)
    truth = as_the_library(X, lags or Lags(roughness=0, forecast=0))
    np.testing.assert_allclose(scores(done, tmp_path / "out"), truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "words, lags",
    [
        ([], Lags(season="day")),
        (["--season", "day,week"], Lags(season="day,week")),
        (["--season", "auto"], Lags(season="auto")),
        (["--season", "none"], Lags()),
        (["--lags", "2"], Lags(2, shape=3, roughness=2, forecast=2)),
    ][:: size(2, 1)],
)
def test_by_the_clock(rng, tmp_path, words, lags):
    """The day where there are times, unless told."""
    X = load(rng)
    path = write_rows(tmp_path / "rows.csv", X, at=stamps())
    done = onkel("detect", path, "--all", "-o", tmp_path / "out", "--time", "at", *words)
    truth = as_the_library(X, lags, stamps())
    np.testing.assert_allclose(scores(done, tmp_path / "out"), truth, rtol=1e-4, atol=1e-4)


def test_several_columns_stay_as_they_are_unless_told(rng, tmp_path):
    X = rng.normal(size=(300, 2))
    path = write_rows(tmp_path / "rows.csv", X)
    done = onkel("detect", path, "--all", "-o", tmp_path / "out")
    plain = Detector(missing="mean").predict_then_learn(narrowed(X), output="score")
    np.testing.assert_allclose(scores(done, tmp_path / "out"), plain, rtol=1e-4, atol=1e-4)
    told = json.loads(onkel("detect", path, "--lags", "auto", "--dry-run", "--json").stdout)
    assert told["seen"] == Lags().get_feature_names_out(["a", "b"]).tolist()


@pytest.mark.parametrize("words", [["--lags", 2], ["--season", 48], ["--differences"]])
def test_a_series_leaves_out_what_is_no_number(rng, tmp_path, words):
    X = load(rng)
    path = write_rows(tmp_path / "rows.csv", X, who=[f"k{i % 3}" for i in range(ROWS)])
    outs = []
    for more in ([], ["--ignore", "who"]):
        done = onkel("detect", path, "--all", "-o", tmp_path / "out", *words, *more)
        assert ("column 'who' is left out, as --lags" in done.stderr) == (not more)
        outs.append(scores(done, tmp_path / "out"))
    assert outs[0] == outs[1]
    done = onkel("detect", path, "--columns", "who", *words)
    assert done.exit_code == 3 and "no column to learn from (" in done.stderr


def test_each_key_is_a_series_of_its_own(rng, tmp_path):
    X, keys = load(rng), [f"k{i}" for i in rng.integers(0, 3, ROWS)]
    path = write_rows(tmp_path / "rows.csv", X, who=keys)
    more = ["--key", "who", "--models-in-memory", 2, "--all"]
    done = onkel("detect", path, "-o", tmp_path / "out", *more)
    found = np.array(scores(done, tmp_path / "out"))
    for key in set(keys):
        which = np.array(keys) == key
        truth = as_the_library(X[which], Lags())
        np.testing.assert_allclose(found[which], truth, rtol=1e-4, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("more", [[], ["--key", "who", "--models-in-memory", 1]])
def test_a_death_changes_nothing(rng, tmp_path, more):
    X, keys = load(rng), [f"k{i}" for i in rng.integers(0, 2, ROWS)]
    path = write_rows(tmp_path / "rows.csv", X, at=stamps(), who=keys)
    how = ["--time", "at", "--lags", "auto", "--differences", "--all", "--every", 0, "--block", 64]
    outs = []
    for name, deaths in (("whole", []), ("cut", DEATHS)):
        words = ["detect", path, "--state", tmp_path / name, "-o", tmp_path / f"{name}.out"]
        for death in deaths:
            done = command(*words, *how, *more, dies=death)
            assert done.returncode == -signal.SIGKILL
        assert carry_out(*words, *how, *more).returncode == 0
        outs.append((tmp_path / f"{name}.out").read_bytes())
    assert outs[0] == outs[1] and outs[0].count(b"\n") == ROWS


def test_the_state_holds_a_series(rng, tmp_path):
    path = write_rows(tmp_path / "rows.csv", load(rng), at=stamps())
    words = ["detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out"]
    words += ["--time", "at", "--season", "auto"]
    assert onkel(*words).exit_code == 0
    (file,) = (tmp_path / "s").glob("models-*")
    model = package.load(file)
    assert type(model) is Series and model.lags.season_ == "day"
    assert "model: season" in onkel("inspect", tmp_path / "s").output
    done = onkel(*words, "--lags", "2")
    assert done.exit_code != 0 and "--lags was not given, is 2" in done.stderr


def test_gaps(rng, tmp_path):
    lines = ["a", "", "1.0", "", *map(repr, rng.normal(size=200).tolist()), "", "2.0"]
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"a": float(v) if v else None}) + "\n" for v in lines[1:])
    )
    done = onkel("detect", tmp_path / "rows.jsonl", "--all", "-o", tmp_path / "out")
    assert len(scores(done, tmp_path / "out")) == 205


def test_targets_may_be_predicted_from_a_series(tmp_path):
    X = np.sin(0.3 * np.arange(400))[:, None]  # one value does not tell whether it rises
    path = write_rows(tmp_path / "rows.csv", X[:-1], y=X[1:, 0].tolist())
    errors = {}
    for lags in ("0", "3"):
        done = onkel(
            "regress", path, "--target", "y", "--lags", lags, "-o", tmp_path / lags, "--json"
        )
        errors[lags] = json.loads(done.stdout)["mean_absolute_error"]
    assert errors["3"] < 0.5 * errors["0"]


def test_a_dry_run_says_what_is_seen(rng, tmp_path):
    path = write_rows(tmp_path / "rows.csv", load(rng), at=stamps())
    said = onkel("detect", path, "--dry-run", "--time", "at").output
    assert "series: each value beside how rough the last 8 steps were" in said
    assert "its place in the day; as there is one column (--lags 0: not so)" in said
    found = onkel("detect", path, "--dry-run", "--time", "at", "--season", "auto").output
    assert "once one is found (the day by --time, or else a number of rows)" in found
    alone = onkel("detect", path, "--dry-run", "--ignore", "at").output
    assert "(--lags 0: not so; --time COL: with its place in the day)" in alone
    assert "series:" not in onkel("detect", path, "--dry-run", "--lags", 0).output


@pytest.mark.parametrize(
    "words, said",
    [
        (["--season", "day"], "--season day goes by the clock: name its column, --time COL"),
        (["--lags", "many"], "--lags is auto, or a number of earlier values; got 'many'"),
        (["--lags", "1001"], "lags must be a whole number in [0, 1000]"),
        (["--season", "year"], "season must be 'auto', 'day', 'week'"),
    ],
)
def test_what_does_not_fit_is_refused(rng, tmp_path, words, said):
    done = onkel("detect", write_rows(tmp_path / "rows.csv", load(rng)), *words)
    assert done.exit_code == 2 and said in done.stderr
