"""What is to be predicted must fit the task; a dry run tries the first rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.runs_of import command, onkel, write_rows

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")

from onkel.app.run.settings import RunSettings
from onkel.judge import judge_of


@pytest.fixture
def table(rng, tmp_path):
    """Return a function that writes 300 rows of two numbers and of other columns."""
    X = rng.normal(size=(300, 2))

    def write(**columns):
        return write_rows(tmp_path / "rows.csv", X, **columns)

    return write


def test_classes_are_no_measurements(table, rng, tmp_path) -> None:
    path, out = table(price=rng.normal(size=300).round(3)), tmp_path / "out"
    done = onkel("classify", path, "--target", "price", "-o", out, "--state", tmp_path / "s")
    assert done.exit_code == 3 and not out.exists(), done.output
    assert "A classifier takes labels, not measurements" in done.stderr
    assert "'price'" in done.stderr and "onkel regress" in done.stderr
    assert onkel("regress", path, "--target", "price", "-o", out, "--model", "linear",
                 "--state", tmp_path / "s").exit_code == 0  # fmt: skip


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (np.random.default_rng(0).permutation(10_000)[:300], 3),
        ([f"name {i}" for i in range(300)], 3),
        (np.arange(300) % 60, 0),
        ([f"name {i % 200}" for i in range(300)], 0),
        (np.arange(300) % 2 + 0.0, 0),
        (["true", "false"] * 150, 0),
    ],
)
def test_labels_of_which_almost_each_is_new_are_refused(table, tmp_path, values, code) -> None:
    path = table(y=values)
    done = onkel("classify", path, "--target", "y", "-o", tmp_path / "out", "--model", "linear")
    assert done.exit_code == code, done.output
    if code:
        assert "300 labels in 300 rows" in done.stderr
        assert ("onkel regress" in done.stderr) == isinstance(values, np.ndarray)


def test_a_few_rows_are_not_judged_by_their_labels(tmp_path) -> None:
    text = "a,y\n" + "".join(f"{i},{i}\n" for i in range(60))
    (tmp_path / "rows.csv").write_text(text)
    words = ["--target", "y", "-o", tmp_path / "out", "--model", "linear"]
    done = onkel("classify", tmp_path / "rows.csv", *words)
    assert done.exit_code == 0
    assert "60 labels in the first 60 rows" in done.stderr and "onkel regress" in done.stderr


def test_a_pipe_is_refused_as_well(table, rng) -> None:
    text = table(price=rng.normal(size=300)).read_text()
    done = command("classify", "-", "--target", "price", input=text)
    assert done.returncode == 3 and "measurements" in done.stderr and not done.stdout


def test_numbers_are_no_words(table, tmp_path) -> None:
    path = table(carrier=["AA", "UA", "DL"] * 100)
    done = onkel("regress", path, "--target", "carrier", "-o", tmp_path / "out")
    assert done.exit_code == 3 and "onkel classify" in done.stderr, done.output
    assert "'carrier'" in done.stderr and "'AA'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_one_class_is_a_hint(table, tmp_path) -> None:
    words = ["--target", "y", "-o", tmp_path / "out", "--model", "linear"]
    done = onkel("classify", table(y=["same"] * 300), *words)
    assert done.exit_code == 0
    assert "all of the first 300 rows have the label 'same'" in done.stderr
    assert "no other label than 'same' came" in done.stderr
    done = onkel("classify", table(y=["same"] * 299 + ["other"]), *words)
    assert "no other label" not in done.stderr
    assert "label '" not in onkel("classify", table(y=["u", "v"] * 150), *words).stderr


# -- a dry run ---------------------------------------------------------------------------------


def dry(task, path, *words):
    done = onkel(task, path, *words, "--dry-run", "--json")
    return json.loads(done.stdout), onkel(task, path, *words, "--dry-run")


def test_a_dry_run_tells_the_target(table) -> None:
    path = table(y=["u", "v", "v", "", "w"] * 60)
    told, words = dry("classify", path, "--target", "y")
    assert told["target"] == {
        "column": "y", "kind": "category", "without": 60, "different": 3,
        "classes": {"v": 120, "u": 60, "w": 60},
    }  # fmt: skip
    assert "target: y, category, 3 labels: v (120), u (60), w (60); 60 rows without" in words.stdout
    told, words = dry("regress", table(y=range(300)), "--target", "y")
    assert told["target"] == {"column": "y", "kind": "whole", "without": 0, "low": 0, "high": 299}
    assert "target: y, whole, 0 to 299" in words.stdout
    assert "target" not in dry("detect", path)[0]


def test_a_dry_run_tells_how_times_are_written(table) -> None:
    path = table(when=[f"{1 + i // 24:02}.03.2020 {i % 24:02}:56:30" for i in range(300)])
    told, words = dry("detect", path, "--time", "when")
    assert told["columns"][2]["written"] and told["broken"] == 0
    assert f"time:   when, {told['columns'][2]['written']}" in words.stdout


def test_a_dry_run_tells_decimal_commas(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a;b\n" + "1,25;3\n2,5;4\n" * 20)
    told, words = dry("detect", tmp_path / "rows.csv")
    assert told["decimal"] == "," and told["columns"][0]["mean"] == 1.875
    assert "precision, a comma before decimals" in words.stdout


def test_a_dry_run_tries_the_rows(tmp_path) -> None:
    rows = ["a,t,y", *["1,5,u"] * 20, "1,soon,u", "x,5,v", "1,6", *["2,7,v"] * 17]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    told, words = dry("classify", tmp_path / "rows.csv", "--target", "y", "--time", "t")
    assert told["rows_looked_at"] == 40 and told["broken"] == 3
    lines = [words.partition(":")[0] for words in told["first_broken"]]
    assert lines == ["line 22", "line 23", "line 24"]
    assert "3 of 40 rows were broken (7.5 %)" in words.stdout and words.exit_code == 0
    assert "--broken-at-most" in words.stdout and "line 23: column 'a': 'x' is no" in words.stdout


def test_a_dry_run_ends_as_a_run_would(table, rng) -> None:
    path = table(y=rng.normal(size=300))
    _, words = dry("classify", path, "--target", "y")
    assert words.exit_code == 3 and "measurements" in words.stderr and "rows looked" in words.stdout


def test_a_dry_run_warns_as_a_run_does(table) -> None:
    path = table(name=[f"x{i}" for i in range(300)], y=["same"] * 300)
    told, words = dry("classify", path, "--target", "y")
    said = onkel("classify", path, "--target", "y", "--model", "linear").stderr
    for warning in told["warnings"]:
        assert warning in said and warning in words.stdout
    assert len(told["warnings"]) == 2


# -- what is said of other columns -------------------------------------------------------------


def test_numbers_that_never_change_are_told(table, tmp_path) -> None:
    path = table(still=[5] * 300, moving=range(0, 900, 3))
    done = onkel("detect", path, "-o", tmp_path / "out")
    told = "column 'still' (5) holds the same value in all of the first 300 rows"
    assert told in done.stderr and "moving" not in done.stderr
    assert told in onkel("detect", path, "--dry-run").stdout
    path = table(**{f"c{i}": [i] * 300 for i in range(7)})
    assert "'c4' (4) and 2 more hold" in onkel("detect", path, "--dry-run").stdout


@pytest.mark.parametrize("words", [{"model": "linear"}, {"kernel": "gaussian"}])
def test_least_squares_has_intervals_whatever_the_loss(words) -> None:
    assert RunSettings("regress", rule="rls", **words).promised == 0.1
    settings = RunSettings("regress", rule="rls", nu=0.2, **words)
    model = settings.estimator()
    assert settings.promised == model.rule.nu == 0.2
    assert [*judge_of(model).fields()] == ["prediction", "low", "high", "target"]
