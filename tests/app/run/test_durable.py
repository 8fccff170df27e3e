"""State: kills at chosen and random moments, torn and missing files, full disks, two processes."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import sqlite3
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.dying import POINTS
from helpers.runs_of import begin, carry_out, command, json_lines, onkel, write_rows
from helpers.sizes import size

from onkel.app.errors import OutputProblem, StateProblem
from onkel.app.run import outputs
from onkel.app.run.checkpoint import State
from onkel.app.run.ledger import Checkpoint
from onkel.app.run.store import is_own, read

ROWS, BLOCK = size((1500, 64), (3000, 128))  # as many blocks
HOW = ["--window", 200, "--block", BLOCK, "--every", 0, "--nu", 0.05, "--explain", "auto"]
WHO = f"process {os.getpid()}" if os.path.exists("/proc/locks") else "another process"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    rng = np.random.default_rng(zlib.crc32(b"durable"))
    folder = tmp_path_factory.mktemp("rows")
    X = rng.normal(size=(ROWS, 2))
    keys = [f"k{i}" for i in rng.integers(0, 20, ROWS)]
    path = write_rows(folder / "rows.csv", X, who=keys)
    text = path.read_text().splitlines()
    for i in range(50, len(text), 97):
        text[i] = "broken," + text[i]
    path.write_text("\n".join(text) + "\n")
    return path


@pytest.fixture(scope="module")
def uncut(rows, tmp_path_factory):
    """What a run gives that nobody kills: output and broken rows."""
    folder = tmp_path_factory.mktemp("uncut")
    done = carry_out("detect", rows, "--state", folder / "s", "-o", folder / "out", *HOW)
    assert done.returncode == 0, done.stderr
    return (folder / "out").read_bytes(), (folder / "s" / "dead_letters.jsonl").read_bytes()


def results(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "out").read_bytes(), (folder / "s" / "dead_letters.jsonl").read_bytes()


def run(rows: Path, folder: Path, *more, dies: str = ""):
    words = ["detect", rows, "--state", folder / "s", "-o", folder / "out", *HOW, *more]
    return command(*words, dies=dies) if dies else carry_out(*words)


@pytest.mark.parametrize("point", size(("before-commit",), POINTS))
@pytest.mark.parametrize("count", size([5], [1, 5]))
def test_a_death_at_a_chosen_moment_changes_nothing(rows, uncut, tmp_path, point, count) -> None:
    assert run(rows, tmp_path, dies=f"{point}:{count}").returncode == -signal.SIGKILL
    done = run(rows, tmp_path)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path) == uncut


@pytest.mark.long
def test_deaths_one_after_another(rows, uncut, tmp_path) -> None:
    for i, point in enumerate(POINTS * 2):
        run(rows, tmp_path, dies=f"{point}:{1 + i % 3}")
    assert run(rows, tmp_path).returncode == 0
    assert results(tmp_path) == uncut


@pytest.mark.long
def test_kills_at_random_moments(rows, uncut, tmp_path) -> None:
    chance = random.Random("random moments")
    words = ["detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out", *HOW]
    for _ in range(8):
        process = begin(*words)
        time.sleep(chance.uniform(0.15, 0.6))
        process.kill()
        process.wait()
    assert run(rows, tmp_path).returncode == 0
    assert results(tmp_path) == uncut


@pytest.mark.long
def test_models_by_key_survive_too(rows, tmp_path) -> None:
    more = ["--key", "who", "--models-in-memory", 5]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    assert run(rows, whole, *more).returncode == 0
    for point, count in (("model", 40), ("before-commit", 3), ("output", 9), ("cleanup", 2)):
        run(rows, cut, *more, dies=f"{point}:{count}")
    assert run(rows, cut, *more).returncode == 0
    assert results(cut) == results(whole)


@pytest.mark.parametrize("harm", size(["torn"], ["torn", "missing", "flipped"]))
def test_a_newest_model_that_the_disk_lost_costs_one_generation(
    rows, uncut, tmp_path, harm
) -> None:
    assert run(rows, tmp_path, dies="output:14").returncode == -signal.SIGKILL
    newest = max((tmp_path / "s").glob("models-*"), key=lambda p: int(p.stem.split("-")[1]))
    generation = State(tmp_path / "s", writable=False).kept()[0].checkpoint.generation
    assert newest.stem == f"models-{generation}"
    data = newest.read_bytes()
    if harm == "missing":
        newest.unlink()
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        newest.write_bytes(data[:middle] if harm == "torn" else flipped)
    assert run(rows, tmp_path).returncode == 0
    assert results(tmp_path) == uncut


@pytest.mark.long
@pytest.mark.parametrize("own", [False, True])
def test_what_is_damaged_is_named(rows, tmp_path, own) -> None:
    """A key's model; or what the state holds beside them: never by a name of its own."""
    more = ["--key", "who", "--models-in-memory", 3]
    assert run(rows, tmp_path, *more, dies="output:9").returncode == -signal.SIGKILL
    kept = State(tmp_path / "s", writable=False).kept()
    places = {(key, place) for one in kept for key, place in one.places.items()}
    for key, place in places:
        if is_own(key) == own:
            path = tmp_path / "s" / place.file
            data = bytearray(path.read_bytes())
            data[place.offset + place.length // 2] ^= 1
            path.write_bytes(data)
    done = run(rows, tmp_path, *more)
    said = "where it tells how keys are doing" if own else "at key 'k"
    assert done.returncode == 4 and f"is damaged, {said}" in done.stderr
    assert "\0" not in done.stderr and "\\x00" not in done.stderr


def test_a_state_without_any_whole_model_is_refused(rows, tmp_path) -> None:
    run(rows, tmp_path, dies="output:14")
    before = (tmp_path / "out").read_bytes()
    for path in (tmp_path / "s").glob("models-*"):
        path.write_bytes(b"nothing")
    done = run(rows, tmp_path)
    assert done.returncode == 4 and "damaged" in done.stderr
    assert (tmp_path / "out").read_bytes() == before


def test_an_output_that_was_cut_or_lost_is_noticed(rows, tmp_path) -> None:
    run(rows, tmp_path, dies="output:14")
    (tmp_path / "out").write_bytes(b"")
    done = run(rows, tmp_path)
    assert done.returncode == 4 and "bytes written to it" in done.stderr


def test_two_processes_are_refused(rows, tmp_path) -> None:
    state = State(tmp_path / "s")
    done = command("detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out", *HOW)
    assert done.returncode == 4 and f"in use by {WHO}" in done.stderr
    with pytest.raises(StateProblem):
        State(tmp_path / "s")
    state.close()
    assert run(rows, tmp_path).returncode == 0


def test_other_settings_are_refused_by_name(rows, tmp_path) -> None:
    assert run(rows, tmp_path).returncode == 0
    before = results(tmp_path)
    done = run(rows, tmp_path, "--nu", 0.01, "--ignore", "b")
    assert done.returncode == 4
    assert "--ignore was not given, is b; --nu was 0.05, is 0.01. Use those" in done.stderr
    assert results(tmp_path) == before
    assert run(rows, tmp_path, "--threads", 2).returncode == 0  # has no say in the results


@pytest.mark.long
def test_a_run_that_never_began_binds_nobody(rows, tmp_path) -> None:
    assert run(tmp_path / "none.csv", tmp_path, "--nu", 0.3).returncode == 3
    assert run(rows, tmp_path, "--target", 1).returncode == 2
    assert run(rows, tmp_path, dies="output:1").returncode == -signal.SIGKILL
    assert run(rows, tmp_path, "--nu", 0.01).returncode == 0


def test_another_file_is_refused(rows, tmp_path) -> None:
    assert run(rows, tmp_path).returncode == 0
    other = tmp_path / "rows.csv"
    other.write_text(rows.read_text().replace("a,b,who", "b,a,who", 1))
    done = run(other, tmp_path)
    assert done.returncode == 3 and "begins differently" in done.stderr


def test_a_finished_run_goes_on_when_the_file_has_grown(rows, uncut, tmp_path) -> None:
    text = rows.read_bytes()
    path = tmp_path / "rows.csv"
    at = text.index(b"\n", len(text) // 2) + 1
    path.write_bytes(text[:at])
    assert run(path, tmp_path).returncode == 0
    half = len((tmp_path / "out").read_bytes())
    path.write_bytes(text)
    assert run(path, tmp_path).returncode == 0
    found = json_lines(tmp_path / "out")
    assert half and [line["row"] for line in found] == sorted({line["row"] for line in found})
    told = json.loads(carry_out("inspect", tmp_path / "s", "--json").stdout)
    assert told["rows"] == ROWS and told["position"]["offset"] == len(text)


@pytest.mark.parametrize("words", [("detect", "--ignore", "y"), ("classify", "--target", "y")])
def test_a_run_that_finds_nothing_more_to_read_tells_what_the_one_before_told(
    rng, tmp_path, words
) -> None:
    X = rng.normal(size=(300, 2))
    path = write_rows(tmp_path / "rows.csv", X, y=np.where(X[:, 0] > 0, "up", "down"))
    run = [words[0], path, *words[1:], "--state", tmp_path / "s", "-o", tmp_path / "out"]
    first, again = (json.loads(onkel(*run, "--json").stdout) for _ in range(2))
    assert first == again and {"alerts_waiting", "in_words"} & first.keys()
    before = onkel("inspect", tmp_path / "s", "--json").stdout
    assert again.get("in_words", "") in onkel(*run).stderr
    assert onkel("inspect", tmp_path / "s", "--json").stdout == before  # it wrote nothing


def test_a_polite_kill_commits_and_says_so(rows, uncut, tmp_path) -> None:
    words = ["detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out", *HOW[:-4]]
    process = begin(*words, "--nu", 0.05, "--explain", "auto", "--follow")
    until = time.monotonic() + 60
    while time.monotonic() < until and not _rows(tmp_path / "s") >= ROWS:
        time.sleep(0.05)
    process.terminate()
    assert process.wait(30) == 130
    assert results(tmp_path) == uncut
    assert _rows(tmp_path / "s") == ROWS


def _rows(folder: Path) -> int:
    try:
        db = sqlite3.connect(f"file:{folder / 'state.sqlite'}?mode=ro", uri=True)
        row = db.execute("SELECT data FROM checkpoints ORDER BY generation DESC").fetchone()
        db.close()
    except sqlite3.Error:
        return 0
    return json.loads(row[0])["counters"]["rows"] if row else 0


@pytest.mark.long
def test_a_pipe_that_begins_anew_skips_what_is_known(rows, uncut, tmp_path) -> None:
    words = [
        "detect",
        "-",
        "--format",
        "csv",
        "--state",
        tmp_path / "s",
        "-o",
        tmp_path / "out",
        *HOW,
    ]
    for fault in ("output:7", "before-commit:9"):
        with open(rows) as file:
            done = command(*words, "--replay", stdin=file, dies=fault)
            assert done.returncode == -signal.SIGKILL
    with open(rows) as file:
        assert command(*words, "--replay", stdin=file).returncode == 0
    assert results(tmp_path) == uncut


# -- full disks --------------------------------------------------------------------------------


class Full:
    """A file on a disk that takes so many bytes and no more."""

    def __init__(self, file) -> None:
        self._file, self.left = file, 1000

    def write(self, data) -> int:
        if not self.left:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = self._file.write(data[: self.left])
        self.left -= done
        return done

    def __getattr__(self, name):
        return getattr(self._file, name)


def test_a_full_disk_stops_the_run_and_a_restart_continues(
    rows, uncut, tmp_path, monkeypatch
) -> None:
    from onkel.app import conduct

    opened = outputs.opened
    with monkeypatch.context() as patched:
        patched.setattr(outputs, "opened", lambda *how: Full(opened(*how)))
        options = _options(tmp_path)
        with pytest.raises(OutputProblem, match="No space left on device"):
            conduct.run("detect", str(rows), options)
    assert 0 < len((tmp_path / "out").read_bytes()) <= 1000
    assert run(rows, tmp_path).returncode == 0
    assert results(tmp_path) == uncut


def _options(folder: Path) -> dict:
    from onkel.app.cli import detect

    words = ["x", "--state", folder / "s", "-o", folder / "out", *HOW]
    context = detect.make_context("detect", [str(w) for w in words])
    return {k: v for k, v in context.params.items() if k != "source"}


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device(rows) -> None:
    done = command("detect", rows, "-o", "/dev/full")
    assert done.returncode == 5 and "No space left" in done.stderr
    with open("/dev/full", "w") as full:
        process = begin("detect", rows, stdout=full, stderr=-1)
        assert process.wait(60) == 5


# -- the store itself --------------------------------------------------------------------------


def test_two_generations_are_kept_and_nothing_else(tmp_path) -> None:
    state = State(tmp_path)
    for t in range(5):
        state.store.put("a", b"a%d" % t)
        if t == 1:
            state.store.put("b", b"b")
        state.commit(Checkpoint({"row": t}))
    assert state.store.get("a") == b"a4" and state.store.get("b") == b"b"
    files = sorted(p.name for p in tmp_path.glob("models-*"))
    assert files == ["models-2.onkel", "models-4.onkel", "models-5.onkel"]
    newest, before = State(tmp_path, writable=False).kept()
    assert newest.checkpoint.position == {"row": 4} and before.checkpoint.position == {"row": 3}
    held = {key: read(tmp_path, place) for key, place in before.places.items()}
    assert held == {"a": b"a3", "b": b"b"}
    state.close()
    shutil.rmtree(tmp_path / "gone", ignore_errors=True)
    with pytest.raises(StateProblem, match="no state"):
        State(tmp_path / "gone", writable=False)


def test_files_of_models_do_not_pile_up(tmp_path) -> None:
    from onkel import NoveltyDetector
    from onkel.app.run.store import Models

    state = State(tmp_path)
    models = Models(NoveltyDetector, state.store, most=3)
    for t in range(60):
        for key in ("idle",) if t == 0 else (f"k{t % 5}", f"k{(t + 1) % 5}"):
            models.get(key).partial_fit(np.full((2, 2000), t * 1.0))
        models.flush()
        models.compact()
        state.commit(Checkpoint({"row": t}))
    used, there = state.store.sizes()
    assert len(models) == 6 and there < 8 * used + 2**21
    assert os.path.exists(tmp_path / state.store.places["idle"].file)
    state.close()
