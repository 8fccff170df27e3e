"""Outputs: nothing is written over; devices and closed streams."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from helpers.runs_of import carry_out, environment, onkel

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")


def test_another_name_of_the_source_is_refused_as_output(rows, tmp_path) -> None:
    before = rows.read_bytes()
    os.link(rows, tmp_path / "other.csv")
    done = onkel("detect", rows, "-o", tmp_path / "other.csv")
    assert done.exit_code == 2 and "is the source as well" in done.stderr
    assert rows.read_bytes() == before


def test_the_states_own_files_are_no_outputs(rows, tmp_path) -> None:
    state = tmp_path / "s"
    assert onkel("detect", rows, "--state", state, "-o", tmp_path / "out").exit_code == 0
    for name in ("state.sqlite", "lock", "models-2.onkel", "dead_letters.jsonl"):
        done = onkel("detect", rows, "--state", state, "-o", state / name)
        assert done.exit_code == 2, name
    (tmp_path / "c.toml").write_text("nu = 0.1\n")
    words = ["--config", tmp_path / "c.toml", "-o", tmp_path / "c.toml"]
    assert onkel("detect", rows, *words).exit_code == 2
    assert onkel("detect", rows, "--dead-letters", "-").exit_code == 2


def test_a_wrong_address_leaves_the_old_output_alone(rows, tmp_path) -> None:
    pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
    kept = tmp_path / "kept"
    kept.write_text("what was there\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for address in ("foo", "0.0.0.0:0", taken.getsockname()[1]):
            done = onkel("detect", rows, "-o", kept, "--dashboard", address)
            assert done.exit_code == 2 and "token" not in done.stderr
    assert kept.read_text() == "what was there\n"


def test_a_device_may_be_an_output_again_and_again(rows, tmp_path) -> None:
    words = ["detect", rows, "--warmup", 0, "--nu", 0.1, "--state", tmp_path / "s"]
    for _ in range(2):
        assert carry_out(*words, "-o", os.devnull).returncode == 0


@pytest.mark.long
def test_closed_streams(rows, tmp_path) -> None:
    """As test_closed_pipes has them, of a run that finds something."""
    words = ["-m", "onkel.app", "detect", str(rows), "--warmup", "0", "--nu", "0.1"]
    words = [sys.executable, *words]
    how = {"env": environment(), "capture_output": True, "text": True}
    quoted = " ".join(f"'{w}'" for w in words)
    done = subprocess.run(["sh", "-c", f"exec {quoted} -o {tmp_path / 'o'} 2>&-"], **how)
    assert done.returncode == 0 and (tmp_path / "o").stat().st_size
    done = subprocess.run(["sh", "-c", f"exec {quoted} >&-"], **how)
    assert done.returncode == 5 and "closed" in done.stderr
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            how = {"env": environment(), "stdout": full, "stderr": subprocess.PIPE, "text": True}
            done = subprocess.run([*words, "-o", str(tmp_path / "o"), "--json"], **how)
        assert done.returncode == 5 and "standard output cannot be written" in done.stderr
