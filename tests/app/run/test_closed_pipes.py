"""Standard output that nobody reads, or that is full: a code and at most a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import environment, onkel
from helpers.sizes import size

WRITING = {
    "help": ["--help"], "inspect": ["inspect", "STATE"], "dry-run": ["detect", "ROWS", "--dry-run"],
    "detect": ["detect", "ROWS", "--warmup", 0, "--nu", 0.3, "--all"],
    "summary": ["detect", "ROWS", "-o", os.devnull, "--json"],
    "detect help": ["detect", "--help"], "version": ["--version"],
    "completion": ["completion", "bash"], "inspect json": ["inspect", "STATE", "--json"],
    "dry-run json": ["detect", "ROWS", "--dry-run", "--json"],
    "demo": ["demo", "--examples", 200, "--output", "DEMO"],
}  # fmt: skip
PIPED, FULL = size((["detect"], ["inspect"]), (list(WRITING), list(WRITING)))


@pytest.fixture
def words(rows, tmp_path):
    """A function: the command line that a name stands for."""
    done = onkel("detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out")
    assert done.exit_code == 0
    places = {"ROWS": rows, "STATE": tmp_path / "s", "DEMO": tmp_path / "demo.html"}
    return lambda name: [str(places.get(word, word)) for word in WRITING[name]]


def run(words: list[str], **how) -> tuple[int, bytes]:
    full = [sys.executable, "-W", "ignore", "-m", "onkel.app", *words]
    process = subprocess.Popen(full, stderr=subprocess.PIPE, env=environment(), **how)
    if process.stdout is not None:
        process.stdout.close()  # as `| head` does, when it has seen enough
    assert process.stderr is not None
    return process.wait(60), process.stderr.read()


@pytest.mark.parametrize("name", PIPED)
def test_a_closed_pipe_ends_a_command_without_a_word(words, name) -> None:
    code, said = run(words(name), stdout=subprocess.PIPE)
    assert (code, said) == (5, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("name", FULL)
def test_a_full_disk_is_a_sentence(words, name) -> None:
    with open("/dev/full", "w") as full:
        code, said = run(words(name), stdout=full)
    assert code == 5 and said.count(b"\n") == 1 and b"No space left on device" in said, said


@pytest.mark.long
def test_a_service_whose_address_nobody_hears_ends(tmp_path) -> None:
    pytest.importorskip("uvicorn", reason="needs the extra serve: pip install onkel[serve]")
    words = ["serve", "--state", str(tmp_path / "models"), "--port", "0"]
    assert run(words, stdout=subprocess.PIPE) == (5, b"")


def test_a_closed_standard_output_is_told(words) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "onkel.app", *words("inspect")],
        env=environment(), stderr=subprocess.PIPE,
    )  # fmt: skip
    assert done.returncode == 5 and b"standard output is closed" in done.stderr


def test_what_nobody_hears_does_not_end_a_run(rows, tmp_path) -> None:
    """Warnings and summaries go to standard error; a run does not die of its being closed."""
    head, *lines = rows.read_text().splitlines()
    rows.write_text("\n".join([f"{head},note", *(f"{line},x" for line in lines)]) + "\n")
    full = [sys.executable, "-m", "onkel.app", "detect", str(rows), "-o", str(tmp_path / "out")]
    process = subprocess.Popen(full, stderr=subprocess.PIPE, env=environment())
    assert process.stderr is not None
    process.stderr.close()
    assert process.wait(60) == 0
