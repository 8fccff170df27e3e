"""Signals end a run whenever they come."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from helpers.runs_of import begin, onkel, write_rows
from helpers.sizes import size

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")


def catches(process: int, number: int) -> bool:
    """Whether a process has come so far that it minds a signal."""
    told = Path(f"/proc/{process}/status").read_text()
    (mask,) = re.findall(r"SigCgt:\s*([0-9a-f]+)", told)
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.parametrize("number", size([signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]))
def test_signals_before_the_first_row(tmp_path, number) -> None:
    process = begin("detect", "-", "-o", tmp_path / "out", stdin=subprocess.PIPE, stderr=-1)
    while not catches(process.pid, signal.SIGTERM):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(20) == 130
    assert process.stdin is not None
    process.stdin.close()


def test_a_signal_between_opening_and_learning(rows, tmp_path, monkeypatch) -> None:
    """It must not be lost: a run that follows a file would never end."""
    from onkel.app import conduct

    prepare = conduct.prepare

    def interrupted(*args):
        session = prepare(*args)
        signal.raise_signal(signal.SIGTERM)
        return session

    monkeypatch.setattr(conduct, "prepare", interrupted)
    done = onkel("detect", rows, "--follow", "-o", tmp_path / "out")
    assert done.exit_code == 130


def test_a_thread_of_its_own_may_run_the_command(rng, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(50, 2)))
    before, done = signal.getsignal(signal.SIGTERM), []
    thread = threading.Thread(target=lambda: done.append(onkel("detect", path, "--all")))
    thread.start()
    thread.join()
    assert done[0].exit_code == 0 and len(done[0].stdout.splitlines()) == 50, done[0].output
    assert signal.getsignal(signal.SIGTERM) is before
