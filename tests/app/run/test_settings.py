"""Settings and options: what a file of settings may hold, what does not go together."""

from __future__ import annotations

import pytest
from helpers.runs_of import json_lines, onkel

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from onkel.app.cli import main
from onkel.app.run.checkpoint import State
from onkel.app.run.differing import option_of
from onkel.app.run.settings import TASKS


@pytest.mark.parametrize(
    "line",
    ["nu = [1]", "nu = true", "nu = 2024-01-01", "state = 5", "all = 1", "strict = []",
     "block = 100.5", "every = true", 'output = ["x"]', 'source = "x"', "ignore = 3"],
)  # fmt: skip
def test_a_setting_of_the_wrong_kind_is_named(rows, tmp_path, line) -> None:
    (tmp_path / "c.toml").write_text(line + "\n")
    done = onkel("detect", rows, "--config", tmp_path / "c.toml")
    assert done.exit_code == 2 and line.split()[0] in done.stderr, done.output


def test_settings_may_be_written_as_in_toml(rows, tmp_path) -> None:
    text = 'ignore = "a"\nmemory = 500\nall = true\nnu = 0.1\nblock = 128\n'
    (tmp_path / "c.toml").write_text(text)
    done = onkel("detect", rows, "--config", tmp_path / "c.toml", "-o", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    assert len(json_lines(tmp_path / "out")) == 600


@pytest.mark.parametrize("more", [["--window", 0], ["--rate", -1]])
def test_a_refusal_names_the_option(rows, more) -> None:
    done = onkel("detect", rows, *more)
    assert done.exit_code == 2 and f"onkel: {more[0]} must be" in done.stderr, done.output


def test_what_is_no_number_is_told_so(rows) -> None:
    for option, value, kind in (
        ("--cool-down", "5min", "a whole number"),
        ("--every", "x", "a number"),
    ):
        done = onkel("detect", rows, option, value)
        assert done.exit_code == 2 and f"{kind} is needed, and got '{value}'" in done.stderr
    assert "is not in the range x>=0" in onkel("detect", rows, "--every", -1).stderr


def test_options_that_do_not_go_together(rows) -> None:
    done = onkel("detect", rows, "--kernel", "linear", "--gamma", 3)
    assert done.exit_code == 2 and "--gamma does not go with Linear" in done.stderr
    done = onkel("detect", rows, "--kernel", "spectrum")
    assert done.exit_code == 2 and "texts" in done.stderr


OTHERS = {
    "--nu 0.02": "--nu was not given, is 0.02", "--numbers double": "--numbers was auto, is double",
    "--precision 0.8": "--precision was not given, is 0.8",
    "--memory-of-feedback 500": "--memory-of-feedback was not given, is 500",
    "--memory 9000": "--memory was not given, is 9000", "--all": "--all was not given, is given",
    "--no-scale": "--no-scale was not given, is given", "--key b": "--key was not given, is b",
    "--no-learn-alerts": "--no-learn-alerts was not given, is given",
    "--ignore a --ignore b": "--ignore was not given, is a,b",
    "--types a=number": "--types was not given, is a=number",
    "--cool-down 5 --incident-gap 30": "--cool-down was 0, is 5; --incident-gap was 20, is 30",
}  # fmt: skip


def test_other_settings_than_those_of_a_state_are_named_as_options(rows, tmp_path) -> None:
    state = ["--state", tmp_path / "s"]
    assert onkel("detect", rows, *state).exit_code == 0
    for words, told in OTHERS.items():
        done = onkel("detect", rows, *state, *words.split())
        assert done.exit_code == 4 and f"other settings: {told}. Use" in done.stderr, done.output
    done = onkel("regress", rows, *state, "--target", "a")
    assert done.exit_code == 4 and "of onkel detect, and this is onkel regress" in done.stderr


def test_each_setting_that_may_differ_is_an_option(rows, tmp_path) -> None:
    assert onkel("detect", rows, "--state", tmp_path / "s").exit_code == 0
    state = State(tmp_path / "s", writable=False)
    noted = state.meta("settings")
    state.close()
    params = [param for task in TASKS for param in main.commands[task].params]
    options = {option for param in params for option in (*param.opts, *param.secondary_opts)}
    assert {option_of(name) for name in noted if name not in ("task", "timed")} <= options
