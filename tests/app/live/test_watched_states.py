"""A state folder on the page: a run that is over, one that goes on; nothing of it changes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
from helpers.runs_of import begin, environment, json_lines, onkel, write_rows

from onkel.app.errors import StateProblem
from onkel.app.live.board import Board
from onkel.app.live.states import Folder


@pytest.fixture
def run(rng, tmp_path):
    """A run of a detector over rows with a fault, its output with all rows, and its folder."""
    X = rng.normal(size=(3000, 3))
    X[2000:2030, 1] += 8.0
    path = write_rows(tmp_path / "rows.csv", X)
    words = ["detect", path, "--all", "-o", tmp_path / "out", "--state", tmp_path / "s"]
    assert onkel(*words).exit_code == 0
    return json_lines(tmp_path / "out"), tmp_path / "s"


def test_a_run_that_is_over(run):
    lines, folder = run
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    board = Board()
    shown = Folder(board, str(folder))
    assert shown.look() and not shown.look()
    found = board.changes("s")
    score, alert = (np.array([line[n] for line in lines]) for n in ("score", "alert"))
    assert found["finished"] and found["t"] == 3000 and found["marks"] == alert.sum()
    assert found["numbers"]["rarity"] and found["numbers"]["promised"] == 0.01
    first = 0
    for bucket in found["buckets"]:
        rows = slice(first, bucket["t"])
        first = bucket["t"]
        assert bucket["rows"] == len(score[rows]) and bucket["marks"] == alert[rows].sum()
        assert (bucket["low"], bucket["high"]) == (score[rows].min(), score[rows].max())
        assert bucket["mean"] == pytest.approx(score[rows].mean())
        assert bucket["peak"] == (score[rows].min() if alert[rows].any() else None)
    assert first == 3000 and len(found["buckets"]) >= 375
    assert [a["t"] - 1 for a in board.alerts("s", 0, 200)["alerts"]] == [
        line["row"] for line in lines[::-1] if line["alert"]
    ][:200]
    numbers = {line["incident"] for line in lines if line["alert"]}
    assert {one["incident"] for one in found["incidents"]} == set(sorted(numbers)[-50:])
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    kept = [name for name in before if not name.endswith(("-shm", "-wal"))]
    assert all(before[name] == after[name] for name in kept)


def test_what_has_not_changed_is_not_opened(run, monkeypatch):
    """With many keys to open a state takes a second, and a page looks every second."""
    from onkel.app.live import states

    opened, real = [], states.State
    monkeypatch.setattr(states, "State", lambda *a, **h: opened.append(1) or real(*a, **h))
    _, folder = run
    shown = Folder(Board(), str(folder))
    assert shown.look() and not shown.look() and not shown.look()
    assert len(opened) <= 2  # looking may itself tidy up the database, once
    id = shown.board.alerts("s", 0, 1)["alerts"][0]["id"]
    assert onkel("feedback", folder, id, "usual").exit_code == 0
    before = len(opened)
    assert shown.look() and not shown.look() and not shown.look()
    assert before < len(opened) <= before + 2


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_other_tasks(rng, tmp_path, task):
    X = rng.normal(size=(1200, 2))
    y = np.where(X[:, 0] > 0, "a", "b") if task == "classify" else X[:, 0]
    path = write_rows(tmp_path / "rows.csv", X, y=y)
    words = [task, path, "--target", "y", "-o", tmp_path / "out", "--state", tmp_path / "s"]
    assert onkel(*words).exit_code == 0
    board = Board()
    Folder(board, str(tmp_path / "s")).look()
    found = board.changes("s")
    assert sum(b["rows"] for b in found["buckets"]) == 1200 and found["numbers"]["members"]
    assert json.dumps(found, allow_nan=False)
    if task == "classify":
        wrong = [r["prediction"] != r["target"] for r in json_lines(tmp_path / "out")]
        assert found["marks"] == sum(wrong) == sum(b["marks"] for b in found["buckets"])


def test_a_folder_without_a_run_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    done = onkel("watch", tmp_path / "empty")
    assert done.exit_code == 4 and "holds no state" in done.output
    with pytest.raises(StateProblem):
        Folder(Board(), str(tmp_path / "empty")).look()


@pytest.mark.long
def test_a_run_that_goes_on_is_not_disturbed(rng, tmp_path):
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(800, 2)))
    words = ["detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out", "--follow"]
    process = begin(*words, stderr=subprocess.DEVNULL)
    try:
        board = Board()
        shown, stop = Folder(board, str(tmp_path / "s")), time.monotonic() + 60
        while time.monotonic() < stop and not seen(shown, 800):
            time.sleep(0.1)
        assert board.changes("s")["t"] == 800
        assert board.changes("s")["finished"] is False
        with open(path, "a") as file:
            file.write("0.5,0.5\n" * 100)
        stop = time.monotonic() + 60
        while time.monotonic() < stop and not seen(shown, 900):
            time.sleep(0.1)
        assert board.changes("s")["t"] == 900
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130
    shown.look()
    assert board.changes("s")["finished"] is True


def seen(shown, rows) -> bool:
    try:
        shown.look()
    except StateProblem:  # not yet there
        return False
    return shown.board.changes("s")["t"] == rows


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command(run, number):
    """It ends at a signal, also where a shell has started it behind itself (without Ctrl-C)."""
    _, folder = run
    full = [sys.executable, "-W", "ignore", "-m", "onkel.app", "watch", str(folder)]
    process = subprocess.Popen(
        full, env=environment(), stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    try:
        line = process.stderr.readline()
        assert f"{folder} is shown at http://127.0.0.1:" in line
        url = line.split(" at ")[1].split(" ")[0]
        with urllib.request.urlopen(f"{url}/live/s/alerts?count=3") as answer:
            assert len(json.load(answer)["alerts"]) == 3
    finally:
        process.send_signal(number)
        assert process.wait(30) == 0


def test_a_dashboard_says_how_to_look_again(rng, tmp_path):
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(500, 2)))
    words = ["detect", path, "-o", tmp_path / "out", "--dashboard", "0"]
    done = onkel(*words)
    assert done.exit_code == 0 and "give the run a --state, then onkel watch DIR" in done.output
    done = onkel(*words[:-3], tmp_path / "o2", *words[-2:], "--state", tmp_path / "s")
    assert done.exit_code == 0 and f"onkel watch {tmp_path / 's'}" in done.output
