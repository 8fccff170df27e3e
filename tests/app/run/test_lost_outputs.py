"""An output that is gone: a state goes on without it only where it is told to."""

from __future__ import annotations

import json
import signal

import pytest
from helpers.runs_of import command, onkel

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
HOW = ["--all", "--block", 64, "--every", 0, "--explain", "none"]


class Run:
    """A run over the first half of the rows, whose output is lost; then the second half comes."""

    def __init__(self, rows, folder, name="out.csv") -> None:
        self.rows, self.out, self.state = rows, folder / name, folder / "s"
        self.words = ["detect", rows, "-o", self.out, "--state", self.state, *HOW]
        lines = rows.read_text().splitlines(keepends=True)
        uncut = folder / f"uncut-{name}"
        assert onkel("detect", rows, "-o", uncut, *HOW).exit_code == 0
        self.head, *self.uncut = uncut.read_text().splitlines()
        rows.write_text("".join(lines[:301]))
        assert onkel(*self.words).exit_code == 0
        rows.write_text("".join(lines))

    def __call__(self, *more):
        return onkel(*self.words, *more)

    def held(self) -> list[str]:
        return self.out.read_text().splitlines()


@pytest.fixture
def run(rows, tmp_path):
    return Run(rows, tmp_path)


def test_a_lost_output_is_refused_and_the_way_on_is_named(run) -> None:
    run.out.unlink()
    done = run()
    assert done.exit_code == 4 and "is not there" in done.stderr
    assert "--output-lost" in done.stderr and not run.out.exists()


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_a_run_goes_on_without_what_is_lost(run, how) -> None:
    run.out.unlink() if how == "gone" else run.out.write_bytes(b"")
    done = run("--output-lost")
    assert done.exit_code == 0, done.output
    assert run.held() == [run.head, *run.uncut[300:]]
    told = f"results of the rows before row 300 are not in {run.out} (--output-lost)"
    assert told in done.stderr
    found = json.loads(onkel("inspect", run.state, "--json").stdout)
    assert found["output_lost"] == {str(run.out): 300} and found["rows"] == 600
    done = run()  # the output has one state again
    assert done.exit_code == 0 and told in done.stderr
    assert run.held() == [run.head, *run.uncut[300:]]


def test_it_is_recorded_before_anything_is_written(run) -> None:
    run.out.unlink()
    assert command(*run.words, "--output-lost", dies="output:3").returncode == -signal.SIGKILL
    assert run.out.read_bytes()  # more than the state knows of
    assert run().exit_code == 0 and run.held() == [run.head, *run.uncut[300:]]


def test_lost_dead_letters_begin_anew(run) -> None:
    lines = run.rows.read_text().splitlines()
    run.rows.write_text("\n".join([*lines[:301], "x,1", *lines[301:], "y,1"]) + "\n")
    dead = run.state / "dead_letters.jsonl"
    assert run().exit_code == 0 and len(dead.read_text().splitlines()) == 2
    dead.unlink()
    assert run().exit_code == 4
    done = run("--output-lost")
    assert done.exit_code == 0 and "before row 602 are not in" in done.stderr
    assert dead.read_text() == "" and len(run.held()) == 601


def test_another_file_in_its_place_is_left_alone(run) -> None:
    for text in ("mine\n", "mine\n" * 10_000):
        run.out.write_text(text)
        done = run("--output-lost")
        assert done.exit_code == 4 and run.out.read_text() == text, done.output


def test_a_refused_run_gives_nothing_up(run) -> None:
    run.out.unlink()
    done = run("--output-lost", "--nu", "0.2")
    assert done.exit_code == 4 and "other settings" in done.stderr
    done = run()
    assert done.exit_code == 4 and "is not there" in done.stderr


def test_there_is_nothing_to_lose_without_a_state(rows) -> None:
    done = onkel("detect", rows, "--output-lost")
    assert done.exit_code == 2 and "--state" in done.stderr


def test_nothing_lost_changes_nothing(run) -> None:
    done = run("--output-lost")
    assert done.exit_code == 0 and "--output-lost" not in done.stderr
    assert run.held() == [run.head, *run.uncut]
