"""Runs that go on: a file that was changed, a last line without an end, a source that fails."""

from __future__ import annotations

import os
import signal
import time

import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import begin, json_lines, onkel, write_rows


@pytest.fixture
def run(rng, tmp_path):
    """A run with a state that has read a file; what starts it again."""
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(600, 2)))

    def again(*more):
        words = [
            "detect",
            path,
            "--all",
            "--state",
            tmp_path / "state",
            "-o",
            tmp_path / "out.jsonl",
        ]
        return onkel(*words, *more)

    assert again().exit_code == 0
    return again, path


def test_a_file_with_another_row_is_refused_and_nothing_changes(run, tmp_path) -> None:
    again, path = run
    data, out = path.read_bytes(), (tmp_path / "out.jsonl").read_bytes()
    at = data.index(b"\n", 9000) + 1
    path.write_bytes(data[:at] + b"1" + data[at:] + b"1.0,2.0\n")
    done = again()
    assert done.exit_code == 3 and "was changed since it was read: between its bytes" in done.output
    assert (tmp_path / "out.jsonl").read_bytes() == out
    path.write_bytes(data + b"1.0,2.0\n")
    assert again().exit_code == 0 and len(json_lines(tmp_path / "out.jsonl")) == 601


def test_a_last_line_is_learned_once_it_is_whole(run, tmp_path) -> None:
    again, path = run
    with open(path, "a") as file:
        file.write("1.5,")
    done = again()
    assert done.exit_code == 0 and "has no line end: it is left for the next run" in done.output
    with open(path, "a") as file:
        file.write("2.5\n")
    assert again("--json").exit_code == 0
    found = json_lines(tmp_path / "out.jsonl")
    assert [line["row"] for line in found] == list(range(601))
    assert not (tmp_path / "state" / "dead_letters.jsonl").read_text()


def test_a_run_that_follows_goes_on(rng, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(300, 2)))
    words = [
        "detect",
        path,
        "--all",
        "--follow",
        "--stop-after",
        0.3,
        "--state",
        tmp_path / "state",
    ]
    for rows in (300, 300, 301):
        done = onkel(*words, "-o", tmp_path / "out.jsonl")
        assert done.exit_code == 0, done.output
        assert len(json_lines(tmp_path / "out.jsonl")) == rows
        if rows == 300:
            more = "1.5," if path.read_bytes().endswith(b"\n") else "2.5\n"
            path.write_bytes(path.read_bytes() + more.encode())


def test_without_a_state_the_last_line_needs_no_end(rng, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(100, 2)))
    path.write_bytes(path.read_bytes() + b"1.5,2.5")
    assert onkel("detect", path, "--all", "-o", tmp_path / "out.jsonl").exit_code == 0
    assert len(json_lines(tmp_path / "out.jsonl")) == 101


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs /proc")
def test_an_error_of_the_disk_has_the_sources_exit_code(tmp_path) -> None:
    done = onkel("detect", "/proc/self/mem", "--format", "csv")
    assert done.exit_code == 3 and "/proc/self/mem: cannot be read: Input/output" in done.output


@pytest.mark.parametrize("ends", ["by itself", pytest.param("by a signal", marks=pytest.mark.long)])
def test_a_followed_file_that_becomes_a_pipe_ends_the_run(rng, tmp_path, ends) -> None:
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(100, 2)))
    out = tmp_path / "out.jsonl"
    process = begin("detect", path, "--follow", "--all", "-o", out, "--state", tmp_path / "state")
    try:
        until = time.monotonic() + 60
        while (not out.exists() or out.read_text().count("\n") < 100) and time.monotonic() < until:
            time.sleep(0.05)
        os.mkfifo(tmp_path / "pipe")
        os.rename(tmp_path / "pipe", path)
        if ends == "by a signal":
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) in ((3,) if ends == "by itself" else (3, 130))
    finally:
        process.kill()
        process.wait()
