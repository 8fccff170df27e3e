"""Settings and options: what a file of settings may hold, what does not go together."""

from __future__ import annotations

import pytest
from helpers.runs_of import json_lines, onkel

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")


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


def test_options_that_do_not_go_together(rows) -> None:
    done = onkel("detect", rows, "--kernel", "linear", "--gamma", 3)
    assert done.exit_code == 2 and "--gamma does not go with Linear" in done.stderr
    done = onkel("detect", rows, "--kernel", "spectrum")
    assert done.exit_code == 2 and "texts" in done.stderr
