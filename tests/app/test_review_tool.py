"""What a hostile reading of the command and of the service found, each as a test."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from click.testing import CliRunner
from runs_of import begin, environment, json_lines, write_rows

from onkel.alerting import RecentScores
from onkel.app.cli import main
from onkel.app.live.watch import marks
from onkel.app.run.session import _scattered
from onkel.judge import ranks_at


def onkel(*words):
    return CliRunner().invoke(main, [str(w) for w in words])


@pytest.fixture
def rows(rng, tmp_path):
    return write_rows(tmp_path / "rows.csv", rng.normal(size=(600, 2)))


# -- nothing is written over -------------------------------------------------------------------


def test_another_name_of_the_source_is_the_source(rows, tmp_path) -> None:
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


# -- one row does not end a run ----------------------------------------------------------------


def test_a_number_beyond_single_precision_is_explained(rng, tmp_path) -> None:
    X = rng.normal(size=(3000, 2))
    X[2500, 0] = 1e39
    path = write_rows(tmp_path / "rows.csv", X)
    done = onkel("detect", path, "-o", tmp_path / "out", "--state", tmp_path / "s", "--all")
    assert done.exit_code == 0, done.output
    assert json_lines(tmp_path / "out")[2500]["score"] == 0.0


def test_ranks_in_bounded_memory(rng) -> None:
    scores, at = rng.normal(size=3000), np.arange(0, 3000, 7)
    for size in (1, 50, 2**18 + 1):
        recent = RecentScores(size)
        recent.extend(scores[:500])
        line = np.concatenate([scores[:500], scores])
        truth = []
        for i in (at + 500).tolist():
            window = line[max(i - size, 0) : i]
            truth.append((1 + sum(window <= line[i])) / (1 + len(window)))
        np.testing.assert_array_equal(ranks_at(recent, scores, at), truth)
    assert len(ranks_at(RecentScores(5), scores, at[:0])) == 0


def test_marks_of_a_regression_by_key() -> None:
    def part(*at):
        targets = [float(i) for i in at]
        columns = {
            "prediction": [t - t / 10 for t in targets],
            "low": [t - 1 - t / 10 for t in targets],
        }
        columns["high"] = [t + 1 + t / 10 for t in targets]
        return np.array(at), {**columns, "target": targets}

    drawn = marks("regression", _scattered([part(0, 2), part(1, 3)], 4))
    error, half, mark = drawn.value, drawn.limit, drawn.mark
    np.testing.assert_allclose(error, [0.0, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(half, [1.0, 1.1, 1.2, 1.3])
    assert not mark.any()


# -- states ------------------------------------------------------------------------------------


def test_a_state_that_moved_goes_on(rows, tmp_path) -> None:
    words = ["detect", rows, "-o", tmp_path / "out"]
    assert onkel(*words, "--state", tmp_path / "a").exit_code == 0
    os.rename(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "dead_letters.jsonl").unlink()  # nothing was in it
    with open(rows, "a") as file:
        file.write("0.5,0.5\n")
    done = onkel(*words, "--state", tmp_path / "b", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 601


def test_a_damaged_database_is_said_to_be(rows, tmp_path) -> None:
    words = ["detect", rows, "-o", tmp_path / "out", "--state", tmp_path / "s"]
    assert onkel(*words).exit_code == 0
    path = tmp_path / "s" / "state.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(b ^ 0x5A for b in data[4096:])
    path.write_bytes(bytes(data))
    for name in ("state.sqlite-wal", "state.sqlite-shm"):
        (tmp_path / "s" / name).unlink(missing_ok=True)
    for done in (onkel(*words), onkel("inspect", tmp_path / "s")):
        assert done.exit_code == 4 and "sqlite" not in str(done.exception), done.output


def test_a_run_and_a_service_do_not_share_a_folder(rows, tmp_path) -> None:
    pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
    from onkel.app.service.snapshots import Folder

    words = ["detect", rows, "-o", tmp_path / "out", "--state"]
    assert onkel(*words, tmp_path / "run").exit_code == 0
    done = onkel("serve", "--state", tmp_path / "run", "--port", 0)
    assert done.exit_code == 4 and "state of a run" in done.stderr
    Folder(tmp_path / "service").close()
    done = onkel(*words, tmp_path / "service")
    assert done.exit_code == 4 and "state of a service" in done.stderr
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "state.sqlite").write_bytes(b"garbage" * 1000)
    assert onkel(*words, tmp_path / "x").exit_code == 4
    assert onkel("serve", "--state", tmp_path / "x", "--port", 0).exit_code == 4


# -- words and exit codes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    ["nu = [1]", "nu = true", "nu = 2024-01-01", "state = 5", "all = 1", "strict = []",
     "block = 100.5", "every = true", 'output = ["x"]', 'source = "x"', "ignore = 3"],
)  # fmt: skip
def test_settings_of_another_kind(rows, tmp_path, line) -> None:
    (tmp_path / "c.toml").write_text(line + "\n")
    done = onkel("detect", rows, "--config", tmp_path / "c.toml")
    assert done.exit_code == 2 and line.split()[0] in done.stderr, done.output


def test_settings_as_one_would_write_them(rows, tmp_path) -> None:
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


def test_a_report_of_nothing(tmp_path) -> None:
    pytest.importorskip("bokeh", reason="needs bokeh: pip install onkel[report]")
    (tmp_path / "empty.csv").write_text("a,b\n")
    report = tmp_path / "r.html"
    done = onkel("detect", tmp_path / "empty.csv", "--report", report, "-o", tmp_path / "out")
    assert done.exit_code == 0 and "0 rows" in report.read_text()
    if os.path.exists("/dev/full"):
        done = onkel("detect", tmp_path / "empty.csv", "--report", "/dev/full")
        assert done.exit_code == 5 and "--report" in done.stderr


def test_devices_and_closed_streams(rows, tmp_path) -> None:
    words = ["-m", "onkel.app", "detect", str(rows)]
    words = [sys.executable, *words]
    how = {"env": environment(), "capture_output": True, "text": True}
    state = ["--state", str(tmp_path / "s"), "-o", os.devnull]
    assert subprocess.run([*words, *state], **how).returncode == 0
    assert subprocess.run([*words, *state], **how).returncode == 0
    quoted = " ".join(f"'{w}'" for w in words)
    done = subprocess.run(["sh", "-c", f"exec {quoted} -o {tmp_path / 'o'} 2>&-"], **how)
    assert done.returncode == 0 and (tmp_path / "o").stat().st_size
    done = subprocess.run(["sh", "-c", f"exec {quoted} >&-"], **how)
    assert done.returncode == 5 and "closed" in done.stderr
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            how = {"env": environment(), "stdout": full, "stderr": subprocess.PIPE, "text": True}
            done = subprocess.run([*words, "-o", str(tmp_path / "o"), "--json"], **how)
        assert done.returncode == 5 and "summary" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_before_the_first_row(tmp_path, number) -> None:
    process = begin("detect", "-", "-o", tmp_path / "out", stdin=subprocess.PIPE, stderr=-1)
    time.sleep(1.5)
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


def test_a_disk_that_was_full_for_a_while(tmp_path, monkeypatch) -> None:
    """A snapshot that failed is made again: nothing acknowledged is lost with the log."""
    pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
    from onkel.app.service.bodies import Entry
    from onkel.app.service.engine import Engine
    from onkel.app.service.limits import Limits
    from onkel.app.service.snapshots import Folder

    def learned(model, n):
        X = np.random.default_rng(n).normal(size=(n, 2))
        return Entry("learn", model, width=2, numbers=X.tobytes())

    engine = Engine(tmp_path / "s", Limits())
    engine.change(Entry("create", 0, name="a", kind="NoveltyDetector")).result(20)
    engine.change(learned(1, 200)).result(20)

    def full(*args):
        raise OSError(28, "No space left on device")

    for name in ("write_model", "commit"):
        with monkeypatch.context() as patched:
            patched.setattr(Folder, name, full)
            with pytest.raises(OSError, match="No space"):
                engine.snapshot()
        engine.change(learned(1, 100)).result(20)
    engine.snapshot()
    assert engine.slot("a").estimator.t_ == 400
    engine.close()
    again = Engine(tmp_path / "s", Limits())
    assert again.slot("a").estimator.t_ == 400
    again.close()


def test_a_request_that_is_sent_again_after_its_model_went(tmp_path) -> None:
    pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
    from serving import served

    with served(tmp_path / "s") as one:
        one.client.ok("POST", "/models", {"name": "a", "kind": "NoveltyDetector"})
        body = {"X": [[1.0], [2.0]]}
        key = {"Idempotency-Key": "learn"}
        first = one.client.send("POST", "/models/a/learn", body, key)
        gone = one.client.send("DELETE", "/models/a", b"", {"Idempotency-Key": "d"})
        assert first[0] == gone[0] == 200
        again = one.client.send("DELETE", "/models/a", b"", {"Idempotency-Key": "d"})
        assert (again[0], again[2]) == (gone[0], gone[2])
        again = one.client.send("POST", "/models/a/learn", body, key)
        assert (again[0], again[2]) == (first[0], first[2])
        assert one.client.send("POST", "/models/a/learn", body)[0] == 404
