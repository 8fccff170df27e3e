"""Rows that are lost are told of: broken ones, and those without a label."""

from __future__ import annotations

import json

import pytest
from helpers.runs_of import carry_out, command, json_lines, onkel

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")


def table(path, good: int, bad: int, broken: str = "x,1"):
    """Write good rows, each tenth followed by a broken one until there are enough."""
    lines = ["a,b"]
    for i in range(good):
        lines.append(f"{i % 7},{i % 5}")
        if i % 10 == 0 and bad:
            lines.append(broken)
            bad -= 1
    path.write_text("\n".join(lines) + "\n")
    return path


def test_too_many_broken_rows_have_a_code_of_their_own(tmp_path) -> None:
    rows, out = table(tmp_path / "rows.csv", 100, 6), tmp_path / "out"
    done = onkel("detect", rows, "--all", "-o", out)
    assert done.exit_code == 6, done.output
    assert "6 of 106 rows were broken (5.66 %), more than --broken-at-most 0.05" in done.stderr
    for line in (3, 14, 25):
        assert f"line {line}: column 'a': 'x' is no number" in done.stderr
    assert "line 36" not in done.stderr and "--ignore a" in done.stderr
    assert len(json_lines(out)) == 100  # what was written stays


def test_a_few_broken_rows_are_told_and_no_more(tmp_path) -> None:
    rows = table(tmp_path / "rows.csv", 100, 5)
    done = onkel("detect", rows, "-o", tmp_path / "out")
    assert done.exit_code == 0 and "5 of 105 rows were broken (4.76 %)" in done.stderr
    assert "line 3: column 'a': 'x' is no number" in done.stderr


@pytest.mark.parametrize(("most", "code"), [("0.04", 6), ("0", 6), ("0.06", 0), ("1", 0)])
def test_the_share_is_the_users(tmp_path, most, code) -> None:
    rows = table(tmp_path / "rows.csv", 100, 5)
    done = onkel("detect", rows, "-o", tmp_path / "out", "--broken-at-most", most)
    assert done.exit_code == code, done.output


def test_one_of_three_is_too_many_and_none_of_none_is_not(tmp_path) -> None:
    (tmp_path / "three.csv").write_text("a\n1\n2\nx\n")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n1\n1,3\n")
    (tmp_path / "none.csv").write_text("a,b\n")
    assert onkel("detect", tmp_path / "rows.csv").exit_code == 6
    assert onkel("detect", tmp_path / "none.csv").exit_code == 0
    assert onkel("detect", tmp_path / "rows.csv", "--broken-at-most", "2").exit_code == 2


def test_a_run_that_goes_on_counts_all_its_rows(tmp_path) -> None:
    rows = table(tmp_path / "rows.csv", 100, 6)
    words = ["detect", rows, "-o", tmp_path / "out", "--state", tmp_path / "s"]
    assert onkel(*words).exit_code == 6
    assert onkel(*words).exit_code == 6  # nothing new came
    with open(rows, "a") as file:
        file.write("1,2\n" * 20)
    done = onkel(*words)
    assert done.exit_code == 0 and "6 of 126 rows were broken (4.76 %)" in done.stderr
    with open(rows, "a") as file:
        file.write("x,2\n" * 20)
    done = onkel(*words)
    assert done.exit_code == 6 and "26 of 146 rows were broken" in done.stderr
    assert "line 3:" in done.stderr and "line 25:" in done.stderr  # the run's first ones
    told = json.loads(onkel("inspect", tmp_path / "s", "--json").stdout)
    assert told["broken"] == 26 and len(told["first_broken"]) == 3


def test_a_pipe_and_a_followed_file_end_the_same(tmp_path) -> None:
    rows = table(tmp_path / "rows.csv", 40, 4)
    done = command("detect", "-", input=rows.read_text())
    assert done.returncode == 6 and "4 of 44 rows were broken" in done.stderr
    done = onkel("detect", rows, "--follow", "--stop-after", "0", "-o", tmp_path / "out")
    assert done.exit_code == 6


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("a,b\n1,2\n1;2\n", [], "--delimiter"),
        ("a,b\n1,2\n1,\n", ["--missing", "skip"], "--missing mean"),
        ("a,t\n1,5\n2,4\n", ["--time", "t", "--memory", "1h"], "sort the rows"),
        ("a,t\n1,5\n2,soon\n", ["--time", "t"], "--time"),
        ("a,k\n1,5\n2,\n", ["--key", "k"], "--key"),
        ('{"a": 1}\n' + '{"a": 1, "b": "' + 99 * "x" + '"}\n', ["--format", "jsonl", "--longest",
         "64"], "--longest"),
    ],
)  # fmt: skip
def test_what_may_help_is_said(tmp_path, text, words, hint) -> None:
    (tmp_path / "rows.csv").write_text(text)
    done = onkel("detect", tmp_path / "rows.csv", *words)
    assert done.exit_code == 6 and hint in done.stderr.partition("line ")[2], done.output


# -- rows without a label ----------------------------------------------------------------------


def labelled(path, without: int, rows: int = 100):
    lines = [f"{i % 7},{'' if i < without else 'uv'[i % 2]}" for i in range(rows)]
    path.write_text("\n".join(["a,y", *lines]) + "\n")
    return path


def test_rows_without_a_label_are_told(tmp_path) -> None:
    rows = labelled(tmp_path / "rows.csv", 4)
    done = onkel("classify", rows, "--target", "y", "-o", tmp_path / "out", "--model", "linear")
    assert done.exit_code == 0
    assert "4 of 100 rows had no label and were predicted only" in done.stderr
    assert "--missing-label" not in done.stderr


def test_many_rows_without_a_label_are_a_warning(tmp_path) -> None:
    rows = labelled(tmp_path / "rows.csv", 60)
    words = ["classify", rows, "--target", "y", "-o", tmp_path / "out", "--model", "linear"]
    done = onkel(*words)
    assert "60 of 100 rows had no label and were predicted only" in done.stderr
    assert "'y'" in done.stderr and "--missing-label" in done.stderr
    done = onkel(*words, "--json")
    assert json.loads(done.stdout)["unlabelled"] == 60 and "--missing-label" in done.stderr
    assert not onkel(*words, "--quiet").stderr


def test_rows_without_a_number_to_predict_are_told(tmp_path) -> None:
    lines = [f"{i % 7},{'' if i % 2 else i % 3}" for i in range(100)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,y", *lines]) + "\n")
    done = onkel("regress", tmp_path / "rows.csv", "--target", "y", "-o", tmp_path / "out")
    assert "50 of 100 rows had no target and were predicted only" in done.stderr
    assert "--missing-label" not in done.stderr and "'y'" in done.stderr
    done = onkel("detect", tmp_path / "rows.csv", "-o", tmp_path / "out")
    assert "predicted only" not in done.stderr


# -- the summary -------------------------------------------------------------------------------


def test_the_summary_is_printed_where_nobody_watches(rows, tmp_path) -> None:
    done = command("detect", rows, "-o", tmp_path / "out")
    assert done.returncode == 0 and done.stderr.startswith("600 rows · ")
    assert "promised" in done.stderr and "\r" not in done.stderr
    assert carry_out("detect", rows, "-o", tmp_path / "out", "--quiet").stderr == ""
    assert carry_out("detect", rows, "-o", tmp_path / "out", "--json").stderr == ""
